/* A WebGPU device's own data, and what every part of the backend does with it. */
#ifndef QUIRE_DEVICE_WEBGPU_DEVICE_H
#define QUIRE_DEVICE_WEBGPU_DEVICE_H

#include <pthread.h>

#include "backend.h"
#include "webgpu_answer.h"
#include "webgpu_procs.h"

enum {
  QUIRE_WEBGPU_MOST_FEATURES = 8,
  QUIRE_WEBGPU_MOST_LIMITS = 16,
  QUIRE_WEBGPU_MOST_PROPERTIES = 12,
  QUIRE_WEBGPU_TEXT = 256,
  QUIRE_WEBGPU_MOST_BINDINGS = 24, /* of one pass */
  QUIRE_WEBGPU_DUMMY_BYTES = 256   /* between dummies: any offset alignment fits */
};

/* Features of wgpu-native that have no standard number there. */
enum {
  QUIRE_WEBGPU_NATIVE_SUBGROUP = 0x00030021,
  QUIRE_WEBGPU_NATIVE_SUBGROUP_BARRIER = 0x00030023
};

struct quire_webgpu_pipelines;

typedef struct quire_webgpu {
  const quire_allocator *allocator;
  quire_webgpu_procs procs;
  bool native; /* wgpu-native */
  WGPUInstance instance;
  WGPUAdapter adapter; /* NULL: the caller gave a device without its adapter */
  WGPUDevice device;
  WGPUQueue queue;
  /*
   * Held by whoever touches the members above or below, WebGPU's functions included: not every
   * implementation allows several threads on one device. Functions of this backend say if they
   * need it held.
   */
  pthread_mutex_t mutex;

  quire_webgpu_news *news;
  quire_webgpu_answer *answer; /* NULL: one never came, and the device counts as lost */

  bool has_subgroups, has_timestamps;
  bool standard_subgroups; /* WGSL must say `enable subgroups;` */
  bool trusted;
  WGPULimits limits;
  uint64_t budget; /* 0: none */
  uint64_t bytes;  /* of all buffers made here */

  struct quire_webgpu_pipelines *pipelines;
  size_t kept_bindings;   /* of each workspace */
  WGPUBuffer dummy_read;  /* stands for empty tensors */
  WGPUBuffer dummy_write; /* QUIRE_WEBGPU_MOST_BINDINGS pieces */
  WGPUBuffer staging;     /* for reading back; NULL until needed */
  uint64_t staging_bytes;

  const char *features[QUIRE_WEBGPU_MOST_FEATURES];
  quire_named_value limit_values[QUIRE_WEBGPU_MOST_LIMITS];
  quire_named_value properties[QUIRE_WEBGPU_MOST_PROPERTIES];
  char texts[QUIRE_WEBGPU_MOST_PROPERTIES][QUIRE_WEBGPU_TEXT];
  char model[QUIRE_WEBGPU_TEXT];
} quire_webgpu;

static inline quire_webgpu *quire_webgpu_of(const quire_device *device) {
  return device->backend_data;
}

static inline void quire_webgpu_lock(quire_webgpu *gpu) {
  (void)pthread_mutex_lock(&gpu->mutex);
}

static inline void quire_webgpu_unlock(quire_webgpu *gpu) {
  (void)pthread_mutex_unlock(&gpu->mutex);
}

/* ---- errors (webgpu_errors.c); the mutex is held ---- */

/* DEVICE with the reason, if the device is lost. */
quire_status quire_webgpu_check_lost(const quire_webgpu *gpu, quire_error *error);
/* Errors until the next end are kept from the device's own callback. */
void quire_webgpu_scope_begin(quire_webgpu *gpu);
/*
 * OK, or what happened since the begin: OUT_OF_MEMORY or DEVICE with the adapter's message.
 * Whatever was made in between must then be released and not used.
 */
quire_status quire_webgpu_scope_end(quire_webgpu *gpu, const char *subject, quire_error *error);
/* Waits for gpu->answer. DEVICE if it does not come: then the device counts as lost. */
quire_status quire_webgpu_wait(quire_webgpu *gpu, quire_error *error);
/* DEVICE: something is NULL that never should be. */
quire_status quire_webgpu_no_object(const char *subject, const char *what, quire_error *error);
/* An encoder of our own, in a scope. On failure there is neither. */
quire_status quire_webgpu_commands_begin(quire_webgpu *gpu, const char *subject,
                                         WGPUCommandEncoder *encoder, quire_error *error);
