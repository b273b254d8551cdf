/* The foundations: sizes, memory, texts, errors, names. */
#include <float.h>
#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "alloc.h"
#include "checked.h"
#include "counting_allocator.h"
#include "error.h"
#include "pass.h"
#include "text.h"

static void test_checked(void **state) {
  (void)state;
  static const int64_t edges[] = {INT64_MIN,  INT64_MIN + 1, -3037000500,   -2,       -1, 0, 1, 2,
                                  3037000499, 3037000500,    INT64_MAX - 1, INT64_MAX};
  for (size_t i = 0; i < sizeof edges / sizeof edges[0]; i++) {
    for (size_t j = 0; j < sizeof edges / sizeof edges[0]; j++) {
      int64_t a = edges[i], b = edges[j], got = 0, want = 0;
      assert_int_equal(quire_add_i64(a, b, &got), !__builtin_add_overflow(a, b, &want));
      assert_int_equal(quire_sub_i64(a, b, &got), !__builtin_sub_overflow(a, b, &want));
      bool fits = !__builtin_mul_overflow(a, b, &want);
      assert_int_equal(quire_mul_i64(a, b, &got), fits);
      if (fits) {
        assert_int_equal(got, want);
      }
    }
  }
  size_t size = 7;
  assert_false(quire_add_size(SIZE_MAX, 1, &size));
  assert_false(quire_mul_size(SIZE_MAX / 2 + 1, 2, &size));
  assert_false(quire_align_size(SIZE_MAX - 3, 64, &size));
  assert_int_equal(size, 7);
  assert_true(quire_align_size(65, 64, &size));
  assert_int_equal(size, 128);
  int64_t count = 0;
  assert_true(quire_count_elements(NULL, 0, &count));
  assert_int_equal(count, 1);
  assert_true(quire_count_elements((const int64_t[]){INT64_MAX, INT64_MAX, 0}, 3, &count));
  assert_int_equal(count, 0);
  assert_false(quire_count_elements((const int64_t[]){INT64_MAX, 2}, 2, &count));
}

static void test_arena(void **state) {
  (void)state;
  counting_allocator counting;
  counting_allocator_init(&counting);
  quire_arena arena;
  quire_arena_init(&arena, &counting.allocator);
  for (size_t i = 0; i < 2000; i++) {
    unsigned char *memory = quire_arena_alloc(&arena, i);
    assert_non_null(memory);
    assert_int_equal((uintptr_t)memory % QUIRE_ALLOC_ALIGNMENT, 0);
    memset(memory, (int)i, i);
  }
  assert_non_null(quire_arena_alloc(&arena, 1000000));
  assert_null(quire_arena_array(&arena, SIZE_MAX / 2, 3));
  assert_null(quire_arena_alloc(&arena, SIZE_MAX));
  assert_string_equal(quire_arena_copy(&arena, "abcdef", 3), "abc");
  quire_arena_release(&arena);
  assert_int_equal(counting.live, 0);
  assert_int_equal(counting.bytes, 0);

  /* A given first block is used up before the heap is touched, and is not freed. */
  _Alignas(16) unsigned char first[256];
  counting_allocator_init(&counting);
  quire_arena_init_with(&arena, &counting.allocator, first, sizeof first);
  assert_ptr_equal(quire_arena_alloc(&arena, 240), first);
  assert_int_equal(counting.requests, 0);
  assert_non_null(quire_arena_alloc(&arena, 32));
  assert_int_equal(counting.requests, 1);
  quire_arena_release(&arena);
  assert_int_equal(counting.live, 0);

  counting_allocator_init(&counting);
  counting.fail_at = 1;
  quire_arena_init(&arena, &counting.allocator);
  assert_null(quire_arena_alloc(&arena, 1));
  assert_non_null(quire_arena_alloc(&arena, 1));
  quire_arena_release(&arena);
}

static void test_text(void **state) {
  (void)state;
  counting_allocator counting;
  counting_allocator_init(&counting);
  quire_text text;
  quire_text_init(&text, &counting.allocator);
  assert_string_equal(quire_text_view(&text), "");
  quire_text_json_string(&text, "a\"\\\n\t\x01\x7f\xc3\xa9\xff\xe0\x80\x80", 13);
  assert_string_equal(quire_text_view(&text),
                      "\"a\\\"\\\\\\n\\t\\u0001\\u007f\xc3\xa9\\ufffd\\ufffd\\ufffd\\ufffd\"");
  quire_text_release(&text);
  quire_text_init(&text, &counting.allocator);
  quire_text_format(&text, "%s %d", "x", 3);
  quire_text_put(&text, "!");
  assert_string_equal(quire_text_view(&text), "x 3!");
  text.limit = 6;
  quire_text_put(&text, "abc");
  assert_true(text.failed);
  assert_string_equal(quire_text_view(&text), "");
  quire_text_release(&text);
  assert_int_equal(counting.live, 0);

  counting.fail_at = counting.requests + 1;
  quire_text_init(&text, &counting.allocator);
  quire_text_put(&text, "x");
  assert_true(text.failed);
  quire_text_put(&text, "y");
  assert_string_equal(quire_text_view(&text), "");
  quire_text_release(&text);
}

