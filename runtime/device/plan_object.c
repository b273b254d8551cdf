#include <string.h>

#include "backend.h"
#include "checked.h"
#include "error.h"
#include "form.h"
#include "red_zones.h"
#include "workspace.h"

void quire_request_init(quire_request *request) {
  if (request == NULL) {
    return;
  }
  memset(request, 0, sizeof(*request));
  request->struct_size = sizeof(*request);
}

/* ---- workspace layout ---- */

/* Gives places to the intermediates of one lifetime, from *bytes on. */
static bool place(const quire_plan *plan, bool step, size_t *offsets, size_t *bytes) {
  size_t count = quire_described_variant(&plan->description)->intermediate_count;
  for (size_t i = 0; i < count; i++) {
    const quire_plan_intermediate *one = &plan->description.intermediates[i];
    if (one->step != step) {
      continue;
    }
    size_t end = 0;
    offsets[i] = *bytes;
    if ((uint64_t)one->bytes > SIZE_MAX || !quire_add_size(*bytes, (size_t)one->bytes, &end) ||
        !quire_align_size(end, QUIRE_WORKSPACE_ALIGNMENT, &end) ||
        !quire_add_size(end, QUIRE_RED_ZONE, bytes)) {
      return false;
    }
  }
  return true;
}

/* What lives from prepare to the runs comes first, so that plans of one step could share it. */
static quire_status lay_out(quire_plan *plan, quire_error *error) {
  size_t count = quire_described_variant(&plan->description)->intermediate_count;
  size_t *offsets = quire_arena_array(&plan->arena, count, sizeof(*offsets));
  if (offsets == NULL) {
    return quire_fail_memory(error);
  }
  size_t bytes = count == 0 ? 0 : QUIRE_RED_ZONE;
  bool fits = place(plan, true, offsets, &bytes);
  plan->step_bytes = bytes;
  if (!fits || !place(plan, false, offsets, &bytes)) {
    return quire_fail(error, QUIRE_LIMIT, plan->description.manifest->rules[QUIRE_RULE_LIMIT],
                      "workspace", "its bytes exceed %d bits", (int)(sizeof(size_t) * 8));
  }
  plan->offsets = offsets;
  plan->need.bytes = bytes;
  plan->need.alignment = QUIRE_WORKSPACE_ALIGNMENT;
  return QUIRE_OK;
}

/* ---- life ---- */

static quire_status check_arguments(quire_device *device, const quire_operator *op,
                                    const quire_request *request, quire_error *error) {
  const char *missing =
      device == NULL ? "device" : (op == NULL ? "op" : (request == NULL ? "request" : NULL));
  if (missing != NULL) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, missing, "is NULL");
  }
  if (request->struct_size < sizeof(*request)) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, "request",
                      "struct_size is %zu, quire_request has %zu bytes", request->struct_size,
                      sizeof(*request));
  }
  if (op->owner != device->owner) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, "op",
                      "operator and device belong to different contexts");
  }
  return QUIRE_OK;
}

static bool has_schedule(const quire_plan_description *description) {
  return description->passes[0].manifest->schedule;
}

/* Plans the call for the CPU in *host, in the arena of `plan`. *made: false if the CPU has no such
   call, or checks nothing. Only want of memory is a failure. */
static quire_status plan_host(quire_plan *plan, const quire_request *request, quire_plan *host,
                              bool *made) {
  const quire_device_description cpu = {.struct_size = sizeof cpu, .backend = "cpu"};
  quire_request own = *request;
  own.variant = NULL;
  quire_target target;
  quire_target_init(&target, &cpu, plan->device->owner->registry, QUIRE_ISA_SCALAR);
  host->device = plan->device;
  host->op = plan->op;
  host->arena = plan->arena; /* lent, and taken back */
  quire_status status = quire_plan_describe(plan->op->manifest, &own, &target, &host->arena,
                                            &host->description, NULL);
  *made = status == QUIRE_OK && has_schedule(&host->description) &&
          host->description.passes[0].implementation != NULL;
  if (*made) {
    status = quire_forms_build(host, NULL);
    status = status == QUIRE_OK ? lay_out(host, NULL) : status;
    *made = status == QUIRE_OK;
  }
  plan->arena = host->arena;
  return status == QUIRE_OUT_OF_MEMORY ? status : QUIRE_OK;
}

static quire_status add_host(quire_plan *plan, const quire_request *request, quire_error *error) {
  if (plan->device->backend->host_memory || has_schedule(&plan->description)) {
    return QUIRE_OK;
  }
  bool made = false;
  quire_plan *host = quire_arena_array(&plan->arena, 1, sizeof *host);
  if (host == NULL || plan_host(plan, request, host, &made) != QUIRE_OK) {
    return quire_fail_memory(error);
  }
  if (made) {
    quire_forms_mark_scheduled(plan, host);
    plan->host = host;
    plan->step_bytes = host->step_bytes;
  }
  return QUIRE_OK;
}

