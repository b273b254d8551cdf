/* Random calls of PagedAttention. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "differential_call.h"

enum { MOST_SEQUENCES = 5 };

typedef struct problem {
  quire_dtype element, cache;
  int64_t kv_heads, heads, size, block, columns, blocks, tokens;
  int64_t sequences, past[MOST_SEQUENCES], fresh[MOST_SEQUENCES];
  int64_t window;
  bool is_packed, is_causal, is_sparse, is_head_major;
  float scale; /* of what is stored */
  int64_t strides[4];
  int32_t *table; /* [sequences, columns] */
} problem;

/* Where keys are few, many heads and wide heads are affordable. */
static void choose_lengths(diff_call *call, problem *p) {
  static const int64_t long_past[] = {0, 1, 62, 63, 64, 65, 130, 511, 512, 700, 1025, 1600};
  p->sequences = diff_between(&call->random, 1, MOST_SEQUENCES);
  for (int64_t s = 0; s < p->sequences; ++s) {
    const int64_t kind = diff_between(&call->random, 0, 9);
    p->past[s] = diff_pick(&call->random, long_past, 12);
    p->fresh[s] = kind < 4   ? 1
                  : kind < 7 ? diff_between(&call->random, 2, 8)
                  : kind < 9 ? diff_between(&call->random, 9, 40)
                             : 0;
    if (p->fresh[s] > 8 && p->past[s] > 200) {
      p->past[s] = diff_between(&call->random, 0, 200);
    }
  }
  if (diff_once_in(&call->random, 12)) { /* more than a group of ranges */
    p->sequences = 1;
    p->past[0] = diff_between(&call->random, 8190, 8800);
    p->fresh[0] = diff_between(&call->random, 1, 2);
  }
}

static void choose_heads(diff_call *call, problem *p) {
  static const int64_t sizes[] = {1, 3, 8, 15, 16, 17, 20, 32, 40, 64, 64, 80, 96, 128, 128, 256};
  static const int64_t groups[] = {1, 2, 3, 4, 4, 5, 7, 8};
  static const int64_t blocks[] = {1, 3, 8, 16, 16, 32, 48};
  p->size = diff_pick(&call->random, sizes, 16);
  p->kv_heads = diff_between(&call->random, 1, 3);
  p->heads = p->kv_heads * diff_pick(&call->random, groups, 8);
  p->block = diff_pick(&call->random, blocks, 7);
  double work = 0;
  for (int64_t s = 0; s < p->sequences; ++s) {
    work += (double)p->fresh[s] * (double)(p->past[s] + p->fresh[s]);
  }
  while (work * (double)(p->heads * p->size) > 6e6 && p->size > 8) {
    p->size /= 2;
  }
}

static void choose(diff_call *call, problem *p) {
  static const quire_dtype floats[] = {QUIRE_FLOAT32, QUIRE_FLOAT16, QUIRE_BFLOAT16};
  p->element = floats[call->seed % 3];
  p->cache = diff_once_in(&call->random, 3) ? QUIRE_INT8 : p->element;
  p->is_causal = !diff_once_in(&call->random, 8);
  p->is_packed = diff_once_in(&call->random, 4);
  p->is_head_major = diff_once_in(&call->random, 3);
  p->scale = diff_once_in(&call->random, 10)   ? 60.0f
             : diff_once_in(&call->random, 12) ? 1e-40f
                                               : 1.0f;
  choose_lengths(call, p);
  choose_heads(call, p);
  p->is_sparse = diff_once_in(&call->random, 16);
  if (p->is_sparse) { /* few blocks, far apart */
    p->sequences = 1;
    p->past[0] = diff_between(&call->random, 1, 40);
    p->fresh[0] = diff_between(&call->random, 1, 20);
    p->block = 16;
  }
  static const int64_t windows[] = {1, 5, 64, 100, 513, 600};
  p->window = diff_once_in(&call->random, 4) ? diff_pick(&call->random, windows, 6) : 0;
}

