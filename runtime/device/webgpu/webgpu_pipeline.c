/* Compiled passes, kept by their text: the least recently used go first. */
#include <string.h>

#include "error.h"
#include "webgpu_device.h"

typedef struct kept_pipeline {
  uint64_t hash;
  char *text; /* layout and WGSL */
  size_t length;
  uint64_t used; /* clock of the last use */
  quire_webgpu_pipeline made;
} kept_pipeline;

struct quire_webgpu_pipelines {
  kept_pipeline *items;
  size_t count;
  size_t capacity;
  uint64_t clock;
};

quire_status quire_webgpu_pipelines_create(quire_webgpu *gpu, size_t capacity, quire_error *error) {
  struct quire_webgpu_pipelines *made = quire_alloc_array(gpu->allocator, 1, sizeof *made);
  if (made == NULL) {
    return quire_fail_memory(error);
  }
  made->capacity = capacity;
  made->items = quire_alloc_array(gpu->allocator, capacity, sizeof *made->items);
  if (made->items == NULL) {
    quire_dealloc(gpu->allocator, made, sizeof *made, QUIRE_ALLOC_ALIGNMENT);
    return quire_fail_memory(error);
  }
  gpu->pipelines = made;
  return QUIRE_OK;
}

static void forget(quire_webgpu *gpu, kept_pipeline *item) {
  quire_webgpu_pipeline_release(gpu, &item->made);
  quire_dealloc(gpu->allocator, item->text, item->length, QUIRE_ALLOC_ALIGNMENT);
}

void quire_webgpu_pipelines_destroy(quire_webgpu *gpu) {
  struct quire_webgpu_pipelines *all = gpu->pipelines;
  if (all == NULL) {
    return;
  }
  for (size_t i = 0; i < all->count; i++) {
    forget(gpu, &all->items[i]);
  }
  quire_dealloc(gpu->allocator, all->items, all->capacity * sizeof *all->items,
                QUIRE_ALLOC_ALIGNMENT);
  quire_dealloc(gpu->allocator, all, sizeof *all, QUIRE_ALLOC_ALIGNMENT);
  gpu->pipelines = NULL;
}

void quire_webgpu_pipeline_release(quire_webgpu *gpu, quire_webgpu_pipeline *pipeline) {
  if (pipeline->pipeline != NULL) {
    gpu->procs.ComputePipelineRelease(pipeline->pipeline);
  }
  if (pipeline->layout != NULL) {
    gpu->procs.BindGroupLayoutRelease(pipeline->layout);
  }
  pipeline->pipeline = NULL;
  pipeline->layout = NULL;
}

static quire_webgpu_pipeline share(quire_webgpu *gpu, const quire_webgpu_pipeline *kept) {
  gpu->procs.ComputePipelineAddRef(kept->pipeline);
  gpu->procs.BindGroupLayoutAddRef(kept->layout);
  return *kept;
}

/* ---- compiling ---- */

static WGPUBindGroupLayout make_layout(quire_webgpu *gpu, const WGPUBufferBindingType *types,
                                       size_t count) {
  WGPUBindGroupLayoutEntry entries[QUIRE_WEBGPU_MOST_BINDINGS];
  memset(entries, 0, sizeof entries);
  for (size_t i = 0; i < count; i++) {
    entries[i].binding = (uint32_t)i;
    entries[i].visibility = WGPUShaderStage_Compute;
    entries[i].buffer.type = types[i];
  }
  WGPUBindGroupLayoutDescriptor descriptor;
  memset(&descriptor, 0, sizeof descriptor);
  descriptor.entryCount = count;
  descriptor.entries = entries;
  return gpu->procs.DeviceCreateBindGroupLayout(gpu->device, &descriptor);
}

static WGPUShaderModule make_module(quire_webgpu *gpu, const char *text, size_t length,
                                    const char *label) {
  WGPUShaderSourceWGSL source;
  memset(&source, 0, sizeof source);
  source.chain.sType = WGPUSType_ShaderSourceWGSL;
  source.code = (WGPUStringView){text, length};
  WGPUShaderModuleDescriptor descriptor;
  memset(&descriptor, 0, sizeof descriptor);
  descriptor.nextInChain = &source.chain;
  descriptor.label = (WGPUStringView){label, WGPU_STRLEN};
  if (gpu->trusted && gpu->procs.DeviceCreateShaderModuleTrusted != NULL) {
    return gpu->procs.DeviceCreateShaderModuleTrusted(gpu->device, &descriptor, 0);
  }
  return gpu->procs.DeviceCreateShaderModule(gpu->device, &descriptor);
}

static WGPUComputePipeline make_pipeline(quire_webgpu *gpu, WGPUShaderModule module,
                                         WGPUBindGroupLayout layout, const char *label) {
  WGPUPipelineLayoutDescriptor layout_descriptor;
  memset(&layout_descriptor, 0, sizeof layout_descriptor);
  layout_descriptor.bindGroupLayoutCount = 1;
  layout_descriptor.bindGroupLayouts = &layout;
  WGPUPipelineLayout all = gpu->procs.DeviceCreatePipelineLayout(gpu->device, &layout_descriptor);
  if (all == NULL) {
    return NULL;
  }
  WGPUComputePipelineDescriptor descriptor;
  memset(&descriptor, 0, sizeof descriptor);
  descriptor.label = (WGPUStringView){label, WGPU_STRLEN};
  descriptor.layout = all;
  descriptor.compute.module = module;
  descriptor.compute.entryPoint = (WGPUStringView){"main", 4};
  WGPUComputePipeline pipeline = gpu->procs.DeviceCreateComputePipeline(gpu->device, &descriptor);
  gpu->procs.PipelineLayoutRelease(all);
  return pipeline;
}

