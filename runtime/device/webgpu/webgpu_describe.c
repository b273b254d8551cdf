/* What plans may know about the adapter: features, limits, properties. */
#include <stdio.h>
#include <string.h>

#include "error.h"
#include "webgpu_device.h"

/* ---- the size of a subgroup ---- */

static const char probe_text[] =
    "@group(0) @binding(0) var<storage, read_write> sizes: array<atomic<u32>, 2>;\n"
    "@compute @workgroup_size(128)\n"
    "fn main(@builtin(subgroup_size) size: u32) {\n"
    "  atomicMax(&sizes[0], size);\n"
    "  atomicMax(&sizes[1], 0xffffu - size);\n"
    "}\n";

/* Records the probe, with `group` bound. */
static quire_status record_probe(quire_webgpu *gpu, WGPUComputePipeline pipeline,
                                 WGPUBindGroup group, WGPUCommandEncoder encoder,
                                 quire_error *error) {
  const quire_webgpu_procs *p = &gpu->procs;
  if (group == NULL) {
    return quire_webgpu_no_object("webgpu", "bind group", error);
  }
  WGPUComputePassEncoder pass = p->CommandEncoderBeginComputePass(encoder, NULL);
  if (pass == NULL) {
    return quire_webgpu_no_object("webgpu", "compute pass", error);
  }
  p->ComputePassEncoderSetPipeline(pass, pipeline);
  p->ComputePassEncoderSetBindGroup(pass, 0, group, 0, NULL);
  p->ComputePassEncoderDispatchWorkgroups(pass, 1, 1, 1);
  p->ComputePassEncoderEnd(pass);
  p->ComputePassEncoderRelease(pass);
  return QUIRE_OK;
}

static quire_status run_probe(quire_webgpu *gpu, const quire_webgpu_pipeline *pipeline,
                              WGPUBuffer sizes, quire_error *error) {
  const quire_webgpu_procs *p = &gpu->procs;
  WGPUBindGroupEntry entry;
  memset(&entry, 0, sizeof entry);
  entry.buffer = sizes;
  entry.size = 2 * sizeof(uint32_t);
  WGPUBindGroupDescriptor descriptor;
  memset(&descriptor, 0, sizeof descriptor);
  descriptor.layout = pipeline->layout;
  descriptor.entryCount = 1;
  descriptor.entries = &entry;
  WGPUCommandEncoder encoder = NULL;
  WGPUCommandBuffer commands = NULL;
  QUIRE_TRY(quire_webgpu_commands_begin(gpu, "webgpu", &encoder, error));
  WGPUBindGroup group = p->DeviceCreateBindGroup(gpu->device, &descriptor);
  quire_status status = record_probe(gpu, pipeline->pipeline, group, encoder, error);
  status = quire_webgpu_commands_end(gpu, encoder, status, "webgpu", &commands, error);
  if (group != NULL) {
    p->BindGroupRelease(group);
  }
  QUIRE_TRY(status);
  return quire_webgpu_submit(gpu, commands, true, error);
}

/*
 * wgpu-native does not tell the sizes, so a dispatch does. An adapter that compiles every shader
 * for a size of its own choice may use another one later: kernels must not rely on more than they
 * ask for.
 */
static quire_status probe_subgroup(quire_webgpu *gpu, uint32_t *least, uint32_t *most,
                                   quire_error *error) {
  WGPUBuffer sizes = NULL;
  quire_webgpu_pipeline pipeline = {NULL, NULL};
  const WGPUBufferBindingType type = WGPUBufferBindingType_Storage;
  uint32_t found[2] = {0, 0};
  const uint32_t zeros[2] = {0, 0};
  QUIRE_TRY(quire_webgpu_make_buffer(
      gpu, sizeof found,
      WGPUBufferUsage_Storage | WGPUBufferUsage_CopySrc | WGPUBufferUsage_CopyDst, "webgpu", &sizes,
      error));
  quire_webgpu_scope_begin(gpu);
  gpu->procs.QueueWriteBuffer(gpu->queue, sizes, 0, zeros, sizeof zeros);
  quire_status status = quire_webgpu_scope_end(gpu, "webgpu", error);
  if (status == QUIRE_OK) {
    status = quire_webgpu_pipeline_get(gpu, probe_text, sizeof probe_text - 1, &type, 1,
                                       "subgroup probe", &pipeline, error);
  }
  if (status == QUIRE_OK) {
    status = run_probe(gpu, &pipeline, sizes, error);
    quire_webgpu_pipeline_release(gpu, &pipeline);
  }
  if (status == QUIRE_OK) {
    status = quire_webgpu_read(gpu, sizes, 0, found, sizeof found, error);
  }
  quire_webgpu_drop_buffer(gpu, sizes);
  *most = found[0];
  *least = 0xffffu - found[1];
  return status;
}

/* ---- names ---- */

static void add_feature(quire_device *device, const char *name) {
  quire_webgpu *gpu = device->backend_data;
  gpu->features[device->description.feature_count++] = name;
}

static void add_limit(quire_device *device, const char *name, uint64_t value) {
  quire_webgpu *gpu = device->backend_data;
  quire_named_value *limit = &gpu->limit_values[device->description.limit_count++];
  limit->name = name;
  limit->type = QUIRE_VALUE_TYPE_INT;
  limit->i = value > INT64_MAX ? INT64_MAX : (int64_t)value;
}

