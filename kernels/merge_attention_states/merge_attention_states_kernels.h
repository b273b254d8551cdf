/* The kernel of MergeAttentionStates. */
#ifndef QUIRE_KERNELS_MERGE_ATTENTION_STATES_KERNELS_H
#define QUIRE_KERNELS_MERGE_ATTENTION_STATES_KERNELS_H

#include "pass.h"

extern const quire_implementation_list quire_kernels_merge_attention_states;

#endif
