/*
 * Softmax states over the SIMD vocabulary: folding, and turning the last one into a row of the
 * output. The bits of paged_attention_state.c.
 */
#ifndef QUIRE_KERNELS_PAGED_ATTENTION_STATE_BODY_H
#define QUIRE_KERNELS_PAGED_ATTENTION_STATE_BODY_H

#include "paged_attention_call.h"
#include "simd.h"

/* exp(m - maximum) for two states at once; a state without weight has m = -inf. */
static inline void state_weights(float a, float b, float maximum, float *weight_a,
                                 float *weight_b) {
  float lanes[VEC_LANES] = {a, b};
  const vec m = vec_load(lanes);
  const vec w = vec_exp_nonpositive(vec_sub(m, vec_set(maximum)));
  vec_store(lanes, vec_select(vec_equal(m, vec_set(-INFINITY)), vec_zero(), w));
  *weight_a = lanes[0];
  *weight_b = lanes[1];
}

/* a * weight_a rounded, then fma of b; b NULL: zeros. */
static inline void fold_rows(float *a, float weight_a, const float *b, float weight_b, size_t n) {
  const vec wa = vec_set(weight_a);
  const vec wb = vec_set(weight_b);
  size_t i = 0;
  for (; i + VEC_LANES <= n; i += VEC_LANES) {
    const vec value = b != NULL ? vec_load(b + i) : vec_zero();
    vec_store(a + i, vec_fma(value, wb, vec_mul(vec_load(a + i), wa)));
  }
  if (i < n) {
    const vec value = b != NULL ? vec_load_first(b + i, n - i) : vec_zero();
    vec_store_first(a + i, n - i, vec_fma(value, wb, vec_mul(vec_load_first(a + i, n - i), wa)));
  }
}

/* quire_softmax_merge of numeric.h. */
static inline void fold_softmax(quire_softmax_state *a, float *accumulator_a,
                                const quire_softmax_state *b, const float *accumulator_b,
                                size_t n) {
  const float maximum = b->maximum > a->maximum ? b->maximum : a->maximum;
  float weight_a;
  float weight_b;
  state_weights(a->maximum, b->maximum, maximum, &weight_a, &weight_b);
  fold_rows(accumulator_a, weight_a, accumulator_b, weight_b, n);
  a->sum = fmaf(b->sum, weight_b, a->sum * weight_a);
  a->maximum = maximum;
}

/* quire_attend_fold: the first state is a copy. */
static inline void fold_state(quire_attend_state *a, const quire_attend_state *b, size_t n) {
  if (!b->seen) {
    return;
  }
  if (!a->seen) {
    a->seen = true;
    a->softmax = b->softmax;
    memcpy(a->accumulator, b->accumulator, n * sizeof(float));
    return;
  }
  fold_softmax(&a->softmax, a->accumulator, &b->softmax, b->accumulator, n);
}

static inline void store_first(quire_dtype dtype, void *row, int64_t at, size_t n, vec x) {
  if (dtype == QUIRE_FLOAT32 && n == VEC_LANES) {
    vec_store((float *)row + at, x); /* masked stores are slow on some processors */
  } else if (dtype == QUIRE_FLOAT32) {
    vec_store_first((float *)row + at, n, x);
  } else if (dtype == QUIRE_FLOAT16) {
    vec_store_first_f16((uint16_t *)row + at, n, x);
  } else {
    vec_store_first_bf16((uint16_t *)row + at, n, x);
  }
}

/* acc / l, times the V channel scale, rounded; zeros for a state without weight. */
static inline void store_result(const quire_attend_target *target, int64_t row, int64_t head,
                                const quire_attend_state *state) {
  const quire_view *output = target->output;
  const int64_t size = target->value_size;
  const int64_t offset = row * output->stride[0] + head * size;
  const bool empty = !state->seen || state->softmax.sum == 0.0f;
  const float *scales = target->v_scale->data;
  const bool per_channel = target->v_scale->ndim != 1;
  const float *channels =
      scales != NULL && per_channel ? scales + head / target->heads_per_kv * size : scales;
  const vec sum = vec_set(state->softmax.sum);
  for (int64_t i = 0; i < size; i += VEC_LANES) {
    const size_t n = size - i < VEC_LANES ? (size_t)(size - i) : VEC_LANES;
    vec value = vec_zero();
    if (!empty) {
      value = vec_div(vec_load_first(state->accumulator + i, n), sum);
      if (channels != NULL) {
        value = vec_mul(value, per_channel ? vec_load_first(channels + i, n) : vec_set(*channels));
      }
    }
    store_first(output->dtype, output->data, offset + i, n, value);
  }
}

/* quire_attend_finish for a whole row and head. */
static inline void finish_row(const quire_attend_target *target, int64_t row, int64_t head,
                              quire_attend_state *state) {
  if (!state->seen) {
    state->softmax.maximum = -INFINITY;
    state->softmax.sum = 0.0f;
  }
  if (target->head_sink->data != NULL) {
    const float logit = quire_load_f32(target->head_sink->dtype, target->head_sink->data, head);
    const quire_softmax_state sink = {logit, 1.0f};
    if (state->seen) {
      fold_softmax(&state->softmax, state->accumulator, &sink, NULL, (size_t)target->value_size);
    } else {
      state->softmax = sink;
    }
  }
  store_result(target, row, head, state);
  if (target->softmax_lse->data != NULL) {
    const quire_softmax_state *softmax = &state->softmax;
    float *lse = (float *)target->softmax_lse->data + row * target->softmax_lse->stride[0] + head;
    *lse = softmax->sum == 0.0f ? -INFINITY : softmax->maximum + quire_log(softmax->sum);
  }
}

#endif
