/*
 * What program.c uses of Quire 0.1, as the public headers declared it when the interface was
 * recorded. Not to be changed with them: a program that was built then sees this, whatever the
 * headers say today. The next SOVERSION gets a new file.
 */
#ifndef QUIRE_TESTS_ABI_INTERFACE_0_1_H
#define QUIRE_TESTS_ABI_INTERFACE_0_1_H

#include <stddef.h>
#include <stdint.h>

typedef int quire_status; /* 0: OK, 13: BAD_REQUEST */
typedef int quire_dtype;  /* 1: float32, 7: int32 */

typedef struct quire_error {
  quire_status status;
  char rule[16];
  char subject[128];
  char message[1024];
} quire_error;

typedef struct quire_tensor {
  void *data;
  uint64_t byte_offset;
  quire_dtype dtype;
  int32_t ndim;
  const int64_t *shape;
  const int64_t *strides;
} quire_tensor;

typedef struct quire_context quire_context;
typedef struct quire_device quire_device;
typedef struct quire_workspace quire_workspace;
typedef struct quire_executor quire_executor;

typedef struct quire_context_options {
  size_t struct_size;
  const void *allocator;
} quire_context_options;

typedef struct quire_device_options {
  size_t struct_size;
  size_t threads;
  const quire_executor *executor;
  int isa;
  size_t plan_cache_size;
  const void *webgpu;
} quire_device_options;

typedef struct quire_workspace_options {
  size_t struct_size;
  void *memory;
  size_t bytes;
} quire_workspace_options;

typedef struct quire_run_options {
  size_t struct_size;
  const quire_executor *executor;
  uint32_t flags;
  void *encoder;
} quire_run_options;

typedef struct quire_workspace_counters {
  uint64_t prepared, reused, allocated, bytes;
} quire_workspace_counters;

typedef struct quire_paged_decode_args {
  size_t struct_size;
  quire_tensor query, key_pages, value_pages, page_table, context_lengths, key_scales, value_scales,
      head_sink;
  quire_tensor output, softmax_lse;
  float scale;
  int64_t partial_blocks, context_bound, local_window_size;
  quire_workspace *workspace;
  const quire_executor *executor;
} quire_paged_decode_args;

void quire_context_options_init(quire_context_options *options);
quire_status quire_context_create(const quire_context_options *options, quire_context **context,
                                  quire_error *error);
void quire_context_release(quire_context *context);
void quire_device_options_init(quire_device_options *options);
quire_status quire_device_open(quire_context *context, const char *name,
                               const quire_device_options *options, quire_device **device,
                               quire_error *error);
void quire_device_release(quire_device *device);
void quire_workspace_options_init(quire_workspace_options *options);
quire_status quire_workspace_create(quire_device *device, const quire_workspace_options *options,
                                    quire_workspace **workspace, quire_error *error);
void quire_workspace_get_counters(const quire_workspace *workspace,
                                  quire_workspace_counters *counters);
void quire_workspace_release(quire_workspace *workspace);
void quire_run_options_init(quire_run_options *options);
void quire_paged_decode_args_init(quire_paged_decode_args *args);
quire_status quire_paged_decode(quire_device *device, const quire_paged_decode_args *args,
                                quire_error *error);

#endif
