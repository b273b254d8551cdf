/* The functions of the library for tests. */
/* NOLINTBEGIN(readability-inconsistent-declaration-parameter-name): webgpu.h's are long. */
#include "webgpu_ordered.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "webgpu_ordered_objects.h"

enum { ANSWERED = ORDERED_REFUSED | ORDERED_LATE | ORDERED_NEVER | ORDERED_RELEASED };
enum { NATIVE_SUBGROUP = 0x00030021 };

static const WGPUFuture no_future = {0};

#ifdef ORDERED_NATIVE
/* Functions of wgpu-native's own header. */
uint32_t wgpuGetVersion(void);
WGPUBool wgpuDevicePoll(WGPUDevice device, WGPUBool wait, const uint64_t *submission);
float wgpuQueueGetTimestampPeriod(WGPUQueue queue);
size_t wgpuInstanceEnumerateAdapters(WGPUInstance instance, const void *options,
                                     WGPUAdapter *adapters);
#endif

/* ---- what makes something of a device ---- */

/* An object of another that is invalid is so too. */
static void depend(ordered_object *made, const void *on, ordered_kind kind) {
  const ordered_object *object = ordered_check(on, kind);
  ordered_hold(made, on);
  if (object->is_invalid && !made->is_invalid) {
    made->is_invalid = true;
    ordered_raise(made->device, ORDERED_VALIDATION);
  }
}

WGPUBuffer wgpuDeviceCreateBuffer(WGPUDevice device, WGPUBufferDescriptor const *descriptor) {
  WGPUBuffer made = ORDERED_MAKE(DeviceCreateBuffer, device, ORDERED_BUFFER, WGPUBuffer);
  if (made != NULL) {
    made->size = descriptor->size;
    made->usage = descriptor->usage;
    made->object.memory = calloc(1, descriptor->size + 1);
    if (made->object.memory == NULL) {
      ordered_stop("no memory");
    }
  }
  return made;
}

WGPUBindGroupLayout wgpuDeviceCreateBindGroupLayout(
    WGPUDevice device, WGPUBindGroupLayoutDescriptor const *descriptor) {
  WGPUBindGroupLayout made =
      ORDERED_MAKE(DeviceCreateBindGroupLayout, device, ORDERED_LAYOUT, WGPUBindGroupLayout);
  for (size_t i = 0; made != NULL && i < descriptor->entryCount; i++) {
    made->types[i] = descriptor->entries[i].buffer.type;
    made->count = descriptor->entryCount;
  }
  return made;
}

WGPUBindGroup wgpuDeviceCreateBindGroup(WGPUDevice device,
                                        WGPUBindGroupDescriptor const *descriptor) {
  WGPUBindGroup made = ORDERED_MAKE(DeviceCreateBindGroup, device, ORDERED_GROUP, WGPUBindGroup);
  if (made == NULL) {
    return NULL;
  }
  made->layout = descriptor->layout;
  depend(&made->object, descriptor->layout, ORDERED_LAYOUT);
  if (descriptor->entryCount != descriptor->layout->count) {
    ordered_stop("a bind group is not like its layout");
  }
  for (size_t i = 0; i < descriptor->entryCount; i++) {
    const WGPUBindGroupEntry *entry = &descriptor->entries[i];
    depend(&made->object, entry->buffer, ORDERED_BUFFER);
    if (entry->size == 0 || entry->offset + entry->size > entry->buffer->size) {
      ordered_stop("a binding is empty, or lies outside its buffer");
    }
    made->entries[entry->binding] = *entry;
  }
  return made;
}

WGPUPipelineLayout wgpuDeviceCreatePipelineLayout(WGPUDevice device,
                                                  WGPUPipelineLayoutDescriptor const *descriptor) {
  WGPUPipelineLayout made =
      ORDERED_MAKE(DeviceCreatePipelineLayout, device, ORDERED_PIPELINE_LAYOUT, WGPUPipelineLayout);
  if (made != NULL) {
    depend(&made->object, descriptor->bindGroupLayouts[0], ORDERED_LAYOUT);
  }
  return made;
}

