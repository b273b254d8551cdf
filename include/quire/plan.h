/* Plans: what a call of an operator will do, decided once per shape. */
#ifndef QUIRE_PLAN_H
#define QUIRE_PLAN_H

#include <stddef.h>
#include <stdint.h>

#include "quire/context.h"
#include "quire/device.h"
#include "quire/export.h"
#include "quire/status.h"
#include "quire/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Which names the tensors of a request use. */
typedef enum quire_naming {
  QUIRE_NAMES_OPERATOR = 0, /* the operator's: "key_cache", output side "key_cache_out" */
  QUIRE_NAMES_MANIFEST = 1  /* the manifest's keys, on both sides */
} quire_naming;

typedef enum quire_precision {
  QUIRE_PRECISION_EXACT = 0, /* one order of arithmetic: same sequence, same bits */
  QUIRE_PRECISION_FAST = 1   /* implementations with a tolerance of their own are allowed */
} quire_precision;

/* A tensor of a request: its form without its memory. */
typedef struct quire_request_tensor {
  const char *name;
  quire_dtype dtype;      /* outputs: NONE if the operator is to decide */
  int32_t ndim;           /* outputs: -1 if the shape is to be inferred */
  const int64_t *shape;   /* ndim dimensions */
  const int64_t *strides; /* in elements; NULL: dense */
  const char *alias;      /* outputs: name of the input whose very buffer it is; else NULL */
} quire_request_tensor;

/*
 * What a call looks like. Everything is borrowed during the call that it is given to. An absent
 * optional input is left out. Listing an output asks for it; a pure output that is not optional
 * need not be listed. Listing the output side of an in-place tensor says that it has a buffer of
 * its own (or, with `alias`, the input's).
 */
typedef struct quire_request {
  size_t struct_size;
  quire_naming naming;
  const quire_request_tensor *inputs;
  size_t input_count;
  const quire_request_tensor *outputs;
  size_t output_count;
  const quire_named_value *attributes;
  size_t attribute_count;
  const quire_named_value *tunables;
  size_t tunable_count;
  const quire_named_value *dtypes; /* type symbol -> element type by name (type STRING) */
  size_t dtype_count;
  quire_precision precision;
  const char *variant; /* insist on this variant; NULL: the planner's choice */
} quire_request;

QUIRE_API void quire_request_init(quire_request *request);

/* A plan: immutable, thread-safe, shared by any number of runs. */
typedef struct quire_plan quire_plan;

/*
 * Plans a call. Reads no tensor data. On success *plan is the caller's, to be released with
 * quire_plan_release(); on failure it is NULL and nothing has changed. Statuses: those of the
 * operator's contract (BAD_*), UNSUPPORTED (no variant: the message says which condition failed
 * with which values), LIMIT, BAD_REQUEST (unknown output, tunable, variant), OUT_OF_MEMORY.
 */
QUIRE_API quire_status quire_plan_create(quire_device *device, const quire_operator *op,
                                         const quire_request *request, quire_plan **plan,
                                         quire_error *error);

/* Gives up the caller's reference; NULL is allowed. */
QUIRE_API void quire_plan_release(quire_plan *plan);

/* The chosen variant's name. */
QUIRE_API const char *quire_plan_variant(const quire_plan *plan);

/*
 * Form of the tensor in a slot: dtype, ndim, shape; strides NULL if dense; data NULL. Absent
 * tensors have dtype NONE. BAD_REQUEST out of range. Pointers live as long as the plan.
 */
QUIRE_API quire_status quire_plan_slot(const quire_plan *plan, size_t slot, quire_tensor *form);

/* Bytes of the slot's dense tensor in memory of the plan's device: what a buffer for it must have
   at least. On WebGPU a multiple of 4, and more than its elements where the manifest stores them
   wider. 0: absent, without elements, or out of range. */
QUIRE_API uint64_t quire_plan_slot_bytes(const quire_plan *plan, size_t slot);