static quire_status fill(quire_plan *plan, const quire_request *request, quire_error *error) {
  quire_device *device = plan->device;
  quire_target target;
  quire_target_init(&target, &device->description, device->owner->registry, device->isa);
  target.tuning = device->is_tuned ? &device->tuning : NULL;
  QUIRE_TRY(quire_plan_describe(plan->op->manifest, request, &target, &plan->arena,
                                &plan->description, error));
  QUIRE_TRY(quire_forms_build(plan, error));
  QUIRE_TRY(lay_out(plan, error));
  QUIRE_TRY(add_host(plan, request, error));
  return device->backend->plan_create(plan, error);
}

static void free_plan(quire_plan *plan) {
  const quire_allocator *allocator = plan->device->owner->allocator;
  quire_arena_release(&plan->arena);
  quire_dealloc(allocator, plan, sizeof(*plan), QUIRE_ALLOC_ALIGNMENT);
}

quire_status quire_plan_create(quire_device *device, const quire_operator *op,
                               const quire_request *request, quire_plan **plan,
                               quire_error *error) {
  if (plan == NULL) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, "plan", "the place for the plan is NULL");
  }
  *plan = NULL;
  QUIRE_TRY(check_arguments(device, op, request, error));
  quire_owner *owner = device->owner;
  quire_plan *made = quire_alloc_array(owner->allocator, 1, sizeof(*made));
  if (made == NULL) {
    return quire_fail_memory(error);
  }
  atomic_init(&made->references, 1);
  made->device = device;
  made->op = op;
  quire_arena_init(&made->arena, owner->allocator);
  quire_status status = fill(made, request, error);
  if (status != QUIRE_OK) {
    free_plan(made);
    return status;
  }
  made->serial = atomic_fetch_add_explicit(&owner->plan_count, 1, memory_order_relaxed) + 1;
  quire_device_retain(device);
  if (!op->built_in) {
    quire_operator_retain(op);
  }
  *plan = made;
  return QUIRE_OK;
}

void quire_plan_disown(quire_plan *plan) {
  if (!plan->borrows_device) {
    plan->borrows_device = true;
    quire_device_release(plan->device);
  }
}

void quire_plan_release(quire_plan *plan) {
  if (plan == NULL || atomic_fetch_sub_explicit(&plan->references, 1, memory_order_acq_rel) != 1) {
    return;
  }
  quire_device *device = plan->device;
  quire_operator *op = (quire_operator *)plan->op;
  bool borrows_device = plan->borrows_device;
  device->backend->plan_destroy(plan);
  free_plan(plan);
  if (!op->built_in) {
    quire_operator_release(op);
  }
  if (!borrows_device) {
    quire_device_release(device);
  }
}

/* ---- what a plan tells ---- */

const char *quire_plan_variant(const quire_plan *plan) {
  return plan == NULL ? NULL : quire_described_variant(&plan->description)->id;
}

quire_status quire_plan_slot(const quire_plan *plan, size_t slot, quire_tensor *form) {
  if (form == NULL) {
    return QUIRE_BAD_REQUEST;
  }
  memset(form, 0, sizeof(*form));
  if (plan == NULL || slot >= plan->slot_count) {
    return QUIRE_BAD_REQUEST;
  }
  const quire_form *own = &plan->forms[slot];
  if (own->present) {
    form->dtype = own->dtype;
    form->ndim = own->ndim;
    form->shape = own->shape;
    form->strides = own->dense ? NULL : own->strides;
  }
  return QUIRE_OK;
}

uint64_t quire_plan_slot_bytes(const quire_plan *plan, size_t slot) {
  if (plan == NULL || slot >= plan->slot_count || !plan->forms[slot].present) {
    return 0;
  }
  const quire_form *form = &plan->forms[slot];
  return (uint64_t)form->high - (uint64_t)form->low;
}

void quire_plan_workspace(const quire_plan *plan, quire_workspace_need *need) {
  if (need == NULL) {
    return;
  }
  memset(need, 0, sizeof(*need));
  need->alignment = QUIRE_WORKSPACE_ALIGNMENT;
  if (plan != NULL) {
    *need = plan->need;
  }
}

quire_status quire_plan_tuning_key(const quire_plan *plan, quire_write_function *write, void *user,
                                   quire_error *error) {
  if (plan == NULL || write == NULL) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, plan == NULL ? "plan" : "write", "is NULL");
  }
  if (plan->description.facts == NULL) {
    return quire_fail(error, QUIRE_UNSUPPORTED, NULL,
                      quire_described_variant(&plan->description)->id,
                      "has native kernels only: tuned values are for shaders");
  }
  quire_text text;
  quire_text_init(&text, plan->device->owner->allocator);
  quire_plan_write_tuning_key(&plan->description, &text);
  quire_status status = text.failed ? quire_fail_memory(error) : QUIRE_OK;
  if (status == QUIRE_OK) {
    write(user, quire_text_view(&text), text.length);
  }
  quire_text_release(&text);
  return status;
}