static void check_numbers(void) {
  static const struct {
    double value;
    const char *text;
  } cases[] = {{0, "0"},
               {-0.0, "0"},
               {0.1, "0.1"},
               {-2.5, "-2.5"},
               {1e15, "1000000000000000"},
               {9007199254740992.0, "9007199254740992"},
               {1e300, "1e+300"},
               {5e-324, "5e-324"},
               {DBL_MAX, "1.7976931348623157e+308"},
               {1.0 / 3, "0.3333333333333333"},
               {(double)INFINITY, "Infinity"},
               {-(double)INFINITY, "-Infinity"},
               {(double)NAN, "NaN"}};
  quire_text text;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    quire_text_init(&text, &quire_default_allocator);
    quire_text_double(&text, cases[i].value);
    assert_string_equal(quire_text_view(&text), cases[i].text);
    quire_text_release(&text);
  }
  quire_text_init(&text, &quire_default_allocator);
  quire_text_int_list(&text, (int64_t[]){INT64_MIN, 7}, 2);
  quire_text_int_list(&text, NULL, 0);
  assert_string_equal(quire_text_view(&text), "[-9223372036854775808, 7][]");
  quire_text_release(&text);
}

static void test_numbers(void **state) {
  (void)state;
  check_numbers();
  /* A decimal comma changes nothing; skipped silently where the locale is not installed. */
  if (setlocale(LC_NUMERIC, "de_DE.UTF-8") != NULL) {
    check_numbers();
    (void)setlocale(LC_NUMERIC, "C");
  }
}

static void test_error(void **state) {
  (void)state;
  quire_error error;
  assert_int_equal(quire_fail(&error, QUIRE_BAD_SHAPE, "PA-V7", "key_cache", "dim 2 is %d", 6),
                   QUIRE_BAD_SHAPE);
  assert_int_equal(error.status, QUIRE_BAD_SHAPE);
  assert_string_equal(error.rule, "PA-V7");
  assert_string_equal(error.subject, "key_cache");
  assert_string_equal(error.message, "PA-V7: key_cache: dim 2 is 6");
  assert_int_equal(quire_fail(NULL, QUIRE_IO, NULL, NULL, "x"), QUIRE_IO);
  (void)quire_fail(&error, QUIRE_IO, NULL, NULL, "a\nb");
  assert_string_equal(error.message, "a b");

  /* Everything is cut where it does not fit. */
  char longer[4096];
  memset(longer, 'x', sizeof longer - 1);
  longer[sizeof longer - 1] = '\0';
  (void)quire_fail(&error, QUIRE_IO, longer, longer, "%s", longer);
  assert_int_equal(strlen(error.rule), QUIRE_RULE_SIZE - 1);
  assert_int_equal(strlen(error.subject), QUIRE_SUBJECT_SIZE - 1);
  assert_int_equal(strlen(error.message), QUIRE_MESSAGE_SIZE - 1);
}

static void test_names(void **state) {
  (void)state;
  for (int i = QUIRE_DTYPE_NONE + 1; i < QUIRE_DTYPE_COUNT; i++) {
    quire_dtype dtype = (quire_dtype)i;
    assert_int_equal(quire_dtype_from_name(quire_dtype_name(dtype)), dtype);
    assert_true(quire_dtype_size(dtype) >= 1);
  }
  assert_int_equal(quire_dtype_from_name("none"), QUIRE_DTYPE_NONE);
  assert_int_equal(quire_dtype_from_name(NULL), QUIRE_DTYPE_NONE);
  assert_string_equal(quire_dtype_name((quire_dtype)99), "none");
  assert_int_equal(quire_dtype_size((quire_dtype)-1), 0);
  for (int i = QUIRE_OK; i <= QUIRE_INTERNAL; i++) {
    assert_string_not_equal(quire_status_name((quire_status)i), "UNKNOWN");
    assert_int_equal(quire_status_is_invalid_argument((quire_status)i), i >= 1 && i <= 7);
  }
  assert_string_equal(quire_status_name((quire_status)17), "UNKNOWN");
  assert_string_equal(quire_status_name((quire_status)-1), "UNKNOWN");
  assert_string_equal(quire_status_description(QUIRE_BAD_SHAPE), "a dimension does not fit");
  assert_string_equal(quire_status_description((quire_status)17), "not a status of this library");
  for (size_t i = 0; i < QUIRE_CPU_FEATURE_COUNT; i++) {
    assert_non_null(quire_cpu_features[i]);
  }
  assert_string_equal(quire_cpu_features[QUIRE_CPU_FEATURE_COUNT - 1], "neon");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_checked), cmocka_unit_test(test_arena), cmocka_unit_test(test_text),
      cmocka_unit_test(test_numbers), cmocka_unit_test(test_error), cmocka_unit_test(test_names),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
