/*
 * Planning: a manifest and a request become a plan description or a refusal. Touches no device.
 */
#ifndef QUIRE_PLAN_PLANNER_H
#define QUIRE_PLAN_PLANNER_H

#include <stdbool.h>
#include <stdint.h>

#include "manifest.h"
#include "pass.h"
#include "quire/device.h"
#include "quire/plan.h"
#include "registry.h"

/* ---- the device that is planned for, with names looked up once ---- */

typedef struct quire_target {
  const quire_device_description *description; /* borrowed; may be NULL: WebGPU defaults */
  const quire_registry *registry;              /* NULL: no native kernels (requires.native fails) */
  uint32_t cpu_features;                       /* QUIRE_CPU bits of the description's features */
  quire_isa isa;                               /* highest level allowed; BEST: any */
  const struct quire_tuning *tuning;           /* tuning.h; NULL: none */
} quire_target;

/* Fills a target without tuned values; the description may be NULL. */
void quire_target_init(quire_target *target, const quire_device_description *description,
                       const quire_registry *registry, quire_isa isa);

/* ---- what a plan says ---- */

typedef struct quire_plan_tensor {
  bool present;
  quire_dtype dtype;
  int32_t ndim;
  int64_t shape[QUIRE_MAX_RANK];
  int64_t strides[QUIRE_MAX_RANK]; /* always filled */
  bool dense;
  bool given;    /* outputs: listed by the request */
  int32_t alias; /* outputs: key index of the input whose buffer the request says it is; -1 */
} quire_plan_tensor;

typedef struct quire_plan_intermediate {
  const char *id;
  quire_dtype dtype;
  int32_t ndim;
  int64_t shape[QUIRE_MAX_RANK];
  int64_t elements;
  int64_t bytes; /* as LANGUAGE.md sizes buffers; native passes: elements times natural size */
  bool zero_init;
  bool step;
} quire_plan_intermediate;

typedef union quire_plan_word {
  uint32_t u;
  int32_t i;
  float f;
} quire_plan_word;

typedef struct quire_plan_binding {
  const quire_manifest_binding *manifest;
  int32_t index;       /* binding index; -1: left out (optional and absent) */
  const char *element; /* element type ("vec4<f16>"); NULL for uniforms and native passes */
  const quire_plan_word *words; /* UNIFORM: field values, padded with zeros to `bytes` */
  uint32_t bytes;               /* UNIFORM: size of the buffer */
} quire_plan_binding;

typedef struct quire_plan_pass {
  const quire_manifest_pass *manifest;
  const quire_implementation *implementation; /* native passes */
  const quire_plan_binding *bindings;         /* manifest->binding_count of them */
  uint32_t dispatch[3];
  int64_t workgroup[3];    /* if manifest->workgroup[0] */
  int64_t workgroup_bytes; /* if manifest->workgroup_bytes */
} quire_plan_pass;

/* What expressions over a finished plan may still ask: planner.h's quire_plan_names. */
typedef struct quire_plan_facts quire_plan_facts;

/* A plan as data. Lives in one arena. inputs and outputs as in the manifest, absent ones included.
 */
typedef struct quire_plan_description {
  const quire_manifest *manifest;
  int32_t variant;
  const quire_plan_tensor *inputs;
  const quire_plan_tensor *outputs;
  const quire_plan_intermediate *intermediates;
  const quire_plan_pass *passes;
  const quire_plan_facts *facts; /* NULL: all passes are native */
} quire_plan_description;

static inline const quire_manifest_variant *quire_described_variant(
    const quire_plan_description *description) {
  return &description->manifest->variants[description->variant];
}

/*
 * Plans. On success *description is filled, all of its memory in `arena` (except the manifest's),
 * and QUIRE_OK returned. Otherwise the status by design.md's table and the error's text, rule and
 * subject.
 */
quire_status quire_plan_describe(const quire_manifest *manifest, const quire_request *request,
                                 const quire_target *target, quire_arena *arena,
                                 quire_plan_description *description, quire_error *error);

/*
 * Plans and writes the explanation in EXPLAIN.md's forms. Returns QUIRE_OK or the refusal's status
 * (both written), BAD_REQUEST if the request is malformed, OUT_OF_MEMORY (nothing written).
 */
quire_status quire_plan_explain(const quire_manifest *manifest, const quire_request *request,
                                const quire_target *target, quire_explain_format format,
                                const quire_allocator *allocator, quire_text *out,
                                quire_error *error);

/* ---- names of a finished plan, for templates ---- */

typedef struct quire_plan_names quire_plan_names;

/*
 * The names that the text of a shader pass sees, evaluated when they are used. They live in
 * `arena`, and so do the values; the description, and what the target of its planning borrows, must
 * still be there. A plan's names may be opened by several threads at once, each for itself. NULL:
 * out of memory.
 */
quire_plan_names *quire_plan_names_open(const quire_plan_description *description, size_t pass,
                                        quire_arena *arena);
/* Evaluates what quire_manifest_resolve() finds. */
quire_expr_env *quire_plan_names_env(quire_plan_names *names);
/* device.limits.NAME and device.adapterInfo.NAME, undefined if unknown. */
quire_value quire_plan_names_limit(const quire_plan_names *names, const char *name, size_t length);
quire_value quire_plan_names_adapter(const quire_plan_names *names, const char *name,
                                     size_t length);

/* Writes the key that tuned values of a plan with shader passes are kept under, as a JSON object
   (tuning.h). */
void quire_plan_write_tuning_key(const quire_plan_description *description, quire_text *out);

/* ---- requests in JSON (LANGUAGE.md section 7) ---- */

/* A parsed request; everything in its arena. */
typedef struct quire_json_request {
  quire_request request; /* naming: QUIRE_NAMES_MANIFEST */
  quire_device_description device;
} quire_json_request;

/* Parses; BAD_REQUEST with the JSON path if it is malformed. */
quire_status quire_request_parse(const char *text, size_t length, quire_arena *arena,
                                 quire_json_request *out, quire_error *error);

#endif
