/* Objects of the library for tests: reference counts, errors, callbacks that wait. */
#ifndef QUIRE_TESTS_WEBGPU_ORDERED_OBJECTS_H
#define QUIRE_TESTS_WEBGPU_ORDERED_OBJECTS_H

#include <stdbool.h>
#include <stdint.h>
#include <webgpu.h>

#include "webgpu_ordered.h"

typedef enum ordered_kind {
  ORDERED_INSTANCE = 0x51550001,
  ORDERED_ADAPTER,
  ORDERED_DEVICE,
  ORDERED_QUEUE,
  ORDERED_BUFFER,
  ORDERED_LAYOUT,
  ORDERED_GROUP,
  ORDERED_PIPELINE_LAYOUT,
  ORDERED_MODULE,
  ORDERED_PIPELINE,
  ORDERED_QUERIES,
  ORDERED_ENCODER,
  ORDERED_PASS,
  ORDERED_COMMANDS
} ordered_kind;

enum { ORDERED_BINDINGS = 24, ORDERED_OWNED = 8 };

/* Every handle points to one. */
typedef struct ordered_object {
  ordered_kind kind;
  size_t references;
  bool is_invalid;
  struct WGPUDeviceImpl *device; /* held; NULL: none */
  /* Further objects that it holds, and memory that it owns. */
  struct ordered_object *held[ORDERED_BINDINGS + ORDERED_OWNED];
  size_t held_count;
  void *memory;
} ordered_object;

struct WGPUInstanceImpl {
  ordered_object object;
};
struct WGPUAdapterImpl {
  ordered_object object;
};
struct WGPUQueueImpl {
  ordered_object object;
};
struct WGPUQuerySetImpl {
  ordered_object object;
};
struct WGPUPipelineLayoutImpl {
  ordered_object object;
};
struct WGPUBufferImpl {
  ordered_object object;
  uint64_t size;
  WGPUBufferUsage usage;
  bool is_mapped, is_pending;
};
struct WGPUBindGroupLayoutImpl {
  ordered_object object;
  WGPUBufferBindingType types[ORDERED_BINDINGS];
  size_t count;
};
struct WGPUBindGroupImpl {
  ordered_object object;
  WGPUBindGroupLayout layout;
  WGPUBindGroupEntry entries[ORDERED_BINDINGS];
};
struct WGPUShaderModuleImpl {
  ordered_object object;
  uint64_t hash;
  bool is_probe; /* asks for the size of a subgroup */
};
struct WGPUComputePipelineImpl {
  ordered_object object;
  uint64_t hash;
  bool is_probe;
};

typedef struct ordered_command {
  struct ordered_command *next;
  WGPUBuffer source, destination; /* NULL source: zeros, or times */
  uint64_t source_offset, destination_offset, bytes;
  WGPUComputePipeline pipeline; /* NULL: no dispatch */
  WGPUBindGroup group;
  uint32_t grid[3];
  bool is_time;
  ordered_object *held[3];
} ordered_command;

struct WGPUCommandBufferImpl {
  ordered_object object;
  ordered_command *first;
  bool is_submitted;
};
struct WGPUCommandEncoderImpl {
  ordered_object object;
  ordered_command *first, **last;
  bool is_open, is_finished; /* a pass is open */
};
struct WGPUComputePassEncoderImpl {
  ordered_object object;
  WGPUCommandEncoder encoder;
  WGPUComputePipeline pipeline;
  WGPUBindGroup group;
  bool is_ended;
};

enum { ORDERED_SCOPES = 16 };
typedef struct ordered_scope {
  WGPUErrorFilter filter;
  WGPUErrorType type;
} ordered_scope;

struct WGPUDeviceImpl {
  ordered_object object;
  WGPUDeviceLostCallbackInfo lost;
  WGPUUncapturedErrorCallbackInfo uncaptured;
  ordered_scope scopes[ORDERED_SCOPES];
  size_t scope_count;
  bool is_lost, is_silent;
};

/* Ends the process: what wgpu-native does not forgive. */
_Noreturn void ordered_stop(const char *what);
/* The object of a handle, which must be alive and of that kind. */
ordered_object *ordered_check(const void *handle, ordered_kind kind);
/* Holds `device` (NULL: none). */
void *ordered_make(ordered_kind kind, size_t size, WGPUDevice device);
void ordered_hold(ordered_object *by, const void *handle);
void ordered_add_reference(void *handle, ordered_kind kind);
void ordered_release(void *handle, ordered_kind kind);
void ordered_free_commands(ordered_command *first);
void ordered_count(long by);
void ordered_count_submit(void);

#ifdef ORDERED_NATIVE
enum { ORDERED_IS_NATIVE = 1 };
#else
enum { ORDERED_IS_NATIVE = 0 };
#endif
/* Asks how this call fails; a loss of `device` (NULL: none) is carried out here. */
unsigned ordered_ask(const char *name, WGPUDevice device, unsigned ways);
void ordered_raise(WGPUDevice device, unsigned way);
/* Something of a device's: NULL if that is the order, an invalid object for errors. */
void *ordered_make_of(const char *name, WGPUDevice device, ordered_kind kind, size_t size);
#define ORDERED_MAKE(name, device, kind, type) \
  ordered_make_of(#name, device, kind, sizeof(struct type##Impl))
WGPUStringView ordered_text(const char *text);

/* Callbacks that wait. Exactly one of the functions is set. */
typedef struct ordered_event {
  struct ordered_event *next;
  WGPUDevice device; /* not held; NULL: of the instance */
  unsigned way;      /* how it fails */
  unsigned rounds;   /* left */
  WGPUErrorType type;
  WGPUBuffer buffer; /* of a mapping; not held */
  WGPURequestAdapterCallback on_adapter;
  WGPURequestDeviceCallback on_device;
  WGPUPopErrorScopeCallback on_scope;
  WGPUBufferMapCallback on_map;
  WGPUQueueWorkDoneCallback on_work;
  WGPUDeviceDescriptor descriptor; /* of a device */
  void *user;
} ordered_event;

/* Takes a copy; `now`: may come inside of this call. */
void ordered_add_event(const ordered_event *event, bool now);
void ordered_run_events(void);
/* Those that come when the device (NULL: the instance), or a buffer of it, goes. */
void ordered_cancel_events(WGPUDevice device, WGPUBuffer buffer);

#endif
