/* The functions of the library for tests. */
/* NOLINTBEGIN(readability-inconsistent-declaration-parameter-name): webgpu.h's are long. */
#include "webgpu_ordered.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "webgpu_ordered_objects.h"

enum { MADE = ORDERED_NULL | ORDERED_VALIDATION | ORDERED_MEMORY };
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

/* NULL if that is the order, an invalid object for errors. */
static void *make(const char *name, WGPUDevice device, ordered_kind kind, size_t size) {
  (void)ordered_check(device, ORDERED_DEVICE);
  /* What is compiled can fail inside. */
  const bool is_compiled = kind == ORDERED_MODULE || kind == ORDERED_PIPELINE;
  const unsigned ways = MADE | (is_compiled ? ORDERED_INTERNAL : 0);
  const unsigned way = ordered_ask(name, device, ways);
  if (way == ORDERED_NULL) {
    return NULL;
  }
  ordered_object *made = ordered_make(kind, size, device);
  if ((way & ways) != 0) {
    made->is_invalid = true;
    ordered_raise(device, way);
  }
  return made;
}

#define MAKE(name, device, kind, type) make(#name, device, kind, sizeof(struct type##Impl))

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
  WGPUBuffer made = MAKE(DeviceCreateBuffer, device, ORDERED_BUFFER, WGPUBuffer);
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
      MAKE(DeviceCreateBindGroupLayout, device, ORDERED_LAYOUT, WGPUBindGroupLayout);
  for (size_t i = 0; made != NULL && i < descriptor->entryCount; i++) {
    made->types[i] = descriptor->entries[i].buffer.type;
    made->count = descriptor->entryCount;
  }
  return made;
}

WGPUBindGroup wgpuDeviceCreateBindGroup(WGPUDevice device,
                                        WGPUBindGroupDescriptor const *descriptor) {
  WGPUBindGroup made = MAKE(DeviceCreateBindGroup, device, ORDERED_GROUP, WGPUBindGroup);
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
      MAKE(DeviceCreatePipelineLayout, device, ORDERED_PIPELINE_LAYOUT, WGPUPipelineLayout);
  if (made != NULL) {
    depend(&made->object, descriptor->bindGroupLayouts[0], ORDERED_LAYOUT);
  }
  return made;
}

WGPUShaderModule wgpuDeviceCreateShaderModule(WGPUDevice device,
                                              WGPUShaderModuleDescriptor const *descriptor) {
  static const char probe[] = "@builtin(subgroup_size) size";
  WGPUShaderModule made = MAKE(DeviceCreateShaderModule, device, ORDERED_MODULE, WGPUShaderModule);
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
      MAKE(DeviceCreateComputePipeline, device, ORDERED_PIPELINE, WGPUComputePipeline);
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
  return MAKE(DeviceCreateQuerySet, device, ORDERED_QUERIES, WGPUQuerySet);
}

WGPUCommandEncoder wgpuDeviceCreateCommandEncoder(WGPUDevice device,
                                                  WGPUCommandEncoderDescriptor const *descriptor) {
  (void)descriptor;
  WGPUCommandEncoder made =
      MAKE(DeviceCreateCommandEncoder, device, ORDERED_ENCODER, WGPUCommandEncoder);
  if (made != NULL) {
    made->last = &made->first;
  }
  return made;
}

/* ---- commands ---- */

/* An error in a command makes the encoder invalid, and is told when it is finished. */
static ordered_command *record(const char *name, WGPUCommandEncoder encoder) {
  (void)ordered_check(encoder, ORDERED_ENCODER);
  if (encoder->is_finished) {
    ordered_stop("a command for an encoder that is finished");
  }
  if (ordered_ask(name, encoder->object.device, ORDERED_VALIDATION) == ORDERED_VALIDATION) {
    encoder->object.is_invalid = true;
  }
  ordered_command *made = calloc(1, sizeof *made);
  if (made == NULL) {
    ordered_stop("no memory");
  }
  *encoder->last = made;
  encoder->last = &made->next;
  return made;
}

static void use(WGPUCommandEncoder encoder, ordered_command *command, size_t place,
                const void *handle, ordered_kind kind) {
  ordered_object *object = ordered_check(handle, kind);
  encoder->object.is_invalid = encoder->object.is_invalid || object->is_invalid;
  object->references++;
  command->held[place] = object;
}

static void use_range(WGPUCommandEncoder encoder, ordered_command *command, size_t place,
                      WGPUBuffer buffer, uint64_t offset, uint64_t bytes) {
  use(encoder, command, place, buffer, ORDERED_BUFFER);
  if (offset % 4 != 0 || bytes % 4 != 0 || offset > buffer->size || bytes > buffer->size - offset) {
    ordered_stop("a copy outside its buffer, or not of words");
  }
}

