/*
 * Attend for items in the GEMM-shaped order (NU-8), over the SIMD vocabulary: included once by a
 * file of each instruction set, which defines QUIRE_ATTEND_LONG. The bits are those of
 * paged_attention_attend.c.
 *
 * A K/V head's queries (new tokens times the heads of its group) are taken in blocks of rows that
 * fit the runner's slice of scratch. A block walks the keys tile by tile:
 *
 *   pack     keys transposed, values copied, both widened to f32, for all rows of the block
 *   scores   6 rows times a panel of keys in registers
 *   softmax  VEC_LANES rows at a time
 *   values   6 rows times a panel of columns in registers
 *
 * while the next tile's rows are prefetched. Rows of a block that see nothing of a tile are left
 * out; of a tile that is visible in part, every row takes part with just the keys that it sees.
 */
#include "paged_attention_call.h"
#include "paged_attention_prefill_registers_body.h"
#include "paged_attention_state_body.h"
#include "paged_work.h"
#include "simd.h"

enum { PREFILL_LEVELS = 3, PREFILL_LINE = 64, QUERIES_AHEAD = 8 };

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
  size_t query_stride, value_stride;
  int64_t row_limit; /* rows of a block */
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
  int64_t first_seen, end_seen; /* rows of the block that see something of it */
  const prefill_tile *next;     /* to prefetch; NULL: none */
  int next_key, next_step;
} prefill_walk;

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
  walk->row_limit = rows->shape[1] - QUIRE_PAGED_SPARE_ROWS;
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

/* Prefetches some of the next tile's rows: called once for every kernel of this one. */
static void prefetch_some(prefill_walk *walk) {
  if (walk->next == NULL) {
    return;
  }
  const size_t key_bytes = walk->head_size * quire_dtype_size(walk->call.key_cache->dtype);
  const size_t value_bytes = walk->value_size * quire_dtype_size(walk->call.value_cache->dtype);
  for (int i = 0; i < walk->next_step && walk->next_key < QUIRE_PAGED_TILE; ++i) {
    const int key = walk->next_key++;
    if (walk->next->keys[key] == NULL) {
      continue;
    }
    for (size_t byte = 0; byte < key_bytes; byte += PREFILL_LINE) {
      vec_prefetch(walk->next->keys[key] + byte);
    }
    for (size_t byte = 0; byte < value_bytes; byte += PREFILL_LINE) {
      vec_prefetch(walk->next->values[key] + byte);
    }
  }
}

/* ---- a tile ---- */

/* Whether every row that sees some of the tile sees all of it. */
static bool is_whole(const prefill_walk *walk, const prefill_tile *t) {
  int64_t first;
  int64_t end;
  int64_t unused;
  row_visible(walk, walk->end_seen - 1, &first, &unused);
  row_visible(walk, walk->first_seen, &unused, &end);
  return first <= t->origin && end >= t->origin + QUIRE_PAGED_TILE;
}

static void score_tile(prefill_walk *walk, const prefill_tile *t, bool whole) {
  for (int64_t panel = 0; panel < QUIRE_PAGED_TILE; panel += PANEL) {
    const float *keys = walk->keys + (size_t)panel * walk->query_stride;
    for (int64_t row = walk->first_seen; row < walk->end_seen; row += ROW_TILE) {
      int64_t vecs = PANEL_VECS;
      if (!whole) {
        int64_t first;
        int64_t end;
        int64_t unused;
        row_visible(walk, row, &first, &unused);
        row_visible(walk, lesser(row + ROW_TILE, walk->end_seen) - 1, &unused, &end);
        vecs = lesser(PANEL_VECS, (end - t->origin - panel + VEC_LANES - 1) / VEC_LANES);
        if (vecs <= 0 || first - t->origin >= panel + PANEL) {
          continue;
        }
      }
      score_panel(walk->queries + (size_t)row * walk->query_stride, walk->query_stride, keys,
                  walk->head_size, walk->weights + row * QUIRE_PAGED_TILE + panel, (int)vecs);
      prefetch_some(walk);
    }
  }
}

