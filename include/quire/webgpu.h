/*
 * WebGPU devices: options, embedding into a program that uses WebGPU itself, adapters, timing.
 *
 * Needs no webgpu.h: handles are declared as that header declares them, so that a program that
 * includes it passes its WGPUDevice, WGPUBuffer, ... as they are. Tensors of a WebGPU device have
 * a WGPUBuffer as `data`; element (0, 0, ...) lies byte_offset bytes into it. docs/webgpu.md tells
 * the rest. In builds without webgpu.h every function here returns NOT_FOUND.
 */
#ifndef QUIRE_WEBGPU_H
#define QUIRE_WEBGPU_H

#include <stddef.h>
#include <stdint.h>

#include "quire/context.h"
#include "quire/device.h"
#include "quire/export.h"
#include "quire/plan.h"
#include "quire/status.h"
#include "quire/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

struct WGPUInstanceImpl;
struct WGPUAdapterImpl;
struct WGPUDeviceImpl;
struct WGPUQueueImpl;

/*
 * Where the library and the device come from. Nothing is kept of what the pointers point to, but
 * references are taken to handles.
 *
 * Library: `resolve`, else `library`, else the file that QUIRE_WEBGPU_LIBRARY names, else the
 * libraries that docs/webgpu.md lists. It must be the one that given handles come from.
 *
 * Device: the caller's if `device` is given; `instance` must then be given too, unless the library
 * is wgpu-native; its `adapter` lets plans know what it is (name, type), and take tuned values.
 * Else one is requested from `adapter`, or from the adapter that name and index
 * choose, with all of the adapter's limits. Without a choice: discrete GPUs before integrated ones
 * before others, software last.
 */
typedef struct quire_webgpu_options {
  size_t struct_size;
  const char *library;                            /* path of a shared library */
  void *(*resolve)(void *user, const char *name); /* address of a function such as
                                                     "wgpuCreateInstance"; NULL: there is none */
  void *resolve_user;

  struct WGPUInstanceImpl *instance;
  struct WGPUAdapterImpl *adapter;
  struct WGPUDeviceImpl *device;
  struct WGPUQueueImpl *queue; /* NULL: the device's */
  const char *adapter_name;    /* part of its name, in any case; NULL: any */
  int32_t adapter_index;       /* among those that the name leaves; -1: the best */

  int use_subgroups;      /* default 1; 0: plan as if the adapter had none */
  int trusted_shaders;    /* default 0; 1: leave out the run-time checks of loops and indices, where
                             the library can. The library's own shaders need none */
  int default_limits;     /* default 0; 1: request no more than every WebGPU device guarantees */
  uint64_t memory_budget; /* most bytes that buffers of this device may take together;
                             0: no limit but the adapter's */
  size_t pipeline_cache_size; /* compiled shaders kept, least recently used go first; 0: 256 */
  /* Calls whose bindings each workspace keeps, least recently used go first: recording the same
     plan on the same buffers again is faster, and the workspace keeps references to those buffers
     meanwhile. Default 0. At most 4096. */
  size_t kept_bindings;
  int as_hardware; /* default 0; 1: plan for a software adapter as if it were a GPU, by shaders that
                      its compiler takes long for */
} quire_webgpu_options;

/* Sets every member to its default. */
QUIRE_API void quire_webgpu_options_init(quire_webgpu_options *options);

/*
 * Opens a WebGPU device; both options may be NULL (quire_device_open() of "webgpu" is the same).
 * On success *device is the caller's, to be released with quire_device_release(); on failure it is
 * NULL. Statuses: NOT_FOUND (no library, or no such adapter: the message says what was tried),
 * BAD_REQUEST, DEVICE (with the adapter's message), OUT_OF_MEMORY.
 */
QUIRE_API quire_status quire_webgpu_device_open(quire_context *context,
                                                const quire_device_options *device_options,
                                                const quire_webgpu_options *options,
                                                quire_device **device, quire_error *error);

/* An adapter, as quire_webgpu_list_adapters() shows it. Texts may be empty. */
typedef struct quire_webgpu_adapter {
  int32_t index; /* best first */
  const char *name;
  const char *driver;
  const char *type;    /* "discrete GPU", "integrated GPU", "CPU", "unknown" */
  const char *backend; /* "Vulkan", "Metal", "D3D12", ... */
} quire_webgpu_adapter;

/* Receives one adapter; its texts are valid during the call only. */
typedef void quire_webgpu_adapter_function(void *user, const quire_webgpu_adapter *adapter);

/*
 * Calls `report` for each adapter that the library of these options (NULL: the default) offers, in
 * the order of adapter_index without a name. Statuses: NOT_FOUND (no library), DEVICE.
 */
QUIRE_API quire_status quire_webgpu_list_adapters(const quire_webgpu_options *options,
                                                  quire_webgpu_adapter_function *report, void *user,
                                                  quire_error *error);

/* The handles of an open WebGPU device, for callers that let Quire open it: borrowed, and valid as
   long as the device. NULL for other devices. */
QUIRE_API struct WGPUInstanceImpl *quire_webgpu_instance(const quire_device *device);
QUIRE_API struct WGPUDeviceImpl *quire_webgpu_device(const quire_device *device);
QUIRE_API struct WGPUQueueImpl *quire_webgpu_queue(const quire_device *device);

/* One planned call of a measurement. */
typedef struct quire_webgpu_call {
  quire_plan *plan;
  const quire_tensor *tensors; /* as for quire_plan_run() */
  size_t tensor_count;
  quire_workspace *workspace;
} quire_webgpu_call;

typedef struct quire_webgpu_times {
  double gpu_nanoseconds;    /* of all calls together, by the adapter's clock */
  double record_nanoseconds; /* of the host: recording all calls, without the submit */
} quire_webgpu_times;

/*
 * Records the calls one after the other, `repeat` times, runs them and waits. They share one
 * compute pass but where a call copies or clears buffers first. Statuses: those of
 * quire_plan_run(), UNSUPPORTED (the adapter has no timestamps).
 */
QUIRE_API quire_status quire_webgpu_measure(quire_device *device, const quire_webgpu_call *calls,
                                            size_t count, size_t repeat, quire_webgpu_times *times,
                                            quire_error *error);

/*
 * Time of a kernel that only reads `bytes` of a buffer (data of quire_buffer_create), `repeat`
 * times in one pass: the limit that memory sets. Statuses as quire_webgpu_measure().
 */
QUIRE_API quire_status quire_webgpu_measure_read(quire_device *device, void *buffer, uint64_t bytes,
                                                 size_t repeat, double *gpu_nanoseconds,
                                                 quire_error *error);

#ifdef __cplusplus
}
#endif

#endif
