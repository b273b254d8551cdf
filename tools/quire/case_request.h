/* From a case and the options of the command line to a request. */
#ifndef QUIRE_TOOL_CASE_REQUEST_H
#define QUIRE_TOOL_CASE_REQUEST_H

#include "arguments.h"
#include "case_file.h"
#include "quire/context.h"
#include "quire/plan.h"

/* Options that `run`, `check` and `explain` share: what to call, and where. */
typedef struct quire_call_options {
  const char *device; /* NULL: "cpu" */
  const char *op;     /* instead of the case's; NULL: the case's */
  const char *variant;
  const char *isa;
  const char *adapter; /* WebGPU: number or part of the name */
  const char *tuning;  /* tuning file; NULL: none */
  int64_t threads;
  size_t kept_bindings; /* of benchmarks on WebGPU */
  int is_strict;
  int no_subgroups, default_limits, as_hardware, trusted_shaders; /* WebGPU */
  quire_text_list attributes, dtypes, outputs;
} quire_call_options;

/* Their table; the group writes to a quire_call_options. */
enum { QUIRE_CALL_OPTION_COUNT = 15 };
extern const quire_option quire_call_option_table[QUIRE_CALL_OPTION_COUNT];

/* A request with all that it points to. The case must outlive it. */
typedef struct quire_case_request {
  quire_request request;
  json_t *attributes, *dtypes; /* the case's with the command line's laid over them */
  quire_request_tensor *inputs, *outputs;
  quire_named_value *values;
} quire_case_request;

/*
 * Builds the request. Inputs are all tensors that are not expected outputs. The outputs asked for
 * are those of --output, else (for_check) those that are expected, else those of the case's
 * `outputs`, which also say what a case that wants a refusal asks for; every in-place tensor gets
 * an output of its own, so that the case stays as it is. Types come from --dtype, the case's
 * output_dtypes, or (for_check) the expected tensor. On failure nothing is held. Statuses:
 * BAD_ATTRIBUTE (options, or the case's), BAD_REQUEST (options), OUT_OF_MEMORY.
 */
quire_status quire_request_build(const quire_case *opened, const quire_call_options *options,
                                 const quire_operator *op, int for_check, quire_case_request *built,
                                 quire_error *error);
void quire_request_release(quire_case_request *built);

#endif
