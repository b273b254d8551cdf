/*
 * The SIMD vocabulary: what a kernel body may say about vectors. One body serves every instruction
 * set; each is compiled in a file of its own with the flags of its set, which pick the header
 * below. All operations are lane by lane and rounded as IEEE 754 has it, so that a body that keeps
 * the order of docs/numerics.md returns the bits of the scalar reference.
 *
 *   vec                     VEC_LANES values of f32; a core has VEC_REGISTERS of them (a macro)
 *   vec_mask                one truth value a lane
 *   vec_load, vec_store     unaligned; vec_load_first and vec_store_first touch the first n lanes
 *   vec_load_kept           vec_load for a value with several uses
 *   vec_load_f16, ...       the same from f16, bf16, int8, widened exactly (NU-1)
 *   vec_store_first_f16     rounded once, to nearest even; vec_store_first_bf16 likewise
 *   vec_fma(a, b, c)        a*b + c, rounded once; vec_fnmadd(a, b, c) is c - a*b
 *   vec_prefetch            asks for a cache line; vec_prefetch_to_write for one to be written
 *   vec_max(a, b)           b > a ? b : a, so a NaN in b is passed over
 *   vec_transpose           a square of VEC_LANES vectors
 *   vec_sum_rows            sums of the lanes of VEC_LANES vectors, by NU-3's tree
 *   lanes16                 the 16 virtual lanes of NU-3, as LANES16_PARTS vectors
 */
#ifndef QUIRE_KERNELS_SIMD_H
#define QUIRE_KERNELS_SIMD_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512DQ__)
#include "simd_avx512.h"
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#include "simd_avx2.h"
#elif defined(__aarch64__) && defined(__ARM_NEON)
#include "simd_neon.h"
#else
#error "simd.h: compile this file with the flags of an instruction set"
#endif

enum { LANES16_PARTS = 16 / VEC_LANES };

typedef struct lanes16 {
  vec part[LANES16_PARTS];
} lanes16;

/* quire_lane_tree of numeric.h: i with i+8, i+4, i+2, i+1. */
static inline float lanes16_tree(const lanes16 *lanes) {
  return vec_tree16(lanes->part);
}

/* NU-3's tree up to where vec_sum_rows takes over: lanes VEC_LANES or more apart. */
static inline vec lanes16_join(const lanes16 *lanes) {
  if (LANES16_PARTS == 1) {
    return lanes->part[0];
  }
  if (LANES16_PARTS == 2) {
    return vec_add(lanes->part[0], lanes->part[LANES16_PARTS / 2]);
  }
  return vec_add(vec_add(lanes->part[0], lanes->part[LANES16_PARTS / 2]),
                 vec_add(lanes->part[LANES16_PARTS / 4], lanes->part[3 * LANES16_PARTS / 4]));
}

/* exp of a reduced argument, |r| <= ln(2) / 2. */
static inline vec vec_exp_reduced(vec r) {
  vec q = vec_set(0x1.6a24p-10f);
  q = vec_fma(q, r, vec_set(0x1.123a02p-7f));
  q = vec_fma(q, r, vec_set(0x1.5558f2p-5f));
  q = vec_fma(q, r, vec_set(0x1.555492p-3f));
  q = vec_fma(q, r, vec_set(0x1.fffffcp-2f));
  return vec_add(vec_fma(vec_mul(r, r), q, r), vec_set(1.0f));
}

/*
 * exp for x <= 0 (weights of the softmax, decays that do not grow): the bits of quire_exp there.
 * NaN stays NaN.
 */
static inline vec vec_exp_nonpositive(vec x) {
  const vec magic = vec_set(0x1.8p23f);
  const vec t = vec_fma(x, vec_set(0x1.715476p0f), magic);
  const vec n = vec_sub(t, magic);
  vec r = vec_fnmadd(n, vec_set(0x1.62e4p-1f), x);
  r = vec_fnmadd(n, vec_set(0x1.7f7d1cp-20f), r);
  const vec scaled = vec_mul(vec_exp_reduced(r), vec_power_of_low_bits(t));
  return vec_select(vec_less(x, vec_set(-87.3f)), vec_zero(), scaled);
}

/*
 * vec_exp_nonpositive of four vectors in step: one after the other, they fill a core with
 * instructions that wait for each other.
 */