/* Blocks in random order; a hole now and then, and columns that nobody reads. */
static void make_table(diff_call *call, problem *p) {
  int64_t needed = 0;
  int64_t longest = 1;
  for (int64_t s = 0; s < p->sequences; ++s) {
    const int64_t blocks = (p->past[s] + p->fresh[s] + p->block - 1) / p->block;
    needed += blocks;
    longest = blocks > longest ? blocks : longest;
    p->tokens += p->fresh[s];
  }
  p->columns = longest + diff_between(&call->random, 0, 3);
  p->blocks = needed + (p->is_sparse ? 0 : diff_between(&call->random, 0, 2));
  p->blocks = p->blocks > 0 ? p->blocks : 1;
  const int64_t shape[2] = {p->sequences, p->columns};
  const diff_tensor *table = diff_add(call, "block_table", false, QUIRE_INT32, 2, shape, NULL);
  p->table = table->tensor.data;
  int32_t *order = calloc((size_t)p->blocks, sizeof *order);
  for (int64_t i = 0; order && i < p->blocks; ++i) {
    const int64_t other = diff_between(&call->random, 0, i);
    order[i] = order[other];
    order[other] = (int32_t)i;
  }
  int64_t next = 0;
  for (int64_t s = 0; order && s < p->sequences; ++s) {
    const int64_t blocks = (p->past[s] + p->fresh[s] + p->block - 1) / p->block;
    for (int64_t c = 0; c < blocks; ++c) {
      p->table[s * p->columns + c] = order[next++];
    }
    const int64_t cached = p->past[s] / p->block;
    if (cached > 1 && diff_once_in(&call->random, 6)) {
      p->table[s * p->columns + diff_between(&call->random, 0, cached - 1)] = -1;
      call->flags = 0;
    }
  }
  free(order);
}

static void make_strides(diff_call *call, problem *p) {
  const int64_t row = p->kv_heads * p->size;
  const int64_t dense[4] = {p->block * row, row, p->size, 1};
  const int64_t head_major[4] = {p->block * p->size, p->size, p->blocks * p->block * p->size, 1};
  memcpy(p->strides, p->is_head_major ? head_major : dense, sizeof p->strides);
  if (!p->is_head_major && diff_once_in(&call->random, 4)) { /* rows and blocks apart */
    p->strides[1] += diff_between(&call->random, 1, 7);
    p->strides[0] = p->strides[1] * p->block + diff_between(&call->random, 0, 9);
  }
  if (p->is_sparse) {
    memcpy(p->strides, dense, sizeof dense);
    p->strides[0] = INT64_C(0x80000011); /* elements */
  }
}

/* Rows that some token sees hold numbers, all others NaN. */
static void fill_cache(diff_call *call, const problem *p, const diff_tensor *cache) {
  const bool has_odd = diff_once_in(&call->random, 20);
  for (int64_t s = 0; s < p->sequences; ++s) {
    const int64_t first =
        p->window > 0 && p->past[s] + 1 > p->window ? p->past[s] + 1 - p->window : 0;
    for (int64_t j = first; j < p->past[s] && p->fresh[s] > 0; ++j) {
      const int32_t block = p->table[s * p->columns + j / p->block];
      for (int64_t h = 0; block >= 0 && h < p->kv_heads; ++h) {
        const int64_t at = block * p->strides[0] + j % p->block * p->strides[1] + h * p->strides[2];
        for (int64_t d = 0; d < p->size; ++d) {
          const float x = diff_normal(&call->random);
          diff_store(cache, at + d, p->cache == QUIRE_INT8 ? x * 50 : x * p->scale);
        }
        if (has_odd && p->cache != QUIRE_INT8 && diff_once_in(&call->random, 200)) {
          diff_store(cache, at, diff_once_in(&call->random, 2) ? -INFINITY : INFINITY);
        }
      }
    }
  }
}