WGPUShaderModule wgpuDeviceCreateShaderModule(WGPUDevice device,
                                              WGPUShaderModuleDescriptor const *descriptor) {
  static const char probe[] = "@builtin(subgroup_size) size";
  WGPUShaderModule made =
      ORDERED_MAKE(DeviceCreateShaderModule, device, ORDERED_MODULE, WGPUShaderModule);
  if (made == NULL) {
    return NULL;
  }
  const WGPUShaderSourceWGSL *source = (const void *)descriptor->nextInChain;
  const char *text = source->code.data;
  made->hash = 14695981039346656037u;
  for (size_t i = 0; i < source->code.length; i++) {
    made->hash = (made->hash ^ (unsigned char)text[i]) * 1099511628211u;
    made->is_probe = made->is_probe || (i + sizeof probe <= source->code.length &&
                                        memcmp(text + i, probe, sizeof probe - 1) == 0);
  }
  return made;
}

WGPUComputePipeline wgpuDeviceCreateComputePipeline(
    WGPUDevice device, WGPUComputePipelineDescriptor const *descriptor) {
  WGPUComputePipeline made =
      ORDERED_MAKE(DeviceCreateComputePipeline, device, ORDERED_PIPELINE, WGPUComputePipeline);
  if (made != NULL) {
    made->hash = descriptor->compute.module->hash;
    made->is_probe = descriptor->compute.module->is_probe;
    depend(&made->object, descriptor->compute.module, ORDERED_MODULE);
    depend(&made->object, descriptor->layout, ORDERED_PIPELINE_LAYOUT);
  }
  return made;
}

WGPUQuerySet wgpuDeviceCreateQuerySet(WGPUDevice device, WGPUQuerySetDescriptor const *descriptor) {
  (void)descriptor;
  return ORDERED_MAKE(DeviceCreateQuerySet, device, ORDERED_QUERIES, WGPUQuerySet);
}

WGPUCommandEncoder wgpuDeviceCreateCommandEncoder(WGPUDevice device,
                                                  WGPUCommandEncoderDescriptor const *descriptor) {
  (void)descriptor;
  WGPUCommandEncoder made =
      ORDERED_MAKE(DeviceCreateCommandEncoder, device, ORDERED_ENCODER, WGPUCommandEncoder);
  if (made != NULL) {
    made->last = &made->first;
  }
  return made;
}

/* ---- buffers ---- */

void wgpuQueueWriteBuffer(WGPUQueue queue, WGPUBuffer buffer, uint64_t offset, void const *data,
                          size_t size) {
  (void)ordered_check(queue, ORDERED_QUEUE);
  (void)ordered_check(buffer, ORDERED_BUFFER);
  const unsigned way =
      ordered_ask("QueueWriteBuffer", queue->object.device, ORDERED_VALIDATION | ORDERED_MEMORY);
  if (offset % 4 != 0 || size % 4 != 0 || offset + size > buffer->size) {
    ordered_stop("a write outside its buffer, or not of words");
  }
  if ((way & (ORDERED_VALIDATION | ORDERED_MEMORY)) != 0) {
    ordered_raise(queue->object.device, way);
  } else if (!queue->object.device->is_lost) {
    memcpy((unsigned char *)buffer->object.memory + offset, data, size);
  }
}

WGPUFuture wgpuBufferMapAsync(WGPUBuffer buffer, WGPUMapMode mode, size_t offset, size_t size,
                              WGPUBufferMapCallbackInfo info) {
  (void)mode, (void)offset, (void)size;
  (void)ordered_check(buffer, ORDERED_BUFFER);
  if (buffer->is_mapped || buffer->is_pending) {
    ordered_stop("a buffer is mapped twice");
  }
  ordered_event event = {.device = buffer->object.device, .buffer = buffer};
  event.way = ordered_ask("BufferMapAsync", buffer->object.device, ANSWERED);
  event.on_map = info.callback;
  event.user = info.userdata1;
  buffer->is_pending = true;
  ordered_add_event(&event, false);
  return no_future;
}

