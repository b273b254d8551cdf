/* Arithmetic and comparison (docs/manifest-language.md 6.3, 6.4). */
#include <math.h>

#include "checked.h"
#include "expr_code.h"

static quire_expr_code check_number(const quire_value *value) {
  if (quire_value_is_number(value)) {
    return QUIRE_EXPR_OK;
  }
  return value->kind == QUIRE_VALUE_UNDEFINED ? QUIRE_EXPR_UNDEFINED : QUIRE_EXPR_TYPE;
}

static quire_expr_code check_numbers(const quire_value *a, const quire_value *b) {
  quire_expr_code code = check_number(a);
  return code != QUIRE_EXPR_OK ? code : check_number(b);
}

/* Both are integers, b is not 0, and the quotient fits 64 bits. */
static bool divides_exactly_typed(const quire_value *a, const quire_value *b) {
  return a->kind == QUIRE_VALUE_INTEGER && b->kind == QUIRE_VALUE_INTEGER && b->as.integer != 0 &&
         !(a->as.integer == INT64_MIN && b->as.integer == -1);
}

static quire_value divide(const quire_value *a, const quire_value *b) {
  if (divides_exactly_typed(a, b) && a->as.integer % b->as.integer == 0) {
    return quire_value_integer(a->as.integer / b->as.integer);
  }
  return quire_value_number(quire_value_as_double(a) / quire_value_as_double(b));
}

static quire_value floor_divide(const quire_value *a, const quire_value *b) {
  if (divides_exactly_typed(a, b)) {
    int64_t quotient = a->as.integer / b->as.integer;
    bool inexact = a->as.integer % b->as.integer != 0;
    bool negative = (a->as.integer < 0) != (b->as.integer < 0);
    return quire_value_integer(quotient - (inexact && negative ? 1 : 0));
  }
  return quire_value_number(floor(quire_value_as_double(a) / quire_value_as_double(b)));
}

static quire_value remainder_of(const quire_value *a, const quire_value *b) {
  if (divides_exactly_typed(a, b)) {
    return quire_value_integer(a->as.integer % b->as.integer);
  }
  if (a->kind == QUIRE_VALUE_INTEGER && b->kind == QUIRE_VALUE_INTEGER && b->as.integer == -1) {
    return quire_value_integer(0); /* the least integer by -1 */
  }
  return quire_value_number(fmod(quire_value_as_double(a), quire_value_as_double(b)));
}

quire_expr_code quire_operator_ceil_divide(const quire_value *a, const quire_value *b,
                                           quire_value *out) {
  quire_expr_code code = check_numbers(a, b);
  if (code != QUIRE_EXPR_OK) {
    return code;
  }
  if (divides_exactly_typed(a, b)) {
    int64_t quotient = a->as.integer / b->as.integer;
    bool inexact = a->as.integer % b->as.integer != 0;
    bool negative = (a->as.integer < 0) != (b->as.integer < 0);
    *out = quire_value_integer(quotient + (inexact && !negative ? 1 : 0));
  } else {
    *out = quire_value_number(ceil(quire_value_as_double(a) / quire_value_as_double(b)));
  }
  return QUIRE_EXPR_OK;
}

static quire_expr_code add_integers(quire_op op, int64_t a, int64_t b, quire_value *out) {
  int64_t result = 0;
  bool fits = op == QUIRE_OP_ADD        ? quire_add_i64(a, b, &result)
              : op == QUIRE_OP_SUBTRACT ? quire_sub_i64(a, b, &result)
                                        : quire_mul_i64(a, b, &result);
  if (!fits) {
    return QUIRE_EXPR_OVERFLOW;
  }
  *out = quire_value_integer(result);
  return QUIRE_EXPR_OK;
}

static quire_expr_code arithmetic(quire_op op, const quire_value *a, const quire_value *b,
                                  quire_value *out) {
  quire_expr_code code = check_numbers(a, b);
  if (code != QUIRE_EXPR_OK) {
    return code;
  }
  if (op == QUIRE_OP_DIVIDE) {
    *out = divide(a, b);
  } else if (op == QUIRE_OP_FLOOR_DIVIDE) {
    *out = floor_divide(a, b);
  } else if (op == QUIRE_OP_REMAINDER) {
    *out = remainder_of(a, b);
  } else if (a->kind == QUIRE_VALUE_INTEGER && b->kind == QUIRE_VALUE_INTEGER) {
    return add_integers(op, a->as.integer, b->as.integer, out);
  } else {
    double x = quire_value_as_double(a);
    double y = quire_value_as_double(b);
    *out = quire_value_number(op == QUIRE_OP_ADD ? x + y : op == QUIRE_OP_SUBTRACT ? x - y : x * y);
  }
  return QUIRE_EXPR_OK;
}

/* The common case in one step: false if the operator needs more care. */
static bool compare_integers(quire_op op, int64_t a, int64_t b, quire_value *out) {
  bool holds = false;
  switch (op) {
    case QUIRE_OP_EQUAL:
      holds = a == b;
      break;
    case QUIRE_OP_NOT_EQUAL:
      holds = a != b;
      break;
    case QUIRE_OP_LESS:
      holds = a < b;
      break;
    case QUIRE_OP_LESS_EQUAL:
      holds = a <= b;
      break;
    case QUIRE_OP_GREATER:
      holds = a > b;
      break;
    case QUIRE_OP_GREATER_EQUAL:
      holds = a >= b;
      break;
    default:
      return false;
  }
  *out = quire_value_boolean(holds);
  return true;
}

static quire_expr_code compare(quire_op op, const quire_value *a, const quire_value *b,
                               quire_value *out) {
  quire_expr_code code = check_numbers(a, b);
  if (code != QUIRE_EXPR_OK) {
    return code;
  }
  int order = quire_value_compare(a, b);
  bool holds = false; /* with NaN */
  if (order != 2) {
    holds = op == QUIRE_OP_LESS         ? order < 0
            : op == QUIRE_OP_LESS_EQUAL ? order <= 0
            : op == QUIRE_OP_GREATER    ? order > 0
                                        : order >= 0;
  }
  *out = quire_value_boolean(holds);
  return QUIRE_EXPR_OK;
}

quire_expr_code quire_operator_negate(const quire_value *a, quire_value *out) {
  quire_value zero = quire_value_integer(0);
  return arithmetic(QUIRE_OP_SUBTRACT, &zero, a, out);
}

quire_expr_code quire_operator_binary(quire_op op, const quire_value *a, const quire_value *b,
                                      quire_value *out) {
  if (a->kind == QUIRE_VALUE_INTEGER && b->kind == QUIRE_VALUE_INTEGER &&
      compare_integers(op, a->as.integer, b->as.integer, out)) {
    return QUIRE_EXPR_OK;
  }
  switch (op) {
    case QUIRE_OP_EQUAL:
      *out = quire_value_boolean(quire_value_equal(a, b));
      return QUIRE_EXPR_OK;
    case QUIRE_OP_NOT_EQUAL:
      *out = quire_value_boolean(!quire_value_equal(a, b));
      return QUIRE_EXPR_OK;
    case QUIRE_OP_LESS:
    case QUIRE_OP_LESS_EQUAL:
    case QUIRE_OP_GREATER:
    case QUIRE_OP_GREATER_EQUAL:
      return compare(op, a, b, out);
    default:
      return arithmetic(op, a, b, out);
  }
}
