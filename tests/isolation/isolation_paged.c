/*
 * PagedAttention. The watched sequence may see: its own rows of query, key and value, the cached
 * rows that its table maps for positions that its tokens see, and what other sequences write into
 * these rows. Tables may share blocks, name a block twice, and leave out what no token sees.
 */
#include <string.h>

#include "isolation_call.h"

enum { MOST_SEQUENCES = 4, MOST_TOKENS = 24, MOST_ROWS = 2048 };

typedef struct problem {
  iso_call *call;
  quire_dtype element, cache;
  int64_t kv_heads, heads, size, block, blocks, columns, sequences, tokens, window;
  bool is_packed, is_causal, has_slots, is_copied;
  int quantised[2]; /* 0: none; per tensor, channel, token */
  int64_t strides[4], scale_strides[3];
  iso_tensor *caches[2], *scales[2], *copies[2], *scale_copies[2];
  int32_t *offsets, *past, *table, *slots, *metadata;
  int64_t slot[MOST_TOKENS], sequence[MOST_TOKENS];
  bool is_needed[MOST_ROWS]; /* of cache rows: seen by the watched sequence */
  bool is_same[MOST_ROWS];   /* every token that is stored here is ISO_FIXED */
  bool is_written[MOST_ROWS];
} problem;

/* ---- form ---- */

static void choose(problem *p) {
  static const quire_dtype floats[] = {QUIRE_FLOAT32, QUIRE_FLOAT16, QUIRE_BFLOAT16};
  static const int64_t sizes[] = {1, 3, 8, 8, 16, 17, 20, 32, 64};
  static const int64_t groups[] = {1, 1, 2, 3, 4};
  static const int64_t blocks[] = {1, 2, 3, 4, 8, 16};
  diff_random *shape = &p->call->shape;
  p->element = floats[diff_between(shape, 0, 2)];
  p->cache = diff_once_in(shape, 3) ? QUIRE_INT8 : p->element;
  p->kv_heads = diff_between(shape, 1, 2);
  p->heads = p->kv_heads * diff_pick(shape, groups, 5);
  p->size = diff_pick(shape, sizes, 9);
  p->block = diff_pick(shape, blocks, 6);
  p->columns = diff_between(shape, 1, 5);
  p->blocks = diff_between(shape, 1, 9);
  p->sequences = diff_between(shape, 1, MOST_SEQUENCES);
  p->tokens = diff_between(shape, 0, 6);
  if (diff_once_in(shape, 4)) { /* the kernels for prompts */
    p->tokens = diff_between(shape, 9, MOST_TOKENS);
  }
  if (diff_once_in(shape, 24)) { /* more than one range of keys */
    p->block = 64;
    p->columns = 12;
    p->blocks = 14;
    p->tokens = diff_between(shape, 1, 3);
    p->size = diff_pick(shape, sizes, 5);
    p->kv_heads = 1;
    p->heads = diff_between(shape, 1, 2);
  }
  p->window = diff_once_in(shape, 4) ? diff_between(shape, 1, 9) : 0;
  p->is_packed = diff_once_in(shape, 4);
  p->is_causal = !diff_once_in(shape, 6);
  p->has_slots = diff_once_in(shape, 2);
  p->is_copied = diff_once_in(shape, 5);
  const int64_t kind = diff_between(shape, 1, p->call->is_device ? 2 : 3);
  p->quantised[0] = p->cache == QUIRE_INT8 ? (int)kind : 0;
  p->quantised[1] = p->quantised[0];
}

static void choose_strides(problem *p) {
  diff_random *shape = &p->call->shape;
  const int64_t row = p->kv_heads * p->size;
  const bool is_strided = !p->call->is_device && diff_once_in(shape, 2);
  const int64_t dense[4] = {p->block * row, row, p->size, 1};
  const int64_t head_major[4] = {p->block * p->size, p->size, p->blocks * p->block * p->size, 1};
  memcpy(p->strides, dense, sizeof dense);
  p->scale_strides[0] = p->block * p->kv_heads;
  p->scale_strides[1] = p->kv_heads;
  p->scale_strides[2] = 1;
  if (is_strided && diff_once_in(shape, 2)) {
    memcpy(p->strides, head_major, sizeof head_major);
    p->scale_strides[0] = p->block;
    p->scale_strides[1] = 1;
    p->scale_strides[2] = p->blocks * p->block;
  } else if (is_strided) { /* rows and blocks apart, secrets between */
    p->strides[1] += diff_between(shape, 1, 5);
    p->strides[0] = p->strides[1] * p->block + diff_between(shape, 0, 9);
  }
}