void wgpuCommandEncoderCopyBufferToBuffer(WGPUCommandEncoder encoder, WGPUBuffer source,
                                          uint64_t source_offset, WGPUBuffer destination,
                                          uint64_t destination_offset, uint64_t size) {
  ordered_command *made = record("CommandEncoderCopyBufferToBuffer", encoder);
  use_range(encoder, made, 0, source, source_offset, size);
  use_range(encoder, made, 1, destination, destination_offset, size);
  if (source == destination) {
    ordered_stop("a copy within one buffer");
  }
  made->source = source;
  made->source_offset = source_offset;
  made->destination = destination;
  made->destination_offset = destination_offset;
  made->bytes = size;
}

void wgpuCommandEncoderClearBuffer(WGPUCommandEncoder encoder, WGPUBuffer buffer, uint64_t offset,
                                   uint64_t size) {
  ordered_command *made = record("CommandEncoderClearBuffer", encoder);
  use_range(encoder, made, 1, buffer, offset, size);
  made->destination = buffer;
  made->destination_offset = offset;
  made->bytes = size;
}

void wgpuCommandEncoderResolveQuerySet(WGPUCommandEncoder encoder, WGPUQuerySet queries,
                                       uint32_t first, uint32_t count, WGPUBuffer destination,
                                       uint64_t offset) {
  (void)first;
  ordered_command *made = record("CommandEncoderResolveQuerySet", encoder);
  use(encoder, made, 0, queries, ORDERED_QUERIES);
  use_range(encoder, made, 1, destination, offset, count * sizeof(uint64_t));
  made->destination = destination;
  made->destination_offset = offset;
  made->bytes = count * sizeof(uint64_t);
  made->is_time = true;
}

WGPUComputePassEncoder wgpuCommandEncoderBeginComputePass(
    WGPUCommandEncoder encoder, WGPUComputePassDescriptor const *descriptor) {
  (void)ordered_check(encoder, ORDERED_ENCODER);
  if (encoder->is_open) {
    ordered_stop("two passes at once");
  }
  const unsigned way = ordered_ask("CommandEncoderBeginComputePass", encoder->object.device,
                                   ORDERED_NULL | ORDERED_VALIDATION);
  if (way == ORDERED_NULL) {
    return NULL;
  }
  if (descriptor != NULL && descriptor->timestampWrites != NULL) {
    (void)ordered_check(descriptor->timestampWrites->querySet, ORDERED_QUERIES);
  }
  WGPUComputePassEncoder made = ordered_make(ORDERED_PASS, sizeof *made, encoder->object.device);
  ordered_hold(&made->object, encoder);
  made->encoder = encoder;
  encoder->object.is_invalid = encoder->object.is_invalid || way == ORDERED_VALIDATION;
  encoder->is_open = true;
  return made;
}

static WGPUComputePassEncoder open_pass(const char *name, WGPUComputePassEncoder pass) {
  (void)ordered_check(pass, ORDERED_PASS);
  if (pass->is_ended) {
    ordered_stop("a command for a pass that has ended");
  }
  if (ordered_ask(name, pass->object.device, ORDERED_VALIDATION) == ORDERED_VALIDATION) {
    pass->encoder->object.is_invalid = true;
  }
  return pass;
}

void wgpuComputePassEncoderSetPipeline(WGPUComputePassEncoder pass, WGPUComputePipeline pipeline) {
  (void)ordered_check(pipeline, ORDERED_PIPELINE);
  open_pass("ComputePassEncoderSetPipeline", pass)->pipeline = pipeline;
}

void wgpuComputePassEncoderSetBindGroup(WGPUComputePassEncoder pass, uint32_t index,
                                        WGPUBindGroup group, size_t offset_count,
                                        uint32_t const *offsets) {
  (void)ordered_check(group, ORDERED_GROUP);
  (void)index, (void)offset_count, (void)offsets;
  open_pass("ComputePassEncoderSetBindGroup", pass)->group = group;
}

void wgpuComputePassEncoderDispatchWorkgroups(WGPUComputePassEncoder pass, uint32_t x, uint32_t y,
                                              uint32_t z) {
  WGPUCommandEncoder encoder = open_pass("ComputePassEncoderDispatchWorkgroups", pass)->encoder;
  ordered_command *made = calloc(1, sizeof *made);
  if (made == NULL) {
    ordered_stop("no memory");
  }
  *encoder->last = made;
  encoder->last = &made->next;
  made->pipeline = pass->pipeline;
  made->group = pass->group;
  use(encoder, made, 0, pass->pipeline, ORDERED_PIPELINE);
  use(encoder, made, 1, pass->group, ORDERED_GROUP);
  made->grid[0] = x;
  made->grid[1] = y;
  made->grid[2] = z;
}

