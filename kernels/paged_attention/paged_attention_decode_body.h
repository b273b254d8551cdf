/*
 * Attend for rows in the order of one-token calls (decode, and the verification of a draft) over
 * the SIMD vocabulary: the bits of paged_attention_attend.c.
 *
 * An item walks its tiles of 64 keys. In a tile it goes through sub-blocks of 8 keys, and in a
 * sub-block through its K/V heads, so that memory is read nearly in the order in which it lies;
 * every head's rows meet all queries that share them: heads of the group, rows of the sequence.
 *
 *   scores   sub-block by sub-block, head by head
 *   weights  of the whole tile, for all queries at once
 *   values   sub-block by sub-block, head by head
 *
 * Each step prefetches the rows of the next one. States under construction lie in the call's
 * scratch; queries and scores on the stack, for as many heads as fit (a chunk).
 */
#include "paged_attention_call.h"
#include "paged_attention_state_body.h"
#include "paged_work.h"
#include "simd.h"

enum {
  ATTEND_KEYS = 8,  /* of a sub-block */
  ATTEND_LINE = 64, /* bytes of a cache line */
  /* Queries and scores of a chunk. */
  CHUNK_FLOATS = 6144,
  CHUNK_QUERIES = 80,      /* CHUNK_FLOATS / (16 + tile), in whole vectors */
  DECODE_HEAD_SIZE = 1024, /* larger ones are left to plain C */
  SUB_BLOCKS = QUIRE_PAGED_TILE / ATTEND_KEYS
};

/* Keys beside 4 or 2 queries, and vectors of columns likewise: sums that fit in registers. */
#if VEC_REGISTERS >= 32
#define ATTEND_BY_4 4
#define ATTEND_BY_2 8
#else
#define ATTEND_BY_4 2
#define ATTEND_BY_2 4
#endif

/* step(0) step(1) ...; and inside of one, step(x, 0) step(x, 1) ... */
#define OUTER_1(step) step(0)
#define OUTER_2(step) step(0) step(1)
#define OUTER_4(step) OUTER_2(step) step(2) step(3)
#define OUTER_8(step) OUTER_4(step) step(4) step(5) step(6) step(7)
#define INNER_1(step, x) step(x, 0)
#define INNER_2(step, x) step(x, 0) step(x, 1)
#define INNER_4(step, x) INNER_2(step, x) step(x, 2) step(x, 3)
#define INNER_8(step, x) INNER_4(step, x) step(x, 4) step(x, 5) step(x, 6) step(x, 7)
#define UNROLL_PASTE_(name, count) name##_##count
#define UNROLL_PASTE(name, count) UNROLL_PASTE_(name, count)
#define OUTER(count, step) UNROLL_PASTE(OUTER, count)(step)
#define INNER(count, step, x) UNROLL_PASTE(INNER, count)(step, x)

/* A sub-block's rows, of K/V head 0; `offset` leads to another head, in bytes. */
typedef struct attend_rows {
  const char *const *rows;
  ptrdiff_t offset;
  int count; /* of keys; scores read 8 always */
} attend_rows;

/* What to prefetch: pieces of memory, one after the other. */
typedef struct attend_piece {
  const char *at, *end;
} attend_piece;
typedef struct attend_ahead {
  const char *at, *end;      /* in the current piece */
  const attend_piece *piece; /* those after it */
  const attend_piece *last;
} attend_ahead;

/* Prefetches the next `bytes`, a multiple or a fraction of a line. */
static inline void prefetch_ahead(attend_ahead *ahead, ptrdiff_t bytes) {
  if (ahead->at >= ahead->end) {
    if (ahead->piece == ahead->last) {
      return;
    }
    ahead->at = ahead->piece->at;
    ahead->end = ahead->piece->end;
    ++ahead->piece;
  }
  const char *at = ahead->at;
  ahead->at += bytes;
  if (bytes < ATTEND_LINE && ((uintptr_t)at & (ATTEND_LINE - 1)) >= (uintptr_t)bytes) {
    return; /* asked for already */
  }
  for (ptrdiff_t line = 0; line < bytes; line += ATTEND_LINE) {
    vec_prefetch(at + line);
  }
}