void const *wgpuBufferGetConstMappedRange(WGPUBuffer buffer, size_t offset, size_t size) {
  (void)ordered_check(buffer, ORDERED_BUFFER);
  if (!buffer->is_mapped || offset + size > buffer->size) {
    ordered_stop("a range that is not mapped is asked for");
  }
  const unsigned way =
      ordered_ask("BufferGetConstMappedRange", buffer->object.device, ORDERED_NULL);
  return way == ORDERED_NULL ? NULL : (unsigned char *)buffer->object.memory + offset;
}

void *wgpuBufferGetMappedRange(WGPUBuffer buffer, size_t offset, size_t size) {
  (void)buffer, (void)offset, (void)size;
  ordered_stop("BufferGetMappedRange is called");
}

void wgpuBufferUnmap(WGPUBuffer buffer) {
  (void)ordered_check(buffer, ORDERED_BUFFER);
  (void)ordered_ask("BufferUnmap", buffer->object.device, 0);
  buffer->is_mapped = false;
}

uint64_t wgpuBufferGetSize(WGPUBuffer buffer) {
  (void)ordered_check(buffer, ORDERED_BUFFER);
  return buffer->size;
}

WGPUBufferUsage wgpuBufferGetUsage(WGPUBuffer buffer) {
  (void)ordered_check(buffer, ORDERED_BUFFER);
  return buffer->usage;
}

/* ---- instances, adapters, devices ---- */

WGPUInstance wgpuCreateInstance(WGPUInstanceDescriptor const *descriptor) {
  (void)descriptor;
  return ordered_ask("CreateInstance", NULL, ORDERED_NULL) == ORDERED_NULL
             ? NULL
             : ordered_make(ORDERED_INSTANCE, sizeof(struct WGPUInstanceImpl), NULL);
}

void wgpuInstanceProcessEvents(WGPUInstance instance) {
  (void)ordered_check(instance, ORDERED_INSTANCE);
  ordered_run_events();
}

WGPUFuture wgpuInstanceRequestAdapter(WGPUInstance instance,
                                      WGPURequestAdapterOptions const *options,
                                      WGPURequestAdapterCallbackInfo info) {
  (void)options;
  (void)ordered_check(instance, ORDERED_INSTANCE);
  ordered_event event = {.on_adapter = info.callback, .user = info.userdata1};
  event.way = ordered_ask("InstanceRequestAdapter", NULL, ANSWERED | ORDERED_NULL);
  ordered_add_event(&event, true);
  return no_future;
}

WGPUFuture wgpuAdapterRequestDevice(WGPUAdapter adapter, WGPUDeviceDescriptor const *descriptor,
                                    WGPURequestDeviceCallbackInfo info) {
  (void)ordered_check(adapter, ORDERED_ADAPTER);
  ordered_event event = {.on_device = info.callback, .user = info.userdata1};
  event.way = ordered_ask("AdapterRequestDevice", NULL, ANSWERED | ORDERED_NULL);
  event.descriptor = *descriptor;
  ordered_add_event(&event, true);
  return no_future;
}

static WGPUStringView copy(const char *text) {
  char *made = malloc(strlen(text) + 1);
  if (made == NULL) {
    ordered_stop("no memory");
  }
  memcpy(made, text, strlen(text) + 1);
  ordered_count(1);
  return (WGPUStringView){made, strlen(text)};
}

WGPUStatus wgpuAdapterGetInfo(WGPUAdapter adapter, WGPUAdapterInfo *info) {
  (void)ordered_check(adapter, ORDERED_ADAPTER);
  if (ordered_ask("AdapterGetInfo", NULL, ORDERED_NULL) == ORDERED_NULL) {
    return WGPUStatus_Error;
  }
  memset(info, 0, sizeof *info);
  info->device = copy("ordered");
  info->description = copy("for tests");
  info->backendType = WGPUBackendType_Vulkan;
  info->adapterType = WGPUAdapterType_CPU;
  info->subgroupMinSize = info->subgroupMaxSize = ORDERED_IS_NATIVE != 0 ? 0 : 8;
  return WGPUStatus_Success;
}