static void add_scales(problem *p, int side) {
  static const char *const types[2] = {"k_quant_type", "v_quant_type"};
  static const char *const kinds[4] = {"NONE", "PER_TENSOR", "PER_CHANNEL", "PER_TOKEN"};
  static const char *const whole[2] = {"k_scale", "v_scale"};
  static const char *const rows[2] = {"k_scale_cache", "v_scale_cache"};
  static const char *const copies[2] = {"k_scale_cache_out", "v_scale_cache_out"};
  const int64_t row_shape[3] = {p->blocks, p->block, p->kv_heads};
  const int64_t channel_shape[3] = {p->kv_heads, 1, p->size};
  const int64_t one = 1;
  p->scales[side] = p->scale_copies[side] = NULL;
  if (p->quantised[side] == 0) {
    return;
  }
  iso_word(p->call, types[side], kinds[p->quantised[side]]);
  if (p->quantised[side] == 3) {
    p->scales[side] = iso_input(p->call, rows[side], QUIRE_FLOAT32, 3, row_shape, p->scale_strides);
    if (p->is_copied) {
      p->scale_copies[side] =
          iso_output(p->call, copies[side], QUIRE_FLOAT32, 3, row_shape, p->scale_strides);
    }
    return;
  }
  iso_tensor *scale =
      iso_input(p->call, whole[side], QUIRE_FLOAT32, p->quantised[side] == 1 ? 1 : 3,
                p->quantised[side] == 1 ? &one : channel_shape, NULL);
  for (size_t i = 0; i < scale->span; ++i) {
    iso_fix_to(scale, (int64_t)i, 0.02f + 0.005f * (float)(i % 3));
  }
}

static void add_tensors(problem *p) {
  iso_call *call = p->call;
  const int64_t width = (p->heads + (p->is_packed ? 2 * p->kv_heads : 0)) * p->size;
  const int64_t query[2] = {p->tokens, width}, rows[2] = {p->tokens, p->kv_heads * p->size};
  const int64_t output[2] = {p->tokens, p->heads * p->size}, lse[2] = {p->tokens, p->heads};
  const int64_t cache[4] = {p->blocks, p->block, p->kv_heads, p->size};
  const int64_t *strides = call->is_device ? NULL : p->strides;
  choose_strides(p);
  (void)iso_input(call, "query", p->element, 2, query, NULL);
  if (!p->is_packed) {
    (void)iso_input(call, "key", p->element, 2, rows, NULL);
    (void)iso_input(call, "value", p->element, 2, rows, NULL);
  }
  p->caches[0] = iso_input(call, "key_cache", p->cache, 4, cache, strides);
  p->caches[1] = iso_input(call, "value_cache", p->cache, 4, cache, strides);
  p->copies[0] = p->copies[1] = NULL;
  if (p->is_copied) {
    p->copies[0] = iso_output(call, "key_cache_out", p->cache, 4, cache, strides);
    p->copies[1] = iso_output(call, "value_cache_out", p->cache, 4, cache, strides);
  }
  add_scales(p, 0);
  add_scales(p, 1);
  (void)iso_output(call, "output", p->element, 2, output, NULL);
  if (diff_once_in(&call->shape, 2)) {
    (void)iso_output(call, "softmax_lse", QUIRE_FLOAT32, 2, lse, NULL);
  }
  if (diff_once_in(&call->shape, 3)) {
    iso_fix(call, iso_input(call, "head_sink", p->element, 1, &p->heads, NULL), 0, p->heads, 1);
  }
  iso_int(call, "num_heads", p->heads);
  iso_int(call, "kv_num_heads", p->kv_heads);
  iso_int(call, "is_causal", p->is_causal ? 1 : 0);
  iso_int(call, "local_window_size", p->window > 0 ? p->window : -1);
  iso_number(call, "softcap", diff_once_in(&call->shape, 4) ? 3 : 0);
}

/* ---- integers ---- */

static int64_t table_slot(const problem *p, int64_t sequence, int64_t position) {
  const int32_t block = p->table[sequence * p->columns + position / p->block];
  return block < 0 || block >= p->blocks ? -1 : block * p->block + position % p->block;
}

static void make_table(problem *p) {
  diff_random *content = &p->call->content;
  const bool is_apart = diff_once_in(content, 2); /* else blocks are shared, at random */
  int32_t next = (int32_t)diff_between(content, 0, p->blocks - 1);
  for (int64_t i = 0; i < p->sequences * p->columns; ++i) {
    p->table[i] =
        is_apart ? next++ % (int32_t)p->blocks : (int32_t)diff_between(content, 0, p->blocks - 1);
  }
}

