/* Expressions: compiled once at load, evaluated per plan, explained when false. */
#ifndef QUIRE_EXPR_EXPR_H
#define QUIRE_EXPR_EXPR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc.h"
#include "value.h"

/* ---- references: what a name or path of the text means, resolved at load ---- */

typedef enum quire_ref_kind {
  QUIRE_REF_DERIVED,   /* layer, index into that layer's names */
  QUIRE_REF_ATTRIBUTE, /* attrs.A: index; -1 for an undeclared one (has() only) */
  QUIRE_REF_TUNABLE,   /* tunables.U: index, layer (0: the kernel's value, 1: the variant's) */
  QUIRE_REF_SHAPE,     /* shapes.X, ranks.X, present.X, tensorDtypes.X: index of the tensor key */
  QUIRE_REF_RANK,
  QUIRE_REF_PRESENT,
  QUIRE_REF_TENSOR_DTYPE,
  QUIRE_REF_SYMBOL,     /* dtypes.S, and the bare symbol S in pass text: index of the symbol */
  QUIRE_REF_LIMIT,      /* device.limits.L: index into the manifest's names of limits */
  QUIRE_REF_ADAPTER,    /* device.adapterInfo.K: index into the manifest's adapter keys */
  QUIRE_REF_FOLD_WIDTH, /* DISPATCH_FOLD_WIDTH */
  QUIRE_REF_BACKEND,    /* device.backend */
  QUIRE_REF_PRECISION,  /* device.precision */
  QUIRE_REF_STRIDES,    /* strides.X, bound.X, dense.X: index of the tensor key */
  QUIRE_REF_BOUND,
  QUIRE_REF_DENSE,
  QUIRE_REF_ALIASED, /* aliased.X.Y: index, second: tensor keys */
  QUIRE_REF_OUTER,   /* a name of the template around the expression: what index and second mean is
                        its own affair */
  QUIRE_REF_UNKNOWN  /* operand of `is defined` that names nothing: undefined */
} quire_ref_kind;

enum {
  QUIRE_LAYER_KERNEL = 0,
  QUIRE_LAYER_VARIANT = 1,
  QUIRE_LAYER_PASS = 2,
  QUIRE_LAYER_COUNT = 3
};

typedef struct quire_ref {
  quire_ref_kind kind;
  int32_t layer;
  int32_t index;
  int32_t second;
} quire_ref;

/* Spaces that has() and device.features.has() look into. */
typedef enum quire_space { QUIRE_SPACE_ATTRS, QUIRE_SPACE_LIMITS, QUIRE_SPACE_ADAPTER } quire_space;

/* ---- compiling ---- */

/*
 * Resolves a name or path such as "headSize" or "shapes.queryT" where an expression stands. Returns
 * NULL on success, else a message (static or in the arena) for a load error. `in_defined` is set
 * for the operand of `is defined`, where any name is allowed (kind UNKNOWN if it means nothing).
 */
typedef const char *quire_resolve_function(void *user, const char *path, size_t length,
                                           bool in_defined, quire_ref *ref);

typedef struct quire_span {
  const char *text;
  size_t length;
} quire_span;

typedef struct quire_expr quire_expr; /* immutable once compiled; lives in an arena */

/* Where and why text does not compile. */
typedef struct quire_compile_error {
  size_t offset;     /* byte in the text */
  char message[200]; /* one line */
} quire_compile_error;

/*
 * Compiles `text` (kept by pointer: it must live as long as the expression). Returns NULL and fills
 * *error if it does not parse, uses an unknown function, a wrong arity or an unknown name, or
 * exceeds a limit of section 12; *out_of_memory tells that case apart.
 */
const quire_expr *quire_expr_compile(quire_arena *arena, const char *text, size_t length,
                                     quire_resolve_function *resolve, void *user,
                                     quire_compile_error *error, bool *out_of_memory);

/* ---- in templates (section 11) ---- */

enum { QUIRE_MACRO_PARAMETERS = 16 };

/* A macro as its callers see it. */
typedef struct quire_macro {
  int32_t index; /* the template's own number for it */
  int32_t parameter_count;
  quire_span parameters[QUIRE_MACRO_PARAMETERS];
} quire_macro;

/* One call: which parameter each argument, in the order of the text, is for. */
typedef struct quire_macro_call {
  int32_t macro; /* index */
  int32_t argument_count;
  uint8_t parameters[QUIRE_MACRO_PARAMETERS];
} quire_macro_call;

typedef struct quire_expr_template {
  /* The macro of that name, or NULL. */
  const quire_macro *(*find_macro)(void *user, const char *name, size_t length);
  void *user;
} quire_expr_template;

