/* The SIMD vocabulary on AVX-512 (F, BW, VL, DQ): 16 lanes. */
#ifndef QUIRE_KERNELS_SIMD_AVX512_H
#define QUIRE_KERNELS_SIMD_AVX512_H

#include <immintrin.h>

#define VEC_REGISTERS 32
enum { VEC_LANES = 16 };
typedef __m512 vec;
typedef __mmask16 vec_mask;

/* The first n lanes (n <= 16). */
static inline vec_mask vec_first(size_t n) {
  return (vec_mask)((1u << n) - 1u);
}

static inline vec vec_zero(void) {
  return _mm512_setzero_ps();
}
static inline vec vec_set(float x) {
  return _mm512_set1_ps(x);
}
static inline vec vec_load(const float *p) {
  return _mm512_loadu_ps(p);
}
static inline vec vec_load_kept(const float *p) {
  return _mm512_loadu_ps(p);
}
static inline vec vec_load_first(const float *p, size_t n) {
  return _mm512_maskz_loadu_ps(vec_first(n), p);
}
static inline void vec_store(float *p, vec x) {
  _mm512_storeu_ps(p, x);
}
static inline void vec_store_first(float *p, size_t n, vec x) {
  _mm512_mask_storeu_ps(p, vec_first(n), x);
}

static inline vec vec_load_f16(const uint16_t *p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p));
}
static inline vec vec_load_first_f16(const uint16_t *p, size_t n) {
  return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(vec_first(n), p));
}
static inline vec vec_widen_bf16(__m256i bits) {
  const __m512i upper = _mm512_set_epi16(15, 0, 14, 0, 13, 0, 12, 0, 11, 0, 10, 0, 9, 0, 8, 0, 7, 0,
                                         6, 0, 5, 0, 4, 0, 3, 0, 2, 0, 1, 0, 0, 0);
  return _mm512_castsi512_ps(
      _mm512_maskz_permutexvar_epi16(0xaaaaaaaa, upper, _mm512_castsi256_si512(bits)));
}
static inline vec vec_load_bf16(const uint16_t *p) {
  return vec_widen_bf16(_mm256_loadu_si256((const __m256i *)(const void *)p));
}
static inline vec vec_load_first_bf16(const uint16_t *p, size_t n) {
  return vec_widen_bf16(_mm256_maskz_loadu_epi16(vec_first(n), p));
}
static inline vec vec_load_i8(const int8_t *p) {
  return _mm512_cvtepi32_ps(
      _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p)));
}
static inline vec vec_load_first_i8(const int8_t *p, size_t n) {
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(vec_first(n), p)));
}

/* Masked stores of 16-bit lanes take many cycles on some processors. */
static inline void vec_store_first_halves(uint16_t *p, size_t n, __m256i halves) {
  if (n == VEC_LANES) {
    _mm256_storeu_si256((__m256i *)(void *)p, halves);
  } else {
    _mm256_mask_storeu_epi16(p, vec_first(n), halves);
  }
}
static inline void vec_store_first_f16(uint16_t *p, size_t n, vec x) {
  vec_store_first_halves(
      p, n,
      _mm512_maskz_cvtps_ph((vec_mask)0xffffu, x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
static inline void vec_store_first_bf16(uint16_t *p, size_t n, vec x) {
  const __m512i bits = _mm512_castps_si512(x);
  /* Half a unit less one, and one more where the last bit that stays is set; then the upper halves.
   */
  const vec_mask odd = _mm512_test_epi32_mask(bits, _mm512_set1_epi32(0x10000));
  const __m512i even = _mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff));
  const __m512i rounded = _mm512_mask_add_epi32(even, odd, bits, _mm512_set1_epi32(0x8000));
  const vec_mask nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
  const __m512i words = _mm512_mask_or_epi32(rounded, nan, bits, _mm512_set1_epi32(0x400000));
  const __m512i upper = _mm512_set_epi16(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 31, 29, 27,
                                         25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1);
  vec_store_first_halves(p, n, _mm512_castsi512_si256(_mm512_permutexvar_epi16(upper, words)));
}

/* Rounded to even; every x lies in [-128, 127]. */
static inline void vec_store_first_i8(int8_t *p, size_t n, vec x) {
  _mm_mask_storeu_epi8(p, vec_first(n), _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(x)));
}

