/* Values: kinds, truth, equality, exact order, JSON form, integer places. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "expr.h"
#include "value.h"

static const double two53 = 9007199254740992.0;

static quire_value integer(int64_t value) {
  return quire_value_integer(value);
}

static quire_value number(double value) {
  return quire_value_number(value);
}

static void whole_doubles_are_integers(void **state) {
  (void)state;
  static const struct {
    double number;
    quire_value_kind kind;
    int64_t integer;
  } rows[] = {
      {0.0, QUIRE_VALUE_INTEGER, 0},
      {-0.0, QUIRE_VALUE_INTEGER, 0},
      {2.0, QUIRE_VALUE_INTEGER, 2},
      {-7.0, QUIRE_VALUE_INTEGER, -7},
      {9007199254740992.0, QUIRE_VALUE_INTEGER, 9007199254740992},
      {-9007199254740992.0, QUIRE_VALUE_INTEGER, -9007199254740992},
      {9007199254740994.0, QUIRE_VALUE_DOUBLE, 0},
      {0.5, QUIRE_VALUE_DOUBLE, 0},
      {1e300, QUIRE_VALUE_DOUBLE, 0},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    quire_value value = number(rows[i].number);
    assert_int_equal(value.kind, rows[i].kind);
    if (value.kind == QUIRE_VALUE_INTEGER) {
      assert_int_equal(value.as.integer, rows[i].integer);
    }
  }
  assert_int_equal(number((double)NAN).kind, QUIRE_VALUE_DOUBLE);
  assert_int_equal(number((double)INFINITY).kind, QUIRE_VALUE_DOUBLE);
}

static void truth(void **state) {
  (void)state;
  quire_value one = integer(1);
  const struct {
    quire_value value;
    bool truth;
  } rows[] = {
      {integer(0), false},
      {integer(-1), true},
      {number(0.5), true},
      {number((double)NAN), false},
      {number((double)INFINITY), true},
      {quire_value_boolean(false), false},
      {quire_value_boolean(true), true},
      {quire_value_string("", 0), false},
      {quire_value_string("0", 1), true},
      {quire_value_list(NULL, 0), false},
      {quire_value_list(&one, 1), true},
      {quire_value_undefined(), false},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    assert_int_equal(quire_value_truth(&rows[i].value), rows[i].truth);
  }
}

static void order_is_exact(void **state) {
  (void)state;
  const struct {
    quire_value a, b;
    int order;
  } rows[] = {
      {integer(1), integer(2), -1},
      {integer(INT64_MAX), integer(INT64_MIN), 1},
      {integer(1), number(1.5), -1},
      {integer(2), number(1.5), 1},
      {integer(-2), number(-1.5), -1},
      {integer(-1), number(-1.5), 1},
      /* 2^63 - 1 rounds to 2^63 as a double: a comparison in doubles would say equal. */
      {integer(INT64_MAX), number(9223372036854775808.0), -1},
      {integer(INT64_MIN), number(-9223372036854775808.0), 0},
      {integer(INT64_MIN), number(-1e300), 1},
      {integer(9007199254740993), number(9007199254740994.0), -1},
      {integer(9007199254740994), number(9007199254740994.0), 0},
      {number((double)INFINITY), integer(INT64_MAX), 1},
      {number(-(double)INFINITY), integer(INT64_MIN), -1},
      {number(0.25), number(0.5), -1},
      {number((double)NAN), integer(1), 2},
      {integer(1), number((double)NAN), 2},
      {number((double)NAN), number((double)NAN), 2},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    assert_int_equal(quire_value_compare(&rows[i].a, &rows[i].b), rows[i].order);
    int reverse = rows[i].order == 2 ? 2 : -rows[i].order;
    assert_int_equal(quire_value_compare(&rows[i].b, &rows[i].a), reverse);
    assert_int_equal(quire_value_equal(&rows[i].a, &rows[i].b), rows[i].order == 0);
  }
}

static void kinds_are_never_equal(void **state) {
  (void)state;
  quire_value one = integer(1);
  const quire_value values[] = {quire_value_undefined(), integer(1), quire_value_boolean(true),
                                quire_value_string("1", 1), quire_value_list(&one, 1)};
  for (size_t i = 0; i < 5; ++i) {
    for (size_t j = 0; j < 5; ++j) {
      assert_int_equal(quire_value_equal(&values[i], &values[j]), i == j);
    }
  }
}

static void json_form(void **state) {
  (void)state;
  quire_value items[3] = {integer(1), number(0.5), quire_value_string("a\"b", 3)};
  quire_value nested[2] = {quire_value_list(items, 3), quire_value_boolean(false)};
  const struct {
    quire_value value;
    const char *json;
  } rows[] = {
      {quire_value_undefined(), "null"},
      {integer(INT64_MIN), "-9223372036854775808"},
      {number(0.1), "0.1"},
      {number((double)NAN), "{\"number\": \"NaN\"}"},
      {number((double)INFINITY), "{\"number\": \"Infinity\"}"},
      {number(-(double)INFINITY), "{\"number\": \"-Infinity\"}"},
      {quire_value_boolean(true), "true"},
      {quire_value_list(nested, 2), "[[1, 0.5, \"a\\\"b\"], false]"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    quire_text text;
    quire_text_init(&text, &quire_default_allocator);
    quire_value_write_json(&text, &rows[i].value);
    assert_string_equal(quire_text_view(&text), rows[i].json);
    quire_text_release(&text);
  }
}

static void integer_places(void **state) {
  (void)state;
  const struct {
    quire_value value;
    int64_t least, most;
    quire_expr_code code;
    int64_t integer;
  } rows[] = {
      {integer(7), 0, 10, QUIRE_EXPR_OK, 7},
      {number(4.75), 0, 10, QUIRE_EXPR_OK, 4},
      {number(-0.5), -10, 10, QUIRE_EXPR_OK, -1},
      {number(-0.5), 0, 10, QUIRE_EXPR_RANGE, 0},
      {integer(11), 0, 10, QUIRE_EXPR_RANGE, 0},
      {number(1e19), 0, INT64_MAX, QUIRE_EXPR_RANGE, 0},
      {number(9223372036854775808.0), 0, INT64_MAX, QUIRE_EXPR_RANGE, 0},
      {number((double)NAN), 0, INT64_MAX, QUIRE_EXPR_RANGE, 0},
      {number((double)INFINITY), 0, INT64_MAX, QUIRE_EXPR_RANGE, 0},
      {quire_value_boolean(true), 0, 10, QUIRE_EXPR_TYPE, 0},
      {quire_value_undefined(), 0, 10, QUIRE_EXPR_UNDEFINED, 0},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    int64_t out = 0;
    assert_int_equal(quire_value_to_integer(&rows[i].value, rows[i].least, rows[i].most, &out),
                     rows[i].code);
    assert_int_equal(out, rows[i].integer);
  }
  assert_true(number(two53).kind == QUIRE_VALUE_INTEGER);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(whole_doubles_are_integers),
      cmocka_unit_test(truth),
      cmocka_unit_test(order_is_exact),
      cmocka_unit_test(kinds_are_never_equal),
      cmocka_unit_test(json_form),
      cmocka_unit_test(integer_places),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
