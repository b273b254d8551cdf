/* Compares a computed tensor with the expected one, by the rules of docs/command-line.md. */
#ifndef QUIRE_TOOL_COMPARE_H
#define QUIRE_TOOL_COMPARE_H

#include <stddef.h>
#include <stdint.h>

#include "quire/tensor.h"

typedef struct quire_tolerance {
  double absolute, relative; /* both 0: the very bits */
} quire_tolerance;

typedef struct quire_comparison {
  size_t count;     /* elements */
  size_t wrong;     /* elements that differ by more than the tolerance */
  size_t unwritten; /* of these: elements that still hold the filling of the buffer */
  size_t identical; /* elements with the very bits of the expected ones */
  size_t worst;     /* index of the worst element, row-major; count if there is none */
  double got, want; /* its values */
  double share;     /* its error as a share of what is allowed; infinity for NaN and infinities */
} quire_comparison;

/*
 * Both tensors are dense, of `count` elements, aligned. NaN must stand where NaN is expected and
 * nowhere else, infinities must agree, elsewhere |got - want| <= absolute + relative * |want|.
 */
void quire_compare(quire_dtype dtype, size_t count, const void *got, const void *want,
                   const quire_tolerance *tolerance, quire_comparison *result);

/* The tolerance of a device that is not the CPU: 20 times the absolute one, float32 1e-4. */
quire_tolerance quire_compare_widen(quire_tolerance tolerance, quire_dtype dtype);

/* An element as a double. 64-bit integers beyond 2^53 are rounded. */
double quire_compare_element(quire_dtype dtype, const void *data, size_t index);

/* Fills memory with what no computation is likely to write: NaN with a fixed payload, or 0xA5. */
void quire_compare_fill(quire_dtype dtype, void *data, size_t bytes);

/* 1 if every element still holds the filling. */
int quire_compare_is_filled(quire_dtype dtype, const void *data, size_t bytes);

#endif
