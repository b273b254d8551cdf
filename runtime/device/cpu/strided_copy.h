/* Copies between tensors of one shape and different strides, in pieces that any thread may take. */
#ifndef QUIRE_DEVICE_STRIDED_COPY_H
#define QUIRE_DEVICE_STRIDED_COPY_H

#include <stdint.h>

#include "backend.h"

/* Rows of `row_bytes` that are contiguous on both sides, counted by up to 8 outer axes. */
typedef struct quire_strided_copy {
  int32_t axes;
  int64_t shape[QUIRE_MAX_RANK];
  int64_t from_stride[QUIRE_MAX_RANK]; /* bytes */
  int64_t to_stride[QUIRE_MAX_RANK];
  int64_t row_bytes;
  int64_t bytes; /* of all elements */
} quire_strided_copy;

/* The forms have equal dtypes and shapes and are measured. */
void quire_strided_copy_init(quire_strided_copy *copy, const quire_form *from,
                             const quire_form *to);

/* Copies bytes [first, last) of the elements in row-major order. The tensors do not overlap. */
void quire_strided_copy_range(const quire_strided_copy *copy, const void *from, void *to,
                              int64_t first, int64_t last);

#endif
