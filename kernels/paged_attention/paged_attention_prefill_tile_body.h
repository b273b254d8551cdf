/* Prefill: one tile of keys for the rows of a block that see some of it. */
#ifndef QUIRE_KERNELS_PAGED_ATTENTION_PREFILL_TILE_H
#define QUIRE_KERNELS_PAGED_ATTENTION_PREFILL_TILE_H

#include "paged_attention_prefill_walk_body.h"
#ifdef QUIRE_PREFILL_BF16
#include "paged_attention_prefill_bf16_body.h"
#else
#include "paged_attention_prefill_f32_body.h"
#endif
#ifdef QUIRE_PREFILL_TILES
#include "paged_attention_prefill_tiles_body.h"
#else
#include "paged_attention_prefill_no_tiles_body.h"
#endif

static void score_tile(prefill_walk *walk) {
  const int64_t begin = walk->first_seen + score_matrix_rows(walk);
  for (int64_t panel = 0; panel < QUIRE_PAGED_TILE; panel += PANEL) {
    const float *keys = walk->keys + (size_t)panel * walk->query_stride;
    for (int64_t row = begin; row < walk->end_seen; row += ROW_TILE) {
      int64_t vecs = PANEL_VECS;
      if (!walk->whole) {
        /* Later rows see later keys. */
        const int64_t last = lesser(row + ROW_TILE, walk->end_seen) - 1;
        vecs = lesser(PANEL_VECS, (walk->row_end[last] - panel + VEC_LANES - 1) / VEC_LANES);
        if (vecs <= 0 || walk->row_first[row] >= panel + PANEL) {
          continue;
        }
      }
      score_panel(walk->queries + (size_t)row * walk->query_stride, walk->query_stride, keys,
                  walk->head_size / WORD_ELEMENTS, walk->weights + row * QUIRE_PAGED_TILE + panel,
                  &walk->value_ahead, (int)lesser(ROW_TILE, walk->end_seen - row), (int)vecs);
    }
  }
}

