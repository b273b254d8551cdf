/* The argument parser: every kind of option, and what it refuses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "arguments.h"

typedef struct parsed {
  int is_quiet;
  const char *text, *choice;
  int64_t number;
  quire_text_list list;
} parsed;

static const quire_option options[] = {
    {.name = "--quiet",
     .letter = "-q",
     .kind = QUIRE_OPTION_FLAG,
     .offset = offsetof(parsed, is_quiet),
     .help = ""},
    {.name = "--text", .kind = QUIRE_OPTION_TEXT, .offset = offsetof(parsed, text), .help = ""},
    {.name = "--choice",
     .kind = QUIRE_OPTION_CHOICE,
     .offset = offsetof(parsed, choice),
     .choices = "one|two",
     .help = ""},
    {.name = "--number",
     .kind = QUIRE_OPTION_NUMBER,
     .offset = offsetof(parsed, number),
     .minimum = 1,
     .maximum = 10,
     .help = ""},
    {.name = "--list", .kind = QUIRE_OPTION_LIST, .offset = offsetof(parsed, list), .help = ""},
};

static const quire_command command = {
    .name = "test",
    .summary = "",
    .usage = "",
    .groups = {{options, sizeof options / sizeof *options, sizeof(parsed)}},
    .positional_minimum = 1,
    .positional_maximum = 2,
    .positional_name = "FILE",
};

enum { MOST_WORDS = 8 };

typedef struct row {
  const char *words[MOST_WORDS];
  const char *message; /* part of the refusal; NULL: accepted */
} row;

static const row rows[] = {
    {{"a"}, NULL},
    {{"a", "b"}, NULL},
    {{"a", "b", "c"}, "unexpected argument \"c\""},
    {{0}, "FILE is missing"},
    {{"--", "-a", "--b"}, NULL},
    {{"-"}, NULL},
    {{"-q", "a"}, NULL},
    {{"--quiet=1", "a"}, "--quiet takes no value"},
    {{"--quiet", "-q", "a"}, "--quiet is given twice"},
    {{"a", "--text"}, "--text needs a value"},
    {{"a", "--text", "--quiet"}, NULL},
    {{"a", "--text=x=y"}, NULL},
    {{"a", "--choice", "two"}, NULL},
    {{"a", "--choice", "tw"}, "none of one|two"},
    {{"a", "--choice", "one|two"}, "none of one|two"},
    {{"a", "--choice="}, "none of one|two"},
    {{"a", "--number", "10"}, NULL},
    {{"a", "--number", "11"}, "from 1 to 10"},
    {{"a", "--number", "0"}, "from 1 to 10"},
    {{"a", "--number", "3x"}, "\"3x\" is not a whole number"},
    {{"a", "--number", ""}, "\"\" is not a whole number"},
    {{"a", "--number", " 3"}, "\" 3\" is not a whole number"},
    {{"a", "--number", "99999999999999999999"}, "not a whole number"},
    {{"a", "--list", "1", "--list", "2"}, NULL},
    {{"a", "--nubmer", "3"}, "did you mean --number?"},
    {{"a", "--nubmer=3"}, "did you mean --number?"},
    {{"a", "--completely-different-and-very-long-option"}, "see quire test --help"},
    {{"a", "-x"}, "unknown option -x"},
};

static quire_parse_result parse(const row *words, parsed *values, quire_text_list *positional,
                                quire_error *error) {
  int count = 0;
  char *argv[MOST_WORDS];
  while (count < MOST_WORDS && words->words[count]) {
    argv[count] = (char *)(uintptr_t)words->words[count];
    ++count;
  }
  void *const targets[QUIRE_OPTION_GROUPS] = {values, NULL};
  return quire_arguments_parse(&command, count, argv, targets, positional, error);
}

static void test_rows(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    parsed values = {0};
    quire_text_list positional = {0};
    quire_error error = {0};
    const quire_parse_result result = parse(&rows[i], &values, &positional, &error);
    if (result != (rows[i].message ? QUIRE_PARSE_BAD : QUIRE_PARSE_RUN) ||
        (rows[i].message && !strstr(error.message, rows[i].message))) {
      fail_msg("row %zu: result %d, \"%s\", want \"%s\"", i, (int)result, error.message,
               rows[i].message ? rows[i].message : "");
    }
    void *const targets[QUIRE_OPTION_GROUPS] = {&values, NULL};
    quire_arguments_release(&command, targets, &positional);
  }
}

static void test_values(void **state) {
  (void)state;
  const row words = {{"--list", "1", "x", "--list=2", "-q", "--number=7", "--text", "t"}, NULL};
  parsed values = {0};
  quire_text_list positional = {0};
  quire_error error;
  assert_int_equal(parse(&words, &values, &positional, &error), QUIRE_PARSE_RUN);
  assert_true(values.is_quiet == 1 && values.number == 7 && values.choice == NULL);
  assert_string_equal(values.text, "t");
  assert_int_equal(values.list.count, 2);
  assert_string_equal(values.list.items[0], "1");
  assert_string_equal(values.list.items[1], "2");
  assert_int_equal(positional.count, 1);
  assert_string_equal(positional.items[0], "x");
  void *const targets[QUIRE_OPTION_GROUPS] = {&values, NULL};
  quire_arguments_release(&command, targets, &positional);
  assert_null(values.list.items);
}

static void test_nearest(void **state) {
  (void)state;
  const char *const names[] = {"run", "check", "explain"};
  assert_string_equal(quire_arguments_nearest("chekc", names, 3), "check");
  assert_string_equal(quire_arguments_nearest("explian", names, 3), "explain");
  assert_null(quire_arguments_nearest("zzz", names, 3));
  assert_null(quire_arguments_nearest("a-very-very-very-very-long-word", names, 3));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_rows),
      cmocka_unit_test(test_values),
      cmocka_unit_test(test_nearest),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
