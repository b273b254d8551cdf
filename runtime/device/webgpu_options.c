/* The part of quire/webgpu.h that every build has. */
#include <string.h>

#include "error.h"
#include "quire/webgpu.h"

void quire_webgpu_options_init(quire_webgpu_options *options) {
  if (options == NULL) {
    return;
  }
  memset(options, 0, sizeof *options);
  options->struct_size = sizeof *options;
  options->adapter_index = -1;
  options->use_subgroups = 1;
}

#ifndef QUIRE_WITH_WEBGPU

static quire_status not_found(quire_error *error) {
  return quire_fail(error, QUIRE_NOT_FOUND, NULL, "webgpu", "this build has no such device");
}

quire_status quire_webgpu_list_adapters(const quire_webgpu_options *options,
                                        quire_webgpu_adapter_function *report, void *user,
                                        quire_error *error) {
  (void)options;
  (void)report;
  (void)user;
  return not_found(error);
}

struct WGPUInstanceImpl *quire_webgpu_instance(const quire_device *device) {
  (void)device;
  return NULL;
}

struct WGPUDeviceImpl *quire_webgpu_device(const quire_device *device) {
  (void)device;
  return NULL;
}

struct WGPUQueueImpl *quire_webgpu_queue(const quire_device *device) {
  (void)device;
  return NULL;
}

quire_status quire_webgpu_measure(quire_device *device, const quire_webgpu_call *calls,
                                  size_t count, size_t repeat, quire_webgpu_times *times,
                                  quire_error *error) {
  (void)device;
  (void)calls;
  (void)count;
  (void)repeat;
  (void)times;
  return not_found(error);
}

/* Its twin in builds with webgpu.h writes the result. */
quire_status quire_webgpu_measure_read(quire_device *device, void *buffer, uint64_t bytes,
                                       /* NOLINTNEXTLINE(readability-non-const-parameter) */
                                       size_t repeat, double *gpu_nanoseconds, quire_error *error) {
  (void)device;
  (void)buffer;
  (void)bytes;
  (void)repeat;
  (void)gpu_nanoseconds;
  return not_found(error);
}

#endif
