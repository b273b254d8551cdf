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

static quire_wholeness ref_wholeness(const quire_ref *ref, quire_wholeness_function *known_ref,
                                     void *user) {
  switch (ref->kind) {
    case QUIRE_REF_RANK:
    case QUIRE_REF_LIMIT:
    case QUIRE_REF_FOLD_WIDTH:
    case QUIRE_REF_SHAPE: /* lists count by their elements */
    case QUIRE_REF_STRIDES:
      return QUIRE_WHOLE;
    default:
      return known_ref == NULL ? QUIRE_WHOLENESS_UNKNOWN : known_ref(user, ref);
  }
}

static quire_wholeness call_wholeness(const quire_expr *expr, const quire_node *node,
                                      const uint8_t *known) {
  switch ((quire_function)node->operand) {
    case QUIRE_FUNCTION_MIN:
    case QUIRE_FUNCTION_MAX:
      return weakest(expr, known, node->first);
    case QUIRE_FUNCTION_DIM: /* the axis does not matter */
    case QUIRE_FUNCTION_NUMEL:
      return (quire_wholeness)known[node->first];
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
                                      const uint8_t *known, quire_wholeness_function *known_ref,
                                      void *user) {
  switch ((quire_op)node->op) {
    case QUIRE_OP_LITERAL:
      return literal_wholeness(&expr->literals[node->operand]);
    case QUIRE_OP_LOAD:
      return ref_wholeness(&expr->refs[node->operand], known_ref, user);
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
    case QUIRE_OP_LIST:
      return weakest(expr, known, node->first);
    case QUIRE_OP_CHOICE: /* the condition does not matter */
      return weakest(expr, known, expr->nodes[node->first].next);
    case QUIRE_OP_CALL:
      return call_wholeness(expr, node, known);
    default:
      return QUIRE_WHOLENESS_UNKNOWN;
  }
}

quire_wholeness quire_expr_wholeness(const quire_expr *expr, quire_arena *arena,
                                     quire_wholeness_function *known_ref, void *user,
                                     bool *out_of_memory) {
  if (expr->constant && expr->value.kind != QUIRE_VALUE_LIST) {
    return literal_wholeness(&expr->value);
  }
  uint8_t *known = quire_arena_alloc(arena, (size_t)expr->node_count);
  if (known == NULL) {
    *out_of_memory = true;
    return QUIRE_WHOLENESS_UNKNOWN;
  }
  for (int32_t i = 0; i < expr->node_count; ++i) { /* children come first */
    known[i] = (uint8_t)node_wholeness(expr, &expr->nodes[i], known, known_ref, user);
  }
  return (quire_wholeness)known[expr->node_count - 1];
}
