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
#include "simd_repeat.h"

/* Inlined into a caller of many variables, a kernel would lose registers to them. */
#if defined(__GNUC__)
#define PREFILL_APART static __attribute__((noinline))
#else
#define PREFILL_APART static
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

/* Where `rows` rows of weights meet keys [first, end) of a panel of `vecs` vectors of columns. */
typedef struct value_block {
  const float *weights; /* [row][QUIRE_PAGED_TILE], in words */
  const float *factors; /* of what was there, one a row; NULL: 1 */
  const float *values;  /* [word][vecs * VEC_LANES] */
  float *accumulators;
  size_t stride;     /* of accumulators */
  size_t first, end; /* keys, in words */
  /* Keys of each row; what lies outside of [first, end) it meets alone. NULL: none do. */
  const uint8_t *firsts, *ends;
  prefill_ahead *ahead;
} value_block;

#define QUIRE_VECS 1
#include "paged_attention_prefill_rows_tmpl.h"
#define QUIRE_VECS 2
#include "paged_attention_prefill_rows_tmpl.h"
#if !defined(__AVX2__) || defined(__AVX512F__)
#define QUIRE_VECS 3
#include "paged_attention_prefill_rows_tmpl.h"
#define QUIRE_VECS 4
#include "paged_attention_prefill_rows_tmpl.h"
#endif

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
