/* Random calls of LinearAttention, of both domains. */
#include <math.h>
#include <string.h>

#include "differential_call.h"

enum { MOST_SEQUENCES = 4 };

typedef struct problem {
  quire_dtype element, state;
  int64_t batch, tokens, sequences, query_heads, key_heads, state_heads, key_size, value_size;
  int64_t window;
  bool has_decay, has_beta, is_channel, has_gates, is_v_major, is_varlen, has_pool, has_past,
      is_strict;
  const char *rule;
} problem;

static void choose_heads(diff_call *call, problem *p) {
  static const int64_t sizes[] = {1, 2, 3, 5, 8, 15, 16, 17, 31, 32, 33, 48, 64, 64, 100, 128, 128};
  static const int64_t multiples[] = {1, 1, 2, 4};
  p->key_size = diff_pick(&call->random, sizes, 17);
  p->value_size =
      diff_once_in(&call->random, 2) ? p->key_size : diff_pick(&call->random, sizes, 17);
  p->key_heads = diff_between(&call->random, 1, 2);
  p->state_heads = p->key_heads * diff_pick(&call->random, multiples, p->is_strict ? 2 : 4);
  p->query_heads = p->state_heads * diff_pick(&call->random, multiples, 4);
  if (!p->is_strict && p->state_heads % 2 == 0 && diff_once_in(&call->random, 3)) {
    p->query_heads = p->state_heads / 2;
  }
}

static void choose(diff_call *call, problem *p) {
  static const quire_dtype floats[] = {QUIRE_FLOAT32, QUIRE_FLOAT16, QUIRE_BFLOAT16};
  static const char *const rules[] = {"linear", "gated", "delta", "gated_delta", "gated_delta"};
  static const int64_t lengths[] = {1, 1, 1, 2, 3, 4, 7, 8, 9, 16, 33, 64};
  const int64_t rule = diff_between(&call->random, 0, 4);
  p->element = floats[call->seed % 3];
  p->state = floats[call->seed / 3 % 3];
  p->rule = rules[rule];
  p->has_decay = rule == 1 || rule >= 3;
  p->has_beta = rule >= 2;
  p->is_channel = diff_once_in(&call->random, 3);
  choose_heads(call, p);
  p->tokens = diff_pick(&call->random, lengths, 12);
  p->batch = diff_between(&call->random, 1, 3);
  p->sequences = p->batch;
  p->has_past = !diff_once_in(&call->random, 4);
  if (p->is_strict) {
    p->state = p->has_past ? p->state : p->element;
    return;
  }
  p->has_gates = p->has_decay && diff_once_in(&call->random, 4);
  p->is_v_major = diff_once_in(&call->random, 4);
  p->window = diff_once_in(&call->random, 5) ? diff_between(&call->random, 1, 8) : 0;
  p->has_pool = diff_once_in(&call->random, 4);
  if (diff_once_in(&call->random, 4)) {
    p->is_varlen = true;
    p->batch = 1;
    p->sequences = diff_between(&call->random, 1, MOST_SEQUENCES);
  }
}

/* Rows lie apart now and then, with NaN between; batches too. */
static diff_tensor *add_rows(diff_call *call, const problem *p, const char *name, int64_t width,
                             float scale) {
  const int64_t shape[3] = {p->batch, p->tokens, width};
  const int64_t gap = diff_once_in(&call->random, 4) ? 3 : 0;
  const int64_t strides[3] = {(width + gap) * p->tokens + gap, width + gap, 1};
  diff_tensor *rows = diff_add(call, name, false, p->element, 3, shape, gap ? strides : NULL);
  for (int64_t i = 0; i < p->batch * p->tokens; ++i) {
    for (int64_t k = 0; k < width; ++k) {
      const int64_t at = i / p->tokens * rows->strides[0] + i % p->tokens * rows->strides[1] + k;
      diff_store(rows, at, diff_normal(&call->random) * scale);
    }
  }
  return rows;
}

