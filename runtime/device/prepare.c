#include <string.h>

#include "error.h"
#include "run_call.h"
#include "tensor_check.h"
#include "workspace.h"

void quire_run_options_init(quire_run_options *options) {
  if (options == NULL) {
    return;
  }
  memset(options, 0, sizeof(*options));
  options->struct_size = sizeof(*options);
}

static quire_status check_encoder(const quire_plan *plan, const quire_run_options *options,
                                  quire_error *error) {
  if (plan->device->backend->host_memory) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, "options",
                      "an encoder is given, and the device is \"%s\"", plan->device->backend->name);
  }
  if ((options->flags & QUIRE_RUN_CHECK_VALUES) != 0) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, "options",
                      "values cannot be checked while a call is only recorded");
  }
  return QUIRE_OK;
}

quire_status quire_check_call(const quire_plan *plan, const quire_workspace *workspace,
                              const quire_run_options *options, quire_run_options *out,
                              quire_error *error) {
  if (plan == NULL || workspace == NULL) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, plan == NULL ? "plan" : "workspace",
                      "is NULL");
  }
  if (plan->device != workspace->device) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, "workspace",
                      "belongs to another device than the plan");
  }
  if (options == NULL) {
    quire_run_options_init(out);
    return QUIRE_OK;
  }
  if (options->struct_size < sizeof(*options)) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, "options",
                      "struct_size is %zu, quire_run_options has %zu bytes", options->struct_size,
                      sizeof(*options));
  }
  const uint32_t known = QUIRE_RUN_PREPARED | QUIRE_RUN_STRICT | QUIRE_RUN_CHECK_VALUES;
  if ((options->flags & ~known) != 0) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, "options",
                      "flags are 0x%x, of which 0x%x means nothing", (unsigned)options->flags,
                      (unsigned)(options->flags & ~known));
  }
  if (options->executor != NULL && options->executor->parallel_for == NULL) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, "options",
                      "the executor's parallel_for is NULL");
  }
  if (options->encoder != NULL) {
    QUIRE_TRY(check_encoder(plan, options, error));
  }
  *out = *options;
  return QUIRE_OK;
}

quire_status quire_check_prepared(const quire_plan *plan, const quire_workspace *workspace,
                                  quire_error *error) {
  if (!workspace->prepared || workspace->plan_serial != plan->serial) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, "workspace", "is not prepared for this %s",
                      workspace->prepared ? "plan, but for another" : "plan");
  }
  return QUIRE_OK;
}

/* Of the plan, how many bytes lie in host memory in this call. */
static size_t host_bytes(const quire_plan *plan, const quire_run_options *options) {
  if (plan->device->backend->host_memory) {
    return plan->need.bytes;
  }
  return (options->flags & QUIRE_RUN_CHECK_VALUES) != 0 ? plan->step_bytes : 0;
}

quire_status quire_prepare_checked(quire_plan *plan, const quire_tensor *tensors,
                                   quire_workspace *workspace, const quire_run_options *options,
                                   quire_error *error) {
  workspace->prepared = false;
  quire_workspace_hold hold;
  QUIRE_TRY(quire_workspace_reserve(workspace, host_bytes(plan, options), &hold, error));
  quire_status status = plan->device->backend->prepare(plan, tensors, workspace, options, error);
  if (status != QUIRE_OK) {
    quire_workspace_revert(workspace, &hold);
    return status;
  }
  quire_workspace_commit(workspace, &hold);
  if (workspace->plan_serial == plan->serial) {
    workspace->counters.reused++;
  } else {
    workspace->counters.prepared++;
  }
  workspace->plan_serial = plan->serial;
  workspace->prepared_flags = options->flags & QUIRE_RUN_STRICT;
  workspace->prepared = true;
  return QUIRE_OK;
}

quire_status quire_plan_prepare(quire_plan *plan, const quire_tensor *tensors, size_t tensor_count,
                                quire_workspace *workspace, const quire_run_options *options,
                                quire_error *error) {
  quire_run_options own = {0}; /* filled by the check, which clang-tidy does not see */
  if (workspace == NULL) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, "workspace", "is NULL");
  }
  workspace->prepared = false; /* of whatever step it was: this call replaces it or fails */
  QUIRE_TRY(quire_check_call(plan, workspace, options, &own, error));
  QUIRE_TRY(quire_check_prepare(plan, tensors, tensor_count, workspace, error));
  return quire_prepare_checked(plan, tensors, workspace, &own, error);
}
