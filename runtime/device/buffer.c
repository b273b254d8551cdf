/* Memory of any device (quire/buffer.h): the backend does it. */
#include "quire/buffer.h"

#include <inttypes.h>

#include "backend.h"
#include "error.h"

static quire_status refuse_null(const char *name, quire_error *error) {
  return quire_fail(error, QUIRE_BAD_REQUEST, NULL, name, "is NULL");
}

quire_status quire_buffer_create(quire_device *device, uint64_t bytes, void **buffer,
                                 quire_error *error) {
  if (buffer == NULL) {
    return refuse_null("buffer", error);
  }
  *buffer = NULL;
  if (device == NULL) {
    return refuse_null("device", error);
  }
  return device->backend->buffer_create(device, bytes, buffer, error);
}

void quire_buffer_destroy(quire_device *device, void *buffer) {
  if (device != NULL && buffer != NULL) {
    device->backend->buffer_destroy(device, buffer);
  }
}

static quire_status check_transfer(const quire_device *device, const void *buffer, const void *data,
                                   uint64_t offset, uint64_t bytes, quire_error *error) {
  if (device == NULL || buffer == NULL || (data == NULL && bytes > 0)) {
    return refuse_null(device == NULL ? "device" : (buffer == NULL ? "buffer" : "data"), error);
  }
  if (bytes > SIZE_MAX || offset > UINT64_MAX - bytes) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, "buffer",
                      "%" PRIu64 " bytes from %" PRIu64 " on leave the address space", bytes,
                      offset);
  }
  return QUIRE_OK;
}

quire_status quire_buffer_write(quire_device *device, void *buffer, uint64_t offset,
                                const void *data, uint64_t bytes, quire_error *error) {
  QUIRE_TRY(check_transfer(device, buffer, data, offset, bytes, error));
  return bytes == 0 ? QUIRE_OK
                    : device->backend->buffer_write(device, buffer, offset, data, bytes, error);
}

quire_status quire_buffer_read(quire_device *device, void *buffer, uint64_t offset, void *data,
                               uint64_t bytes, quire_error *error) {
  QUIRE_TRY(check_transfer(device, buffer, data, offset, bytes, error));
  return bytes == 0 ? QUIRE_OK
                    : device->backend->buffer_read(device, buffer, offset, data, bytes, error);
}

static quire_status check_range(const quire_buffer_copy_range *range, size_t index,
                                quire_error *error) {
  const uint64_t bytes = range->bytes;
  if (range->source == NULL || range->destination == NULL) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, "ranges", "range %zu: a buffer is NULL",
                      index);
  }
  if (bytes > SIZE_MAX || range->source_offset > UINT64_MAX - bytes ||
      range->destination_offset > UINT64_MAX - bytes) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, "ranges",
                      "range %zu: %" PRIu64 " bytes leave the address space", index, bytes);
  }
  if (range->source == range->destination &&
      range->source_offset < range->destination_offset + bytes &&
      range->destination_offset < range->source_offset + bytes && bytes > 0) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, "ranges",
                      "range %zu: %" PRIu64 " bytes from %" PRIu64 " to %" PRIu64 " overlap", index,
                      bytes, range->source_offset, range->destination_offset);
  }
  return QUIRE_OK;
}

quire_status quire_buffer_copy(quire_device *device, const quire_buffer_copy_range *ranges,
                               size_t count, quire_error *error) {
  if (device == NULL || (ranges == NULL && count > 0)) {
    return refuse_null(device == NULL ? "device" : "ranges", error);
  }
  for (size_t i = 0; i < count; i++) {
    QUIRE_TRY(check_range(&ranges[i], i, error));
  }
  return device->backend->buffer_copy(device, ranges, count, error);
}
