#include "cache_view.h"

#include <string.h>

#include "serving_support.h"

/* The tensor without some axes; contiguous neighbours become one axis. */
static quire_box make_box(const quire_tensor *tensor, const int64_t *stride, int32_t without,
                          int32_t also_without) {
  quire_box box = {.element_size = quire_dtype_size(tensor->dtype), .ndim = 0, .bytes = 0};
  box.bytes = box.element_size;
  for (int32_t axis = 0; axis < tensor->ndim; ++axis) {
    if (axis == without || axis == also_without || tensor->shape[axis] == 1) {
      continue;
    }
    const int64_t size = tensor->shape[axis];
    box.bytes *= (size_t)size;
    if (box.ndim > 0 && box.stride[box.ndim - 1] == stride[axis] * size) {
      box.shape[box.ndim - 1] *= size;
      box.stride[box.ndim - 1] = stride[axis];
    } else {
      box.shape[box.ndim] = size;
      box.stride[box.ndim++] = stride[axis];
    }
  }
  return box;
}

static quire_status check_axes(const quire_cache_tensor *tensor, size_t at, const char *name,
                               quire_error *error) {
  const quire_tensor *data = &tensor->tensor;
  const bool is_state = tensor->group == -1;
  if (tensor->group < -1) {
    return quire_serving_fail(error, QUIRE_BAD_VALUE, "SV-10", name, "tensor %zu has group %ld", at,
                              (long)tensor->group);
  }
  if (data->data == NULL || data->shape == NULL) {
    return quire_serving_fail(error, QUIRE_BAD_REQUEST, "SV-10", name,
                              "tensor %zu has no data or no shape", at);
  }
  if (quire_dtype_size(data->dtype) == 0) {
    return quire_serving_fail(error, QUIRE_BAD_TYPE, "SV-10", name, "tensor %zu has no type", at);
  }
  if (data->ndim < 1 || data->ndim > QUIRE_MAX_RANK) {
    return quire_serving_fail(error, QUIRE_BAD_RANK, "SV-10", name, "tensor %zu has rank %ld", at,
                              (long)data->ndim);
  }
  const int32_t block = tensor->block_axis;
  const int32_t row = tensor->row_axis;
  const bool is_row_good = is_state ? row == -1 : row >= 0 && row < data->ndim && row != block;
  if (block < 0 || block >= data->ndim || !is_row_good) {
    return quire_serving_fail(error, QUIRE_BAD_SHAPE, "SV-10", name,
                              "tensor %zu of rank %ld: block axis %ld, row axis %ld", at,
                              (long)data->ndim, (long)block, (long)row);
  }
  return QUIRE_OK;
}

/* Dense strides, or the given ones; false if the tensor's bytes exceed 63 bits. */
static bool find_strides(const quire_tensor *tensor, int64_t stride[QUIRE_MAX_RANK]) {
  int64_t next = 1;
  const int64_t most = INT64_MAX / 16;
  for (int32_t axis = tensor->ndim; axis-- > 0;) {
    const int64_t size = tensor->shape[axis];
    if (size < 1 || size > most / next) {
      return false;
    }
    stride[axis] = tensor->strides != NULL ? tensor->strides[axis] : next;
    if (stride[axis] < 0 || stride[axis] > most / size) {
      return false;
    }
    next *= size;
  }
  return true;
}

quire_status quire_cache_view_make(const quire_cache_tensor *tensor, size_t at,
                                   quire_cache_view *view, quire_error *error) {
  const char *name = tensor->name != NULL ? tensor->name : "tensors";
  QUIRE_SERVING_TRY(check_axes(tensor, at, name, error));
  const quire_tensor *data = &tensor->tensor;
  int64_t stride[QUIRE_MAX_RANK];
  if (!find_strides(data, stride)) {
    return quire_serving_fail(error, QUIRE_BAD_SHAPE, "SV-10", name,
                              "tensor %zu has a dimension or stride that is not in range", at);
  }
  const bool is_state = tensor->group == -1;
  *view = (quire_cache_view){
      .name = name,
      .data = (char *)data->data + data->byte_offset,
      .dtype = data->dtype,
      .group = tensor->group,
      .block_count = data->shape[tensor->block_axis],
      .block_size = is_state ? 1 : data->shape[tensor->row_axis],
      .block_stride = stride[tensor->block_axis],
      .row_stride = is_state ? 0 : stride[tensor->row_axis],
      .element_size = quire_dtype_size(data->dtype),
      .block = make_box(data, stride, tensor->block_axis, -1),
      .row = make_box(data, stride, tensor->block_axis, tensor->row_axis),
  };
  return QUIRE_OK;
}

