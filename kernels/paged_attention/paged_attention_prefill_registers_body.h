/*
 * The register kernels of prefill: scores of 6 rows and a panel of keys, and weights times values
 * of up to 6 rows and a panel of columns. A register holds lanes over keys, or over columns; every
 * lane is one chain of the order (NU-8, NU-6), so neither shape nor width can change a bit.
 *
 * 6 rows times 4 vectors keep 24 of 32 registers as sums; AVX2 has 16 and takes 6 times 2.
 */
#ifndef QUIRE_KERNELS_PAGED_ATTENTION_PREFILL_REGISTERS_H
#define QUIRE_KERNELS_PAGED_ATTENTION_PREFILL_REGISTERS_H

#include "paged_work.h"
#include "simd.h"

/* Shapes are compile-time constants at every call: the kernels must be inlined. */
#if defined(__GNUC__)
#define PREFILL_INLINE static inline __attribute__((always_inline))
#else
#define PREFILL_INLINE static inline
#endif

enum {
  ROW_TILE = QUIRE_PAGED_SPARE_ROWS,
  PANEL_VECS = VEC_LANES == 8 ? 2 : 4,
  PANEL = PANEL_VECS * VEC_LANES,
  TILE_VECS = QUIRE_PAGED_TILE / VEC_LANES,
  PREFILL_LINE = 64
};

/*
 * A word is what meets in one lane: an f32, or in precision `fast` two bf16 neighbours (channels of
 * a score, keys of a value), which AVX512-BF16 multiplies and adds in one step. The exact order
 * cuts scores into pieces of 32 channels (NU-8).
 */
#ifdef QUIRE_PREFILL_BF16
enum { WORD_ELEMENTS = 2, SCORE_PIECE = 4096 };
static inline vec word_multiply_add(vec a, vec b, vec sum) {
  return _mm512_dpbf16_ps(sum, (__m512bh)_mm512_castps_si512(a), (__m512bh)_mm512_castps_si512(b));
}
#else
enum { WORD_ELEMENTS = 1, SCORE_PIECE = 32 };
static inline vec word_multiply_add(vec a, vec b, vec sum) {
  return vec_fma(a, b, sum);
}
#endif

/*
 * The rows of the next tile that are still to be prefetched. The kernels ask for `burst` lines in
 * each step: a core holds few requests at a time, and waits with more.
 */
typedef struct prefill_ahead {
  const char *at, *end;   /* in the current row */
  const char *const *row; /* the rows after it; NULL among them: nothing to read */
  const char *const *last;
  size_t bytes; /* of a row */
  int burst;
} prefill_ahead;

static inline void prefetch_lines(prefill_ahead *ahead) {
  for (int i = 0; i < ahead->burst; ++i) {
    if (ahead->at >= ahead->end) {
      if (ahead->row == ahead->last) {
        return;
      }
      ahead->at = *ahead->row++;
      ahead->end = ahead->at != NULL ? ahead->at + ahead->bytes : NULL;
    }
    if (ahead->at < ahead->end) {
      vec_prefetch(ahead->at);
      ahead->at += PREFILL_LINE;
    }
  }
}

/* scores[row][key] by `size` words of `rows` rows and the first `vecs` vectors of a panel of
 * keys. */
PREFILL_INLINE void score_registers(const float *queries, size_t query_stride, const float *keys,
                                    size_t size, float *scores, prefill_ahead *ahead,
                                    const int rows, const int vecs) {
  for (size_t piece = 0; piece < size; piece += SCORE_PIECE) {
    const size_t end = size - piece < SCORE_PIECE ? size : piece + SCORE_PIECE;
    vec sums[ROW_TILE][PANEL_VECS];
    for (int row = 0; row < rows; ++row) {
      for (int i = 0; i < vecs; ++i) {
        sums[row][i] = vec_zero();
      }
    }
    for (size_t d = piece; d < end; ++d) {
      prefetch_lines(ahead);
      vec key[PANEL_VECS];
      for (int i = 0; i < vecs; ++i) {
        key[i] = vec_load(keys + d * PANEL + (size_t)i * VEC_LANES);
      }
      for (int row = 0; row < rows; ++row) {
        const vec q = vec_set(queries[(size_t)row * query_stride + d]);
        for (int i = 0; i < vecs; ++i) {
          sums[row][i] = word_multiply_add(q, key[i], sums[row][i]);
        }
      }
    }
    for (int row = 0; row < rows; ++row) {
      float *out = scores + row * QUIRE_PAGED_TILE;
      for (int i = 0; i < vecs; ++i) {
        const vec sum = sums[row][i];
        vec_store(out + i * VEC_LANES,
                  piece == 0 ? sum : vec_add(vec_load(out + i * VEC_LANES), sum));
      }
    }
  }
}

#define SCORE_ROWS(vecs)                                                                      \
  static void score_rows_##vecs(const float *queries, size_t query_stride, const float *keys, \
                                size_t size, float *scores, prefill_ahead *ahead, int rows) { \
    if (rows > 4) {                                                                           \
      score_registers(queries, query_stride, keys, size, scores, ahead, ROW_TILE, vecs);      \
    } else if (rows > 2) {                                                                    \
      score_registers(queries, query_stride, keys, size, scores, ahead, 4, vecs);             \
    } else {                                                                                  \
      score_registers(queries, query_stride, keys, size, scores, ahead, 2, vecs);             \
    }                                                                                         \
  }
