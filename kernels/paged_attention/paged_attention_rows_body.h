/*
 * Scatter and merge over the SIMD vocabulary: included once by a file of each instruction set,
 * which defines QUIRE_SCATTER and QUIRE_MERGE, the names of the pass functions.
 */
#include "paged_attention_call.h"
#include "paged_attention_passes.h"
#include "paged_attention_scatter.h"
#include "paged_attention_state_body.h"
#include "simd.h"
#include "simd_elements.h"

/* clamp(x / scale rounded to even, -128, 127), NaN and a scale of 0 give 0: the clamp may come
   first, since its bounds are whole numbers. */
static void quantise_row(quire_dtype dtype, const void *source, const float *scales,
                         bool per_channel, int64_t n, int8_t *out) {
  const size_t bytes = quire_dtype_size(dtype);
  vec scale = vec_set(*scales);
  for (int64_t d = 0; d < n; d += VEC_LANES) {
    const size_t count = n - d < VEC_LANES ? (size_t)(n - d) : VEC_LANES;
    if (per_channel) {
      scale = vec_load_first(scales + d, count);
    }
    const vec x = vec_load_elements(dtype, (const char *)source + (size_t)d * bytes, count);
    vec q = vec_mul(x, vec_div(vec_set(1.0f), scale));
    q = vec_select(vec_equal(q, q), q, vec_zero());
    q = vec_select(vec_less(q, vec_set(-128.0f)), vec_set(-128.0f), q);
    q = vec_select(vec_less(vec_set(127.0f), q), vec_set(127.0f), q);
    q = vec_select(vec_equal(scale, vec_zero()), vec_zero(), q);
    vec_store_first_i8(out + d, count, q);
  }
}

/* rint(clamp(x / scale, -127, 127)), NaN gives 0 and has no part in the scale. */
static float measure_row(quire_dtype dtype, const void *source, int64_t n, int8_t *out) {
  const size_t bytes = quire_dtype_size(dtype);
  vec most = vec_zero();
  for (int64_t d = 0; d < n; d += VEC_LANES) {
    const size_t count = n - d < VEC_LANES ? (size_t)(n - d) : VEC_LANES;
    const vec x = vec_load_elements(dtype, (const char *)source + (size_t)d * bytes, count);
    most = vec_max(most, vec_abs(x));
  }
  float lanes[VEC_LANES];
  vec_store(lanes, most);
  float largest = 0.0f;
  for (int i = 0; i < VEC_LANES; ++i) {
    largest = lanes[i] > largest ? lanes[i] : largest;
  }
  const float scale = quire_row_scale(largest);
  for (int64_t d = 0; d < n; d += VEC_LANES) {
    const size_t count = n - d < VEC_LANES ? (size_t)(n - d) : VEC_LANES;
    const vec x = vec_load_elements(dtype, (const char *)source + (size_t)d * bytes, count);
    vec q = vec_div(x, vec_set(scale));
    q = vec_select(vec_equal(q, q), q, vec_zero());
    q = vec_select(vec_less(q, vec_set(-127.0f)), vec_set(-127.0f), q);
    q = vec_select(vec_less(vec_set(127.0f), q), vec_set(127.0f), q);
    vec_store_first_i8(out + d, count, q);
  }
  return scale;
}

quire_status QUIRE_SCATTER(const quire_pass *pass, const size_t item[3]) {
  static const quire_row_rounding rounding = {quantise_row, measure_row};
  quire_scatter_items(pass, item[0], &rounding);
  return QUIRE_OK;
}

quire_status QUIRE_MERGE(const quire_pass *pass, const size_t item[3]) {
  quire_attend_target target;
  const quire_paged_merge_row *row = quire_merge_open(pass, item[0], &target);
  if (target.value_size > QUIRE_ATTEND_COLUMNS) {
    return quire_paged_attention_merge(pass, item);
  }
  const int64_t head = (int64_t)item[1];
  const size_t n = (size_t)target.value_size;
  float accumulators[2][QUIRE_ATTEND_COLUMNS];
  quire_attend_state group = {.seen = false, .accumulator = accumulators[0]};
  quire_attend_state whole = {.seen = false, .accumulator = accumulators[1]};
  for (int64_t i = 0; i < row->state_count; ++i) {
    const quire_attend_state state = quire_merge_state(pass, row, head, i, target.value_size);
    fold_state(&group, &state, n);
    if ((row->first_state + i + 1) % row->group_size == 0 || i + 1 == row->state_count) {
      fold_state(&whole, &group, n);
      group.seen = false;
    }
  }
  finish_row(&target, row->row, head, &whole);
  return QUIRE_OK;
}