void wgpuAdapterInfoFreeMembers(WGPUAdapterInfo info) {
  free((void *)(uintptr_t)info.device.data);
  free((void *)(uintptr_t)info.description.data);
  ordered_count(-2);
}

static WGPUStatus get_limits(const char *name, WGPUDevice device, WGPULimits *limits) {
  if (ordered_ask(name, device, ORDERED_NULL) == ORDERED_NULL) {
    return WGPUStatus_Error;
  }
  memset(limits, 0, sizeof *limits);
  limits->maxBindGroups = 4;
  limits->maxBindingsPerBindGroup = 1000;
  limits->maxStorageBuffersPerShaderStage = 16;
  limits->maxUniformBuffersPerShaderStage = 12;
  limits->maxUniformBufferBindingSize = 65536;
  limits->maxStorageBufferBindingSize = 1 << 27;
  limits->minUniformBufferOffsetAlignment = 256;
  limits->minStorageBufferOffsetAlignment = 32;
  limits->maxBufferSize = 1 << 28;
  limits->maxComputeWorkgroupStorageSize = 32768;
  limits->maxComputeInvocationsPerWorkgroup = 1024;
  limits->maxComputeWorkgroupSizeX = limits->maxComputeWorkgroupSizeY = 1024;
  limits->maxComputeWorkgroupSizeZ = 64;
  limits->maxComputeWorkgroupsPerDimension = 65535;
  return WGPUStatus_Success;
}

WGPUStatus wgpuAdapterGetLimits(WGPUAdapter adapter, WGPULimits *limits) {
  (void)ordered_check(adapter, ORDERED_ADAPTER);
  return get_limits("AdapterGetLimits", NULL, limits);
}

WGPUStatus wgpuDeviceGetLimits(WGPUDevice device, WGPULimits *limits) {
  (void)ordered_check(device, ORDERED_DEVICE);
  return get_limits("DeviceGetLimits", device, limits);
}

static WGPUBool has(WGPUFeatureName feature) {
  return feature == WGPUFeatureName_TimestampQuery || feature == WGPUFeatureName_ShaderF16 ||
         (int)feature ==
             (ORDERED_IS_NATIVE != 0 ? NATIVE_SUBGROUP : (int)WGPUFeatureName_Subgroups);
}

WGPUBool wgpuAdapterHasFeature(WGPUAdapter adapter, WGPUFeatureName feature) {
  (void)ordered_check(adapter, ORDERED_ADAPTER);
  return has(feature);
}

WGPUBool wgpuDeviceHasFeature(WGPUDevice device, WGPUFeatureName feature) {
  (void)ordered_check(device, ORDERED_DEVICE);
  return has(feature);
}

WGPUQueue wgpuDeviceGetQueue(WGPUDevice device) {
  (void)ordered_check(device, ORDERED_DEVICE);
  return ordered_ask("DeviceGetQueue", device, ORDERED_NULL) == ORDERED_NULL
             ? NULL
             : ordered_make(ORDERED_QUEUE, sizeof(struct WGPUQueueImpl), device);
}

void wgpuDevicePushErrorScope(WGPUDevice device, WGPUErrorFilter filter) {
  (void)ordered_check(device, ORDERED_DEVICE);
  (void)ordered_ask("DevicePushErrorScope", device, 0);
  if (device->scope_count == ORDERED_SCOPES ||
      (ORDERED_IS_NATIVE != 0 && filter == WGPUErrorFilter_Internal)) {
    ordered_stop("too many error scopes, or one that wgpu-native lacks");
  }
  device->scopes[device->scope_count++] = (ordered_scope){filter, WGPUErrorType_NoError};
}

WGPUFuture wgpuDevicePopErrorScope(WGPUDevice device, WGPUPopErrorScopeCallbackInfo info) {
  (void)ordered_check(device, ORDERED_DEVICE);
  if (device->scope_count == 0) {
    ordered_stop("an error scope is closed that was not opened");
  }
  ordered_event event = {.device = device, .on_scope = info.callback, .user = info.userdata1};
  event.way = ordered_ask("DevicePopErrorScope", device, ANSWERED);
  event.type = device->scopes[--device->scope_count].type;
  ordered_add_event(&event, true);
  return no_future;
}

