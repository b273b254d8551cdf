/* Strings of templates: output forms, concatenation, filters (section 11). */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "expr_code.h"

enum {
  longest_string = 1024 * 1024, /* what a template may render, and so what is worth making */
  bytes_per_step = 16
};

bool quire_value_write(quire_text *text, const quire_value *value) {
  switch (value->kind) {
    case QUIRE_VALUE_UNDEFINED:
      return true;
    case QUIRE_VALUE_INTEGER:
      quire_text_int(text, value->as.integer);
      return true;
    case QUIRE_VALUE_DOUBLE: {
      double number = value->as.number;
      if (!isfinite(number)) {
        return false;
      }
      if (number == floor(number) && fabs(number) < 9223372036854775808.0) {
        quire_text_int(text, (int64_t)number);
      } else {
        quire_text_double(text, number);
      }
      return true;
    }
    case QUIRE_VALUE_BOOLEAN:
      quire_text_put(text, value->as.boolean ? "true" : "false");
      return true;
    case QUIRE_VALUE_STRING:
      quire_text_append(text, value->as.string, value->length);
      return true;
    case QUIRE_VALUE_LIST:
      break;
  }
  return false;
}

/* Strings may grow by doubling: all their bytes are paid for. */
static quire_expr_code pay(quire_expr_env *env, size_t length) {
  size_t price = length / bytes_per_step;
  if (length > longest_string || env->steps_left < price) {
    return QUIRE_EXPR_LIMIT;
  }
  env->steps_left -= price;
  return QUIRE_EXPR_OK;
}

quire_expr_code quire_string_make(quire_expr_env *env, const char *text, size_t length,
                                  quire_value *out) {
  quire_expr_code code = pay(env, length);
  if (code != QUIRE_EXPR_OK) {
    return code;
  }
  const char *copy = quire_arena_copy(env->arena, length > 0 ? text : "", length);
  if (copy == NULL) {
    return QUIRE_EXPR_MEMORY;
  }
  *out = quire_value_string(copy, length);
  return QUIRE_EXPR_OK;
}

/* Appends an output form: the code of a value without one. */
static quire_expr_code put_form(quire_text *text, const quire_value *value) {
  if (quire_value_write(text, value)) {
    return QUIRE_EXPR_OK;
  }
  return value->kind == QUIRE_VALUE_LIST ? QUIRE_EXPR_TYPE : QUIRE_EXPR_RANGE;
}

/* Output forms of several values with a separator between them, as one string. */
static quire_expr_code join(const quire_value *items, size_t count, const quire_value *separator,
                            quire_expr_env *env, quire_value *out) {
  quire_text text;
  quire_text_init(&text, env->arena->allocator);
  text.limit = longest_string;
  quire_expr_code code = QUIRE_EXPR_OK;
  for (size_t i = 0; code == QUIRE_EXPR_OK && i < count; ++i) {
    size_t length = text.length + (items[i].kind == QUIRE_VALUE_STRING ? items[i].length : 0) +
                    (separator != NULL ? separator->length : 0);
    if (length > longest_string) {
      code = QUIRE_EXPR_LIMIT;
      break;
    }
    if (i > 0 && separator != NULL) {
      code = put_form(&text, separator);
    }
    code = code == QUIRE_EXPR_OK ? put_form(&text, &items[i]) : code;
  }
  if (code == QUIRE_EXPR_OK) {
    code = text.failed ? QUIRE_EXPR_MEMORY : quire_string_make(env, text.data, text.length, out);
  }
  quire_text_release(&text);
  return code;
}

static quire_expr_code find_in(const quire_value *value, const quire_value *list,
                               quire_value *out) {
  if (value->kind == QUIRE_VALUE_UNDEFINED || list->kind != QUIRE_VALUE_LIST) {
    bool undefined = value->kind == QUIRE_VALUE_UNDEFINED || list->kind == QUIRE_VALUE_UNDEFINED;
    return undefined ? QUIRE_EXPR_UNDEFINED : QUIRE_EXPR_TYPE;
  }
  bool found = false;
  for (uint32_t i = 0; i < list->length && !found; ++i) {
    found = quire_value_equal(value, &list->as.list[i]);
  }
  *out = quire_value_boolean(found);
  return QUIRE_EXPR_OK;
}

/* Indices below zero count from the end. */
static quire_expr_code index_list(const quire_value *list, const quire_value *index,
                                  quire_value *out) {
  if (list->kind != QUIRE_VALUE_LIST || index->kind != QUIRE_VALUE_INTEGER) {
    bool undefined = list->kind == QUIRE_VALUE_UNDEFINED || index->kind == QUIRE_VALUE_UNDEFINED;
    return undefined ? QUIRE_EXPR_UNDEFINED : QUIRE_EXPR_TYPE;
  }
  int64_t length = list->length;
  int64_t at = index->as.integer < 0 && index->as.integer >= -length ? index->as.integer + length
                                                                     : index->as.integer;
  if (at < 0 || at >= length) {
    return QUIRE_EXPR_RANGE;
  }
  *out = list->as.list[at];
  return QUIRE_EXPR_OK;
}