/* Caps a row's scores, and gives the keys that it does not see a score of -inf. Their largest. */
static vec mask_row(const prefill_walk *walk, float *scores, uint64_t visible) {
  const vec none = vec_set(-INFINITY);
  const vec cap = vec_set(walk->call.softcap);
  vec most = none;
  for (size_t i = 0; i < TILE_VECS; ++i) {
    vec x = vec_load(scores + i * VEC_LANES);
    if (walk->call.softcap > 0.0f) {
      x = vec_mul(cap, vec_tanh(vec_div(x, cap)));
    }
    if (visible != ALL_KEYS) {
      x = vec_select(vec_mask_of_bits(visible >> (i * VEC_LANES) & VEC_BITS), x, none);
    }
    vec_store(scores + i * VEC_LANES, x);
    most = vec_max(most, x);
  }
  return most;
}

static inline vec largest_of_row(const float *scores) {
  vec most = vec_set(-INFINITY);
  for (size_t i = 0; i < TILE_VECS; ++i) {
    most = vec_max(most, vec_load(scores + i * VEC_LANES));
  }
  return most;
}

/* Scores to weights; returns the lanes of their sum. */
static inline vec weigh_row(float *scores, float maximum) {
  const vec none = vec_set(-INFINITY);
  const vec m = vec_set(maximum);
  lanes16 lanes;
  for (size_t i = 0; i < TILE_VECS; ++i) {
    const vec x = vec_load(scores + i * VEC_LANES);
    const vec w = vec_select(vec_equal(x, none), vec_zero(), vec_exp_nonpositive(vec_sub(x, m)));
    vec_store(scores + i * VEC_LANES, w);
    vec *lane = &lanes.part[i % LANES16_PARTS];
    *lane = i < LANES16_PARTS ? w : vec_add(*lane, w);
  }
  return lanes16_join(&lanes);
}

/* Up to VEC_LANES rows: m' = max(m, mt), a = exp(m - m'), w = exp(x - m'), l = fma(l, a, sum). */
static void weigh_rows(const prefill_walk *walk, const prefill_tile *t, bool masked, int64_t row,
                       size_t count, prefill_states *states) {
  float *scores = walk->weights + row * QUIRE_PAGED_TILE;
  vec rows[VEC_LANES];
  for (size_t i = 0; i < VEC_LANES; ++i) {
    rows[i] = vec_set(-INFINITY);
    if (i >= count) {
      continue;
    }
    uint64_t visible = ALL_KEYS;
    if (masked) {
      int64_t first;
      int64_t end;
      row_visible(walk, row + (int64_t)i, &first, &end);
      visible = t->mapped & bits_between(first - t->origin, end - t->origin);
    }
    states->seen[row + (int64_t)i] |= visible != 0;
    rows[i] = masked || walk->call.softcap > 0.0f
                  ? mask_row(walk, scores + i * QUIRE_PAGED_TILE, visible)
                  : largest_of_row(scores + i * QUIRE_PAGED_TILE);
  }
  float *maxima = states->maximum + row;
  const vec before = vec_load_first(maxima, count);
  const vec after = vec_max(before, vec_max_rows(rows));
  const vec factor = vec_select(vec_equal(before, vec_set(-INFINITY)), vec_zero(),
                                vec_exp_nonpositive(vec_sub(before, after)));
  vec_store_first(maxima, count, after);
  vec_store_first(walk->scales + row, count, factor);
  float lanes[VEC_LANES]; /* a masked store would keep the loads waiting */
  vec_store(lanes, after);
  for (size_t i = 0; i < VEC_LANES; ++i) {
    rows[i] = i < count ? weigh_row(scores + i * QUIRE_PAGED_TILE, lanes[i]) : vec_zero();
  }
  float *sums = states->sum + row;
  vec_store_first(sums, count, vec_fma(vec_load_first(sums, count), factor, vec_sum_rows(rows)));
}

