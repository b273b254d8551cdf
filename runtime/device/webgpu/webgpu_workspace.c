#include "webgpu_workspace.h"

#include <string.h>

#include "error.h"
#include "webgpu_run.h"

static void free_lists(const quire_webgpu *gpu, const quire_webgpu_workspace *own) {
  quire_dealloc(gpu->allocator, own->buffers, own->count * sizeof *own->buffers,
                QUIRE_ALLOC_ALIGNMENT);
  quire_dealloc(gpu->allocator, own->bytes, own->count * sizeof *own->bytes, QUIRE_ALLOC_ALIGNMENT);
}

/* Room for `count` buffers in the lists. */
static quire_status need_lists(const quire_webgpu *gpu, quire_webgpu_workspace *own, size_t count,
                               quire_error *error) {
  if (count <= own->count) {
    return QUIRE_OK;
  }
  quire_webgpu_workspace grown = *own;
  grown.count = count;
  grown.buffers = quire_alloc_array(gpu->allocator, count, sizeof *grown.buffers);
  grown.bytes = quire_alloc_array(gpu->allocator, count, sizeof *grown.bytes);
  if (grown.buffers == NULL || grown.bytes == NULL) {
    free_lists(gpu, &grown);
    return quire_fail_memory(error);
  }
  for (size_t i = 0; i < own->count; i++) {
    grown.buffers[i] = own->buffers[i];
    grown.bytes[i] = own->bytes[i];
  }
  free_lists(gpu, own);
  *own = grown;
  return QUIRE_OK;
}

static bool is_enough(const quire_webgpu_workspace *own, const quire_webgpu_plan *plan) {
  if (plan->scratch_count > own->count) {
    return plan->scratch_count == 0;
  }
  for (size_t i = 0; i < plan->scratch_count; i++) {
    if (plan->scratch[i].bytes > own->bytes[i]) {
      return false;
    }
  }
  return true;
}

static quire_status grow(quire_webgpu *gpu, quire_webgpu_workspace *own, size_t index,
                         uint64_t bytes, quire_workspace *workspace, quire_error *error) {
  WGPUBuffer made = NULL;
  QUIRE_TRY(quire_webgpu_make_buffer(
      gpu, bytes, WGPUBufferUsage_Storage | WGPUBufferUsage_CopyDst | WGPUBufferUsage_CopySrc,
      "workspace", &made, error));
  quire_webgpu_drop_buffer(gpu, own->buffers[index]);
  workspace->counters.allocated++;
  workspace->counters.bytes += bytes - own->bytes[index];
  own->buffers[index] = made;
  own->bytes[index] = bytes;
  return QUIRE_OK;
}

quire_status quire_webgpu_workspace_reserve(quire_webgpu *gpu, const quire_plan *plan,
                                            quire_workspace *workspace, quire_error *error) {
  const quire_webgpu_plan *needs = quire_webgpu_plan_of(plan);
  if (workspace->backend_data == NULL) {
    workspace->backend_data = quire_alloc_array(gpu->allocator, 1, sizeof(quire_webgpu_workspace));
    if (workspace->backend_data == NULL) {
      return quire_fail_memory(error);
    }
  }
  quire_webgpu_workspace *own = workspace->backend_data;
  if (is_enough(own, needs)) {
    return QUIRE_OK;
  }
  QUIRE_TRY(need_lists(gpu, own, needs->scratch_count, error));
  quire_webgpu_kept_clear(gpu, own);
  for (size_t i = 0; i < needs->scratch_count; i++) {
    if (needs->scratch[i].bytes > own->bytes[i]) {
      QUIRE_TRY(grow(gpu, own, i, needs->scratch[i].bytes, workspace, error));
    }
  }
  return QUIRE_OK;
}

void quire_webgpu_workspace_release(quire_workspace *workspace) {
  quire_webgpu_workspace *own = workspace->backend_data;
  if (own == NULL) {
    return;
  }
  quire_webgpu *gpu = quire_webgpu_of(workspace->device);
  quire_webgpu_lock(gpu);
  quire_webgpu_kept_clear(gpu, own);
  for (size_t i = 0; i < own->count; i++) {
    quire_webgpu_drop_buffer(gpu, own->buffers[i]);
  }
  quire_webgpu_unlock(gpu);
  quire_dealloc(gpu->allocator, own->kept, gpu->kept_bindings * sizeof *own->kept,
                QUIRE_ALLOC_ALIGNMENT);
  free_lists(gpu, own);
  quire_dealloc(gpu->allocator, own, sizeof *own, QUIRE_ALLOC_ALIGNMENT);
  workspace->backend_data = NULL;
}
