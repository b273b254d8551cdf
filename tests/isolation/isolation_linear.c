/* LinearAttention of both domains, and LinearAttentionReplay. */
#include "isolation_states.h"

typedef struct problem {
  iso_states states;
  quire_dtype element;
  int64_t query_heads, key_heads, heads, key_size, value_size, decay_width, beta_width;
  bool has_log, is_v_major;
} problem;

static const quire_dtype floats[] = {QUIRE_FLOAT32, QUIRE_FLOAT16, QUIRE_BFLOAT16};

static void choose_heads(problem *p, diff_random *shape) {
  static const int64_t sizes[] = {1, 2, 3, 5, 8, 8, 15, 16, 17, 32};
  p->key_size = diff_pick(shape, sizes, 10);
  p->value_size = diff_once_in(shape, 2) ? p->key_size : diff_pick(shape, sizes, 10);
  p->key_heads = diff_between(shape, 1, 2);
  p->heads = p->key_heads * diff_between(shape, 1, 2);
  p->query_heads = p->heads * diff_between(shape, 1, 2);
}

static void set_states(problem *p) {
  p->states.ndim = 3;
  p->states.dims[0] = p->heads;
  p->states.dims[1] = p->is_v_major ? p->value_size : p->key_size;
  p->states.dims[2] = p->is_v_major ? p->key_size : p->value_size;
}

static void add_rows(problem *p, const char *name, quire_dtype dtype, int64_t width,
                     bool is_output) {
  const int64_t shape[3] = {p->states.batch, p->states.tokens, width};
  (void)(is_output ? iso_output : iso_input)(p->states.call, name, dtype, 3, shape, NULL);
}

static void choose_rule(problem *p, bool is_plain) {
  static const char *const rules[] = {"linear", "gated", "delta", "gated_delta", "gated_delta"};
  iso_call *call = p->states.call;
  diff_random *shape = &call->shape;
  const int64_t rule = diff_between(shape, 0, 4);
  const int64_t wide = diff_once_in(shape, 3) ? p->key_size : 1;
  p->decay_width = rule == 1 || rule >= 3 ? p->heads * wide : 0;
  p->beta_width = rule < 2 ? 0 : diff_once_in(shape, 3) ? 1 : p->heads;
  iso_word(call, "update_rule", rules[rule]);
  iso_int(call, "q_num_heads", p->query_heads);
  iso_int(call, "kv_num_heads", p->heads);
  if (is_plain) {
    return;
  }
  p->is_v_major = diff_once_in(shape, 4);
  p->has_log = diff_once_in(shape, 4);
  iso_int(call, "state_window", p->states.window);
  iso_word(call, "state_layout", p->is_v_major ? "v_major" : "k_major");
  iso_word(call, "head_mapping", diff_once_in(shape, 4) ? "tiled" : "blocked");
  iso_word(call, "beta_activation", diff_once_in(shape, 4) ? "sigmoid" : "none");
  iso_int(call, "qk_l2_norm", diff_once_in(shape, 3) ? 1 : 0);
}

static void add_linear_tensors(problem *p) {
  const int64_t heads = p->query_heads > p->heads ? p->query_heads : p->heads;
  add_rows(p, "query", p->element, p->query_heads * p->key_size, false);
  add_rows(p, "key", p->element, p->key_heads * p->key_size, false);
  add_rows(p, "value", p->element, p->heads * p->value_size, false);
  if (p->decay_width > 0) {
    add_rows(p, "decay", p->element, p->decay_width, false);
  }
  if (p->beta_width > 0) {
    add_rows(p, "beta", p->element, p->beta_width, false);
  }
  add_rows(p, "output", p->element, heads * p->value_size, true);
  if (p->has_log) {
    add_rows(p, "log_key", QUIRE_FLOAT32, p->key_heads * p->key_size, true);
    add_rows(p, "log_value", QUIRE_FLOAT32, p->heads * p->value_size, true);
    if (p->decay_width > 0) {
      add_rows(p, "log_decay", QUIRE_FLOAT32, p->decay_width, true);
    }
  }
  iso_states_add(&p->states);
}

static void mark_linear(problem *p) {
  const iso_states *states = &p->states;
  const int64_t heads = p->query_heads > p->heads ? p->query_heads : p->heads;
  iso_states_fix_rows(states, "query", p->query_heads * p->key_size, 0.5f, NULL);
  iso_states_fix_rows(states, "key", p->key_heads * p->key_size, 0.3f, NULL);
  iso_states_fix_rows(states, "value", p->heads * p->value_size, 1, NULL);
  if (p->decay_width > 0) {
    iso_states_fix_rows(states, "decay", p->decay_width, 0.2f, NULL);
  }
  if (p->beta_width > 0) {
    iso_states_fix_rows(states, "beta", p->beta_width, 0.3f, NULL);
  }
  iso_states_mark_rows(states, "output", heads * p->value_size);
  if (p->has_log) {
    iso_states_mark_rows(states, "log_key", p->key_heads * p->key_size);
    iso_states_mark_rows(states, "log_value", p->heads * p->value_size);
    if (p->decay_width > 0) {
      iso_states_mark_rows(states, "log_decay", p->decay_width);
    }
  }
  iso_states_mark(states);
}