/* Rows that do not see the same keys: what all see at once, before and after that row by row. */
static void value_rows_apart(const prefill_walk *walk, const prefill_tile *t, int64_t row, int rows,
                             const value_block *whole, int vecs) {
  int64_t firsts[ROW_TILE];
  int64_t ends[ROW_TILE];
  int64_t first = 0;
  int64_t end = QUIRE_PAGED_TILE;
  int64_t least = QUIRE_PAGED_TILE;
  for (int i = 0; i < rows; ++i) {
    row_visible(walk, row + i, &firsts[i], &ends[i]);
    firsts[i] = lesser(greater(firsts[i] - t->origin, 0), QUIRE_PAGED_TILE);
    ends[i] = greater(lesser(ends[i] - t->origin, QUIRE_PAGED_TILE), firsts[i]);
    first = greater(first, firsts[i]);
    end = lesser(end, ends[i]);
    least = lesser(least, firsts[i]);
  }
  if (end <= first) {
    first = end = QUIRE_PAGED_TILE; /* nothing in common: each on its own */
  }
  value_block one = *whole;
  const bool apart_first = least < first;
  for (int i = 0; i < rows && apart_first; ++i) {
    one.weights = whole->weights + i * QUIRE_PAGED_TILE;
    one.factors = whole->factors + i;
    one.accumulators = whole->accumulators + (size_t)i * whole->stride;
    one.first = (size_t)firsts[i];
    one.end = (size_t)lesser(first, ends[i]);
    value_panel(&one, 1, vecs);
  }
  if (first < end) {
    value_block common = *whole;
    common.factors = apart_first ? NULL : whole->factors;
    common.first = (size_t)first;
    common.end = (size_t)end;
    value_panel(&common, rows, vecs);
  }
  one.factors = NULL;
  for (int i = 0; i < rows; ++i) {
    if (end < ends[i]) {
      one.weights = whole->weights + i * QUIRE_PAGED_TILE;
      one.accumulators = whole->accumulators + (size_t)i * whole->stride;
      one.first = (size_t)end;
      one.end = (size_t)ends[i];
      value_panel(&one, 1, vecs);
    }
  }
}

static void value_tile(prefill_walk *walk, const prefill_tile *t, bool whole,
                       prefill_states *states) {
  for (size_t column = 0; column < walk->value_stride; column += PANEL) {
    const size_t width = walk->value_stride - column < PANEL ? walk->value_stride - column : PANEL;
    const int vecs = (int)(width / VEC_LANES);
    for (int64_t row = walk->first_seen; row < walk->end_seen; row += ROW_TILE) {
      const int rows = (int)lesser(ROW_TILE, walk->end_seen - row);
      const value_block block = {
          .weights = walk->weights + row * QUIRE_PAGED_TILE,
          .factors = walk->scales + row,
          .values = walk->values + column * QUIRE_PAGED_TILE,
          .accumulators = states->accumulators + (size_t)row * walk->value_stride + column,
          .stride = walk->value_stride,
          .first = 0,
          .end = QUIRE_PAGED_TILE,
      };
      if (whole) {
        value_panel(&block, rows, vecs);
      } else {
        value_rows_apart(walk, t, row, rows, &block, vecs);
      }
      prefetch_some(walk);
    }
  }
}

/* One tile of a piece; the tile after it, wherever it lies, is prefetched. */
static void attend_tile(prefill_walk *walk, int64_t origin, prefill_states *states) {
  prefill_tile *t = &walk->tiles[origin / QUIRE_PAGED_TILE % 2];
  if (t->origin != origin) {
    locate_tile(walk, origin, t);
  }
  walk->next = NULL;
  if (origin + QUIRE_PAGED_TILE < walk->end) {
    prefill_tile *next = &walk->tiles[(origin / QUIRE_PAGED_TILE + 1) % 2];
    locate_tile(walk, origin + QUIRE_PAGED_TILE, next);
    walk->next = next;
  }
  find_rows(walk, t);
  if (t->mapped == 0 || walk->first_seen >= walk->end_seen) {
    return;
  }
  const int64_t rows = walk->end_seen - walk->first_seen;
  const int64_t steps = (rows + ROW_TILE - 1) / ROW_TILE * 2;
  walk->next_key = 0;
  walk->next_step = (int)((QUIRE_PAGED_TILE + steps - 1) / steps);
  walk->pack_keys(t, walk->head_size, walk->keys);
  walk->pack_values(t, (size_t)(t->first - origin), (size_t)(t->end - origin), walk->value_size,
                    walk->values);
  const bool whole = is_whole(walk, t);
  score_tile(walk, t, whole);
  const bool masked = !whole || t->mapped != ALL_KEYS;
  for (int64_t row = walk->first_seen; row < walk->end_seen; row += VEC_LANES) {
    weigh_rows(walk, t, masked, row, (size_t)lesser(VEC_LANES, walk->end_seen - row), states);
  }
  value_tile(walk, t, whole, states);
}

/* ---- states ---- */

/* m = -inf, l = 0, chains start at -0.0. */
static void begin_states(const prefill_walk *walk, prefill_states *states) {
  for (int64_t row = 0; row < walk->row_count; ++row) {
    states->maximum[row] = -INFINITY;
    states->sum[row] = 0.0f;
    states->seen[row] = 0;
  }
  const vec start = vec_set(-0.0f);
  const size_t floats = (size_t)walk->row_count * walk->value_stride;
  for (size_t i = 0; i < floats; i += VEC_LANES) {
    vec_store(states->accumulators + i, start);
  }
}

