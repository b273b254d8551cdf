/* Vectors from and to rows whose element type is known at run time only. */
#ifndef QUIRE_KERNELS_SIMD_ELEMENTS_H
#define QUIRE_KERNELS_SIMD_ELEMENTS_H

#include "quire/tensor.h"
#include "simd.h"

/* n <= VEC_LANES elements of f32, f16 or bf16, widened; the other lanes are 0. */
static inline vec vec_load_elements(quire_dtype dtype, const void *p, size_t n) {
  if (dtype == QUIRE_FLOAT16) {
    return vec_load_first_f16((const uint16_t *)p, n);
  }
  if (dtype == QUIRE_BFLOAT16) {
    return vec_load_first_bf16((const uint16_t *)p, n);
  }
  return n == VEC_LANES ? vec_load((const float *)p) : vec_load_first((const float *)p, n);
}

/* The first n lanes, rounded once. */
static inline void vec_store_elements(quire_dtype dtype, void *p, size_t n, vec x) {
  if (dtype == QUIRE_FLOAT16) {
    vec_store_first_f16((uint16_t *)p, n, x);
  } else if (dtype == QUIRE_BFLOAT16) {
    vec_store_first_bf16((uint16_t *)p, n, x);
  } else if (n == VEC_LANES) {
    vec_store((float *)p, x);
  } else {
    vec_store_first((float *)p, n, x);
  }
}

#endif
