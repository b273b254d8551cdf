/* NU-6 and NU-8, word by word, for one row and head: what kernels must give bit for bit. */
#ifndef QUIRE_TESTS_PAGED_EXACT_H
#define QUIRE_TESTS_PAGED_EXACT_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Keys and values of positions [first, end) as f32 rows of `size`, from row 0 on; visible[j] says
 * whether position first + j is mapped. query holds q'. sink NULL: none. v_scale NULL: none, else
 * one factor a channel. key_scales, value_scales NULL: none, else one a position: they multiply
 * scores and weights. piece_length 0: ranges of 512 in groups of 16; else pieces from `first` on.
 */
typedef struct exact_row {
  int64_t first, end, size;
  const float *query, *keys, *values, *v_scale, *sink;
  const float *key_scales, *value_scales;
  const bool *visible;
  float softcap;
  bool gemm_order;
  int64_t piece_length;
} exact_row;

void exact_attend(const exact_row *row, float *output, float *lse);

#endif
