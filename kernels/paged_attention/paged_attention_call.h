/* Attend and merge: what the passes' views mean, and the steps that they share. */
#ifndef QUIRE_KERNELS_PAGED_ATTENTION_CALL_H
#define QUIRE_KERNELS_PAGED_ATTENTION_CALL_H

#include <stdbool.h>
#include <stdint.h>

#include "numeric.h"
#include "paged_work.h"
#include "pass.h"

enum {
  QUIRE_ATTEND_COLUMNS = 1024, /* value channels at a time: bounds the stack for any head size */
  QUIRE_ATTEND_CHUNK = 256     /* channels widened at a time; a multiple of 32 */
};

/* Where finished rows go. */
typedef struct quire_attend_target {
  const quire_view *output;      /* [rows, heads * value_size], or [rows, heads, value_size] */
  const quire_view *softmax_lse; /* [rows, heads], optional */
  const quire_view *head_sink;   /* [heads], optional */
  const quire_view *v_scale;     /* [1] or [kv heads, 1, value_size], optional */
  int64_t heads_per_kv;
  int64_t value_size;
} quire_attend_target;

/* A state under construction; without a visible key there is none. */
typedef struct quire_attend_state {
  bool seen;
  quire_softmax_state softmax;
  float *accumulator;
} quire_attend_state;

/* Folds b into a; the first state is a copy (NU-6). n values. */
void quire_attend_fold(quire_attend_state *a, const quire_attend_state *b, size_t n);

/* Merges the sink, divides, applies the V channel scales, rounds, stores channels
   [first_column, first_column + n) of a row and head. Consumes the state. */
void quire_attend_finish(const quire_attend_target *target, int64_t row, int64_t head,
                         int64_t first_column, size_t n, quire_attend_state *state);

/*
 * One call of attend. Scales of an int8 cache are one for all, or one a channel, which the query
 * meets (k_scale) and the result (target's v_scale); or one a token and head: the key's multiplies
 * the finished dot product, the value's the weight, each rounded (NU-6).
 */
typedef struct quire_attend_call {
  const quire_view *query;
  const quire_view *key_cache;     /* [blocks, rows of a block, kv heads, head_size] */
  const quire_view *value_cache;   /* [blocks, rows of a block, kv heads, value_size] */
  const quire_view *block_table;   /* [sequences, columns] */
  const quire_view *k_scale;       /* [1] or [kv heads, 1, head_size], optional */
  const quire_view *k_scale_cache; /* [blocks, rows of a block, kv heads], optional */
  const quire_view *v_scale_cache; /* [blocks, rows of a block, kv heads], optional */
  int64_t head_size;               /* rows of a cache may be longer: padding */
  float scale;
  float softcap; /* 0: none */
} quire_attend_call;

/* A new token and a query head, and the keys that they may see. */
typedef struct quire_attend_query {
  const quire_attend_call *call;
  int64_t sequence;
  int64_t row;
  int64_t head;
  int64_t kv_head;
  bool gemm_order;
} quire_attend_query;

/*
 * Attends to keys [first, end) in tiles of 64: the state of one piece, for the value channels
 * [first_column, first_column + n) (n <= QUIRE_ATTEND_COLUMNS). The scores do not depend on the
 * columns.
 */
void quire_attend_keys(const quire_attend_query *query, int64_t first, int64_t end,
                       int64_t first_column, size_t n, quire_attend_state *state);

/* The views of attend, in the order of its bindings, and its uniforms. */
enum {
  QUIRE_ATTEND_QUERY,
  QUIRE_ATTEND_KEY_CACHE,
  QUIRE_ATTEND_VALUE_CACHE,
  QUIRE_ATTEND_BLOCK_TABLE,
  QUIRE_ATTEND_K_SCALE,
  QUIRE_ATTEND_V_SCALE,
  QUIRE_ATTEND_K_SCALE_CACHE,
  QUIRE_ATTEND_V_SCALE_CACHE,
  QUIRE_ATTEND_HEAD_SINK,
  QUIRE_ATTEND_OUTPUT,
  QUIRE_ATTEND_SOFTMAX_LSE,
  QUIRE_ATTEND_ITEMS,
  QUIRE_ATTEND_PARTIAL_VALUES,
  QUIRE_ATTEND_PARTIAL_STATS,
  QUIRE_ATTEND_QUEUE,
  QUIRE_ATTEND_QUEUE_TAKEN,
  QUIRE_ATTEND_PANELS, /* a slice for each runner: for vector kernels */
  QUIRE_ATTEND_ROWS,
  QUIRE_ATTEND_WORK_VALUES, /* states under construction: for vector kernels */
  QUIRE_ATTEND_WORK_STATS
};

typedef struct quire_attend_uniforms {
  uint32_t num_heads;
  float scale; /* 0: 1/sqrt(head size) */
  float softcap;
  uint32_t window; /* 0: none */
  uint32_t is_causal;
  uint32_t head_size;
  uint32_t value_size;
} quire_attend_uniforms;

/* Where the scale of a row of a block lies in a cache of scales, of K/V head 0. */
static inline const float *quire_scale_at(const quire_view *scales, int64_t block, int64_t row) {
  return (const float *)scales->data + block * scales->stride[0] + row * scales->stride[1];
}

/* What a pass says. */
void quire_attend_open(const quire_pass *pass, quire_attend_call *call,
                       quire_attend_target *target);

/* The whole of an item, in plain C: what a vector implementation leaves to it gives its bits. */
void quire_paged_attention_attend_item(const quire_pass *pass, const quire_paged_item *item);

/* The whole of an item; grid index x may be a runner's. */
typedef void quire_attend_function(const quire_pass *pass, const quire_paged_item *item, size_t x);

/* Items in the order of one-token calls. */
quire_attend_function quire_paged_attention_attend_short_avx2;
quire_attend_function quire_paged_attention_attend_short_avx512;
quire_attend_function quire_paged_attention_attend_short_neon;
/* Items in the GEMM-shaped order. */
quire_attend_function quire_paged_attention_attend_long_avx2;
quire_attend_function quire_paged_attention_attend_long_avx512;
quire_attend_function quire_paged_attention_attend_long_neon;
/* Precision fast. */
quire_attend_function quire_paged_attention_attend_long_avx512bf16;
quire_attend_function quire_paged_attention_attend_long_amx;

/* All items of grid index x. */
quire_status quire_attend_items(const quire_pass *pass, size_t x,
                                quire_attend_function *attend_short,
                                quire_attend_function *attend_long);

/* The row of index x of the merge pass, and where it goes. */
const quire_paged_merge_row *quire_merge_open(const quire_pass *pass, size_t x,
                                              quire_attend_target *target);
/* Its i-th stored state of a head, to be read only. */
quire_attend_state quire_merge_state(const quire_pass *pass, const quire_paged_merge_row *row,
                                     int64_t head, int64_t i, int64_t value_size);

#endif