static inline size_t attend_padded(size_t n) {
  return (n + 15) / 16 * 16;
}

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
#include "paged_attention_element_body.h"
#define QUIRE_ELEMENT f16
#define QUIRE_ELEMENT_BYTES 2
#include "paged_attention_element_body.h"
#define QUIRE_ELEMENT bf16
#define QUIRE_ELEMENT_BYTES 2
#include "paged_attention_element_body.h"
#define QUIRE_ELEMENT i8
#define QUIRE_ELEMENT_BYTES 1
#include "paged_attention_element_body.h"

typedef struct element_loops {
  void (*scores)(const attend_rows *rows, attend_ahead *ahead, const float *q, size_t n,
                 size_t count, float *scores);
  void (*values)(const attend_rows *rows, attend_ahead *ahead, const float *weights,
                 const float *factors, size_t n, size_t count, float *const *accumulators);
} element_loops;

static element_loops loops_of(quire_dtype dtype) {
  switch (dtype) {
    case QUIRE_FLOAT16:
      return (element_loops){scores_f16, values_f16};
    case QUIRE_BFLOAT16:
      return (element_loops){scores_bf16, values_bf16};
    case QUIRE_INT8:
      return (element_loops){scores_i8, values_i8};
    default:
      return (element_loops){scores_f32, values_f32};
  }
}

/* 64 keys at an absolute position, or those of them that belong to one piece. */
typedef struct decode_tile {
  int64_t piece;
  uint64_t present;                         /* keys that some row sees */
  uint64_t masks[QUIRE_PAGED_EXACT_TOKENS]; /* keys that each row sees */
  bool alike;                               /* all rows see the same */
  const char *keys[QUIRE_PAGED_TILE];       /* of K/V head 0; for absent keys, some present one */
  const char *values[QUIRE_PAGED_TILE];
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
  float room[CHUNK_FLOATS]; /* scaled queries, then scores */
} decode_walk;

/* ---- keys ---- */

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

/* ---- states ---- */

/* Where a state lies: (m, l), and its accumulator. */
typedef struct decode_slot {
  float *stats;
  float *values;
} decode_slot;

static decode_slot slot_in(const decode_walk *walk, int stats, int values, int64_t index) {
  const quire_view *views = walk->pass->views;
  return (decode_slot){(float *)views[stats].data + 2 * index,
                       (float *)views[values].data + index * walk->target.value_size};
}

/* A state under construction: level 0 the piece, 1 the group, 2 the whole row. */
static decode_slot work_slot(const decode_walk *walk, int64_t row, int64_t head, int64_t level) {
  const int64_t index = (row * walk->num_heads + head) * walk->work_states + level;
  return slot_in(walk, QUIRE_ATTEND_WORK_STATS, QUIRE_ATTEND_WORK_VALUES,
                 walk->item->work_base + index);
}

/* A state that the merge pass reads. */
static decode_slot stored_slot(const decode_walk *walk, int64_t row, int64_t head, int64_t index) {
  const quire_paged_item *item = walk->item;
  const int64_t first = item->state_base + (row * walk->num_heads + head) * item->state_stride;
  return slot_in(walk, QUIRE_ATTEND_PARTIAL_STATS, QUIRE_ATTEND_PARTIAL_VALUES,
                 first + index - item->first_state);
}

static decode_slot piece_slot(const decode_walk *walk, int64_t row, int64_t head, int64_t piece) {
  return walk->item->level == QUIRE_PAGED_PIECES ? stored_slot(walk, row, head, piece)
                                                 : work_slot(walk, row, head, 0);
}

