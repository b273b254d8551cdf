/*
 * The two inner loops of attend in the order of NU-3, for caches of one element type: scores of
 * some keys, and weights times values. Included for each type by
 * paged_attention_decode_loops_body.h with QUIRE_ELEMENT (f32, f16, bf16, i8) and
 * QUIRE_ELEMENT_BYTES defined.
 *
 * Both read the rows of a sub-block of at most 8 keys, and prefetch as many bytes of another as
 * they read, evenly: a burst of requests would be dropped.
 */
#define ELEMENT_(name, element) name##_##element
#define ELEMENT_PASTE(name, element) ELEMENT_(name, element)
#define ELEMENT(name) ELEMENT_PASTE(name, QUIRE_ELEMENT)

#define QUIRE_SUFFIX 4
#define QUIRE_QUERIES 4
#define QUIRE_KEYS ATTEND_BY_4
#define QUIRE_VECS ATTEND_BY_4
#define QUIRE_ROW_BY_ROW 0
#include "paged_attention_block_tmpl.h"
#define QUIRE_SUFFIX 2
#define QUIRE_QUERIES 2
#define QUIRE_KEYS ATTEND_BY_2
#define QUIRE_VECS ATTEND_BY_2
#define QUIRE_ROW_BY_ROW 0
#include "paged_attention_block_tmpl.h"
#define QUIRE_SUFFIX 1
#define QUIRE_QUERIES 1
#define QUIRE_KEYS 8
#define QUIRE_VECS ATTEND_BY_2
#define QUIRE_ROW_BY_ROW 0
#include "paged_attention_block_tmpl.h"
/*
 * For rows of f32 that 4 queries use once, with vectors as wide as a line: memory is the limit, and
 * more instructions for each line are better, since a core that looks far ahead asks for more lines
 * than it can hold, and drops them.
 */
#define QUIRE_SUFFIX lean
#define QUIRE_QUERIES 4
#define QUIRE_KEYS ATTEND_BY_4
#define QUIRE_VECS 1
#define QUIRE_ROW_BY_ROW 1
#include "paged_attention_block_tmpl.h"
#define ELEMENT_IS_LEAN(count) (QUIRE_ELEMENT_BYTES == 4 && VEC_LANES == 16 && (count) == 4)

#define BY(name, queries) ELEMENT_PASTE(ELEMENT(name), queries)

/* Scores of a sub-block of 8 keys (or 4, for whole fours of queries) for `count` queries; those of
   a query are a tile's row. */
static void ELEMENT(scores)(const attend_rows *rows, attend_ahead *ahead, const float *q, size_t n,
                            size_t count, float *scores) {
  const size_t stride = attend_padded(n);
  const bool lean = ELEMENT_IS_LEAN(count);
  for (; count >= 4; count -= 4) {
    for (int key = 0; key < rows->count; key += ATTEND_BY_4) {
      if (lean) {
        BY(score_block, lean)(rows, key, ahead, q, n, scores);
      } else {
        BY(score_block, 4)(rows, key, ahead, q, n, scores);
      }
    }
    q += 4 * stride;
    scores += 4 * QUIRE_PAGED_TILE;
  }
  if (count >= 2) {
    for (int key = 0; key < ATTEND_KEYS; key += ATTEND_BY_2) {
      BY(score_block, 2)(rows, key, ahead, q, n, scores);
    }
    q += 2 * stride;
    scores += 2 * QUIRE_PAGED_TILE;
    count -= 2;
  }
  if (count == 1) {
    BY(score_block, 1)(rows, 0, ahead, q, n, scores);
  }
}

/* Weights times values of at most 8 keys for `count` queries; factors may be NULL. */
static void ELEMENT(values)(const attend_rows *rows, attend_ahead *ahead, const float *weights,
                            const float *factors, size_t n, size_t count,
                            float *const *accumulators) {
  if (ELEMENT_IS_LEAN(count)) {
    BY(value_columns, lean)(rows, ahead, n, weights, factors, accumulators);
    return;
  }
  while (count > 0) {
    size_t step = 1;
    if (count >= 4) {
      step = 4;
      BY(value_columns, 4)(rows, ahead, n, weights, factors, accumulators);
    } else if (count >= 2) {
      step = 2;
      BY(value_columns, 2)(rows, ahead, n, weights, factors, accumulators);
    } else {
      BY(value_columns, 1)(rows, ahead, n, weights, factors, accumulators);
    }
    weights += step * QUIRE_PAGED_TILE;
    factors = factors != NULL ? factors + step : NULL;
    accumulators += step;
    count -= step;
  }
}

#undef BY
#undef ELEMENT_IS_LEAN
#undef ELEMENT
#undef ELEMENT_PASTE
#undef ELEMENT_
#undef QUIRE_ELEMENT
#undef QUIRE_ELEMENT_BYTES
