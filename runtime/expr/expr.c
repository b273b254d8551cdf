/* Compiling, and what is known of an expression without evaluating it. */
#include "expr.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "expr_code.h"
#include "expr_lexer.h"
#include "expr_parser.h"

/* Gives every reference its meaning, in the order of the text. */
static bool resolve_references(quire_expr *expr, quire_resolve_function *resolve, void *user,
                               char *buffer, quire_compile_error *error) {
  for (int32_t i = 0; i < expr->node_count; ++i) {
    const quire_node *node = &expr->nodes[i];
    if (node->op != QUIRE_OP_LOAD) {
      continue;
    }
    size_t length =
        quire_path_squeeze(expr->text + node->begin, node->length, buffer, QUIRE_EXPR_MAX_LENGTH);
    quire_ref *ref = &expr->refs[node->operand];
    bool in_defined = ref->kind == QUIRE_REF_UNKNOWN;
    const char *message = resolve(user, buffer, length, in_defined, ref);
    if (message != NULL) {
      error->offset = node->begin;
      (void)snprintf(error->message, sizeof error->message, "%s", message);
      return false;
    }
  }
  return true;
}

static bool asks_environment(const quire_expr *expr) {
  for (int32_t i = 0; i < expr->code_count; ++i) {
    const quire_instruction *instruction = &expr->code[i];
    if (instruction->op == QUIRE_OP_MACRO ||
        (instruction->op == QUIRE_OP_CALL && instruction->operand >= QUIRE_FUNCTION_F16_OK)) {
      return true;
    }
  }
  return expr->ref_count != 0;
}

/* Remembers the value of an expression without references; errors are left to evaluation. */
static quire_expr_code find_constant(quire_arena *arena, quire_expr *expr) {
  if (asks_environment(expr)) {
    return QUIRE_EXPR_OK;
  }
  quire_expr_env env = {.arena = arena, .steps_left = UINT64_C(2) * QUIRE_EXPR_MAX_LENGTH};
  quire_expr_fault fault;
  quire_expr_code code = quire_expr_run(expr, 0, expr->code_count, &env, &expr->value, &fault);
  expr->constant = code == QUIRE_EXPR_OK;
  return code;
}

/* range() is no value of the language: it stands alone. */
static bool check_range(const quire_expr *expr, quire_compile_error *error) {
  for (int32_t i = 0; i < expr->node_count - 1; ++i) {
    const quire_node *node = &expr->nodes[i];
    if (node->op == QUIRE_OP_CALL && node->operand == QUIRE_FUNCTION_RANGE) {
      error->offset = node->begin;
      (void)snprintf(error->message, sizeof error->message, "range() is for `for` alone");
      return false;
    }
  }
  return true;
}

bool quire_expr_is_range(const quire_expr *expr) {
  const quire_node *root = &expr->nodes[expr->node_count - 1];
  return root->op == QUIRE_OP_CALL && root->operand == QUIRE_FUNCTION_RANGE;
}

const quire_expr *quire_expr_compile_in_template(quire_arena *arena, const char *text,
                                                 size_t length, const quire_expr_template *surround,
                                                 quire_resolve_function *resolve, void *user,
                                                 quire_compile_error *error, bool *out_of_memory) {
  char buffer[QUIRE_EXPR_MAX_LENGTH + 1];
  *out_of_memory = true;
  quire_expr *expr = quire_arena_alloc(arena, sizeof *expr);
  if (expr == NULL) {
    return NULL;
  }
  quire_parse_result result = quire_expr_parse(arena, text, length, surround, expr, error);
  *out_of_memory = result == QUIRE_PARSE_MEMORY;
  if (result != QUIRE_PARSE_OK || !check_range(expr, error) ||
      !resolve_references(expr, resolve, user, buffer, error)) {
    return NULL;
  }
  *out_of_memory = find_constant(arena, expr) == QUIRE_EXPR_MEMORY;
  return *out_of_memory ? NULL : expr;
}

const quire_expr *quire_expr_compile(quire_arena *arena, const char *text, size_t length,
                                     quire_resolve_function *resolve, void *user,
                                     quire_compile_error *error, bool *out_of_memory) {
  return quire_expr_compile_in_template(arena, text, length, NULL, resolve, user, error,
                                        out_of_memory);
}

const quire_expr *quire_expr_constant(quire_arena *arena, quire_value value, const char *source,
                                      size_t source_length) {
  struct constant {
    quire_expr expr;
    quire_value literal;
    quire_instruction instruction;
    quire_node node;
  } *memory = quire_arena_array(arena, 1, sizeof *memory);
  if (memory == NULL) {
    return NULL;
  }
  uint16_t length = (uint16_t)(source_length > UINT16_MAX ? UINT16_MAX : source_length);
  memory->literal = value;
  memory->instruction.op = QUIRE_OP_LITERAL;
  memory->instruction.length = length;
  memory->node.op = QUIRE_OP_LITERAL;
  memory->node.length = length;
  memory->node.code_end = 1;
  memory->node.first = -1;
  memory->node.next = -1;
  quire_expr *expr = &memory->expr;
  expr->text = source;
  expr->length = source_length;
  expr->nodes = &memory->node;
  expr->node_count = 1;
  expr->code = &memory->instruction;
  expr->code_count = 1;
  expr->literals = &memory->literal;
  expr->stack_depth = 1;
  expr->from_json = true;
  expr->constant = true;
  expr->value = value;
  return expr;
}

const char *quire_expr_source(const quire_expr *expr, size_t *length) {
  *length = expr->length;
  return expr->text;
}

size_t quire_expr_ref_count(const quire_expr *expr) {
  return (size_t)expr->ref_count;
}

const quire_ref *quire_expr_refs(const quire_expr *expr) {
  return expr->refs;
}

bool quire_expr_is_constant(const quire_expr *expr, quire_value *value) {
  if (expr->constant) {
    *value = expr->value;
  }
  return expr->constant;
}

const char *quire_expr_code_name(quire_expr_code code) {
  static const char *const names[] = {"ok",    "overflow",     "type",  "undefined", "range",
                                      "limit", "unknown-name", "cycle", "memory"};
  return (size_t)code < sizeof names / sizeof *names ? names[code] : "unknown";
}

quire_expr_code quire_value_to_integer(const quire_value *value, int64_t least, int64_t most,
                                       int64_t *out) {
  int64_t integer = 0;
  if (value->kind == QUIRE_VALUE_INTEGER) {
    integer = value->as.integer;
  } else if (value->kind == QUIRE_VALUE_DOUBLE) {
    double whole = floor(value->as.number);
    if (!(whole >= -9223372036854775808.0 && whole < 9223372036854775808.0)) {
      return QUIRE_EXPR_RANGE;
    }
    integer = (int64_t)whole;
  } else {
    return value->kind == QUIRE_VALUE_UNDEFINED ? QUIRE_EXPR_UNDEFINED : QUIRE_EXPR_TYPE;
  }
  if (integer < least || integer > most) {
    return QUIRE_EXPR_RANGE;
  }
  *out = integer;
  return QUIRE_EXPR_OK;
}
