/* Buffers of a workspace: one for each number of a plan's scratch, grown as plans need them. */
#ifndef QUIRE_DEVICE_WEBGPU_WORKSPACE_H
#define QUIRE_DEVICE_WEBGPU_WORKSPACE_H

#include "webgpu_plan.h"

typedef struct quire_webgpu_workspace {
  size_t count;
  WGPUBuffer *buffers; /* NULL: none yet */
  uint64_t *bytes;
} quire_webgpu_workspace;

/* Makes every buffer of the plan large enough. On failure the workspace is as before. The mutex is
   held. */
quire_status quire_webgpu_workspace_reserve(quire_webgpu *gpu, const quire_plan *plan,
                                            quire_workspace *workspace, quire_error *error);

#endif
