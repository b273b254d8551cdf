#include "numeric.h"

#include <math.h>
#include <string.h>

#include "float_bits.h"

float quire_f16_to_f32(uint16_t bits) {
  const uint32_t sign = (uint32_t)(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fu;
  const uint32_t fraction = bits & 0x3ffu;
  if (exponent == 0x1fu) {
    /* Infinity; a NaN becomes quiet and keeps its payload. */
    const uint32_t quiet = fraction != 0 ? 0x00400000u : 0u;
    return quire_float_of_bits(sign | 0x7f800000u | quiet | (fraction << 13));
  }
  if (exponent == 0) {
    /* Zero and subnormals: fraction * 2^-24, exact in f32. */
    const float magnitude = (float)fraction * 0x1p-24f;
    return quire_float_of_bits(sign | quire_float_bits(magnitude));
  }
  return quire_float_of_bits(sign | ((exponent + 112u) << 23) | (fraction << 13));
}

/* Drops `shift` low bits, rounding to nearest even. */
static uint32_t round_shift(uint32_t value, uint32_t shift) {
  const uint32_t half = 1u << (shift - 1);
  const uint32_t odd = (value >> shift) & 1u;
  return (value + (half - 1u) + odd) >> shift;
}

uint16_t quire_f32_to_f16(float value) {
  const uint32_t bits = quire_float_bits(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {
    return (uint16_t)(sign | 0x7e00u | ((magnitude >> 13) & 0x1ffu));
  }
  if (magnitude >= 0x47800000u) { /* 2^16 and above */
    return (uint16_t)(sign | 0x7c00u);
  }
  if (magnitude >= 0x38800000u) { /* 2^-14 and above: a carry may reach infinity, as it should */
    return (uint16_t)(sign | round_shift(magnitude - 0x38000000u, 13));
  }
  if (magnitude < 0x33000000u) { /* below half of the least subnormal, 2^-25 */
    return (uint16_t)sign;
  }
  /* Subnormal: the 24-bit significand in units of 2^-24. */
  const uint32_t exponent = magnitude >> 23;
  const uint32_t significand = (magnitude & 0x7fffffu) | 0x800000u;
  return (uint16_t)(sign | round_shift(significand, 126u - exponent));
}

float quire_bf16_to_f32(uint16_t bits) {
  return quire_float_of_bits((uint32_t)bits << 16);
}

uint16_t quire_f32_to_bf16(float value) {
  const uint32_t bits = quire_float_bits(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) {
    return (uint16_t)((bits >> 16) | 0x40u);
  }
  return (uint16_t)((bits & 0x80000000u) >> 16 | round_shift(bits & 0x7fffffffu, 16));
}

void quire_widen_row(quire_dtype dtype, const void *row, size_t n, float *out) {
  if (dtype == QUIRE_FLOAT32) {
    if (n != 0) {
      memcpy(out, row, n * sizeof(float));
    }
  } else if (dtype == QUIRE_FLOAT16) {
    const uint16_t *values = row;
    for (size_t i = 0; i < n; ++i) {
      out[i] = quire_f16_to_f32(values[i]);
    }
  } else if (dtype == QUIRE_BFLOAT16) {
    const uint16_t *values = row;
    for (size_t i = 0; i < n; ++i) {
      out[i] = quire_bf16_to_f32(values[i]);
    }
  } else if (dtype == QUIRE_INT8) {
    const int8_t *values = row;
    for (size_t i = 0; i < n; ++i) {
      out[i] = (float)values[i];
    }
  }
}

float quire_load_f32(quire_dtype dtype, const void *row, int64_t index) {
  float value = NAN;
  const char *element = (const char *)row + index * (int64_t)quire_dtype_size(dtype);
  quire_widen_row(dtype, element, 1, &value);
  return value;
}

void quire_narrow_row(quire_dtype dtype, const float *values, size_t n, void *row) {
  if (dtype == QUIRE_FLOAT32) {
    if (n != 0) {
      memcpy(row, values, n * sizeof(float));
    }
  } else if (dtype == QUIRE_FLOAT16) {
    uint16_t *out = row;
    for (size_t i = 0; i < n; ++i) {
      out[i] = quire_f32_to_f16(values[i]);
    }
  } else if (dtype == QUIRE_BFLOAT16) {
    uint16_t *out = row;
    for (size_t i = 0; i < n; ++i) {
      out[i] = quire_f32_to_bf16(values[i]);
    }
  }
}

float quire_lane_tree(const float lanes[16]) {
  float sums[8];
  for (size_t i = 0; i < 8; ++i) {
    sums[i] = lanes[i] + lanes[i + 8];
  }
  for (size_t i = 0; i < 4; ++i) {
    sums[i] = sums[i] + sums[i + 4];
  }
  return (sums[0] + sums[2]) + (sums[1] + sums[3]);
}

float quire_dot(const float *a, const float *b, size_t n) {
  float lanes[16] = {0.0f};
  size_t i = 0;
  for (; i + 16 <= n; i += 16) {
    for (size_t lane = 0; lane < 16; ++lane) {
      lanes[lane] = fmaf(a[i + lane], b[i + lane], lanes[lane]);
    }
  }
  for (size_t lane = 0; i + lane < n; ++lane) {
    lanes[lane] = fmaf(a[i + lane], b[i + lane], lanes[lane]);
  }
  return quire_lane_tree(lanes);
}

/* exp(m - maximum), where a state without weight has m = -inf and must not give -inf - -inf. */
static float state_weight(float state_maximum, float maximum) {
  return state_maximum == -INFINITY ? 0.0f : quire_exp(state_maximum - maximum);
}

void quire_softmax_merge(quire_softmax_state *a, float *accumulator_a, const quire_softmax_state *b,
                         const float *accumulator_b, size_t n) {
  const float maximum = b->maximum > a->maximum ? b->maximum : a->maximum;
  const float weight_a = state_weight(a->maximum, maximum);
  const float weight_b = state_weight(b->maximum, maximum);
  for (size_t i = 0; i < n; ++i) {
    const float value_b = accumulator_b != NULL ? accumulator_b[i] : 0.0f;
    accumulator_a[i] = fmaf(value_b, weight_b, accumulator_a[i] * weight_a);
  }
  a->sum = fmaf(b->sum, weight_b, a->sum * weight_a);
  a->maximum = maximum;
}
