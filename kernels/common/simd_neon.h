/* The SIMD vocabulary on NEON (AArch64): 4 lanes. */
#ifndef QUIRE_KERNELS_SIMD_NEON_H
#define QUIRE_KERNELS_SIMD_NEON_H

#include <arm_neon.h>

#define VEC_REGISTERS 32
enum { VEC_LANES = 4 };
typedef float32x4_t vec;
typedef uint32x4_t vec_mask; /* all bits of a lane set, or none */

static inline vec vec_zero(void) {
  return vdupq_n_f32(0.0f);
}
static inline vec vec_set(float x) {
  return vdupq_n_f32(x);
}
static inline vec vec_load(const float *p) {
  return vld1q_f32(p);
}
static inline vec vec_load_kept(const float *p) {
  return vld1q_f32(p);
}
static inline vec vec_load_first(const float *p, size_t n) {
  float copy[4] = {0.0f};
  memcpy(copy, p, n * sizeof *p);
  return vld1q_f32(copy);
}
static inline void vec_store(float *p, vec x) {
  vst1q_f32(p, x);
}
static inline void vec_store_first(float *p, size_t n, vec x) {
  float copy[4];
  vst1q_f32(copy, x);
  memcpy(p, copy, n * sizeof *p);
}

static inline vec vec_widen_f16(uint16x4_t bits) {
  return vcvt_f32_f16(vreinterpret_f16_u16(bits));
}
static inline vec vec_load_f16(const uint16_t *p) {
  return vec_widen_f16(vld1_u16(p));
}
static inline uint16x4_t vec_copy_first(const uint16_t *p, size_t n) {
  uint16_t copy[4] = {0};
  memcpy(copy, p, n * sizeof *p);
  return vld1_u16(copy);
}
static inline vec vec_load_first_f16(const uint16_t *p, size_t n) {
  return vec_widen_f16(vec_copy_first(p, n));
}
static inline vec vec_widen_bf16(uint16x4_t bits) {
  return vreinterpretq_f32_u32(vshll_n_u16(bits, 16));
}
static inline vec vec_load_bf16(const uint16_t *p) {
  return vec_widen_bf16(vld1_u16(p));
}
static inline vec vec_load_first_bf16(const uint16_t *p, size_t n) {
  return vec_widen_bf16(vec_copy_first(p, n));
}
static inline vec vec_load_first_i8(const int8_t *p, size_t n) {
  int8_t copy[8] = {0};
  memcpy(copy, p, n);
  return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(vld1_s8(copy)))));
}
static inline vec vec_load_i8(const int8_t *p) {
  return vec_load_first_i8(p, VEC_LANES);
}

static inline void vec_store_first_f16(uint16_t *p, size_t n, vec x) {
  uint16_t halves[4];
  vst1_u16(halves, vreinterpret_u16_f16(vcvt_f16_f32(x)));
  memcpy(p, halves, n * sizeof *p);
}
static inline void vec_store_first_bf16(uint16_t *p, size_t n, vec x) {
  const uint32x4_t bits = vreinterpretq_u32_f32(x);
  const uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
  const uint32x4_t rounded = vshrq_n_u32(vaddq_u32(vaddq_u32(bits, vdupq_n_u32(0x7fff)), odd), 16);
  const uint32x4_t quiet = vorrq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(0x40));
  uint16_t halves[4];
  vst1_u16(halves, vmovn_u32(vbslq_u32(vceqq_f32(x, x), rounded, quiet)));
  memcpy(p, halves, n * sizeof *p);
}

/* Rounded to even; every x lies in [-128, 127]. */
static inline void vec_store_first_i8(int8_t *p, size_t n, vec x) {
  int32_t words[4];
  vst1q_s32(words, vcvtnq_s32_f32(x));
  for (size_t i = 0; i < n; ++i) {
    p[i] = (int8_t)words[i];
  }
}

