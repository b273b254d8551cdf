/* The tiles of NU-6: scores, weights, and weights times values. */
#include <math.h>

#include "paged_attention_call.h"

/* Rows of one head in a tile's keys; NULL where no key is visible. */
typedef struct tile {
  const char *key_rows[QUIRE_PAGED_TILE];
  const char *value_rows[QUIRE_PAGED_TILE];
  float k_scales[QUIRE_PAGED_TILE]; /* where they are one a token and head */
  float v_scales[QUIRE_PAGED_TILE];
  float weights[QUIRE_PAGED_TILE]; /* scores first */
} tile;

static const char *cache_row(const quire_view *cache, int64_t block, int64_t row, int64_t head) {
  const int64_t offset =
      block * cache->stride[0] + row * cache->stride[1] + head * cache->stride[2];
  return (const char *)cache->data + offset * (int64_t)quire_dtype_size(cache->dtype);
}

static float scale_of(const quire_view *scales, int64_t block, int64_t row, int64_t head) {
  return quire_scale_at(scales, block, row)[head * scales->stride[2]];
}

/* Finds the rows of keys [first, end) of the tile at tile_first; false if none is mapped. */
static bool locate_rows(const quire_attend_query *query, int64_t tile_first, int64_t first,
                        int64_t end, tile *t) {
  const quire_view *table = query->call->block_table;
  const quire_view *keys = query->call->key_cache;
  const int32_t *entries = (const int32_t *)table->data + query->sequence * table->stride[0];
  const int64_t block_size = keys->shape[1];
  bool any = false;
  for (int64_t i = 0; i < QUIRE_PAGED_TILE; ++i) {
    const int64_t position = tile_first + i;
    t->key_rows[i] = NULL;
    t->value_rows[i] = NULL;
    if (position < first || position >= end || position / block_size >= table->shape[1]) {
      continue;
    }
    const int64_t block = entries[(position / block_size) * table->stride[1]];
    if (block < 0 || block >= keys->shape[0]) {
      continue;
    }
    const int64_t row = position % block_size;
    t->key_rows[i] = cache_row(keys, block, row, query->kv_head);
    t->value_rows[i] = cache_row(query->call->value_cache, block, row, query->kv_head);
    if (query->call->k_scale_cache->data != NULL) {
      t->k_scales[i] = scale_of(query->call->k_scale_cache, block, row, query->kv_head);
    }
    if (query->call->v_scale_cache->data != NULL) {
      t->v_scales[i] = scale_of(query->call->v_scale_cache, block, row, query->kv_head);
    }
    any = true;
  }
  return any;
}

/* q'_d = q_d * f_d, f_d = scale, or scale * k_scale_d: each rounded once. */
static void scale_query(const quire_attend_query *query, int64_t first, size_t n, float *out) {
  const quire_attend_call *call = query->call;
  const int64_t head_size = call->head_size;
  const int64_t offset = query->row * call->query->stride[0] + query->head * head_size + first;
  const size_t size = quire_dtype_size(call->query->dtype);
  quire_widen_row(call->query->dtype, (const char *)call->query->data + offset * (int64_t)size, n,
                  out);
  const float *k_scale = call->k_scale->data;
  for (size_t d = 0; d < n; ++d) {
    float factor = call->scale;
    if (k_scale != NULL) {
      const int64_t channel = query->kv_head * head_size + first + (int64_t)d;
      factor *= k_scale[call->k_scale->ndim == 1 ? 0 : channel];
    }
    out[d] *= factor;
  }
}

static const char *row_at(const char *row, quire_dtype dtype, int64_t channel) {
  return row + channel * (int64_t)quire_dtype_size(dtype);
}

/* Scores by NU-3: 16 lanes a key, carried over the chunks. */
static void score_lanes(const quire_attend_query *query, tile *t) {
  const quire_view *keys = query->call->key_cache;
  const int64_t head_size = query->call->head_size;
  float lanes[QUIRE_PAGED_TILE][16] = {{0.0f}};
  float q[QUIRE_ATTEND_CHUNK];
  float k[QUIRE_ATTEND_CHUNK];
  for (int64_t first = 0; first < head_size; first += QUIRE_ATTEND_CHUNK) {
    const int64_t left = head_size - first;
    const size_t n = left < QUIRE_ATTEND_CHUNK ? (size_t)left : QUIRE_ATTEND_CHUNK;
    scale_query(query, first, n, q);
    for (size_t i = 0; i < QUIRE_PAGED_TILE; ++i) {
      if (t->key_rows[i] == NULL) {
        continue;
      }
      quire_widen_row(keys->dtype, row_at(t->key_rows[i], keys->dtype, first), n, k);
      for (size_t d = 0; d < n; ++d) {
        lanes[i][d % 16] = fmaf(q[d], k[d], lanes[i][d % 16]);
      }
    }
  }
  for (size_t i = 0; i < QUIRE_PAGED_TILE; ++i) {
    t->weights[i] = quire_lane_tree(lanes[i]);
  }
}