WGPUFuture wgpuQueueOnSubmittedWorkDone(WGPUQueue queue, WGPUQueueWorkDoneCallbackInfo info) {
  (void)ordered_check(queue, ORDERED_QUEUE);
  ordered_event event = {.device = queue->object.device};
  event.way = ordered_ask("QueueOnSubmittedWorkDone", queue->object.device, ANSWERED);
  event.on_work = info.callback;
  event.user = info.userdata1;
  ordered_add_event(&event, false);
  return no_future;
}

/* ---- references ---- */

#define ADD_REFERENCE(type, kind)              \
  void wgpu##type##AddRef(WGPU##type handle) { \
    ordered_add_reference(handle, kind);       \
  }
#define RELEASE(type, kind)                     \
  void wgpu##type##Release(WGPU##type handle) { \
    ordered_release(handle, kind);              \
  }
ADD_REFERENCE(Instance, ORDERED_INSTANCE)
ADD_REFERENCE(Adapter, ORDERED_ADAPTER)
ADD_REFERENCE(Device, ORDERED_DEVICE)
ADD_REFERENCE(Queue, ORDERED_QUEUE)
ADD_REFERENCE(Buffer, ORDERED_BUFFER)
ADD_REFERENCE(ComputePipeline, ORDERED_PIPELINE)
ADD_REFERENCE(BindGroupLayout, ORDERED_LAYOUT)
RELEASE(Instance, ORDERED_INSTANCE)
RELEASE(Adapter, ORDERED_ADAPTER)
RELEASE(Device, ORDERED_DEVICE)
RELEASE(Queue, ORDERED_QUEUE)
RELEASE(Buffer, ORDERED_BUFFER)
RELEASE(BindGroupLayout, ORDERED_LAYOUT)
RELEASE(BindGroup, ORDERED_GROUP)
RELEASE(PipelineLayout, ORDERED_PIPELINE_LAYOUT)
RELEASE(ShaderModule, ORDERED_MODULE)
RELEASE(ComputePipeline, ORDERED_PIPELINE)
RELEASE(QuerySet, ORDERED_QUERIES)
RELEASE(CommandEncoder, ORDERED_ENCODER)
RELEASE(ComputePassEncoder, ORDERED_PASS)
RELEASE(CommandBuffer, ORDERED_COMMANDS)

/* ---- wgpu-native's own, and what tells that the header is new ---- */

#ifdef ORDERED_NATIVE
uint32_t wgpuGetVersion(void) {
  return 0x1d000101;
}

WGPUBool wgpuDevicePoll(WGPUDevice device, WGPUBool wait, const uint64_t *submission) {
  (void)wait, (void)submission;
  (void)ordered_check(device, ORDERED_DEVICE);
  (void)ordered_ask("DevicePoll", device, 0);
  ordered_run_events();
  return 1;
}

float wgpuQueueGetTimestampPeriod(WGPUQueue queue) {
  (void)ordered_check(queue, ORDERED_QUEUE);
  return 1;
}

size_t wgpuInstanceEnumerateAdapters(WGPUInstance instance, const void *options,
                                     WGPUAdapter *adapters) {
  (void)options;
  (void)ordered_check(instance, ORDERED_INSTANCE);
  if (ordered_ask("InstanceEnumerateAdapters", NULL, ORDERED_NULL) == ORDERED_NULL) {
    return 0;
  }
  if (adapters != NULL) {
    adapters[0] = ordered_make(ORDERED_ADAPTER, sizeof(struct WGPUAdapterImpl), NULL);
  }
  return 1;
}
#endif

WGPUStatus wgpuGetInstanceLimits(WGPUInstanceLimits *limits) {
  (void)limits;
  return WGPUStatus_Success;
}

WGPUTextureViewDimension wgpuTextureGetTextureBindingViewDimension(WGPUTexture texture) {
  (void)texture;
  return WGPUTextureViewDimension_Undefined;
}
/* NOLINTEND(readability-inconsistent-declaration-parameter-name) */