quire_expr_code quire_operator_template(quire_op op, const quire_value *a, const quire_value *b,
                                        quire_expr_env *env, quire_value *out) {
  quire_value both[2] = {*a, *b};
  if (op == QUIRE_OP_IN) {
    return find_in(a, b, out);
  }
  if (op == QUIRE_OP_INDEX) {
    return index_list(a, b, out);
  }
  if (op == QUIRE_OP_ADD_TEXT && a->kind != QUIRE_VALUE_STRING && b->kind != QUIRE_VALUE_STRING) {
    return quire_operator_binary(QUIRE_OP_ADD, a, b, out);
  }
  return join(both, 2, NULL, env, out);
}

/* ---- filters ---- */

static const quire_filter_info filters[] = {
    {"int", QUIRE_FILTER_INT, 0},     {"f32", QUIRE_FILTER_F32, 0},
    {"u32", QUIRE_FILTER_U32, 0},     {"i32", QUIRE_FILTER_I32, 0},
    {"hex", QUIRE_FILTER_HEX, 0},     {"upper", QUIRE_FILTER_UPPER, 0},
    {"lower", QUIRE_FILTER_LOWER, 0}, {"length", QUIRE_FILTER_LENGTH, 0},
    {"join", QUIRE_FILTER_JOIN, 1},   {"default", QUIRE_FILTER_DEFAULT, 1},
};

const quire_filter_info *quire_filter_find(const char *name, size_t length) {
  for (size_t i = 0; i < sizeof filters / sizeof *filters; ++i) {
    if (strlen(filters[i].name) == length && memcmp(filters[i].name, name, length) == 0) {
      return &filters[i];
    }
  }
  return NULL;
}

static quire_expr_code to_integer(const quire_value *value, quire_value *out) {
  if (!quire_value_is_number(value)) {
    return QUIRE_EXPR_TYPE;
  }
  if (value->kind == QUIRE_VALUE_DOUBLE) {
    double whole = trunc(value->as.number);
    if (!(whole >= -9223372036854775808.0 && whole < 9223372036854775808.0)) {
      return QUIRE_EXPR_RANGE;
    }
    *out = quire_value_integer((int64_t)whole);
    return QUIRE_EXPR_OK;
  }
  *out = *value;
  return QUIRE_EXPR_OK;
}

/* An integer literal of WGSL. A number with a fraction is out of range. */
static quire_expr_code write_integer(const quire_value *value, quire_filter filter,
                                     quire_expr_env *env, quire_value *out) {
  if (!quire_value_is_number(value)) {
    return QUIRE_EXPR_TYPE;
  }
  bool is_signed = filter == QUIRE_FILTER_I32;
  int64_t least = is_signed ? INT32_MIN : 0;
  int64_t most = is_signed ? INT32_MAX : UINT32_MAX;
  if (value->kind != QUIRE_VALUE_INTEGER || value->as.integer < least || value->as.integer > most) {
    return QUIRE_EXPR_RANGE;
  }
  char text[32];
  long long number = (long long)value->as.integer;
  int length = filter == QUIRE_FILTER_HEX
                   ? snprintf(text, sizeof text, "0x%llxu", (unsigned long long)number)
                   : snprintf(text, sizeof text, "%lld%c", number, is_signed ? 'i' : 'u');
  return quire_string_make(env, text, (size_t)length, out);
}

/*
 * Digits and decimal exponent of the fewest digits that read back as `number` (not 0): the value is
 * 0.DIGITS * 10^exponent. Nine always do. The locale's decimal point is skipped, whatever it is.
 */
static int shortest_digits(float number, char digits[16], size_t *count) {
  char text[64];
  for (int precision = 0; precision < 9; ++precision) {
    (void)snprintf(text, sizeof text, "%.*e", precision, (double)number);
    if (strtof(text, NULL) == number) {
      break;
    }
  }
  *count = 0;
  const char *c = text;
  for (; *c != 'e'; ++c) {
    if (*c >= '0' && *c <= '9') {
      digits[(*count)++] = *c;
    }
  }
  while (*count > 1 && digits[*count - 1] == '0') {
    --*count;
  }
  return (int)strtol(c + 1, NULL, 10) + 1;
}

