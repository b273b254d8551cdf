/* The kernels of CausalConvWithState on the CPU, for the registry. */
#ifndef QUIRE_CAUSAL_CONV_KERNELS_H
#define QUIRE_CAUSAL_CONV_KERNELS_H

#include "pass.h"

extern const quire_implementation_list quire_kernels_causal_conv;

#endif
