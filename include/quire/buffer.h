/*
 * Memory of a device, in one way for every device: what a tensor's `data` points to.
 *
 * On the CPU a buffer is host memory aligned to 64 bytes; on WebGPU a WGPUBuffer. Functions that
 * read, write and copy also take memory that the caller made (on WebGPU with the usages CopySrc and
 * CopyDst); offsets and sizes count bytes. A write is seen by every run that starts after it; a
 * read waits for what was submitted before it. Thread-safe for different buffers.
 */
#ifndef QUIRE_BUFFER_H
#define QUIRE_BUFFER_H

#include <stddef.h>
#include <stdint.h>

#include "quire/device.h"
#include "quire/export.h"
#include "quire/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Makes a buffer of at least `bytes` (0 is allowed), with unspecified content. On success *buffer
 * is the caller's, to be destroyed with quire_buffer_destroy() before the device is released.
 * Statuses: LIMIT (the device's largest buffer), OUT_OF_MEMORY (the budget too), DEVICE,
 * BAD_REQUEST.
 */
QUIRE_API quire_status quire_buffer_create(quire_device *device, uint64_t bytes, void **buffer,
                                           quire_error *error);
/* Gives a buffer back; NULL is allowed. Work that was submitted keeps it as long as it needs it. */
QUIRE_API void quire_buffer_destroy(quire_device *device, void *buffer);

/* Copies host memory into a buffer. Any offset and size. Statuses: BAD_REQUEST (outside the buffer,
   where its size is known; its usages), DEVICE, OUT_OF_MEMORY. */
QUIRE_API quire_status quire_buffer_write(quire_device *device, void *buffer, uint64_t offset,
                                          const void *data, uint64_t bytes, quire_error *error);
/* Copies a buffer into host memory. Statuses as quire_buffer_write(). */
QUIRE_API quire_status quire_buffer_read(quire_device *device, void *buffer, uint64_t offset,
                                         void *data, uint64_t bytes, quire_error *error);

/* A copy within memory of one device. Source and destination may be one buffer; the ranges of a
   copy must not overlap. */
typedef struct quire_buffer_copy_range {
  void *source;
  uint64_t source_offset;
  void *destination;
  uint64_t destination_offset;
  uint64_t bytes;
} quire_buffer_copy_range;

/* Carries out copies in their order. Statuses as quire_buffer_write(); nothing is copied unless
   every range lies in its buffer. */
QUIRE_API quire_status quire_buffer_copy(quire_device *device,
                                         const quire_buffer_copy_range *ranges, size_t count,
                                         quire_error *error);

#ifdef __cplusplus
}
#endif

#endif
