/* Decode over the SIMD vocabulary: a tile of 64 keys for the queries of a chunk. */
#ifndef QUIRE_KERNELS_PAGED_ATTENTION_DECODE_TILE_BODY_H
#define QUIRE_KERNELS_PAGED_ATTENTION_DECODE_TILE_BODY_H

#include "paged_attention_decode_queries_body.h"

/*
 * A step of a tile: the keys, or the values, of a sub-block. The lists of neighbouring tiles and
 * chunks follow each other, and every step prefetches what the step after the next one reads.
 */
typedef struct decode_step {
  const char *const *rows; /* of K/V head 0 */
  const quire_view *cache;
  int64_t first_head, head_count;
  int first, keys; /* of the tile */
} decode_step;

enum { STEPS_AHEAD = 1, TILE_STEPS = 2 * SUB_BLOCKS };

/* The keys of a step. */
static uint32_t step_mask(uint64_t mask, const decode_step *step) {
  return (uint32_t)(mask >> step->first) & (uint32_t)(((uint64_t)1 << step->keys) - 1);
}

/* Keys of a sub-block. Of f32 fewer: what is read and what is prefetched stay in the first cache.
 */
static int score_keys(const decode_walk *walk, const decode_chunk *c) {
  const bool fours = c->row_count * c->members % 4 == 0;
  return walk->call.key_cache->dtype == QUIRE_FLOAT32 && fours ? ATTEND_KEYS_F32 : ATTEND_KEYS;
}

/*
 * Keys of a sub-block of values. The sums of all queries pass through the registers once for each;
 * many queries make arithmetic the limit, not memory, and then longer sub-blocks are better.
 */
static int value_keys(const decode_walk *walk, const decode_chunk *c) {
  const int64_t per_head = c->row_count * c->members;
  return (per_head >= 8 ? 4 : per_head >= 4 ? 2 : 1) * score_keys(walk, c);
}

/* Appends the sub-blocks with a present key, at most `most`; returns the new count. */
static int add_steps(const decode_tile *t, bool values, const decode_walk *walk,
                     const decode_chunk *c, int count, int most, decode_step *steps) {
  const int keys = values ? value_keys(walk, c) : score_keys(walk, c);
  for (int first = 0; first < QUIRE_PAGED_TILE && count < most; first += keys) {
    const decode_step step = {(values ? t->values : t->keys) + first,
                              values ? walk->call.value_cache : walk->call.key_cache,
                              c->first_head,
                              c->head_count,
                              first,
                              keys};
    if (step_mask(t->present, &step) != 0) {
      steps[count++] = step;
    }
  }
  return count;
}

/* A step's memory in the order in which it lies, an equal part for each head of the step that
   prefetches it: as many rows, of one key and head each, as it has keys. */
typedef struct decode_ahead {
  const decode_step *step;
  ptrdiff_t head_bytes, row_bytes; /* from head to head, and of a row */
  bool by_key;                     /* the heads of a key lie together */
  int64_t key, head;               /* the next row */
  int shift;                       /* how often the loops go over their rows, as a power of two */
} decode_ahead;

/* What a step that reads `keys` rows of every head for so many queries prefetches of `step`. */
static decode_ahead look_ahead(const decode_step *step, int keys, size_t queries) {
  const quire_view *cache = step->cache;
  int passes = 0; /* over the rows, as a power of two */
  while (((size_t)8 << passes) <= queries && passes < 3) {
    ++passes;
  }
  int shift = passes;
  for (int read = keys * MOST_AHEAD; read > step->keys; read /= 2) {
    ++shift;
  }
  return (decode_ahead){.step = step,
                        .shift = shift,
                        .head_bytes = row_bytes(cache, cache->stride[2]),
                        .row_bytes = row_bytes(cache, cache->shape[3]),
                        .by_key = cache->stride[2] < cache->stride[1]};
}

