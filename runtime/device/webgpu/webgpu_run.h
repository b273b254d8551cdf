/* WebGPU's plans and runs, as backend.h describes them. */
#ifndef QUIRE_DEVICE_WEBGPU_RUN_H
#define QUIRE_DEVICE_WEBGPU_RUN_H

#include "backend.h"

quire_status quire_webgpu_plan_create(quire_plan *plan, quire_error *error);
void quire_webgpu_plan_destroy(quire_plan *plan);
quire_status quire_webgpu_prepare(quire_plan *plan, const quire_tensor *tensors,
                                  quire_workspace *workspace, const quire_run_options *options,
                                  quire_error *error);
quire_status quire_webgpu_run(quire_plan *plan, const quire_tensor *tensors,
                              quire_workspace *workspace, const quire_run_options *options,
                              quire_error *error);
quire_status quire_webgpu_check_tensor(const quire_plan *plan, size_t slot,
                                       const quire_tensor *tensor, quire_error *error);
quire_status quire_webgpu_check_tensors(const quire_plan *plan, const quire_tensor *tensors,
                                        quire_error *error);
void quire_webgpu_workspace_release(quire_workspace *workspace);

#endif
