/*
 * Two attention results over disjoint keys become the result over all of them:
 * M = max(lse_a, lse_b), w = exp(lse - M), o = fma(w_b, o_b, w_a o_a) / (w_a + w_b),
 * lse = M + ln(w_a + w_b). A part of weight 0 is selected away, so that what it holds cannot
 * matter.
 */
#include <math.h>

#include "merge_attention_states_call.h"
#include "merge_attention_states_kernels.h"
#include "numeric.h"
#include "registration.h"

enum { CHUNK = 256 };

static const quire_pass_binding bindings[MERGE_VIEW_COUNT] = {
    [MERGE_OUTPUT_A] = {"output_a", FLOATS}, [MERGE_SOFTMAX_LSE_A] = {"softmax_lse_a", FLOAT32},
    [MERGE_OUTPUT_B] = {"output_b", FLOATS}, [MERGE_SOFTMAX_LSE_B] = {"softmax_lse_b", FLOAT32},
    [MERGE_OUTPUT] = {"output", FLOATS},     [MERGE_SOFTMAX_LSE] = {"softmax_lse", FLOAT32},
};

static float weight_of(float lse, float maximum) {
  return lse == -INFINITY ? 0.0f : quire_exp(lse - maximum);
}

static void merge_values(const quire_merge_weights *w, const float *b, size_t n, float *a) {
  for (size_t d = 0; d < n; ++d) {
    float value;
    if (w->a == 0.0f) {
      value = w->b == 0.0f ? 0.0f : w->b * b[d];
    } else if (w->b == 0.0f) {
      value = w->a * a[d];
    } else {
      value = fmaf(w->b, b[d], w->a * a[d]);
    }
    a[d] = w->sum == 0.0f ? 0.0f : value / w->sum;
  }
}

static const char *row_of(const quire_view *view, int64_t offset) {
  return (const char *)view->data + offset * (int64_t)quire_dtype_size(view->dtype);
}

static void merge_row(const quire_view *views, int64_t row, const quire_merge_weights *w) {
  const int64_t size = views[MERGE_OUTPUT].shape[2];
  float a[CHUNK];
  float b[CHUNK];
  for (int64_t first = 0; first < size; first += CHUNK) {
    const size_t n = size - first < CHUNK ? (size_t)(size - first) : CHUNK;
    const int64_t offset = row * size + first;
    const quire_view *out = &views[MERGE_OUTPUT];
    quire_widen_row(out->dtype, row_of(&views[MERGE_OUTPUT_A], offset), n, a);
    quire_widen_row(out->dtype, row_of(&views[MERGE_OUTPUT_B], offset), n, b);
    merge_values(w, b, n, a);
    quire_narrow_row(out->dtype, a, n,
                     (char *)out->data + offset * (int64_t)quire_dtype_size(out->dtype));
  }
}

quire_merge_weights quire_merge_attention_states_weigh(const quire_view *views, int64_t row) {
  const float lse_a = ((const float *)views[MERGE_SOFTMAX_LSE_A].data)[row];
  const float lse_b = ((const float *)views[MERGE_SOFTMAX_LSE_B].data)[row];
  const float maximum = lse_b > lse_a ? lse_b : lse_a;
  quire_merge_weights w = {weight_of(lse_a, maximum), weight_of(lse_b, maximum), 0.0f};
  w.sum = w.a + w.b;
  ((float *)views[MERGE_SOFTMAX_LSE].data)[row] =
      w.sum == 0.0f ? -INFINITY : maximum + quire_log(w.sum);
  return w;
}

/* Item: one n of [N, H, D], all heads. */
quire_status quire_merge_attention_states_scalar(const quire_pass *pass, const size_t item[3]) {
  const quire_view *views = pass->views;
  const int64_t heads = views[MERGE_OUTPUT].shape[1];
  for (int64_t head = 0; head < heads; ++head) {
    const int64_t row = (int64_t)item[0] * heads + head;
    const quire_merge_weights w = quire_merge_attention_states_weigh(views, row);
    merge_row(views, row, &w);
  }
  return QUIRE_OK;
}

#define MERGE                                                                                  \
  .kernel = "merge_attention_states", .bindings = bindings, .binding_count = MERGE_VIEW_COUNT, \
  .uniforms = ""

static const quire_implementation implementations[] = {
    {MERGE, SCALAR, .name = "merge_attention_states__scalar",
     .function = quire_merge_attention_states_scalar},
#ifdef QUIRE_WITH_AVX2
    {MERGE, AVX2, .name = "merge_attention_states__avx2",
     .function = quire_merge_attention_states_avx2},
#endif
#ifdef QUIRE_WITH_AVX512
    {MERGE, AVX512, .name = "merge_attention_states__avx512",
     .function = quire_merge_attention_states_avx512},
#endif
#ifdef QUIRE_WITH_NEON
    {MERGE, NEON, .name = "merge_attention_states__neon",
     .function = quire_merge_attention_states_neon},
#endif
};

const quire_implementation_list quire_kernels_merge_attention_states = {
    implementations, sizeof implementations / sizeof *implementations};
