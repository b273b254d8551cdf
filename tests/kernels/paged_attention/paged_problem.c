#include "paged_problem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void *take(paged_built *b, int64_t bytes) {
  char *memory = calloc((size_t)bytes + 64, 1);
  assert_non_null(memory);
  b->memory[b->count++] = memory;
  return memory;
}

void paged_release(paged_built *b) {
  for (size_t i = 0; i < b->count; ++i) {
    free(b->memory[i]);
  }
}

static uint64_t seed_of(int64_t kind, int64_t sequence, int64_t position, int64_t head) {
  uint64_t seed = 0x9e3779b97f4a7c15u;
  const int64_t parts[4] = {kind, sequence, position, head};
  for (size_t i = 0; i < 4; ++i) {
    seed = (seed ^ (uint64_t)parts[i]) * 6364136223846793005u + 1442695040888963407u;
    seed ^= seed >> 29;
  }
  return seed;
}

enum { KIND_QUERY, KIND_KEY, KIND_VALUE, KIND_SINK, KIND_SCALE };

static void fill_row(const paged_problem *p, int64_t kind, int64_t sequence, int64_t position,
                     int64_t head, void *row) {
  uint64_t seed = seed_of(kind, sequence, position, head);
  paged_fill(p->dtype, row, p->head_size, kind == KIND_QUERY ? 3.0f : 1.0f, &seed);
}

static void fill_cached(const paged_problem *p, int64_t kind, int64_t sequence, int64_t position,
                        int64_t head, void *row) {
  if (p->quantised == 0) {
    fill_row(p, kind, sequence, position, head, row);
    return;
  }
  uint64_t seed = seed_of(kind, sequence, position, head);
  for (int64_t d = 0; d < p->head_size; ++d) {
    ((int8_t *)row)[d] = (int8_t)(paged_random(&seed) * 127.0f);
  }
}

static int64_t end_token(const paged_problem *p, const paged_layout *l, int64_t sequence) {
  return l->end_token > 0 ? l->end_token : p->fresh[sequence];
}

static void build_sizes(const paged_problem *p, const paged_layout *l, paged_built *b) {
  paged_call *c = &b->call;
  int64_t longest = 1;
  int64_t blocks = 0;
  for (int64_t s = l->first; s < l->end; ++s) {
    const int64_t total = p->past[s] + p->fresh[s];
    longest = total > longest ? total : longest;
    blocks += total / p->block_size + 1;
    b->rows += end_token(p, l, s) - l->first_token;
  }
  c->dtype = p->dtype;
  c->cache_dtype = p->quantised != 0 ? QUIRE_INT8 : p->dtype;
  c->tokens = b->rows;
  c->sequences = l->end - l->first;
  c->num_heads = p->num_heads;
  c->kv_num_heads = p->kv_num_heads;
  c->head_size = p->head_size;
  c->block_size = p->block_size;
  c->block_count = blocks + 2;
  c->columns = (longest + p->block_size - 1) / p->block_size + l->extra_columns;
  c->window = p->window;
  c->softcap = p->softcap;
  c->non_causal = p->non_causal;
  c->per_channel = p->quantised == 2;
  c->state_limit = c->extra_items = c->runners = -1;
}

static void build_caches(const paged_problem *p, const paged_layout *l, paged_built *b) {
  paged_call *c = &b->call;
  const int64_t row = p->head_size;
  const int64_t elements = c->block_count * p->block_size * p->kv_num_heads * row;
  const int64_t bytes = elements * (int64_t)quire_dtype_size(c->cache_dtype);
  c->key_cache = take(b, bytes);
  c->value_cache = take(b, bytes);
  memset(c->key_cache, 0xff, (size_t)bytes); /* NaN in every float type */
  memset(c->value_cache, 0xff, (size_t)bytes);
  if (l->head_major) {
    c->cache_stride[2] = c->block_count * p->block_size * row;
    c->cache_stride[0] = p->block_size * row;
    c->cache_stride[1] = row;
  } else {
    c->cache_stride[0] = p->block_size * p->kv_num_heads * row;
    c->cache_stride[1] = p->kv_num_heads * row;
    c->cache_stride[2] = row;
  }
  c->cache_stride[3] = 1;
}

