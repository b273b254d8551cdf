/* Decode over the SIMD vocabulary: what an item holds, and which keys come next. */
#ifndef QUIRE_KERNELS_PAGED_ATTENTION_DECODE_WALK_BODY_H
#define QUIRE_KERNELS_PAGED_ATTENTION_DECODE_WALK_BODY_H

#include "paged_attention_call.h"
#include "paged_attention_decode_loops_body.h"

/* 64 keys at an absolute position, or those of them that belong to one piece. */
typedef struct decode_tile {
  int64_t piece;
  uint64_t present;                         /* keys that some row sees */
  uint64_t masks[QUIRE_PAGED_EXACT_TOKENS]; /* keys that each row sees */
  bool alike;                               /* all rows see the same */
  const char *keys[QUIRE_PAGED_TILE];       /* of K/V head 0; for absent keys, some present one */
  const char *values[QUIRE_PAGED_TILE];
  const float *k_scales[QUIRE_PAGED_TILE]; /* of K/V head 0, if there is one a token and head */
  const float *v_scales[QUIRE_PAGED_TILE];
} decode_tile;

/* Queries that are computed together: some heads with all rows, or a part of one head's queries. */
typedef struct decode_chunk {
  int64_t first_head, head_count; /* K/V heads */
  int64_t first_row, row_count;   /* of the item */
  int64_t first_member, members;  /* of the group of query heads that shares a K/V head */
} decode_chunk;

typedef struct decode_walk {
  const quire_pass *pass;
  const quire_paged_item *item;
  quire_attend_call call;
  quire_attend_target target;
  int64_t num_heads, work_states;
  element_loops loops;
  int64_t row_first[QUIRE_PAGED_EXACT_TOKENS], row_end[QUIRE_PAGED_EXACT_TOKENS];
  int64_t first, end;              /* keys that some row sees */
  int64_t piece, position;         /* where next_tile() looks */
  int64_t row_limit, member_limit; /* of a chunk */
  int64_t head_limit;
  bool piece_seen[QUIRE_PAGED_EXACT_TOKENS];
  bool group_seen[QUIRE_PAGED_EXACT_TOKENS];
  bool whole_seen[QUIRE_PAGED_EXACT_TOKENS];
  decode_chunk loaded;      /* whose queries are in `room` */
  decode_chunk state_chunk; /* whose states of state_piece are below, if state_count is not 0 */
  int64_t state_piece;
  size_t state_count;
  decode_tile tiles[2];
  float maximum[CHUNK_QUERIES], sum[CHUNK_QUERIES], factor[CHUNK_QUERIES];
  float *stats[CHUNK_QUERIES], *accumulators[CHUNK_QUERIES];
  _Alignas(64) float room[CHUNK_FLOATS]; /* scaled queries, then scores */
} decode_walk;

/* Bits [first, end) of 64; both may lie outside. */
static uint64_t bits_between(int64_t first, int64_t end) {
  if (end <= first || end <= 0 || first >= 64) {
    return 0;
  }
  const uint64_t below_end = end >= 64 ? UINT64_MAX : ((uint64_t)1 << end) - 1;
  return first <= 0 ? below_end : below_end & ~(((uint64_t)1 << first) - 1);
}

/* Of so many elements of a cache. */
static inline ptrdiff_t row_bytes(const quire_view *cache, int64_t elements) {
  const int64_t size = cache->dtype == QUIRE_FLOAT32 ? 4 : cache->dtype == QUIRE_INT8 ? 1 : 2;
  return (ptrdiff_t)(elements * size);
}

/* The scales of `count` rows of a block; none for a cache without. */
static void locate_scales(const quire_view *scales, int64_t block, int64_t row, int64_t count,
                          const float **at) {
  if (scales->data == NULL) {
    return;
  }
  const float *scale = quire_scale_at(scales, block, row);
  for (int64_t i = 0; i < count; ++i, scale += scales->stride[1]) {
    at[i] = scale;
  }
}

