#include "compare.h"

#include <math.h>
#include <string.h>

static double half_value(uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const int fraction = bits & 1023;
  const double sign = bits & 0x8000 ? -1.0 : 1.0;
  if (exponent == 31) {
    return fraction ? (double)NAN : sign * (double)INFINITY;
  }
  return sign * (exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24));
}

static double brain_value(uint16_t bits) {
  const uint32_t wide = (uint32_t)bits << 16;
  float value = 0;
  memcpy(&value, &wide, sizeof value);
  return (double)value;
}

double quire_compare_element(quire_dtype dtype, const void *data, size_t index) {
  switch (dtype) {
    case QUIRE_FLOAT32:
      return (double)((const float *)data)[index];
    case QUIRE_FLOAT16:
      return half_value(((const uint16_t *)data)[index]);
    case QUIRE_BFLOAT16:
      return brain_value(((const uint16_t *)data)[index]);
    case QUIRE_FLOAT64:
      return ((const double *)data)[index];
    case QUIRE_INT8:
      return ((const int8_t *)data)[index];
    case QUIRE_INT16:
      return ((const int16_t *)data)[index];
    case QUIRE_INT32:
      return ((const int32_t *)data)[index];
    case QUIRE_INT64:
      return (double)((const int64_t *)data)[index];
    case QUIRE_UINT8:
    case QUIRE_BOOL:
      return ((const uint8_t *)data)[index];
    case QUIRE_UINT16:
      return ((const uint16_t *)data)[index];
    case QUIRE_UINT32:
      return ((const uint32_t *)data)[index];
    case QUIRE_UINT64:
      return (double)((const uint64_t *)data)[index];
    case QUIRE_DTYPE_NONE:
    case QUIRE_DTYPE_COUNT:
      break;
  }
  return (double)NAN;
}

/* The filling of one element; the leading bytes make a NaN of every floating type. */
static size_t filling(quire_dtype dtype, unsigned char pattern[8]) {
  const size_t size = quire_dtype_size(dtype);
  memset(pattern, 0xa5, 8);
  const uint16_t one = 1;
  const int is_little = *(const unsigned char *)&one == 1;
  const size_t top = is_little ? size - 1 : 0;
  const size_t next = is_little ? size - 2 : 1;
  if (dtype == QUIRE_FLOAT32 || dtype == QUIRE_FLOAT16 || dtype == QUIRE_BFLOAT16 ||
      dtype == QUIRE_FLOAT64) {
    pattern[top] = 0xff;
    pattern[next] = 0xfa; /* also sets the quiet bit of float32 and bfloat16 */
  }
  return size;
}

void quire_compare_fill(quire_dtype dtype, void *data, size_t bytes) {
  unsigned char pattern[8];
  const size_t size = filling(dtype, pattern);
  for (size_t i = 0; size > 0 && i + size <= bytes; i += size) {
    memcpy((unsigned char *)data + i, pattern, size);
  }
}

static int holds_filling(quire_dtype dtype, const void *data, size_t index) {
  unsigned char pattern[8];
  const size_t size = filling(dtype, pattern);
  return !memcmp((const unsigned char *)data + index * size, pattern, size);
}

int quire_compare_is_filled(quire_dtype dtype, const void *data, size_t bytes) {
  const size_t size = quire_dtype_size(dtype);
  for (size_t i = 0; size > 0 && i < bytes / size; ++i) {
    if (!holds_filling(dtype, data, i)) {
      return 0;
    }
  }
  return 1;
}

quire_tolerance quire_compare_widen(quire_tolerance tolerance, quire_dtype dtype) {
  if (tolerance.absolute == 0 && tolerance.relative == 0) {
    return tolerance; /* a copy is a copy on every device */
  }
  tolerance.absolute *= 20;
  if (dtype == QUIRE_FLOAT32) {
    tolerance.relative = 1e-4;
  }
  return tolerance;
}

/* Error as a share of what is allowed: at most 1 if the element is good. */
static double error_share(double got, double want, const quire_tolerance *tolerance) {
  if (isnan(got) || isnan(want)) {
    return isnan(got) && isnan(want) ? 0 : (double)INFINITY;
  }
  if (isinf(got) || isinf(want)) {
    return got == want ? 0 : (double)INFINITY;
  }
  const double difference = fabs(got - want);
  const double allowed = tolerance->absolute + tolerance->relative * fabs(want);
  if (difference <= allowed) {
    return allowed > 0 ? difference / allowed : 0;
  }
  /* Never 1 or less by rounding; nothing allowed counts as infinitely wrong but ranks below NaN. */
  const double share = allowed > 0 ? difference / allowed : 1e300;
  return share > 1 ? share : nextafter(1, 2);
}

void quire_compare(quire_dtype dtype, size_t count, const void *got, const void *want,
                   const quire_tolerance *tolerance, quire_comparison *result) {
  const size_t size = quire_dtype_size(dtype);
  const int wants_bits = tolerance->absolute == 0 && tolerance->relative == 0;
  *result = (quire_comparison){.count = count, .worst = count};
  double worst = -1;
  for (size_t i = 0; i < count; ++i) {
    const int is_identical = !memcmp((const unsigned char *)got + i * size,
                                     (const unsigned char *)want + i * size, size);
    const double got_value = quire_compare_element(dtype, got, i);
    const double want_value = quire_compare_element(dtype, want, i);
    double share = is_identical ? 0 : error_share(got_value, want_value, tolerance);
    if (!is_identical && holds_filling(dtype, got, i)) {
      share = (double)INFINITY;
      result->unwritten += 1;
    } else if (!is_identical && wants_bits && share <= 1) {
      share = 1e300; /* -0 for 0, or another NaN */
    }
    result->identical += is_identical ? 1 : 0;
    result->wrong += share > 1 ? 1 : 0;
    if (share > worst) {
      worst = share;
      result->worst = i;
      result->got = got_value;
      result->want = want_value;
      result->share = share;
    }
  }
}
