/* The part that prepare and run share. */
#ifndef QUIRE_DEVICE_RUN_CALL_H
#define QUIRE_DEVICE_RUN_CALL_H

#include "backend.h"

/* Checks plan, workspace and options, and copies the options (or their defaults) to *out. */
quire_status quire_check_call(const quire_plan *plan, const quire_workspace *workspace,
                              const quire_run_options *options, quire_run_options *out,
                              quire_error *error);

/*
 * Makes room, runs the schedule pass and counts the call. The tensors have been checked. On failure
 * memory and counters are as before, and the workspace is prepared for nothing.
 */
quire_status quire_prepare_checked(quire_plan *plan, const quire_tensor *tensors,
                                   quire_workspace *workspace, const quire_run_options *options,
                                   quire_error *error);

/* BAD_REQUEST unless the workspace is prepared for this plan. */
quire_status quire_check_prepared(const quire_plan *plan, const quire_workspace *workspace,
                                  quire_error *error);

#endif