/*
 * Compiles text of a template: the same language with `~`, `in`, indices, filters, choices without
 * `else`, calls of macros, and `range` as the whole text.
 */
const quire_expr *quire_expr_compile_in_template(quire_arena *arena, const char *text,
                                                 size_t length, const quire_expr_template *surround,
                                                 quire_resolve_function *resolve, void *user,
                                                 quire_compile_error *error, bool *out_of_memory);
/* True for a call of range(): its value is the list [begin, end, step]. */
bool quire_expr_is_range(const quire_expr *expr);

/* A constant (a JSON number or boolean); source is its JSON text. NULL: out of memory. */
const quire_expr *quire_expr_constant(quire_arena *arena, quire_value value, const char *source,
                                      size_t source_length);

/* The source text. */
const char *quire_expr_source(const quire_expr *expr, size_t *length);
/* The references in order of appearance, operands of `is defined` included (for cycle checks). */
size_t quire_expr_ref_count(const quire_expr *expr);
const quire_ref *quire_expr_refs(const quire_expr *expr);
/* If the expression is a constant known at load, returns true and its value. */
bool quire_expr_is_constant(const quire_expr *expr, quire_value *value);

/* ---- evaluating ---- */

typedef enum quire_expr_code {
  QUIRE_EXPR_OK = 0,
  QUIRE_EXPR_OVERFLOW,
  QUIRE_EXPR_TYPE,
  QUIRE_EXPR_UNDEFINED,
  QUIRE_EXPR_RANGE,
  QUIRE_EXPR_LIMIT,
  QUIRE_EXPR_UNKNOWN_NAME,
  QUIRE_EXPR_CYCLE,
  QUIRE_EXPR_MEMORY /* out of memory: not an error of the language */
} quire_expr_code;

/* "overflow", "type", "undefined", "range", "limit", "unknown-name", "cycle", "memory". */
const char *quire_expr_code_name(quire_expr_code code);

/* What went wrong: code and source text of the innermost sub-expression that raised it. */
typedef struct quire_expr_fault {
  quire_expr_code code;
  const char *at; /* borrowed from the expression's source */
  size_t at_length;
} quire_expr_fault;

typedef struct quire_expr_env quire_expr_env;
struct quire_expr_env {
  void *user;
  /*
   * Value of a reference. Derived names are evaluated through here (recursion is bounded by the 64
   * levels that load allows). An error's fault is passed on as it is when at is set; if at is NULL
   * the evaluator puts in the text of the reference.
   */
  quire_expr_code (*load)(quire_expr_env *env, const quire_ref *ref, quire_value *value,
                          quire_expr_fault *fault);
  /* has(space, key): the key exists and is defined. */
  bool (*has)(quire_expr_env *env, quire_space space, const char *key, size_t length);
  /* device.features.has(name); also used by f16Ok. */
  bool (*feature)(quire_expr_env *env, const char *name, size_t length);
  /* The expression of a derived name, for explanations; NULL if it has none. */
  const quire_expr *(*definition)(quire_expr_env *env, const quire_ref *ref);
  /* What a macro writes; templates only. A fault is passed on as that of load. */
  quire_expr_code (*call)(quire_expr_env *env, const quire_macro_call *call,
                          const quire_value *arguments, quire_value *value,
                          quire_expr_fault *fault);
  quire_arena *arena;  /* for list values */
  uint64_t steps_left; /* one per node visited; at 0: QUIRE_EXPR_LIMIT */
};

/* Evaluates. On an error *fault is set and *value untouched. */
quire_expr_code quire_expr_evaluate(const quire_expr *expr, quire_expr_env *env, quire_value *value,
                                    quire_expr_fault *fault);

/* A string in env's arena, paid for in steps by its length; LIMIT or MEMORY. */
quire_expr_code quire_string_make(quire_expr_env *env, const char *text, size_t length,
                                  quire_value *out);

/* ---- explaining (docs/manifest-language.md 8.3) ---- */

typedef struct quire_operand {
  quire_span text;
  quire_value value;
  quire_expr_code error; /* not OK: evaluating it failed, value is undefined */
} quire_operand;

typedef struct quire_because {
  const quire_span *chain; /* `because` */
  size_t chain_length;
  const quire_operand *operands;
  size_t operand_count;
} quire_because;

/* Why a clause is not true; arrays in env->arena. False: out of memory. */
bool quire_expr_explain(const quire_expr *clause, quire_expr_env *env, quire_because *because);

/* ---- integer places (docs/manifest-language.md 6.7) ---- */

/* Floors a number into [least, most]; RANGE, TYPE or UNDEFINED otherwise. */
quire_expr_code quire_value_to_integer(const quire_value *value, int64_t least, int64_t most,
                                       int64_t *out);

#endif
