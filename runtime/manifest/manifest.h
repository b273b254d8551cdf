/*
 * A loaded manifest: every expression compiled, every name resolved, nothing evaluated. Immutable.
 * Sections are those of docs/manifest-language.md.
 */
#ifndef QUIRE_MANIFEST_MANIFEST_H
#define QUIRE_MANIFEST_MANIFEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc.h"
#include "expr.h"
#include "quire/context.h"
#include "quire/status.h"
#include "quire/tensor.h"

typedef struct quire_manifest quire_manifest;

/* Rule id and status that a refusal carries; absent: "" and OK. */
typedef struct quire_rule {
  const char *rule;
  quire_status status;
} quire_rule;

/* A `shape`: one expression that yields a list, or a list of expressions. */
typedef struct quire_shape_expr {
  bool given;
  const quire_expr *list;        /* or NULL */
  const quire_expr *const *dims; /* count of them, if list is NULL */
  size_t count;
} quire_shape_expr;

/* One side of a tensor. A key that is in both maps has an input and an output record. */
typedef struct quire_manifest_tensor {
  const char *key;
  const char *onnx;  /* operator name of this side */
  int32_t key_index; /* into manifest->keys */
  int32_t symbol;    /* into manifest->symbols, or -1 */
  quire_dtype dtype; /* if symbol is -1 */
  bool optional;
  const quire_expr *optional_when; /* `optional` as text: optional is false then */
  const quire_expr *rank;          /* NULL: not given */
  quire_shape_expr shape;
  quire_dtype storage; /* NONE: not given, or packed8 */
  bool packed8;
  int32_t may_alias; /* pure outputs: key index of the input, or -1 */
} quire_manifest_tensor;

typedef struct quire_manifest_key {
  const char *name;
  int32_t input;  /* index into inputs, or -1 */
  int32_t output; /* index into outputs, or -1; both: in place */
} quire_manifest_key;

typedef struct quire_manifest_symbol {
  const char *name;
  const quire_dtype *dtypes;
  size_t dtype_count;
} quire_manifest_symbol;

typedef struct quire_manifest_attribute {
  const char *name;
  quire_value default_value; /* undefined: none */
  quire_value_type type;     /* `type`, or NONE */
  bool bucket_pow2;
  bool required;
  const quire_value *values; /* allowed values; NULL: any */
  size_t value_count;
  quire_rule rule; /* of the constraint */
} quire_manifest_attribute;

typedef struct quire_manifest_tunable {
  const char *name;
  quire_value value;
  const quire_value *choices; /* what a search may try, the default among them; NULL: nothing */
  size_t choice_count;
} quire_manifest_tunable;

typedef struct quire_manifest_name {
  const char *name;
  const quire_expr *expr;
} quire_manifest_name;

/* `derive` of one layer, in file order. */
typedef struct quire_manifest_layer {
  const quire_manifest_name *names;
  size_t count;
} quire_manifest_layer;

typedef struct quire_manifest_limit {
  int32_t limit; /* into manifest->limits */
  int64_t least; /* least value (requires.limits; floats are rounded up) */
} quire_manifest_limit;

typedef struct quire_manifest_requires {
  const char *const *features;
  size_t feature_count;
  const quire_manifest_limit *limits;
  size_t limit_count;
  bool has_subgroup_min_size;
  double subgroup_min_size;
} quire_manifest_requires;

typedef enum quire_field_type {
  QUIRE_FIELD_U32,
  QUIRE_FIELD_I32,
  QUIRE_FIELD_F32
} quire_field_type;

typedef struct quire_manifest_field {
  const char *name;
  quire_field_type type;
  const quire_expr *value;
} quire_manifest_field;

typedef enum quire_binding_kind {
  QUIRE_BINDING_ARG,
  QUIRE_BINDING_SCRATCH,
  QUIRE_BINDING_UNIFORM
} quire_binding_kind;

/* How the WGSL element type of a binding is found. */
typedef enum quire_element_source {
  QUIRE_ELEMENT_DEFAULT, /* from the tensor's storage or type, or the intermediate's */
  QUIRE_ELEMENT_TEXT,    /* literal in `element` */
  QUIRE_ELEMENT_EXPR     /* $NAME: element_expr (a reference to the derived name or symbol) */
} quire_element_source;

/* A binding of one pass, resolved: shared ones are expanded per pass, since names mean what the
   innermost layer says. */
typedef struct quire_manifest_binding {
  const char *name; /* WGSL name */
  quire_binding_kind kind;
  int32_t source; /* ARG: key index; SCRATCH: index into the variant's intermediates */
  bool writable;
  bool optional; /* section 15 */
  quire_element_source element_source;
  const char *element; /* TEXT; EXPR: the text "$NAME" */
  const quire_expr *element_expr;
  const char *struct_name; /* UNIFORM */
  const quire_manifest_field *fields;
  size_t field_count;
  int8_t axes[QUIRE_MAX_RANK]; /* permutation; axis_count 0: none */
  int32_t axis_count;
} quire_manifest_binding;

typedef enum quire_dispatch_form {
  QUIRE_DISPATCH_XYZ,
  QUIRE_DISPATCH_THREADS,   /* x: threads, y: workgroupSize */
  QUIRE_DISPATCH_WORKGROUPS /* x: workgroups */
} quire_dispatch_form;

