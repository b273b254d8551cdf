/*
 * MergeAttentionStates for one instruction set: the bits of merge_attention_states.c. The file that
 * includes this defines MERGE_NAME and is compiled with the set's flags.
 */
#include "merge_attention_states_call.h"
#include "simd_elements.h"

/* (fma(w_b, b, round(w_a a))) / sum; a part of weight 0 is selected away, whatever it holds. */
static vec merge_values(const quire_merge_weights *w, vec a, vec b) {
  vec value = vec_zero();
  if (w->sum == 0.0f) {
    return value;
  }
  if (w->a == 0.0f) {
    value = vec_mul(vec_set(w->b), b);
  } else if (w->b == 0.0f) {
    value = vec_mul(vec_set(w->a), a);
  } else {
    value = vec_fma(vec_set(w->b), b, vec_mul(vec_set(w->a), a));
  }
  return vec_div(value, vec_set(w->sum));
}

static void merge_row(const quire_view *views, int64_t row, const quire_merge_weights *w) {
  const quire_dtype dtype = views[MERGE_OUTPUT].dtype;
  const size_t size = quire_dtype_size(dtype);
  const size_t count = (size_t)views[MERGE_OUTPUT].shape[2];
  const size_t start = (size_t)row * count * size;
  const char *a = (const char *)views[MERGE_OUTPUT_A].data + start;
  const char *b = (const char *)views[MERGE_OUTPUT_B].data + start;
  char *out = (char *)views[MERGE_OUTPUT].data + start;
  for (size_t d = 0; d < count; d += VEC_LANES) {
    const size_t n = count - d < VEC_LANES ? count - d : VEC_LANES;
    vec_store_elements(dtype, out + d * size, n,
                       merge_values(w, vec_load_elements(dtype, a + d * size, n),
                                    vec_load_elements(dtype, b + d * size, n)));
  }
}

/* Item: one n of [N, H, D], all heads. */
quire_status MERGE_NAME(const quire_pass *pass, const size_t item[3]) {
  const quire_view *views = pass->views;
  const int64_t heads = views[MERGE_OUTPUT].shape[1];
  for (int64_t head = 0; head < heads; ++head) {
    const int64_t row = (int64_t)item[0] * heads + head;
    const quire_merge_weights w = quire_merge_attention_states_weigh(views, row);
    merge_row(views, row, &w);
  }
  return QUIRE_OK;
}
