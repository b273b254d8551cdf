/* The kernels of LinearAttentionReplay on the CPU, for the registry. */
#ifndef QUIRE_LINEAR_ATTENTION_REPLAY_KERNELS_H
#define QUIRE_LINEAR_ATTENTION_REPLAY_KERNELS_H

#include "pass.h"

extern const quire_implementation_list quire_kernels_linear_attention_replay;

#endif
