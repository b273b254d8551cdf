#include "webgpu_run.h"

#include <string.h>

#include "cpu_run.h"
#include "error.h"
#include "webgpu_record.h"

/* ---- values ---- */

/* One-byte and two-byte integers that take a word each in the buffer, as the host has them. */
static void narrow(unsigned char *data, const quire_form *form) {
  const size_t size = quire_dtype_size(form->dtype);
  if ((uint64_t)form->high != (uint64_t)form->elements * 4 || size >= 4) {
    return;
  }
  for (int64_t i = 0; i < form->elements; i++) {
    memmove(data + (size_t)i * size, data + (size_t)i * 4, size);
  }
}

/* Copies of the tensors whose values are checked, in host memory that the arena owns. */
static quire_status read_values(quire_webgpu *gpu, const quire_plan *plan,
                                const quire_tensor *tensors, quire_arena *arena, quire_tensor *host,
                                quire_error *error) {
  for (size_t slot = 0; slot < plan->slot_count; slot++) {
    host[slot] = tensors[slot];
    const quire_form *form = &plan->forms[slot];
    if (!form->present || !form->scheduled || form->elements == 0) {
      continue;
    }
    unsigned char *data = quire_arena_alloc(arena, (size_t)form->high);
    if (data == NULL) {
      return quire_fail_memory(error);
    }
    quire_webgpu_lock(gpu);
    quire_status status = quire_webgpu_read(gpu, tensors[slot].data, tensors[slot].byte_offset,
                                            data, (uint64_t)form->high, error);
    quire_webgpu_unlock(gpu);
    QUIRE_TRY(status);
    narrow(data, form);
    host[slot].data = data;
    host[slot].byte_offset = 0;
  }
  return QUIRE_OK;
}

static quire_status check_values(const quire_plan *plan, const quire_tensor *tensors,
                                 quire_workspace *workspace, uint32_t flags, quire_error *error) {
  const quire_webgpu_plan *own = quire_webgpu_plan_of(plan);
  quire_webgpu *gpu = quire_webgpu_of(plan->device);
  if (own->schedule == NULL) {
    return QUIRE_OK;
  }
  quire_arena arena;
  quire_arena_init(&arena, gpu->allocator);
  quire_tensor *host = quire_arena_array(&arena, plan->slot_count, sizeof *host);
  quire_status status = host == NULL ? quire_fail_memory(error)
                                     : read_values(gpu, plan, tensors, &arena, host, error);
  if (status == QUIRE_OK) {
    status =
        quire_cpu_schedule_run(own->schedule_plan, own->schedule, host, workspace, flags, 0, error);
  }
  quire_arena_release(&arena);
  return status;
}

quire_status quire_webgpu_prepare(quire_plan *plan, const quire_tensor *tensors,
                                  quire_workspace *workspace, const quire_run_options *options,
                                  quire_error *error) {
  quire_webgpu *gpu = quire_webgpu_of(plan->device);
  quire_webgpu_lock(gpu);
  quire_status status = quire_webgpu_check_lost(gpu, error);
  if (status == QUIRE_OK) {
    status = quire_webgpu_workspace_reserve(gpu, plan, workspace, error);
  }
  quire_webgpu_unlock(gpu);
  if (status == QUIRE_OK && (options->flags & QUIRE_RUN_CHECK_VALUES) != 0) {
    status = check_values(plan, tensors, workspace, options->flags, error);
  }
  return status;
}

/* ---- runs ---- */

static quire_status record(quire_webgpu *gpu, const quire_plan *plan, const quire_tensor *tensors,
                           const quire_workspace *workspace, const quire_webgpu_groups *groups,
                           WGPUCommandEncoder encoder, quire_error *error) {
  quire_webgpu_record_copies(gpu, plan, tensors, workspace, encoder);
  if (groups->count > 0) {
    WGPUComputePassEncoder pass = gpu->procs.CommandEncoderBeginComputePass(encoder, NULL);
    if (pass == NULL) {
      return quire_webgpu_no_object("webgpu", "compute pass", error);
    }
    quire_webgpu_record_passes(gpu, plan, groups, pass);
    gpu->procs.ComputePassEncoderEnd(pass);
    gpu->procs.ComputePassEncoderRelease(pass);
  }
  return QUIRE_OK;
}

/* Into the caller's encoder: nothing that could be an error there is recorded. */
static quire_status run_recorded(quire_webgpu *gpu, const quire_plan *plan,
                                 const quire_tensor *tensors, quire_workspace *workspace,
                                 WGPUCommandEncoder encoder, quire_error *error) {
  quire_webgpu_groups groups;
  quire_status status = QUIRE_OK;
  if (!quire_webgpu_groups_find(gpu, plan, tensors, workspace, &groups)) {
    quire_webgpu_scope_begin(gpu);
    const quire_status made =
        quire_webgpu_groups_make(gpu, plan, tensors, workspace, &groups, error);
    status = quire_webgpu_scope_end(gpu, "webgpu", error);
    status = status == QUIRE_OK ? made : status;
  }
  if (status == QUIRE_OK) {
    status = record(gpu, plan, tensors, workspace, &groups, encoder, error);
  }
  quire_webgpu_groups_finish(gpu, plan, tensors, workspace, status == QUIRE_OK, &groups);
  return status;
}

static quire_status run_now(quire_webgpu *gpu, const quire_plan *plan, const quire_tensor *tensors,
                            quire_workspace *workspace, quire_error *error) {
  quire_webgpu_groups groups;
  WGPUCommandEncoder encoder = NULL;
  WGPUCommandBuffer commands = NULL;
  QUIRE_TRY(quire_webgpu_commands_begin(gpu, "webgpu", &encoder, error));
  quire_status status = QUIRE_OK;
  if (!quire_webgpu_groups_find(gpu, plan, tensors, workspace, &groups)) {
    status = quire_webgpu_groups_make(gpu, plan, tensors, workspace, &groups, error);
  }
  if (status == QUIRE_OK) {
    status = record(gpu, plan, tensors, workspace, &groups, encoder, error);
  }
  status = quire_webgpu_commands_end(gpu, encoder, status, "webgpu", &commands, error);
  quire_webgpu_groups_finish(gpu, plan, tensors, workspace, status == QUIRE_OK, &groups);
  QUIRE_TRY(status);
  return quire_webgpu_submit(gpu, commands, true, error);
}

quire_status quire_webgpu_run(quire_plan *plan, const quire_tensor *tensors,
                              quire_workspace *workspace, const quire_run_options *options,
                              quire_error *error) {
  quire_webgpu *gpu = quire_webgpu_of(plan->device);
  quire_webgpu_lock(gpu);
  quire_status status = quire_webgpu_check_lost(gpu, error);
  if (status == QUIRE_OK) {
    status = options->encoder != NULL
                 ? run_recorded(gpu, plan, tensors, workspace, options->encoder, error)
                 : run_now(gpu, plan, tensors, workspace, error);
  }
  quire_webgpu_unlock(gpu);
  return status;
}
