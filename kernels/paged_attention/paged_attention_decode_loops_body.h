/* Decode over the SIMD vocabulary: the inner loops, for every element type of the caches. */
#ifndef QUIRE_KERNELS_PAGED_ATTENTION_DECODE_LOOPS_BODY_H
#define QUIRE_KERNELS_PAGED_ATTENTION_DECODE_LOOPS_BODY_H

#include "paged_work.h"
#include "simd.h"

enum {
  ATTEND_KEYS = 8,                      /* of a sub-block, at most */
  ATTEND_KEYS_F32 = 4,                  /* of one of f32, for 4, 8, ... queries */
  MOST_KEYS = 32,                       /* of a sub-block of values */
  MOST_AHEAD = MOST_KEYS / ATTEND_KEYS, /* bytes to prefetch for a byte read */
  ATTEND_LINE = 64,                     /* bytes of a cache line */
  /* Queries and scores of a chunk. */
  CHUNK_FLOATS = 6144,
  CHUNK_QUERIES = 80,                             /* CHUNK_FLOATS / (16 + tile), in whole vectors */
  DECODE_HEAD_SIZE = 1024,                        /* larger ones are left to plain C */
  SUB_BLOCKS = QUIRE_PAGED_TILE / ATTEND_KEYS_F32 /* of a tile, at most */
};

/* Keys beside 4 or 2 queries, and vectors of columns likewise: sums that fit in registers. */
#if VEC_REGISTERS >= 32
#define ATTEND_BY_4 4
#define ATTEND_BY_2 8
#else
#define ATTEND_BY_4 2
#define ATTEND_BY_2 4
#endif

/* step(0) step(1) ...; and inside of one, step(x, 0) step(x, 1) ... */
#define OUTER_1(step) step(0)
#define OUTER_2(step) step(0) step(1)
#define OUTER_4(step) OUTER_2(step) step(2) step(3)
#define OUTER_8(step) OUTER_4(step) step(4) step(5) step(6) step(7)
#define INNER_1(step, x) step(x, 0)
#define INNER_2(step, x) step(x, 0) step(x, 1)
#define INNER_4(step, x) INNER_2(step, x) step(x, 2) step(x, 3)
#define INNER_8(step, x) INNER_4(step, x) step(x, 4) step(x, 5) step(x, 6) step(x, 7)
#define UNROLL_PASTE_(name, count) name##_##count
#define UNROLL_PASTE(name, count) UNROLL_PASTE_(name, count)
#define OUTER(count, step) UNROLL_PASTE(OUTER, count)(step)
#define INNER(count, step, x) UNROLL_PASTE(INNER, count)(step, x)

/* A sub-block's rows, of K/V head 0; `offset` leads to another head, in bytes. */
typedef struct attend_rows {
  const char *const *rows;
  ptrdiff_t offset;
  int count; /* of keys; scores read all 8 or 4 of a sub-block */
} attend_rows;

/* What to prefetch: pieces of memory, one after the other. */
typedef struct attend_piece {
  const char *at, *end;
} attend_piece;
typedef struct attend_ahead {
  const char *at, *end;      /* in the current piece */
  const attend_piece *piece; /* those after it */
  const attend_piece *last;
  int shift; /* MOST_AHEAD / 2^shift bytes are prefetched for a byte read */
} attend_ahead;

/* Prefetches what belongs to `bytes` that are read, a power of two. */
static inline void prefetch_ahead(attend_ahead *ahead, ptrdiff_t read) {
  const ptrdiff_t bytes = (read * MOST_AHEAD) >> ahead->shift;
  if (ahead->at >= ahead->end) {
    if (ahead->piece == ahead->last) {
      return;
    }
    ahead->at = ahead->piece->at;
    ahead->end = ahead->piece->end;
    ++ahead->piece;
  }
  const char *at = ahead->at;
  ahead->at += bytes;
  if (bytes < ATTEND_LINE && ((uintptr_t)at & (ATTEND_LINE - 1)) >= (uintptr_t)bytes) {
    return; /* asked for already */
  }
  for (ptrdiff_t line = 0; line < bytes; line += ATTEND_LINE) {
    vec_prefetch(at + line);
  }
}

static inline size_t attend_padded(size_t n) {
  return (n + 15) / 16 * 16;
}

#define ELEMENT_LOADS(element, type, full, first)                     \
  static inline vec load_##element(const char *row) {                 \
    return full((const type *)(const void *)row);                     \
  }                                                                   \
  static inline vec load_first_##element(const char *row, size_t n) { \
    return first((const type *)(const void *)row, n);                 \
  }
ELEMENT_LOADS(f32, float, vec_load, vec_load_first)
ELEMENT_LOADS(f16, uint16_t, vec_load_f16, vec_load_first_f16)
ELEMENT_LOADS(bf16, uint16_t, vec_load_bf16, vec_load_first_bf16)
ELEMENT_LOADS(i8, int8_t, vec_load_i8, vec_load_first_i8)
#undef ELEMENT_LOADS

#define QUIRE_ELEMENT f32
#define QUIRE_ELEMENT_BYTES 4
#include "paged_attention_element_body.h"
#define QUIRE_ELEMENT f16
#define QUIRE_ELEMENT_BYTES 2
#include "paged_attention_element_body.h"
#define QUIRE_ELEMENT bf16
#define QUIRE_ELEMENT_BYTES 2
#include "paged_attention_element_body.h"
#define QUIRE_ELEMENT i8
#define QUIRE_ELEMENT_BYTES 1
#include "paged_attention_element_body.h"

typedef struct element_loops {
  void (*scores)(const attend_rows *rows, attend_ahead *ahead, const float *q, size_t n,
                 size_t count, float *scores);
  void (*values)(const attend_rows *rows, attend_ahead *ahead, const float *weights,
                 const float *factors, size_t n, size_t count, float *const *accumulators);
} element_loops;

static element_loops loops_of(quire_dtype dtype) {
  switch (dtype) {
    case QUIRE_FLOAT16:
      return (element_loops){scores_f16, values_f16};
    case QUIRE_BFLOAT16:
      return (element_loops){scores_bf16, values_bf16};
    case QUIRE_INT8:
      return (element_loops){scores_i8, values_i8};
    default:
      return (element_loops){scores_f32, values_f32};
  }
}

#endif