/* X7: a scale for each row that some token sees, and NaN for the others. */
static void add_scale_cache(diff_call *call, const problem *p, int side, bool is_copied) {
  static const char *const names[2][2] = {{"k_scale_cache", "k_scale_cache_out"},
                                          {"v_scale_cache", "v_scale_cache_out"}};
  const int64_t shape[3] = {p->blocks, p->block, p->kv_heads};
  const int64_t head_major[3] = {p->block, 1, p->blocks * p->block};
  const int64_t dense[3] = {p->block * p->kv_heads, p->kv_heads, 1};
  const int64_t *strides = p->is_head_major ? head_major : dense;
  const diff_tensor *scales =
      diff_add(call, names[side][0], false, QUIRE_FLOAT32, 3, shape, strides);
  for (int64_t s = 0; s < p->sequences; ++s) {
    const int64_t first =
        p->window > 0 && p->past[s] + 1 > p->window ? p->past[s] + 1 - p->window : 0;
    for (int64_t j = first; j < p->past[s] && p->fresh[s] > 0; ++j) {
      const int32_t block = p->table[s * p->columns + j / p->block];
      for (int64_t h = 0; block >= 0 && h < p->kv_heads; ++h) {
        diff_store(scales, block * strides[0] + j % p->block * strides[1] + h * strides[2],
                   0.02f + 0.01f * diff_normal(&call->random));
      }
    }
  }
  if (is_copied) {
    (void)diff_add(call, names[side][1], true, QUIRE_FLOAT32, 3, shape, strides);
  }
}

/* X6 and X7, each side in its own way. */
static void add_scales(diff_call *call, const problem *p, bool is_copied) {
  static const char *const tensors[2] = {"k_scale", "v_scale"};
  static const char *const types[2] = {"k_quant_type", "v_quant_type"};
  static const char *const kinds[3] = {"PER_TENSOR", "PER_CHANNEL", "PER_TOKEN"};
  const bool is_alike = !diff_once_in(&call->random, 4);
  const int64_t both = diff_between(&call->random, 0, 2);
  for (int i = 0; i < 2; ++i) {
    const int64_t kind = is_alike ? both : diff_between(&call->random, 0, 2);
    diff_say(call, " %s", kinds[kind]);
    diff_word(call, types[i], kinds[kind]);
    if (kind == 2) {
      add_scale_cache(call, p, i, is_copied);
      continue;
    }
    const bool is_channel = kind == 1;
    const int64_t scales[3] = {is_channel ? p->kv_heads : 1, 1, p->size};
    const diff_tensor *scale =
        diff_add(call, tensors[i], false, QUIRE_FLOAT32, is_channel ? 3 : 1, scales, NULL);
    for (int64_t c = 0; c < (is_channel ? p->kv_heads * p->size : 1); ++c) {
      diff_store(scale, c, 0.02f + 0.01f * diff_normal(&call->random));
    }
  }
}

static void add_caches(diff_call *call, problem *p) {
  const int64_t shape[4] = {p->blocks, p->block, p->kv_heads, p->size};
  static const char *const names[2][2] = {{"key_cache", "key_cache_out"},
                                          {"value_cache", "value_cache_out"}};
  make_strides(call, p);
  const bool is_copied = !p->is_sparse && diff_once_in(&call->random, 5);
  for (int i = 0; i < 2; ++i) {
    const diff_tensor *cache = diff_add(call, names[i][0], false, p->cache, 4, shape, p->strides);
    fill_cache(call, p, cache);
    if (is_copied) {
      (void)diff_add(call, names[i][1], true, p->cache, 4, shape, p->strides);
    }
  }
  if (p->cache == QUIRE_INT8) {
    add_scales(call, p, is_copied);
  }
}

/* A row stride above the width leaves NaN between the rows. */
static void add_rows(diff_call *call, const problem *p, const char *name, int64_t width) {
  const int64_t shape[2] = {p->tokens, width};
  const int64_t strides[2] = {width + (diff_once_in(&call->random, 3) ? 5 : 0), 1};
  const diff_tensor *rows = diff_add(call, name, false, p->element, 2, shape, strides);
  for (int64_t t = 0; t < p->tokens; ++t) {
    for (int64_t i = 0; i < width; ++i) {
      diff_store(rows, t * strides[0] + i, diff_normal(&call->random) * p->scale);
    }
  }
}

