/* Buffers of a workspace: one for each number of a plan's scratch, grown as plans need them. */
#ifndef QUIRE_DEVICE_WEBGPU_WORKSPACE_H
#define QUIRE_DEVICE_WEBGPU_WORKSPACE_H

#include "webgpu_plan.h"

/* Bind groups of a call that was recorded, kept for the same call. */
typedef struct quire_webgpu_kept {
  uint64_t plan_serial; /* 0: empty */
  uint64_t used;        /* clock of the last use */
  uint64_t hash;        /* of what follows */
  WGPUBuffer *buffers;  /* of the caller's tensors by slot, with a reference each; NULL entries */
  uint64_t *offsets;
  size_t slot_count;
  WGPUBindGroup *groups;
  size_t group_count;
} quire_webgpu_kept;

typedef struct quire_webgpu_workspace {
  size_t count;
  WGPUBuffer *buffers; /* NULL: none yet */
  uint64_t *bytes;
  quire_webgpu_kept *kept; /* gpu->kept_bindings of them; NULL: none yet */
  uint64_t clock;
} quire_webgpu_workspace;

/* Forgets the bind groups: their scratch is gone. The mutex is held. */
void quire_webgpu_kept_clear(quire_webgpu *gpu, quire_webgpu_workspace *own);

/* Makes every buffer of the plan large enough. On failure the workspace is as before. The mutex is
   held. */
quire_status quire_webgpu_workspace_reserve(quire_webgpu *gpu, const quire_plan *plan,
                                            quire_workspace *workspace, quire_error *error);

#endif