/*
 * Writes what values that are tuned for this plan are kept under, a JSON object of texts: operator,
 * manifest, variant, adapter, class (docs/webgpu.md). Statuses: BAD_REQUEST, UNSUPPORTED (a plan of
 * native kernels), OUT_OF_MEMORY; nothing is written then.
 */
QUIRE_API quire_status quire_plan_tuning_key(const quire_plan *plan, quire_write_function *write,
                                             void *user, quire_error *error);

/* What a plan needs to run. */
typedef struct quire_workspace_need {
  size_t bytes;
  size_t alignment;
} quire_workspace_need;

QUIRE_API void quire_plan_workspace(const quire_plan *plan, quire_workspace_need *need);

typedef struct quire_workspace_options {
  size_t struct_size;
  void *
      memory; /* the caller's memory, used and never freed; NULL: the library allocates and grows */
  size_t bytes; /* size of memory */
} quire_workspace_options;

QUIRE_API void quire_workspace_options_init(quire_workspace_options *options);

/*
 * Reusable scratch: memory, the plan it is prepared for, and counters. Not thread-safe: one call at
 * a time. Keep one per plan and step; layers of one shape share it.
 */
typedef struct quire_workspace quire_workspace;

/* options may be NULL. Statuses: BAD_REQUEST, OUT_OF_MEMORY. */
QUIRE_API quire_status quire_workspace_create(quire_device *device,
                                              const quire_workspace_options *options,
                                              quire_workspace **workspace, quire_error *error);
QUIRE_API void quire_workspace_release(quire_workspace *workspace);

typedef struct quire_workspace_counters {
  uint64_t prepared;  /* changes of plan */
  uint64_t reused;    /* calls that found their plan in place */
  uint64_t allocated; /* growths of memory */
  uint64_t bytes;     /* memory held */
} quire_workspace_counters;

QUIRE_API void quire_workspace_get_counters(const quire_workspace *workspace,
                                            quire_workspace_counters *counters);

/* Flags of a run. */
enum {
  QUIRE_RUN_PREPARED = 1,    /* quire_plan_prepare() ran for this step on this workspace */
  QUIRE_RUN_STRICT = 2,      /* a table entry in use must exist, a slot must exist or be -1 */
  QUIRE_RUN_CHECK_VALUES = 4 /* devices: read lengths back and check them; a CPU always does */
};

struct WGPUCommandEncoderImpl; /* webgpu.h's WGPUCommandEncoder points to it */

typedef struct quire_run_options {
  size_t struct_size;
  const quire_executor *executor; /* threads for this call; NULL: the device's */
  uint32_t flags;
  /* WebGPU: the call is only recorded into this encoder, as one compute pass (after copies where
     an in-place tensor has a buffer of its own); the caller submits. NULL: submit and wait. */
  struct WGPUCommandEncoderImpl *encoder;
} quire_run_options;

QUIRE_API void quire_run_options_init(quire_run_options *options);

/*
 * Once per step: checks the values that the host can see (lengths, tables, slots) and writes the
 * work list into the workspace, which may grow. Nothing else is written. `tensors` holds one entry
 * per slot of the operator; entries that the plan does not use are ignored; only integer inputs are
 * read. A NULL workspace is BAD_REQUEST. Statuses: BAD_VALUE, BAD_REQUEST (tensors unlike the
 * plan's), BAD_ALIAS, LIMIT, OUT_OF_MEMORY. On failure the workspace is prepared for nothing.
 */
QUIRE_API quire_status quire_plan_prepare(quire_plan *plan, const quire_tensor *tensors,
                                          size_t tensor_count, quire_workspace *workspace,
                                          const quire_run_options *options, quire_error *error);

