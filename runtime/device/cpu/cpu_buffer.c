#include "cpu_buffer.h"

#include <inttypes.h>
#include <string.h>

#include "error.h"

/* In front of the bytes: how many were allocated. */
enum { ALIGNMENT = 64, FRONT = 64 };

quire_status quire_cpu_buffer_create(quire_device *device, uint64_t bytes, void **buffer,
                                     quire_error *error) {
  if (bytes > SIZE_MAX - FRONT) {
    return quire_fail(error, QUIRE_LIMIT, NULL, "buffer", "%" PRIu64 " bytes exceed %d bits", bytes,
                      (int)(sizeof(size_t) * 8));
  }
  const size_t total = (size_t)bytes + FRONT;
  unsigned char *memory = quire_alloc(device->owner->allocator, total, ALIGNMENT);
  if (memory == NULL) {
    return quire_fail(error, QUIRE_OUT_OF_MEMORY, NULL, "buffer",
                      "%" PRIu64 " bytes cannot be allocated", bytes);
  }
  memcpy(memory, &total, sizeof total);
  *buffer = memory + FRONT;
  return QUIRE_OK;
}

void quire_cpu_buffer_destroy(quire_device *device, void *buffer) {
  unsigned char *memory = (unsigned char *)buffer - FRONT;
  size_t total = 0;
  memcpy(&total, memory, sizeof total);
  quire_dealloc(device->owner->allocator, memory, total, ALIGNMENT);
}

quire_status quire_cpu_buffer_write(quire_device *device, void *buffer, uint64_t offset,
                                    const void *data, uint64_t bytes, quire_error *error) {
  (void)device;
  (void)error;
  memcpy((unsigned char *)buffer + offset, data, (size_t)bytes);
  return QUIRE_OK;
}

quire_status quire_cpu_buffer_read(quire_device *device, void *buffer, uint64_t offset, void *data,
                                   uint64_t bytes, quire_error *error) {
  (void)device;
  (void)error;
  memcpy(data, (const unsigned char *)buffer + offset, (size_t)bytes);
  return QUIRE_OK;
}

quire_status quire_cpu_buffer_copy(quire_device *device, const quire_buffer_copy_range *ranges,
                                   size_t count, quire_error *error) {
  (void)device;
  (void)error;
  for (size_t i = 0; i < count; i++) {
    memcpy((unsigned char *)ranges[i].destination + ranges[i].destination_offset,
           (const unsigned char *)ranges[i].source + ranges[i].source_offset,
           (size_t)ranges[i].bytes);
  }
  return QUIRE_OK;
}
