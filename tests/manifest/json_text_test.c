/* The reader of JSON takes what jansson's own takes, and makes the same of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "json_text.h"

/* Reads with both; the reader's fault must say where, on one line. */
static void compare(const char *text, size_t length) {
  quire_json_fault fault;
  json_error_t ignored;
  json_t *got = quire_json_read(&quire_default_allocator, text, length, &fault);
  json_t *want = json_loadb(text, length, JSON_REJECT_DUPLICATES, &ignored);
  if ((got == NULL) != (want == NULL) || (got != NULL && json_equal(got, want) != 1)) {
    fail_msg("%.*s\n  read: %s", (int)length, text,
             got != NULL ? "as something else" : fault.message);
  }
  if (got == NULL) {
    assert_false(fault.out_of_memory);
    assert_true(fault.line >= 1 && fault.column >= 1 && fault.message[0] != '\0');
    assert_null(strchr(fault.message, '\n'));
  }
  json_decref(got);
  json_decref(want);
}

static void same_as_jansson(void **state) {
  (void)state;
  static const char *const texts[] = {"",
                                      " ",
                                      "{}",
                                      "[]",
                                      "[ ]",
                                      "{ }",
                                      "[1]",
                                      "[1,]",
                                      "[,1]",
                                      "[1 2]",
                                      "{\"a\":1}",
                                      "{\"a\":1,}",
                                      "{\"a\" 1}",
                                      "{a:1}",
                                      "{\"a\":1}x",
                                      "{\"a\":1} \n\t\r",
                                      "{\"a\":1,\"a\":2}",
                                      "1",
                                      "\"a\"",
                                      "null",
                                      "[null,true,false]",
                                      "[nul]",
                                      "[True]",
                                      "[NaN]",
                                      "[Infinity]",
                                      "[-0]",
                                      "[0]",
                                      "[00]",
                                      "[01]",
                                      "[-]",
                                      "[+1]",
                                      "[1.]",
                                      "[.5]",
                                      "[1.5]",
                                      "[1e5]",
                                      "[1E+5]",
                                      "[1e-5]",
                                      "[1e]",
                                      "[1e+]",
                                      "[9223372036854775807]",
                                      "[9223372036854775808]",
                                      "[-9223372036854775808]",
                                      "[-9223372036854775809]",
                                      "[1e308]",
                                      "[1e309]",
                                      "[-1e309]",
                                      "[1e-400]",
                                      "[0.1]",
                                      "[123456789012345678901234567890.5]",
                                      "[\"\"]",
                                      "[\"a",
                                      "[\"a\\\"b\"]",
                                      "[\"\\n\\t\\/\\b\"]",
                                      "[\"\\x\"]",
                                      "[\"\\",
                                      "[\"\\u0041\"]",
                                      "[\"\\u00e9\\u20ac\"]",
                                      "[\"\\ud83d\\ude00\"]",
                                      "[\"\\ud83d\"]",
                                      "[\"\\ude00\"]",
                                      "[\"\\ud83d\\u0041\"]",
                                      "[\"\\u0000\"]",
                                      "[\"\\u12\"]",
                                      "[\"\\u12g4\"]",
                                      "{\"\\u0000\":1}",
                                      "[\"\x01\"]",
                                      "[\"\n\"]",
                                      "[\"\x7f\"]",
                                      "[\"\xc3\xa9\"]",
                                      "[\"\xff\"]",
                                      "[\"\xc3\"]",
                                      "[\"\xed\xa0\x80\"]",
                                      "[\"\xf4\x90\x80\x80\"]",
                                      "\xef\xbb\xbf{}",
                                      "[[[[[[1]]]]]]",
                                      "[[1],{\"a\":[{}]}]",
                                      "[1}",
                                      "{\"a\":1]",
                                      "{\"a\":}",
                                      "{,}",
                                      "{\"a\":1 \"b\":2}"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    compare(texts[i], strlen(texts[i]));
  }
  compare("[1]\0", 4);
  compare("[\"a\0b\"]", 7);
}

static void depth_is_bounded(void **state) {
  (void)state;
  char text[2 * QUIRE_JSON_DEEPEST + 2];
  for (int more = 0; more < 2; more++) {
    const size_t depth = QUIRE_JSON_DEEPEST + (size_t)more;
    memset(text, '[', depth);
    memset(text + depth, ']', depth);
    quire_json_fault fault;
    json_t *read = quire_json_read(&quire_default_allocator, text, 2 * depth, &fault);
    assert_true((read == NULL) == (more == 1));
    json_decref(read);
  }
}

/* A text with most of what there is, damaged in every place. */
static void damaged_texts(void **state) {
  (void)state;
  static const char whole[] =
      "{\"a b\": [1, -2.5e3, \"x\\u00e9\\n\xe2\x82\xac\", true], \"c\": {\"d\": null, \"e\": []}}";
  static const char damage[] = "\"\\{}[],:0e.-u\x80\xc3 \x01";
  char text[sizeof whole];
  for (size_t at = 0; at < sizeof whole - 1; at++) {
    compare(whole, at);
    for (size_t i = 0; i < sizeof damage; i++) {
      memcpy(text, whole, sizeof whole);
      text[at] = damage[i];
      compare(text, sizeof whole - 1);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(same_as_jansson),
      cmocka_unit_test(depth_is_bounded),
      cmocka_unit_test(damaged_texts),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
