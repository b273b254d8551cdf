/* Runs a request: device, plan, buffers with guards, and the call itself. */
#ifndef QUIRE_TOOL_CALL_H
#define QUIRE_TOOL_CALL_H

#include "case_file.h"
#include "case_request.h"
#include "files.h"
#include "quire/buffer.h"
#include "quire/context.h"
#include "quire/device.h"
#include "quire/plan.h"

/* What all cases of one command share. */
typedef struct quire_session {
  quire_context *context;
  quire_device *device;
  const char *variant; /* of benchmarks: insist on this one; NULL: the planner's choice */
} quire_session;

/* Opens the context. */
quire_status quire_session_open(quire_session *session, quire_error *error);
/* Opens the device that the options name. */
quire_status quire_session_open_device(quire_session *session, const quire_call_options *options,
                                       quire_error *error);
void quire_session_close(quire_session *session);

/* The operator that the options or the case name. Statuses: NOT_FOUND, BAD_REQUEST. */
quire_status quire_session_operator(const quire_session *session, const quire_call_options *options,
                                    const quire_case *opened, const quire_operator **op,
                                    quire_error *error);

/*
 * Reads a manifest ("-": standard input) and loads it with the templates of its package, whose root
 * is `folder` (NULL: the manifest's own); the caller releases the operator.
 */
quire_status quire_session_load(const quire_session *session, const char *path, const char *folder,
                                quire_operator **op, quire_error *error);

/* An output of a call. Its memory is filled before the run and guarded on both sides. */
typedef struct quire_call_output {
  const char *name;
  quire_tensor form; /* data NULL */
  size_t bytes;
  unsigned char *memory; /* guard, elements, guard */
  void *data;            /* the elements, in host memory */
  void *buffer;          /* the same in a device's memory; NULL: the device works on the host's */
} quire_call_output;

typedef struct quire_call {
  quire_device *device;
  void **inputs; /* buffers of the device, one per slot; NULL entries: none */
  quire_plan *plan;
  quire_workspace *workspace;
  quire_tensor *tensors; /* one per slot */
  size_t tensor_count;
  quire_call_output *outputs; /* those that the plan computes, in the operator's order */
  size_t output_count;
} quire_call;

/*
 * Plans and runs a request. If it is refused, *call still holds what was made (so that a check can
 * see that nothing was written) and must be released all the same. Guards that were overwritten are
 * INTERNAL. Statuses: those of planning and running.
 */
quire_status quire_call_execute(const quire_session *session, const quire_operator *op,
                                const quire_case *opened, const quire_call_options *options,
                                const quire_request *request, quire_call *call, quire_error *error);
void quire_call_release(quire_call *call);

/* The output of that name, or NULL. */
const quire_call_output *quire_call_find(const quire_call *call, const char *name);

/* Name of the first output that was written to, at least in part; NULL if all are untouched. */
const char *quire_call_touched(const quire_call *call);

#endif
