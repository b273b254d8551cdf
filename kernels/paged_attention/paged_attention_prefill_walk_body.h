/* Prefill: what a block of rows is, where its scratch lies, and which keys it sees. */
#ifndef QUIRE_KERNELS_PAGED_ATTENTION_PREFILL_WALK_H
#define QUIRE_KERNELS_PAGED_ATTENTION_PREFILL_WALK_H

#include "paged_attention_call.h"
#include "paged_attention_prefill_registers_body.h"
#include "paged_attention_state_body.h"
#include "paged_work.h"
#include "simd.h"

enum {
  PREFILL_LEVELS = 3,
  QUERIES_AHEAD = 8,
  MOST_ROWS = 384 + QUIRE_PAGED_SPARE_ROWS /* of a slice */
};

#define VEC_BITS (((uint64_t)1 << VEC_LANES) - 1)
#define ALL_KEYS UINT64_MAX

static inline size_t prefill_padded(size_t n) {
  return (n + 15) / 16 * 16;
}

/* Up to 64 keys at a multiple of 64; NULL: unmapped, or seen by no row of the block. */
typedef struct prefill_tile {
  int64_t origin;
  int64_t first, end; /* positions that some row of the block sees */
  uint64_t mapped;
  const char *keys[QUIRE_PAGED_TILE];
  const char *values[QUIRE_PAGED_TILE];
  float k_scales[QUIRE_PAGED_TILE]; /* where they are one a token and head; 1 for unmapped keys */
  float v_scales[QUIRE_PAGED_TILE];
} prefill_tile;

/* States under construction, one for each row of the block. */
typedef struct prefill_states {
  float *maximum, *sum;
  uint32_t *seen;
  float *accumulators; /* [row][value_stride] */
} prefill_states;

typedef void pack_keys_function(const prefill_tile *t, size_t size, float *panels);
typedef void pack_values_function(const prefill_tile *t, size_t first, size_t end, size_t size,
                                  float *panels);
typedef void scale_query_function(const char *row, const float *factors, size_t size, float *out);

typedef struct prefill_walk {
  const quire_pass *pass;
  const quire_paged_item *item;
  quire_attend_call call;
  quire_attend_target target;
  bool causal;
  int64_t window;
  pack_keys_function *pack_keys;
  pack_values_function *pack_values;
  scale_query_function *scale_query;
  size_t head_size, value_size;
  size_t query_stride, value_stride; /* in words, of queries and keys, and in f32 */
  int64_t row_limit;                 /* rows of a block */
  /* The slice. */
  float *keys, *values, *factors, *queries, *weights, *scales;
  prefill_states levels[PREFILL_LEVELS];
  /* The block: rows [first_row, + row_count) of K/V head kv_head; row r is new token r / group of
     the item and query head r % group of the group. */
  int64_t kv_head, group;
  int64_t first_row, row_count;
  int64_t first, end; /* keys that some row sees */
  /* The tile. */
  prefill_tile tiles[2];
  int64_t first_seen, end_seen;                     /* rows of the block that see something of it */
  bool whole;                                       /* each of them sees all of it */
  uint8_t row_first[MOST_ROWS], row_end[MOST_ROWS]; /* else: keys of the tile that each sees */
  prefill_ahead key_ahead, value_ahead;             /* rows of the next tile */
} prefill_walk;

/* ---- scratch ---- */

/* The manifest's attend_panels and attend_rows say how large a slice is. */
static void carve_slice(prefill_walk *walk, size_t runner) {
  const quire_view *panels = &walk->pass->views[QUIRE_ATTEND_PANELS];
  const quire_view *rows = &walk->pass->views[QUIRE_ATTEND_ROWS];
  float *at = (float *)panels->data + (int64_t)runner * panels->stride[0];
  walk->keys = at;
  walk->values = walk->keys + QUIRE_PAGED_TILE * walk->query_stride;
  walk->factors = walk->values + QUIRE_PAGED_TILE * walk->value_stride;
  const size_t count = (size_t)rows->shape[1];
  walk->row_limit =
      (rows->shape[1] < MOST_ROWS ? rows->shape[1] : MOST_ROWS) - QUIRE_PAGED_SPARE_ROWS;
  at = (float *)rows->data + (int64_t)runner * rows->stride[0];
  walk->queries = at;
  walk->weights = walk->queries + count * walk->query_stride;
  walk->scales = walk->weights + count * QUIRE_PAGED_TILE;
  at = walk->scales + count;
  for (int level = 0; level < PREFILL_LEVELS; ++level) {
    prefill_states *states = &walk->levels[level];
    states->maximum = at;
    states->sum = states->maximum + count;
    states->seen = (uint32_t *)(void *)(states->sum + count);
    at = states->sum + 2 * count;
  }
  at = (float *)rows->data + (int64_t)runner * rows->stride[0] +
       (int64_t)prefill_padded((size_t)(at - walk->queries));
  /* Fewer levels where the table is too short to need them: those are never touched. */
  for (int level = 0; level < PREFILL_LEVELS; ++level) {
    walk->levels[level].accumulators = at;
    at += count * walk->value_stride;
  }
}

/* ---- keys ---- */

static int64_t lesser(int64_t a, int64_t b) {
  return a < b ? a : b;
}

static int64_t greater(int64_t a, int64_t b) {
  return a > b ? a : b;
}

/* Bits [first, end) of 64; both may lie outside. */
static uint64_t bits_between(int64_t first, int64_t end) {
  if (end <= first || end <= 0 || first >= 64) {
    return 0;
  }
  const uint64_t below_end = end >= 64 ? ALL_KEYS : ((uint64_t)1 << end) - 1;
  return first <= 0 ? below_end : below_end & ~(((uint64_t)1 << first) - 1);
}

