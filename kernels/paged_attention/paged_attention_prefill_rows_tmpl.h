/*
 * Register kernels for QUIRE_VECS vectors of a panel and any number of rows up to ROW_TILE. Define
 * it, then include.
 */
#define QUIRE_ROWS 1
#include "paged_attention_prefill_block_tmpl.h"
#define QUIRE_ROWS 2
#include "paged_attention_prefill_block_tmpl.h"
#define QUIRE_ROWS 4
#include "paged_attention_prefill_block_tmpl.h"
#define QUIRE_ROWS 6
#include "paged_attention_prefill_block_tmpl.h"

#define ROWS_PASTE_(name, rows, vecs) name##_##rows##_##vecs
#define ROWS_PASTE(name, rows, vecs) ROWS_PASTE_(name, rows, vecs)
#define ROWS_BLOCK(name, rows) ROWS_PASTE(name, rows, QUIRE_VECS)
#define ROWS_NAME_(name, vecs) name##_##vecs
#define ROWS_NAME(name, vecs) ROWS_NAME_(name, vecs)

/* Up to 6, 4 or 2 rows, whichever is enough. */
static void ROWS_NAME(score_rows, QUIRE_VECS)(const float *queries, size_t query_stride,
                                              const float *keys, size_t size, float *scores,
                                              prefill_ahead *ahead, int rows) {
  if (rows > 4) {
    ROWS_BLOCK(score_block, 6)(queries, query_stride, keys, size, scores, ahead);
  } else if (rows > 2) {
    ROWS_BLOCK(score_block, 4)(queries, query_stride, keys, size, scores, ahead);
  } else {
    ROWS_BLOCK(score_block, 2)(queries, query_stride, keys, size, scores, ahead);
  }
}

/* Exactly so many rows. */
static void ROWS_NAME(value_rows, QUIRE_VECS)(const value_block *b, int rows) {
  if (rows == ROW_TILE) {
    ROWS_BLOCK(value_block, 6)(b);
    return;
  }
  value_block rest = *b;
  for (int part = 4; part > 0; part /= 2) {
    if ((rows & part) == 0) {
      continue;
    }
    if (part == 4) {
      ROWS_BLOCK(value_block, 4)(&rest);
    } else if (part == 2) {
      ROWS_BLOCK(value_block, 2)(&rest);
    } else {
      ROWS_BLOCK(value_block, 1)(&rest);
    }
    rest.weights += part * QUIRE_PAGED_TILE;
    rest.factors = rest.factors != NULL ? rest.factors + part : NULL;
    rest.accumulators += (size_t)part * rest.stride;
    rest.firsts = rest.firsts != NULL ? rest.firsts + part : NULL;
    rest.ends = rest.ends != NULL ? rest.ends + part : NULL;
  }
}

#undef ROWS_PASTE_
#undef ROWS_PASTE
#undef ROWS_BLOCK
#undef ROWS_NAME_
#undef ROWS_NAME
#undef QUIRE_VECS