static void add_lengths(diff_call *call, const problem *p) {
  const int64_t ends = p->sequences + 1;
  const diff_tensor *offsets =
      diff_add(call, "cumulative_sequence_length", false, QUIRE_INT32, 1, &ends, NULL);
  const diff_tensor *past =
      diff_add(call, "past_seqlens", false, QUIRE_INT32, 1, &p->sequences, NULL);
  int64_t sum = 0;
  diff_store(offsets, 0, 0);
  for (int64_t s = 0; s < p->sequences; ++s) {
    sum += p->fresh[s];
    diff_store(offsets, s + 1, (float)sum);
    diff_store(past, s, (float)p->past[s]);
  }
  if (diff_once_in(&call->random, 5)) { /* tokens go where the table says, or nowhere */
    const diff_tensor *slots =
        diff_add(call, "slot_mapping", false, QUIRE_INT32, 1, &p->tokens, NULL);
    int64_t token = 0;
    for (int64_t s = 0; s < p->sequences; ++s) {
      for (int64_t i = 0; i < p->fresh[s]; ++i, ++token) {
        const int64_t position = p->past[s] + i;
        const int64_t block = p->table[s * p->columns + position / p->block];
        diff_store(slots, token, (float)(block < 0 ? -1 : block * p->block + position % p->block));
      }
    }
  }
}

static void add_outputs(diff_call *call, const problem *p) {
  const int64_t shape[2] = {p->tokens, p->heads * p->size};
  const int64_t lse[2] = {p->tokens, p->heads};
  (void)diff_add(call, "output", true, p->element, 2, shape, NULL);
  if (diff_once_in(&call->random, 2)) {
    (void)diff_add(call, "softmax_lse", true, QUIRE_FLOAT32, 2, lse, NULL);
  }
}

static void add_attributes(diff_call *call, const problem *p) {
  diff_integer(call, "num_heads", p->heads);
  diff_integer(call, "kv_num_heads", p->kv_heads);
  diff_integer(call, "is_causal", p->is_causal ? 1 : 0);
  if (p->window > 0) {
    diff_integer(call, "local_window_size", p->window);
  }
  if (diff_once_in(&call->random, 5)) {
    diff_number(call, "softcap", diff_once_in(&call->random, 2) ? 2.5 : 30);
  }
  if (diff_once_in(&call->random, 6)) {
    diff_number(call, "scale", diff_once_in(&call->random, 2) ? -0.3 : 5);
  }
  if (diff_once_in(&call->random, 4)) {
    const diff_tensor *sink = diff_add(call, "head_sink", false, p->element, 1, &p->heads, NULL);
    diff_fill(call, sink, 2);
  }
}

void diff_make_paged_attention(diff_call *call, uint64_t seed) {
  problem p = {0};
  diff_call_begin(call, "com.microsoft.PagedAttention", seed);
  call->flags = QUIRE_RUN_STRICT;
  choose(call, &p);
  make_table(call, &p);
  diff_say(call, " %s, cache %s, heads %lld/%lld, size %lld, blocks of %lld, window %lld%s%s%s,",
           quire_dtype_name(p.element), quire_dtype_name(p.cache), (long long)p.heads,
           (long long)p.kv_heads, (long long)p.size, (long long)p.block, (long long)p.window,
           p.is_packed ? ", packed" : "", p.is_sparse ? ", sparse" : "",
           p.is_head_major ? ", head-major" : "");
  for (int64_t s = 0; s < p.sequences; ++s) {
    diff_say(call, " %lld+%lld", (long long)p.past[s], (long long)p.fresh[s]);
  }
  if (p.is_packed) {
    add_rows(call, &p, "query", (p.heads + 2 * p.kv_heads) * p.size);
  } else {
    add_rows(call, &p, "query", p.heads * p.size);
    add_rows(call, &p, "key", p.kv_heads * p.size);
    add_rows(call, &p, "value", p.kv_heads * p.size);
  }
  add_caches(call, &p);
  add_lengths(call, &p);
  add_attributes(call, &p);
  add_outputs(call, &p);
  diff_call_end(call);
}