static quire_attend_state state_of(const prefill_walk *walk, const prefill_states *states,
                                   int64_t row) {
  return (quire_attend_state){
      .seen = states->seen[row] != 0,
      .softmax = {states->maximum[row], states->sum[row]},
      .accumulator = states->accumulators + (size_t)row * walk->value_stride,
  };
}

static void fold_states(const prefill_walk *walk, prefill_states *into,
                        const prefill_states *from) {
  for (int64_t row = 0; row < walk->row_count; ++row) {
    quire_attend_state a = state_of(walk, into, row);
    const quire_attend_state b = state_of(walk, from, row);
    fold_state(&a, &b, walk->value_size);
    into->seen[row] = a.seen;
    into->maximum[row] = a.softmax.maximum;
    into->sum[row] = a.softmax.sum;
  }
}

static int64_t head_of(const prefill_walk *walk, int64_t row) {
  return walk->kv_head * walk->group + (walk->first_row + row) % walk->group;
}

/* Stores the rows' states as number `index` of each; l = -1 says that there is none. */
static void store_states(const prefill_walk *walk, const prefill_states *states, int64_t index) {
  const quire_attend_uniforms *uniforms = walk->pass->uniforms;
  const quire_paged_item *item = walk->item;
  const quire_view *views = walk->pass->views;
  for (int64_t row = 0; row < walk->row_count; ++row) {
    const int64_t token = (walk->first_row + row) / walk->group;
    const int64_t slot =
        item->state_base +
        (token * (int64_t)uniforms->num_heads + head_of(walk, row)) * item->state_stride + index;
    const bool seen = states != NULL && states->seen[row] != 0;
    float *stats = (float *)views[QUIRE_ATTEND_PARTIAL_STATS].data + 2 * slot;
    stats[0] = seen ? states->maximum[row] : -INFINITY;
    stats[1] = seen ? states->sum[row] : -1.0f;
    if (seen) {
      memcpy((float *)views[QUIRE_ATTEND_PARTIAL_VALUES].data + slot * (int64_t)walk->value_size,
             states->accumulators + (size_t)row * walk->value_stride,
             walk->value_size * sizeof(float));
    }
  }
}

static void finish_rows(const prefill_walk *walk, const prefill_states *states) {
  for (int64_t row = 0; row < walk->row_count; ++row) {
    quire_attend_state state = state_of(walk, states, row);
    finish_row(&walk->target, walk->item->first_row + (walk->first_row + row) / walk->group,
               head_of(walk, row), &state);
  }
}

/* ---- a block ---- */

/* States of the pieces, the group and the whole rows: each is built in the place of the first free
   one above it, which is then a copy of it. */
typedef struct prefill_fold {
  bool group_begun, whole_begun;
} prefill_fold;

static prefill_states *group_states(prefill_walk *walk, const prefill_fold *fold) {
  return &walk->levels[fold->whole_begun ? 1 : 0];
}

/* The keys of one piece; false if the block sees none. */
static bool attend_piece(prefill_walk *walk, int64_t piece, prefill_states *states) {
  const quire_paged_item *item = walk->item;
  const int64_t piece_first = item->piece_origin + piece * item->piece_length;
  const int64_t first = greater(piece_first, walk->first);
  const int64_t end = lesser(piece_first + item->piece_length, walk->end);
  if (first >= end) {
    return false;
  }
  begin_states(walk, states);
  for (int64_t at = first - first % QUIRE_PAGED_TILE; at < end; at += QUIRE_PAGED_TILE) {
    attend_tile(walk, at, states);
  }
  return true;
}

static void attend_pieces(prefill_walk *walk) {
  const quire_paged_item *item = walk->item;
  const int64_t end_piece = item->first_piece + item->piece_count;
  prefill_fold fold = {false, false};
  for (int64_t piece = item->first_piece; piece < end_piece; ++piece) {
    prefill_states *group = group_states(walk, &fold);
    prefill_states *states = fold.group_begun ? group + 1 : group;
    const bool any = attend_piece(walk, piece, states);
    if (item->level == QUIRE_PAGED_PIECES) {
      store_states(walk, any ? states : NULL, piece - item->first_state);
      continue;
    }
    if (any && fold.group_begun) {
      fold_states(walk, group, states);
    }
    fold.group_begun = fold.group_begun || any;
    if ((piece + 1) % item->group_size != 0 && piece + 1 != end_piece) {
      continue;
    }
    if (item->level == QUIRE_PAGED_GROUPS) {
      store_states(walk, fold.group_begun ? group : NULL,
                   piece / item->group_size - item->first_state);
    } else if (fold.group_begun && fold.whole_begun) {
      fold_states(walk, walk->levels, group);
    } else {
      fold.whole_begun = fold.group_begun;
    }
    fold.group_begun = false;
  }
  if (item->level == QUIRE_PAGED_ROWS) {
    if (!fold.whole_begun) {
      begin_states(walk, walk->levels);
    }
    finish_rows(walk, walk->levels);
  }
}

