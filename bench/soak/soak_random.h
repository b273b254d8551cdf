/* Random numbers that are the same everywhere (splitmix64). */
#ifndef QUIRE_SOAK_RANDOM_H
#define QUIRE_SOAK_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

typedef struct soak_random {
  uint64_t state;
} soak_random;

static inline uint64_t soak_bits(soak_random *random) {
  uint64_t x = random->state += UINT64_C(0x9E3779B97F4A7C15);
  x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
  x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
  return x ^ x >> 31;
}

/* In [low, high]. */
static inline int64_t soak_between(soak_random *random, int64_t low, int64_t high) {
  return low + (int64_t)(soak_bits(random) % (uint64_t)(high - low + 1));
}

static inline bool soak_once_in(soak_random *random, int64_t n) {
  return soak_between(random, 1, n) == 1;
}

#endif
