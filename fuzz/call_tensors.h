/*
 * Tensors for calls with arbitrary integers: each in memory of its exact size, so that
 * AddressSanitizer sees every step outside; numbers in [-1, 1], integers as the bytes say.
 */
#ifndef QUIRE_FUZZ_CALL_TENSORS_H
#define QUIRE_FUZZ_CALL_TENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "quire/quire.h"

/* What the bytes say; zeros when they are used up. */
typedef struct source {
  const uint8_t *data;
  size_t left;
} source;

int take(source *from, int count);
/* Mostly an index that may be right, sometimes anything. */
int32_t take_integer(source *from);

enum { TENSORS = 24 };

typedef struct memory {
  void *blocks[TENSORS];
  int64_t shapes[TENSORS][5];
  int count;
} memory;

/* Zeros. */
quire_tensor make(memory *m, quire_dtype dtype, int rank, int64_t a, int64_t b, int64_t c,
                  int64_t d);
quire_tensor make_floats(memory *m, quire_dtype dtype, int rank, int64_t a, int64_t b, int64_t c,
                         int64_t d);
/* Integers of take_integer(), some of them times `step`. */
quire_tensor make_integers(memory *m, source *from, int rank, int64_t a, int64_t b, int32_t step);
/* Prefix sums of small counts, now and then broken: what checks let through must be reached. */
quire_tensor make_offsets(memory *m, source *from, int64_t sequences, int64_t tokens);
void release(memory *m);

size_t count_of(const quire_tensor *tensor);
/* Writes a secret into the slots, of the first dimension or of `slots`, that `mapped` names not. */
void plant(quire_tensor *tensor, size_t slots, const int32_t *mapped, int64_t count);
/* Aborts where an element of [first, last) is no number of at most `bound`. */
void expect_small(const quire_tensor *tensor, size_t first, size_t last, float bound);

#endif