/* Finds the next rows; rows that touch are one piece. */
static attend_ahead next_pieces(decode_ahead *a, attend_piece pieces[MOST_KEYS]) {
  const decode_step *step = a->step;
  attend_piece *piece = pieces;
  int64_t left = step->keys;
  while (left > 0) {
    const char *row = step->rows[a->key] + (step->first_head + a->head) * a->head_bytes;
    int64_t count = 1;
    if (a->by_key && a->head_bytes == a->row_bytes) {
      count = left < step->head_count - a->head ? left : step->head_count - a->head;
    }
    *piece++ = (attend_piece){row, row + count * a->row_bytes};
    left -= count;
    if (!a->by_key) {
      a->key = (a->key + 1) % step->keys;
      a->head += a->key == 0;
    } else {
      a->head += count;
    }
    if (a->head == step->head_count) {
      a->head = 0;
      a->key = a->by_key ? (a->key + 1) % step->keys : a->key;
    }
  }
  return (attend_ahead){.piece = pieces, .last = piece, .shift = a->shift};
}

static void score_step(decode_walk *walk, const decode_step *step, const decode_step *ahead,
                       const decode_chunk *c) {
  const size_t size = (size_t)walk->call.head_size;
  const size_t per_head = (size_t)(c->row_count * c->members);
  const ptrdiff_t head_bytes = row_bytes(step->cache, step->cache->stride[2]);
  attend_rows rows = {step->rows, c->first_head * head_bytes, step->keys};
  const float *q = walk->room;
  float *scores = scores_of(walk, c) + step->first;
  decode_ahead rows_ahead = look_ahead(ahead, step->keys, per_head);
  attend_piece pieces[MOST_KEYS];
  for (int64_t i = 0; i < c->head_count; ++i) {
    attend_ahead prefetch = next_pieces(&rows_ahead, pieces);
    walk->loops.scores(&rows, &prefetch, q, size, per_head, scores);
    rows.offset += head_bytes;
    q += per_head * attend_padded(size);
    scores += per_head * QUIRE_PAGED_TILE;
  }
}

enum { TILE_VECS = QUIRE_PAGED_TILE / VEC_LANES };

/* A tile's scales of one K/V head, one after the other. */
typedef struct decode_scales {
  int64_t head; /* -1: none yet */
  float each[QUIRE_PAGED_TILE];
} decode_scales;

/* Those of `head`; NULL for a cache that has none a token. */
static const float *scales_of(const quire_view *cache, const float *const *at, uint64_t present,
                              int64_t head, decode_scales *scales) {
  if (cache->data == NULL) {
    return NULL;
  }
  if (scales->head != head) {
    scales->head = head;
    for (int i = 0; i < QUIRE_PAGED_TILE; ++i) {
      scales->each[i] = (present >> i & 1) != 0 ? at[i][head * cache->stride[2]] : 1.0f;
    }
  }
  return scales->each;
}

/* Scales (may be NULL), softcap and mask, in place; the largest score in each lane. */
static vec mask_scores(const decode_walk *walk, uint64_t mask, const float *scales, float *scores) {
  vec most = vec_set(-INFINITY);
  const float cap = walk->call.softcap;
  for (int i = 0; i < TILE_VECS; ++i) {
    vec score = vec_load(scores + i * VEC_LANES);
    if (scales != NULL) {
      score = vec_mul(score, vec_load(scales + i * VEC_LANES));
    }
    if (cap > 0.0f) {
      score = vec_mul(vec_set(cap), vec_tanh(vec_div(score, vec_set(cap))));
    }
    if (mask != UINT64_MAX) {
      score = vec_select(vec_mask_of_bits(mask >> (i * VEC_LANES)), score, vec_set(-INFINITY));
    }
    if (cap > 0.0f || mask != UINT64_MAX || scales != NULL) {
      vec_store(scores + i * VEC_LANES, score);
    }
    most = vec_max(most, score);
  }
  return most;
}

/* exp(x - m), 0 for x = -inf. */
static inline vec weights_of(vec x, vec maximum) {
  const vec w = vec_exp_nonpositive(vec_sub(x, maximum));
  return vec_select(vec_equal(x, vec_set(-INFINITY)), vec_zero(), w);
}