/* Mostly small and negative, at times none, far away, or positive. */
static void add_gates(diff_call *call, const problem *p) {
  if (p->has_decay) {
    const int64_t width = p->state_heads * (p->is_channel ? p->key_size : 1);
    const diff_tensor *decay = add_rows(call, p, "decay", width, 1);
    for (int64_t i = 0; i < p->batch * p->tokens && !p->has_gates; ++i) {
      for (int64_t k = 0; k < width; ++k) {
        const float x = diff_normal(&call->random);
        const int64_t at =
            i / p->tokens * decay->strides[0] + i % p->tokens * decay->strides[1] + k;
        diff_store(decay, at,
                   diff_once_in(&call->random, 40)   ? -INFINITY
                   : diff_once_in(&call->random, 40) ? -90.0f
                                                     : (x > 1.5f ? 0.01f : -0.3f * x * x));
      }
    }
  }
  if (p->has_beta) {
    (void)add_rows(call, p, "beta", diff_once_in(&call->random, 3) ? 1 : p->state_heads, 0.5f);
  }
}

static void add_activations(diff_call *call, const problem *p) {
  if (p->has_gates) {
    const int64_t width = p->state_heads * (p->is_channel ? p->key_size : 1);
    diff_fill(call, diff_add(call, "a_log", false, QUIRE_FLOAT32, 1, &p->state_heads, NULL), 1);
    diff_fill(call, diff_add(call, "dt_bias", false, QUIRE_FLOAT32, 1, &width, NULL), 1);
    diff_word(call, "gate_activation", "qwen");
  }
  if (p->has_beta && diff_once_in(&call->random, 3)) {
    diff_word(call, "beta_activation",
              diff_once_in(&call->random, 2) ? "sigmoid" : "twice_sigmoid");
  }
  if (diff_once_in(&call->random, 3)) {
    diff_integer(call, "qk_l2_norm", 1);
  }
  if (diff_once_in(&call->random, 4)) {
    diff_word(call, "head_mapping", "tiled");
  }
  if (p->is_v_major) {
    diff_word(call, "state_layout", "v_major");
  }
  diff_integer(call, "state_window", p->window);
}

static void add_lengths(diff_call *call, const problem *p) {
  if (p->is_varlen) {
    const int64_t ends = p->sequences + 1;
    const diff_tensor *offsets = diff_add(call, "cu_seqlens", false, QUIRE_INT32, 1, &ends, NULL);
    int64_t at = 0;
    for (int64_t s = 0; s < p->sequences; ++s) {
      diff_store(offsets, s, (float)at);
      at += diff_between(&call->random, 0, p->tokens - at);
    }
    diff_store(offsets, p->sequences, (float)p->tokens);
  }
}

/* Slots of the pool: one each to read, others (or the same) to write. */
static void add_pool(diff_call *call, const problem *p, const int64_t *dims) {
  const int64_t width = p->window > 0 ? p->window : 1;
  const int64_t slots = p->sequences * (1 + width);
  const int64_t shape[4] = {slots, dims[0], dims[1], dims[2]};
  const int64_t state = dims[0] * dims[1] * dims[2];
  const int64_t strides[4] = {state + (diff_once_in(&call->random, 3) ? 9 : 0), dims[1] * dims[2],
                              dims[2], 1};
  const diff_tensor *pool = diff_add(call, "state_pool", false, p->state, 4, shape, strides);
  for (int64_t i = 0; i < slots; ++i) {
    for (int64_t k = 0; k < state; ++k) {
      diff_store(pool, i * strides[0] + k, diff_normal(&call->random) * 0.3f);
    }
  }
  const int64_t indices[2] = {p->sequences, p->window};
  const diff_tensor *reads = diff_add(call, "read_indices", false, QUIRE_INT32, 1, indices, NULL);
  const diff_tensor *writes =
      diff_add(call, "write_indices", false, QUIRE_INT32, p->window > 0 ? 2 : 1, indices, NULL);
  for (int64_t s = 0; s < p->sequences; ++s) {
    const bool is_in_place = p->window == 0 && diff_once_in(&call->random, 2);
    diff_store(reads, s, diff_once_in(&call->random, 6) ? -1 : (float)s);
    for (int64_t w = 0; w < width; ++w) {
      const int64_t own = is_in_place ? s : p->sequences + s * width + w;
      diff_store(writes, s * width + w, diff_once_in(&call->random, 6) ? -1 : (float)own);
    }
  }
}

