#include "differential_call.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "numeric.h"

enum { CANARY = 0xA5, SPARSE_BYTES = 1 << 28 };

static const uint8_t *chosen;
static size_t chosen_count;

void diff_choose_by(const uint8_t *choices, size_t count) {
  chosen = choices;
  chosen_count = count;
}

uint64_t diff_next(diff_random *random) {
  uint64_t x = random->state += UINT64_C(0x9E3779B97F4A7C15);
  x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
  x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
  return x ^ x >> 31;
}

int64_t diff_between(diff_random *random, int64_t low, int64_t high) {
  const uint64_t count = (uint64_t)(high - low + 1);
  const size_t bytes = count > 256 ? 2 : 1;
  if (random->choices_left < bytes) {
    return low + (int64_t)(diff_next(random) % count);
  }
  uint64_t choice = 0;
  for (size_t i = 0; i < bytes; ++i, --random->choices_left) {
    choice = choice << 8 | *random->choices++;
  }
  return low + (int64_t)(choice % count);
}

bool diff_once_in(diff_random *random, int64_t n) {
  return diff_between(random, 1, n) == 1;
}

int64_t diff_pick(diff_random *random, const int64_t *choices, int64_t count) {
  return choices[diff_between(random, 0, count - 1)];
}

float diff_normal(diff_random *random) {
  const uint64_t bits = diff_next(random);
  float sum = 0;
  for (int i = 0; i < 4; ++i) {
    sum += (float)(bits >> (16 * i) & 0xffff) * 0x1p-16f - 0.5f;
  }
  return sum * 1.7320508f;
}

void diff_call_begin(diff_call *call, const char *op, uint64_t seed) {
  *call = (diff_call){.op = op, .seed = seed, .random = {seed, chosen, chosen_count}};
  diff_say(call, "%s seed %llu:", op, (unsigned long long)seed);
}

void diff_call_release(diff_call *call) {
  for (int i = 0; i < call->tensor_count; ++i) {
    diff_tensor *one = &call->tensors[i];
    for (int k = 0; k < one->extent_count; ++k) {
      free(one->extents[k].pristine);
      free(one->extents[k].expected);
    }
    if (one->mapping) {
      (void)munmap(one->mapping, one->mapped);
    }
  }
  *call = (diff_call){0};
}

void diff_say(diff_call *call, const char *format, ...) {
  const size_t length = strlen(call->text);
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(call->text + length, sizeof call->text - length, format, arguments);
  va_end(arguments);
}

/* The bytes in use end where the forbidden page begins; its start need not be aligned. */
static unsigned char *map(diff_tensor *one, size_t bytes) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  const size_t whole = (bytes + page - 1) / page * page;
  one->mapped = whole + 2 * page;
  void *memory = mmap(NULL, one->mapped, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    fail_msg("no memory for %zu bytes of %s", bytes, one->name);
  }
  one->mapping = memory;
  if (mprotect(one->mapping, page, PROT_NONE) != 0 ||
      mprotect(one->mapping + page + whole, page, PROT_NONE) != 0) {
    fail_msg("no guard pages for %s", one->name);
  }
  return one->mapping + page + whole - bytes;
}

/* NaN in every float type, whatever the alignment of the elements; integers: far out of range. */
static void poison(quire_dtype dtype, unsigned char *start, size_t bytes) {
  if (dtype == QUIRE_INT32) {
    for (size_t i = 0; i + 4 <= bytes; i += 4) {
      const int32_t large = 0x3fffffff;
      memcpy(start + i, &large, sizeof large);
    }
  } else {
    memset(start, dtype == QUIRE_INT8 ? 0x7f : 0xff, bytes);
  }
}

static void add_extent(diff_tensor *one, unsigned char *start, size_t bytes) {
  if (one->extent_count == DIFF_MOST_EXTENTS) {
    fail_msg("too many extents");
  }
  poison(one->tensor.dtype, start, bytes);
  one->extents[one->extent_count++] = (diff_extent){.start = start, .bytes = bytes};
}

