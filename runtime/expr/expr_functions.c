/* The functions (docs/manifest-language.md 6.5). */
#include <math.h>
#include <string.h>

#include "expr_code.h"

static const quire_function_info functions[] = {
    {"dim", QUIRE_FUNCTION_DIM, 2, 2},
    {"min", QUIRE_FUNCTION_MIN, 1, QUIRE_EXPR_MAX_ITEMS},
    {"max", QUIRE_FUNCTION_MAX, 1, QUIRE_EXPR_MAX_ITEMS},
    {"floor", QUIRE_FUNCTION_FLOOR, 1, 1},
    {"ceil", QUIRE_FUNCTION_CEIL, 1, 1},
    {"ceilDiv", QUIRE_FUNCTION_CEIL_DIV, 2, 2},
    {"pow2ceil", QUIRE_FUNCTION_POW2_CEIL, 1, 1},
    {"log2ceil", QUIRE_FUNCTION_LOG2_CEIL, 1, 1},
    {"pow", QUIRE_FUNCTION_POW, 2, 2},
    {"numel", QUIRE_FUNCTION_NUMEL, 1, 1},
    {"sameShape", QUIRE_FUNCTION_SAME_SHAPE, 2, 2},
    {"range", QUIRE_FUNCTION_RANGE, 1, 3},
    {"f16Ok", QUIRE_FUNCTION_F16_OK, 1, 1},
    {"device.features.has", QUIRE_FUNCTION_FEATURE, 1, 1},
};

const quire_function_info *quire_function_find(const char *name, size_t length) {
  for (size_t i = 0; i < sizeof functions / sizeof *functions; ++i) {
    if (strlen(functions[i].name) == length && memcmp(functions[i].name, name, length) == 0) {
      return &functions[i];
    }
  }
  return NULL;
}

static bool is_text(const quire_value *value, const char *text) {
  return value->kind == QUIRE_VALUE_STRING && value->length == strlen(text) &&
         memcmp(value->as.string, text, value->length) == 0;
}

static quire_expr_code dim(const quire_value *list, const quire_value *axis, quire_value *out) {
  if (list->kind != QUIRE_VALUE_LIST || axis->kind != QUIRE_VALUE_INTEGER) {
    return QUIRE_EXPR_TYPE;
  }
  if (list->length == 0) {
    return QUIRE_EXPR_RANGE;
  }
  int64_t length = list->length;
  int64_t index = axis->as.integer % length;
  *out = list->as.list[index < 0 ? index + length : index];
  return QUIRE_EXPR_OK;
}

static bool is_nan(const quire_value *value) {
  return value->kind == QUIRE_VALUE_DOUBLE && isnan(value->as.number);
}

/* sign -1: the least, 1: the greatest. */
static quire_expr_code extreme(const quire_value *items, size_t count, int sign, quire_value *out) {
  quire_value best = items[0];
  for (size_t i = 0; i < count; ++i) {
    if (!quire_value_is_number(&items[i])) {
      return QUIRE_EXPR_TYPE;
    }
    if (is_nan(&best)) {
      continue;
    }
    int order = quire_value_compare(&items[i], &best);
    if (order == 2 || order == sign) {
      best = items[i];
    }
  }
  *out = best;
  return QUIRE_EXPR_OK;
}

static quire_expr_code round_to_whole(const quire_value *value, bool up, quire_value *out) {
  if (!quire_value_is_number(value)) {
    return QUIRE_EXPR_TYPE;
  }
  *out = *value;
  if (value->kind == QUIRE_VALUE_DOUBLE) {
    double number = value->as.number;
    *out = quire_value_number(up ? ceil(number) : floor(number));
  }
  return QUIRE_EXPR_OK;
}

/* Exponent of the least power of two >= x, for finite x >= 1: x is fraction * 2^exponent with the
   fraction in [1/2, 1). */
static int exponent_of_power(const quire_value *x) {
  if (x->kind == QUIRE_VALUE_INTEGER) {
    int exponent = 0;
    for (uint64_t rest = (uint64_t)x->as.integer - 1; rest != 0; rest >>= 1) {
      ++exponent;
    }
    return exponent;
  }
  int exponent = 0;
  double fraction = frexp(x->as.number, &exponent);
  return fraction == 0.5 ? exponent - 1 : exponent;
}

static bool at_least_one(const quire_value *x) {
  quire_value one = quire_value_integer(1);
  int order = quire_value_compare(x, &one);
  return order == 0 || order == 1;
}

static quire_expr_code pow2_ceil(const quire_value *x, quire_value *out) {
  if (!quire_value_is_number(x)) {
    return QUIRE_EXPR_TYPE;
  }
  if (is_nan(x) || (x->kind == QUIRE_VALUE_DOUBLE && isinf(x->as.number))) {
    *out = *x;
  } else if (!at_least_one(x)) {
    *out = quire_value_integer(1);
  } else {
    int exponent = exponent_of_power(x);
    *out = exponent <= 62 ? quire_value_integer((int64_t)1 << exponent)
                          : quire_value_number(ldexp(1.0, exponent));
  }
  return QUIRE_EXPR_OK;
}

static quire_expr_code log2_ceil(const quire_value *x, quire_value *out) {
  if (!quire_value_is_number(x)) {
    return QUIRE_EXPR_TYPE;
  }
  if (!at_least_one(x) || (x->kind == QUIRE_VALUE_DOUBLE && isinf(x->as.number))) {
    return QUIRE_EXPR_RANGE;
  }
  *out = quire_value_integer(exponent_of_power(x));
  return QUIRE_EXPR_OK;
}