static quire_attend_state state_at(decode_slot slot, bool seen) {
  return (quire_attend_state){
      .seen = seen, .softmax = {slot.stats[0], slot.stats[1]}, .accumulator = slot.values};
}

/* No key yet: m = -inf, l = 0, and chains that start at -0.0 (NU-6). */
static void begin_piece(decode_walk *walk, int64_t piece) {
  const quire_paged_item *item = walk->item;
  const int64_t members = walk->target.heads_per_kv;
  const int64_t first_head = item->first_head * members;
  for (int64_t row = 0; row < item->row_count; ++row) {
    walk->piece_seen[row] = false;
    for (int64_t i = 0; i < item->head_count * members; ++i) {
      const decode_slot slot = piece_slot(walk, row, first_head + i, piece);
      slot.stats[0] = -INFINITY;
      slot.stats[1] = 0.0f;
      for (int64_t c = 0; c < walk->target.value_size; ++c) {
        slot.values[c] = -0.0f;
      }
    }
  }
}

static void fold_slots(const decode_walk *walk, decode_slot into, bool into_seen, decode_slot from,
                       bool from_seen) {
  quire_attend_state a = state_at(into, into_seen);
  const quire_attend_state b = state_at(from, from_seen);
  fold_state(&a, &b, (size_t)walk->target.value_size);
  into.stats[0] = a.softmax.maximum;
  into.stats[1] = a.softmax.sum;
}

/* l = -1 says that there is no state. */
static void mark_unseen(decode_slot slot) {
  slot.stats[0] = -INFINITY;
  slot.stats[1] = -1.0f;
}

/* A piece of one row and head is complete: folds it, and finishes what ends with it. */
static void place_piece(const decode_walk *walk, int64_t row, int64_t head, int64_t piece,
                        bool group_ends, bool item_ends) {
  const quire_paged_item *item = walk->item;
  const decode_slot slot = piece_slot(walk, row, head, piece);
  const bool seen = walk->piece_seen[row];
  if (item->level == QUIRE_PAGED_PIECES) {
    if (!seen) {
      mark_unseen(slot);
    }
    return;
  }
  decode_slot last = slot;
  bool last_seen = seen;
  if (item->level == QUIRE_PAGED_GROUPS || walk->work_states >= 2) {
    last = item->level == QUIRE_PAGED_GROUPS
               ? stored_slot(walk, row, head, piece / item->group_size)
               : work_slot(walk, row, head, 1);
    fold_slots(walk, last, walk->group_seen[row], slot, seen);
    last_seen = walk->group_seen[row] || seen;
  }
  if (item->level == QUIRE_PAGED_GROUPS) {
    if (group_ends && !last_seen) {
      mark_unseen(last);
    }
    return;
  }
  if (walk->work_states == 3 && group_ends) {
    const decode_slot whole = work_slot(walk, row, head, 2);
    fold_slots(walk, whole, walk->whole_seen[row], last, last_seen);
    last = whole;
    last_seen = walk->whole_seen[row] || last_seen;
  }
  if (item_ends) {
    quire_attend_state state = state_at(last, last_seen);
    finish_row(&walk->target, item->first_row + row, head, &state);
  }
}

static void end_piece(decode_walk *walk, int64_t piece) {
  const quire_paged_item *item = walk->item;
  const int64_t members = walk->target.heads_per_kv;
  const int64_t first_head = item->first_head * members;
  const bool item_ends = piece + 1 == item->first_piece + item->piece_count;
  const bool group_ends = item_ends || (piece + 1) % item->group_size == 0;
  for (int64_t row = 0; row < item->row_count; ++row) {
    for (int64_t i = 0; i < item->head_count * members; ++i) {
      place_piece(walk, row, first_head + i, piece, group_ends, item_ends);
    }
    walk->group_seen[row] = walk->group_seen[row] || walk->piece_seen[row];
    if (group_ends) {
      walk->whole_seen[row] = walk->whole_seen[row] || walk->group_seen[row];
      walk->group_seen[row] = false;
    }
  }
}

