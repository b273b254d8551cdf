#include "value.h"

#include <math.h>
#include <string.h>

/* Largest magnitude at which every whole double is an integer of the language: 2^53. */
static const double largest_whole = 9007199254740992.0;

quire_value quire_value_undefined(void) {
  quire_value value = {.kind = QUIRE_VALUE_UNDEFINED};
  return value;
}

quire_value quire_value_integer(int64_t integer) {
  quire_value value = {.kind = QUIRE_VALUE_INTEGER, .as.integer = integer};
  return value;
}

quire_value quire_value_number(double number) {
  if (number >= -largest_whole && number <= largest_whole && number == floor(number)) {
    return quire_value_integer((int64_t)number);
  }
  quire_value value = {.kind = QUIRE_VALUE_DOUBLE, .as.number = number};
  return value;
}

quire_value quire_value_boolean(bool boolean) {
  quire_value value = {.kind = QUIRE_VALUE_BOOLEAN, .as.boolean = boolean};
  return value;
}

quire_value quire_value_string(const char *string, size_t length) {
  quire_value value = {.kind = QUIRE_VALUE_STRING, .length = (uint32_t)length, .as.string = string};
  return value;
}

quire_value quire_value_text(const char *text) {
  return text != NULL ? quire_value_string(text, strlen(text)) : quire_value_undefined();
}

quire_value quire_value_list(const quire_value *items, size_t count) {
  quire_value value = {.kind = QUIRE_VALUE_LIST, .length = (uint32_t)count, .as.list = items};
  return value;
}

bool quire_value_truth(const quire_value *value) {
  switch (value->kind) {
    case QUIRE_VALUE_INTEGER:
      return value->as.integer != 0;
    case QUIRE_VALUE_DOUBLE:
      return !isnan(value->as.number); /* zero is an integer */
    case QUIRE_VALUE_BOOLEAN:
      return value->as.boolean;
    case QUIRE_VALUE_STRING:
    case QUIRE_VALUE_LIST:
      return value->length != 0;
    case QUIRE_VALUE_UNDEFINED:
      break;
  }
  return false;
}

/* Lists nest at most QUIRE_LIST_NESTING deep (the evaluator sees to it), which bounds the
 * recursion. */
bool quire_value_equal(const quire_value *a, const quire_value *b) {
  if (quire_value_is_number(a) && quire_value_is_number(b)) {
    return quire_value_compare(a, b) == 0;
  }
  if (a->kind != b->kind) {
    return false;
  }
  switch (a->kind) {
    case QUIRE_VALUE_BOOLEAN:
      return a->as.boolean == b->as.boolean;
    case QUIRE_VALUE_STRING:
      return a->length == b->length &&
             (a->length == 0 || memcmp(a->as.string, b->as.string, a->length) == 0);
    case QUIRE_VALUE_LIST:
      if (a->length != b->length) {
        return false;
      }
      for (uint32_t i = 0; i < a->length; ++i) {
        if (!quire_value_equal(&a->as.list[i], &b->as.list[i])) {
          return false;
        }
      }
      return true;
    case QUIRE_VALUE_INTEGER:
    case QUIRE_VALUE_DOUBLE:
    case QUIRE_VALUE_UNDEFINED:
      break;
  }
  return true; /* undefined equals undefined */
}

static int order(bool less, bool greater) {
  return less ? -1 : (greater ? 1 : 0);
}

/* Exact: the double is split into its whole part, which fits 64 bits, and the rest. */
static int compare_integer_with_double(int64_t integer, double number) {
  if (isnan(number)) {
    return 2;
  }
  if (number >= 9223372036854775808.0) {
    return -1;
  }
  if (number < -9223372036854775808.0) {
    return 1;
  }
  double whole = floor(number);
  int64_t truncated = (int64_t)whole;
  if (integer != truncated) {
    return order(integer < truncated, true);
  }
  return number > whole ? -1 : 0;
}

int quire_value_compare(const quire_value *a, const quire_value *b) {
  if (a->kind == QUIRE_VALUE_INTEGER && b->kind == QUIRE_VALUE_INTEGER) {
    return order(a->as.integer<b->as.integer, a->as.integer> b->as.integer);
  }
  if (a->kind == QUIRE_VALUE_INTEGER) {
    return compare_integer_with_double(a->as.integer, b->as.number);
  }
  if (b->kind == QUIRE_VALUE_INTEGER) {
    int reverse = compare_integer_with_double(b->as.integer, a->as.number);
    return reverse == 2 ? 2 : -reverse;
  }
  if (isnan(a->as.number) || isnan(b->as.number)) {
    return 2;
  }
  return order(a->as.number<b->as.number, a->as.number> b->as.number);
}

double quire_value_as_double(const quire_value *value) {
  return value->kind == QUIRE_VALUE_INTEGER ? (double)value->as.integer : value->as.number;
}

const char *quire_value_kind_name(quire_value_kind kind) {
  switch (kind) {
    case QUIRE_VALUE_INTEGER:
      return "integer";
    case QUIRE_VALUE_DOUBLE:
      return "number";
    case QUIRE_VALUE_BOOLEAN:
      return "boolean";
    case QUIRE_VALUE_STRING:
      return "string";
    case QUIRE_VALUE_LIST:
      return "list";
    case QUIRE_VALUE_UNDEFINED:
      break;
  }
  return "undefined";
}

static void write_double(quire_text *text, double number) {
  if (isnan(number)) {
    quire_text_put(text, "{\"number\": \"NaN\"}");
  } else if (isinf(number)) {
    quire_text_put(text, number > 0 ? "{\"number\": \"Infinity\"}" : "{\"number\": \"-Infinity\"}");
  } else {
    quire_text_double(text, number);
  }
}

void quire_value_write_json(quire_text *text, const quire_value *value) {
  switch (value->kind) {
    case QUIRE_VALUE_UNDEFINED:
      quire_text_put(text, "null");
      return;
    case QUIRE_VALUE_INTEGER:
      quire_text_int(text, value->as.integer);
      return;
    case QUIRE_VALUE_DOUBLE:
      write_double(text, value->as.number);
      return;
    case QUIRE_VALUE_BOOLEAN:
      quire_text_put(text, value->as.boolean ? "true" : "false");
      return;
    case QUIRE_VALUE_STRING:
      quire_text_json_string(text, value->as.string, value->length);
      return;
    case QUIRE_VALUE_LIST:
      quire_text_put(text, "[");
      for (uint32_t i = 0; i < value->length && !text->failed; ++i) {
        quire_text_put(text, i > 0 ? ", " : "");
        quire_value_write_json(text, &value->as.list[i]);
      }
      quire_text_put(text, "]");
      return;
  }
}
