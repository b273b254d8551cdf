/* One planning run while it goes on: what the files of this folder share. Private to runtime/plan.
 */
#ifndef QUIRE_PLAN_PLANNING_H
#define QUIRE_PLAN_PLANNING_H

#include <stdbool.h>
#include <stdint.h>

#include "planner.h"

enum {
  QUIRE_PLAN_STEPS = 1000000, /* LANGUAGE.md section 12 */
  QUIRE_PLAN_DEPTH =
      128, /* derived names (64 deep by load) and inferred shapes inside each other */
  QUIRE_FOLD_WIDTH = 65535,
  QUIRE_SCRATCH_BYTES = 12288 /* first block of a run's scratch: most plans need no more */
};

/* A value that is computed once, when first used, and remembered with its error. */
typedef enum quire_memo_state { QUIRE_MEMO_NEW, QUIRE_MEMO_BUSY, QUIRE_MEMO_DONE } quire_memo_state;

typedef struct quire_memo {
  quire_memo_state state;
  quire_expr_code code;
  quire_value value;
  quire_expr_fault fault;
} quire_memo;

/* Why a request is refused. `stage` NULL: it is malformed. Texts live in the run's scratch. */
typedef struct quire_refusal {
  const char *stage;
  const char *failing;
  const char *reason;
  quire_status status;
  const char *rule;    /* "" if none */
  const char *subject; /* operator's name of a tensor or attribute, or "" */
  const char *detail;  /* the message after rule and subject */
  int32_t variant;     /* stage "variants": the one that `failing` is about */
  bool explained;      /* `because` is filled */
  quire_because because;
  quire_expr_code code; /* an evaluation error, with `at` */
  quire_span at;
  const char *contract_subject; /* stage "contract": the manifest's own text */
} quire_refusal;

/* What became of tuned values. Both NULL: the target has none. */
typedef struct quire_planning_tuned {
  const struct quire_tuning_entry *entry; /* in force; NULL: none is */
  const char *reason;                     /* why none is, in scratch */
} quire_planning_tuned;

typedef struct quire_planning {
  const quire_manifest *manifest;
  const quire_request *request;
  const quire_target *target;
  quire_arena *arena;   /* of the plan */
  quire_arena *scratch; /* of this run */
  quire_expr_env env;
  int32_t depth;

  const quire_request_tensor **asked_inputs; /* per input; NULL: not in the request */
  const quire_request_tensor **asked_outputs;
  quire_plan_tensor *inputs;
  quire_plan_tensor *outputs; /* ndim -1: not inferred yet */
  quire_memo *inferred;       /* per output; the value is not used */
  const quire_value **shapes; /* per key: its shape as a list, once made */
  bool strided;               /* some tensor is not dense */
  quire_value *attributes;    /* effective values */
  quire_value *tunables;      /* the request's; undefined: not given */
  quire_dtype *symbols;       /* NONE: not bound */
  quire_memo *limits;         /* per limit that the manifest names */

  quire_manifest_layer layers[QUIRE_LAYER_COUNT];
  quire_memo *memos[QUIRE_LAYER_COUNT];
  int32_t variant;        /* whose names and tunables are in use; -1 */
  quire_memo kernel_when; /* value: how many of the kernel's clauses hold, from the first */

  quire_plan_intermediate *intermediates;
  quire_plan_pass *passes;
  quire_planning_tuned tuned;
  quire_refusal refusal;
} quire_planning;

/* ---- planner.c ---- */

/* Makes a pass's names visible, none of them evaluated. */
quire_status quire_planning_enter_pass(quire_planning *p, const quire_manifest_pass *pass);

/* ---- request.c, plan_attributes.c, plan_tensors.c, contract.c: steps 1 to 3 and the contract ----
 */

quire_status quire_planning_read_request(quire_planning *p);
quire_status quire_planning_read_attributes(quire_planning *p);
quire_status quire_planning_check_tensors(quire_planning *p);
/* Compares a number of dimensions with the manifest's rank, if it gives one. The message begins
   with `what`: "has". */
quire_status quire_planning_check_rank(quire_planning *p, const char *side,
                                       const quire_manifest_tensor *tensor, const char *what,
                                       int32_t ndim);
quire_status quire_planning_check_contract(quire_planning *p);
/* Value of a named scalar; undefined for type NONE. */
quire_value quire_named_value_read(const quire_named_value *named);

/* ---- plan_names.c ---- */

/* Keeps what templates may ask, in the plan's arena. NULL: out of memory. */
const quire_plan_facts *quire_plan_facts_keep(const quire_planning *p);

