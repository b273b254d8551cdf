/* The CPU device's own data. */
#ifndef QUIRE_DEVICE_CPU_DEVICE_H
#define QUIRE_DEVICE_CPU_DEVICE_H

#include "backend.h"
#include "pool.h"

typedef struct quire_cpu {
  quire_pool *pool; /* NULL: the options brought an executor */
  quire_executor executor;
  uint32_t features; /* QUIRE_CPU bits in use */
  const char *feature_names[QUIRE_CPU_FEATURE_COUNT];
  char model[64];
} quire_cpu;

#endif
