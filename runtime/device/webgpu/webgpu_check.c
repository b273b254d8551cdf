/* What is checked about buffers before anything is recorded: errors of a recording belong to the
 * caller's encoder, and errors of a submit end the process with wgpu-native. */
#include <inttypes.h>

#include "error.h"
#include "tensor_check.h"
#include "webgpu_plan.h"
#include "webgpu_run.h"

static WGPUBufferUsage usage_of(const quire_plan *plan, size_t slot) {
  const quire_form *form = &plan->forms[slot];
  WGPUBufferUsage usage = WGPUBufferUsage_Storage;
  const quire_webgpu_plan *own = quire_webgpu_plan_of(plan);
  for (size_t i = 0; i < own->scratch_count; i++) {
    if (own->scratch[i].copy_of == (int32_t)slot) {
      usage |= WGPUBufferUsage_CopySrc;
    }
  }
  if (form->is_output && form->pair >= 0) {
    usage |= WGPUBufferUsage_CopyDst;
  }
  return usage;
}

quire_status quire_webgpu_check_tensor(const quire_plan *plan, size_t slot,
                                       const quire_tensor *tensor, quire_error *error) {
  const quire_webgpu *gpu = quire_webgpu_of(plan->device);
  const quire_form *form = &plan->forms[slot];
  const uint64_t step = gpu->limits.minStorageBufferOffsetAlignment;
  if (tensor->byte_offset % step != 0) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, form->name,
                      "byte_offset %" PRIu64 " is no multiple of %" PRIu64
                      " (minStorageBufferOffsetAlignment)",
                      tensor->byte_offset, step);
  }
  const uint64_t size = gpu->procs.BufferGetSize(tensor->data);
  const uint64_t bytes = (uint64_t)form->high;
  if (tensor->byte_offset > size || bytes > size - tensor->byte_offset) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, form->name,
                      "its %" PRIu64 " bytes from %" PRIu64 " on lie outside the buffer's %" PRIu64,
                      bytes, tensor->byte_offset, size);
  }
  const WGPUBufferUsage has = gpu->procs.BufferGetUsage(tensor->data);
  const WGPUBufferUsage needs = usage_of(plan, slot);
  if ((has & needs) != needs) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, form->name,
                      "its buffer's usages are 0x%" PRIx64 ", 0x%" PRIx64 " is needed",
                      (uint64_t)has, (uint64_t)needs);
  }
  return QUIRE_OK;
}

/* Slot whose buffer a binding shows in this run; -1: none of the caller's. */
static int32_t shown_slot(const quire_plan *plan, const quire_tensor *tensors,
                          const quire_webgpu_source *source) {
  if (source->output >= 0 &&
      (source->input < 0 || quire_is_separate(plan, tensors, (size_t)source->output))) {
    return source->output;
  }
  return source->input;
}

static quire_status check_pass(const quire_plan *plan, const quire_webgpu_pass *pass,
                               const quire_tensor *tensors, quire_error *error) {
  for (size_t i = 0; i < pass->source_count; i++) {
    const int32_t one = shown_slot(plan, tensors, &pass->sources[i]);
    if (one < 0 || !pass->sources[i].writable) {
      continue;
    }
    for (size_t k = 0; k < pass->source_count; k++) {
      const int32_t other = shown_slot(plan, tensors, &pass->sources[k]);
      if (other >= 0 && other != one && !pass->sources[k].writable &&
          tensors[one].data == tensors[other].data) {
        return quire_fail(error, QUIRE_UNSUPPORTED, NULL, plan->forms[one].name,
                          "is written in pass %s that reads %s, and both lie in one buffer: WebGPU "
                          "needs two",
                          pass->id, plan->forms[other].name);
      }
    }
  }
  return QUIRE_OK;
}

quire_status quire_webgpu_check_tensors(const quire_plan *plan, const quire_tensor *tensors,
                                        quire_error *error) {
  const quire_webgpu_plan *own = quire_webgpu_plan_of(plan);
  for (size_t slot = 0; slot < plan->slot_count; slot++) {
    const quire_form *form = &plan->forms[slot];
    if (!form->is_output || !quire_is_separate(plan, tensors, slot)) {
      continue;
    }
    const char *input = plan->forms[form->pair].name;
    if (tensors[slot].data == tensors[form->pair].data) {
      return quire_fail(error, QUIRE_UNSUPPORTED, NULL, form->name,
                        "lies in one buffer with %s, and WebGPU copies between two only", input);
    }
    const quire_webgpu *gpu = quire_webgpu_of(plan->device);
    if ((gpu->procs.BufferGetUsage(tensors[form->pair].data) & WGPUBufferUsage_CopySrc) == 0) {
      return quire_fail(error, QUIRE_BAD_REQUEST, NULL, input,
                        "is copied to %s, and its buffer lacks the usage CopySrc", form->name);
    }
  }
  for (size_t i = 0; i < own->pass_count; i++) {
    QUIRE_TRY(check_pass(plan, &own->passes[i], tensors, error));
  }
  return QUIRE_OK;
}
