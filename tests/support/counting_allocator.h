/* What tests give the library in place of the C library's allocator. */
#ifndef QUIRE_TESTS_COUNTING_ALLOCATOR_H
#define QUIRE_TESTS_COUNTING_ALLOCATOR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "quire/context.h"

/* Counts requests and what is outstanding; request number fail_at fails (0: none does). */
typedef struct counting_allocator {
  quire_allocator allocator;
  atomic_size_t requests; /* so far */
  atomic_size_t live;     /* blocks that were not given back */
  atomic_size_t bytes;    /* of these */
  size_t fail_at;
  bool raw; /* memory stays as it comes, for tools that know what was never written */
} counting_allocator;

/* Fills what it gives with a pattern: nothing may rely on zeros that it did not ask for. */
void counting_allocator_init(counting_allocator *counting);

#endif
