/* Copy-on-write, carried out. */
#include <string.h>

#include "cache_object.h"
#include "cache_view.h"

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

quire_status quire_cache_copy_blocks(quire_device *device, const quire_cache_tensor *tensors,
                                     size_t tensor_count, const quire_block_copy *copies,
                                     size_t copy_count, quire_error *error) {
  if (device == NULL || (tensors == NULL && tensor_count > 0) ||
      (copies == NULL && copy_count > 0)) {
    return quire_serving_fail(error, QUIRE_BAD_REQUEST, NULL, "tensors",
                              "device, tensors or copies is NULL");
  }
  const quire_device_description *description = quire_device_describe(device);
  if (description->backend == NULL || strcmp(description->backend, "cpu") != 0) {
    return quire_serving_fail(error, QUIRE_UNSUPPORTED, NULL, "device",
                              "blocks are copied by this function on the CPU only");
  }
  quire_cache_view view;
  for (size_t i = 0; i < tensor_count; ++i) {
    QUIRE_SERVING_TRY(quire_cache_view_make(&tensors[i], i, &view, error));
    QUIRE_SERVING_TRY(check_copies(&view, copies, copy_count, error));
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