/* The shorter of 0.0125 and 125e-4, in the bytes of `out`. */
static size_t write_digits(const char *digits, size_t count, int exponent, char *out, size_t size) {
  char plain[128];
  char scientific[64];
  if (exponent <= 0) {
    (void)snprintf(plain, sizeof plain, "0.%0*d%.*s", -exponent, 0, (int)count, digits);
    if (exponent == 0) {
      (void)snprintf(plain, sizeof plain, "0.%.*s", (int)count, digits);
    }
  } else if ((size_t)exponent >= count) {
    (void)snprintf(plain, sizeof plain, "%.*s%.*s", (int)count, digits, exponent - (int)count,
                   "0000000000000000000000000000000000000000");
  } else {
    (void)snprintf(plain, sizeof plain, "%.*s.%.*s", exponent, digits, (int)count - exponent,
                   digits + exponent);
  }
  (void)snprintf(scientific, sizeof scientific, "%.1s%s%.*se%d", digits, count > 1 ? "." : "",
                 (int)count - 1, digits + 1, exponent - 1);
  const char *best = strlen(scientific) < strlen(plain) ? scientific : plain;
  return (size_t)snprintf(out, size, "%s", best);
}

static quire_expr_code write_f32(const quire_value *value, quire_expr_env *env, quire_value *out) {
  if (!quire_value_is_number(value)) {
    return QUIRE_EXPR_TYPE;
  }
  float number = (float)quire_value_as_double(value);
  if (!isfinite(number)) {
    return QUIRE_EXPR_RANGE;
  }
  char text[160] = "0";
  size_t length = 1;
  if (number != 0) {
    char digits[16];
    size_t count = 0;
    int exponent = shortest_digits(number, digits, &count);
    size_t sign = number < 0 ? 1 : 0;
    text[0] = '-';
    length = sign + write_digits(digits, count, exponent, text + sign, sizeof text - 2);
  }
  text[length++] = 'f';
  return quire_string_make(env, text, length, out);
}

static quire_expr_code change_case(const quire_value *value, bool upper, quire_expr_env *env,
                                   quire_value *out) {
  if (value->kind != QUIRE_VALUE_STRING) {
    return QUIRE_EXPR_TYPE;
  }
  quire_value made = quire_value_undefined();
  quire_expr_code code = quire_string_make(env, value->as.string, value->length, &made);
  if (code != QUIRE_EXPR_OK) {
    return code;
  }
  char *text = (char *)made.as.string; /* just made, nobody else's */
  for (uint32_t i = 0; i < made.length; ++i) {
    bool change = upper ? text[i] >= 'a' && text[i] <= 'z' : text[i] >= 'A' && text[i] <= 'Z';
    text[i] = (char)(change ? text[i] ^ 0x20 : text[i]);
  }
  *out = made;
  return QUIRE_EXPR_OK;
}

static quire_expr_code length_of(const quire_value *value, quire_value *out) {
  if (value->kind != QUIRE_VALUE_STRING && value->kind != QUIRE_VALUE_LIST) {
    return QUIRE_EXPR_TYPE;
  }
  *out = quire_value_integer(value->length);
  return QUIRE_EXPR_OK;
}

static quire_expr_code join_list(const quire_value *list, const quire_value *separator,
                                 quire_expr_env *env, quire_value *out) {
  if (list->kind != QUIRE_VALUE_LIST || separator->kind != QUIRE_VALUE_STRING) {
    return QUIRE_EXPR_TYPE;
  }
  return join(list->as.list, list->length, separator, env, out);
}

quire_expr_code quire_filter_apply(quire_filter filter, const quire_value *values, size_t count,
                                   quire_expr_env *env, quire_value *out) {
  if (filter == QUIRE_FILTER_DEFAULT) {
    *out = values[0].kind == QUIRE_VALUE_UNDEFINED ? values[1] : values[0];
    return QUIRE_EXPR_OK;
  }
  for (size_t i = 0; i < count; ++i) {
    if (values[i].kind == QUIRE_VALUE_UNDEFINED) {
      return QUIRE_EXPR_UNDEFINED;
    }
  }
  switch (filter) {
    case QUIRE_FILTER_INT:
      return to_integer(&values[0], out);
    case QUIRE_FILTER_F32:
      return write_f32(&values[0], env, out);
    case QUIRE_FILTER_U32:
    case QUIRE_FILTER_I32:
    case QUIRE_FILTER_HEX:
      return write_integer(&values[0], filter, env, out);
    case QUIRE_FILTER_UPPER:
    case QUIRE_FILTER_LOWER:
      return change_case(&values[0], filter == QUIRE_FILTER_UPPER, env, out);
    case QUIRE_FILTER_LENGTH:
      return length_of(&values[0], out);
    case QUIRE_FILTER_JOIN:
      return join_list(&values[0], &values[1], env, out);
    case QUIRE_FILTER_DEFAULT:
      break;
  }
  return QUIRE_EXPR_TYPE;
}
