#include "checked.h"

bool quire_add_i64(int64_t a, int64_t b, int64_t *out) {
  if ((b > 0 && a > INT64_MAX - b) || (b < 0 && a < INT64_MIN - b)) {
    return false;
  }
  *out = a + b;
  return true;
}

bool quire_sub_i64(int64_t a, int64_t b, int64_t *out) {
  if ((b < 0 && a > INT64_MAX + b) || (b > 0 && a < INT64_MIN + b)) {
    return false;
  }
  *out = a - b;
  return true;
}

bool quire_mul_i64(int64_t a, int64_t b, int64_t *out) {
  if (a != 0 && b != 0) {
    bool overflow = false;
    if (a > 0) {
      overflow = b > 0 ? a > INT64_MAX / b : b < INT64_MIN / a;
    } else {
      overflow = b > 0 ? a < INT64_MIN / b : b < INT64_MAX / a;
    }
    if (overflow) {
      return false;
    }
  }
  *out = a * b;
  return true;
}

bool quire_add_size(size_t a, size_t b, size_t *out) {
  if (a > SIZE_MAX - b) {
    return false;
  }
  *out = a + b;
  return true;
}

bool quire_mul_size(size_t a, size_t b, size_t *out) {
  if (a != 0 && b > SIZE_MAX / a) {
    return false;
  }
  *out = a * b;
  return true;
}

bool quire_align_size(size_t size, size_t alignment, size_t *out) {
  size_t sum = 0;
  if (!quire_add_size(size, alignment - 1, &sum)) {
    return false;
  }
  *out = sum & ~(alignment - 1);
  return true;
}

bool quire_count_elements(const int64_t *shape, size_t count, int64_t *out) {
  for (size_t i = 0; i < count; i++) {
    if (shape[i] == 0) {
      *out = 0;
      return true;
    }
  }
  int64_t product = 1;
  for (size_t i = 0; i < count; i++) {
    if (!quire_mul_i64(product, shape[i], &product)) {
      return false;
    }
  }
  *out = product;
  return true;
}
