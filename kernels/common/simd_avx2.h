/* The SIMD vocabulary on AVX2 with FMA and F16C: 8 lanes. */
#ifndef QUIRE_KERNELS_SIMD_AVX2_H
#define QUIRE_KERNELS_SIMD_AVX2_H

#include <immintrin.h>

#define VEC_REGISTERS 16
enum { VEC_LANES = 8 };
typedef __m256 vec;
typedef __m256 vec_mask; /* all bits of a lane set, or none */

/* The first n lanes (n <= 8). */
static inline __m256i vec_first(size_t n) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), lane);
}

static inline vec vec_zero(void) {
  return _mm256_setzero_ps();
}
static inline vec vec_set(float x) {
  return _mm256_set1_ps(x);
}
static inline vec vec_load(const float *p) {
  return _mm256_loadu_ps(p);
}
/* A load that stays in a register: gcc would rather load again for every use. */
static inline vec vec_load_kept(const float *p) {
  return _mm256_castsi256_ps(_mm256_lddqu_si256((const __m256i *)(const void *)p));
}
static inline vec vec_load_first(const float *p, size_t n) {
  return _mm256_maskload_ps(p, vec_first(n));
}
static inline void vec_store(float *p, vec x) {
  _mm256_storeu_ps(p, x);
}
static inline void vec_store_first(float *p, size_t n, vec x) {
  _mm256_maskstore_ps(p, vec_first(n), x);
}

/* Masked loads know 4-byte lanes only: narrower rows end in a copy. */
static inline __m128i vec_copy_first(const void *p, size_t bytes) {
  unsigned char copy[16] = {0};
  memcpy(copy, p, bytes);
  return _mm_loadu_si128((const __m128i *)(const void *)copy);
}

static inline vec vec_load_f16(const uint16_t *p) {
  return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
}
static inline vec vec_load_first_f16(const uint16_t *p, size_t n) {
  return n == VEC_LANES ? vec_load_f16(p) : _mm256_cvtph_ps(vec_copy_first(p, 2 * n));
}
static inline vec vec_widen_bf16(__m128i bits) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}
static inline vec vec_load_bf16(const uint16_t *p) {
  return vec_widen_bf16(_mm_loadu_si128((const __m128i *)(const void *)p));
}
static inline vec vec_load_first_bf16(const uint16_t *p, size_t n) {
  return n == VEC_LANES ? vec_load_bf16(p) : vec_widen_bf16(vec_copy_first(p, 2 * n));
}
static inline vec vec_load_i8(const int8_t *p) {
  return _mm256_cvtepi32_ps(
      _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p)));
}
static inline vec vec_load_first_i8(const int8_t *p, size_t n) {
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(vec_copy_first(p, n)));
}

static inline void vec_store_first_f16(uint16_t *p, size_t n, vec x) {
  uint16_t halves[8];
  _mm_storeu_si128((__m128i *)(void *)halves,
                   _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  memcpy(p, halves, n * sizeof *p);
}
static inline void vec_store_first_bf16(uint16_t *p, size_t n, vec x) {
  const __m256i bits = _mm256_castps_si256(x);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_srli_epi32(
      _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd), 16);
  const __m256i quiet = _mm256_or_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(0x40));
  const __m256 nan = _mm256_cmp_ps(x, x, _CMP_UNORD_Q);
  const __m256i words = _mm256_blendv_epi8(rounded, quiet, _mm256_castps_si256(nan));
  uint16_t halves[8];
  _mm_storeu_si128((__m128i *)(void *)halves, _mm_packus_epi32(_mm256_castsi256_si128(words),
                                                               _mm256_extracti128_si256(words, 1)));
  memcpy(p, halves, n * sizeof *p);
}

/* Rounded to even; every x lies in [-128, 127]. */
static inline void vec_store_first_i8(int8_t *p, size_t n, vec x) {
  const __m256i words = _mm256_cvtps_epi32(x);
  const __m128i halves =
      _mm_packs_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
  int8_t bytes[16];
  _mm_storeu_si128((__m128i *)(void *)bytes, _mm_packs_epi16(halves, halves));
  memcpy(p, bytes, n);
}

static inline vec vec_add(vec a, vec b) {
  return _mm256_add_ps(a, b);
}
static inline vec vec_sub(vec a, vec b) {
  return _mm256_sub_ps(a, b);
}
static inline vec vec_mul(vec a, vec b) {
  return _mm256_mul_ps(a, b);
}
static inline vec vec_div(vec a, vec b) {
  return _mm256_div_ps(a, b);
}
static inline vec vec_fma(vec a, vec b, vec c) {
  return _mm256_fmadd_ps(a, b, c);
}
static inline vec vec_fnmadd(vec a, vec b, vec c) {
  return _mm256_fnmadd_ps(a, b, c);
}
static inline vec vec_max(vec a, vec b) {
  return _mm256_max_ps(b, a);
}
static inline vec vec_abs(vec x) {
  return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x);
}
/* The magnitude of a with the sign of b. */
static inline vec vec_copysign(vec a, vec b) {
  const vec sign = _mm256_set1_ps(-0.0f);
  return _mm256_or_ps(_mm256_andnot_ps(sign, a), _mm256_and_ps(sign, b));
}

static inline vec_mask vec_less(vec a, vec b) {
  return _mm256_cmp_ps(a, b, _CMP_LT_OQ);
}
static inline vec_mask vec_equal(vec a, vec b) {
  return _mm256_cmp_ps(a, b, _CMP_EQ_OQ);
}
static inline vec vec_select(vec_mask mask, vec yes, vec no) {
  return _mm256_blendv_ps(no, yes, mask);
}

