/* Lexer and parser: what is refused, and where; limits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "counting_allocator.h"
#include "expr_environment.h"

static void faults_have_offset_and_message(void **state) {
  (void)state;
  static const struct {
    const char *text;
    size_t offset;
    const char *message;
  } rows[] = {
      {"", 0, "expected a value, found the end of the text"},
      {"1 +", 3, "expected a value, found the end of the text"},
      {"1.", 1, "expected the end of the text, found `.`"},
      {".5", 0, "expected a value, found `.`"},
      {"(1", 2, "expected `)`, found the end of the text"},
      {"1)", 1, "expected the end of the text, found `)`"},
      {"+1", 0, "expected a value, found `+`"},
      {"1 /// 2", 4, "expected a value, found `/`"},
      {"1 ~ 2", 2, "unexpected character"},
      {"!attrs.b", 0, "unexpected character"},
      {"1 < 2 < 3", 6, "comparisons do not chain"},
      {"1 == 2 != 3", 7, "comparisons do not chain"},
      {"1 + not 2", 4, "expected a value, found `not`"},
      {"1 if true", 9, "expected `else` (a choice has two branches), found the end of the text"},
      {"min(1, 2,)", 9, "expected a value, found `)`"},
      {"[1, 2,]", 6, "expected a value, found `]`"},
      {"[1 2]", 3, "expected `,` or `]`, found `2`"},
      {"min()", 0, "min takes 1 or more arguments, not 0"},
      {"floor()", 0, "floor takes 1 argument, not 0"},
      {"floor(1, 2)", 0, "floor takes 1 argument, not 2"},
      {"1 + dim(1)", 4, "dim takes 2 arguments, not 1"},
      {"abs(1)", 0, "unknown function `abs`"},
      {"device.limits.has(\"x\")", 0, "unknown function `device.limits.has`"},
      {"has(shapes, \"x\")", 4,
       "has() looks into `attrs`, `device.limits` or `device.adapterInfo` only"},
      {"has(attrs)", 9, "expected `,` and the key, found `)`"},
      {"\"bad\\q\"", 4, "unknown escape in a string"},
      {"\"\\u0041\"", 1, "unknown escape in a string"},
      {"'open", 0, "string without an end"},
      {"9223372036854775808", 0, "integer over 9223372036854775807"},
      {"1 + 1e999", 4, "number too large"},
      {"nosuch", 0, "unknown name"},
      {"1 + attrs . nosuch", 4, "unknown name"},
      {"attrs.", 6, "expected a name after `.`, found the end of the text"},
      {"1 is defined", 0, "`is defined` takes a name"},
      {"floor(1) is defined", 0, "`is defined` takes a name"},
      {"attrs.i is", 10, "expected `defined`, found the end of the text"},
      {"attrs.i is defined is defined", 19, "expected the end of the text, found `is`"},
      {"shapes.x | length", 9, "unexpected character"},
      {"1 in shapes.x", 2, "expected the end of the text, found `in`"},
  };
  environment world;
  environment_create(&world);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    quire_compile_error error = {0, ""};
    assert_null(environment_compile(&world, rows[i].text, strlen(rows[i].text), &error));
    if (error.offset != rows[i].offset || strcmp(error.message, rows[i].message) != 0) {
      fail_msg("%s: at %zu: %s", rows[i].text, error.offset, error.message);
    }
  }
  environment_destroy(&world);
}

/* `count` times head, then middle, then `count` times tail. */
static char *repeat(const char *head, const char *middle, const char *tail, size_t count) {
  char *text = malloc((strlen(head) + strlen(tail)) * count + strlen(middle) + 1);
  assert_non_null(text);
  text[0] = '\0';
  char *end = text;
  for (size_t i = 0; i < count; ++i) {
    end = strcpy(end, head) + strlen(head);
  }
  end = strcpy(end, middle) + strlen(middle);
  for (size_t i = 0; i < count; ++i) {
    end = strcpy(end, tail) + strlen(tail);
  }
  return text;
}

