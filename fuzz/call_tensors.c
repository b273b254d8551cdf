#include "call_tensors.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "numeric.h"

int take(source *from, int count) {
  if (from->left == 0) {
    return 0;
  }
  from->left--;
  return *from->data++ % count;
}

int32_t take_integer(source *from) {
  const int kind = take(from, 256);
  if (kind < 240) {
    return (kind + 1) % 12 - 1;
  }
  static const int32_t corners[] = {INT32_MIN, INT32_MAX, -2, 1 << 30, 65536, 255};
  if (kind < 252) {
    return corners[kind % 6];
  }
  uint32_t bits = 0;
  for (int i = 0; i < 4; i++) {
    bits = bits << 8 | (uint32_t)take(from, 256);
  }
  return (int32_t)bits;
}

quire_tensor make(memory *m, quire_dtype dtype, int rank, int64_t a, int64_t b, int64_t c,
                  int64_t d) {
  const int i = m->count++;
  const int64_t shape[] = {a, b, c, d, 1};
  memcpy(m->shapes[i], shape, sizeof shape);
  quire_tensor tensor = {NULL, 0, dtype, rank, m->shapes[i], NULL};
  const size_t bytes = count_of(&tensor) * quire_dtype_size(dtype);
  m->blocks[i] = malloc(bytes + (bytes == 0));
  if (m->blocks[i] == NULL) {
    abort();
  }
  memset(m->blocks[i], 0, bytes);
  tensor.data = m->blocks[i];
  return tensor;
}

size_t count_of(const quire_tensor *tensor) {
  size_t elements = 1;
  for (int i = 0; i < tensor->ndim; i++) {
    elements *= (size_t)tensor->shape[i];
  }
  return elements;
}

/* Int8 elements are steps of 1/127. */
static void store(const quire_tensor *tensor, size_t index, float value) {
  if (tensor->dtype == QUIRE_INT8) {
    ((int8_t *)tensor->data)[index] = (int8_t)(value > 1 ? 127 : (int)(value * 127));
  } else {
    char *at = (char *)tensor->data + index * quire_dtype_size(tensor->dtype);
    quire_narrow_row(tensor->dtype, &value, 1, at);
  }
}

quire_tensor make_floats(memory *m, quire_dtype dtype, int rank, int64_t a, int64_t b, int64_t c,
                         int64_t d) {
  quire_tensor tensor = make(m, dtype, rank, a, b, c, d);
  for (size_t i = 0; i < count_of(&tensor); i++) {
    store(&tensor, i, (float)((int)(i * 7 % 31) - 15) / 15);
  }
  return tensor;
}

quire_tensor make_integers(memory *m, source *from, int rank, int64_t a, int64_t b, int32_t step) {
  quire_tensor tensor = make(m, QUIRE_INT32, rank, a, b, 1, 1);
  int32_t *values = tensor.data;
  for (size_t i = 0; i < count_of(&tensor); i++) {
    const int32_t value = take_integer(from);
    values[i] = value > 0 && value < 12 ? value * step : value;
  }
  return tensor;
}

quire_tensor make_offsets(memory *m, source *from, int64_t sequences, int64_t tokens) {
  quire_tensor tensor = make(m, QUIRE_INT32, 1, sequences + 1, 1, 1, 1);
  int32_t *values = tensor.data;
  int32_t sum = 0;
  for (int64_t i = 1; i < sequences; i++) {
    sum += take(from, (int)(tokens - sum) + 1);
    values[i] = sum;
  }
  values[sequences] = (int32_t)tokens;
  if (take(from, 8) == 1) {
    values[take(from, (int)sequences + 1)] = take_integer(from);
  }
  return tensor;
}

void release(memory *m) {
  for (int i = 0; i < m->count; i++) {
    free(m->blocks[i]);
  }
}

void expect_small(const quire_tensor *tensor, size_t first, size_t last, float bound) {
  for (size_t i = first; i < last; i++) {
    if (!(fabsf(quire_load_f32(tensor->dtype, tensor->data, (int64_t)i)) <= bound)) {
      abort(); /* what another sequence owns */
    }
  }
}

void plant(quire_tensor *tensor, size_t slots, const int32_t *mapped, int64_t count) {
  const float secret = tensor->dtype == QUIRE_FLOAT16 ? 6e4F : 1e30F;
  const size_t stride = count_of(tensor) / slots;
  for (size_t slot = 0; slot < slots; slot++) {
    int own = 0;
    for (int64_t i = 0; i < count; i++) {
      own |= mapped[i] == (int32_t)slot;
    }
    for (size_t i = 0; i < stride && !own; i++) {
      store(tensor, slot * stride + i, secret);
    }
  }
}
