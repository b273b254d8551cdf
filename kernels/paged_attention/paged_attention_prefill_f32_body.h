/*
 * Prefill in f32: how rows of every element type are packed, and a row's weights and values. In
 * precision `fast` paged_attention_prefill_bf16_body.h takes this file's place.
 */
#ifndef QUIRE_KERNELS_PAGED_ATTENTION_PREFILL_F32_H
#define QUIRE_KERNELS_PAGED_ATTENTION_PREFILL_F32_H

#include "paged_attention_prefill_walk_body.h"

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
#include "paged_attention_prefill_pack_body.h"
#define QUIRE_ELEMENT f16
#define QUIRE_ELEMENT_BYTES 2
#include "paged_attention_prefill_pack_body.h"
#define QUIRE_ELEMENT bf16
#define QUIRE_ELEMENT_BYTES 2
#include "paged_attention_prefill_pack_body.h"
#define QUIRE_ELEMENT i8
#define QUIRE_ELEMENT_BYTES 1
#include "paged_attention_prefill_pack_body.h"

static void choose_packing(prefill_walk *walk) {
  static const struct {
    quire_dtype dtype;
    pack_keys_function *keys;
    pack_values_function *values;
    scale_query_function *query;
  } table[] = {
      {QUIRE_FLOAT32, pack_keys_f32, pack_values_f32, scale_query_f32},
      {QUIRE_FLOAT16, pack_keys_f16, pack_values_f16, scale_query_f16},
      {QUIRE_BFLOAT16, pack_keys_bf16, pack_values_bf16, scale_query_bf16},
      {QUIRE_INT8, pack_keys_i8, pack_values_i8, scale_query_i8},
  };
  for (size_t i = 0; i < sizeof table / sizeof *table; ++i) {
    if (table[i].dtype == walk->call.key_cache->dtype) {
      walk->pack_keys = table[i].keys;
    }
    if (table[i].dtype == walk->call.value_cache->dtype) {
      walk->pack_values = table[i].values;
    }
    if (table[i].dtype == walk->call.query->dtype) {
      walk->scale_query = table[i].query;
    }
  }
}

/* A score as it is. */
static inline vec finished_score(const prefill_walk *walk, vec x) {
  (void)walk;
  return x;
}

static inline void store_weights(float *weights, const vec *w) {
  for (size_t i = 0; i < TILE_VECS; ++i) {
    vec_store(weights + i * VEC_LANES, w[i]);
  }
}

/* Rows that do not see the same keys. */
static void value_apart(const prefill_walk *walk, const prefill_tile *t, size_t column,
                        const value_block *b, int rows, int vecs) {
  (void)walk;
  (void)t;
  (void)column;
  value_panel(b, rows, vecs);
}

#endif
