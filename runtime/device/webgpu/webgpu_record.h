/* Recording a checked call. */
#ifndef QUIRE_DEVICE_WEBGPU_RECORD_H
#define QUIRE_DEVICE_WEBGPU_RECORD_H

#include "webgpu_workspace.h"

enum { QUIRE_WEBGPU_MOST_PASSES = 64 };

/* Bind groups of one call, in the order of the plan's passes. */
typedef struct quire_webgpu_groups {
  WGPUBindGroup items[QUIRE_WEBGPU_MOST_PASSES];
  size_t count;
  bool borrowed; /* kept by the workspace */
} quire_webgpu_groups;

/* All of these: the mutex is held. */

/* Finds bind groups that the workspace keeps: nothing can fail then. */
bool quire_webgpu_groups_find(const quire_webgpu *gpu, const quire_plan *plan,
                              const quire_tensor *tensors, const quire_workspace *workspace,
                              quire_webgpu_groups *groups);
/* Makes the bind groups, which the caller gives back, on failure too. Errors come from the scope
   that is open; DEVICE here only if the library gave none. */
quire_status quire_webgpu_groups_make(quire_webgpu *gpu, const quire_plan *plan,
                                      const quire_tensor *tensors, const quire_workspace *workspace,
                                      quire_webgpu_groups *groups, quire_error *error);
/*
 * Gives them back. `good`: no error came, so that the workspace may keep them if the device's
 * options say so.
 */
void quire_webgpu_groups_finish(quire_webgpu *gpu, const quire_plan *plan,
                                const quire_tensor *tensors, quire_workspace *workspace, bool good,
                                quire_webgpu_groups *groups);

/* ---- kept ones (webgpu_kept.c) ---- */

/* Finds the bind groups of this call among those that the workspace keeps. */
bool quire_webgpu_kept_find(const quire_webgpu *gpu, const quire_plan *plan,
                            const quire_tensor *tensors, const quire_workspace *workspace,
                            quire_webgpu_groups *groups);
/* Takes them over, if there is memory: then they are the workspace's. */
bool quire_webgpu_kept_add(quire_webgpu *gpu, const quire_plan *plan, const quire_tensor *tensors,
                           quire_workspace *workspace, const quire_webgpu_groups *groups);

/* Copies and clearing that must be done before the pass. True if there are any. */
bool quire_webgpu_needs_copies(const quire_plan *plan, const quire_tensor *tensors);
void quire_webgpu_record_copies(quire_webgpu *gpu, const quire_plan *plan,
                                const quire_tensor *tensors, const quire_workspace *workspace,
                                WGPUCommandEncoder encoder);
void quire_webgpu_record_passes(quire_webgpu *gpu, const quire_plan *plan,
                                const quire_webgpu_groups *groups, WGPUComputePassEncoder pass);

#endif
