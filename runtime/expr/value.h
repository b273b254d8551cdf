/* Values of the expression language (docs/manifest-language.md section 5). */
#ifndef QUIRE_EXPR_VALUE_H
#define QUIRE_EXPR_VALUE_H

#include <stdbool.h>
#include <stdint.h>

#include "text.h"

typedef enum quire_value_kind {
  QUIRE_VALUE_UNDEFINED = 0,
  QUIRE_VALUE_INTEGER,
  QUIRE_VALUE_DOUBLE, /* never a whole number within 2^53: those are integers */
  QUIRE_VALUE_BOOLEAN,
  QUIRE_VALUE_STRING,
  QUIRE_VALUE_LIST
} quire_value_kind;

/* Strings and lists borrow their memory. */
typedef struct quire_value {
  quire_value_kind kind;
  uint32_t length; /* bytes of a string, elements of a list */
  union {
    int64_t integer;
    double number;
    bool boolean;
    const char *string; /* need not end with a zero byte */
    const struct quire_value *list;
  } as;
} quire_value;

quire_value quire_value_undefined(void);
quire_value quire_value_integer(int64_t integer);
quire_value quire_value_number(double number); /* normalises whole numbers to integers */
quire_value quire_value_boolean(bool boolean);
quire_value quire_value_string(const char *string, size_t length);
quire_value quire_value_text(const char *text); /* ends with a zero byte; NULL: undefined */
quire_value quire_value_list(const quire_value *items, size_t count);

static inline bool quire_value_is_number(const quire_value *value) {
  return value->kind == QUIRE_VALUE_INTEGER || value->kind == QUIRE_VALUE_DOUBLE;
}
/* All numbers are one kind. */
static inline bool quire_value_same_kind(const quire_value *a, const quire_value *b) {
  return a->kind == b->kind || (quire_value_is_number(a) && quire_value_is_number(b));
}
bool quire_value_truth(const quire_value *value);
bool quire_value_equal(const quire_value *a, const quire_value *b);
/* -1, 0, 1 by exact mathematical value; 2 if one is NaN. Both must be numbers. */
int quire_value_compare(const quire_value *a, const quire_value *b);
/* As a double (rounded); value must be a number. */
double quire_value_as_double(const quire_value *value);
/* "integer", "number", "boolean", "string", "list", "undefined". */
const char *quire_value_kind_name(quire_value_kind kind);

/*
 * The output form of templates (section 11). Nothing is written and false returned for Infinity,
 * NaN and lists.
 */
bool quire_value_write(quire_text *text, const quire_value *value);

/* As the plan's JSON has it (9.2): undefined null, {"number": "NaN"}, ... */
void quire_value_write_json(quire_text *text, const quire_value *value);

#endif