/* True if the strides, which are in range, may put two elements at one place: by ascending stride,
 * each axis must step over all that the smaller ones reach. As the device sees written tensors. */
static bool folds(const quire_tensor *tensor, const int64_t stride[QUIRE_MAX_RANK]) {
  int32_t order[QUIRE_MAX_RANK];
  int32_t count = 0;
  for (int32_t axis = 0; axis < tensor->ndim; ++axis) {
    if (tensor->shape[axis] == 1) {
      continue;
    }
    int32_t at = count++;
    for (; at > 0 && stride[order[at - 1]] > stride[axis]; --at) {
      order[at] = order[at - 1];
    }
    order[at] = axis;
  }
  int64_t extent = 1;
  for (int32_t i = 0; i < count; ++i) {
    const int64_t step = stride[order[i]];
    if (step < extent) {
      return true;
    }
    extent += step * (tensor->shape[order[i]] - 1);
  }
  return false;
}

quire_status quire_cache_view_make_written(const quire_cache_tensor *tensor, size_t at,
                                           quire_cache_view *view, quire_error *error) {
  QUIRE_SERVING_TRY(quire_cache_view_make(tensor, at, view, error));
  int64_t stride[QUIRE_MAX_RANK];
  if (find_strides(&tensor->tensor, stride) && folds(&tensor->tensor, stride)) {
    return quire_serving_fail(error, QUIRE_BAD_REQUEST, "SV-10", view->name,
                              "the strides of tensor %zu put several elements at one place, and "
                              "it is written",
                              at);
  }
  return QUIRE_OK;
}

char *quire_cache_view_block(const quire_cache_view *view, int64_t block) {
  return view->data + block * view->block_stride * (int64_t)view->element_size;
}

char *quire_cache_view_row(const quire_cache_view *view, int64_t block, int64_t row) {
  return quire_cache_view_block(view, block) + row * view->row_stride * (int64_t)view->element_size;
}

/* Walks a box. A side with is_dense lies without gaps, the other by the box's strides. */
static void walk(const quire_box *box, char *target, bool is_target_dense, const char *source,
                 bool is_source_dense) {
  const int64_t size = (int64_t)box->element_size;
  const int32_t last = box->ndim - 1;
  const bool is_run = box->ndim > 0 && box->stride[last] == 1;
  const int32_t outer = is_run ? last : box->ndim;
  const size_t run = is_run ? (size_t)box->shape[last] * box->element_size : box->element_size;
  int64_t index[QUIRE_MAX_RANK] = {0};
  int64_t offset = 0;
  for (size_t done = 0; done < box->bytes; done += run) {
    memcpy(target + (is_target_dense ? (int64_t)done : offset),
           source + (is_source_dense ? (int64_t)done : offset), run);
    for (int32_t axis = outer; axis-- > 0;) {
      offset += box->stride[axis] * size;
      if (++index[axis] < box->shape[axis]) {
        break;
      }
      offset -= box->stride[axis] * box->shape[axis] * size;
      index[axis] = 0;
    }
  }
}

void quire_box_copy(const quire_box *box, char *target, const char *source) {
  walk(box, target, false, source, false);
}

void quire_box_pack(const quire_box *box, char *dense, const char *source) {
  walk(box, dense, true, source, false);
}

void quire_box_unpack(const quire_box *box, char *target, const char *dense) {
  walk(box, target, false, dense, true);
}