/* Ends both; `recorded` tells if what came in between went well, and `error` why not. NULL unless
   all is well. */
quire_status quire_webgpu_commands_end(quire_webgpu *gpu, WGPUCommandEncoder encoder,
                                       quire_status recorded, const char *subject,
                                       WGPUCommandBuffer *commands, quire_error *error);
/* Submits a command buffer, which it releases, and waits until it has run. */
quire_status quire_webgpu_submit(quire_webgpu *gpu, WGPUCommandBuffer commands, bool wait,
                                 quire_error *error);

/* ---- adapters (webgpu_adapter.c) ---- */

/* Callbacks that come without waiting belong to this; used before there is a device. */
quire_status quire_webgpu_choose_adapter(const quire_webgpu_options *options,
                                         const quire_webgpu_procs *procs, WGPUInstance instance,
                                         WGPUAdapter *adapter, quire_error *error);
const char *quire_webgpu_type_name(WGPUAdapterType type);
const char *quire_webgpu_backend_name(WGPUBackendType type);

/* ---- description (webgpu_describe.c) ---- */

/* Fills features, limits and properties of an open device, and its description; runs a probe. */
quire_status quire_webgpu_describe(quire_device *device, const quire_webgpu_options *options,
                                   quire_error *error);

/* ---- buffers (webgpu_buffer.c) ---- */

/* The mutex is held. LIMIT, OUT_OF_MEMORY (budget), DEVICE. bytes > 0; rounded up to 4. */
quire_status quire_webgpu_make_buffer(quire_webgpu *gpu, uint64_t bytes, WGPUBufferUsage usage,
                                      const char *subject, WGPUBuffer *buffer, quire_error *error);
/* NULL is allowed. The mutex is held. */
void quire_webgpu_drop_buffer(quire_webgpu *gpu, WGPUBuffer buffer);
/* A buffer with content for a uniform binding. The mutex is held. */
quire_status quire_webgpu_make_uniform(quire_webgpu *gpu, const void *data, uint64_t bytes,
                                       WGPUBuffer *buffer, quire_error *error);
/* Reads any range that lies in the buffer. The mutex is held. */
quire_status quire_webgpu_read(quire_webgpu *gpu, WGPUBuffer buffer, uint64_t offset, void *data,
                               uint64_t bytes, quire_error *error);

quire_status quire_webgpu_buffer_create(quire_device *device, uint64_t bytes, void **buffer,
                                        quire_error *error);
void quire_webgpu_buffer_destroy(quire_device *device, void *buffer);
quire_status quire_webgpu_buffer_write(quire_device *device, void *buffer, uint64_t offset,
                                       const void *data, uint64_t bytes, quire_error *error);
quire_status quire_webgpu_buffer_read(quire_device *device, void *buffer, uint64_t offset,
                                      void *data, uint64_t bytes, quire_error *error);
quire_status quire_webgpu_buffer_copy(quire_device *device, const quire_buffer_copy_range *ranges,
                                      size_t count, quire_error *error);

/* ---- pipelines (webgpu_pipeline.c); the mutex is held ---- */

/* A compiled pass. Both handles are references of the caller's. */
typedef struct quire_webgpu_pipeline {
  WGPUComputePipeline pipeline;
  WGPUBindGroupLayout layout;
} quire_webgpu_pipeline;

quire_status quire_webgpu_pipelines_create(quire_webgpu *gpu, size_t capacity, quire_error *error);
void quire_webgpu_pipelines_destroy(quire_webgpu *gpu);
/*
 * The pipeline of a text (`bytes` long) whose entry point is `main` and whose group 0 has `count`
 * buffers of these types; compiled unless it is kept. DEVICE with the compiler's message.
 */
quire_status quire_webgpu_pipeline_get(quire_webgpu *gpu, const char *text, size_t length,
                                       const WGPUBufferBindingType *types, size_t count,
                                       const char *label, quire_webgpu_pipeline *out,
                                       quire_error *error);
void quire_webgpu_pipeline_release(quire_webgpu *gpu, quire_webgpu_pipeline *pipeline);

#endif
