/* The bits of an f32. */
#ifndef QUIRE_KERNELS_FLOAT_BITS_H
#define QUIRE_KERNELS_FLOAT_BITS_H

#include <stdint.h>
#include <string.h>

static inline uint32_t quire_float_bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static inline float quire_float_of_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

#endif