static quire_status compile_module(quire_webgpu *gpu, WGPUShaderModule module,
                                   const WGPUBufferBindingType *types, size_t count,
                                   const char *label, quire_webgpu_pipeline *out,
                                   quire_error *error) {
  quire_webgpu_scope_begin(gpu);
  out->layout = make_layout(gpu, types, count);
  if (out->layout != NULL) {
    out->pipeline = make_pipeline(gpu, module, out->layout, label);
  }
  quire_status status = quire_webgpu_scope_end(gpu, label, error);
  if (status == QUIRE_OK && out->pipeline == NULL) {
    status = quire_webgpu_no_object(label, "pipeline, or none of its layouts", error);
  }
  if (status != QUIRE_OK) {
    quire_webgpu_pipeline_release(gpu, out);
  }
  return status;
}

/* In two scopes: an invalid module would hide its own message behind the pipeline's. */
static quire_status compile(quire_webgpu *gpu, const char *text, size_t length,
                            const WGPUBufferBindingType *types, size_t count, const char *label,
                            quire_webgpu_pipeline *out, quire_error *error) {
  quire_webgpu_scope_begin(gpu);
  WGPUShaderModule module = make_module(gpu, text, length, label);
  quire_status status = quire_webgpu_scope_end(gpu, label, error);
  if (module == NULL) {
    return status != QUIRE_OK ? status : quire_webgpu_no_object(label, "shader module", error);
  }
  if (status == QUIRE_OK) {
    status = compile_module(gpu, module, types, count, label, out, error);
  }
  gpu->procs.ShaderModuleRelease(module);
  return status;
}

/* ---- keeping ---- */

static uint64_t hash_of(const char *text, size_t length) {
  uint64_t hash = 14695981039346656037u; /* FNV-1a */
  for (size_t i = 0; i < length; i++) {
    hash = (hash ^ (unsigned char)text[i]) * 1099511628211u;
  }
  return hash;
}

static kept_pipeline *look_up(struct quire_webgpu_pipelines *all, uint64_t hash, const char *text,
                              size_t length) {
  for (size_t i = 0; i < all->count; i++) {
    kept_pipeline *item = &all->items[i];
    if (item->hash == hash && item->length == length && memcmp(item->text, text, length) == 0) {
      item->used = ++all->clock;
      return item;
    }
  }
  return NULL;
}

static kept_pipeline *claim(quire_webgpu *gpu) {
  struct quire_webgpu_pipelines *all = gpu->pipelines;
  if (all->count < all->capacity) {
    return &all->items[all->count++];
  }
  kept_pipeline *oldest = &all->items[0];
  for (size_t i = 1; i < all->count; i++) {
    if (all->items[i].used < oldest->used) {
      oldest = &all->items[i];
    }
  }
  forget(gpu, oldest);
  return oldest;
}

/* What a pipeline is kept by, and what is compiled: the types as letters, then the WGSL. */
static char *make_key(quire_webgpu *gpu, const char *text, size_t length,
                      const WGPUBufferBindingType *types, size_t count, size_t *key_length,
                      size_t *wgsl_at) {
  /* Tint requires the line, naga refuses it; on the first line, so that line numbers stay. */
  static const char enable[] = "enable subgroups; ";
  const bool enabled = gpu->standard_subgroups && strstr(text, "subgroup") != NULL;
  const size_t prefix = enabled ? sizeof enable - 1 : 0;
  *wgsl_at = count + 1;
  *key_length = *wgsl_at + prefix + length;
  char *key = quire_alloc(gpu->allocator, *key_length, QUIRE_ALLOC_ALIGNMENT);
  if (key == NULL) {
    return NULL;
  }
  for (size_t i = 0; i < count; i++) {
    key[i] = 'r';
    if (types[i] != WGPUBufferBindingType_ReadOnlyStorage) {
      key[i] = types[i] == WGPUBufferBindingType_Uniform ? 'u' : 'w';
    }
  }
  key[count] = ':';
  memcpy(key + *wgsl_at, enable, prefix);
  memcpy(key + *wgsl_at + prefix, text, length);
  return key;
}

quire_status quire_webgpu_pipeline_get(quire_webgpu *gpu, const char *text, size_t length,
                                       const WGPUBufferBindingType *types, size_t count,
                                       const char *label, quire_webgpu_pipeline *out,
                                       quire_error *error) {
  out->pipeline = NULL;
  out->layout = NULL;
  size_t key_length = 0;
  size_t wgsl_at = 0;
  char *key = make_key(gpu, text, length, types, count, &key_length, &wgsl_at);
  if (key == NULL) {
    return quire_fail_memory(error);
  }
  const uint64_t hash = hash_of(key, key_length);
  const kept_pipeline *known = look_up(gpu->pipelines, hash, key, key_length);
  quire_status status = QUIRE_OK;
  if (known != NULL) {
    *out = share(gpu, &known->made);
  } else {
    status = compile(gpu, key + wgsl_at, key_length - wgsl_at, types, count, label, out, error);
    if (status == QUIRE_OK) {
      kept_pipeline *item = claim(gpu);
      *item = (kept_pipeline){hash, key, key_length, ++gpu->pipelines->clock, share(gpu, out)};
      return QUIRE_OK;
    }
  }
  quire_dealloc(gpu->allocator, key, key_length, QUIRE_ALLOC_ALIGNMENT);
  return status;
}
