/* Requests of cases: names that nobody has add nothing to a request but their refusal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "case_request.h"

enum { NAMES = 1000 };

typedef struct fixture {
  quire_context *context;
  const quire_operator *op;
  quire_case opened;
} fixture;

static void open_fixture(fixture *all) {
  memset(all, 0, sizeof *all);
  quire_error error;
  assert_int_equal(quire_context_create(NULL, &all->context, &error), QUIRE_OK);
  all->op = quire_context_find_operator(all->context, "quire.MergeAttentionStates");
  assert_non_null(all->op);
  all->opened.attributes = json_object();
  all->opened.output_dtypes = json_object();
}

static void close_fixture(fixture *all) {
  json_decref(all->opened.attributes);
  json_decref(all->opened.output_dtypes);
  json_decref(all->opened.outputs);
  quire_context_release(all->context);
}

/* Builds the request; it asks for `first` and for no more than one name too many. */
static void expect_few(const fixture *all, int for_check, const char *first) {
  const quire_call_options options = {0};
  quire_case_request built;
  quire_error error;
  assert_int_equal(quire_request_build(&all->opened, &options, all->op, for_check, &built, &error),
                   QUIRE_OK);
  assert_in_range(built.request.output_count, 1, quire_operator_slot_count(all->op) + 1);
  assert_string_equal(built.request.outputs[0].name, first);
  quire_request_release(&built);
}

static void test_outputs_of_a_case(void **state) {
  fixture all;
  (void)state;
  open_fixture(&all);
  all.opened.outputs = json_array();
  for (int i = 0; i < NAMES; ++i) {
    json_array_append_new(all.opened.outputs, json_sprintf("n%d", i));
  }
  expect_few(&all, 0, "n0");
  close_fixture(&all);
}

static void test_types_of_outputs(void **state) {
  fixture all;
  char name[16];
  (void)state;
  open_fixture(&all);
  for (int i = 0; i < NAMES; ++i) {
    (void)snprintf(name, sizeof name, "n%d", i);
    json_object_set_new(all.opened.output_dtypes, name, json_string("F32"));
  }
  expect_few(&all, 0, "n0");
  close_fixture(&all);
}

static void test_names_asked_twice(void **state) {
  fixture all;
  (void)state;
  open_fixture(&all);
  all.opened.outputs = json_array();
  for (int i = 0; i < NAMES; ++i) {
    json_array_append_new(all.opened.outputs, json_string("output"));
  }
  const quire_call_options options = {0};
  quire_case_request built;
  quire_error error;
  assert_int_equal(quire_request_build(&all.opened, &options, all.op, 0, &built, &error), QUIRE_OK);
  assert_int_equal(built.request.output_count, 1);
  quire_request_release(&built);
  close_fixture(&all);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_outputs_of_a_case),
                                     cmocka_unit_test(test_types_of_outputs),
                                     cmocka_unit_test(test_names_asked_twice)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
