/* Copying boxes of elements between memories with different strides. */
#ifndef QUIRE_SERVING_CACHE_VIEW_H
#define QUIRE_SERVING_CACHE_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "quire/serving.h"

/* What one index of a tensor's fixed axes leaves: a box of elements. */
typedef struct quire_box {
  size_t element_size;
  int32_t ndim;
  int64_t shape[QUIRE_MAX_RANK];
  int64_t stride[QUIRE_MAX_RANK]; /* in elements */
  size_t bytes;                   /* of the box, dense */
} quire_box;

/* A tensor of an engine, looked through: where blocks and rows lie. */
typedef struct quire_cache_view {
  const char *name;
  char *data;
  quire_dtype dtype;
  int32_t group;
  int64_t block_count, block_size; /* states: block_size 1 */
  int64_t block_stride, row_stride;
  size_t element_size;
  quire_box block; /* all axes but the block axis */
  quire_box row;   /* all but block and row axes; states: equal to block */
} quire_cache_view;

/* Checks a tensor's axes. BAD_REQUEST, BAD_TYPE, BAD_RANK, BAD_SHAPE; names tensor number `at`. */
quire_status quire_cache_view_make(const quire_cache_tensor *tensor, size_t at,
                                   quire_cache_view *view, quire_error *error);
/* The same of a tensor that is to be written: BAD_REQUEST too, if two of its elements may lie at
   one place. */
quire_status quire_cache_view_make_written(const quire_cache_tensor *tensor, size_t at,
                                           quire_cache_view *view, quire_error *error);
char *quire_cache_view_block(const quire_cache_view *view, int64_t block);
char *quire_cache_view_row(const quire_cache_view *view, int64_t block, int64_t row);

/* Between two places with the box's strides; to and from dense memory. */
void quire_box_copy(const quire_box *box, char *target, const char *source);
void quire_box_pack(const quire_box *box, char *dense, const char *source);
void quire_box_unpack(const quire_box *box, char *target, const char *dense);

#endif
