/* What is explained or rendered: a call, and a device that is open, described, or both. */
#ifndef QUIRE_DEVICE_DESCRIBED_TARGET_H
#define QUIRE_DEVICE_DESCRIBED_TARGET_H

#include "backend.h"

/* What a target points to; lives as long as it. */
typedef struct quire_described_target {
  quire_target target;
  quire_device_description merged;
} quire_described_target;

/*
 * `description` laid over an open device's; either may be NULL. What is made is in `arena`.
 * Statuses: BAD_REQUEST (a malformed description), OUT_OF_MEMORY.
 */
quire_status quire_describe_target(const quire_operator *op, const quire_device *device,
                                   const quire_device_description *description, quire_arena *arena,
                                   quire_described_target *out, quire_error *error);

/* A call and the target that it is planned for; points into itself. */
typedef struct quire_described_call {
  const quire_request *request;
  const quire_target *target;
  quire_arena arena;
  quire_described_target described;
  quire_json_request parsed;
} quire_described_call;

/*
 * The arguments of a public call that writes text about a call: a request, or the JSON text of one
 * with its device. To be released whatever the status is: BAD_REQUEST (an argument is NULL or
 * malformed), OUT_OF_MEMORY, and for the text what quire_request_parse() gives.
 */
quire_status quire_describe_call(const quire_operator *op, const quire_device *device,
                                 const quire_device_description *description,
                                 const quire_request *request, quire_write_function *write,
                                 quire_described_call *out, quire_error *error);
quire_status quire_describe_json_call(const quire_operator *op, const char *text, size_t length,
                                      quire_write_function *write, quire_described_call *out,
                                      quire_error *error);
void quire_described_call_release(quire_described_call *call);

#endif
