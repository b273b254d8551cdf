/*
 * Scatter: stores the new keys and values. Items share the cache by slot: each walks all tokens in
 * order and stores those whose slot is its own, so that of two tokens with one slot the later wins
 * whole (PA-E15), without a race.
 */
#include <math.h>
#include <string.h>

#include "numeric.h"
#include "paged_attention_passes.h"
#include "paged_attention_scatter.h"

enum {
  VIEW_QUERY,
  VIEW_KEY,
  VIEW_VALUE,
  VIEW_KEY_CACHE,
  VIEW_VALUE_CACHE,
  VIEW_K_SCALE,
  VIEW_V_SCALE,
  VIEW_K_SCALE_CACHE,
  VIEW_V_SCALE_CACHE,
  VIEW_SLOTS
};

/* Neighbouring slots that stay with one item: their rows lie together. */
enum { SLOTS_TOGETHER = 8 };

typedef struct scatter_uniforms {
  uint32_t num_heads;
} scatter_uniforms;

const quire_pass_binding quire_paged_attention_scatter_bindings[QUIRE_SCATTER_BINDING_COUNT] = {
    {"query", QUIRE_FLOAT_BITS},
    {"key", QUIRE_FLOAT_BITS},
    {"value", QUIRE_FLOAT_BITS},
    {"key_cache", QUIRE_FLOAT_BITS | QUIRE_DTYPE_BIT(QUIRE_INT8)},
    {"value_cache", QUIRE_FLOAT_BITS | QUIRE_DTYPE_BIT(QUIRE_INT8)},
    {"k_scale", QUIRE_DTYPE_BIT(QUIRE_FLOAT32)},
    {"v_scale", QUIRE_DTYPE_BIT(QUIRE_FLOAT32)},
    {"k_scale_cache", QUIRE_DTYPE_BIT(QUIRE_FLOAT32)},
    {"v_scale_cache", QUIRE_DTYPE_BIT(QUIRE_FLOAT32)},
    {"slots", QUIRE_DTYPE_BIT(QUIRE_INT64)},
};

/* One side of the store: new rows, the cache that takes them, its scales. */
typedef struct scatter_side {
  const quire_view *source;
  int64_t source_offset; /* of K/V head 0 in a row of source */
  const quire_view *cache;
  const quire_view *scale;       /* [1] or [kv heads, 1, size], optional */
  const quire_view *scale_cache; /* [blocks, rows of a block, kv heads], optional */
  const quire_row_rounding *rounding;
} scatter_side;

/* X6: clamp(rint(x * (1/scale)), -128, 127), to even; NaN and a scale of 0 store 0. */
static int8_t quantise(float value, float scale) {
  const float q = scale == 0.0f ? 0.0f : rintf(value * (1.0f / scale));
  if (!(q > -128.0f)) {
    return q <= -128.0f ? -128 : 0;
  }
  if (q < 127.0f) {
    return (int8_t)q;
  }
  return INT8_MAX;
}

static void quantise_row(quire_dtype dtype, const void *source, const float *scales,
                         bool per_channel, int64_t n, int8_t *out) {
  for (int64_t d = 0; d < n; ++d) {
    out[d] = quantise(quire_load_f32(dtype, source, d), scales[per_channel ? d : 0]);
  }
}

/* X7: rint(clamp(x / scale, -127, 127)), to even, NaN as 0; the scale belongs to the row. NaN has
   no part in it. */
static float measure_row(quire_dtype dtype, const void *source, int64_t n, int8_t *out) {
  float largest = 0.0f;
  for (int64_t d = 0; d < n; ++d) {
    const float magnitude = fabsf(quire_load_f32(dtype, source, d));
    largest = magnitude > largest ? magnitude : largest;
  }
  const float scale = quire_row_scale(largest);
  for (int64_t d = 0; d < n; ++d) {
    float q = quire_load_f32(dtype, source, d) / scale;
    q = q != q ? 0.0f : q;
    q = q < -127.0f ? -127.0f : q;
    q = 127.0f < q ? 127.0f : q;
    out[d] = (int8_t)rintf(q);
  }
  return scale;
}