/* ---- queries ---- */

/* How many heads, rows and members of a group fit in a chunk. */
static void limit_chunks(decode_walk *walk) {
  const size_t size = attend_padded((size_t)walk->call.key_cache->shape[3]);
  const int64_t most = CHUNK_FLOATS / (int64_t)(size + QUIRE_PAGED_TILE);
  const int64_t members = walk->target.heads_per_kv;
  const int64_t rows = walk->item->row_count;
  walk->head_limit = 1;
  walk->row_limit = 1;
  walk->member_limit = members;
  if (rows * members <= most) {
    /* Chunks of nearly equal numbers of heads. */
    const int64_t fit = most / (rows * members);
    const int64_t chunks = (walk->item->head_count + fit - 1) / fit;
    walk->head_limit = (walk->item->head_count + chunks - 1) / chunks;
    walk->row_limit = rows;
  } else if (members <= most) {
    walk->row_limit = most / members;
  } else {
    walk->member_limit = most < 4 ? most : most / 4 * 4;
  }
}

static int64_t lesser(int64_t a, int64_t b) {
  return a < b ? a : b;
}

/* The chunk after c: members first, then rows, then heads. False after the last. */
static bool next_chunk(const decode_walk *walk, decode_chunk *c) {
  const quire_paged_item *item = walk->item;
  const int64_t members = walk->target.heads_per_kv;
  c->first_member += c->members;
  if (c->first_member >= members) {
    c->first_member = 0;
    c->first_row += c->row_count;
    if (c->first_row >= item->row_count) {
      c->first_row = 0;
      c->first_head += c->head_count;
      if (c->first_head >= item->first_head + item->head_count) {
        return false;
      }
    }
  }
  c->members = lesser(walk->member_limit, members - c->first_member);
  c->row_count = lesser(walk->row_limit, item->row_count - c->first_row);
  c->head_count = lesser(walk->head_limit, item->first_head + item->head_count - c->first_head);
  return true;
}

static decode_chunk first_chunk(const decode_walk *walk) {
  const quire_paged_item *item = walk->item;
  return (decode_chunk){.first_head = item->first_head,
                        .head_count = lesser(walk->head_limit, item->head_count),
                        .row_count = lesser(walk->row_limit, item->row_count),
                        .members = lesser(walk->member_limit, walk->target.heads_per_kv)};
}

static vec load_query(quire_dtype dtype, const void *row, size_t at, size_t n) {
  if (dtype == QUIRE_FLOAT16) {
    return vec_load_first_f16((const uint16_t *)row + at, n);
  }
  if (dtype == QUIRE_BFLOAT16) {
    return vec_load_first_bf16((const uint16_t *)row + at, n);
  }
  return vec_load_first((const float *)row + at, n);
}

/* q'_d = q_d * f_d, f_d = scale, or scale * k_scale_d: each rounded once. Every 16 channels go
   `step` floats further; zeros fill the tail. */
static void scale_query(const decode_walk *walk, int64_t row, int64_t head, float *out,
                        size_t step) {
  const quire_attend_call *call = &walk->call;
  const size_t size = (size_t)call->key_cache->shape[3];
  const size_t at =
      (size_t)((walk->item->first_row + row) * call->query->stride[0]) + (size_t)head * size;
  const float *k_scale = call->k_scale->data;
  const bool per_channel = k_scale != NULL && call->k_scale->ndim != 1;
  const float *channels =
      per_channel ? k_scale + (size_t)(head / walk->target.heads_per_kv) * size : k_scale;
  vec factor = vec_set(k_scale != NULL && !per_channel ? call->scale * *k_scale : call->scale);
  for (size_t d = 0; d < attend_padded(size); d += VEC_LANES) {
    const size_t left = d < size ? size - d : 0;
    const size_t n = left < VEC_LANES ? left : VEC_LANES;
    const vec q = load_query(call->query->dtype, call->query->data, at + d, n);
    if (per_channel) {
      factor = vec_mul(vec_set(call->scale), vec_load_first(channels + d, n));
    }
    const vec_mask real = vec_mask_of_bits(bits_between(0, (int64_t)n));
    vec_store(out + d / 16 * step + d % 16, vec_select(real, vec_mul(q, factor), vec_zero()));
  }
}

