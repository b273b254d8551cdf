/*
 * Copies of cache blocks (copy-on-write). Every number differs from every other, and what memory
 * holds afterwards is known: the copies are carried out on a model, element by element.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <string.h>

#include "isolation_call.h"

enum { MOST_TENSORS = 4, MOST_COPIES = 6 };

typedef struct copy_list {
  quire_cache_tensor tensors[MOST_TENSORS];
  quire_block_copy copies[MOST_COPIES];
  size_t tensor_count, copy_count;
} copy_list;

static copy_list list; /* of the call that was made last */

static quire_status run(quire_device *device, const quire_tensor *tensors, quire_error *error) {
  for (size_t i = 0; i < list.tensor_count; ++i) {
    list.tensors[i].tensor = tensors[i];
  }
  return quire_cache_copy_blocks(device, list.tensors, list.tensor_count, list.copies,
                                 list.copy_count, error);
}

/* Blocks, rows and more, in any order of axes, with or without gaps. */
static void add_tensor(iso_call *call, int group) {
  static const char *const names[MOST_TENSORS] = {"0", "1", "2", "3"};
  static const quire_dtype types[] = {QUIRE_FLOAT32, QUIRE_FLOAT16, QUIRE_INT8, QUIRE_FLOAT32};
  diff_random *content = &call->content;
  const bool is_state = group < 0;
  const int32_t ndim = (int32_t)diff_between(content, is_state ? 1 : 2, 4);
  const int32_t block_axis = (int32_t)diff_between(content, 0, ndim - 1);
  int32_t row_axis = is_state ? -1 : (int32_t)diff_between(content, 0, ndim - 1);
  row_axis = row_axis == block_axis ? (block_axis + 1) % ndim : row_axis;
  int64_t shape[4], strides[4];
  int64_t stride = 1;
  const quire_dtype type = types[diff_between(content, 0, 3)];
  const int64_t unit = type == QUIRE_FLOAT32 ? 1 : 4; /* a GPU copies whole words */
  for (int32_t axis = ndim; axis-- > 0;) {
    shape[axis] = diff_between(content, 1, 5) * (axis == ndim - 1 ? unit : 1);
    strides[axis] = stride;
    stride = stride * shape[axis] + (diff_once_in(content, 3) ? unit * 2 : 0);
  }
  iso_tensor *one = iso_input(call, names[list.tensor_count], type, ndim, shape, strides);
  for (size_t i = 0; i < one->span * quire_dtype_size(type); ++i) {
    one->values[i] = (unsigned char)diff_next(content);
  }
  iso_mark(one, 0, (int64_t)one->span, ISO_FIXED);
  list.tensors[list.tensor_count++] =
      (quire_cache_tensor){one->name, {0}, group, block_axis, row_axis};
}

/* Copies one block of the model: every element whose index on the block axis is `to`. */
static void copy_block(const iso_tensor *one, int32_t axis, int64_t from, int64_t to) {
  const size_t size = quire_dtype_size(one->dtype);
  int64_t index[QUIRE_MAX_RANK] = {0};
  int32_t d = 0;
  while (d >= 0) {
    int64_t at = (to - index[axis]) * one->strides[axis];
    int64_t source = (from - index[axis]) * one->strides[axis];
    for (int32_t i = 0; i < one->ndim; ++i) {
      at += index[i] * one->strides[i];
      source += index[i] * one->strides[i];
    }
    memmove(one->after + (size_t)at * size, one->after + (size_t)source * size, size);
    for (d = one->ndim - 1; d >= 0; --d) {
      if (++index[d] < one->shape[d]) {
        break;
      }
      index[d] = 0;
    }
  }
}

static bool is_block(const iso_tensor *one, int32_t axis, int32_t block) {
  return block >= 0 && block < one->shape[axis];
}

/* Carries the copies out on the model; false: they are not legal. */
static bool model(iso_call *call) {
  for (size_t i = 0; i < list.tensor_count; ++i) {
    const iso_tensor *one = &call->tensors[i];
    const int32_t axis = list.tensors[i].block_axis;
    memcpy(one->after, one->values, one->span * quire_dtype_size(one->dtype));
    if (axis < 0 || axis >= one->ndim || list.tensors[i].row_axis == axis) {
      return false;
    }
    for (size_t j = 0; j < list.copy_count; ++j) {
      const quire_block_copy copy = list.copies[j];
      if (copy.group != list.tensors[i].group) {
        continue;
      }
      if (!is_block(one, axis, copy.source) || !is_block(one, axis, copy.destination) ||
          copy.source == copy.destination) {
        return false;
      }
      copy_block(one, axis, copy.source, copy.destination);
    }
  }
  return true;
}

void iso_make_copies(iso_call *call, uint64_t shape_seed, uint64_t seed) {
  iso_begin(call, "cache block copies", shape_seed, seed);
  diff_random *content = &call->content;
  call->run = run;
  list.tensor_count = 0;
  list.copy_count = (size_t)diff_between(content, 0, MOST_COPIES);
  for (int64_t i = diff_between(content, 1, MOST_TENSORS); i > 0; --i) {
    add_tensor(call, (int)diff_between(content, -1, 1));
  }
  for (size_t i = 0; i < list.copy_count; ++i) {
    list.copies[i] = (quire_block_copy){(int32_t)diff_between(content, -1, 2),
                                        (int32_t)diff_between(content, 0, 2),
                                        (int32_t)diff_between(content, 0, 2)};
    if (list.copies[i].source == list.copies[i].destination && !diff_once_in(content, 8)) {
      list.copies[i].group = 5; /* nobody's */
    }
    for (size_t k = 0; k < list.tensor_count; ++k) { /* small tensors have fewer blocks */
      const bool fits = is_block(&call->tensors[k], list.tensors[k].block_axis, 2);
      if (!fits && list.copies[i].group == list.tensors[k].group && !diff_once_in(content, 8)) {
        list.copies[i].group = 5;
      }
    }
  }
  if (diff_once_in(content, 16)) {
    list.tensors[0].block_axis = (int32_t)diff_between(content, -1, 5);
  }
  if (list.copy_count > 0 && diff_once_in(content, 4)) {
    static const int32_t corners[] = {INT32_MIN, -1, 5, 20, 21, 65536, 1 << 30, INT32_MAX};
    quire_block_copy *copy = &list.copies[diff_between(content, 0, (int64_t)list.copy_count - 1)];
    *(diff_once_in(content, 2) ? &copy->source : &copy->destination) =
        corners[diff_between(content, 0, 7)];
  }
  call->is_legal = model(call);
  for (size_t i = 0; i < list.tensor_count; ++i) {
    iso_mark(&call->tensors[i], 0, (int64_t)call->tensors[i].span, ISO_SAME);
  }
}