static void store_int8(const scatter_side *side, const void *source, int64_t slot, int64_t head,
                       int8_t *target) {
  const int64_t size = side->cache->shape[3];
  const quire_view *scales = side->scale_cache;
  if (scales->data != NULL) {
    const int64_t block_size = side->cache->shape[1];
    float *scale = (float *)scales->data + slot / block_size * scales->stride[0] +
                   slot % block_size * scales->stride[1] + head * scales->stride[2];
    *scale = side->rounding->measure(side->source->dtype, source, size, target);
    return;
  }
  const bool per_channel = side->scale->ndim != 1;
  const float *given = (const float *)side->scale->data + (per_channel ? head * size : 0);
  side->rounding->quantise(side->source->dtype, source, given, per_channel, size, target);
}

static void store_row(const scatter_side *side, int64_t token, int64_t slot) {
  const quire_view *cache = side->cache;
  const int64_t block_size = cache->shape[1];
  const int64_t size = cache->shape[3];
  const size_t source_bytes = quire_dtype_size(side->source->dtype);
  const size_t cache_bytes = quire_dtype_size(cache->dtype);
  const int64_t row = slot / block_size * cache->stride[0] + slot % block_size * cache->stride[1];
  for (int64_t head = 0; head < cache->shape[2]; ++head) {
    const int64_t from = token * side->source->stride[0] + side->source_offset + head * size;
    const int64_t to = row + head * cache->stride[2];
    const char *source = (const char *)side->source->data + from * (int64_t)source_bytes;
    char *target = (char *)cache->data + to * (int64_t)cache_bytes;
    if (cache->dtype == QUIRE_INT8) {
      store_int8(side, source, slot, head, (int8_t *)target);
    } else {
      memcpy(target, source, (size_t)size * cache_bytes);
    }
  }
}

void quire_scatter_items(const quire_pass *pass, size_t x, const quire_row_rounding *rounding) {
  const scatter_uniforms *uniforms = pass->uniforms;
  const quire_view *views = pass->views;
  const bool packed = views[VIEW_KEY].dtype == QUIRE_DTYPE_NONE;
  const int64_t head_size = views[VIEW_KEY_CACHE].shape[3];
  const int64_t kv_heads = views[VIEW_KEY_CACHE].shape[2];
  const int64_t key_offset = uniforms->num_heads * head_size;
  const scatter_side key = {&views[packed ? VIEW_QUERY : VIEW_KEY],
                            packed ? key_offset : 0,
                            &views[VIEW_KEY_CACHE],
                            &views[VIEW_K_SCALE],
                            &views[VIEW_K_SCALE_CACHE],
                            rounding};
  const scatter_side value = {&views[packed ? VIEW_QUERY : VIEW_VALUE],
                              packed ? key_offset + kv_heads * head_size : 0,
                              &views[VIEW_VALUE_CACHE],
                              &views[VIEW_V_SCALE],
                              &views[VIEW_V_SCALE_CACHE],
                              rounding};
  const int64_t *slots = views[VIEW_SLOTS].data;
  const int64_t parts = (int64_t)pass->grid[0];
  for (int64_t token = 0; token < views[VIEW_SLOTS].shape[0]; ++token) {
    const int64_t slot = slots[token];
    if (slot >= 0 && slot / SLOTS_TOGETHER % parts == (int64_t)x) {
      store_row(&key, token, slot);
      store_row(&value, token, slot);
    }
  }
}

quire_status quire_paged_attention_scatter(const quire_pass *pass, const size_t item[3]) {
  static const quire_row_rounding rounding = {quantise_row, measure_row};
  quire_scatter_items(pass, item[0], &rounding);
  return QUIRE_OK;
}