static inline vec vec_add(vec a, vec b) {
  return _mm512_add_ps(a, b);
}
static inline vec vec_sub(vec a, vec b) {
  return _mm512_sub_ps(a, b);
}
static inline vec vec_mul(vec a, vec b) {
  return _mm512_mul_ps(a, b);
}
static inline vec vec_div(vec a, vec b) {
  return _mm512_div_ps(a, b);
}
static inline vec vec_fma(vec a, vec b, vec c) {
  return _mm512_fmadd_ps(a, b, c);
}
static inline vec vec_fnmadd(vec a, vec b, vec c) {
  return _mm512_fnmadd_ps(a, b, c);
}
static inline vec vec_max(vec a, vec b) {
  return _mm512_max_ps(b, a);
}

static inline vec vec_abs(vec x) {
  return _mm512_abs_ps(x);
}
/* The magnitude of a with the sign of b. */
static inline vec vec_copysign(vec a, vec b) {
  const vec sign = _mm512_set1_ps(-0.0f);
  return _mm512_or_ps(_mm512_andnot_ps(sign, a), _mm512_and_ps(sign, b));
}

static inline vec_mask vec_less(vec a, vec b) {
  return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ);
}
static inline vec_mask vec_equal(vec a, vec b) {
  return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ);
}
static inline vec vec_select(vec_mask mask, vec yes, vec no) {
  return _mm512_mask_blend_ps(mask, no, yes);
}

/* 2^n for the n in the low bits of t = n + 1.5 * 2^23. */
static inline vec vec_power_of_low_bits(vec t) {
  return _mm512_castsi512_ps(
      _mm512_slli_epi32(_mm512_add_epi32(_mm512_castps_si512(t), _mm512_set1_epi32(127)), 23));
}

/* The lane tree of NU-3. */
static inline float vec_tree16(const vec *parts) {
  const __m256 eight =
      _mm256_add_ps(_mm512_castps512_ps256(parts[0]), _mm512_extractf32x8_ps(parts[0], 1));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

/* Sums of VEC_LANES vectors, lane n from rows[n], by NU-3's tree of 16. */
static inline vec vec_sum_rows(const vec *rows) {
  vec sums[4];
  for (int i = 0; i < 4; ++i) { /* rows i, i+4, i+8, i+12 become the four quarters */
    const vec low = _mm512_add_ps(_mm512_shuffle_f32x4(rows[i], rows[i + 4], 0x44),
                                  _mm512_shuffle_f32x4(rows[i], rows[i + 4], 0xee));
    const vec high = _mm512_add_ps(_mm512_shuffle_f32x4(rows[i + 8], rows[i + 12], 0x44),
                                   _mm512_shuffle_f32x4(rows[i + 8], rows[i + 12], 0xee));
    sums[i] =
        _mm512_add_ps(_mm512_shuffle_f32x4(low, high, 0x88), _mm512_shuffle_f32x4(low, high, 0xdd));
  }
  vec pairs[2];
  for (int i = 0; i < 2; ++i) {
    const __m512d a = _mm512_castps_pd(sums[2 * i]);
    const __m512d b = _mm512_castps_pd(sums[2 * i + 1]);
    pairs[i] = _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(a, b)),
                             _mm512_castpd_ps(_mm512_unpackhi_pd(a, b)));
  }
  return _mm512_add_ps(_mm512_shuffle_ps(pairs[0], pairs[1], 0x88),
                       _mm512_shuffle_ps(pairs[0], pairs[1], 0xdd));
}
/* Largest lanes of VEC_LANES vectors, lane n from rows[n]; no lane is NaN. */
static inline vec vec_max_rows(const vec *rows) {
  vec most[4];
  for (int i = 0; i < 4; ++i) {
    const vec low = _mm512_max_ps(_mm512_shuffle_f32x4(rows[i], rows[i + 4], 0x44),
                                  _mm512_shuffle_f32x4(rows[i], rows[i + 4], 0xee));
    const vec high = _mm512_max_ps(_mm512_shuffle_f32x4(rows[i + 8], rows[i + 12], 0x44),
                                   _mm512_shuffle_f32x4(rows[i + 8], rows[i + 12], 0xee));
    most[i] =
        _mm512_max_ps(_mm512_shuffle_f32x4(low, high, 0x88), _mm512_shuffle_f32x4(low, high, 0xdd));
  }
  vec pairs[2];
  for (int i = 0; i < 2; ++i) {
    const __m512d a = _mm512_castps_pd(most[2 * i]);
    const __m512d b = _mm512_castps_pd(most[2 * i + 1]);
    pairs[i] = _mm512_max_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(a, b)),
                             _mm512_castpd_ps(_mm512_unpackhi_pd(a, b)));
  }
  return _mm512_max_ps(_mm512_shuffle_ps(pairs[0], pairs[1], 0x88),
                       _mm512_shuffle_ps(pairs[0], pairs[1], 0xdd));
}

