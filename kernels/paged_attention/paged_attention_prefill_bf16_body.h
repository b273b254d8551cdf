/*
 * Prefill in precision `fast` (NU-10): queries, keys, values and weights meet in pairs of bf16, two
 * products a lane and step, sums in f32. Scores are of unscaled queries, so their products are
 * exact; weights are rounded to bf16. Replaces paged_attention_prefill_f32_body.h.
 */
#ifndef QUIRE_KERNELS_PAGED_ATTENTION_PREFILL_BF16_H
#define QUIRE_KERNELS_PAGED_ATTENTION_PREFILL_BF16_H

#include "paged_attention_prefill_walk_body.h"

static inline vec load_f32(const char *row) {
  return vec_load((const float *)(const void *)row);
}
static inline vec load_first_f32(const char *row, size_t n) {
  return vec_load_first((const float *)(const void *)row, n);
}

/* Words move as f32 do. */
#define QUIRE_ELEMENT f32
#define QUIRE_ELEMENT_BYTES 4
#include "paged_attention_prefill_pack_body.h"

static void pack_key_pairs(const prefill_tile *t, size_t size, float *panels) {
  pack_keys_f32(t, size / WORD_ELEMENTS, panels);
}

static inline __m512i value_half(const char *row, size_t column, size_t size) {
  if (row == NULL || column >= size) {
    return _mm512_setzero_si512();
  }
  const size_t n = size - column < VEC_LANES ? size - column : VEC_LANES;
  return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(vec_first(n), row + 2 * column));
}

/* Panel after panel of columns, each [pair of keys][columns]: the earlier key in the lower half. */
static void pack_value_pairs(const prefill_tile *t, size_t first, size_t end, size_t size,
                             float *panels) {
  const size_t padded = prefill_padded(size);
  for (size_t column = 0; column < padded; column += PANEL) {
    const size_t width = padded - column < PANEL ? padded - column : PANEL;
    float *out = panels + column * QUIRE_PAGED_TILE / WORD_ELEMENTS;
    for (size_t pair = first / 2; pair < (end + 1) / 2; ++pair) {
      for (size_t c = 0; c < width; c += VEC_LANES) {
        const __m512i low = value_half(t->values[2 * pair], column + c, size);
        const __m512i high = value_half(t->values[2 * pair + 1], column + c, size);
        const __m512i both = _mm512_or_si512(low, _mm512_slli_epi32(high, 16));
        vec_store(out + pair * width + c, _mm512_castsi512_ps(both));
      }
    }
  }
}

static void copy_query(const char *row, const float *factors, size_t size, float *out) {
  (void)factors;
  memcpy(out, row, size * sizeof(uint16_t));
}

static void choose_packing(prefill_walk *walk) {
  walk->pack_keys = pack_key_pairs;
  walk->pack_values = pack_value_pairs;
  walk->scale_query = copy_query;
}

/* The scale, which the queries have not met. */
static inline vec finished_score(const prefill_walk *walk, vec x) {
  return vec_mul(x, vec_set(walk->call.scale));
}

/* Weights in pairs, in the place of the first half of the scores. */
static inline void store_weights(float *weights, const vec *w) {
  for (int i = 0; i < TILE_VECS; i += 2) {
    const __m512bh pairs = _mm512_cvtne2ps_pbh(w[i + 1], w[i]);
    vec_store(weights + i / 2 * VEC_LANES, _mm512_castsi512_ps((__m512i)pairs));
  }
}

/* Keys [first, end) for a single row: not in pairs, since a neighbour may be invisible. */
static void value_alone(const prefill_walk *walk, const prefill_tile *t, size_t column,
                        const value_block *b, int row, const float *factor, int64_t first,
                        int64_t end, int vecs) {
  uint16_t weights[QUIRE_PAGED_TILE];
  memcpy(weights, b->weights + row * QUIRE_PAGED_TILE, sizeof weights);
  for (int i = 0; i < vecs; ++i) {
    float *out = b->accumulators + (size_t)row * b->stride + i * VEC_LANES;
    const size_t at = column + (size_t)(i * VEC_LANES);
    vec sum = vec_load(out);
    if (factor != NULL) {
      sum = vec_mul(sum, vec_set(*factor));
    }
    for (int64_t key = first; key < end; ++key) {
      const vec v = _mm512_castsi512_ps(
          _mm512_slli_epi32(value_half(t->values[key], at, walk->value_size), 16));
      sum = vec_fma(vec_set(quire_bf16_to_f32(weights[key])), v, sum);
    }
    vec_store(out, sum);
  }
}

/* Rows that do not see the same keys. */
static void value_apart(const prefill_walk *walk, const prefill_tile *t, size_t column,
                        const value_block *b, int rows, int vecs) {
  value_block common = *b;
  const int64_t first = (int64_t)b->first * WORD_ELEMENTS;
  const int64_t end = (int64_t)b->end * WORD_ELEMENTS;
  for (int i = 0; i < rows && b->firsts != NULL; ++i) {
    value_alone(walk, t, column, b, i, b->factors + i, b->firsts[i], lesser(first, b->ends[i]),
                vecs);
    common.factors = NULL;
  }
  common.firsts = NULL;
  common.ends = NULL;
  if (first < end) {
    value_panel(&common, rows, vecs);
  }
  for (int i = 0; i < rows; ++i) {
    if (end < b->ends[i]) {
      value_alone(walk, t, column, b, i, NULL, end, b->ends[i], vecs);
    }
  }
}

#endif
