/* The kernels of PagedDecode: its schedule. Attend and merge are PagedAttention's. */
#ifndef QUIRE_KERNELS_PAGED_DECODE_KERNELS_H
#define QUIRE_KERNELS_PAGED_DECODE_KERNELS_H

#include "pass.h"

extern const quire_implementation_list quire_kernels_paged_decode;

#endif
