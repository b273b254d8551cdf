/* The kernels of LinearAttention on the CPU, for the registry. */
#ifndef QUIRE_LINEAR_ATTENTION_KERNELS_H
#define QUIRE_LINEAR_ATTENTION_KERNELS_H

#include "pass.h"

extern const quire_implementation_list quire_kernels_linear_attention;

#endif
