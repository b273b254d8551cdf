/* A call's tensors as the passes see them. */
#ifndef QUIRE_TESTS_PAGED_VIEWS_H
#define QUIRE_TESTS_PAGED_VIEWS_H

#include "paged_harness.h"

/* Dense; no data: an absent tensor. */
quire_view paged_view(const void *data, quire_dtype dtype, int32_t ndim, const int64_t *shape);
quire_view paged_view_1(const void *data, quire_dtype dtype, int64_t a);
quire_view paged_view_2(const void *data, quire_dtype dtype, int64_t a, int64_t b);
/* Of the call, in its strides. */
quire_view paged_cache_view(const paged_call *call, const void *data);
quire_view paged_scale_view(const paged_call *call, const float *data);
/* One scale for each row and head of the caches, in their order unless strides say otherwise. */
quire_view paged_scale_cache_view(const paged_call *call, const float *data);
quire_view paged_query_view(const paged_call *call);

/* Zeroed memory, never NULL: the test fails without. */
void *paged_need(size_t count, size_t size);

#endif
