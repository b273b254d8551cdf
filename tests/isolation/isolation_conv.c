/* CausalConvWithState, of both domains. */
#include "isolation_states.h"

typedef struct problem {
  iso_states states;
  quire_dtype element;
  int64_t channels, taps, dilation;
  bool is_last;
} problem;

static void choose(problem *p, iso_call *call, bool is_plain) {
  static const quire_dtype floats[] = {QUIRE_FLOAT32, QUIRE_FLOAT16, QUIRE_BFLOAT16};
  static const int64_t channels[] = {1, 3, 7, 8, 15, 16, 17, 33, 64};
  diff_random *shape = &call->shape;
  iso_states_choose(&p->states, call, is_plain);
  p->element = p->states.dtype = floats[diff_between(shape, 0, 2)];
  p->channels = diff_pick(shape, channels, 9);
  p->taps = diff_between(shape, 1, 5);
  p->dilation = is_plain || diff_between(shape, 0, 3) > 0 ? 1 : diff_between(shape, 2, 3);
  p->is_last = !is_plain && diff_once_in(shape, 2);
  const int64_t length = (p->taps - 1) * p->dilation;
  p->states.ndim = 2;
  p->states.dims[0] = p->is_last ? length : p->channels;
  p->states.dims[1] = p->is_last ? p->channels : length;
}

static void add_tensors(problem *p, iso_call *call, bool is_plain) {
  const iso_states *states = &p->states;
  const int64_t rows[3] = {states->batch, p->is_last ? states->tokens : p->channels,
                           p->is_last ? p->channels : states->tokens};
  const int64_t weight[3] = {p->channels, 1, p->taps};
  (void)iso_input(call, "input", p->element, 3, rows, NULL);
  iso_fix(call, iso_input(call, "weight", p->element, 3, weight, NULL), 0, p->channels * p->taps,
          0.5f);
  if (diff_once_in(&call->shape, 2)) {
    iso_fix(call, iso_input(call, "bias", p->element, 1, &p->channels, NULL), 0, p->channels, 1);
  }
  (void)iso_output(call, "output", p->element, 3, rows, NULL);
  iso_states_add(&p->states);
  iso_word(call, "activation", diff_once_in(&call->shape, 2) ? "silu" : "none");
  if (!is_plain) {
    iso_int(call, "dilation", p->dilation);
    iso_int(call, "channels_last", p->is_last ? 1 : 0);
    iso_int(call, "state_window", states->window);
  }
}

/* Tokens are columns unless channels are last. */
static void mark_tokens(problem *p, iso_call *call) {
  const iso_states *states = &p->states;
  iso_tensor *input = iso_find(call, "input"), *output = iso_find(call, "output");
  for (int64_t row = 0; row < states->batch; ++row) {
    for (int64_t token = 0; token < states->tokens; ++token) {
      const bool is_own = iso_is_own(call, iso_states_sequence(states, row, token));
      for (int64_t c = 0; c < p->channels; ++c) {
        const int64_t at = p->is_last ? (row * states->tokens + token) * p->channels + c
                                      : (row * p->channels + c) * states->tokens + token;
        if (is_own) {
          iso_fix(call, input, at, 1, 1);
        }
        iso_mark(output, at, 1, is_own ? ISO_SAME : ISO_ANY);
      }
    }
  }
}

static void make(iso_call *call, bool is_plain) {
  problem p = {0};
  choose(&p, call, is_plain);
  add_tensors(&p, call, is_plain);
  iso_states_make_integers(&p.states);
  call->own = diff_between(&call->content, -1, p.states.sequences - 1);
  iso_states_fix_integers(&p.states);
  call->is_legal = iso_states_are_legal(&p.states);
  if (call->is_legal) {
    mark_tokens(&p, call);
    iso_states_mark(&p.states);
  }
}

void iso_make_causal_conv(iso_call *call, uint64_t shape_seed, uint64_t seed) {
  iso_begin(call, "com.microsoft.CausalConvWithState", shape_seed, seed);
  make(call, false);
}

void iso_make_onnx_causal_conv(iso_call *call, uint64_t shape_seed, uint64_t seed) {
  iso_begin(call, "ai.onnx.CausalConvWithState", shape_seed, seed);
  make(call, true);
}
