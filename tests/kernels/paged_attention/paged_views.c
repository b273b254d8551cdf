#include "paged_views.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

quire_view paged_view(const void *data, quire_dtype dtype, int32_t ndim, const int64_t *shape) {
  quire_view view;
  memset(&view, 0, sizeof view);
  if (data == NULL) {
    return view;
  }
  memcpy(&view.data, &data, sizeof data);
  view.dtype = dtype;
  view.ndim = ndim;
  int64_t stride = 1;
  for (int32_t i = ndim; i-- > 0;) {
    view.shape[i] = shape[i];
    view.stride[i] = stride;
    stride *= shape[i];
  }
  return view;
}

quire_view paged_view_1(const void *data, quire_dtype dtype, int64_t a) {
  return paged_view(data, dtype, 1, &a);
}

quire_view paged_view_2(const void *data, quire_dtype dtype, int64_t a, int64_t b) {
  const int64_t shape[2] = {a, b};
  return paged_view(data, dtype, 2, shape);
}

quire_view paged_cache_view(const paged_call *call, const void *data) {
  const int64_t size = call->padded_size != 0 ? call->padded_size : call->head_size;
  const int64_t shape[4] = {call->block_count, call->block_size, call->kv_num_heads, size};
  quire_view view = paged_view(data, call->cache_dtype, 4, shape);
  if (call->cache_stride[3] != 0) {
    memcpy(view.stride, call->cache_stride, sizeof call->cache_stride);
  }
  return view;
}

/* One scale for each row and head of the caches, in their order unless strides say otherwise. */
quire_view paged_scale_cache_view(const paged_call *call, const float *data) {
  const int64_t shape[3] = {call->block_count, call->block_size, call->kv_num_heads};
  quire_view view = paged_view(data, QUIRE_FLOAT32, 3, shape);
  if (data != NULL && call->scale_stride[2] != 0) {
    memcpy(view.stride, call->scale_stride, sizeof call->scale_stride);
  }
  return view;
}

quire_view paged_scale_view(const paged_call *call, const float *data) {
  const int64_t shape[3] = {call->kv_num_heads, 1, call->head_size};
  return call->per_channel ? paged_view(data, QUIRE_FLOAT32, 3, shape)
                           : paged_view_1(data, QUIRE_FLOAT32, 1);
}

quire_view paged_query_view(const paged_call *call) {
  const int64_t heads =
      call->num_heads +
      (call->key == NULL && call->cumulative != NULL ? 2 * call->kv_num_heads : 0);
  quire_view view = paged_view_2(call->query, call->dtype, call->tokens, heads * call->head_size);
  if (call->query_stride != 0) {
    view.stride[0] = call->query_stride;
  }
  return view;
}

void *paged_need(size_t count, size_t size) {
  void *memory = calloc(count + 1, size);
  assert_non_null(memory);
  return memory;
}
