/* Scatter: the walk that all instruction sets share, around the rounding of a row to int8. */
#ifndef QUIRE_KERNELS_PAGED_ATTENTION_SCATTER_H
#define QUIRE_KERNELS_PAGED_ATTENTION_SCATTER_H

#include <stdbool.h>
#include <stdint.h>

#include "pass.h"

/*
 * How n elements of a row become int8. `quantise` with given scales (X6): one, or one for each
 * channel. `measure` with a scale of the row's own (X7), which it returns.
 */
typedef struct quire_row_rounding {
  void (*quantise)(quire_dtype dtype, const void *source, const float *scales, bool per_channel,
                   int64_t n, int8_t *out);
  float (*measure)(quire_dtype dtype, const void *source, int64_t n, int8_t *out);
} quire_row_rounding;

void quire_scatter_items(const quire_pass *pass, size_t x, const quire_row_rounding *rounding);

/* X7: the scale of a row whose largest magnitude is `largest`; 1 where that would be 0. */
static inline float quire_row_scale(float largest) {
  const float scale = largest / 127.0f;
  return scale == 0.0f ? 1.0f : scale;
}

#endif
