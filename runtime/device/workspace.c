#include "workspace.h"

#include <string.h>

#include "error.h"
#include "red_zones.h"

void quire_workspace_options_init(quire_workspace_options *options) {
  if (options == NULL) {
    return;
  }
  memset(options, 0, sizeof(*options));
  options->struct_size = sizeof(*options);
}

static quire_status check_options(const quire_workspace_options *options, quire_error *error) {
  if (options->struct_size < sizeof(*options)) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, "options",
                      "struct_size is %zu, quire_workspace_options has %zu bytes",
                      options->struct_size, sizeof(*options));
  }
  if (options->memory == NULL && options->bytes != 0) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, "options", "memory is NULL, bytes is %zu",
                      options->bytes);
  }
  if ((uintptr_t)options->memory % QUIRE_WORKSPACE_ALIGNMENT != 0) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, "options",
                      "memory is no multiple of %d bytes", (int)QUIRE_WORKSPACE_ALIGNMENT);
  }
  if (options->bytes > UINTPTR_MAX - (uintptr_t)options->memory) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, "options",
                      "%zu bytes leave the address space", options->bytes);
  }
  return QUIRE_OK;
}

quire_status quire_workspace_create(quire_device *device, const quire_workspace_options *options,
                                    quire_workspace **workspace, quire_error *error) {
  if (workspace == NULL) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, "workspace",
                      "the place for the workspace is NULL");
  }
  *workspace = NULL;
  if (device == NULL) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, "device", "is NULL");
  }
  if (options != NULL) {
    QUIRE_TRY(check_options(options, error));
    if (options->memory != NULL && !device->backend->host_memory) {
      return quire_fail(error, QUIRE_UNSUPPORTED, NULL, "options",
                        "the caller's memory is host memory, the device is \"%s\"",
                        device->backend->name);
    }
  }
  quire_workspace *made = quire_alloc_array(device->owner->allocator, 1, sizeof(*made));
  if (made == NULL) {
    return quire_fail_memory(error);
  }
  made->device = device;
  made->owned = options == NULL || options->memory == NULL;
  if (!made->owned) {
    made->memory = options->memory;
    made->bytes = options->bytes;
    made->counters.bytes = options->bytes;
  }
  quire_device_retain(device);
  *workspace = made;
  return QUIRE_OK;
}

void quire_workspace_disown(quire_workspace *workspace) {
  if (!workspace->borrows_device) {
    workspace->borrows_device = true;
    quire_device_release(workspace->device);
  }
}

static void free_memory(const quire_workspace *workspace, unsigned char *memory, size_t bytes) {
  quire_red_zones_lift(memory, bytes);
  quire_dealloc(workspace->device->owner->allocator, memory, bytes, QUIRE_WORKSPACE_ALIGNMENT);
}

void quire_workspace_release(quire_workspace *workspace) {
  if (workspace == NULL) {
    return;
  }
  if (workspace->owned) {
    free_memory(workspace, workspace->memory, workspace->bytes);
  }
  quire_device *device = workspace->device;
  if (device->backend->workspace_release != NULL) {
    device->backend->workspace_release(workspace);
  }
  bool borrows_device = workspace->borrows_device;
  quire_dealloc(device->owner->allocator, workspace, sizeof(*workspace), QUIRE_ALLOC_ALIGNMENT);
  if (!borrows_device) {
    quire_device_release(device);
  }
}

void quire_workspace_get_counters(const quire_workspace *workspace,
                                  quire_workspace_counters *counters) {
  if (counters == NULL) {
    return;
  }
  memset(counters, 0, sizeof(*counters));
  if (workspace != NULL) {
    *counters = workspace->counters;
  }
}

quire_status quire_workspace_reserve(quire_workspace *workspace, size_t bytes,
                                     quire_workspace_hold *hold, quire_error *error) {
  memset(hold, 0, sizeof(*hold));
  if (bytes <= workspace->bytes) {
    return QUIRE_OK;
  }
  if (!workspace->owned) {
    return quire_fail(error, QUIRE_LIMIT, NULL, "workspace",
                      "the caller's memory has %zu bytes, the plan needs %zu", workspace->bytes,
                      bytes);
  }
  unsigned char *grown =
      quire_alloc(workspace->device->owner->allocator, bytes, QUIRE_WORKSPACE_ALIGNMENT);
  if (grown == NULL) {
    return quire_fail(error, QUIRE_OUT_OF_MEMORY, NULL, "workspace",
                      "%zu bytes cannot be allocated", bytes);
  }
  hold->memory = workspace->memory;
  hold->bytes = workspace->bytes;
  hold->replaced = true;
  workspace->memory = grown;
  workspace->bytes = bytes;
  return QUIRE_OK;
}

void quire_workspace_commit(quire_workspace *workspace, quire_workspace_hold *hold) {
  if (hold->replaced) {
    free_memory(workspace, hold->memory, hold->bytes);
    workspace->counters.allocated++;
    workspace->counters.bytes = workspace->bytes;
  }
}

void quire_workspace_revert(quire_workspace *workspace, quire_workspace_hold *hold) {
  if (hold->replaced) {
    free_memory(workspace, workspace->memory, workspace->bytes);
    workspace->memory = hold->memory;
    workspace->bytes = hold->bytes;
  }
}
