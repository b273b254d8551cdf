/* Bind groups that a workspace keeps for calls that come again: a layer's, in every step. */
#include <string.h>

#include "webgpu_record.h"

/* What a slot is to a call: entries of absent tensors count for nothing. */
static WGPUBuffer buffer_of(const quire_plan *plan, const quire_tensor *tensors, size_t slot) {
  const quire_form *form = &plan->forms[slot];
  return form->present && form->elements > 0 ? tensors[slot].data : NULL;
}

/* Where the caller's memory lies decides, and nothing else: plan and workspace are the same. */
static uint64_t hash_of(const quire_plan *plan, const quire_tensor *tensors) {
  uint64_t hash = plan->serial;
  for (size_t slot = 0; slot < plan->slot_count; slot++) {
    WGPUBuffer buffer = buffer_of(plan, tensors, slot);
    if (buffer != NULL) {
      hash = (hash ^ (uint64_t)(uintptr_t)buffer) * 0x9e3779b97f4a7c15u;
      hash = (hash ^ tensors[slot].byte_offset ^ hash >> 32) * 0x9e3779b97f4a7c15u;
    }
  }
  return hash;
}

static bool is_same(const quire_webgpu_kept *kept, const quire_plan *plan,
                    const quire_tensor *tensors) {
  for (size_t slot = 0; slot < plan->slot_count; slot++) {
    WGPUBuffer buffer = buffer_of(plan, tensors, slot);
    if (kept->buffers[slot] != buffer ||
        (buffer != NULL && kept->offsets[slot] != tensors[slot].byte_offset)) {
      return false;
    }
  }
  return true;
}

bool quire_webgpu_kept_find(const quire_webgpu *gpu, const quire_plan *plan,
                            const quire_tensor *tensors, const quire_workspace *workspace,
                            quire_webgpu_groups *groups) {
  quire_webgpu_workspace *own = workspace->backend_data;
  if (own->kept == NULL) {
    return false;
  }
  const uint64_t hash = hash_of(plan, tensors);
  for (size_t i = 0; i < gpu->kept_bindings; i++) {
    quire_webgpu_kept *kept = &own->kept[i];
    if (kept->hash == hash && kept->plan_serial == plan->serial && is_same(kept, plan, tensors)) {
      kept->used = ++own->clock;
      groups->count = kept->group_count;
      memcpy(groups->items, kept->groups, kept->group_count * sizeof *kept->groups);
      return true;
    }
  }
  return false;
}

static void forget(quire_webgpu *gpu, quire_webgpu_kept *kept) {
  const bool is_whole = kept->plan_serial != 0 && kept->groups != NULL && kept->buffers != NULL;
  for (size_t i = 0; is_whole && i < kept->group_count; i++) {
    gpu->procs.BindGroupRelease(kept->groups[i]);
  }
  for (size_t i = 0; is_whole && i < kept->slot_count; i++) {
    if (kept->buffers[i] != NULL) {
      gpu->procs.BufferRelease(kept->buffers[i]);
    }
  }
  quire_dealloc(gpu->allocator, kept->groups, kept->group_count * sizeof *kept->groups,
                QUIRE_ALLOC_ALIGNMENT);
  quire_dealloc(gpu->allocator, kept->buffers, kept->slot_count * sizeof *kept->buffers,
                QUIRE_ALLOC_ALIGNMENT);
  quire_dealloc(gpu->allocator, kept->offsets, kept->slot_count * sizeof *kept->offsets,
                QUIRE_ALLOC_ALIGNMENT);
  memset(kept, 0, sizeof *kept);
}

void quire_webgpu_kept_clear(quire_webgpu *gpu, quire_webgpu_workspace *own) {
  for (size_t i = 0; own->kept != NULL && i < gpu->kept_bindings; i++) {
    forget(gpu, &own->kept[i]);
  }
}

/* An empty entry, or the one whose last use is longest ago. */
static quire_webgpu_kept *oldest(const quire_webgpu *gpu, quire_webgpu_workspace *own) {
  quire_webgpu_kept *found = &own->kept[0];
  for (size_t i = 1; i < gpu->kept_bindings; i++) {
    if (own->kept[i].used < found->used) {
      found = &own->kept[i];
    }
  }
  return found;
}

bool quire_webgpu_kept_add(quire_webgpu *gpu, const quire_plan *plan, const quire_tensor *tensors,
                           quire_workspace *workspace, const quire_webgpu_groups *groups) {
  quire_webgpu_workspace *own = workspace->backend_data;
  if (own->kept == NULL) {
    own->kept = quire_alloc_array(gpu->allocator, gpu->kept_bindings, sizeof *own->kept);
    if (own->kept == NULL) {
      return false;
    }
  }
  quire_webgpu_kept *kept = oldest(gpu, own);
  forget(gpu, kept);
  kept->slot_count = plan->slot_count;
  kept->group_count = groups->count;
  kept->buffers = quire_alloc_array(gpu->allocator, plan->slot_count, sizeof *kept->buffers);
  kept->offsets = quire_alloc_array(gpu->allocator, plan->slot_count, sizeof *kept->offsets);
  kept->groups = quire_alloc_array(gpu->allocator, groups->count, sizeof *kept->groups);
  if (kept->buffers == NULL || kept->offsets == NULL || kept->groups == NULL) {
    forget(gpu, kept);
    return false;
  }
  memcpy(kept->groups, groups->items, groups->count * sizeof *kept->groups);
  for (size_t slot = 0; slot < plan->slot_count; slot++) {
    kept->buffers[slot] = buffer_of(plan, tensors, slot);
    kept->offsets[slot] = tensors[slot].byte_offset;
    if (kept->buffers[slot] != NULL) {
      gpu->procs.BufferAddRef(kept->buffers[slot]); /* else its address could come again */
    }
  }
  kept->hash = hash_of(plan, tensors);
  kept->used = ++own->clock;
  kept->plan_serial = plan->serial;
  return true;
}
