/* A plan as WebGPU runs it. */
#ifndef QUIRE_DEVICE_WEBGPU_PLAN_H
#define QUIRE_DEVICE_WEBGPU_PLAN_H

#include "cpu_plan.h"
#include "webgpu_device.h"

/* What a binding shows; exactly one of the four is >= 0, or none for an empty tensor or scratch. */
typedef struct quire_webgpu_source {
  int32_t input;   /* slot */
  int32_t output;  /* slot; with `input`: an in-place tensor */
  int32_t scratch; /* number of a buffer of the workspace */
  int32_t uniform; /* byte offset in the plan's uniforms */
  bool writable;
  uint64_t bytes; /* of the binding, a multiple of 4 */
} quire_webgpu_source;

typedef struct quire_webgpu_pass {
  const char *id;
  quire_webgpu_pipeline pipeline; /* NULL handles: nothing to dispatch */
  const quire_webgpu_source *sources;
  size_t source_count;
  uint32_t dispatch[3];
} quire_webgpu_pass;

/* A buffer of the workspace that a plan needs. */
typedef struct quire_webgpu_scratch {
  uint64_t bytes;
  bool clear;      /* must be zero when the passes begin */
  int32_t copy_of; /* slot whose content it gets first; -1: none */
} quire_webgpu_scratch;

typedef struct quire_webgpu_plan {
  const quire_webgpu_pass *passes; /* shader passes, in order */
  size_t pass_count;
  const quire_webgpu_scratch *scratch;
  size_t scratch_count;
  WGPUBuffer uniforms;             /* NULL: none */
  const quire_cpu_pass *schedule;  /* host's check of values; NULL: none */
  const quire_plan *schedule_plan; /* this plan, or its host's: whose pass it is */
} quire_webgpu_plan;

static inline const quire_webgpu_plan *quire_webgpu_plan_of(const quire_plan *plan) {
  return plan->backend_data;
}

#endif
