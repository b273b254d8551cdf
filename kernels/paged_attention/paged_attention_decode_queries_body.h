/* Decode over the SIMD vocabulary: chunks of queries, brought to the stack with their states. */
#ifndef QUIRE_KERNELS_PAGED_ATTENTION_DECODE_QUERIES_BODY_H
#define QUIRE_KERNELS_PAGED_ATTENTION_DECODE_QUERIES_BODY_H

#include "paged_attention_decode_states_body.h"

/* How many heads, rows and members of a group fit in a chunk. */
static void limit_chunks(decode_walk *walk) {
  const size_t size = attend_padded((size_t)walk->call.head_size);
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

static vec load_query(quire_dtype dtype, const void *row, size_t at) {
  if (dtype == QUIRE_FLOAT16) {
    return vec_load_f16((const uint16_t *)row + at);
  }
  if (dtype == QUIRE_BFLOAT16) {
    return vec_load_bf16((const uint16_t *)row + at);
  }
  return vec_load((const float *)row + at);
}

static vec load_query_first(quire_dtype dtype, const void *row, size_t at, size_t n) {
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
static void scale_query(const decode_walk *walk, int64_t row, int64_t head, int64_t kv_head,
                        float *out, size_t step) {
  const quire_attend_call *call = &walk->call;
  const size_t size = (size_t)call->head_size;
  const size_t at =
      (size_t)((walk->item->first_row + row) * call->query->stride[0]) + (size_t)head * size;
  const float *k_scale = call->k_scale->data;
  const bool per_channel = k_scale != NULL && call->k_scale->ndim != 1;
  const float *channels = per_channel ? k_scale + (size_t)kv_head * size : k_scale;
  vec factor = vec_set(k_scale != NULL && !per_channel ? call->scale * *k_scale : call->scale);
  size_t d = 0;
  for (; d + VEC_LANES <= size; d += VEC_LANES) {
    const vec q = load_query(call->query->dtype, call->query->data, at + d);
    if (per_channel) {
      factor = vec_mul(vec_set(call->scale), vec_load(channels + d));
    }
    vec_store(out + d / 16 * step + d % 16, vec_mul(q, factor));
  }
  for (; d < attend_padded(size); d += VEC_LANES) {
    const size_t n = d < size ? size - d : 0;
    const vec q = load_query_first(call->query->dtype, call->query->data, at + d, n);
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

/* A query of a chunk: head by head, in a head row by row. */
typedef struct decode_query {
  int64_t kv_head, row, member;
  size_t in_head; /* index among the chunk's queries of the K/V head */
} decode_query;

static decode_query first_query(const decode_chunk *c) {
  return (decode_query){c->first_head, c->first_row, c->first_member, 0};
}

static void next_query(const decode_chunk *c, decode_query *at) {
  ++at->in_head;
  if (++at->member == c->first_member + c->members) {
    at->member = c->first_member;
    if (++at->row == c->first_row + c->row_count) {
      at->row = c->first_row;
      at->in_head = 0;
      ++at->kv_head;
    }
  }
}

static bool same_chunk(const decode_chunk *a, const decode_chunk *b) {
  return a->first_head == b->first_head && a->first_row == b->first_row &&
         a->first_member == b->first_member && a->members == b->members;
}

static float *scores_of(decode_walk *walk, const decode_chunk *c) {
  return walk->room + chunk_queries(c) * attend_padded((size_t)walk->call.head_size);
}

static void load_queries(decode_walk *walk, const decode_chunk *c) {
  if (same_chunk(&walk->loaded, c)) {
    return;
  }
  walk->loaded = *c;
  const size_t stride = attend_padded((size_t)walk->call.head_size);
  const size_t count = chunk_queries(c);
  const size_t per_head = (size_t)(c->row_count * c->members);
  decode_query at = first_query(c);
  for (size_t i = 0; i < count; ++i, next_query(c, &at)) {
    /* A head's queries are taken in blocks of 4, at last of 2 and of 1, which share their lines. */
    const size_t left = per_head - at.in_head / 4 * 4;
    const size_t in_four = at.in_head % 4;
    const size_t block = left >= 4 ? 4 : left >= 2 && in_four < 2 ? 2 : 1;
    const size_t in_block = block == 1 ? 0 : in_four;
    scale_query(walk, at.row, at.kv_head * walk->target.heads_per_kv + at.member, at.kv_head,
                walk->room + (i - in_block) * stride + in_block * 16, block * 16);
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
  decode_query at = first_query(c);
  for (size_t i = 0; i < count; ++i, next_query(c, &at)) {
    const decode_slot slot =
        piece_slot(walk, at.row, at.kv_head * walk->target.heads_per_kv + at.member, piece);
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

#endif