static size_t chunk_queries(const decode_chunk *c) {
  return (size_t)(c->head_count * c->row_count * c->members);
}

/* Query i of a chunk: head by head, in a head row by row. */
static void query_at(const decode_walk *walk, const decode_chunk *c, size_t i, int64_t *row,
                     int64_t *head) {
  const int64_t per_head = c->row_count * c->members;
  const int64_t in_head = (int64_t)i % per_head;
  *row = c->first_row + in_head / c->members;
  *head = (c->first_head + (int64_t)i / per_head) * walk->target.heads_per_kv + c->first_member +
          in_head % c->members;
}

static bool same_chunk(const decode_chunk *a, const decode_chunk *b) {
  return a->first_head == b->first_head && a->first_row == b->first_row &&
         a->first_member == b->first_member && a->members == b->members;
}

static float *scores_of(decode_walk *walk, const decode_chunk *c) {
  return walk->room + chunk_queries(c) * attend_padded((size_t)walk->call.key_cache->shape[3]);
}

static void load_queries(decode_walk *walk, const decode_chunk *c) {
  if (same_chunk(&walk->loaded, c)) {
    return;
  }
  walk->loaded = *c;
  const size_t stride = attend_padded((size_t)walk->call.key_cache->shape[3]);
  const size_t count = chunk_queries(c);
  const size_t per_head = (size_t)(c->row_count * c->members);
  for (size_t i = 0; i < count; ++i) {
    int64_t row;
    int64_t head;
    query_at(walk, c, i, &row, &head);
    /* A head's queries are taken in blocks of 4, at last of 2 and of 1, which share their lines. */
    const size_t left = per_head - i % per_head / 4 * 4;
    const size_t in_four = i % per_head % 4;
    const size_t block = left >= 4 ? 4 : left >= 2 && in_four < 2 ? 2 : 1;
    const size_t in_block = block == 1 ? 0 : in_four;
    scale_query(walk, row, head, walk->room + (i - in_block) * stride + in_block * 16, block * 16);
  }
  /* Keys that no row sees get no scores, but they are loaded before they are masked. */
  memset(scores_of(walk, c), 0, count * QUIRE_PAGED_TILE * sizeof(float));
}

/* Puts m and l of the chunk on the stack back to where they came from. */
static void store_states(decode_walk *walk) {
  for (size_t i = 0; i < walk->state_count; ++i) {
    walk->stats[i][0] = walk->maximum[i];
    walk->stats[i][1] = walk->sum[i];
  }
  walk->state_count = 0;
}

/* Brings the chunk's m and l to the stack, and finds its accumulators. */
static void load_states(decode_walk *walk, const decode_chunk *c, int64_t piece) {
  if (walk->state_count != 0 && walk->state_piece == piece && same_chunk(&walk->state_chunk, c)) {
    return;
  }
  store_states(walk);
  const size_t count = chunk_queries(c);
  for (size_t i = 0; i < count; ++i) {
    int64_t row;
    int64_t head;
    query_at(walk, c, i, &row, &head);
    const decode_slot slot = piece_slot(walk, row, head, piece);
    walk->maximum[i] = slot.stats[0];
    walk->sum[i] = slot.stats[1];
    walk->stats[i] = slot.stats;
    walk->accumulators[i] = slot.values;
  }
  for (size_t i = count; i % VEC_LANES != 0; ++i) {
    walk->maximum[i] = 0.0f;
    walk->sum[i] = 0.0f;
  }
  walk->state_count = count;
  walk->state_piece = piece;
  walk->state_chunk = *c;
}