/* ---- target.c ---- */

/* A limit of the device; false if it is unknown. */
bool quire_target_limit(const quire_target *target, const char *name, size_t length,
                        int64_t *value);
bool quire_target_feature(const quire_target *target, const char *name, size_t length);
quire_value quire_target_adapter(const quire_target *target, const char *name, size_t length);
const char *quire_target_backend(const quire_target *target);
/* As quire_target_limit(), 2^63-1 if it is unknown. */
int64_t quire_target_limit_or_most(const quire_target *target, const char *name);

/* ---- environment.c ---- */

void quire_environment_init(quire_planning *p);
/* The record in force for a key: the input's, or a pure output's. */
const quire_plan_tensor *quire_planning_tensor(const quire_planning *p, int32_t key);
/* Both sides of an in-place tensor with two buffers must be dense. */
bool quire_planning_is_dense(const quire_planning *p, int32_t key);

/* ---- shapes.c, plan_shapes.c ---- */

/* A failed conversion is told with the text of the expression whose value it was. */
void quire_fault_blame(const quire_expr *expr, quire_expr_code code, quire_expr_fault *fault);
/* Evaluates a shape. A number is one dimension if `allow_number`. */
quire_expr_code quire_shape_evaluate(quire_planning *p, const quire_shape_expr *shape,
                                     bool allow_number, int64_t *dims, int32_t *ndim,
                                     quire_expr_fault *fault);
/* Shape of a pure output, on first use. */
quire_expr_code quire_planning_infer(quire_planning *p, int32_t output, quire_expr_fault *fault);
/* Row-major strides. Those that overflow become 2^63-1: step 5 refuses such tensors. */
void quire_strides_fill(const int64_t *shape, int32_t ndim, int64_t *strides);
bool quire_strides_are_dense(const int64_t *shape, const int64_t *strides, int32_t ndim);
/* Steps 5 and 6. */
quire_status quire_planning_check_shapes(quire_planning *p);
quire_status quire_planning_size_intermediates(quire_planning *p);

/* ---- plan_elements.c ---- */

/* WGSL spelling of an element type ("f16"), NULL if it has none. */
const char *quire_wgsl_scalar(quire_dtype dtype);
/* What a buffer of that type binds as when nothing else is said. */
const char *quire_wgsl_element(quire_dtype dtype, bool packed8);
/* The canonical text if it is an element type of a binding ("vec4<f16>"), else NULL. */
const char *quire_wgsl_find_element(const char *text, size_t length);
/* Bytes of a WebGPU buffer of that many elements; false on overflow. */
bool quire_wgsl_bytes(quire_dtype dtype, bool packed8, int64_t elements, int64_t *bytes);
/* Bytes in natural sizes; false on overflow. */
bool quire_natural_bytes(quire_dtype dtype, int64_t elements, int64_t *bytes);

/* ---- verdict.c, verdict_explain.c, select.c: step 4 ---- */

typedef enum quire_obstacle {
  QUIRE_OBSTACLE_NONE,
  QUIRE_OBSTACLE_BACKEND,
  QUIRE_OBSTACLE_FEATURE,
  QUIRE_OBSTACLE_LIMIT,
  QUIRE_OBSTACLE_SUBGROUP,
  QUIRE_OBSTACLE_BUFFERS,
  QUIRE_OBSTACLE_NATIVE,
  QUIRE_OBSTACLE_DENSE,
  QUIRE_OBSTACLE_WHEN
} quire_obstacle;

/* What the walk finds out about one variant. */
typedef struct quire_verdict {
  quire_obstacle obstacle; /* the first; NONE: eligible */
  bool demoted;            /* if eligible */
  const char *name;        /* FEATURE, LIMIT: which; BUFFERS: name of the limit */
  int64_t count, most; /* BUFFERS: bindings, the limit; LIMIT: least, the device's (-1: unknown) */
  int32_t index;       /* NATIVE: pass; DENSE: key */
  const quire_expr *clause; /* WHEN */
  quire_value value;        /* WHEN: the clause's, if it is not an error */
  quire_expr_code code;     /* WHEN: not OK if it is an error */
  quire_expr_fault fault;
} quire_verdict;

/* False: out of memory. */
bool quire_verdict_find(quire_planning *p, int32_t index, quire_verdict *verdict);
/* Number of clauses that hold, the kernel's before the variant's; the next one goes into *verdict.
 */
size_t quire_verdict_count_clauses(quire_planning *p, const quire_manifest_variant *variant,
                                   quire_verdict *verdict);