/* Turns a query's scores into weights; their sums, lane by lane, up to vec_sum_rows. What is
   stored is multiplied by the scales of the values, unless those are NULL. */
static vec weigh_scores(float *scores, const float *scales, float maximum) {
  const vec m = vec_set(maximum);
  vec w[TILE_VECS];
  for (int i = 0; i < TILE_VECS; ++i) {
    w[i] = weights_of(vec_load(scores + i * VEC_LANES), m);
    const vec kept = scales != NULL ? vec_mul(w[i], vec_load(scales + i * VEC_LANES)) : w[i];
    vec_store(scores + i * VEC_LANES, kept);
  }
  lanes16 lanes;
  for (int part = 0; part < LANES16_PARTS; ++part) {
    vec sum = vec_add(w[part], w[part + LANES16_PARTS]);
    sum = vec_add(sum, w[part + 2 * LANES16_PARTS]);
    lanes.part[part] = vec_add(sum, w[part + 3 * LANES16_PARTS]);
  }
  return lanes16_join(&lanes);
}

/* Scores to weights for VEC_LANES queries from `first` on: folds them into m and l. */
static void weigh_queries(decode_walk *walk, const decode_tile *t, const decode_chunk *c,
                          size_t first) {
  const size_t left = chunk_queries(c) - first;
  const int count = left < VEC_LANES ? (int)left : VEC_LANES;
  const size_t per_head = (size_t)(c->row_count * c->members);
  float *scores = scores_of(walk, c) + first * QUIRE_PAGED_TILE;
  decode_scales scales;
  scales.head = -1;
  vec rows[VEC_LANES];
  for (int i = 0; i < VEC_LANES; ++i) {
    if (i < count) {
      const size_t row = (first + (size_t)i) % per_head / (size_t)c->members;
      const uint64_t mask = t->masks[(size_t)c->first_row + row];
      const int64_t head = c->first_head + (int64_t)((first + (size_t)i) / per_head);
      const float *of_keys =
          scales_of(walk->call.k_scale_cache, t->k_scales, t->present, head, &scales);
      rows[i] = mask_scores(walk, mask, of_keys, scores + i * QUIRE_PAGED_TILE);
    } else {
      rows[i] = vec_zero();
    }
  }
  const vec before = vec_load(walk->maximum + first);
  const vec maximum = vec_max(before, vec_max_rows(rows));
  const vec factor = weights_of(before, maximum);
  vec_store(walk->maximum + first, maximum);
  vec_store(walk->factor + first, factor);
  scales.head = -1;
  for (int i = 0; i < count; ++i) {
    const int64_t head = c->first_head + (int64_t)((first + (size_t)i) / per_head);
    const float *of_values =
        scales_of(walk->call.v_scale_cache, t->v_scales, t->present, head, &scales);
    rows[i] =
        weigh_scores(scores + i * QUIRE_PAGED_TILE, of_values, walk->maximum[first + (size_t)i]);
  }
  const vec sums = vec_sum_rows(rows);
  vec_store(walk->sum + first, vec_fma(vec_load(walk->sum + first), factor, sums));
}

/* Neighbouring keys of a sub-block that the same rows see. Small, since many lie on the stack. */
typedef struct decode_run {
  uint8_t first, count;         /* keys */
  uint8_t first_query, queries; /* of a head; at most CHUNK_QUERIES */
  bool begins;                  /* the first of its rows in this tile */
} decode_run;

enum { MOST_RUNS = QUIRE_PAGED_EXACT_TOKENS * MOST_KEYS / 2 };