static quire_expr_code power(const quire_value *a, const quire_value *b, quire_value *out) {
  if (!quire_value_is_number(a) || !quire_value_is_number(b)) {
    return QUIRE_EXPR_TYPE;
  }
  *out = quire_value_number(pow(quire_value_as_double(a), quire_value_as_double(b)));
  return QUIRE_EXPR_OK;
}

static quire_expr_code numel(const quire_value *list, quire_value *out) {
  if (list->kind != QUIRE_VALUE_LIST) {
    return QUIRE_EXPR_TYPE;
  }
  quire_value product = quire_value_integer(1);
  for (uint32_t i = 0; i < list->length; ++i) {
    quire_expr_code code =
        quire_operator_binary(QUIRE_OP_MULTIPLY, &product, &list->as.list[i], &product);
    if (code != QUIRE_EXPR_OK) {
      return code;
    }
  }
  *out = product;
  return QUIRE_EXPR_OK;
}

static quire_expr_code same_shape(const quire_value *a, const quire_value *b, quire_value *out) {
  if (a->kind != QUIRE_VALUE_LIST || b->kind != QUIRE_VALUE_LIST) {
    return QUIRE_EXPR_TYPE;
  }
  *out = quire_value_boolean(quire_value_equal(a, b));
  return QUIRE_EXPR_OK;
}

/* [begin, end, step] of one to three integers. */
static quire_expr_code range(const quire_value *arguments, size_t count, quire_expr_env *env,
                             quire_value *out) {
  for (size_t i = 0; i < count; ++i) {
    if (arguments[i].kind != QUIRE_VALUE_INTEGER) {
      return quire_value_is_number(&arguments[i]) ? QUIRE_EXPR_RANGE : QUIRE_EXPR_TYPE;
    }
  }
  if (count == 3 && arguments[2].as.integer == 0) {
    return QUIRE_EXPR_RANGE;
  }
  quire_value *list = quire_arena_array(env->arena, 3, sizeof *list);
  if (list == NULL) {
    return QUIRE_EXPR_MEMORY;
  }
  list[0] = count == 1 ? quire_value_integer(0) : arguments[0];
  list[1] = count == 1 ? arguments[0] : arguments[1];
  list[2] = count == 3 ? arguments[2] : quire_value_integer(1);
  *out = quire_value_list(list, 3);
  return QUIRE_EXPR_OK;
}

/* f16Ok, has() and device.features.has(): the functions that ask the environment. */
static quire_expr_code ask(quire_function function, const quire_value *argument,
                           quire_expr_env *env, quire_value *out) {
  static const char shader_f16[] = "shader-f16";
  if (function == QUIRE_FUNCTION_F16_OK) {
    bool half = is_text(argument, "float16") || is_text(argument, "f16");
    *out = quire_value_boolean(!half || env->feature(env, shader_f16, sizeof shader_f16 - 1));
    return QUIRE_EXPR_OK;
  }
  if (argument->kind != QUIRE_VALUE_STRING) {
    return QUIRE_EXPR_TYPE;
  }
  bool holds = false;
  if (function == QUIRE_FUNCTION_FEATURE) {
    holds = env->feature(env, argument->as.string, argument->length);
  } else {
    quire_space space = function == QUIRE_FUNCTION_HAS_ATTR    ? QUIRE_SPACE_ATTRS
                        : function == QUIRE_FUNCTION_HAS_LIMIT ? QUIRE_SPACE_LIMITS
                                                               : QUIRE_SPACE_ADAPTER;
    holds = env->has(env, space, argument->as.string, argument->length);
  }
  *out = quire_value_boolean(holds);
  return QUIRE_EXPR_OK;
}

quire_expr_code quire_function_call(quire_function function, const quire_value *arguments,
                                    size_t count, quire_expr_env *env, quire_value *out) {
  for (size_t i = 0; i < count && function != QUIRE_FUNCTION_F16_OK; ++i) {
    if (arguments[i].kind == QUIRE_VALUE_UNDEFINED) {
      return QUIRE_EXPR_UNDEFINED;
    }
  }
  switch (function) {
    case QUIRE_FUNCTION_DIM:
      return dim(&arguments[0], &arguments[1], out);
    case QUIRE_FUNCTION_MIN:
      return extreme(arguments, count, -1, out);
    case QUIRE_FUNCTION_MAX:
      return extreme(arguments, count, 1, out);
    case QUIRE_FUNCTION_FLOOR:
      return round_to_whole(&arguments[0], false, out);
    case QUIRE_FUNCTION_CEIL:
      return round_to_whole(&arguments[0], true, out);
    case QUIRE_FUNCTION_CEIL_DIV:
      return quire_operator_ceil_divide(&arguments[0], &arguments[1], out);
    case QUIRE_FUNCTION_POW2_CEIL:
      return pow2_ceil(&arguments[0], out);
    case QUIRE_FUNCTION_LOG2_CEIL:
      return log2_ceil(&arguments[0], out);
    case QUIRE_FUNCTION_POW:
      return power(&arguments[0], &arguments[1], out);
    case QUIRE_FUNCTION_NUMEL:
      return numel(&arguments[0], out);
    case QUIRE_FUNCTION_SAME_SHAPE:
      return same_shape(&arguments[0], &arguments[1], out);
    case QUIRE_FUNCTION_RANGE:
      return range(arguments, count, env, out);
    case QUIRE_FUNCTION_F16_OK:
    case QUIRE_FUNCTION_FEATURE:
    case QUIRE_FUNCTION_HAS_ATTR:
    case QUIRE_FUNCTION_HAS_LIMIT:
    case QUIRE_FUNCTION_HAS_ADAPTER:
      break;
  }
  return ask(function, arguments, env, out);
}