/* Clause text of an obstacle ("requires.features.F"), in scratch; NULL: out of memory. */
const char *quire_verdict_clause(quire_planning *p, const quire_verdict *verdict);
/* "false", "feature", "limit", "error". */
const char *quire_verdict_reason(const quire_verdict *verdict);
/* Chain and operands of an obstacle. False: out of memory. */
bool quire_verdict_explain(quire_planning *p, int32_t index, const quire_verdict *verdict,
                           quire_because *because);
/* One sentence about an obstacle, for messages; `clause` and `because` are those from above. */
const char *quire_verdict_sentence(quire_planning *p, int32_t index, const quire_verdict *verdict,
                                   const quire_because *because, const char *clause);
/* Index of the chosen variant in *chosen, or a refusal. */
quire_status quire_planning_select(quire_planning *p, int32_t *chosen);

/* ---- plan_native.c ---- */

/* The implementation for a native pass of a variant, or NULL. */
const quire_implementation *quire_native_choose(const quire_planning *p, int32_t variant,
                                                const quire_manifest_pass *pass);
/* True if a native pass must have an implementation for its variant to be eligible. */
bool quire_native_is_needed(const quire_manifest_variant *variant, const quire_manifest_pass *pass);
/* Element type of a binding as a native pass sees it; NONE: absent, or uniforms. */
quire_dtype quire_native_dtype(const quire_planning *p, int32_t variant,
                               const quire_manifest_binding *binding);
/* Why an implementation does not fit, or "" if it does. In scratch; NULL: out of memory. */
const char *quire_native_misfit(quire_planning *p, int32_t variant, const quire_manifest_pass *pass,
                                const quire_implementation *implementation);
/* Kernel, types of the pass and why each implementation does not fit: one line. */
const char *quire_native_describe(quire_planning *p, int32_t variant,
                                  const quire_manifest_pass *pass);

/* ---- plan_passes.c: step 7 ---- */

quire_status quire_planning_build_passes(quire_planning *p);

/* ---- plan_refuse.c ---- */

/* Text in scratch; NULL: out of memory. */
const char *quire_planning_format(quire_planning *p, const char *format, ...) QUIRE_PRINTF(2, 3);
/* Moves a text into scratch and releases it; NULL: out of memory. */
const char *quire_planning_keep(quire_planning *p, quire_text *text);
/* Records a refusal (copied) and returns its status; a NULL text in it means out of memory. */
quire_status quire_refuse(quire_planning *p, const quire_refusal *refusal);
/* The same about no variant, with the rule that the manifest has for it. */
quire_status quire_refuse_by(quire_planning *p, const char *stage, const char *failing,
                             const char *reason, quire_status status, quire_rule_kind rule,
                             const char *subject, const char *detail);
/* Malformed: BAD_REQUEST. subject may be NULL; detail NULL means out of memory. */
quire_status quire_refuse_malformed(quire_planning *p, const char *subject, const char *detail);
/* An evaluation error outside a clause. */
quire_status quire_refuse_fault(quire_planning *p, const char *failing, const char *subject,
                                quire_expr_code code, const quire_expr_fault *fault);
/* "clause > name > comparison: 6 == 8 is false" of a clause whose value is not true. */
const char *quire_because_sentence(quire_planning *p, const quire_because *because,
                                   const quire_value *value);
/* Fills the caller's error from the refusal; returns its status. */
quire_status quire_refusal_report(const quire_planning *p, quire_error *error);
/* "[2, 3]" in scratch. */
const char *quire_planning_shape_text(quire_planning *p, const int64_t *shape, int32_t ndim);

/* ---- plan_explain.c, explain_json.c, explain_text.c ---- */

/* A plan or a refusal, and all that is shown beside it. */
typedef struct quire_explanation {
  quire_planning *p;
  const quire_plan_description *description; /* NULL: refused */
  const quire_verdict *verdicts;             /* per variant; NULL: selection was not reached */
  const quire_memo *const *pass_names;       /* per pass of the chosen variant: its derived names */
} quire_explanation;

/* Evaluates what planning left out. False: out of memory. */
bool quire_explanation_fill(quire_explanation *explanation);
void quire_explain_write_json(const quire_explanation *explanation, quire_text *out);
void quire_explain_write_text(const quire_explanation *explanation, quire_text *out);
/* Field values of a uniform binding as a JSON object. */
void quire_explain_write_fields(const quire_plan_binding *binding, quire_text *out);

#endif
