/* One choice of tunables for a call: planned, checked against the CPU's result, timed. */
#ifndef QUIRE_TOOL_TUNE_CANDIDATE_H
#define QUIRE_TOOL_TUNE_CANDIDATE_H

#include "call.h"

/* The call whose tunables are searched. */
typedef struct tune_problem {
  const quire_session *session; /* with the device that is tuned for */
  const quire_operator *op;
  const quire_case *opened;
  const quire_call_options *options;
  const quire_request *request;
  quire_call reference; /* the same call on the CPU */
} tune_problem;

/* Computes the reference. Statuses: those of planning and running. */
quire_status tune_problem_refer(tune_problem *problem, quire_device *cpu, quire_error *error);

/* Values by tunable; those of type NONE are not set. */
typedef struct tune_values {
  quire_named_value *items; /* one per tunable of the operator */
  size_t count;
} tune_values;

quire_status tune_values_make(const quire_operator *op, tune_values *values, quire_error *error);
void tune_values_copy(tune_values *target, const tune_values *source);
void tune_values_release(tune_values *values);

/*
 * What the device would do with the values, as a text: variant, buffers, dispatches, uniforms,
 * shaders. Equal texts are equal programs. The caller frees it. Statuses: those of planning.
 */
quire_status tune_candidate_describe(const tune_problem *problem, const tune_values *values,
                                     char **text, quire_error *error);

/*
 * Plans and runs the call with the values, and compares its outputs with the reference: INTERNAL if
 * they are wrong. Then *call is ready for timing: in-place tensors are updated in place from now
 * on. It must be released in any case. Statuses: those of planning and running.
 */
quire_status tune_candidate_make(const tune_problem *problem, const tune_values *values,
                                 quire_call *call, quire_error *error);

/* Time of one run, from `repeat` of them in a row: by the adapter's clock if it has one. */
quire_status tune_candidate_time(quire_call *call, size_t repeat, double *microseconds,
                                 quire_error *error);

#endif