/*
 * Computes. Without QUIRE_RUN_PREPARED it prepares first. Either all checks pass, or nothing is
 * written. The output side of an in-place tensor may be left empty (data NULL: in place), equal to
 * its input (in place) or a disjoint buffer (copied first). options may be NULL.
 * Statuses: as quire_plan_prepare(), DEVICE (if the device failed after the submit, what the call
 * writes is unspecified; the encoder of a call that failed so must not be submitted), UNSUPPORTED
 * (WebGPU: a buffer that a pass reads and writes under two names).
 */
QUIRE_API quire_status quire_plan_run(quire_plan *plan, const quire_tensor *tensors,
                                      size_t tensor_count, quire_workspace *workspace,
                                      const quire_run_options *options, quire_error *error);

/*
 * For callers with a thread team of their own (CPU): after prepare, and for each pass in order, the
 * team calls quire_plan_run_items() so that every item in [0, quire_plan_items()) is run exactly
 * once, with a barrier between passes. Passes are those after the schedule pass, led by one that
 * copies in-place tensors that are bound to separate buffers and clears scratch; that one always
 * counts as a pass, and has no items where a plan has nothing of the kind. quire_plan_items() is 0
 * if the workspace is not prepared for the plan.
 */
QUIRE_API size_t quire_plan_passes(const quire_plan *plan);
QUIRE_API size_t quire_plan_items(const quire_plan *plan, const quire_workspace *workspace,
                                  size_t pass);
/* Thread-safe for disjoint ranges of one workspace. BAD_REQUEST: out of range, not prepared. */
QUIRE_API quire_status quire_plan_run_items(quire_plan *plan, size_t pass, size_t first,
                                            size_t last, const quire_tensor *tensors,
                                            size_t tensor_count, quire_workspace *workspace,
                                            quire_error *error);

typedef enum quire_explain_format {
  QUIRE_EXPLAIN_TEXT = 0,
  QUIRE_EXPLAIN_JSON = 1
} quire_explain_format;

/*
 * Explains what planning decides and why, for any device: one that is open (`device`), or any other
 * (`description`). With both, the description's members are laid over the device's; with neither,
 * the defaults of WebGPU hold. Returns QUIRE_OK if there is a plan, the refusal's status if the
 * request is refused (the explanation has been written in both cases), or BAD_REQUEST if the
 * request is malformed (nothing is written).
 */
QUIRE_API quire_status quire_explain(const quire_operator *op, quire_device *device,
                                     const quire_device_description *description,
                                     const quire_request *request, quire_explain_format format,
                                     quire_write_function *write, void *user, quire_error *error);

/*
 * The same for a request in JSON (naming by manifest keys, with its own "device" member). *refused
 * is set to 1 if the request was refused, else 0.
 */
QUIRE_API quire_status quire_explain_json(const quire_operator *op, const char *request,
                                          size_t length, quire_explain_format format,
                                          quire_write_function *write, void *user, int *refused,
                                          quire_error *error);

/*
 * Writes the WGSL of a plan's shader pass: its template, rendered, with the declarations that
 * follow from its bindings. `pass` is its id, or its number from 0; NULL: all shader passes, each
 * behind a line `// pass NUMBER: ID`. Device and description as for quire_explain(). Nothing is
 * written on failure. Statuses: those of quire_plan_create(); NOT_FOUND (no such pass, or no such
 * template or include), BAD_REQUEST (the pass has a native kernel), BAD_MANIFEST (a fault of a
 * template; the subject is FILE:LINE:COLUMN), LIMIT (docs/manifest-language.md, section 12).
 */
QUIRE_API quire_status quire_render(const quire_operator *op, quire_device *device,
                                    const quire_device_description *description,
                                    const quire_request *request, const char *pass,
                                    quire_write_function *write, void *user, quire_error *error);

/* The same for a request in JSON. */
QUIRE_API quire_status quire_render_json(const quire_operator *op, const char *request,
                                         size_t length, const char *pass,
                                         quire_write_function *write, void *user,
                                         quire_error *error);

#ifdef __cplusplus
}
#endif

#endif