/* ---- a tile ---- */

/*
 * A step of a tile: the keys, or the values, of a sub-block. The lists of neighbouring tiles and
 * chunks follow each other, and every step prefetches what the step after the next one reads.
 */
typedef struct decode_step {
  const char *const *rows; /* 8 keys, of K/V head 0 */
  const quire_view *cache;
  int64_t first_head, head_count;
  int sub;
} decode_step;

enum { STEPS_AHEAD = 1, TILE_STEPS = 2 * SUB_BLOCKS };

static uint32_t sub_mask(uint64_t mask, int sub) {
  return (uint32_t)(mask >> (sub * ATTEND_KEYS)) & 0xffu;
}

/* Appends the sub-blocks with a present key, at most `most`; returns the new count. */
static int add_steps(const decode_tile *t, bool values, const decode_walk *walk,
                     const decode_chunk *c, int count, int most, decode_step *steps) {
  for (int sub = 0; sub < SUB_BLOCKS && count < most; ++sub) {
    if (sub_mask(t->present, sub) != 0) {
      steps[count++] = (decode_step){(values ? t->values : t->keys) + sub * ATTEND_KEYS,
                                     values ? walk->call.value_cache : walk->call.key_cache,
                                     c->first_head, c->head_count, sub};
    }
  }
  return count;
}

/* A step's memory in the order in which it lies, an equal part for each head of the step that
   prefetches it: 8 rows of one key and head each. */
typedef struct decode_ahead {
  const decode_step *step;
  ptrdiff_t head_bytes, row_bytes; /* from head to head, and of a row */
  bool by_key;                     /* the heads of a key lie together */
  int64_t key, head;               /* the next row */
} decode_ahead;

static decode_ahead look_ahead(const decode_step *step) {
  const quire_view *cache = step->cache;
  return (decode_ahead){.step = step,
                        .head_bytes = row_bytes(cache, cache->stride[2]),
                        .row_bytes = row_bytes(cache, cache->shape[3]),
                        .by_key = cache->stride[2] < cache->stride[1]};
}

/* Finds the next 8 rows; rows that touch are one piece. */
static attend_ahead next_pieces(decode_ahead *a, attend_piece pieces[ATTEND_KEYS]) {
  const decode_step *step = a->step;
  attend_piece *piece = pieces;
  int64_t left = ATTEND_KEYS;
  while (left > 0) {
    const char *row = step->rows[a->key] + (step->first_head + a->head) * a->head_bytes;
    int64_t count = 1;
    if (a->by_key && a->head_bytes == a->row_bytes) {
      count = left < step->head_count - a->head ? left : step->head_count - a->head;
    }
    *piece++ = (attend_piece){row, row + count * a->row_bytes};
    left -= count;
    if (!a->by_key) {
      a->key = (a->key + 1) % ATTEND_KEYS;
      a->head += a->key == 0;
    } else {
      a->head += count;
    }
    if (a->head == step->head_count) {
      a->head = 0;
      a->key = a->by_key ? (a->key + 1) % ATTEND_KEYS : a->key;
    }
  }
  return (attend_ahead){.piece = pieces, .last = piece};
}

static void score_step(decode_walk *walk, const decode_step *step, const decode_step *ahead,
                       const decode_chunk *c) {
  const size_t size = (size_t)step->cache->shape[3];
  const size_t per_head = (size_t)(c->row_count * c->members);
  const ptrdiff_t head_bytes = row_bytes(step->cache, step->cache->stride[2]);
  attend_rows rows = {step->rows, c->first_head * head_bytes, ATTEND_KEYS};
  const float *q = walk->room;
  float *scores = scores_of(walk, c) + step->sub * ATTEND_KEYS;
  decode_ahead rows_ahead = look_ahead(ahead);
  attend_piece pieces[ATTEND_KEYS];
  for (int64_t i = 0; i < c->head_count; ++i) {
    attend_ahead prefetch = next_pieces(&rows_ahead, pieces);
    walk->loops.scores(&rows, &prefetch, q, size, per_head, scores);
    rows.offset += head_bytes;
    q += per_head * attend_padded(size);
    scores += per_head * QUIRE_PAGED_TILE;
  }
}