static void add_states(diff_call *call, const problem *p) {
  const int64_t rows = p->is_v_major ? p->value_size : p->key_size;
  const int64_t columns = p->is_v_major ? p->key_size : p->value_size;
  const int64_t dims[5] = {p->window, p->sequences, p->state_heads, rows, columns};
  if (p->has_pool) {
    add_pool(call, p, dims + 2);
    return;
  }
  const int32_t ndim = p->window > 0 ? 5 : 4;
  diff_tensor *past = NULL;
  if (p->has_past) {
    past = diff_add(call, "past_state", false, p->state, ndim, dims + (5 - ndim), NULL);
    diff_fill(call, past, 0.3f);
  }
  if (past && p->window == 0 && diff_once_in(&call->random, 2)) {
    diff_add_alias(call, "present_state", past);
  } else {
    (void)diff_add(call, "present_state", true, p->state, ndim, dims + (5 - ndim), NULL);
  }
}

static void make(diff_call *call, problem *p) {
  choose(call, p);
  diff_say(call,
           " %s, state %s, %s, %s decay, batch %lld, tokens %lld, sequences %lld, heads "
           "%lld/%lld/%lld, sizes %lld %lld, window %lld%s%s%s%s",
           quire_dtype_name(p->element), quire_dtype_name(p->state), p->rule,
           p->is_channel ? "channel" : "head", (long long)p->batch, (long long)p->tokens,
           (long long)p->sequences, (long long)p->query_heads, (long long)p->key_heads,
           (long long)p->state_heads, (long long)p->key_size, (long long)p->value_size,
           (long long)p->window, p->has_gates ? ", gates" : "", p->is_v_major ? ", v_major" : "",
           p->is_varlen ? ", cu_seqlens" : "", p->has_pool ? ", pool" : "");
  const float scale = diff_once_in(&call->random, 12) ? 1e-20f : 0.5f;
  (void)add_rows(call, p, "query", p->query_heads * p->key_size, scale);
  (void)add_rows(call, p, "key", p->key_heads * p->key_size, scale);
  (void)add_rows(call, p, "value", p->state_heads * p->value_size, 1);
  add_gates(call, p);
  if (!p->is_strict) {
    add_activations(call, p);
    add_lengths(call, p);
  }
  add_states(call, p);
  const int64_t heads = p->query_heads > p->state_heads ? p->query_heads : p->state_heads;
  const int64_t shape[3] = {p->batch, p->tokens, heads * p->value_size};
  (void)diff_add(call, "output", true, p->element, 3, shape, NULL);
  diff_integer(call, "q_num_heads", p->query_heads);
  diff_integer(call, "kv_num_heads", p->state_heads);
  diff_word(call, "update_rule", p->rule);
  if (diff_once_in(&call->random, 5)) {
    diff_number(call, "scale", -0.7);
  }
  diff_call_end(call);
}

void diff_make_linear_attention(diff_call *call, uint64_t seed) {
  problem p = {0};
  diff_call_begin(call, "com.microsoft.LinearAttention", seed);
  make(call, &p);
}

void diff_make_onnx_linear_attention(diff_call *call, uint64_t seed) {
  problem p = {.is_strict = true};
  diff_call_begin(call, "ai.onnx.LinearAttention", seed);
  make(call, &p);
}