/* Physical blocks in shuffled order; unused table entries do not exist. */
static void build_table(const paged_problem *p, const paged_layout *l, paged_built *b) {
  paged_call *c = &b->call;
  int32_t *order = take(b, c->block_count * 4);
  uint64_t seed = l->shuffle;
  for (int64_t i = 0; i < c->block_count; ++i) {
    const int64_t j = (int64_t)((double)(paged_random(&seed) * 0.5f + 0.5f) * (double)i);
    order[i] = order[j];
    order[j] = (int32_t)i;
  }
  int32_t *table = take(b, c->sequences * c->columns * 4);
  int64_t next = 0;
  for (int64_t s = l->first; s < l->end; ++s) {
    const int64_t blocks = (p->past[s] + p->fresh[s] + p->block_size - 1) / p->block_size;
    for (int64_t column = 0; column < c->columns; ++column) {
      int32_t entry = column % 2 == 0 ? -7 : 1 << 30;
      if (column < blocks) {
        entry = order[next++];
      }
      if (s == 0 && p->hole != 0 && column == p->hole) {
        entry = -1;
      }
      table[(s - l->first) * c->columns + column] = entry;
    }
  }
  c->table = table;
}

/* A scale for each row and head, in the caches' order: NaN until the row is written. */
static void build_scale_caches(const paged_problem *p, const paged_layout *l, paged_built *b) {
  paged_call *c = &b->call;
  const int64_t bytes = c->block_count * p->block_size * p->kv_num_heads * 4;
  float *keys = take(b, bytes);
  float *values = take(b, bytes);
  memset(keys, 0xff, (size_t)bytes);
  memset(values, 0xff, (size_t)bytes);
  c->k_scale_cache = p->quantised == 3 ? keys : NULL;
  c->v_scale_cache = p->quantised == 3 ? values : NULL;
  c->scale_stride[0] = p->block_size * (l->head_major ? 1 : p->kv_num_heads);
  c->scale_stride[1] = l->head_major ? 1 : p->kv_num_heads;
  c->scale_stride[2] = l->head_major ? c->block_count * p->block_size : 1;
}

/* `row` of the table is the sequence's. */
static void fill_scale(const paged_call *c, float *scales, int64_t kind, int64_t row,
                       int64_t sequence, int64_t position, int64_t head) {
  if (scales == NULL) {
    return;
  }
  const int64_t block = c->table[row * c->columns + position / c->block_size];
  uint64_t seed = seed_of(kind + KIND_SCALE, sequence, position, head);
  scales[block * c->scale_stride[0] + position % c->block_size * c->scale_stride[1] +
         head * c->scale_stride[2]] = (1.5f + paged_random(&seed)) / 127.0f;
}

/* Cached rows before the first token of the call. */
static void build_history(const paged_problem *p, const paged_layout *l, paged_built *b) {
  const paged_call *c = &b->call;
  const int64_t size = (int64_t)quire_dtype_size(c->cache_dtype);
  for (int64_t s = l->first; s < l->end; ++s) {
    for (int64_t j = 0; j < p->past[s] + l->first_token; ++j) {
      const int32_t block = c->table[(s - l->first) * c->columns + j / p->block_size];
      for (int64_t h = 0; block >= 0 && h < p->kv_num_heads; ++h) {
        const int64_t at = block * c->cache_stride[0] + j % p->block_size * c->cache_stride[1] +
                           h * c->cache_stride[2];
        fill_cached(p, KIND_KEY, s, j, h, (char *)c->key_cache + at * size);
        fill_cached(p, KIND_VALUE, s, j, h, (char *)c->value_cache + at * size);
        fill_scale(c, c->k_scale_cache, KIND_KEY, s - l->first, s, j, h);
        fill_scale(c, c->v_scale_cache, KIND_VALUE, s - l->first, s, j, h);
      }
    }
  }
}

