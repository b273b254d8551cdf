#include "isolation_call.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "numeric.h"

void iso_open(iso_call *call) {
  *call = (iso_call){0};
  for (int i = 0; i < ISO_TENSORS; ++i) {
    call->tensors[i].values = aligned_alloc(64, ISO_MOST_BYTES);
    call->tensors[i].kinds = malloc(ISO_MOST_BYTES);
    call->tensors[i].after = malloc(ISO_MOST_BYTES);
    assert_non_null(call->tensors[i].values);
    assert_non_null(call->tensors[i].kinds);
    assert_non_null(call->tensors[i].after);
  }
}

void iso_close(iso_call *call) {
  for (int i = 0; i < ISO_TENSORS; ++i) {
    free(call->tensors[i].values);
    free(call->tensors[i].kinds);
    free(call->tensors[i].after);
  }
}

void iso_begin(iso_call *call, const char *op, uint64_t shape_seed, uint64_t seed) {
  call->op = op;
  call->form = shape_seed;
  call->seed = seed;
  call->shape.state = shape_seed;
  call->content.state = seed;
  call->tensor_count = 0;
  call->attribute_count = 0;
  call->is_legal = true;
  call->is_racy = false;
  call->own = -1;
  call->run = NULL;
}

static iso_tensor *add(iso_call *call, const char *name, quire_dtype dtype, int32_t ndim,
                       const int64_t *shape, const int64_t *strides) {
  assert_true(call->tensor_count < ISO_TENSORS);
  iso_tensor *one = &call->tensors[call->tensor_count++];
  one->name = name;
  one->is_output = false;
  one->alias = NULL;
  one->dtype = dtype;
  one->ndim = ndim;
  one->is_dense = strides == NULL;
  int64_t dense = 1;
  int64_t span = 1;
  for (int32_t d = ndim - 1; d >= 0; --d) {
    one->shape[d] = shape[d];
    one->strides[d] = strides != NULL ? strides[d] : dense;
    dense *= shape[d];
    span += (shape[d] - 1) * one->strides[d];
  }
  one->span = dense == 0 ? 0 : (size_t)span;
  assert_true(one->span * quire_dtype_size(dtype) <= ISO_MOST_BYTES);
  memset(one->kinds, 0, one->span);
  return one;
}

iso_tensor *iso_input(iso_call *call, const char *name, quire_dtype dtype, int32_t ndim,
                      const int64_t *shape, const int64_t *strides) {
  return add(call, name, dtype, ndim, shape, strides);
}

iso_tensor *iso_output(iso_call *call, const char *name, quire_dtype dtype, int32_t ndim,
                       const int64_t *shape, const int64_t *strides) {
  iso_tensor *one = add(call, name, dtype, ndim, shape, strides);
  one->is_output = true;
  return one;
}

void iso_alias(iso_call *call, const char *name, const iso_tensor *input) {
  iso_tensor *one = iso_output(call, name, input->dtype, input->ndim, input->shape,
                               input->is_dense ? NULL : input->strides);
  one->alias = input->name;
}

int32_t *iso_integers(iso_call *call, const char *name, int32_t ndim, int64_t first, int64_t second,
                      int64_t limit) {
  const int64_t shape[2] = {first, second};
  iso_tensor *one = add(call, name, QUIRE_INT32, ndim, shape, NULL);
  one->limit = limit;
  return (int32_t *)(void *)one->values;
}

static quire_named_value *attribute(iso_call *call, const char *name, quire_value_type type) {
  assert_true(call->attribute_count < ISO_ATTRIBUTES);
  quire_named_value *value = &call->attributes[call->attribute_count++];
  *value = (quire_named_value){.name = name, .type = type};
  return value;
}

void iso_int(iso_call *call, const char *name, int64_t value) {
  attribute(call, name, QUIRE_VALUE_TYPE_INT)->i = value;
}

void iso_number(iso_call *call, const char *name, double value) {
  attribute(call, name, QUIRE_VALUE_TYPE_FLOAT)->f = value;
}

