/*
 * The gates of recurrent layers as vectors: the bits of quire_sigmoid and quire_softplus. Apart
 * from simd.h because few kernels need them.
 */
#ifndef QUIRE_KERNELS_SIMD_GATES_H
#define QUIRE_KERNELS_SIMD_GATES_H

#include "simd.h"

/* exp(-|x|). */
static inline vec vec_exp_minus_abs(vec x) {
  return vec_exp_nonpositive(vec_copysign(x, vec_set(-1.0f)));
}

/* The bits of quire_sigmoid. */
static inline vec vec_sigmoid(vec x) {
  const vec one = vec_set(1.0f);
  const vec e = vec_exp_minus_abs(x);
  return vec_div(vec_select(vec_less(x, vec_zero()), e, one), vec_add(one, e));
}

/* log_reduced of elementary.c: k ln 2 + ln(1 + f) + correction. */
static inline vec vec_log_reduced(vec f, vec k, vec correction) {
  const vec s = vec_div(f, vec_add(vec_set(2.0f), f));
  const vec z = vec_mul(s, s);
  vec p = vec_set(0x1.c71c72p-3f);
  p = vec_fma(p, z, vec_set(0x1.24924ap-2f));
  p = vec_fma(p, z, vec_set(0x1.99999ap-2f));
  p = vec_fma(p, z, vec_set(0x1.555556p-1f));
  const vec half = vec_mul(vec_set(0.5f), f);
  const vec low =
      vec_fma(s, vec_fma(z, p, vec_mul(half, f)), vec_fma(k, vec_set(0x1.7f7d1cp-20f), correction));
  return vec_fma(k, vec_set(0x1.62e4p-1f), vec_add(f, vec_fnmadd(half, f, low)));
}

/*
 * The bits of quire_log1p for 0 <= x <= 1, the values of exp(-|x|). NaN stays NaN. There 1 + x lies
 * in [1, 2], so its exponent is split off by one comparison with sqrt(2).
 */
static inline vec vec_log1p_of_weight(vec x) {
  const vec one = vec_set(1.0f);
  const vec u = vec_add(one, x);
  const vec lost =
      vec_select(vec_less(x, one), vec_sub(x, vec_sub(u, one)), vec_sub(one, vec_sub(u, x)));
  const vec_mask low = vec_less(u, vec_set(0x1.6a09e6p0f)); /* 2 * the root_half of elementary.c */
  const vec m = vec_select(low, u, vec_mul(u, vec_set(0.5f)));
  const vec k = vec_select(low, vec_zero(), one);
  const vec_mask small = vec_less(x, vec_set(0.40625f));
  const vec f = vec_select(small, x, vec_sub(m, one));
  return vec_log_reduced(f, vec_select(small, vec_zero(), k),
                         vec_select(small, vec_zero(), vec_div(lost, u)));
}

/* The bits of quire_softplus. */
static inline vec vec_softplus(vec x) {
  const vec positive = vec_max(vec_zero(), x);
  return vec_add(positive, vec_log1p_of_weight(vec_exp_minus_abs(x)));
}

#endif