void wgpuComputePassEncoderEnd(WGPUComputePassEncoder pass) {
  open_pass("ComputePassEncoderEnd", pass)->is_ended = true;
  pass->encoder->is_open = false;
}

WGPUCommandBuffer wgpuCommandEncoderFinish(WGPUCommandEncoder encoder,
                                           WGPUCommandBufferDescriptor const *descriptor) {
  (void)descriptor;
  (void)ordered_check(encoder, ORDERED_ENCODER);
  if (encoder->is_open || encoder->is_finished) {
    ordered_stop("an encoder is finished with an open pass, or twice");
  }
  encoder->is_finished = true;
  WGPUCommandBuffer made =
      MAKE(CommandEncoderFinish, encoder->object.device, ORDERED_COMMANDS, WGPUCommandBuffer);
  if (made == NULL) {
    return NULL;
  }
  made->first = encoder->first;
  encoder->first = NULL;
  if (encoder->object.is_invalid && !made->object.is_invalid) {
    made->object.is_invalid = true;
    ordered_raise(encoder->object.device, ORDERED_VALIDATION);
  }
  return made;
}

/* ---- running them ---- */

static unsigned char *bytes_of(const WGPUBindGroupEntry *entry) {
  return (unsigned char *)entry->buffer->object.memory + entry->offset;
}

/* Every byte that a dispatch may write depends on all that it may read. */
static void dispatch(const ordered_command *command) {
  WGPUBindGroup group = command->group;
  uint64_t hash = command->pipeline->hash;
  for (size_t d = 0; d < 3; d++) {
    hash = (hash ^ command->grid[d]) * 1099511628211u;
  }
  for (size_t i = 0; i < group->layout->count; i++) {
    const unsigned char *bytes = bytes_of(&group->entries[i]);
    for (uint64_t k = 0; k < group->entries[i].size; k++) {
      hash = (hash ^ bytes[k]) * 1099511628211u;
    }
  }
  for (size_t i = 0; i < group->layout->count; i++) {
    unsigned char *bytes = bytes_of(&group->entries[i]);
    for (uint64_t k = 0;
         group->layout->types[i] == WGPUBufferBindingType_Storage && k < group->entries[i].size;
         k++) {
      hash = (hash ^ i) * 1099511628211u;
      bytes[k] ^= (unsigned char)(hash >> 40);
    }
  }
  if (command->pipeline->is_probe) {
    const uint32_t sizes[2] = {8, 0xffffu - 8};
    memcpy(bytes_of(&group->entries[0]), sizes, sizeof sizes);
  }
}

static void run(const ordered_command *command) {
  unsigned char *to =
      command->destination == NULL
          ? NULL
          : (unsigned char *)command->destination->object.memory + command->destination_offset;
  if (command->pipeline != NULL) {
    dispatch(command);
  } else if (command->is_time && to != NULL) {
    const uint64_t times[2] = {1000, 300001000}; /* long enough for any measurement */
    memcpy(to, times, command->bytes < sizeof times ? command->bytes : sizeof times);
  } else if (command->source != NULL && to != NULL) {
    memcpy(to, (unsigned char *)command->source->object.memory + command->source_offset,
           command->bytes);
  } else if (to != NULL) {
    memset(to, 0, command->bytes);
  }
}

void wgpuQueueSubmit(WGPUQueue queue, size_t count, WGPUCommandBuffer const *commands) {
  (void)ordered_check(queue, ORDERED_QUEUE);
  WGPUDevice device = queue->object.device;
  const unsigned errors = ORDERED_IS_NATIVE != 0 ? 0 : ORDERED_VALIDATION | ORDERED_MEMORY;
  const unsigned way = ordered_ask("QueueSubmit", device, errors);
  for (size_t i = 0; i < count; i++) {
    (void)ordered_check(commands[i], ORDERED_COMMANDS);
    if ((commands[i]->object.is_invalid && !device->is_lost) || commands[i]->is_submitted) {
      ordered_stop("an invalid command buffer is submitted, or one twice");
    }
    commands[i]->is_submitted = true;
    for (const ordered_command *one = commands[i]->first; one != NULL; one = one->next) {
      if (one->destination != NULL &&
          (one->destination->is_mapped || one->destination->is_pending)) {
        ordered_stop("a mapped buffer is written");
      }
      if (!device->is_lost && (way & errors) == 0) {
        run(one);
      }
    }
  }
  ordered_count_submit();
  if ((way & errors) != 0) {
    ordered_raise(device, way);
  }
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