/* Scores by NU-8: pieces of 32 channels, each one chain from 0; pieces added ascending. */
static void score_pieces(const quire_attend_query *query, tile *t) {
  const quire_view *keys = query->call->key_cache;
  const int64_t head_size = query->call->head_size;
  float q[QUIRE_ATTEND_CHUNK];
  float k[QUIRE_ATTEND_CHUNK];
  for (int64_t first = 0; first < head_size; first += QUIRE_ATTEND_CHUNK) {
    const int64_t left = head_size - first;
    const size_t n = left < QUIRE_ATTEND_CHUNK ? (size_t)left : QUIRE_ATTEND_CHUNK;
    scale_query(query, first, n, q);
    for (size_t i = 0; i < QUIRE_PAGED_TILE; ++i) {
      if (t->key_rows[i] == NULL) {
        continue;
      }
      quire_widen_row(keys->dtype, row_at(t->key_rows[i], keys->dtype, first), n, k);
      for (size_t piece = 0; piece < n; piece += 32) {
        float chain = 0.0f;
        for (size_t d = piece; d < n && d < piece + 32; ++d) {
          chain = fmaf(q[d], k[d], chain);
        }
        t->weights[i] = first == 0 && piece == 0 ? chain : t->weights[i] + chain;
      }
    }
  }
}

/* Scores times the scales of their keys, weights times those of their values. */
static void scale_tile(const float *scales, tile *t) {
  for (size_t i = 0; i < QUIRE_PAGED_TILE; ++i) {
    if (t->key_rows[i] != NULL) {
      t->weights[i] *= scales[i];
    }
  }
}

static void cap_scores(float cap, tile *t) {
  for (size_t i = 0; i < QUIRE_PAGED_TILE; ++i) {
    if (t->key_rows[i] != NULL) {
      t->weights[i] = cap * quire_tanh(t->weights[i] / cap);
    }
  }
}

static float weight_of(float score, float maximum) {
  return score == -INFINITY ? 0.0f : quire_exp(score - maximum);
}

/* Turns scores into weights and folds them into (m, l); returns the factor of what was there. */
static float fold_weights(tile *t, quire_softmax_state *state) {
  float maximum = state->maximum;
  for (size_t i = 0; i < QUIRE_PAGED_TILE; ++i) {
    if (t->key_rows[i] != NULL && t->weights[i] > maximum) {
      maximum = t->weights[i];
    }
  }
  for (size_t i = 0; i < QUIRE_PAGED_TILE; ++i) {
    t->weights[i] = t->key_rows[i] != NULL ? weight_of(t->weights[i], maximum) : 0.0f;
  }
  float lanes[16];
  for (size_t i = 0; i < 16; ++i) {
    lanes[i] = ((t->weights[i] + t->weights[i + 16]) + t->weights[i + 32]) + t->weights[i + 48];
  }
  const float factor = weight_of(state->maximum, maximum);
  state->sum = fmaf(state->sum, factor, quire_lane_tree(lanes));
  state->maximum = maximum;
  return factor;
}

/* acc = acc * factor, then one chain of fma over the visible keys, ascending. */
static void fold_values(const quire_attend_query *query, const tile *t, float factor,
                        int64_t first_column, size_t n, float *accumulator) {
  const quire_dtype dtype = query->call->value_cache->dtype;
  float v[QUIRE_ATTEND_CHUNK];
  for (size_t c = 0; c < n; ++c) {
    accumulator[c] *= factor;
  }
  for (size_t first = 0; first < n; first += QUIRE_ATTEND_CHUNK) {
    const size_t count = n - first < QUIRE_ATTEND_CHUNK ? n - first : QUIRE_ATTEND_CHUNK;
    for (size_t i = 0; i < QUIRE_PAGED_TILE; ++i) {
      if (t->value_rows[i] == NULL) {
        continue;
      }
      const int64_t column = first_column + (int64_t)first;
      quire_widen_row(dtype, row_at(t->value_rows[i], dtype, column), count, v);
      for (size_t c = 0; c < count; ++c) {
        accumulator[first + c] = fmaf(t->weights[i], v[c], accumulator[first + c]);
      }
    }
  }
}

void quire_attend_keys(const quire_attend_query *query, int64_t first, int64_t end,
                       int64_t first_column, size_t n, quire_attend_state *state) {
  state->seen = false;
  state->softmax.maximum = -INFINITY;
  state->softmax.sum = 0.0f;
  /* Chains start at -0.0: a single key returns its value row with the signs of its zeros. */
  for (size_t c = 0; c < n; ++c) {
    state->accumulator[c] = -0.0f;
  }
  for (int64_t tile_first = first - first % QUIRE_PAGED_TILE; tile_first < end;
       tile_first += QUIRE_PAGED_TILE) {
    tile t;
    if (!locate_rows(query, tile_first, first, end, &t)) {
      continue;
    }
    if (query->gemm_order) {
      score_pieces(query, &t);
    } else {
      score_lanes(query, &t);
    }
    if (query->call->k_scale_cache->data != NULL) {
      scale_tile(t.k_scales, &t);
    }
    if (query->call->softcap > 0.0f) {
      cap_scores(query->call->softcap, &t);
    }
    const float factor = fold_weights(&t, &state->softmax);
    if (query->call->v_scale_cache->data != NULL) {
      scale_tile(t.v_scales, &t);
    }
    fold_values(query, &t, factor, first_column, n, state->accumulator);
    state->seen = true;
  }
}