/* Lane i as bit i says. */
static inline vec_mask vec_mask_of_bits(uint64_t bits) {
  return (vec_mask)(bits & 0xffffu);
}
/* Cuts x into `parts` (2, 4, else 1) equal pieces and stores piece i at p + i * stride. */
static inline void vec_store_parts(float *p, size_t stride, int parts, vec x) {
  if (parts <= 1) {
    _mm512_storeu_ps(p, x);
  } else if (parts == 2) {
    _mm256_storeu_ps(p, _mm512_castps512_ps256(x));
    _mm256_storeu_ps(p + stride, _mm512_extractf32x8_ps(x, 1));
  } else {
    _mm_storeu_ps(p, _mm512_castps512_ps128(x));
    _mm_storeu_ps(p + stride, _mm512_extractf32x4_ps(x, 1));
    _mm_storeu_ps(p + 2 * stride, _mm512_extractf32x4_ps(x, 2));
    _mm_storeu_ps(p + 3 * stride, _mm512_extractf32x4_ps(x, 3));
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
static inline void vec_transpose(vec rows[16]) {
  __m512d pairs[16]; /* rows 4g..4g+3: columns 0, 1, 2, 3 of each quarter */
  for (int g = 0; g < 16; g += 4) {
    const __m512d low01 = _mm512_castps_pd(_mm512_unpacklo_ps(rows[g], rows[g + 1]));
    const __m512d high01 = _mm512_castps_pd(_mm512_unpackhi_ps(rows[g], rows[g + 1]));
    const __m512d low23 = _mm512_castps_pd(_mm512_unpacklo_ps(rows[g + 2], rows[g + 3]));
    const __m512d high23 = _mm512_castps_pd(_mm512_unpackhi_ps(rows[g + 2], rows[g + 3]));
    pairs[g] = _mm512_unpacklo_pd(low01, low23);
    pairs[g + 1] = _mm512_unpackhi_pd(low01, low23);
    pairs[g + 2] = _mm512_unpacklo_pd(high01, high23);
    pairs[g + 3] = _mm512_unpackhi_pd(high01, high23);
  }
  for (int i = 0; i < 4; ++i) {
    const vec a = _mm512_castpd_ps(pairs[i]);
    const vec b = _mm512_castpd_ps(pairs[i + 4]);
    const vec c = _mm512_castpd_ps(pairs[i + 8]);
    const vec d = _mm512_castpd_ps(pairs[i + 12]);
    const vec even_ab = _mm512_shuffle_f32x4(a, b, 0x88);
    const vec odd_ab = _mm512_shuffle_f32x4(a, b, 0xdd);
    const vec even_cd = _mm512_shuffle_f32x4(c, d, 0x88);
    const vec odd_cd = _mm512_shuffle_f32x4(c, d, 0xdd);
    rows[i] = _mm512_shuffle_f32x4(even_ab, even_cd, 0x88);
    rows[i + 4] = _mm512_shuffle_f32x4(odd_ab, odd_cd, 0x88);
    rows[i + 8] = _mm512_shuffle_f32x4(even_ab, even_cd, 0xdd);
    rows[i + 12] = _mm512_shuffle_f32x4(odd_ab, odd_cd, 0xdd);
  }
}

#endif