/* Finishes a row's scores, and gives the keys that it does not see a score of -inf. The largest. */
static vec mask_row(const prefill_walk *walk, const prefill_tile *t, float *scores,
                    uint64_t visible) {
  const vec none = vec_set(-INFINITY);
  const vec cap = vec_set(walk->call.softcap);
  vec most = none;
  for (size_t i = 0; i < TILE_VECS; ++i) {
    vec x = finished_score(walk, vec_load(scores + i * VEC_LANES));
    if (walk->call.k_scale_cache->data != NULL) {
      x = vec_mul(x, vec_load(t->k_scales + i * VEC_LANES));
    }
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

/* Scores to weights; returns the lanes of their sum. The maximum is finite, so that a score of -inf
   has weight 0. What is stored is multiplied by the scales of the values, unless those are NULL. */
static inline vec weigh_row(float *scores, const float *scales, float maximum) {
  const vec m = vec_set(maximum);
  lanes16 lanes;
  vec w[TILE_VECS];
  for (size_t i = 0; i < TILE_VECS; ++i) {
    w[i] = vec_sub(vec_load(scores + i * VEC_LANES), m);
  }
  for (size_t i = 0; i < TILE_VECS; i += 4) {
    vec_exp_nonpositive_4(w + i);
  }
  for (size_t i = 0; i < TILE_VECS; ++i) {
    vec *lane = &lanes.part[i % LANES16_PARTS];
    *lane = i < LANES16_PARTS ? w[i] : vec_add(*lane, w[i]);
  }
  for (size_t i = 0; i < TILE_VECS && scales != NULL; ++i) {
    w[i] = vec_mul(w[i], vec_load(scales + i * VEC_LANES));
  }
  store_weights(scores, w);
  return lanes16_join(&lanes);
}

/* Up to VEC_LANES rows: m' = max(m, mt), a = exp(m - m'), w = exp(x - m'), l = fma(l, a, sum). */
PREFILL_APART void weigh_rows(const prefill_walk *walk, const prefill_tile *t, bool masked,
                              int64_t row, size_t count, prefill_states *states) {
  float *scores = walk->weights + row * QUIRE_PAGED_TILE;
  const bool finishes =
      WORD_ELEMENTS != 1 || walk->call.softcap > 0.0f || walk->call.k_scale_cache->data != NULL;
  const float *scales = walk->call.v_scale_cache->data != NULL ? t->v_scales : NULL;
  vec rows[VEC_LANES];
  for (size_t i = 0; i < VEC_LANES; ++i) {
    rows[i] = vec_set(-INFINITY);
    if (i >= count) {
      continue;
    }
    uint64_t visible = ALL_KEYS;
    if (masked) {
      const int64_t at = row + (int64_t)i;
      visible = walk->whole ? t->mapped
                            : t->mapped & bits_between(walk->row_first[at], walk->row_end[at]);
    }
    states->seen[row + (int64_t)i] |= visible != 0;
    rows[i] = masked || finishes ? mask_row(walk, t, scores + i * QUIRE_PAGED_TILE, visible)
                                 : largest_of_row(scores + i * QUIRE_PAGED_TILE);
  }
  const vec none = vec_set(-INFINITY);
  float *maxima = states->maximum + row;
  const vec before = vec_load_first(maxima, count);
  const vec after = vec_max(before, vec_max_rows(rows));
  const vec factor =
      vec_select(vec_equal(before, none), vec_zero(), vec_exp_nonpositive(vec_sub(before, after)));
  vec_store_first(maxima, count, after);
  vec_store_first(walk->scales + row, count, factor);
  float lanes[VEC_LANES]; /* a masked store would keep the loads waiting */
  vec_store(lanes, vec_select(vec_equal(after, none), vec_zero(), after));
  for (size_t i = 0; i < VEC_LANES; ++i) {
    rows[i] = i < count ? weigh_row(scores + i * QUIRE_PAGED_TILE, scales, lanes[i]) : vec_zero();
  }
  float *sums = states->sum + row;
  vec_store_first(sums, count, vec_fma(vec_load_first(sums, count), factor, vec_sum_rows(rows)));
}

/* Rows that do not see the same keys: what all see at once, before and after that row by row. */
PREFILL_APART void value_rows_apart(const prefill_walk *walk, const prefill_tile *t, int64_t row,
                                    int rows, size_t column, const value_block *whole, int vecs) {
  const uint8_t *const firsts = walk->row_first + row;
  const uint8_t *const ends = walk->row_end + row;
  int first = 0;
  int end = QUIRE_PAGED_TILE;
  int least = QUIRE_PAGED_TILE;
  for (int i = 0; i < rows; ++i) {
    first = firsts[i] > first ? firsts[i] : first;
    end = ends[i] < end ? ends[i] : end;
    least = firsts[i] < least ? firsts[i] : least;
  }
  first = (first + WORD_ELEMENTS - 1) / WORD_ELEMENTS * WORD_ELEMENTS;
  end = end / WORD_ELEMENTS * WORD_ELEMENTS;
  if (end <= first) {
    first = end = QUIRE_PAGED_TILE; /* nothing in common: each on its own */
  }
  value_block block = *whole;
  block.first = (size_t)first / WORD_ELEMENTS;
  block.end = (size_t)end / WORD_ELEMENTS;
  block.firsts = least < first ? firsts : NULL;
  block.ends = ends;
  value_apart(walk, t, column, &block, rows, vecs);
}

static void value_tile(prefill_walk *walk, const prefill_tile *t, prefill_states *states) {
  const int64_t begin = walk->first_seen + value_matrix_rows(walk, states);
  for (size_t column = 0; column < walk->value_stride; column += PANEL) {
    const size_t width = walk->value_stride - column < PANEL ? walk->value_stride - column : PANEL;
    const int vecs = (int)(width / VEC_LANES);
    for (int64_t row = begin; row < walk->end_seen; row += ROW_TILE) {
      const int rows = (int)lesser(ROW_TILE, walk->end_seen - row);
      const value_block block = {
          .weights = walk->weights + row * QUIRE_PAGED_TILE,
          .factors = walk->scales + row,
          .values = walk->values + column * QUIRE_PAGED_TILE / WORD_ELEMENTS,
          .accumulators = states->accumulators + (size_t)row * walk->value_stride + column,
          .stride = walk->value_stride,
          .first = 0,
          .end = QUIRE_PAGED_TILE / WORD_ELEMENTS,
          .ahead = &walk->key_ahead,
      };
      if (walk->whole) {
        value_panel(&block, rows, vecs);
      } else {
        value_rows_apart(walk, t, row, rows, column, &block, vecs);
      }
    }
  }
}

/*
 * Scores prefetch the tile's own values, values the next tile's keys: about a line in each step.
 * Rows of a cache often lie at multiples of a large power of two, where a cache level has room for
 * few of them at a time.
 */
static void look_at_next(prefill_walk *walk, const prefill_tile *t, const prefill_tile *next) {
  const int64_t row_tiles = (walk->end_seen - walk->first_seen + ROW_TILE - 1) / ROW_TILE;
  const int64_t panels = QUIRE_PAGED_TILE / PANEL;
  const int64_t columns = (int64_t)(walk->value_stride + PANEL - 1) / PANEL;
  const int64_t score_steps = row_tiles * panels * (int64_t)(walk->head_size / WORD_ELEMENTS);
  const int64_t value_steps = row_tiles * columns * (QUIRE_PAGED_TILE / WORD_ELEMENTS);
  walk->value_ahead = look_ahead(
      t->values, walk->value_size * quire_dtype_size(walk->call.value_cache->dtype), score_steps);
  walk->key_ahead =
      look_ahead(next != NULL ? next->keys : NULL,
                 walk->head_size * quire_dtype_size(walk->call.key_cache->dtype), value_steps);
}

/* One tile of a piece; the tile after it, wherever it lies, is prefetched. */
static void attend_tile(prefill_walk *walk, int64_t origin, prefill_states *states) {
  prefill_tile *t = &walk->tiles[origin / QUIRE_PAGED_TILE % 2];
  if (t->origin != origin) {
    locate_tile(walk, origin, t);
  }
  prefill_tile *next = NULL;
  if (origin + QUIRE_PAGED_TILE < walk->end) {
    next = &walk->tiles[(origin / QUIRE_PAGED_TILE + 1) % 2];
    locate_tile(walk, origin + QUIRE_PAGED_TILE, next);
  }
  find_rows(walk, t);
  if (t->mapped == 0 || walk->first_seen >= walk->end_seen) {
    return;
  }
  look_at_next(walk, t, next);
  walk->pack_keys(t, walk->head_size, walk->keys);
  find_keys(walk, t);
  score_tile(walk);
  const bool masked = !walk->whole || t->mapped != ALL_KEYS;
  for (int64_t row = walk->first_seen; row < walk->end_seen; row += VEC_LANES) {
    weigh_rows(walk, t, masked, row, (size_t)lesser(VEC_LANES, walk->end_seen - row), states);
  }
  walk->pack_values(t, (size_t)(t->first - origin), (size_t)(t->end - origin), walk->value_size,
                    walk->values);
  value_tile(walk, t, states);
}

#endif