/* One extent, from the first whole page on; or one for each slice of the first dimension. */
static void add_extents(diff_tensor *one, unsigned char *data, size_t bytes, size_t slice_bytes) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  if (bytes < SPARSE_BYTES) {
    unsigned char *begin = one->mapping + page;
    memset(begin, CANARY, (size_t)(data - begin));
    add_extent(one, data, bytes);
    one->extents[0].start = begin;
    one->extents[0].bytes = (size_t)(data - begin) + bytes;
    return;
  }
  const size_t step = (size_t)one->strides[0] * quire_dtype_size(one->tensor.dtype);
  for (int64_t i = 0; i < one->shape[0]; ++i) {
    add_extent(one, data + (size_t)i * step, slice_bytes);
  }
}

static diff_tensor *add(diff_call *call, const char *name, bool is_output, quire_dtype dtype,
                        int32_t ndim, const int64_t *shape, const int64_t *strides) {
  if (call->tensor_count == DIFF_MOST_TENSORS) {
    fail_msg("too many tensors");
  }
  diff_tensor *one = &call->tensors[call->tensor_count++];
  one->name = name;
  one->is_output = is_output;
  one->tensor = (quire_tensor){
      .dtype = dtype, .ndim = ndim, .shape = one->shape, .strides = strides ? one->strides : NULL};
  int64_t dense = 1;
  for (int32_t d = ndim - 1; d >= 0; --d) {
    one->shape[d] = shape[d];
    one->strides[d] = strides ? strides[d] : dense;
    dense *= shape[d];
  }
  return one;
}

diff_tensor *diff_add(diff_call *call, const char *name, bool is_output, quire_dtype dtype,
                      int32_t ndim, const int64_t *shape, const int64_t *strides) {
  diff_tensor *one = add(call, name, is_output, dtype, ndim, shape, strides);
  int64_t span = 1;
  int64_t slice = 1;
  bool is_empty = false;
  for (int32_t d = 0; d < ndim; ++d) {
    is_empty = is_empty || shape[d] == 0;
    span += (shape[d] - 1) * one->strides[d];
    slice += d > 0 ? (shape[d] - 1) * one->strides[d] : 0;
  }
  const size_t size = quire_dtype_size(dtype);
  const size_t bytes = is_empty ? 0 : (size_t)span * size;
  one->tensor.data = map(one, bytes);
  add_extents(one, one->tensor.data, bytes, (size_t)slice * size);
  return one;
}

void diff_add_alias(diff_call *call, const char *name, const diff_tensor *input) {
  diff_tensor *one = add(call, name, true, input->tensor.dtype, input->tensor.ndim, input->shape,
                         input->tensor.strides);
  one->alias = input->name;
  one->tensor.data = input->tensor.data;
}

static quire_named_value *attribute(diff_call *call, const char *name, quire_value_type type) {
  quire_named_value *value = &call->attributes[call->attribute_count++];
  *value = (quire_named_value){.name = name, .type = type};
  return value;
}

void diff_integer(diff_call *call, const char *name, int64_t value) {
  attribute(call, name, QUIRE_VALUE_TYPE_INT)->i = value;
}

void diff_number(diff_call *call, const char *name, double value) {
  attribute(call, name, QUIRE_VALUE_TYPE_FLOAT)->f = value;
}

void diff_word(diff_call *call, const char *name, const char *value) {
  attribute(call, name, QUIRE_VALUE_TYPE_STRING)->s = value;
}

void diff_store(const diff_tensor *one, int64_t element, float value) {
  unsigned char *at =
      (unsigned char *)one->tensor.data + (size_t)element * quire_dtype_size(one->tensor.dtype);
  switch (one->tensor.dtype) {
    case QUIRE_INT8:
      *(int8_t *)at = (int8_t)(value < -127 ? -127 : (value > 127 ? 127 : value));
      break;
    case QUIRE_INT32: {
      const int32_t whole = (int32_t)value;
      memcpy(at, &whole, sizeof whole);
      break;
    }
    default: {
      float narrowed[1]; /* aligned, unlike `at` */
      quire_narrow_row(one->tensor.dtype, &value, 1, narrowed);
      memcpy(at, narrowed, quire_dtype_size(one->tensor.dtype));
    }
  }
}

