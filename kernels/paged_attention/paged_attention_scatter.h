/* Scatter: the walk that all instruction sets share, around the rounding of a row to int8. */
#ifndef QUIRE_KERNELS_PAGED_ATTENTION_SCATTER_H
#define QUIRE_KERNELS_PAGED_ATTENTION_SCATTER_H

#include <stdbool.h>
#include <stdint.h>

#include "pass.h"

/* Stores n elements of a row as int8 (X6); one scale, or one for each channel. */
typedef void quire_quantise_function(quire_dtype dtype, const void *source, const float *scales,
                                     bool per_channel, int64_t n, int8_t *out);

void quire_scatter_items(const quire_pass *pass, size_t x, quire_quantise_function *quantise_rows);

#endif
