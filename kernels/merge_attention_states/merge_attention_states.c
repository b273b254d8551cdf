/*
 * Two attention results over disjoint keys become the result over all of them:
 * M = max(lse_a, lse_b), w = exp(lse - M), o = fma(w_b, o_b, w_a o_a) / (w_a + w_b),
 * lse = M + ln(w_a + w_b). A part of weight 0 is selected away, so that what it holds cannot
 * matter.
 */
#include <math.h>

#include "merge_attention_states_kernels.h"
#include "numeric.h"

enum {
  VIEW_OUTPUT_A,
  VIEW_SOFTMAX_LSE_A,
  VIEW_OUTPUT_B,
  VIEW_SOFTMAX_LSE_B,
  VIEW_OUTPUT,
  VIEW_SOFTMAX_LSE
};

enum { CHUNK = 256 };

#define FLOATS                                                       \
  (QUIRE_DTYPE_BIT(QUIRE_FLOAT32) | QUIRE_DTYPE_BIT(QUIRE_FLOAT16) | \
   QUIRE_DTYPE_BIT(QUIRE_BFLOAT16))

static const quire_pass_binding bindings[] = {
    {"output_a", FLOATS}, {"softmax_lse_a", QUIRE_DTYPE_BIT(QUIRE_FLOAT32)},
    {"output_b", FLOATS}, {"softmax_lse_b", QUIRE_DTYPE_BIT(QUIRE_FLOAT32)},
    {"output", FLOATS},   {"softmax_lse", QUIRE_DTYPE_BIT(QUIRE_FLOAT32)},
};

typedef struct weights {
  float a, b, sum;
} weights;

static float weight_of(float lse, float maximum) {
  return lse == -INFINITY ? 0.0f : quire_exp(lse - maximum);
}

static void merge_values(const weights *w, const float *b, size_t n, float *a) {
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

static void merge_row(const quire_view *views, int64_t row, const weights *w) {
  const int64_t size = views[VIEW_OUTPUT].shape[2];
  float a[CHUNK];
  float b[CHUNK];
  for (int64_t first = 0; first < size; first += CHUNK) {
    const size_t n = size - first < CHUNK ? (size_t)(size - first) : CHUNK;
    const int64_t offset = row * size + first;
    const quire_view *out = &views[VIEW_OUTPUT];
    quire_widen_row(out->dtype, row_of(&views[VIEW_OUTPUT_A], offset), n, a);
    quire_widen_row(out->dtype, row_of(&views[VIEW_OUTPUT_B], offset), n, b);
    merge_values(w, b, n, a);
    quire_narrow_row(out->dtype, a, n,
                     (char *)out->data + offset * (int64_t)quire_dtype_size(out->dtype));
  }
}

/* Item: one n of [N, H, D], all heads. */
static quire_status merge_states(const quire_pass *pass, const size_t item[3]) {
  const quire_view *views = pass->views;
  const int64_t heads = views[VIEW_OUTPUT].shape[1];
  for (int64_t head = 0; head < heads; ++head) {
    const int64_t row = (int64_t)item[0] * heads + head;
    const float lse_a = ((const float *)views[VIEW_SOFTMAX_LSE_A].data)[row];
    const float lse_b = ((const float *)views[VIEW_SOFTMAX_LSE_B].data)[row];
    const float maximum = lse_b > lse_a ? lse_b : lse_a;
    weights w = {weight_of(lse_a, maximum), weight_of(lse_b, maximum), 0.0f};
    w.sum = w.a + w.b;
    merge_row(views, row, &w);
    ((float *)views[VIEW_SOFTMAX_LSE].data)[row] =
        w.sum == 0.0f ? -INFINITY : maximum + quire_log(w.sum);
  }
  return QUIRE_OK;
}

static const quire_implementation implementations[] = {
    {.kernel = "merge_attention_states",
     .name = "merge_attention_states__scalar",
     .bindings = bindings,
     .binding_count = sizeof bindings / sizeof *bindings,
     .uniforms = "",
     .isa = QUIRE_ISA_SCALAR,
     .function = merge_states},
};

const quire_implementation_list quire_kernels_merge_attention_states = {
    implementations, sizeof implementations / sizeof *implementations};