static void make_integers(problem *p) {
  iso_call *call = p->call;
  diff_random *content = &call->content;
  p->offsets =
      iso_integers(call, "cumulative_sequence_length", 1, p->sequences + 1, 1, p->tokens + 1);
  p->past = iso_integers(call, "past_seqlens", 1, p->sequences, 1, p->columns * p->block + 1);
  p->table = iso_integers(call, "block_table", 2, p->sequences, p->columns, p->blocks);
  p->slots = p->has_slots
                 ? iso_integers(call, "slot_mapping", 1, p->tokens, 1, p->blocks * p->block)
                 : NULL;
  p->metadata =
      diff_once_in(&call->shape, 6) ? iso_integers(call, "attention_metadata", 1, 2, 1, 0) : NULL;
  iso_make_offsets(call, p->offsets, p->sequences, p->tokens);
  make_table(p);
  for (int64_t s = 0; s < p->sequences; ++s) {
    const int64_t most = p->columns * p->block - (p->offsets[s + 1] - p->offsets[s]);
    p->past[s] = (int32_t)(most <= 0 ? 0 : diff_between(content, 0, most));
    for (int64_t t = p->offsets[s]; p->has_slots && t < p->offsets[s + 1]; ++t) {
      const int64_t position = p->past[s] + t - p->offsets[s];
      const int64_t kind = diff_between(content, 0, 9);
      p->slots[t] =
          (int32_t)(kind < 6 && position < p->columns * p->block ? table_slot(p, s, position)
                    : kind < 8                                   ? -1
                               : diff_between(content, 0, p->blocks * p->block - 1));
    }
  }
  for (int i = 0; p->metadata != NULL && i < 2; ++i) {
    p->metadata[i] = (int32_t)diff_between(content, 0, 40);
  }
  iso_spoil(call);
}

/* ---- the model ---- */

/* The positions that the tokens of a sequence see between them. */
static int64_t first_seen(const problem *p, int64_t sequence) {
  const int64_t first = (int64_t)p->past[sequence] + 1 - p->window;
  return p->window > 0 && first > 0 ? first : 0;
}

static int64_t end_of(const problem *p, int64_t sequence) {
  return (int64_t)p->past[sequence] + p->offsets[sequence + 1] - p->offsets[sequence];
}

static bool has_rows(const problem *p, int64_t sequence) {
  return p->offsets[sequence + 1] > p->offsets[sequence];
}

/* PA-V13, PA-E9 and PA-E12 of a strict call. */
static bool is_legal(const problem *p) {
  if (!iso_are_offsets(p->offsets, p->sequences, p->tokens)) {
    return false;
  }
  for (int64_t s = 0; s < p->sequences; ++s) {
    if (p->past[s] < 0 || end_of(p, s) > p->columns * p->block) {
      return false;
    }
  }
  for (int i = 0; p->metadata != NULL && i < 2; ++i) {
    if (p->metadata[i] < 0) {
      return false;
    }
  }
  for (int64_t s = 0; s < p->sequences; ++s) {
    for (int64_t j = first_seen(p, s); has_rows(p, s) && j < end_of(p, s); ++j) {
      if (table_slot(p, s, j) < 0) {
        return false;
      }
    }
  }
  for (int64_t t = 0; p->has_slots && t < p->tokens; ++t) {
    if (p->slots[t] < -1 || p->slots[t] >= p->blocks * p->block) {
      return false;
    }
  }
  return true;
}

/* Which integers count: all but table entries that no token's view reaches. */
static void fix_integers(problem *p) {
  iso_call *call = p->call;
  iso_fix_integers(call, "cumulative_sequence_length", 0, p->sequences + 1);
  iso_fix_integers(call, "past_seqlens", 0, p->sequences);
  if (p->has_slots) {
    iso_fix_integers(call, "slot_mapping", 0, p->tokens);
  }
  if (p->metadata != NULL) {
    iso_fix_integers(call, "attention_metadata", 0, 2);
  }
  const bool has_lengths = iso_are_offsets(p->offsets, p->sequences, p->tokens);
  for (int64_t s = 0; s < p->sequences && has_lengths; ++s) {
    if (!has_rows(p, s) || p->past[s] < 0 || end_of(p, s) > p->columns * p->block) {
      continue;
    }
    for (int64_t c = first_seen(p, s) / p->block; c * p->block < end_of(p, s); ++c) {
      iso_fix_integers(call, "block_table", s * p->columns + c, 1);
    }
  }
}

