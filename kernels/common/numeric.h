/*
 * The arithmetic that every kernel shares: conversions, the fixed-order dot product, elementary
 * functions and the merge of softmax states. One order of operations for all instruction sets:
 * docs/numerics.md (rules NU-1 to NU-9).
 */
#ifndef QUIRE_KERNELS_NUMERIC_H
#define QUIRE_KERNELS_NUMERIC_H

#include <float.h>
#include <stddef.h>
#include <stdint.h>

#include "quire/tensor.h"

_Static_assert(FLT_EVAL_METHOD == 0, "a float must be computed as a float: see docs/numerics.md");

/* NU-1: exact widening, one rounding to nearest even. NaN stays NaN. */
float quire_f16_to_f32(uint16_t bits);
uint16_t quire_f32_to_f16(float value);
float quire_bf16_to_f32(uint16_t bits);
uint16_t quire_f32_to_bf16(float value);

/* Element `index` of a row as f32: f32, f16, bf16, int8. */
float quire_load_f32(quire_dtype dtype, const void *row, int64_t index);
/* n contiguous elements from `row` on. */
void quire_widen_row(quire_dtype dtype, const void *row, size_t n, float *out);
/* Rounds n values once into a row of f32, f16 or bf16. */
void quire_narrow_row(quire_dtype dtype, const float *values, size_t n, void *row);

/* NU-3: 16 virtual lanes, then the tree i+8, i+4, i+2, i+1. */
float quire_dot(const float *a, const float *b, size_t n);
float quire_lane_tree(const float lanes[16]);

/* NU-5: one sequence of f32 operations for every instruction set. */
float quire_exp(float x);
float quire_log(float x);   /* x > 0; log(0) = -inf, NaN stays */
float quire_log1p(float x); /* x > -1; log1p(-1) = -inf, NaN stays */
float quire_tanh(float x);
float quire_sigmoid(float x);
float quire_softplus(float x); /* max(x, 0) + log1p(exp(-|x|)) */

/* NU-6: a softmax state (m, l) beside its accumulator row of n values; folds b into a.
   accumulator_b NULL: a row of zeros (a sink). */
typedef struct quire_softmax_state {
  float maximum; /* m */
  float sum;     /* l */
} quire_softmax_state;
void quire_softmax_merge(quire_softmax_state *a, float *accumulator_a, const quire_softmax_state *b,
                         const float *accumulator_b, size_t n);

#endif
