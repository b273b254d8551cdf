/*
 * Elementary functions as fixed sequences of f32 operations (NU-5). Every instruction set runs the
 * same sequence, so a vector kernel returns the bits of these functions. tests/kernels/common
 * measures their errors.
 */
#include <math.h>

#include "float_bits.h"
#include "numeric.h"

/* ln 2 in two parts; the first has trailing zeros, so n * LN2_HIGH is exact for |n| <= 2^10. */
#define LN2_HIGH 0x1.62e4p-1f
#define LN2_LOW 0x1.7f7d1cp-20f

/*
 * exp(x) = 2^n * exp(r), n = round(x / ln 2), r = x - n ln 2, exp(r) = 1 + (r + r^2 q(r)).
 * Adding 1.5 * 2^23 leaves n in the low bits of t, from where it becomes an exponent.
 */
float quire_exp(float x) {
  if (x < -87.3f) {
    return 0.0f;
  }
  if (x > 89.0f) {
    return INFINITY;
  }
  const float magic = 0x1.8p23f;
  const float t = fmaf(x, 0x1.715476p0f, magic);
  const float n = t - magic;
  float r = fmaf(-n, LN2_HIGH, x);
  r = fmaf(-n, LN2_LOW, r);
  float q = 0x1.6a24p-10f;
  q = fmaf(q, r, 0x1.123a02p-7f);
  q = fmaf(q, r, 0x1.5558f2p-5f);
  q = fmaf(q, r, 0x1.555492p-3f);
  q = fmaf(q, r, 0x1.fffffcp-2f);
  const float e = fmaf(r * r, q, r) + 1.0f;
  /* n = 128 has no exponent of its own: half the power, twice. */
  const uint32_t half = x > 80.0f ? 1u : 0u;
  const float power = quire_float_of_bits((quire_float_bits(t) + 127u - half) << 23);
  const float scaled = e * power;
  return half != 0 ? scaled * 2.0f : scaled;
}

/*
 * k ln 2 + ln(1 + f) + correction for 1 + f in [sqrt(1/2), sqrt(2)], with s = f / (2 + f):
 * ln(1 + f) = 2 atanh(s) = f - (f^2/2 - s (f^2/2 + R)), R = s^2 (2/3 + 2/5 s^2 + ...): the
 * arrangement of FDLIBM's e_log.c, which keeps f exact.
 */
static float log_reduced(float f, float k, float correction) {
  const float s = f / (2.0f + f);
  const float z = s * s;
  float p = 0x1.c71c72p-3f;       /* 2/9 */
  p = fmaf(p, z, 0x1.24924ap-2f); /* 2/7 */
  p = fmaf(p, z, 0x1.99999ap-2f); /* 2/5 */
  p = fmaf(p, z, 0x1.555556p-1f); /* 2/3 */
  const float half = 0.5f * f;
  const float low = fmaf(s, fmaf(z, p, half * f), fmaf(k, LN2_LOW, correction));
  return fmaf(k, LN2_HIGH, f - fmaf(half, f, -low));
}

/* Splits a positive normal x = 2^k * m, m in [sqrt(1/2), sqrt(2)). */
static float split_exponent(float x, float *k) {
  const uint32_t root_half = 0x3f3504f3u;
  const uint32_t shifted = quire_float_bits(x) - root_half;
  const int32_t exponent = (int32_t)shifted >> 23;
  *k = (float)exponent;
  return quire_float_of_bits((shifted & 0x7fffffu) + root_half);
}

float quire_log(float x) {
  if (!(x > 0.0f) || x == INFINITY) {
    if (x == 0.0f) {
      return -INFINITY;
    }
    return x < 0.0f ? NAN : x;
  }
  float k_subnormal = 0.0f;
  if (x < 0x1p-126f) {
    x *= 0x1p25f;
    k_subnormal = -25.0f;
  }
  float k;
  const float m = split_exponent(x, &k);
  return log_reduced(m - 1.0f, k + k_subnormal, 0.0f);
}

float quire_log1p(float x) {
  if (x > -0.25f && x < 0.40625f) {
    return x == 0.0f ? x : log_reduced(x, 0.0f, 0.0f);
  }
  if (!(x > -1.0f) || x == INFINITY) {
    if (x == -1.0f) {
      return -INFINITY;
    }
    return x < -1.0f ? NAN : x;
  }
  /* u = 1 + x rounded; what was lost comes back as (lost / u) to first order. */
  const float u = 1.0f + x;
  const float lost = x >= 1.0f ? 1.0f - (u - x) : x - (u - 1.0f);
  float k;
  const float m = split_exponent(u, &k);
  return log_reduced(m - 1.0f, k, lost / u);
}

/* Below 9/16 an odd polynomial (Chebyshev fit of (tanh(x) / x - 1) / x^2), above by exp(-2|x|). */
float quire_tanh(float x) {
  const float magnitude = fabsf(x);
  if (magnitude < 0.5625f) {
    const float z = x * x;
    float p = 0x1.4414cep-9f;
    p = fmaf(p, z, -0x1.16275cp-7f);
    p = fmaf(p, z, 0x1.6552dap-6f);
    p = fmaf(p, z, -0x1.ba1250p-5f);
    p = fmaf(p, z, 0x1.1111p-3f);
    p = fmaf(p, z, -0x1.555556p-2f);
    return copysignf(fmaf(magnitude, z * p, magnitude), x);
  }
  const float e = quire_exp(-2.0f * magnitude);
  const float result = 1.0f - (e + e) / (1.0f + e);
  return copysignf(result, x);
}

float quire_sigmoid(float x) {
  const float e = quire_exp(-fabsf(x));
  return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

float quire_softplus(float x) {
  const float positive = x > 0.0f ? x : 0.0f;
  return positive + quire_log1p(quire_exp(-fabsf(x)));
}