static inline void vec_exp_nonpositive_4(vec x[4]) {
  const vec magic = vec_set(0x1.8p23f);
  vec t[4];
  vec r[4];
  vec q[4];
  for (int i = 0; i < 4; ++i) {
    t[i] = vec_fma(x[i], vec_set(0x1.715476p0f), magic);
  }
  for (int i = 0; i < 4; ++i) {
    q[i] = vec_sub(t[i], magic);
  }
  for (int i = 0; i < 4; ++i) {
    r[i] = vec_fnmadd(q[i], vec_set(0x1.62e4p-1f), x[i]);
  }
  for (int i = 0; i < 4; ++i) {
    r[i] = vec_fnmadd(q[i], vec_set(0x1.7f7d1cp-20f), r[i]);
  }
  for (int i = 0; i < 4; ++i) {
    q[i] = vec_fma(vec_set(0x1.6a24p-10f), r[i], vec_set(0x1.123a02p-7f));
  }
  for (int i = 0; i < 4; ++i) {
    q[i] = vec_fma(q[i], r[i], vec_set(0x1.5558f2p-5f));
  }
  for (int i = 0; i < 4; ++i) {
    q[i] = vec_fma(q[i], r[i], vec_set(0x1.555492p-3f));
  }
  for (int i = 0; i < 4; ++i) {
    q[i] = vec_fma(q[i], r[i], vec_set(0x1.fffffcp-2f));
  }
  for (int i = 0; i < 4; ++i) {
    q[i] = vec_fma(vec_mul(r[i], r[i]), q[i], r[i]);
  }
  for (int i = 0; i < 4; ++i) {
    q[i] = vec_add(q[i], vec_set(1.0f));
  }
  for (int i = 0; i < 4; ++i) {
    q[i] = vec_mul(q[i], vec_power_of_low_bits(t[i]));
  }
  for (int i = 0; i < 4; ++i) {
    x[i] = vec_select(vec_less(x[i], vec_set(-87.3f)), vec_zero(), q[i]);
  }
}

/* exp for any x: the bits of quire_exp. */
static inline vec vec_exp(vec x) {
  const vec magic = vec_set(0x1.8p23f);
  const vec t = vec_fma(x, vec_set(0x1.715476p0f), magic);
  const vec n = vec_sub(t, magic);
  vec r = vec_fnmadd(n, vec_set(0x1.62e4p-1f), x);
  r = vec_fnmadd(n, vec_set(0x1.7f7d1cp-20f), r);
  const vec e = vec_exp_reduced(r);
  /* n = 128 has no exponent of its own: half the power, twice. */
  const vec_mask large = vec_less(vec_set(80.0f), x);
  const vec power = vec_power_of_low_bits(vec_select(large, vec_sub(t, vec_set(1.0f)), t));
  vec scaled = vec_mul(e, power);
  scaled = vec_select(large, vec_add(scaled, scaled), scaled);
  scaled = vec_select(vec_less(vec_set(89.0f), x), vec_set(INFINITY), scaled);
  return vec_select(vec_less(x, vec_set(-87.3f)), vec_zero(), scaled);
}

/* The bits of quire_tanh. */
static inline vec vec_tanh(vec x) {
  const vec magnitude = vec_abs(x);
  const vec z = vec_mul(x, x);
  vec p = vec_set(0x1.4414cep-9f);
  p = vec_fma(p, z, vec_set(-0x1.16275cp-7f));
  p = vec_fma(p, z, vec_set(0x1.6552dap-6f));
  p = vec_fma(p, z, vec_set(-0x1.ba1250p-5f));
  p = vec_fma(p, z, vec_set(0x1.1111p-3f));
  p = vec_fma(p, z, vec_set(-0x1.555556p-2f));
  const vec small = vec_fma(magnitude, vec_mul(z, p), magnitude);
  const vec one = vec_set(1.0f);
  const vec e = vec_exp_nonpositive(vec_mul(vec_set(-2.0f), magnitude));
  const vec large = vec_sub(one, vec_div(vec_add(e, e), vec_add(one, e)));
  return vec_copysign(vec_select(vec_less(magnitude, vec_set(0.5625f)), small, large), x);
}

#endif