SCORE_ROWS(1)
SCORE_ROWS(2)
#if !defined(__AVX2__) || defined(__AVX512F__)
SCORE_ROWS(3)
SCORE_ROWS(4)
#endif
#undef SCORE_ROWS

/* rows: 1 to ROW_TILE; up to that many, and their scores, may be touched. */
static void score_panel(const float *queries, size_t query_stride, const float *keys, size_t size,
                        float *scores, prefill_ahead *ahead, int rows, int vecs) {
  switch (vecs) {
    case 1:
      score_rows_1(queries, query_stride, keys, size, scores, ahead, rows);
      break;
    case 2:
      score_rows_2(queries, query_stride, keys, size, scores, ahead, rows);
      break;
#if !defined(__AVX2__) || defined(__AVX512F__)
    case 3:
      score_rows_3(queries, query_stride, keys, size, scores, ahead, rows);
      break;
    default:
      score_rows_4(queries, query_stride, keys, size, scores, ahead, rows);
      break;
#endif
  }
}

/* Where `rows` rows of weights meet keys [first, end) of a panel of `vecs` vectors of columns. */
typedef struct value_block {
  const float *weights; /* [row][QUIRE_PAGED_TILE], in words */
  const float *factors; /* of what was there, one a row; NULL: 1 */
  const float *values;  /* [word][vecs * VEC_LANES] */
  float *accumulators;
  size_t stride;     /* of accumulators */
  size_t first, end; /* keys, in words */
  prefill_ahead *ahead;
} value_block;

/* acc = acc * factor, then one chain over the keys, ascending. */
PREFILL_INLINE void value_registers(const value_block *b, const int rows, const int vecs) {
  vec sums[ROW_TILE][PANEL_VECS];
  for (int row = 0; row < rows; ++row) {
    const float *from = b->accumulators + (size_t)row * b->stride;
    for (int i = 0; i < vecs; ++i) {
      sums[row][i] = vec_load(from + i * VEC_LANES);
      if (b->factors != NULL) {
        sums[row][i] = vec_mul(sums[row][i], vec_set(b->factors[row]));
      }
    }
  }
  const float *weights = b->weights;
  const float *values = b->values + b->first * (size_t)(vecs * VEC_LANES);
  const size_t end = b->end;
  for (size_t key = b->first; key < end; ++key, values += vecs * VEC_LANES) {
    vec v[PANEL_VECS];
    prefetch_lines(b->ahead);
    for (int i = 0; i < vecs; ++i) {
      v[i] = vec_load(values + i * VEC_LANES);
    }
    for (int row = 0; row < rows; ++row) {
      const vec w = vec_set(weights[(size_t)row * QUIRE_PAGED_TILE + key]);
      for (int i = 0; i < vecs; ++i) {
        sums[row][i] = word_multiply_add(w, v[i], sums[row][i]);
      }
    }
  }
  for (int row = 0; row < rows; ++row) {
    float *to = b->accumulators + (size_t)row * b->stride;
    for (int i = 0; i < vecs; ++i) {
      vec_store(to + i * VEC_LANES, sums[row][i]);
    }
  }
}

#define VALUE_ROWS(vecs)                                                \
  static void value_rows_##vecs(const value_block *b, int rows) {       \
    if (rows == ROW_TILE) {                                             \
      value_registers(b, ROW_TILE, vecs);                               \
      return;                                                           \
    }                                                                   \
    value_block rest = *b;                                              \
    for (int part = 4; part > 0; part /= 2) {                           \
      if ((rows & part) == 0) {                                         \
        continue;                                                       \
      }                                                                 \
      if (part == 4) {                                                  \
        value_registers(&rest, 4, vecs);                                \
      } else if (part == 2) {                                           \
        value_registers(&rest, 2, vecs);                                \
      } else {                                                          \
        value_registers(&rest, 1, vecs);                                \
      }                                                                 \
      rest.weights += part * QUIRE_PAGED_TILE;                          \
      rest.factors = rest.factors != NULL ? rest.factors + part : NULL; \
      rest.accumulators += (size_t)part * rest.stride;                  \
    }                                                                   \
  }
VALUE_ROWS(1)
VALUE_ROWS(2)
#if !defined(__AVX2__) || defined(__AVX512F__)
VALUE_ROWS(3)
VALUE_ROWS(4)
#endif
#undef VALUE_ROWS

/* rows: 1 to ROW_TILE. */
static void value_panel(const value_block *b, int rows, int vecs) {
  switch (vecs) {
    case 1:
      value_rows_1(b, rows);
      break;
    case 2:
      value_rows_2(b, rows);
      break;
#if !defined(__AVX2__) || defined(__AVX512F__)
    case 3:
      value_rows_3(b, rows);
      break;
    default:
      value_rows_4(b, rows);
      break;
#endif
  }
}

#endif