void iso_word(iso_call *call, const char *name, const char *value) {
  attribute(call, name, QUIRE_VALUE_TYPE_STRING)->s = value;
}

iso_tensor *iso_find(iso_call *call, const char *name) {
  for (int i = 0; i < call->tensor_count; ++i) {
    if (strcmp(call->tensors[i].name, name) == 0) {
      return &call->tensors[i];
    }
  }
  fail_msg("no tensor %s", name);
  return NULL;
}

void iso_fix_to(iso_tensor *tensor, int64_t element, float value) {
  assert_true(element >= 0 && (size_t)element < tensor->span);
  tensor->kinds[element] |= ISO_FIXED;
  if (tensor->dtype == QUIRE_INT8) {
    ((int8_t *)tensor->values)[element] = (int8_t)value;
  } else {
    const size_t size = quire_dtype_size(tensor->dtype);
    quire_narrow_row(tensor->dtype, &value, 1, tensor->values + (size_t)element * size);
  }
}

void iso_fix(iso_call *call, iso_tensor *tensor, int64_t first, int64_t count, float scale) {
  for (int64_t i = first; i < first + count; ++i) {
    iso_fix_to(tensor, i, diff_normal(&call->content) * scale);
  }
}

void iso_fix_integers(iso_call *call, const char *name, int64_t first, int64_t count) {
  iso_mark(iso_find(call, name), first, count, ISO_FIXED);
}

void iso_mark(iso_tensor *tensor, int64_t first, int64_t count, unsigned kinds) {
  assert_true(count == 0 || (first >= 0 && (size_t)(first + count) <= tensor->span));
  for (int64_t i = first; i < first + count; ++i) {
    tensor->kinds[i] |= (unsigned char)kinds;
  }
}

void iso_make_offsets(iso_call *call, int32_t *offsets, int64_t sequences, int64_t total) {
  offsets[0] = 0;
  for (int64_t i = 1; i < sequences; ++i) {
    const int64_t left = total - offsets[i - 1];
    const int64_t most = left > 3 ? 2 * left / 3 : left;
    offsets[i] = offsets[i - 1] + (int32_t)diff_between(&call->content, 0, most);
  }
  offsets[sequences] = (int32_t)total;
}

static int32_t hostile(iso_call *call, int32_t old, int64_t limit) {
  static const int32_t corners[] = {INT_MIN, INT_MIN + 1, -2,  -1,    0,       1 << 30, 65536,
                                    INT_MAX, INT_MAX - 1, 255, 32768, 1 << 28, 1000};
  const int64_t kind = diff_between(&call->content, 0, 7);
  if (kind < 3) {
    return corners[diff_between(&call->content, 0, 12)];
  }
  if (kind < 6) {
    return (int32_t)(limit - diff_between(&call->content, 0, 1));
  }
  if (kind < 7) { /* not far from what was right */
    return (int32_t)((int64_t)old + diff_between(&call->content, -9, 9));
  }
  return (int32_t)(uint32_t)diff_next(&call->content);
}

void iso_spoil(iso_call *call) {
  if (!diff_once_in(&call->content, 3)) {
    return;
  }
  for (int64_t times = diff_between(&call->content, 1, 2); times > 0; --times) {
    iso_tensor *one = &call->tensors[diff_between(&call->content, 0, call->tensor_count - 1)];
    if (one->dtype == QUIRE_INT32 && one->span > 0) {
      int32_t *values = (int32_t *)(void *)one->values;
      const int64_t at = diff_between(&call->content, 0, (int64_t)one->span - 1);
      values[at] = hostile(call, values[at], one->limit);
    } else {
      times += diff_once_in(&call->content, 8) ? 0 : 1;
    }
  }
}

bool iso_are_offsets(const int32_t *offsets, int64_t sequences, int64_t total) {
  for (int64_t i = 0; i < sequences; ++i) {
    if (offsets[i + 1] < offsets[i]) {
      return false;
    }
  }
  return offsets[0] == 0 && offsets[sequences] == total;
}

bool iso_is_own(const iso_call *call, int64_t sequence) {
  return call->own < 0 || call->own == sequence;
}
