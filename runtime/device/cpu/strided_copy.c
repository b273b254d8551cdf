#include "strided_copy.h"

#include <string.h>

#include "quire/tensor.h"

/* Puts an axis outside those that are there, joining it with the outermost if it continues it. */
static void add_axis(quire_strided_copy *copy, int64_t count, int64_t from, int64_t to) {
  if (copy->axes == 0 && from == copy->row_bytes && to == copy->row_bytes) {
    copy->row_bytes *= count;
    return;
  }
  if (copy->axes > 0) {
    int32_t inner = 0; /* axes are kept outermost first: the new one goes to the front */
    if (from == copy->from_stride[inner] * copy->shape[inner] &&
        to == copy->to_stride[inner] * copy->shape[inner]) {
      copy->shape[inner] *= count;
      return;
    }
  }
  for (int32_t i = copy->axes; i > 0; i--) {
    copy->shape[i] = copy->shape[i - 1];
    copy->from_stride[i] = copy->from_stride[i - 1];
    copy->to_stride[i] = copy->to_stride[i - 1];
  }
  copy->shape[0] = count;
  copy->from_stride[0] = from;
  copy->to_stride[0] = to;
  copy->axes++;
}

void quire_strided_copy_init(quire_strided_copy *copy, const quire_form *from,
                             const quire_form *to) {
  int64_t size = (int64_t)quire_dtype_size(from->dtype);
  memset(copy, 0, sizeof(*copy));
  copy->bytes = from->elements * size;
  copy->row_bytes = size;
  if (copy->bytes == 0) {
    return;
  }
  for (int32_t i = from->ndim - 1; i >= 0; i--) {
    if (from->shape[i] > 1) {
      add_axis(copy, from->shape[i], from->strides[i] * size, to->strides[i] * size);
    }
  }
}

void quire_strided_copy_range(const quire_strided_copy *copy, const void *from, void *to,
                              int64_t first, int64_t last) {
  int64_t at[QUIRE_MAX_RANK] = {0};
  int64_t row = first / copy->row_bytes;
  int64_t skip = first % copy->row_bytes;
  int64_t from_row = 0;
  int64_t to_row = 0;
  for (int32_t i = copy->axes - 1; i >= 0; i--) {
    at[i] = row % copy->shape[i];
    row /= copy->shape[i];
    from_row += at[i] * copy->from_stride[i];
    to_row += at[i] * copy->to_stride[i];
  }
  while (first < last) {
    int64_t rest = copy->row_bytes - skip;
    int64_t count = last - first < rest ? last - first : rest;
    memcpy((char *)to + to_row + skip, (const char *)from + from_row + skip, (size_t)count);
    first += count;
    skip = 0;
    for (int32_t i = copy->axes - 1; i >= 0; i--) { /* the next row, as an odometer counts */
      from_row += copy->from_stride[i];
      to_row += copy->to_stride[i];
      if (++at[i] < copy->shape[i]) {
        break;
      }
      from_row -= copy->from_stride[i] * copy->shape[i];
      to_row -= copy->to_stride[i] * copy->shape[i];
      at[i] = 0;
    }
  }
}