/* Appends the runs of one mask in a sub-block. */
static int add_runs(uint64_t mask, const decode_step *step, size_t first_query, size_t queries,
                    int count, decode_run *runs) {
  const uint32_t bits = step_mask(mask, step);
  bool begins = (mask & (((uint64_t)1 << step->first) - 1)) == 0;
  for (int key = 0; key < step->keys;) {
    int end = key;
    while (end < step->keys && (bits >> end & 1) != 0) {
      ++end;
    }
    if (end > key) {
      runs[count++] = (decode_run){(uint8_t)key, (uint8_t)(end - key), (uint8_t)first_query,
                                   (uint8_t)queries, begins};
      begins = false;
    }
    key = end + 1;
  }
  return count;
}

static int find_runs(const decode_tile *t, const decode_chunk *c, const decode_step *step,
                     decode_run *runs) {
  const size_t members = (size_t)c->members;
  if (t->alike) {
    return add_runs(t->masks[0], step, 0, members * (size_t)c->row_count, 0, runs);
  }
  int count = 0;
  for (int64_t i = 0; i < c->row_count; ++i) {
    const uint64_t mask = t->masks[c->first_row + i];
    count = add_runs(mask, step, (size_t)i * members, members, count, runs);
  }
  return count;
}

static void value_step(decode_walk *walk, const decode_tile *t, const decode_step *step,
                       const decode_step *ahead, const decode_chunk *c) {
  const size_t size = (size_t)walk->target.value_size;
  const size_t per_head = (size_t)(c->row_count * c->members);
  const ptrdiff_t head_bytes = row_bytes(step->cache, step->cache->stride[2]);
  decode_run runs[MOST_RUNS];
  const int run_count = find_runs(t, c, step, runs);
  attend_rows rows = {.offset = c->first_head * head_bytes};
  const float *weights = scores_of(walk, c) + step->first;
  decode_ahead rows_ahead = look_ahead(ahead, step->keys, per_head);
  attend_piece pieces[MOST_KEYS];
  size_t head_query = 0;
  for (int64_t i = 0; i < c->head_count; ++i) {
    attend_ahead prefetch = next_pieces(&rows_ahead, pieces);
    for (int j = 0; j < run_count; ++j) {
      const decode_run *run = &runs[j];
      const size_t query = head_query + run->first_query;
      rows.rows = step->rows + run->first;
      rows.count = run->count;
      walk->loops.values(&rows, &prefetch, weights + query * QUIRE_PAGED_TILE + run->first,
                         run->begins ? walk->factor + query : NULL, size, run->queries,
                         walk->accumulators + query);
    }
    rows.offset += head_bytes;
    head_query += per_head;
  }
}

static void attend_chunk(decode_walk *walk, const decode_tile *t, const decode_chunk *c,
                         const decode_tile *after, const decode_chunk *after_chunk) {
  decode_step steps[TILE_STEPS + STEPS_AHEAD];
  const int keys = add_steps(t, false, walk, c, 0, SUB_BLOCKS, steps);
  const int count = add_steps(t, true, walk, c, keys, TILE_STEPS, steps);
  int filled = add_steps(after, false, walk, after_chunk, count, count + STEPS_AHEAD, steps);
  while (filled < count + STEPS_AHEAD) {
    steps[filled++] = steps[count - 1];
  }
  load_queries(walk, c);
  load_states(walk, c, t->piece);
  for (int i = 0; i < keys; ++i) {
    score_step(walk, &steps[i], &steps[i + STEPS_AHEAD], c);
  }
  const size_t queries = chunk_queries(c);
  for (size_t first = 0; first < queries; first += VEC_LANES) {
    weigh_queries(walk, t, c, first);
  }
  for (int i = keys; i < count; ++i) {
    value_step(walk, t, &steps[i], &steps[i + STEPS_AHEAD], c);
  }
}

static void attend_tile(decode_walk *walk, const decode_tile *t, const decode_tile *following) {
  decode_chunk c = first_chunk(walk);
  bool more = true;
  while (more) {
    decode_chunk after = c;
    more = next_chunk(walk, &after);
    if (more) {
      attend_chunk(walk, t, &c, t, &after);
    } else {
      const decode_chunk first = first_chunk(walk);
      attend_chunk(walk, t, &c, following, &first);
    }
    c = after;
  }
}

#endif