static void nesting_is_bounded(void **state) {
  (void)state;
  static const struct {
    const char *head, *middle, *tail;
    size_t count;
    bool compiles;
  } rows[] = {
      {"(", "1", ")", 32, true},
      {"(", "1", ")", 64, true},
      {"(", "1", ")", 65, false},
      {"(", "1", ")", 1000, false},
      {"-", "1", "", 64, true},
      {"-", "1", "", 65, false},
      {"not ", "true", "", 64, true},
      {"not ", "true", "", 65, false},
      {"[", "", "]", 64, true},
      {"[", "", "]", 66, false},
      {"floor(", "1", ")", 64, true},
      {"floor(", "1", ")", 65, false},
      {"1 if true else ", "2", "", 64, true},
      {"1 if true else ", "2", "", 65, false},
      {"has(attrs, ", "'i'", ")", 64, true},
      {"has(attrs, ", "'i'", ")", 65, false},
      {"1 + (", "1", ")", 32, true},
      {"1 + (", "1", ")", 33, false},
      {"1 + ", "1", "", 1000, true},
      {"true and ", "true", "", 400, true},
      {"attrs.b or ", "true", "", 370, true},
      {"2 - ", "1", "", 1023, true},
      {"(", "", "", 4096, false},
      {"(", "", "", 5000, false},
  };
  environment world;
  environment_create(&world);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    char *text = repeat(rows[i].head, rows[i].middle, rows[i].tail, rows[i].count);
    quire_compile_error error = {0, ""};
    bool compiles = environment_compile(&world, text, strlen(text), &error) != NULL;
    if (compiles != rows[i].compiles) {
      fail_msg("%zu times %s: %s", rows[i].count, rows[i].head, error.message);
    }
    free(text);
  }
  environment_destroy(&world);
}

static void length_and_items_are_bounded(void **state) {
  (void)state;
  environment world;
  environment_create(&world);
  quire_compile_error error;
  char *blanks = repeat(" ", "1", "", 4095);
  assert_non_null(environment_compile(&world, blanks, 4096, &error));
  free(blanks);
  blanks = repeat(" ", "1", "", 4096);
  assert_null(environment_compile(&world, blanks, 4097, &error));
  assert_string_equal(error.message, "text longer than 4096 bytes");
  free(blanks);
  char *items = repeat("1, ", "1", "", 15);
  char text[256];
  (void)snprintf(text, sizeof text, "[%s]", items);
  assert_non_null(environment_compile(&world, text, strlen(text), &error));
  (void)snprintf(text, sizeof text, "max(%s)", items);
  assert_non_null(environment_compile(&world, text, strlen(text), &error));
  (void)snprintf(text, sizeof text, "[%s, 1]", items);
  assert_null(environment_compile(&world, text, strlen(text), &error));
  assert_string_equal(error.message, "more than 16 items");
  (void)snprintf(text, sizeof text, "max(%s, 1)", items);
  assert_null(environment_compile(&world, text, strlen(text), &error));
  free(items);
  items = repeat("n", "", "", 129);
  assert_null(environment_compile(&world, items, 129, &error));
  assert_string_equal(error.message, "name longer than 128 characters");
  free(items);
  environment_destroy(&world);
}

/* No prefix and no single changed byte of a text may do worse than be refused. */
static void damaged_text(void **state) {
  (void)state;
  static const char text[] =
      "1.5e3 if not has(attrs, 'i\\n') and -dim(shapes.x, [1, 2] == [3]) // 7 % 2 >= 4 or attrs.i "
      "is not defined else max(1, floor(2 / 3), device.limits.size) if f16Ok(\"f16\") else (3)";
  environment world;
  environment_create(&world);
  quire_compile_error error;
  assert_non_null(environment_compile(&world, text, sizeof text - 1, &error));
  char copy[sizeof text];
  for (size_t i = 0; i < sizeof text - 1; ++i) {
    memcpy(copy, text, sizeof text);
    environment_compile(&world, copy, i, &error);
    for (int c = 0; c < 256; c += 7) {
      copy[i] = (char)c;
      if (environment_compile(&world, copy, sizeof text - 1, &error) == NULL) {
        assert_true(error.offset <= sizeof text - 1);
      }
    }
  }
  environment_destroy(&world);
}

static const char *resolve_nothing(void *user, const char *path, size_t length, bool in_defined,
                                   quire_ref *ref) {
  (void)user, (void)path, (void)length, (void)in_defined, (void)ref;
  return "unknown name";
}

/* Every failing allocation is a status. */
static void memory_runs_out(void **state) {
  (void)state;
  char *text = repeat("1 + ", "'\\n'", "", 900);
  bool compiled = false;
  for (size_t site = 1; site <= 50 && !compiled; ++site) {
    counting_allocator counting;
    counting_allocator_init(&counting);
    counting.fail_at = site;
    quire_arena arena;
    quire_compile_error error;
    bool out_of_memory = false;
    quire_arena_init(&arena, &counting.allocator);
    compiled = quire_expr_compile(&arena, text, strlen(text), resolve_nothing, NULL, &error,
                                  &out_of_memory) != NULL;
    assert_int_equal(out_of_memory, !compiled);
    quire_arena_release(&arena);
    assert_int_equal(counting.live, 0);
  }
  assert_true(compiled);
  free(text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(faults_have_offset_and_message),
      cmocka_unit_test(nesting_is_bounded),
      cmocka_unit_test(length_and_items_are_bounded),
      cmocka_unit_test(damaged_text),
      cmocka_unit_test(memory_runs_out),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