/* f_d = scale, or scale * k_scale_d, rounded; then the block's queries times f. */
static void load_queries(prefill_walk *walk) {
  const quire_attend_call *call = &walk->call;
  const float *k_scale = call->k_scale->data;
  for (size_t d = 0; d < walk->query_stride; ++d) {
    walk->factors[d] = call->scale;
    if (k_scale != NULL && d < walk->head_size) {
      const size_t channel = (size_t)walk->kv_head * walk->head_size + d;
      walk->factors[d] = call->scale * k_scale[call->k_scale->ndim == 1 ? 0 : channel];
    }
  }
  const int64_t bytes = (int64_t)quire_dtype_size(call->query->dtype);
  for (int64_t row = 0; row < walk->row_count; ++row) {
    const int64_t token = (walk->first_row + row) / walk->group;
    const int64_t at = (walk->item->first_row + token) * call->query->stride[0] +
                       head_of(walk, row) * (int64_t)walk->head_size;
    const char *query = (const char *)call->query->data + at * bytes;
    /* Tokens lie too far apart for the hardware to see them coming. */
    if (row + QUERIES_AHEAD * walk->group < walk->row_count) {
      const char *ahead = query + QUERIES_AHEAD * call->query->stride[0] * bytes;
      for (int64_t i = 0; i < (int64_t)walk->head_size * bytes; i += PREFILL_LINE) {
        vec_prefetch(ahead + i);
      }
    }
    walk->scale_query(query, walk->factors, walk->head_size,
                      walk->queries + (size_t)row * walk->query_stride);
  }
}

static void attend_block(prefill_walk *walk) {
  int64_t unused;
  row_visible(walk, 0, &walk->first, &unused);
  row_visible(walk, walk->row_count - 1, &unused, &walk->end);
  walk->tiles[0].origin = -1;
  walk->tiles[1].origin = -1;
  load_queries(walk);
  attend_pieces(walk);
}

/* Blocks of nearly equal size, in whole tiles of rows. */
static void attend_head(prefill_walk *walk) {
  const int64_t rows = walk->item->row_count * walk->group;
  const int64_t blocks = (rows + walk->row_limit - 1) / walk->row_limit;
  const int64_t share = ((rows + blocks - 1) / blocks + ROW_TILE - 1) / ROW_TILE * ROW_TILE;
  for (int64_t row = 0; row < rows; row += share) {
    walk->first_row = row;
    walk->row_count = lesser(share, rows - row);
    attend_block(walk);
  }
}

void QUIRE_ATTEND_LONG(const quire_pass *pass, const quire_paged_item *item, size_t x) {
  const quire_paged_queue *queue = pass->views[QUIRE_ATTEND_QUEUE].data;
  if ((int64_t)x >= queue->runner_count || item->piece_length % QUIRE_PAGED_TILE != 0 ||
      item->piece_origin % QUIRE_PAGED_TILE != 0) {
    quire_paged_attention_attend_item(pass, item);
    return;
  }
  const quire_attend_uniforms *uniforms = pass->uniforms;
  prefill_walk walk;
  walk.pass = pass;
  walk.item = item;
  quire_attend_open(pass, &walk.call, &walk.target);
  walk.causal = uniforms->is_causal != 0;
  walk.window = uniforms->window;
  walk.head_size = (size_t)walk.call.key_cache->shape[3];
  walk.value_size = (size_t)walk.target.value_size;
  walk.query_stride = prefill_padded(walk.head_size);
  walk.value_stride = prefill_padded(walk.value_size);
  walk.group = walk.target.heads_per_kv;
  choose_packing(&walk);
  carve_slice(&walk, x);
  for (int64_t head = 0; head < item->head_count; ++head) {
    walk.kv_head = item->first_head + head;
    attend_head(&walk);
  }
}
