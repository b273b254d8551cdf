#include "error.h"
#include "run_call.h"
#include "tensor_check.h"

quire_status quire_plan_run(quire_plan *plan, const quire_tensor *tensors, size_t tensor_count,
                            quire_workspace *workspace, const quire_run_options *options,
                            quire_error *error) {
  quire_run_options own;
  QUIRE_TRY(quire_check_call(plan, workspace, options, &own, error));
  bool prepared = (own.flags & QUIRE_RUN_PREPARED) != 0;
  if (prepared) {
    QUIRE_TRY(quire_check_prepared(plan, workspace, error));
  }
  QUIRE_TRY(quire_check_run(plan, tensors, tensor_count, workspace, error));
  if (prepared) {
    workspace->counters.reused++;
  } else {
    QUIRE_TRY(quire_prepare_checked(plan, tensors, workspace, &own, error));
  }
  return plan->device->backend->run(plan, tensors, workspace, &own, error);
}

size_t quire_plan_passes(const quire_plan *plan) {
  if (plan == NULL || plan->device->backend->passes == NULL) {
    return 0;
  }
  return plan->device->backend->passes(plan);
}

size_t quire_plan_items(const quire_plan *plan, const quire_workspace *workspace, size_t pass) {
  if (plan == NULL || workspace == NULL || pass >= quire_plan_passes(plan) ||
      quire_check_prepared(plan, workspace, NULL) != QUIRE_OK) {
    return 0;
  }
  return plan->device->backend->items(plan, workspace, pass);
}

quire_status quire_plan_run_items(quire_plan *plan, size_t pass, size_t first, size_t last,
                                  const quire_tensor *tensors, size_t tensor_count,
                                  quire_workspace *workspace, quire_error *error) {
  quire_run_options own;
  QUIRE_TRY(quire_check_call(plan, workspace, NULL, &own, error));
  if (plan->device->backend->run_items == NULL) {
    return quire_fail(error, QUIRE_UNSUPPORTED, NULL, plan->device->backend->name,
                      "this device does not run single items");
  }
  QUIRE_TRY(quire_check_prepared(plan, workspace, error));
  if (pass >= quire_plan_passes(plan)) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, "pass", "is %zu, the plan has %zu", pass,
                      quire_plan_passes(plan));
  }
  size_t items = quire_plan_items(plan, workspace, pass);
  if (first > last || last > items) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, "items", "[%zu, %zu) lies outside [0, %zu)",
                      first, last, items);
  }
  QUIRE_TRY(quire_check_run(plan, tensors, tensor_count, workspace, error));
  return plan->device->backend->run_items(plan, pass, first, last, tensors, workspace, error);
}
