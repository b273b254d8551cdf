/* What a backend is to the engine, and the objects that the public API hands out. */
#ifndef QUIRE_DEVICE_BACKEND_H
#define QUIRE_DEVICE_BACKEND_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "planner.h"
#include "quire/buffer.h"
#include "quire/device.h"
#include "quire/plan.h"
#include "tuning.h"

/*
 * Shared ownership: the library's context owns manifests, registry and allocator; device code sees
 * only this. retain/release count references to the owner.
 */
typedef struct quire_owner {
  const quire_allocator *allocator;
  const quire_registry *registry;
  atomic_uint_fast64_t
      plan_count; /* plans made so far: where serial numbers come from; begins at 0 */
  void (*retain)(struct quire_owner *owner);
  void (*release)(struct quire_owner *owner);
} quire_owner;

/* An operator as the engine sees it: its manifest, kept alive by reference counts. */
struct quire_operator {
  quire_manifest *manifest;
  atomic_size_t references; /* of loaded ones; built-in ones live with their owner */
  bool built_in;
  quire_owner *owner;
  const struct quire_template_source *templates; /* of its shaders, for quire_template_render();
                                                    NULL: none were given */
};
void quire_operator_retain(const quire_operator *op);

typedef struct quire_backend quire_backend;

/* Functions of a backend. All are thread-safe unless said otherwise. */
struct quire_backend {
  const char *name; /* "cpu" */
  bool host_memory; /* the data of tensors and workspaces is host memory */
  quire_status (*open)(quire_device *device, const quire_device_options *options,
                       quire_error *error);
  void (*close)(quire_device *device);
  void (*facts)(const quire_device *device, quire_device_facts *facts);
  /* Called by quire_plan_create when description, forms and workspace layout are filled: anything
     to compile. May keep data in plan->backend_data (memory: plan->arena). */
  quire_status (*plan_create)(quire_plan *plan, quire_error *error);
  void (*plan_destroy)(quire_plan *plan);
  quire_status (*prepare)(quire_plan *plan, const quire_tensor *tensors, quire_workspace *workspace,
                          const quire_run_options *options, quire_error *error);
  /* The plan is prepared and all tensors were checked. */
  quire_status (*run)(quire_plan *plan, const quire_tensor *tensors, quire_workspace *workspace,
                      const quire_run_options *options, quire_error *error);
  /* Passes after the schedule pass, the leading one (copies, clearing) included, and their items,
     for callers with threads of their own; NULL: the backend has no such thing. */
  size_t (*passes)(const quire_plan *plan);
  size_t (*items)(const quire_plan *plan, const quire_workspace *workspace, size_t pass);
  quire_status (*run_items)(quire_plan *plan, size_t pass, size_t first, size_t last,
                            const quire_tensor *tensors, quire_workspace *workspace,
                            quire_error *error);
  /*
   * Without host memory: what can be checked about the memory of one tensor that has elements and
   * data, and about all tensors of a run together, besides overlaps.
   */
  quire_status (*check_tensor)(const quire_plan *plan, size_t slot, const quire_tensor *tensor,
                               quire_error *error);
  quire_status (*check_tensors)(const quire_plan *plan, const quire_tensor *tensors,
                                quire_error *error);
  void (*workspace_release)(quire_workspace *workspace); /* NULL: nothing to release */
  /* quire/buffer.h; the arguments are not NULL. */
  quire_status (*buffer_create)(quire_device *device, uint64_t bytes, void **buffer,
                                quire_error *error);
  void (*buffer_destroy)(quire_device *device, void *buffer);
  quire_status (*buffer_write)(quire_device *device, void *buffer, uint64_t offset,
                               const void *data, uint64_t bytes, quire_error *error);
  quire_status (*buffer_read)(quire_device *device, void *buffer, uint64_t offset, void *data,
                              uint64_t bytes, quire_error *error);
  quire_status (*buffer_copy)(quire_device *device, const quire_buffer_copy_range *ranges,
                              size_t count, quire_error *error);
};

extern const quire_backend quire_backend_cpu;
extern const quire_backend quire_backend_webgpu; /* with QUIRE_WITH_WEBGPU */

struct quire_device {
  atomic_size_t references;
  quire_owner *owner;
  const quire_backend *backend;
  quire_device_description description;
  quire_isa isa;
  size_t plan_cache_size;
  quire_arena arena; /* of the tuned values */
  bool is_tuned;     /* a tuning file was given */
  quire_tuning tuning;
  void *backend_data;
  struct quire_call_cache *calls; /* plan cache and workspaces of typed calls: library's */
  void (*calls_destroy)(struct quire_device *device); /* set by the library */
};
void quire_device_retain(quire_device *device);
/* Lays the caller's options (NULL: none) over the defaults, whichever size the struct had in the
   headers that the caller was built with. BAD_REQUEST: no such size. */
quire_status quire_device_options_read(const quire_device_options *given, quire_device_options *own,
                                       quire_error *error);
/* Opens with an owner already resolved: quire_device_open's body. */
quire_status quire_device_open_backend(quire_owner *owner, const char *name,
                                       const quire_device_options *options, quire_device **device,
                                       quire_error *error);

/* What a run must bind to a slot. Computed once per plan. */
typedef struct quire_form {
  const char *name; /* operator's name of the slot */
  bool present;
  bool is_output;
  int32_t pair;  /* in place: slot of the other side; else -1 */
  int32_t alias; /* pure output that the request says is an input's buffer: its slot; else -1 */
  quire_dtype dtype;
  int32_t ndim;
  int64_t shape[QUIRE_MAX_RANK];
  int64_t strides[QUIRE_MAX_RANK]; /* in elements, always filled */
  bool dense;
  bool scheduled; /* a pure input of integers that the schedule pass reads */
  int64_t elements;
  /* Bytes from element (0, 0, ...) to the first and behind the last byte in use. Without host
     memory: 0, and what a dense tensor takes in a buffer of the device. */
  int64_t low, high;
} quire_form;

struct quire_plan {
  atomic_size_t references;
  quire_device *device;
  bool borrows_device; /* see quire_plan_disown */
  const quire_operator *op;
  quire_arena arena;
  quire_plan_description description;
  const quire_form *forms; /* one per slot */
  size_t slot_count;
  quire_workspace_need need;
  const size_t *offsets; /* of intermediates in the workspace's memory */
  size_t step_bytes;     /* of those that live from prepare to the runs: they come first */
  /* On devices, where the variant has no schedule pass of its own: the call as the CPU plans it,
     for that plan's schedule pass, which checks the same values. NULL: none. Lies in the arena, and
     is complete but for what runs. */
  struct quire_plan *host;
  uint64_t serial; /* unique in its owner, from 1: what a workspace remembers */
  void *backend_data;
};

/*
 * Gives up the plan's (workspace's) reference to its device, for those that the device itself
 * keeps: a cache of typed calls would keep its device alive for ever otherwise. The device must
 * outlive it.
 */
void quire_plan_disown(quire_plan *plan);
void quire_workspace_disown(quire_workspace *workspace);

struct quire_workspace {
  quire_device *device;
  bool borrows_device;
  unsigned char *memory; /* host memory, aligned to 64 */
  size_t bytes;
  bool owned;
  uint64_t plan_serial; /* plan of the last call; 0: none */
  bool prepared;        /* a prepare of that plan succeeded */
  uint32_t prepared_flags;
  quire_workspace_counters counters;
  void *backend_data; /* NULL until the backend needs it */
};

#endif
