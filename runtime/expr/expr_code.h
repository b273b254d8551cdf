/*
 * The compiled form of an expression: a tree, for explanations and analysis, and flat code in the
 * order of evaluation, so that the evaluator needs no recursion. Private to runtime/expr.
 */
#ifndef QUIRE_EXPR_EXPR_CODE_H
#define QUIRE_EXPR_EXPR_CODE_H

#include "expr.h"

/* Limits of the language (docs/manifest-language.md 12). */
enum {
  QUIRE_EXPR_MAX_LENGTH = 4096,
  QUIRE_EXPR_MAX_NESTING = 64,
  QUIRE_EXPR_MAX_ITEMS = 16,
  QUIRE_EXPR_MAX_NAME = 128,
  QUIRE_LIST_NESTING = 64 /* levels of a list value */
};

typedef enum quire_op {
  QUIRE_OP_LITERAL, /* push literals[operand] */
  QUIRE_OP_LOAD,    /* push the value of refs[operand] */
  QUIRE_OP_DEFINED, /* pop; push "is not undefined" */
  QUIRE_OP_UNDEFINED,
  QUIRE_OP_NOT,
  QUIRE_OP_NEGATE,
  QUIRE_OP_ADD,
  QUIRE_OP_SUBTRACT,
  QUIRE_OP_MULTIPLY,
  QUIRE_OP_DIVIDE,
  QUIRE_OP_FLOOR_DIVIDE,
  QUIRE_OP_REMAINDER,
  QUIRE_OP_EQUAL,
  QUIRE_OP_NOT_EQUAL,
  QUIRE_OP_LESS,
  QUIRE_OP_LESS_EQUAL,
  QUIRE_OP_GREATER,
  QUIRE_OP_GREATER_EQUAL,
  QUIRE_OP_AND, /* between the operands: skip the next `operand` steps if the top is false, else pop
                 */
  QUIRE_OP_OR,  /* likewise if it is true */
  QUIRE_OP_CHOICE, /* after the condition: pop; skip `operand` steps if it was false */
  QUIRE_OP_JUMP,   /* skip `operand` steps; no node of its own */
  QUIRE_OP_LIST,   /* pop `count` items, push the list */
  QUIRE_OP_CALL,   /* pop `count` arguments, push the result of function `operand` */
  /* of templates only */
  QUIRE_OP_CONCATENATE, /* pop two; push their output forms as one string */
  QUIRE_OP_ADD_TEXT,    /* the same if one is a string, else ADD */
  QUIRE_OP_IN,          /* pop value and list; push whether it is an element */
  QUIRE_OP_INDEX,       /* pop list and index; push the element */
  QUIRE_OP_FILTER,      /* pop the value and count - 1 arguments; push the result of `operand` */
  QUIRE_OP_MACRO,       /* pop `count` arguments; push what macro_calls[operand] writes */
  QUIRE_OP_CHOICE_OR_NOTHING /* after the condition: pop; if it was false, push undefined and skip
                                `operand` steps */
} quire_op;

typedef enum quire_function {
  QUIRE_FUNCTION_DIM,
  QUIRE_FUNCTION_MIN,
  QUIRE_FUNCTION_MAX,
  QUIRE_FUNCTION_FLOOR,
  QUIRE_FUNCTION_CEIL,
  QUIRE_FUNCTION_CEIL_DIV,
  QUIRE_FUNCTION_POW2_CEIL,
  QUIRE_FUNCTION_LOG2_CEIL,
  QUIRE_FUNCTION_POW,
  QUIRE_FUNCTION_NUMEL,
  QUIRE_FUNCTION_SAME_SHAPE,
  QUIRE_FUNCTION_RANGE, /* templates: its arguments as [begin, end, step] */
  QUIRE_FUNCTION_F16_OK,
  QUIRE_FUNCTION_FEATURE,    /* device.features.has */
  QUIRE_FUNCTION_HAS_ATTR,   /* has(attrs, ...) */
  QUIRE_FUNCTION_HAS_LIMIT,  /* has(device.limits, ...) */
  QUIRE_FUNCTION_HAS_ADAPTER /* has(device.adapterInfo, ...) */
} quire_function;

typedef struct quire_instruction {
  uint8_t op;
  uint8_t count;
  uint16_t begin; /* source text of the node */
  uint16_t length;
  int32_t operand;
} quire_instruction;

typedef enum quire_filter {
  QUIRE_FILTER_INT,
  QUIRE_FILTER_F32,
  QUIRE_FILTER_U32,
  QUIRE_FILTER_I32,
  QUIRE_FILTER_HEX,
  QUIRE_FILTER_UPPER,
  QUIRE_FILTER_LOWER,
  QUIRE_FILTER_LENGTH,
  QUIRE_FILTER_JOIN,
  QUIRE_FILTER_DEFAULT
} quire_filter;

/* Children are a list linked by `next`, in the order of the text, except that a choice has its
   condition first. Children come before their parents in the array; the root is last. */
typedef struct quire_node {
  uint8_t op;
  uint16_t begin;
  uint16_t length;
  uint16_t code_begin; /* its part of the code, ready to run by itself */
  uint16_t code_end;
  int32_t operand; /* literal, reference or function */
  int32_t first;   /* child, or -1 */
  int32_t next;    /* sibling, or -1 */
} quire_node;

struct quire_expr {
  const char *text;
  size_t length;
  quire_node *nodes;
  int32_t node_count;
  quire_instruction *code;
  int32_t code_count;
  quire_value *literals;
  quire_ref *refs;
  int32_t ref_count;
  quire_macro_call *macro_calls; /* templates */
  int32_t macro_call_count;
  int32_t stack_depth; /* most values at once */
  bool from_json;      /* made by quire_expr_constant */
  bool constant;       /* `value` is known */
  quire_value value;
};

/* Runs the part [begin, end) of the code. */
quire_expr_code quire_expr_run(const quire_expr *expr, int32_t begin, int32_t end,
                               quire_expr_env *env, quire_value *value, quire_expr_fault *fault);

/* Operators and functions on values that have been evaluated; *out is set on OK only. */
quire_expr_code quire_operator_negate(const quire_value *a, quire_value *out);
quire_expr_code quire_operator_binary(quire_op op, const quire_value *a, const quire_value *b,
                                      quire_value *out);
quire_expr_code quire_function_call(quire_function function, const quire_value *arguments,
                                    size_t count, quire_expr_env *env, quire_value *out);
/* CONCATENATE, ADD_TEXT, IN and INDEX; strings are made in env's arena and paid for in steps. */
quire_expr_code quire_operator_template(quire_op op, const quire_value *a, const quire_value *b,
                                        quire_expr_env *env, quire_value *out);
/* values[0] is the value, the others the arguments. */
quire_expr_code quire_filter_apply(quire_filter filter, const quire_value *values, size_t count,
                                   quire_expr_env *env, quire_value *out);
/* ceil of the quotient: ceilDiv. */
quire_expr_code quire_operator_ceil_divide(const quire_value *a, const quire_value *b,
                                           quire_value *out);
/* NULL if there is no such function; `has` is not among them. */
typedef struct quire_function_info {
  const char *name;
  quire_function function;
  uint8_t least;
  uint8_t most;
} quire_function_info;
const quire_function_info *quire_function_find(const char *name, size_t length);
typedef struct quire_filter_info {
  const char *name;
  quire_filter filter;
  uint8_t arguments; /* besides the value */
} quire_filter_info;
const quire_filter_info *quire_filter_find(const char *name, size_t length);

#endif
