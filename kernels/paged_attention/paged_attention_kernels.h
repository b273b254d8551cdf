/* The kernels of PagedAttention; attend and merge also serve PagedDecode. */
#ifndef QUIRE_KERNELS_PAGED_ATTENTION_KERNELS_H
#define QUIRE_KERNELS_PAGED_ATTENTION_KERNELS_H

#include "pass.h"

extern const quire_implementation_list quire_kernels_paged_attention;

#endif
