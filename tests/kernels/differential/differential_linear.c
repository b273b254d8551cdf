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
      has_log, is_strict;
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
  p->has_log = diff_once_in(&call->random, 4);
  if (diff_once_in(&call->random, 4)) {
    p->is_varlen = true;
    p->batch = 1;
    p->sequences = diff_between(&call->random, 1, MOST_SEQUENCES);
  }
}

static diff_tensor *add_rows(diff_call *call, const problem *p, const char *name, int64_t width,
                             float scale) {
  const int64_t shape[3] = {p->batch, p->tokens, width};
  return diff_add_rows(call, name, p->element, shape, scale);
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

static void add_states(diff_call *call, const problem *p) {
  const int64_t rows = p->is_v_major ? p->value_size : p->key_size;
  const int64_t columns = p->is_v_major ? p->key_size : p->value_size;
  const int64_t dims[5] = {p->window, p->sequences, p->state_heads, rows, columns};
  if (p->has_pool) {
    diff_add_pool(call, p->state, 3, dims + 2, p->sequences, p->window);
    return;
  }
  const int32_t ndim = p->window > 0 ? 5 : 4;
  diff_tensor *past = NULL;
  if (p->has_past) {
    past = diff_add(call, "past_state", false, p->state, ndim, dims + (5 - ndim), NULL);
    diff_fill(call, past, 0.3f);
  }
  if (p->has_log && diff_once_in(&call->random, 2)) {
    return; /* whoever has the log may do without the state */
  }
  if (past && p->window == 0 && diff_once_in(&call->random, 2)) {
    diff_add_alias(call, "present_state", past);
  } else {
    (void)diff_add(call, "present_state", true, p->state, ndim, dims + (5 - ndim), NULL);
  }
}

/* What LinearAttentionReplay needs. */
static void add_log(diff_call *call, const problem *p) {
  const int64_t keys[3] = {p->batch, p->tokens, p->key_heads * p->key_size};
  const int64_t values[3] = {p->batch, p->tokens, p->state_heads * p->value_size};
  const int64_t decays[3] = {p->batch, p->tokens,
                             p->state_heads * (p->is_channel ? p->key_size : 1)};
  (void)diff_add(call, "log_key", true, QUIRE_FLOAT32, 3, keys, NULL);
  (void)diff_add(call, "log_value", true, QUIRE_FLOAT32, 3, values, NULL);
  if (p->has_decay) {
    (void)diff_add(call, "log_decay", true, QUIRE_FLOAT32, 3, decays, NULL);
  }
}

static void make(diff_call *call, problem *p) {
  choose(call, p);
  diff_say(call,
           " %s, state %s, %s, %s decay, batch %lld, tokens %lld, sequences %lld, heads "
           "%lld/%lld/%lld, sizes %lld %lld, window %lld%s%s%s%s%s",
           quire_dtype_name(p->element), quire_dtype_name(p->state), p->rule,
           p->is_channel ? "channel" : "head", (long long)p->batch, (long long)p->tokens,
           (long long)p->sequences, (long long)p->query_heads, (long long)p->key_heads,
           (long long)p->state_heads, (long long)p->key_size, (long long)p->value_size,
           (long long)p->window, p->has_gates ? ", gates" : "", p->is_v_major ? ", v_major" : "",
           p->is_varlen ? ", cu_seqlens" : "", p->has_pool ? ", pool" : "",
           p->has_log ? ", log" : "");
  const float scale = diff_once_in(&call->random, 12) ? 1e-20f : 0.5f;
  (void)add_rows(call, p, "query", p->query_heads * p->key_size, scale);
  (void)add_rows(call, p, "key", p->key_heads * p->key_size, scale);
  (void)add_rows(call, p, "value", p->state_heads * p->value_size, 1);
  add_gates(call, p);
  if (!p->is_strict) {
    add_activations(call, p);
    if (p->is_varlen) {
      diff_add_offsets(call, p->sequences, p->tokens, NULL);
    }
  }
  add_states(call, p);
  if (p->has_log) {
    add_log(call, p);
  }
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
