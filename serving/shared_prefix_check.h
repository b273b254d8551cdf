/* The checks of attention over a shared prefix, and where its parts lie. */
#ifndef QUIRE_SERVING_SHARED_PREFIX_CHECK_H
#define QUIRE_SERVING_SHARED_PREFIX_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "quire/serving.h"

/* Where the parts lie in the scratch. */
typedef struct quire_shared_prefix_parts {
  int64_t rows, heads, head_size;
  size_t output_bytes, lse_bytes;
  size_t prefix_output, suffix_output, prefix_lse, suffix_lse, merged_lse, slots, bytes;
} quire_shared_prefix_parts;

/*
 * Everything that the plain call of the suffixes does not see: the device, prefix_table and its
 * entries, scratch, outputs. BAD_PRESENCE, BAD_RANK, BAD_TYPE, BAD_SHAPE, BAD_VALUE, BAD_ALIAS,
 * BAD_REQUEST, UNSUPPORTED. The query has been checked.
 */
quire_status quire_shared_prefix_check(const quire_device *device,
                                       const quire_shared_prefix_args *args,
                                       const quire_shared_prefix_parts *part, quire_error *error);

#endif