static inline vec vec_add(vec a, vec b) {
  return vaddq_f32(a, b);
}
static inline vec vec_sub(vec a, vec b) {
  return vsubq_f32(a, b);
}
static inline vec vec_mul(vec a, vec b) {
  return vmulq_f32(a, b);
}
static inline vec vec_div(vec a, vec b) {
  return vdivq_f32(a, b);
}
static inline vec vec_fma(vec a, vec b, vec c) {
  return vfmaq_f32(c, a, b);
}
static inline vec vec_fnmadd(vec a, vec b, vec c) {
  return vfmsq_f32(c, a, b);
}
static inline vec vec_max(vec a, vec b) {
  return vbslq_f32(vcgtq_f32(b, a), b, a);
}
static inline vec vec_abs(vec x) {
  return vabsq_f32(x);
}
/* The magnitude of a with the sign of b. */
static inline vec vec_copysign(vec a, vec b) {
  return vbslq_f32(vdupq_n_u32(0x80000000u), b, a);
}

static inline vec_mask vec_less(vec a, vec b) {
  return vcltq_f32(a, b);
}
static inline vec_mask vec_equal(vec a, vec b) {
  return vceqq_f32(a, b);
}
static inline vec vec_select(vec_mask mask, vec yes, vec no) {
  return vbslq_f32(mask, yes, no);
}

/* 2^n for the n in the low bits of t = n + 1.5 * 2^23. */
static inline vec vec_power_of_low_bits(vec t) {
  return vreinterpretq_f32_u32(
      vshlq_n_u32(vaddq_u32(vreinterpretq_u32_f32(t), vdupq_n_u32(127)), 23));
}

/* The lane tree of NU-3, from four quarters. */
static inline float vec_tree16(const vec *parts) {
  const vec four = vaddq_f32(vaddq_f32(parts[0], parts[2]), vaddq_f32(parts[1], parts[3]));
  const float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
  return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}

/* Sums of VEC_LANES vectors, lane n from rows[n]; with the lanes 8 and 4 apart added before, NU-3's
 * tree. */
static inline vec vec_sum_rows(const vec *rows) {
  const vec a = vaddq_f32(vcombine_f32(vget_low_f32(rows[0]), vget_low_f32(rows[1])),
                          vcombine_f32(vget_high_f32(rows[0]), vget_high_f32(rows[1])));
  const vec b = vaddq_f32(vcombine_f32(vget_low_f32(rows[2]), vget_low_f32(rows[3])),
                          vcombine_f32(vget_high_f32(rows[2]), vget_high_f32(rows[3])));
  return vpaddq_f32(a, b);
}
/* Largest lanes of VEC_LANES vectors, lane n from rows[n]; no lane is NaN. */
static inline vec vec_max_rows(const vec *rows) {
  return vpmaxq_f32(vpmaxq_f32(rows[0], rows[1]), vpmaxq_f32(rows[2], rows[3]));
}

/* Lane i as bit i says. */
static inline vec_mask vec_mask_of_bits(uint64_t bits) {
  const uint32_t lanes[4] = {1, 2, 4, 8};
  return vtstq_u32(vdupq_n_u32((uint32_t)(bits & 0xfu)), vld1q_u32(lanes));
}
/* Stores x at p: a vector holds one piece. */
static inline void vec_store_parts(float *p, size_t stride, int parts, vec x) {
  (void)stride;
  (void)parts;
  vst1q_f32(p, x);
}
/* Asks for the cache line of p. */
static inline void vec_prefetch(const void *p) {
  __builtin_prefetch(p, 0, 3);
}
/* The same, for a line that will be written. */
static inline void vec_prefetch_to_write(const void *p) {
  __builtin_prefetch(p, 1, 3);
}

/* Lane j of row i becomes lane i of row j. */
static inline void vec_transpose(vec rows[4]) {
  const float32x4x2_t ab = vtrnq_f32(rows[0], rows[1]);
  const float32x4x2_t cd = vtrnq_f32(rows[2], rows[3]);
  rows[0] = vcombine_f32(vget_low_f32(ab.val[0]), vget_low_f32(cd.val[0]));
  rows[1] = vcombine_f32(vget_low_f32(ab.val[1]), vget_low_f32(cd.val[1]));
  rows[2] = vcombine_f32(vget_high_f32(ab.val[0]), vget_high_f32(cd.val[0]));
  rows[3] = vcombine_f32(vget_high_f32(ab.val[1]), vget_high_f32(cd.val[1]));
}

#endif