static void add_number(quire_device *device, const char *name, uint32_t value) {
  quire_webgpu *gpu = device->backend_data;
  quire_named_value *property = &gpu->properties[device->description.adapter_count++];
  property->name = name;
  property->type = QUIRE_VALUE_TYPE_INT;
  property->i = value;
}

static void add_text(quire_device *device, const char *name, WGPUStringView text) {
  quire_webgpu *gpu = device->backend_data;
  const size_t at = device->description.adapter_count++;
  quire_webgpu_copy_text(gpu->texts[at], sizeof gpu->texts[at], text);
  gpu->properties[at].name = name;
  gpu->properties[at].type = QUIRE_VALUE_TYPE_STRING;
  gpu->properties[at].s = gpu->texts[at];
}

static WGPUStringView view_of(const char *text) {
  return (WGPUStringView){text, WGPU_STRLEN};
}

static void add_limits(quire_device *device) {
  const WGPULimits *limits = &quire_webgpu_of(device)->limits;
  add_limit(device, "maxStorageBuffersPerShaderStage", limits->maxStorageBuffersPerShaderStage);
  add_limit(device, "maxUniformBuffersPerShaderStage", limits->maxUniformBuffersPerShaderStage);
  add_limit(device, "maxUniformBufferBindingSize", limits->maxUniformBufferBindingSize);
  add_limit(device, "maxStorageBufferBindingSize", limits->maxStorageBufferBindingSize);
  add_limit(device, "minUniformBufferOffsetAlignment", limits->minUniformBufferOffsetAlignment);
  add_limit(device, "minStorageBufferOffsetAlignment", limits->minStorageBufferOffsetAlignment);
  add_limit(device, "maxBufferSize", limits->maxBufferSize);
  add_limit(device, "maxComputeWorkgroupStorageSize", limits->maxComputeWorkgroupStorageSize);
  add_limit(device, "maxComputeInvocationsPerWorkgroup", limits->maxComputeInvocationsPerWorkgroup);
  add_limit(device, "maxComputeWorkgroupSizeX", limits->maxComputeWorkgroupSizeX);
  add_limit(device, "maxComputeWorkgroupSizeY", limits->maxComputeWorkgroupSizeY);
  add_limit(device, "maxComputeWorkgroupSizeZ", limits->maxComputeWorkgroupSizeZ);
  add_limit(device, "maxComputeWorkgroupsPerDimension", limits->maxComputeWorkgroupsPerDimension);
  add_limit(device, "maxBindingsPerBindGroup", limits->maxBindingsPerBindGroup);
  device->description.limits = quire_webgpu_of(device)->limit_values;
}

static void add_adapter(quire_device *device, const WGPUAdapterInfo *info, bool as_hardware) {
  quire_webgpu *gpu = device->backend_data;
  const bool pretends = as_hardware && info->adapterType == WGPUAdapterType_CPU;
  const WGPUAdapterType type = pretends ? WGPUAdapterType_DiscreteGPU : info->adapterType;
  add_text(device, "vendor", info->vendor);
  add_text(device, "architecture", info->architecture);
  add_text(device, "device", info->device);
  add_text(device, "description", info->description);
  add_text(device, "type", view_of(quire_webgpu_type_name(type)));
  add_text(device, "backend", view_of(quire_webgpu_backend_name(info->backendType)));
  char name[QUIRE_WEBGPU_TEXT / 2];
  quire_webgpu_copy_text(name, sizeof name, info->device);
  (void)snprintf(
      gpu->model, sizeof gpu->model, "%s (%s, %s, %s)", name[0] == '\0' ? "unnamed adapter" : name,
      quire_webgpu_type_name(info->adapterType), quire_webgpu_backend_name(info->backendType),
      gpu->native ? "wgpu-native" : "webgpu.h");
}

static quire_status add_subgroups(quire_device *device, const WGPUAdapterInfo *info,
                                  quire_error *error) {
  quire_webgpu *gpu = device->backend_data;
  uint32_t least = info->subgroupMinSize;
  uint32_t most = info->subgroupMaxSize;
  if (least == 0 || most == 0) {
    QUIRE_TRY(probe_subgroup(gpu, &least, &most, error));
  }
  add_feature(device, "subgroups");
  add_number(device, "subgroupMinSize", least);
  add_number(device, "subgroupMaxSize", most);
  return QUIRE_OK;
}

quire_status quire_webgpu_describe(quire_device *device, const quire_webgpu_options *options,
                                   quire_error *error) {
  quire_webgpu *gpu = device->backend_data;
  const quire_webgpu_procs *p = &gpu->procs;
  WGPUAdapterInfo info;
  memset(&info, 0, sizeof info);
  /* wgpu-native aborts if a device is asked, so that of a caller stays unnamed without its adapter.
   */
  const bool has_info =
      gpu->adapter != NULL && p->AdapterGetInfo(gpu->adapter, &info) == WGPUStatus_Success;
  if (p->DeviceHasFeature(gpu->device, WGPUFeatureName_ShaderF16)) {
    add_feature(device, "shader-f16");
  }
  if (gpu->has_timestamps) {
    add_feature(device, "timestamp-query");
  }
  add_limits(device);
  add_adapter(device, &info, options->as_hardware != 0);
  quire_status status = QUIRE_OK;
  if (gpu->has_subgroups && options->use_subgroups) {
    status = add_subgroups(device, &info, error);
  }
  if (has_info) {
    p->AdapterInfoFreeMembers(info);
  }
  device->description.features = gpu->features;
  device->description.adapter = gpu->properties;
  return status;
}
