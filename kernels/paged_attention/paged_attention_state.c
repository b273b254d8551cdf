/* States: folding, and turning the last one into a row of the output. */
#include <math.h>
#include <string.h>

#include "paged_attention_call.h"

void quire_attend_fold(quire_attend_state *a, const quire_attend_state *b, size_t n) {
  if (!b->seen) {
    return;
  }
  if (!a->seen) {
    a->seen = true;
    a->softmax = b->softmax;
    memcpy(a->accumulator, b->accumulator, n * sizeof(float));
    return;
  }
  quire_softmax_merge(&a->softmax, a->accumulator, &b->softmax, b->accumulator, n);
}

/* The sink is one more state, (s, 1, 0), after all groups. */
static void merge_sink(const quire_attend_target *target, int64_t head, size_t n,
                       quire_attend_state *state) {
  if (target->head_sink->data == NULL) {
    return;
  }
  const float logit = quire_load_f32(target->head_sink->dtype, target->head_sink->data, head);
  const quire_softmax_state sink = {logit, 1.0f};
  if (state->seen) {
    quire_softmax_merge(&state->softmax, state->accumulator, &sink, NULL, n);
  } else {
    state->softmax = sink;
  }
}

static void divide(const quire_attend_target *target, int64_t head, int64_t first_column, size_t n,
                   const quire_attend_state *state) {
  const bool empty = !state->seen || state->softmax.sum == 0.0f;
  const float *v_scale = target->v_scale->data;
  const int64_t kv_head = head / target->heads_per_kv;
  for (size_t c = 0; c < n; ++c) {
    if (empty) {
      state->accumulator[c] = 0.0f;
      continue;
    }
    state->accumulator[c] /= state->softmax.sum;
    if (v_scale != NULL) {
      const int64_t channel = kv_head * target->value_size + first_column + (int64_t)c;
      state->accumulator[c] *= v_scale[target->v_scale->ndim == 1 ? 0 : channel];
    }
  }
}

void quire_attend_finish(const quire_attend_target *target, int64_t row, int64_t head,
                         int64_t first_column, size_t n, quire_attend_state *state) {
  if (!state->seen) {
    state->softmax.maximum = -INFINITY;
    state->softmax.sum = 0.0f;
  }
  merge_sink(target, head, n, state);
  divide(target, head, first_column, n, state);
  const quire_view *output = target->output;
  const int64_t offset = row * output->stride[0] + head * target->value_size + first_column;
  quire_narrow_row(output->dtype, state->accumulator, n,
                   (char *)output->data + offset * (int64_t)quire_dtype_size(output->dtype));
  if (target->softmax_lse->data != NULL && first_column == 0) {
    const quire_softmax_state *softmax = &state->softmax;
    float *lse = (float *)target->softmax_lse->data + row * target->softmax_lse->stride[0] + head;
    *lse = softmax->sum == 0.0f ? -INFINITY : softmax->maximum + quire_log(softmax->sum);
  }
}
