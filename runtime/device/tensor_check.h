/* What is checked about the tensors of a call before anything is written. */
#ifndef QUIRE_DEVICE_TENSOR_CHECK_H
#define QUIRE_DEVICE_TENSOR_CHECK_H

#include "backend.h"

/*
 * All tensors of a run: forms equal to the plan's, memory present and aligned, and no written
 * buffer (the workspace included) overlaps another, except as `mayAlias` and in-place tensors
 * allow. Statuses: BAD_REQUEST, BAD_PRESENCE, BAD_ALIAS.
 */
quire_status quire_check_run(const quire_plan *plan, const quire_tensor *tensors,
                             size_t tensor_count, const quire_workspace *workspace,
                             quire_error *error);

/*
 * The tensors of a prepare: what the schedule pass reads must be there; of the rest, what is there
 * must have the plan's form.
 */
quire_status quire_check_prepare(const quire_plan *plan, const quire_tensor *tensors,
                                 size_t tensor_count, const quire_workspace *workspace,
                                 quire_error *error);

/* True if the output side of an in-place tensor (slot `output`) has a buffer of its own: the input
   is copied into it. The tensors have been checked. */
bool quire_is_separate(const quire_plan *plan, const quire_tensor *tensors, size_t output);

#endif