/* 2^n for the n in the low bits of t = n + 1.5 * 2^23. */
static inline vec vec_power_of_low_bits(vec t) {
  return _mm256_castsi256_ps(
      _mm256_slli_epi32(_mm256_add_epi32(_mm256_castps_si256(t), _mm256_set1_epi32(127)), 23));
}

/* The lane tree of NU-3, from the first 8 lanes and the last 8. */
static inline float vec_tree16(const vec *parts) {
  const vec eight = _mm256_add_ps(parts[0], parts[1]);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

/* Sums of VEC_LANES vectors, lane n from rows[n]; with the lanes 8 apart added before, NU-3's tree.
 */
static inline vec vec_sum_rows(const vec *rows) {
  vec sums[4];
  for (int i = 0; i < 4; ++i) { /* rows i and i+4 become the two halves */
    sums[i] = _mm256_add_ps(_mm256_permute2f128_ps(rows[i], rows[i + 4], 0x20),
                            _mm256_permute2f128_ps(rows[i], rows[i + 4], 0x31));
  }
  vec pairs[2];
  for (int i = 0; i < 2; ++i) {
    const __m256d a = _mm256_castps_pd(sums[2 * i]);
    const __m256d b = _mm256_castps_pd(sums[2 * i + 1]);
    pairs[i] = _mm256_add_ps(_mm256_castpd_ps(_mm256_unpacklo_pd(a, b)),
                             _mm256_castpd_ps(_mm256_unpackhi_pd(a, b)));
  }
  return _mm256_add_ps(_mm256_shuffle_ps(pairs[0], pairs[1], 0x88),
                       _mm256_shuffle_ps(pairs[0], pairs[1], 0xdd));
}
/* Largest lanes of VEC_LANES vectors, lane n from rows[n]; no lane is NaN. */
static inline vec vec_max_rows(const vec *rows) {
  vec most[4];
  for (int i = 0; i < 4; ++i) {
    most[i] = _mm256_max_ps(_mm256_permute2f128_ps(rows[i], rows[i + 4], 0x20),
                            _mm256_permute2f128_ps(rows[i], rows[i + 4], 0x31));
  }
  vec pairs[2];
  for (int i = 0; i < 2; ++i) {
    const __m256d a = _mm256_castps_pd(most[2 * i]);
    const __m256d b = _mm256_castps_pd(most[2 * i + 1]);
    pairs[i] = _mm256_max_ps(_mm256_castpd_ps(_mm256_unpacklo_pd(a, b)),
                             _mm256_castpd_ps(_mm256_unpackhi_pd(a, b)));
  }
  return _mm256_max_ps(_mm256_shuffle_ps(pairs[0], pairs[1], 0x88),
                       _mm256_shuffle_ps(pairs[0], pairs[1], 0xdd));
}

/* Lane i as bit i says. */
static inline vec_mask vec_mask_of_bits(uint64_t bits) {
  const __m256i lane = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  const __m256i all = _mm256_set1_epi32((int)(bits & 0xffu));
  return _mm256_castsi256_ps(_mm256_cmpeq_epi32(_mm256_and_si256(all, lane), lane));
}
/* Cuts x into `parts` (2, 4, else 1) equal pieces and stores piece i at p + i * stride. */
static inline void vec_store_parts(float *p, size_t stride, int parts, vec x) {
  if (parts <= 1) {
    _mm256_storeu_ps(p, x);
    return;
  }
  const __m128 low = _mm256_castps256_ps128(x);
  const __m128 high = _mm256_extractf128_ps(x, 1);
  if (parts == 2) {
    _mm_storeu_ps(p, low);
    _mm_storeu_ps(p + stride, high);
  } else {
    _mm_storel_pi((__m64 *)(void *)p, low);
    _mm_storeh_pi((__m64 *)(void *)(p + stride), low);
    _mm_storel_pi((__m64 *)(void *)(p + 2 * stride), high);
    _mm_storeh_pi((__m64 *)(void *)(p + 3 * stride), high);
  }
}
/* Asks for the cache line of p. */
static inline void vec_prefetch(const void *p) {
  _mm_prefetch((const char *)p, _MM_HINT_T0);
}
/* The same, for a line that will be written. */
static inline void vec_prefetch_to_write(const void *p) {
  __builtin_prefetch(p, 1, 3);
}

/* Lane j of row i becomes lane i of row j. */
static inline void vec_transpose(vec rows[8]) {
  vec quads[8]; /* rows 4g..4g+3: columns 0, 1, 2, 3 of each half */
  for (int g = 0; g < 8; g += 4) {
    const vec low01 = _mm256_unpacklo_ps(rows[g], rows[g + 1]);
    const vec high01 = _mm256_unpackhi_ps(rows[g], rows[g + 1]);
    const vec low23 = _mm256_unpacklo_ps(rows[g + 2], rows[g + 3]);
    const vec high23 = _mm256_unpackhi_ps(rows[g + 2], rows[g + 3]);
    quads[g] = _mm256_shuffle_ps(low01, low23, 0x44);
    quads[g + 1] = _mm256_shuffle_ps(low01, low23, 0xee);
    quads[g + 2] = _mm256_shuffle_ps(high01, high23, 0x44);
    quads[g + 3] = _mm256_shuffle_ps(high01, high23, 0xee);
  }
  for (int i = 0; i < 4; ++i) {
    rows[i] = _mm256_permute2f128_ps(quads[i], quads[i + 4], 0x20);
    rows[i + 4] = _mm256_permute2f128_ps(quads[i], quads[i + 4], 0x31);
  }
}

#endif
