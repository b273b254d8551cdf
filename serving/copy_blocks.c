/* Copy-on-write, carried out. */
#include <string.h>

#include "cache_object.h"
#include "cache_view.h"
#include "quire/buffer.h"

static quire_status check_copies(const quire_cache_view *view, const quire_block_copy *copies,
                                 size_t copy_count, quire_error *error) {
  for (size_t i = 0; i < copy_count; ++i) {
    const quire_block_copy *copy = &copies[i];
    if (copy->group != view->group) {
      continue;
    }
    if (copy->source < 0 || copy->source >= view->block_count || copy->destination < 0 ||
        copy->destination >= view->block_count || copy->source == copy->destination) {
      return quire_serving_fail(error, QUIRE_BAD_VALUE, "SV-9", view->name,
                                "copy %zu from block %ld to %ld, the tensor has %lld", i,
                                (long)copy->source, (long)copy->destination,
                                (long long)view->block_count);
    }
  }
  return QUIRE_OK;
}

/* ---- memory of a device ---- */

enum { RANGES = 128 };

/* Copies under way to a device, in their order. */
typedef struct range_list {
  quire_device *device;
  quire_buffer_copy_range ranges[RANGES];
  size_t count;
} range_list;

static quire_status flush(range_list *list, quire_error *error) {
  const size_t count = list->count;
  list->count = 0;
  return quire_buffer_copy(list->device, list->ranges, count, error);
}

/* Where run number `run` of a box begins, in bytes; a run is a stretch without gaps. */
static uint64_t run_offset(const quire_box *box, int32_t outer, uint64_t run) {
  uint64_t offset = 0;
  for (int32_t axis = outer; axis-- > 0;) {
    const uint64_t size = (uint64_t)box->shape[axis];
    offset += run % size * (uint64_t)box->stride[axis] * box->element_size;
    run /= size;
  }
  return offset;
}

static quire_status copy_on_device(range_list *list, const quire_cache_tensor *tensor,
                                   const quire_cache_view *view, const quire_block_copy *copy,
                                   quire_error *error) {
  const quire_box *box = &view->block;
  const bool is_run = box->ndim > 0 && box->stride[box->ndim - 1] == 1;
  const int32_t outer = is_run ? box->ndim - 1 : box->ndim;
  const uint64_t run_bytes =
      (is_run ? (uint64_t)box->shape[outer] : 1) * (uint64_t)box->element_size;
  const uint64_t block_bytes = (uint64_t)view->block_stride * view->element_size;
  for (uint64_t run = 0; run < box->bytes / run_bytes; ++run) {
    const uint64_t at = tensor->tensor.byte_offset + run_offset(box, outer, run);
    list->ranges[list->count++] = (quire_buffer_copy_range){
        tensor->tensor.data, at + (uint64_t)copy->source * block_bytes, tensor->tensor.data,
        at + (uint64_t)copy->destination * block_bytes, run_bytes};
    if (list->count == RANGES) {
      QUIRE_SERVING_TRY(flush(list, error));
    }
  }
  return QUIRE_OK;
}

static quire_status copy_all_on_device(quire_device *device, const quire_cache_tensor *tensors,
                                       size_t tensor_count, const quire_block_copy *copies,
                                       size_t copy_count, quire_error *error) {
  range_list list = {.device = device, .count = 0};
  for (size_t i = 0; i < tensor_count; ++i) {
    quire_cache_view view;
    QUIRE_SERVING_TRY(quire_cache_view_make(&tensors[i], i, &view, error));
    for (size_t j = 0; j < copy_count; ++j) {
      if (copies[j].group == view.group) {
        QUIRE_SERVING_TRY(copy_on_device(&list, &tensors[i], &view, &copies[j], error));
      }
    }
  }
  return flush(&list, error);
}

quire_status quire_cache_copy_blocks(quire_device *device, const quire_cache_tensor *tensors,
                                     size_t tensor_count, const quire_block_copy *copies,
                                     size_t copy_count, quire_error *error) {
  if (device == NULL || (tensors == NULL && tensor_count > 0) ||
      (copies == NULL && copy_count > 0)) {
    return quire_serving_fail(error, QUIRE_BAD_REQUEST, NULL, "tensors",
                              "device, tensors or copies is NULL");
  }
  quire_cache_view view;
  for (size_t i = 0; i < tensor_count; ++i) {
    QUIRE_SERVING_TRY(quire_cache_view_make_written(&tensors[i], i, &view, error));
    QUIRE_SERVING_TRY(check_copies(&view, copies, copy_count, error));
  }
  if (strcmp(quire_device_describe(device)->backend, "cpu") != 0) {
    return copy_all_on_device(device, tensors, tensor_count, copies, copy_count, error);
  }
  for (size_t i = 0; i < tensor_count; ++i) {
    QUIRE_SERVING_TRY(quire_cache_view_make(&tensors[i], i, &view, error));
    for (size_t j = 0; j < copy_count; ++j) {
      if (copies[j].group == view.group) {
        quire_box_copy(&view.block, quire_cache_view_block(&view, copies[j].destination),
                       quire_cache_view_block(&view, copies[j].source));
      }
    }
  }
  return QUIRE_OK;
}