/* Keys that row r of the block sees. */
static void row_visible(const prefill_walk *walk, int64_t r, int64_t *first, int64_t *end) {
  const quire_paged_item *item = walk->item;
  const int64_t token = (walk->first_row + r) / walk->group;
  quire_paged_visible(item->first_position + token, item->end_position, walk->causal, walk->window,
                      first, end);
}

/* The block's head's scales of `count` rows; none for a cache without. */
static void load_scales(const prefill_walk *walk, const quire_view *scales, int64_t block,
                        int64_t row, int64_t count, float *out) {
  if (scales->data == NULL) {
    return;
  }
  const float *scale = quire_scale_at(scales, block, row) + walk->kv_head * scales->stride[2];
  for (int64_t i = 0; i < count; ++i, scale += scales->stride[1]) {
    out[i] = *scale;
  }
}

/* Finds the rows of the keys at [origin, origin + 64) that some row of the block sees. */
static void locate_tile(const prefill_walk *walk, int64_t origin, prefill_tile *t) {
  const quire_view *table = walk->call.block_table;
  const quire_view *keys = walk->call.key_cache;
  const quire_view *values = walk->call.value_cache;
  const int32_t *entries = (const int32_t *)table->data + walk->item->sequence * table->stride[0];
  const int64_t key_bytes = (int64_t)quire_dtype_size(keys->dtype);
  const int64_t value_bytes = (int64_t)quire_dtype_size(values->dtype);
  const int64_t block_size = keys->shape[1];
  t->origin = origin;
  t->first = greater(origin, walk->first);
  t->end = lesser(origin + QUIRE_PAGED_TILE, walk->end);
  t->mapped = 0;
  memset((void *)t->keys, 0, sizeof t->keys);
  memset((void *)t->values, 0, sizeof t->values);
  for (int i = 0; i < QUIRE_PAGED_TILE; ++i) {
    t->k_scales[i] = 1.0f;
    t->v_scales[i] = 1.0f;
  }
  int64_t run = 0;
  for (int64_t at = t->first; at < t->end; at += run) {
    const int64_t column = at / block_size;
    const int64_t row = at % block_size;
    run = lesser(t->end - at, block_size - row);
    const int64_t block = column < table->shape[1] ? entries[column * table->stride[1]] : -1;
    if (block < 0 || block >= keys->shape[0]) {
      continue;
    }
    const char *key = (const char *)keys->data + (block * keys->stride[0] + row * keys->stride[1] +
                                                  walk->kv_head * keys->stride[2]) *
                                                     key_bytes;
    const char *value =
        (const char *)values->data +
        (block * values->stride[0] + row * values->stride[1] + walk->kv_head * values->stride[2]) *
            value_bytes;
    for (int64_t i = 0; i < run; ++i) {
      t->keys[at - origin + i] = key + i * keys->stride[1] * key_bytes;
      t->values[at - origin + i] = value + i * values->stride[1] * value_bytes;
    }
    load_scales(walk, walk->call.k_scale_cache, block, row, run, t->k_scales + (at - origin));
    load_scales(walk, walk->call.v_scale_cache, block, row, run, t->v_scales + (at - origin));
    t->mapped |= bits_between(at - origin, at - origin + run);
  }
}

/* The rows of the block that see some of the tile: later tokens see later keys. */
static void find_rows(prefill_walk *walk, const prefill_tile *t) {
  const int64_t position = walk->item->first_position;
  int64_t first_token = 0;
  int64_t end_token = walk->item->row_count;
  if (walk->causal) {
    first_token = greater(0, t->first - position);
  }
  if (walk->window > 0) {
    end_token = lesser(end_token, t->end + walk->window - 1 - position);
  }
  walk->first_seen = greater(0, first_token * walk->group - walk->first_row);
  walk->end_seen = lesser(walk->row_count, end_token * walk->group - walk->first_row);
}

/* Whether every row that sees some of the tile sees all of it; else what each of them sees. */
static void find_keys(prefill_walk *walk, const prefill_tile *t) {
  int64_t first;
  int64_t end;
  int64_t unused;
  row_visible(walk, walk->end_seen - 1, &first, &unused);
  row_visible(walk, walk->first_seen, &unused, &end);
  walk->whole = first <= t->origin && end >= t->origin + QUIRE_PAGED_TILE;
  if (walk->whole) {
    return;
  }
  int64_t member = (walk->first_row + walk->first_seen) % walk->group;
  for (int64_t row = walk->first_seen; row < walk->end_seen; member = 0) {
    row_visible(walk, row, &first, &end);
    first = lesser(greater(first - t->origin, 0), QUIRE_PAGED_TILE);
    end = greater(lesser(end - t->origin, QUIRE_PAGED_TILE), first);
    for (; member < walk->group && row < walk->end_seen; ++member, ++row) {
      walk->row_first[row] = (uint8_t)first;
      walk->row_end[row] = (uint8_t)end;
    }
  }
}

/* Rows of the next tile, for the kernels of this one to prefetch in so many steps; NULL: none. */
static prefill_ahead look_ahead(const char *const *rows, size_t bytes, int64_t steps) {
  prefill_ahead ahead = {.bytes = bytes};
  if (rows != NULL) {
    const int64_t lines = QUIRE_PAGED_TILE * (int64_t)((bytes + PREFILL_LINE - 1) / PREFILL_LINE);
    ahead.row = rows;
    ahead.last = rows + QUIRE_PAGED_TILE;
    ahead.burst = (int)((lines + steps - 1) / steps);
  }
  return ahead;
}

#endif
