/* Random calls of CausalConvWithState, of both domains. */
#include "differential_call.h"

enum { MOST_SEQUENCES = 4 };

typedef struct problem {
  quire_dtype element;
  int64_t batch, channels, tokens, sequences, taps, dilation, window;
  bool is_last, has_past, has_pool, is_varlen, is_strict;
} problem;

static void choose(diff_call *call, problem *p) {
  static const quire_dtype floats[] = {QUIRE_FLOAT32, QUIRE_FLOAT16, QUIRE_BFLOAT16};
  static const int64_t channels[] = {1, 3, 7, 8, 15, 16, 17, 31, 33, 64, 65, 130, 257, 300};
  static const int64_t tokens[] = {1, 1, 1, 2, 3, 4, 5, 8, 17, 40};
  static const int64_t taps[] = {1, 2, 3, 4, 4, 4, 5};
  p->element = floats[call->seed % 3];
  p->batch = p->sequences = diff_between(&call->random, 1, 3);
  p->channels = diff_pick(&call->random, channels, 14);
  p->tokens = diff_pick(&call->random, tokens, 10);
  p->taps = diff_pick(&call->random, taps, 7);
  p->has_past = !diff_once_in(&call->random, 4);
  p->dilation = 1;
  if (p->is_strict) {
    return;
  }
  p->dilation = diff_once_in(&call->random, 4) ? diff_between(&call->random, 2, 3) : 1;
  p->is_last = diff_once_in(&call->random, 2);
  p->window = diff_once_in(&call->random, 4) ? diff_between(&call->random, 1, 8) : 0;
  p->has_pool = diff_once_in(&call->random, 3);
  if (diff_once_in(&call->random, 3)) {
    p->is_varlen = true;
    p->batch = 1;
    p->sequences = diff_between(&call->random, 1, MOST_SEQUENCES);
  }
}

static void add_input(diff_call *call, const problem *p) {
  const int64_t rows = p->is_last ? p->tokens : p->channels;
  const int64_t width = p->is_last ? p->channels : p->tokens;
  const int64_t shape[3] = {p->batch, rows, width};
  const int64_t gap = diff_once_in(&call->random, 3) ? 3 : 0;
  const int64_t strides[3] = {(width + gap) * rows + gap, width + gap, 1};
  const diff_tensor *input = diff_add(call, "input", false, p->element, 3, shape, strides);
  for (int64_t i = 0; i < p->batch * rows; ++i) {
    for (int64_t k = 0; k < width; ++k) {
      diff_store(input, i / rows * strides[0] + i % rows * strides[1] + k,
                 diff_normal(&call->random));
    }
  }
  (void)diff_add(call, "output", true, p->element, 3, shape, NULL);
}

static void add_weights(diff_call *call, const problem *p) {
  const int64_t shape[3] = {p->channels, 1, p->taps};
  diff_fill(call, diff_add(call, "weight", false, p->element, 3, shape, NULL), 0.5f);
  if (diff_once_in(&call->random, 2)) {
    diff_fill(call, diff_add(call, "bias", false, p->element, 1, shape, NULL), 0.5f);
  }
}

static void add_states(diff_call *call, const problem *p) {
  const int64_t length = (p->taps - 1) * p->dilation;
  const int64_t dims[4] = {p->window, p->sequences, p->is_last ? length : p->channels,
                           p->is_last ? p->channels : length};
  const int32_t ndim = p->window > 0 ? 4 : 3;
  const bool is_pooled = p->has_pool && length > 0;
  if (is_pooled) {
    diff_add_pool(call, p->element, 2, dims + 2, p->sequences, p->window);
    return;
  }
  diff_tensor *past = NULL;
  if (p->has_past) {
    past = diff_add(call, "past_state", false, p->element, ndim, dims + (4 - ndim), NULL);
    diff_fill(call, past, 1);
  }
  if (past && p->window == 0 && diff_once_in(&call->random, 2)) {
    diff_add_alias(call, "present_state", past);
  } else {
    (void)diff_add(call, "present_state", true, p->element, ndim, dims + (4 - ndim), NULL);
  }
}

static void make(diff_call *call, problem *p) {
  choose(call, p);
  diff_say(call,
           " %s, batch %lld, channels %lld, tokens %lld, sequences %lld, taps %lld, dilation %lld, "
           "window %lld%s%s%s",
           quire_dtype_name(p->element), (long long)p->batch, (long long)p->channels,
           (long long)p->tokens, (long long)p->sequences, (long long)p->taps,
           (long long)p->dilation, (long long)p->window, p->is_last ? ", channels last" : "",
           p->is_varlen ? ", cu_seqlens" : "", p->has_pool ? ", pool" : "");
  add_input(call, p);
  add_weights(call, p);
  if (p->is_varlen) {
    diff_add_offsets(call, p->sequences, p->tokens, NULL);
  }
  add_states(call, p);
  if (diff_once_in(&call->random, 2)) {
    diff_word(call, "activation", "silu");
  }
  if (!p->is_strict) {
    diff_integer(call, "dilation", p->dilation);
    diff_integer(call, "channels_last", p->is_last ? 1 : 0);
    diff_integer(call, "state_window", p->window);
  }
  diff_call_end(call);
}

void diff_make_causal_conv(diff_call *call, uint64_t seed) {
  problem p = {0};
  diff_call_begin(call, "com.microsoft.CausalConvWithState", seed);
  make(call, &p);
}

void diff_make_onnx_causal_conv(diff_call *call, uint64_t seed) {
  problem p = {.is_strict = true};
  diff_call_begin(call, "ai.onnx.CausalConvWithState", seed);
  make(call, &p);
}
