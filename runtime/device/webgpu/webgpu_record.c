#include "webgpu_record.h"

#include <string.h>

#include "tensor_check.h"

/* ---- bind groups ---- */

static WGPUBuffer scratch_buffer(const quire_workspace *workspace, int32_t index) {
  const quire_webgpu_workspace *own = workspace->backend_data;
  return own->buffers[index];
}

static const quire_tensor *shown_tensor(const quire_plan *plan, const quire_tensor *tensors,
                                        const quire_webgpu_source *source) {
  if (source->output >= 0 &&
      (source->input < 0 || quire_is_separate(plan, tensors, (size_t)source->output))) {
    return &tensors[source->output];
  }
  return &tensors[source->input];
}

/* Empty tensors are shown as dummies, for WebGPU has no empty bindings; written ones never share
 * one. */
static void show_dummy(const quire_webgpu *gpu, const quire_webgpu_source *source, size_t index,
                       WGPUBindGroupEntry *entry) {
  entry->size = 16;
  entry->buffer = source->writable ? gpu->dummy_write : gpu->dummy_read;
  entry->offset = source->writable ? index * QUIRE_WEBGPU_DUMMY_BYTES : 0;
}

static void fill_entry(const quire_webgpu *gpu, const quire_plan *plan, const quire_tensor *tensors,
                       const quire_workspace *workspace, const quire_webgpu_source *source,
                       size_t index, WGPUBindGroupEntry *entry) {
  entry->binding = (uint32_t)index;
  entry->size = source->bytes;
  if (source->uniform >= 0) {
    entry->buffer = quire_webgpu_plan_of(plan)->uniforms;
    entry->offset = (uint64_t)source->uniform;
  } else if (source->scratch >= 0) {
    entry->buffer = scratch_buffer(workspace, source->scratch);
  } else if (source->input >= 0 || source->output >= 0) {
    const quire_tensor *tensor = shown_tensor(plan, tensors, source);
    entry->buffer = tensor->data;
    entry->offset = tensor->byte_offset;
  } else {
    show_dummy(gpu, source, index, entry);
  }
}

bool quire_webgpu_groups_find(const quire_webgpu *gpu, const quire_plan *plan,
                              const quire_tensor *tensors, const quire_workspace *workspace,
                              quire_webgpu_groups *groups) {
  groups->borrowed =
      gpu->kept_bindings > 0 && quire_webgpu_kept_find(gpu, plan, tensors, workspace, groups);
  return groups->borrowed;
}

quire_status quire_webgpu_groups_make(quire_webgpu *gpu, const quire_plan *plan,
                                      const quire_tensor *tensors, const quire_workspace *workspace,
                                      quire_webgpu_groups *groups, quire_error *error) {
  const quire_webgpu_plan *own = quire_webgpu_plan_of(plan);
  groups->borrowed = false;
  for (groups->count = 0; groups->count < own->pass_count; groups->count++) {
    const size_t i = groups->count;
    const quire_webgpu_pass *pass = &own->passes[i];
    WGPUBindGroupEntry entries[QUIRE_WEBGPU_MOST_BINDINGS];
    memset(entries, 0, pass->source_count * sizeof *entries);
    for (size_t k = 0; k < pass->source_count; k++) {
      fill_entry(gpu, plan, tensors, workspace, &pass->sources[k], k, &entries[k]);
    }
    WGPUBindGroupDescriptor descriptor;
    memset(&descriptor, 0, sizeof descriptor);
    descriptor.layout = pass->pipeline.layout;
    descriptor.entryCount = pass->source_count;
    descriptor.entries = entries;
    groups->items[i] = gpu->procs.DeviceCreateBindGroup(gpu->device, &descriptor);
    if (groups->items[i] == NULL) {
      return quire_webgpu_no_object(pass->id, "bind group", error);
    }
  }
  return QUIRE_OK;
}

void quire_webgpu_groups_finish(quire_webgpu *gpu, const quire_plan *plan,
                                const quire_tensor *tensors, quire_workspace *workspace, bool good,
                                quire_webgpu_groups *groups) {
  if (groups->borrowed || (good && gpu->kept_bindings > 0 &&
                           quire_webgpu_kept_add(gpu, plan, tensors, workspace, groups))) {
    return;
  }
  for (size_t i = 0; i < groups->count; i++) {
    gpu->procs.BindGroupRelease(groups->items[i]);
  }
  groups->count = 0;
}

/* ---- copies ---- */

static bool is_copied(const quire_plan *plan, const quire_tensor *tensors, size_t slot) {
  return plan->forms[slot].is_output && quire_is_separate(plan, tensors, slot);
}

bool quire_webgpu_needs_copies(const quire_plan *plan, const quire_tensor *tensors) {
  const quire_webgpu_plan *own = quire_webgpu_plan_of(plan);
  for (size_t i = 0; i < own->scratch_count; i++) {
    if (own->scratch[i].bytes > 0 && (own->scratch[i].clear || own->scratch[i].copy_of >= 0)) {
      return true;
    }
  }
  for (size_t slot = 0; slot < plan->slot_count; slot++) {
    if (is_copied(plan, tensors, slot)) {
      return true;
    }
  }
  return false;
}

void quire_webgpu_record_copies(quire_webgpu *gpu, const quire_plan *plan,
                                const quire_tensor *tensors, const quire_workspace *workspace,
                                WGPUCommandEncoder encoder) {
  const quire_webgpu_procs *p = &gpu->procs;
  const quire_webgpu_plan *own = quire_webgpu_plan_of(plan);
  for (size_t i = 0; i < own->scratch_count; i++) {
    const quire_webgpu_scratch *one = &own->scratch[i];
    if (one->bytes == 0) {
      continue;
    }
    if (one->copy_of >= 0) {
      const quire_tensor *tensor = &tensors[one->copy_of];
      p->CommandEncoderCopyBufferToBuffer(encoder, tensor->data, tensor->byte_offset,
                                          scratch_buffer(workspace, (int32_t)i), 0, one->bytes);
    } else if (one->clear) {
      p->CommandEncoderClearBuffer(encoder, scratch_buffer(workspace, (int32_t)i), 0, one->bytes);
    }
  }
  for (size_t slot = 0; slot < plan->slot_count; slot++) {
    if (is_copied(plan, tensors, slot)) {
      const quire_tensor *from = &tensors[plan->forms[slot].pair];
      p->CommandEncoderCopyBufferToBuffer(encoder, from->data, from->byte_offset,
                                          tensors[slot].data, tensors[slot].byte_offset,
                                          (uint64_t)plan->forms[slot].high);
    }
  }
}

/* ---- passes ---- */

void quire_webgpu_record_passes(quire_webgpu *gpu, const quire_plan *plan,
                                const quire_webgpu_groups *groups, WGPUComputePassEncoder pass) {
  const quire_webgpu_procs *p = &gpu->procs;
  const quire_webgpu_plan *own = quire_webgpu_plan_of(plan);
  for (size_t i = 0; i < own->pass_count; i++) {
    const quire_webgpu_pass *one = &own->passes[i];
    p->ComputePassEncoderSetPipeline(pass, one->pipeline.pipeline);
    p->ComputePassEncoderSetBindGroup(pass, 0, groups->items[i], 0, NULL);
    p->ComputePassEncoderDispatchWorkgroups(pass, one->dispatch[0], one->dispatch[1],
                                            one->dispatch[2]);
  }
}