void diff_fill(diff_call *call, const diff_tensor *one, float scale) {
  int64_t count = 1;
  for (int32_t d = 0; d < one->tensor.ndim; ++d) {
    count *= one->shape[d];
  }
  for (int64_t i = 0; i < count; ++i) {
    diff_store(one, i, diff_normal(&call->random) * scale);
  }
}

static unsigned char *copy_of(const diff_extent *extent) {
  unsigned char *copy = malloc(extent->bytes + 1);
  if (!copy) {
    fail_msg("no memory for a copy");
    return NULL;
  }
  memcpy(copy, extent->start, extent->bytes);
  return copy;
}

void diff_call_end(diff_call *call) {
  for (int i = 0; i < call->tensor_count; ++i) {
    for (int k = 0; k < call->tensors[i].extent_count; ++k) {
      call->tensors[i].extents[k].pristine = copy_of(&call->tensors[i].extents[k]);
    }
  }
}

void diff_restore(diff_call *call) {
  for (int i = 0; i < call->tensor_count; ++i) {
    for (int k = 0; k < call->tensors[i].extent_count; ++k) {
      const diff_extent *extent = &call->tensors[i].extents[k];
      memcpy(extent->start, extent->pristine, extent->bytes);
    }
  }
}

void diff_expect(diff_call *call) {
  for (int i = 0; i < call->tensor_count; ++i) {
    for (int k = 0; k < call->tensors[i].extent_count; ++k) {
      diff_extent *extent = &call->tensors[i].extents[k];
      free(extent->expected);
      extent->expected = copy_of(extent);
    }
  }
}

static bool is_nan(quire_dtype dtype, const unsigned char *at) {
  if (dtype != QUIRE_FLOAT32 && dtype != QUIRE_FLOAT16 && dtype != QUIRE_BFLOAT16) {
    return false;
  }
  float row[1];
  memcpy(row, at, quire_dtype_size(dtype));
  const float value = quire_load_f32(dtype, row, 0);
  return value != value;
}

/* Elements end where the extent ends: they are walked from there. */
static bool same_extent(const diff_tensor *one, const diff_extent *extent, char *where,
                        size_t size) {
  if (!memcmp(extent->start, extent->expected, extent->bytes)) {
    return true;
  }
  const quire_dtype dtype = one->tensor.dtype;
  const size_t width = quire_dtype_size(dtype);
  const unsigned char *data = one->tensor.data;
  for (size_t i = extent->bytes % width; i + width <= extent->bytes; i += width) {
    const unsigned char *got = extent->start + i;
    const unsigned char *want = extent->expected + i;
    const bool is_inside = got >= data;
    if (memcmp(got, want, width) != 0 &&
        !(is_inside && is_nan(dtype, got) && is_nan(dtype, want))) {
      uint32_t bits[2] = {0, 0};
      memcpy(&bits[0], got, width < 4 ? width : 4);
      memcpy(&bits[1], want, width < 4 ? width : 4);
      (void)snprintf(
          where, size, "%s %s %lld: %08x, scalar %08x", one->name,
          is_inside ? "element" : "memory before the data, byte",
          is_inside ? (long long)((got - data) / (ptrdiff_t)width) : (long long)(got - data),
          bits[0], bits[1]);
      return false;
    }
  }
  return true;
}

bool diff_compare(const diff_call *call, char *where, size_t size) {
  for (int i = 0; i < call->tensor_count; ++i) {
    const diff_tensor *one = &call->tensors[i];
    for (int k = 0; k < one->extent_count; ++k) {
      if (!same_extent(one, &one->extents[k], where, size)) {
        return false;
      }
    }
  }
  return true;
}
