/* The CPU's plans and runs, as backend.h describes them. */
#ifndef QUIRE_DEVICE_CPU_RUN_H
#define QUIRE_DEVICE_CPU_RUN_H

#include "cpu_plan.h"

/*
 * Clears scratch of lifetime `step` and runs a schedule pass (NULL: none) on tensors in host
 * memory; `threads`: a hint, 0: unknown. Also for devices, whose values are read back.
 */
quire_status quire_cpu_schedule_run(const quire_plan *plan, const quire_cpu_pass *schedule,
                                    const quire_tensor *tensors, const quire_workspace *workspace,
                                    uint32_t flags, uint32_t threads, quire_error *error);

quire_status quire_cpu_plan_create(quire_plan *plan, quire_error *error);
void quire_cpu_plan_destroy(quire_plan *plan);
quire_status quire_cpu_prepare(quire_plan *plan, const quire_tensor *tensors,
                               quire_workspace *workspace, const quire_run_options *options,
                               quire_error *error);
quire_status quire_cpu_run(quire_plan *plan, const quire_tensor *tensors,
                           quire_workspace *workspace, const quire_run_options *options,
                           quire_error *error);
size_t quire_cpu_passes(const quire_plan *plan);
size_t quire_cpu_items(const quire_plan *plan, const quire_workspace *workspace, size_t pass);
quire_status quire_cpu_run_items(quire_plan *plan, size_t pass, size_t first, size_t last,
                                 const quire_tensor *tensors, quire_workspace *workspace,
                                 quire_error *error);

#endif