static void build_new_rows(const paged_problem *p, const paged_layout *l, paged_built *b) {
  paged_call *c = &b->call;
  const int64_t size = (int64_t)quire_dtype_size(p->dtype) * p->head_size;
  const int64_t packed_heads = p->packed ? 2 * p->kv_num_heads : 0;
  const int64_t query_heads = p->num_heads + packed_heads;
  const int64_t query_row = query_heads * size + (l->spread_query ? 3 * size : 0);
  char *query = take(b, b->rows * query_row);
  char *key = take(b, b->rows * p->kv_num_heads * size);
  char *value = take(b, b->rows * p->kv_num_heads * size);
  int64_t row = 0;
  for (int64_t s = l->first; s < l->end; ++s) {
    for (int64_t i = l->first_token; i < end_token(p, l, s); ++i, ++row) {
      const int64_t position = p->past[s] + i;
      for (int64_t h = 0; h < p->num_heads; ++h) {
        fill_row(p, KIND_QUERY, s, position, h, query + row * query_row + h * size);
      }
      for (int64_t h = 0; h < p->kv_num_heads; ++h) {
        char *packed = query + row * query_row + (p->num_heads + h) * size;
        const int64_t at = (row * p->kv_num_heads + h) * size;
        fill_row(p, KIND_KEY, s, position, h, p->packed ? packed : key + at);
        fill_row(p, KIND_VALUE, s, position, h,
                 p->packed ? packed + p->kv_num_heads * size : value + at);
      }
    }
  }
  c->query = query;
  c->query_stride = query_row / (int64_t)quire_dtype_size(p->dtype);
  c->key = p->packed ? NULL : key;
  c->value = p->packed ? NULL : value;
}

static void build_lengths(const paged_problem *p, const paged_layout *l, paged_built *b) {
  paged_call *c = &b->call;
  int32_t *cumulative = take(b, (c->sequences + 1) * 4);
  int32_t *past = take(b, c->sequences * 4);
  int32_t *slots = take(b, b->rows * 4);
  int64_t row = 0;
  for (int64_t s = l->first; s < l->end; ++s) {
    past[s - l->first] = (int32_t)(p->past[s] + l->first_token);
    for (int64_t i = l->first_token; i < end_token(p, l, s); ++i, ++row) {
      const int64_t j = p->past[s] + i;
      const int32_t block = c->table[(s - l->first) * c->columns + j / p->block_size];
      slots[row] = block < 0 ? -1 : (int32_t)(block * p->block_size + j % p->block_size);
    }
    cumulative[s - l->first + 1] = (int32_t)row;
  }
  c->cumulative = cumulative;
  c->past = past;
  c->slots = l->mapped_slots ? slots : NULL;
}

void paged_build(const paged_problem *p, const paged_layout *l, paged_built *b) {
  memset(b, 0, sizeof *b);
  build_sizes(p, l, b);
  build_caches(p, l, b);
  build_table(p, l, b);
  build_scale_caches(p, l, b);
  build_history(p, l, b);
  build_new_rows(p, l, b);
  build_lengths(p, l, b);
  paged_call *c = &b->call;
  uint64_t seed = seed_of(KIND_SINK, 0, 0, 0);
  void *sink = take(b, p->num_heads * 4);
  paged_fill(p->dtype, sink, p->num_heads, 2.0f, &seed);
  c->sink = p->sink ? sink : NULL;
  float *scales = take(b, 2 * p->kv_num_heads * p->head_size * 4);
  for (int64_t i = 0; i < 2 * p->kv_num_heads * p->head_size; ++i) {
    scales[i] = (1.5f + paged_random(&seed)) / 127.0f;
  }
  const bool given = p->quantised == 1 || p->quantised == 2;
  c->k_scale = given ? scales : NULL;
  c->v_scale = given ? scales + p->kv_num_heads * p->head_size : NULL;
  const int64_t outputs = b->rows * p->num_heads;
  c->output = take(b, outputs * p->head_size * 4);
  c->softmax_lse = take(b, outputs * 4);
}
