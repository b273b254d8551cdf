/* Memory of benchmarks: on 2 MiB pages where the system offers them, filled with random numbers. */
#ifndef QUIRE_TOOL_BENCH_MEMORY_H
#define QUIRE_TOOL_BENCH_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include "quire/tensor.h"

/* Zeroed memory of the wanted bytes, aligned to 2 MiB; NULL if there is none. Give back with the
 * same size. */
void *quire_bench_memory_new(size_t wanted);
void quire_bench_memory_release(void *memory, size_t bytes);

/* What the system says about 2 MiB pages: "always", "madvise", "never", "unknown". */
const char *quire_bench_memory_pages(void);

/* A stream of random numbers; any start but 0 will do. */
typedef struct bench_random {
  uint64_t state;
} bench_random;

uint64_t quire_bench_random_next(bench_random *random);
/* Below `bound`, which is positive. */
int64_t quire_bench_random_below(bench_random *random, int64_t bound);
/* Roughly normal with the given deviation. */
float quire_bench_random_normal(bench_random *random, float deviation);

/* Fills `count` elements of a type with normal numbers (int8: whole numbers of the full range). */
void quire_bench_fill_normal(bench_random *random, quire_dtype dtype, void *data, size_t count,
                             float deviation);
/* Stores a number in a type, rounded to nearest even. */
void quire_bench_store(quire_dtype dtype, void *data, size_t index, float value);

#endif