/* Finds the rows of keys [first, end) of one tile. */
static void locate_keys(const decode_walk *walk, int64_t first, int64_t end, decode_tile *t) {
  const quire_view *table = walk->call.block_table;
  const quire_view *keys = walk->call.key_cache;
  const quire_view *values = walk->call.value_cache;
  const int32_t *entries = (const int32_t *)table->data + walk->item->sequence * table->stride[0];
  const int64_t block_size = keys->shape[1];
  const int64_t origin = first - first % QUIRE_PAGED_TILE;
  const ptrdiff_t key_step = row_bytes(keys, keys->stride[1]);
  const ptrdiff_t value_step = row_bytes(values, values->stride[1]);
  int64_t column = first / block_size;
  int64_t row = first % block_size;
  t->present = 0;
  for (int64_t at = first; at < end; ++column, row = 0) {
    const int64_t run = end - at < block_size - row ? end - at : block_size - row;
    const int64_t block = column < table->shape[1] ? entries[column * table->stride[1]] : -1;
    if (block >= 0 && block < keys->shape[0]) {
      const char *key = (const char *)keys->data +
                        row_bytes(keys, block * keys->stride[0] + row * keys->stride[1]);
      const char *value = (const char *)values->data +
                          row_bytes(values, block * values->stride[0] + row * values->stride[1]);
      for (int64_t i = at - origin; i < at - origin + run; ++i) {
        t->keys[i] = key;
        t->values[i] = value;
        key += key_step;
        value += value_step;
      }
      locate_scales(walk->call.k_scale_cache, block, row, run, t->k_scales + (at - origin));
      locate_scales(walk->call.v_scale_cache, block, row, run, t->v_scales + (at - origin));
      t->present |= bits_between(at - origin, at - origin + run);
    }
    at += run;
  }
}

/* What each row sees of a located tile; absent keys get a row that may be read. */
static void mask_keys(const decode_walk *walk, int64_t origin, decode_tile *t) {
  t->alike = true;
  for (int64_t i = 0; i < walk->item->row_count; ++i) {
    t->masks[i] = t->present & bits_between(walk->row_first[i] - origin, walk->row_end[i] - origin);
    t->alike = t->alike && t->masks[i] == t->masks[0];
  }
  if (t->present == 0 || t->present == UINT64_MAX) {
    return;
  }
  int some = 0;
  while ((t->present >> some & 1) == 0) {
    ++some;
  }
  for (int i = 0; i < QUIRE_PAGED_TILE; ++i) {
    if ((t->present >> i & 1) == 0) {
      t->keys[i] = t->keys[some];
      t->values[i] = t->values[some];
    }
  }
}

/* The next tile with a key that some row sees; its piece is the item's end if there is none. */
static void next_tile(decode_walk *walk, decode_tile *t) {
  const quire_paged_item *item = walk->item;
  const int64_t end_piece = item->first_piece + item->piece_count;
  for (; walk->piece < end_piece; ++walk->piece) {
    const int64_t piece_first = item->piece_origin + walk->piece * item->piece_length;
    const int64_t piece_end = piece_first + item->piece_length;
    const int64_t end = walk->end < piece_end ? walk->end : piece_end;
    if (walk->position < piece_first) {
      walk->position = piece_first;
    }
    while (walk->position < end) {
      const int64_t origin = walk->position - walk->position % QUIRE_PAGED_TILE;
      const int64_t tile_end = origin + QUIRE_PAGED_TILE < end ? origin + QUIRE_PAGED_TILE : end;
      locate_keys(walk, walk->position, tile_end, t);
      walk->position = tile_end;
      if (t->present != 0) {
        t->piece = walk->piece;
        mask_keys(walk, origin, t);
        return;
      }
    }
  }
  t->piece = end_piece;
  t->present = 0;
}

#endif