typedef struct quire_manifest_pass {
  const char *id;
  const char *name;
  const char *shader; /* or NULL */
  const char *native; /* or NULL */
  bool schedule;      /* role */
  quire_manifest_layer derive;
  const quire_manifest_binding *bindings;
  size_t binding_count;
  size_t storage_count; /* most storage bindings; uniforms of the rest */
  size_t uniform_count;
  quire_dispatch_form dispatch_form;
  const quire_expr *dispatch[3];  /* NULL: 1 */
  int32_t grid;                   /* index of an intermediate, or -1 */
  const quire_expr *workgroup[3]; /* NULL: not given */
  const quire_expr *workgroup_bytes;
} quire_manifest_pass;

typedef struct quire_manifest_intermediate {
  const char *id;
  quire_dtype dtype;
  quire_shape_expr shape; /* `list` may also yield a number: one dimension */
  bool zero_init;
  bool step; /* lifetime */
} quire_manifest_intermediate;

typedef struct quire_manifest_variant {
  const char *id;
  const char *backend; /* "webgpu" if not given */
  double priority;
  quire_manifest_requires requires;
  const quire_expr *const *when;
  size_t when_count;
  const quire_expr *demote_when; /* or NULL */
  const int32_t *superseded_by;  /* variant indices */
  size_t superseded_count;
  const quire_value
      *tunables; /* one per manifest tunable: the variant's default or the manifest's */
  quire_manifest_layer derive;
  const quire_manifest_intermediate *intermediates;
  size_t intermediate_count;
  const quire_manifest_pass *passes;
  size_t pass_count;
} quire_manifest_variant;

/* Section 15. */
typedef struct quire_manifest_contract {
  quire_rule rule;
  const char *subject;
  const quire_expr *require;
} quire_manifest_contract;

typedef enum quire_rule_kind {
  QUIRE_RULE_PRESENCE,
  QUIRE_RULE_RANK,
  QUIRE_RULE_DTYPE,
  QUIRE_RULE_SHAPE,
  QUIRE_RULE_LIMIT,
  QUIRE_RULE_ALIAS,
  QUIRE_RULE_KIND_COUNT
} quire_rule_kind;

struct quire_manifest {
  quire_arena arena;
  const char *domain;
  const char *name;
  const char *qualified; /* "domain.name"; domain "" reads "ai.onnx" */
  int64_t since_version;
  const quire_manifest_tensor *inputs;
  size_t input_count;
  const quire_manifest_tensor *outputs;
  size_t output_count;
  const quire_manifest_key *keys; /* inputs in file order, then pure outputs */
  size_t key_count;
  const quire_manifest_symbol *symbols;
  size_t symbol_count;
  const quire_manifest_attribute *attributes; /* in order of `attributes` */
  size_t attribute_count;
  const int32_t *constraint_order; /* attribute indices in order of attributeConstraints */
  size_t constraint_count;
  const quire_manifest_tunable *tunables;
  size_t tunable_count;
  quire_manifest_layer derive;
  const char *const *limits; /* every limit that the manifest names, once */
  size_t limit_count;
  const char *const *adapter_keys; /* every adapter property that it names, once */
  size_t adapter_key_count;
  quire_manifest_requires requires; /* of every variant */
  const quire_expr *const *when;
  size_t when_count;
  const quire_manifest_contract *contract;
  size_t contract_count;
  const char *rules[QUIRE_RULE_KIND_COUNT]; /* "" if none */
  const quire_manifest_variant *variants;
  size_t variant_count;
  const int32_t *walk; /* variant indices by decreasing priority, then file order */
  uint64_t digest;     /* of the text */
};

/*
 * Loads. On success *manifest is the caller's (quire_manifest_destroy); on failure NULL, and the
 * error (BAD_MANIFEST or OUT_OF_MEMORY) has the JSON path as its subject. If report is not NULL,
 * all findings go there, warnings too (lint), and loading goes on past faults where it can.
 */
quire_status quire_manifest_load(const quire_allocator *allocator, const char *text, size_t length,
                                 quire_finding_function *report, void *report_user,
                                 quire_manifest **manifest, quire_error *error);
void quire_manifest_destroy(quire_manifest *manifest);

/* Whether an attribute of that type takes the value; NONE takes all. */
bool quire_value_fits(const quire_value *value, quire_value_type type);

/* Index of a key, symbol, ..., or -1. */
int32_t quire_manifest_find_key(const quire_manifest *manifest, const char *name);
int32_t quire_manifest_find_input(const quire_manifest *manifest, const char *onnx);
int32_t quire_manifest_find_output(const quire_manifest *manifest, const char *onnx);
int32_t quire_manifest_find_attribute(const quire_manifest *manifest, const char *name);
int32_t quire_manifest_find_tunable(const quire_manifest *manifest, const char *name);
int32_t quire_manifest_find_symbol(const quire_manifest *manifest, const char *name);
/* Key or id of what a binding of the variant binds; NULL for uniforms. */
const char *quire_manifest_source(const quire_manifest *manifest,
                                  const quire_manifest_variant *variant,
                                  const quire_manifest_binding *binding);

/*
 * What a name or path means in the text of a pass, after loading: for templates. As
 * quire_resolve_function; of device.limits and device.adapterInfo only what the manifest names.
 */
const char *quire_manifest_resolve(const quire_manifest *manifest, int32_t variant, size_t pass,
                                   const char *path, size_t length, bool in_defined,
                                   quire_ref *ref);

#endif
