/* Element types as WebGPU buffers hold them (LANGUAGE.md 3.2), and as host memory does. */
#include <string.h>

#include "checked.h"
#include "planning.h"

const char *quire_wgsl_scalar(quire_dtype dtype) {
  switch (dtype) {
    case QUIRE_FLOAT32:
      return "f32";
    case QUIRE_FLOAT16:
      return "f16";
    case QUIRE_INT8:
    case QUIRE_INT16:
    case QUIRE_INT32:
      return "i32";
    case QUIRE_UINT8:
    case QUIRE_UINT16:
    case QUIRE_UINT32:
    case QUIRE_BOOL:
      return "u32";
    case QUIRE_INT64:
    case QUIRE_UINT64:
      return "vec2<u32>";
    default:
      return NULL;
  }
}

static bool is_packed(quire_dtype dtype, bool packed8) {
  return packed8 && (dtype == QUIRE_INT8 || dtype == QUIRE_UINT8);
}

const char *quire_wgsl_element(quire_dtype dtype, bool packed8) {
  if (is_packed(dtype, packed8) || dtype == QUIRE_BFLOAT16) {
    return "u32";
  }
  return quire_wgsl_scalar(dtype);
}

static const char *const elements[] = {
    "f32",       "f16",       "i32",       "u32",       "vec2<f32>", "vec2<f16>",   "vec2<i32>",
    "vec2<u32>", "vec4<f32>", "vec4<f16>", "vec4<i32>", "vec4<u32>", "atomic<u32>", "atomic<i32>",
};

const char *quire_wgsl_find_element(const char *text, size_t length) {
  for (size_t i = 0; i < sizeof elements / sizeof *elements; i++) {
    if (strlen(elements[i]) == length && memcmp(elements[i], text, length) == 0) {
      return elements[i];
    }
  }
  return NULL;
}

bool quire_natural_bytes(quire_dtype dtype, int64_t count, int64_t *bytes) {
  return quire_mul_i64(count, (int64_t)quire_dtype_size(dtype), bytes);
}

bool quire_wgsl_bytes(quire_dtype dtype, bool packed8, int64_t count, int64_t *bytes) {
  if (is_packed(dtype, packed8)) {
    int64_t padded = 0;
    if (!quire_add_i64(count, 3, &padded)) {
      return false;
    }
    *bytes = padded / 4 * 4;
    return true;
  }
  int64_t size = (int64_t)quire_dtype_size(dtype);
  bool narrow = size < 4 && dtype != QUIRE_FLOAT16 && dtype != QUIRE_BFLOAT16;
  return quire_mul_i64(count, narrow ? 4 : size, bytes);
}