enum { TILE_VECS = QUIRE_PAGED_TILE / VEC_LANES };

/* Softcap and mask, in place; the largest score in each lane. */
static vec mask_scores(const decode_walk *walk, uint64_t mask, float *scores) {
  vec most = vec_set(-INFINITY);
  const float cap = walk->call.softcap;
  for (int i = 0; i < TILE_VECS; ++i) {
    vec score = vec_load(scores + i * VEC_LANES);
    if (cap > 0.0f) {
      score = vec_mul(vec_set(cap), vec_tanh(vec_div(score, vec_set(cap))));
    }
    if (mask != UINT64_MAX) {
      score = vec_select(vec_mask_of_bits(mask >> (i * VEC_LANES)), score, vec_set(-INFINITY));
    }
    if (cap > 0.0f || mask != UINT64_MAX) {
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

/* Turns a query's scores into weights; their sums, lane by lane, up to vec_sum_rows. */
static vec weigh_scores(float *scores, float maximum) {
  const vec m = vec_set(maximum);
  vec w[TILE_VECS];
  for (int i = 0; i < TILE_VECS; ++i) {
    w[i] = weights_of(vec_load(scores + i * VEC_LANES), m);
    vec_store(scores + i * VEC_LANES, w[i]);
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
  vec rows[VEC_LANES];
  for (int i = 0; i < VEC_LANES; ++i) {
    if (i < count) {
      const size_t row = (first + (size_t)i) % per_head / (size_t)c->members;
      const uint64_t mask = t->masks[(size_t)c->first_row + row];
      rows[i] = mask_scores(walk, mask, scores + i * QUIRE_PAGED_TILE);
    } else {
      rows[i] = vec_zero();
    }
  }
  const vec before = vec_load(walk->maximum + first);
  const vec maximum = vec_max(before, vec_max_rows(rows));
  const vec factor = weights_of(before, maximum);
  vec_store(walk->maximum + first, maximum);
  vec_store(walk->factor + first, factor);
  for (int i = 0; i < count; ++i) {
    rows[i] = weigh_scores(scores + i * QUIRE_PAGED_TILE, walk->maximum[first + (size_t)i]);
  }
  const vec sums = vec_sum_rows(rows);
  vec_store(walk->sum + first, vec_fma(vec_load(walk->sum + first), factor, sums));
}

/* Neighbouring keys of a sub-block that the same rows see. */
typedef struct decode_run {
  int first, count;            /* keys */
  size_t first_query, queries; /* of a head */
  bool begins;                 /* the first of its rows in this tile */
} decode_run;

enum { MOST_RUNS = QUIRE_PAGED_EXACT_TOKENS * ATTEND_KEYS / 2 };

/* Appends the runs of one mask in a sub-block. */
static int add_runs(uint64_t mask, int sub, size_t first_query, size_t queries, int count,
                    decode_run *runs) {
  const uint32_t bits = sub_mask(mask, sub);
  bool begins = (mask & (((uint64_t)1 << (sub * ATTEND_KEYS)) - 1)) == 0;
  for (int key = 0; key < ATTEND_KEYS;) {
    int end = key;
    while (end < ATTEND_KEYS && (bits >> end & 1) != 0) {
      ++end;
    }
    if (end > key) {
      runs[count++] = (decode_run){key, end - key, first_query, queries, begins};
      begins = false;
    }
    key = end + 1;
  }
  return count;
}

static int find_runs(const decode_tile *t, const decode_chunk *c, int sub, decode_run *runs) {
  const size_t members = (size_t)c->members;
  if (t->alike) {
    return add_runs(t->masks[0], sub, 0, members * (size_t)c->row_count, 0, runs);
  }
  int count = 0;
  for (int64_t i = 0; i < c->row_count; ++i) {
    const uint64_t mask = t->masks[c->first_row + i];
    count = add_runs(mask, sub, (size_t)i * members, members, count, runs);
  }
  return count;
}

static void value_step(decode_walk *walk, const decode_tile *t, const decode_step *step,
                       const decode_step *ahead, const decode_chunk *c) {
  const size_t size = (size_t)step->cache->shape[3];
  const size_t per_head = (size_t)(c->row_count * c->members);
  const ptrdiff_t head_bytes = row_bytes(step->cache, step->cache->stride[2]);
  decode_run runs[MOST_RUNS];
  const int run_count = find_runs(t, c, step->sub, runs);
  attend_rows rows = {.offset = c->first_head * head_bytes};
  const float *weights = scores_of(walk, c) + step->sub * ATTEND_KEYS;
  decode_ahead rows_ahead = look_ahead(ahead);
  attend_piece pieces[ATTEND_KEYS];
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

/* ---- an item ---- */

static void walk_tiles(decode_walk *walk) {
  const quire_paged_item *item = walk->item;
  const int64_t end_piece_index = item->first_piece + item->piece_count;
  decode_tile *t = &walk->tiles[0];
  decode_tile *following = &walk->tiles[1];
  next_tile(walk, t);
  for (int64_t piece = item->first_piece; piece < end_piece_index; ++piece) {
    begin_piece(walk, piece);
    while (t->piece == piece) {
      next_tile(walk, following);
      attend_tile(walk, t, following);
      for (int64_t row = 0; row < item->row_count; ++row) {
        walk->piece_seen[row] = walk->piece_seen[row] || t->masks[row] != 0;
      }
      decode_tile *swap = t;
      t = following;
      following = swap;
    }
    store_states(walk);
    end_piece(walk, piece);
  }
}

/* Whether the states under construction have their place. */
static bool has_room(const quire_pass *pass, const quire_paged_item *item, int64_t num_heads) {
  const int64_t need = item->row_count * num_heads * quire_paged_work_states(item);
  return need == 0 || item->work_base + need <= pass->views[QUIRE_ATTEND_WORK_VALUES].shape[0];
}

static void attend_short(const quire_pass *pass, const quire_paged_item *item) {
  const quire_attend_uniforms *uniforms = pass->uniforms;
  if (pass->views[QUIRE_ATTEND_KEY_CACHE].shape[3] > DECODE_HEAD_SIZE || item->piece_count == 0 ||
      !has_room(pass, item, uniforms->num_heads)) {
    quire_paged_attention_attend_item(pass, item);
    return;
  }
  decode_walk walk;
  walk.pass = pass;
  walk.item = item;
  quire_attend_open(pass, &walk.call, &walk.target);
  walk.num_heads = uniforms->num_heads;
  walk.work_states = quire_paged_work_states(item);
  walk.loops = loops_of(walk.call.key_cache->dtype);
  walk.loaded = (decode_chunk){.first_head = -1};
  walk.state_count = 0;
  for (int64_t i = 0; i < item->row_count; ++i) {
    quire_paged_visible(item->first_position + i, item->end_position, uniforms->is_causal != 0,
                        uniforms->window, &walk.row_first[i], &walk.row_end[i]);
    walk.group_seen[i] = false;
    walk.whole_seen[i] = false;
  }
  walk.first = walk.row_first[0];
  walk.end = walk.row_end[item->row_count - 1];
  walk.piece = item->first_piece;
  walk.position = walk.first;
  limit_chunks(&walk);
  walk_tiles(&walk);
}