static void make_linear(problem *p, iso_call *call, bool is_plain) {
  iso_states_choose(&p->states, call, is_plain);
  choose_heads(p, &call->shape);
  p->key_heads = is_plain ? p->heads : p->key_heads;
  p->element = floats[diff_between(&call->shape, 0, 2)];
  p->states.dtype = floats[diff_between(&call->shape, 0, 2)];
  if (is_plain && !p->states.has_past) {
    p->states.dtype = p->element;
  }
  choose_rule(p, is_plain);
  set_states(p);
  add_linear_tensors(p);
  iso_states_make_integers(&p->states);
  call->own = diff_between(&call->content, -1, p->states.sequences - 1);
  iso_states_fix_integers(&p->states);
  call->is_legal = iso_states_are_legal(&p->states);
  if (call->is_legal) {
    mark_linear(p);
  }
}

void iso_make_linear_attention(iso_call *call, uint64_t shape_seed, uint64_t seed) {
  problem p = {0};
  iso_begin(call, "com.microsoft.LinearAttention", shape_seed, seed);
  make_linear(&p, call, false);
}

void iso_make_onnx_linear_attention(iso_call *call, uint64_t shape_seed, uint64_t seed) {
  problem p = {0};
  iso_begin(call, "ai.onnx.LinearAttention", shape_seed, seed);
  make_linear(&p, call, true);
}

/* 0 <= accepted <= tokens of the sequence, LR-V11. */
static bool are_accepted(const iso_states *states, const int32_t *accepted) {
  for (int64_t n = 0; n < states->sequences; ++n) {
    if (accepted[n] < 0 || accepted[n] > iso_states_length(states, n)) {
      return false;
    }
  }
  return true;
}

void iso_make_replay(iso_call *call, uint64_t shape_seed, uint64_t seed) {
  problem p = {0};
  iso_begin(call, "quire.LinearAttentionReplay", shape_seed, seed);
  iso_states *states = &p.states;
  iso_states_choose(states, call, false);
  states->window = 0;
  choose_heads(&p, &call->shape);
  p.is_v_major = diff_once_in(&call->shape, 4);
  states->dtype = floats[diff_between(&call->shape, 0, 2)];
  set_states(&p);
  iso_int(call, "kv_num_heads", p.heads);
  iso_int(call, "key_num_heads", p.key_heads);
  iso_word(call, "state_layout", p.is_v_major ? "v_major" : "k_major");
  p.decay_width = p.heads * (diff_once_in(&call->shape, 2) ? p.key_size : 1);
  add_rows(&p, "log_key", QUIRE_FLOAT32, p.key_heads * p.key_size, false);
  add_rows(&p, "log_value", QUIRE_FLOAT32, p.heads * p.value_size, false);
  add_rows(&p, "log_decay", QUIRE_FLOAT32, p.decay_width, false);
  iso_states_add(states);
  int32_t *accepted = iso_integers(call, "accepted", 1, states->sequences, 1, states->tokens + 1);
  for (int64_t n = 0; n < states->sequences; ++n) {
    accepted[n] = (int32_t)diff_between(&call->content, 0, states->tokens);
  }
  iso_states_make_integers(states);
  const bool has_lengths =
      !states->is_varlen || iso_are_offsets(states->offsets, states->sequences, states->tokens);
  for (int64_t n = 0; n < states->sequences && has_lengths; ++n) { /* mostly within the sequence */
    if (accepted[n] > iso_states_length(states, n) && !diff_once_in(&call->content, 12)) {
      accepted[n] = (int32_t)iso_states_length(states, n);
    }
  }
  call->own = diff_between(&call->content, -1, states->sequences - 1);
  iso_states_fix_integers(states);
  iso_fix_integers(call, "accepted", 0, states->sequences);
  call->is_legal = iso_states_are_legal(states) && are_accepted(states, accepted);
  if (call->is_legal) {
    iso_states_fix_rows(states, "log_key", p.key_heads * p.key_size, 0.5f, accepted);
    iso_states_fix_rows(states, "log_value", p.heads * p.value_size, 1, accepted);
    iso_states_fix_rows(states, "log_decay", p.decay_width, 0.5f, accepted);
    iso_states_mark(states);
  }
}