static void find_rows(problem *p) {
  for (int64_t s = 0; s < p->sequences; ++s) {
    for (int64_t t = p->offsets[s]; t < p->offsets[s + 1]; ++t) {
      p->sequence[t] = s;
      p->slot[t] = p->has_slots ? p->slots[t] : table_slot(p, s, p->past[s] + t - p->offsets[s]);
    }
    for (int64_t j = first_seen(p, s); has_rows(p, s) && j < end_of(p, s); ++j) {
      p->is_needed[table_slot(p, s, j)] |= iso_is_own(p->call, s);
    }
  }
  for (int64_t t = 0; t < p->tokens; ++t) {
    if (p->slot[t] >= 0) {
      p->call->is_racy |= p->is_written[p->slot[t]];
      p->is_written[p->slot[t]] = true;
      p->is_same[p->slot[t]] |= p->is_needed[p->slot[t]] || iso_is_own(p->call, p->sequence[t]);
    }
  }
}

/* Where row `row` of a cache lies for one head. */
static int64_t row_at(const problem *p, const int64_t *strides, int64_t row, int64_t head) {
  return row / p->block * strides[0] + row % p->block * strides[1] + head * strides[2];
}

static void mark_cache(problem *p, int side, bool is_scale) {
  iso_tensor *cache = is_scale ? p->scales[side] : p->caches[side];
  iso_tensor *copy = is_scale ? p->scale_copies[side] : p->copies[side];
  const int64_t *strides = is_scale ? p->scale_strides : p->strides;
  const int64_t size = is_scale ? 1 : p->size;
  if (cache == NULL) {
    return;
  }
  for (int64_t row = 0; row < p->blocks * p->block; ++row) {
    const bool is_read = p->is_needed[row] && !p->is_written[row];
    for (int64_t head = 0; head < p->kv_heads; ++head) {
      const int64_t at = row_at(p, strides, row, head);
      if (is_read && is_scale) {
        iso_fix_to(cache, at, 0.03f + 0.001f * (float)(row % 7));
      } else if (is_read) {
        iso_fix(p->call, cache, at, size, p->cache == QUIRE_INT8 ? 40 : 1);
      }
      const unsigned after = p->is_written[row] ? (p->is_same[row] ? ISO_SAME : ISO_ANY)
                             : is_read          ? ISO_SAME
                                                : ISO_ANY;
      if (copy != NULL) { /* gets the whole cache */
        iso_mark(copy, at, size, after);
      } else if (p->is_written[row]) {
        iso_mark(cache, at, size, after);
      }
    }
  }
}

static void mark_tokens(problem *p) {
  iso_call *call = p->call;
  iso_tensor *query = iso_find(call, "query");
  const int64_t width = p->heads * p->size, row = p->kv_heads * p->size;
  const int64_t stride = query->strides[0];
  for (int64_t t = 0; t < p->tokens; ++t) {
    const bool is_own = iso_is_own(call, p->sequence[t]);
    const bool is_stored = p->slot[t] >= 0 && p->is_same[p->slot[t]];
    if (is_own) {
      iso_fix(call, query, t * stride, width, 1);
    }
    if (is_stored && p->is_packed) {
      iso_fix(call, query, t * stride + width, 2 * row, 1);
    } else if (is_stored) {
      iso_fix(call, iso_find(call, "key"), t * row, row, 1);
      iso_fix(call, iso_find(call, "value"), t * row, row, 1);
    }
    iso_mark(iso_find(call, "output"), t * width, width, is_own ? ISO_SAME : ISO_ANY);
    for (int i = 0; i < call->tensor_count; ++i) {
      if (strcmp(call->tensors[i].name, "softmax_lse") == 0) {
        iso_mark(&call->tensors[i], t * p->heads, p->heads, is_own ? ISO_SAME : ISO_ANY);
      }
    }
  }
}

void iso_make_paged_attention(iso_call *call, uint64_t shape_seed, uint64_t seed) {
  problem p = {.call = call};
  iso_begin(call, "com.microsoft.PagedAttention", shape_seed, seed);
  choose(&p);
  add_tensors(&p);
  make_integers(&p);
  call->own = diff_between(&call->content, -1, p.sequences - 1);
  call->is_legal = is_legal(&p);
  fix_integers(&p);
  if (call->is_legal) {
    find_rows(&p);
    for (int side = 0; side < 2; ++side) {
      mark_cache(&p, side, false);
      mark_cache(&p, side, true);
    }
    mark_tokens(&p);
  }
}
