/* Buffers of the CPU: host memory (quire/buffer.h). */
#ifndef QUIRE_DEVICE_CPU_BUFFER_H
#define QUIRE_DEVICE_CPU_BUFFER_H

#include "backend.h"

quire_status quire_cpu_buffer_create(quire_device *device, uint64_t bytes, void **buffer,
                                     quire_error *error);
void quire_cpu_buffer_destroy(quire_device *device, void *buffer);
quire_status quire_cpu_buffer_write(quire_device *device, void *buffer, uint64_t offset,
                                    const void *data, uint64_t bytes, quire_error *error);
quire_status quire_cpu_buffer_read(quire_device *device, void *buffer, uint64_t offset, void *data,
                                   uint64_t bytes, quire_error *error);
quire_status quire_cpu_buffer_copy(quire_device *device, const quire_buffer_copy_range *ranges,
                                   size_t count, quire_error *error);

#endif
