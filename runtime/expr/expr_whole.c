/* Whether a number that is needed whole can have a fraction: for lint. */
#include "expr_whole.h"

#include "expr_code.h"

static quire_wholeness weaker(quire_wholeness a, quire_wholeness b) {
  return a > b ? a : b;
}

/* The weakest of the children from the one given on. */
static quire_wholeness weakest(const quire_expr *expr, const uint8_t *known, int32_t child) {
  quire_wholeness result = QUIRE_WHOLE;
  for (; child >= 0; child = expr->nodes[child].next) {
    result = weaker(result, (quire_wholeness)known[child]);
  }
  return result;
}

static quire_wholeness literal_wholeness(const quire_value *value) {
  return value->kind == QUIRE_VALUE_INTEGER  ? QUIRE_WHOLE
         : value->kind == QUIRE_VALUE_DOUBLE ? QUIRE_FRACTIONAL
                                             : QUIRE_WHOLENESS_UNKNOWN;
}

static quire_wholeness ref_wholeness(const quire_ref *ref, quire_wholeness_function *derived,
                                     void *user) {
  switch (ref->kind) {
    case QUIRE_REF_RANK:
    case QUIRE_REF_LIMIT:
    case QUIRE_REF_FOLD_WIDTH:
      return QUIRE_WHOLE;
    default:
      return derived == NULL ? QUIRE_WHOLENESS_UNKNOWN : derived(user, ref);
  }
}

static quire_wholeness call_wholeness(const quire_expr *expr, const quire_node *node,
                                      const uint8_t *known) {
  const quire_node *argument = &expr->nodes[node->first];
  switch ((quire_function)node->operand) {
    case QUIRE_FUNCTION_MIN:
    case QUIRE_FUNCTION_MAX:
      return weakest(expr, known, node->first);
    case QUIRE_FUNCTION_DIM:
    case QUIRE_FUNCTION_NUMEL: {
      bool shape = argument->op == QUIRE_OP_LOAD &&
                   (expr->refs[argument->operand].kind == QUIRE_REF_SHAPE ||
                    expr->refs[argument->operand].kind == QUIRE_REF_STRIDES);
      return shape ? QUIRE_WHOLE : QUIRE_WHOLENESS_UNKNOWN;
    }
    case QUIRE_FUNCTION_POW:
      return QUIRE_WHOLENESS_UNKNOWN;
    case QUIRE_FUNCTION_FLOOR:
    case QUIRE_FUNCTION_CEIL:
    case QUIRE_FUNCTION_CEIL_DIV:
    case QUIRE_FUNCTION_POW2_CEIL:
    case QUIRE_FUNCTION_LOG2_CEIL:
      return QUIRE_WHOLE;
    default:
      return QUIRE_WHOLENESS_UNKNOWN;
  }
}

static quire_wholeness node_wholeness(const quire_expr *expr, const quire_node *node,
                                      const uint8_t *known, quire_wholeness_function *derived,
                                      void *user) {
  switch ((quire_op)node->op) {
    case QUIRE_OP_LITERAL:
      return literal_wholeness(&expr->literals[node->operand]);
    case QUIRE_OP_LOAD:
      return ref_wholeness(&expr->refs[node->operand], derived, user);
    case QUIRE_OP_DIVIDE:
      return QUIRE_FRACTIONAL;
    case QUIRE_OP_FLOOR_DIVIDE:
      return QUIRE_WHOLE;
    case QUIRE_OP_NEGATE:
    case QUIRE_OP_ADD:
    case QUIRE_OP_SUBTRACT:
    case QUIRE_OP_MULTIPLY:
    case QUIRE_OP_REMAINDER:
    case QUIRE_OP_AND:
    case QUIRE_OP_OR:
      return weakest(expr, known, node->first);
    case QUIRE_OP_CHOICE: /* the condition does not matter */
      return weakest(expr, known, expr->nodes[node->first].next);
    case QUIRE_OP_CALL:
      return call_wholeness(expr, node, known);
    default:
      return QUIRE_WHOLENESS_UNKNOWN;
  }
}

quire_wholeness quire_expr_wholeness(const quire_expr *expr, quire_wholeness_function *derived,
                                     void *user) {
  uint8_t known[QUIRE_EXPR_MAX_LENGTH];
  if (expr->constant) {
    return literal_wholeness(&expr->value);
  }
  for (int32_t i = 0; i < expr->node_count; ++i) { /* children come first */
    known[i] = (uint8_t)node_wholeness(expr, &expr->nodes[i], known, derived, user);
  }
  return (quire_wholeness)known[expr->node_count - 1];
}

bool quire_expr_is_whole(const quire_expr *expr) {
  return quire_expr_wholeness(expr, NULL, NULL) == QUIRE_WHOLE;
}
