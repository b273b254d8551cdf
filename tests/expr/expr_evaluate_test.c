/* The evaluator: every operator and function, errors with their place, laziness, limits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "expr_environment.h"
#include "expr_whole.h"

typedef struct row {
  const char *text;
  const char *result;
} row;

static void check(environment *world, const row *rows, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const char *result = environment_evaluate(world, rows[i].text);
    if (strcmp(result, rows[i].result) != 0) {
      fail_msg("%s: %s, not %s", rows[i].text, result, rows[i].result);
    }
  }
}

#define CHECK(rows)                                     \
  do {                                                  \
    environment world;                                  \
    environment_create(&world);                         \
    check(&world, rows, sizeof(rows) / sizeof *(rows)); \
    environment_destroy(&world);                        \
  } while (0)

static void arithmetic(void **state) {
  (void)state;
  static const row rows[] = {
      {"1 + 2 * 3", "7"},
      {"7 - 2 - 1", "4"},
      {"2 * 7 % 4", "2"},
      {"(1 + 2) * 3", "9"},
      {"9 / 2", "4.5"},
      {"8 / 2", "4"},
      {"8 / -2", "-4"},
      {"0 / 5", "0"},
      {"-7 // 2", "-4"},
      {"7 // -2", "-4"},
      {"7.5 // 2", "3"},
      {"-7 % 3", "-1"},
      {"-5.5 % 2", "-1.5"},
      {"6.5 % 0.5", "0"},
      {"--3", "3"},
      {"2 * -3", "-6"},
      {"0.5 + 0.5", "1"},
      {"1.5e3", "1500"},
      {"25e-1", "2.5"},
      {"0.1 + 0.2", "0.30000000000000004"},
      {"12345678901234567890.0 / 1", "1.2345678901234567e+19"},
      {"1 / 0", "{\"number\": \"Infinity\"}"},
      {"-1 // 0", "{\"number\": \"-Infinity\"}"},
      {"0 / 0", "{\"number\": \"NaN\"}"},
      {"5 % 0", "{\"number\": \"NaN\"}"},
      {"inf - inf", "{\"number\": \"NaN\"}"},
      {"5 // inf", "0"},
      {"big + 1", "error overflow at big + 1"},
      {"2 * (big - 1)", "error overflow at 2 * (big - 1)"},
      {"least - 1", "error overflow at least - 1"},
      {"-least", "error overflow at -least"},
      {"least // -1 == 9223372036854775808.0", "true"},
      {"least % -1", "0"},
      {"big / big", "1"},
      {"big // 2", "4611686018427387903"},
      {"attrs.b + 1", "error type at attrs.b + 1"},
      {"attrs.none + 1", "error undefined at attrs.none + 1"},
      {"1 + attrs.s * 2", "error type at attrs.s * 2"},
      {"-attrs.s", "error type at -attrs.s"},
      {"shapes.x + shapes.x", "error type at shapes.x + shapes.x"},
      {"DISPATCH_FOLD_WIDTH + 1", "65536"},
      {"attrs . f * 2", "5"},
  };
  CHECK(rows);
}

static void comparison(void **state) {
  (void)state;
  static const row rows[] = {
      {"1 == 1.0", "true"},
      {"9007199254740993 == 9007199254740992.0", "false"},
      {"big < inf", "true"},
      {"nan == nan", "false"},
      {"nan != nan", "true"},
      {"nan < 1 or nan >= 1", "false"},
      {"attrs.b == 1", "false"},
      {"1 == '1'", "false"},
      {"\"a\" == 'a'", "true"},
      {"[1, [2, 'x']] == [1.0, [2, \"x\"]]", "true"},
      {"[nan] == [nan]", "false"},
      {"shapes.x == [5, 12]", "true"},
      {"attrs.none == attrs.none", "true"},
      {"attrs.none == false", "false"},
      {"attrs.b < 2", "error type at attrs.b < 2"},
      {"attrs.none < 2", "error undefined at attrs.none < 2"},
      {"(1 < 2) == true", "true"},
      {"not 1 == 2", "true"},
      {"[attrs.none]", "error undefined at [attrs.none]"},
  };
  CHECK(rows);
}

static void logic_is_lazy(void **state) {
  (void)state;
  static const row rows[] = {
      {"1 and 2", "2"},
      {"0 and 1 / 0", "0"},
      {"0 or ''", "\"\""},
      {"'' or [] or 4", "4"},
      {"true or big + 1", "true"},
      {"false and big + 1", "false"},
      {"true and big + 1", "error overflow at big + 1"},
      {"not nan", "true"},
      {"not not 3", "true"},
      {"1 if 0 else 2 if '' else 3", "3"},
      {"1 if true else big + 1", "1"},
      {"big + 1 if false else 4", "4"},
      {"(1 if false else 2) + (3 if true else 4)", "5"},
      {"(1 if true else 2) if (0 if true else 1) else 3", "3"},
      {"1 if 1 and 0 or 1 else 2", "1"},
      {"attrs.none", "null"},
      {"attrs.none is defined", "false"},
      {"attrs.none is not defined", "true"},
      {"not attrs.none is defined", "true"},
      {"nosuch is defined", "false"},
      {"(attrs.i) is defined", "true"},
      {"false or attrs.none", "null"},
  };
  CHECK(rows);
}

static void functions(void **state) {
  (void)state;
  static const row rows[] = {
      {"dim(shapes.x, -1)", "12"},
      {"dim(shapes.x, 7)", "12"},
      {"dim(shapes.x, -3)", "12"},
      {"dim([], 0)", "error range at dim([], 0)"},
      {"dim(5, 0)", "error type at dim(5, 0)"},
      {"dim(shapes.x, 0.5)", "error type at dim(shapes.x, 0.5)"},
      {"1 + dim(shapes.x, attrs.none)", "error undefined at dim(shapes.x, attrs.none)"},
      {"min(3, 2.5, 4)", "2.5"},
      {"max(3, 2.5)", "3"},
      {"min(1, nan, 0)", "{\"number\": \"NaN\"}"},
      {"max(nan, 1)", "{\"number\": \"NaN\"}"},
      {"max(1, 'a')", "error type at max(1, 'a')"},
      {"floor(-2.5)", "-3"},
      {"ceil(-2.5)", "-2"},
      {"floor(inf)", "{\"number\": \"Infinity\"}"},
      {"ceilDiv(7, 2)", "4"},
      {"ceilDiv(7, -2)", "-3"},
      {"ceilDiv(-7, -2)", "4"},
      {"ceilDiv(1, 0)", "{\"number\": \"Infinity\"}"},
      {"ceilDiv(5, 0.75)", "7"},
      {"pow2ceil(65)", "128"},
      {"pow2ceil(64)", "64"},
      {"pow2ceil(0.3)", "1"},
      {"pow2ceil(2.5)", "4"},
      {"pow2ceil(-inf)", "{\"number\": \"-Infinity\"}"},
      {"pow2ceil(4611686018427387904) == 4611686018427387904", "true"},
      {"pow2ceil(big)", "9.223372036854776e+18"},
      {"log2ceil(1)", "0"},
      {"log2ceil(9)", "4"},
      {"log2ceil(8.5)", "4"},
      {"log2ceil(0.5)", "error range at log2ceil(0.5)"},
      {"log2ceil(nan)", "error range at log2ceil(nan)"},
      {"pow(2, -1)", "0.5"},
      {"pow('a', 2)", "error type at pow('a', 2)"},
      {"pow(2, attrs.b)", "error type at pow(2, attrs.b)"},
      {"floor('a')", "error type at floor('a')"},
      {"ceil(shapes.x)", "error type at ceil(shapes.x)"},
      {"pow2ceil(attrs.b)", "error type at pow2ceil(attrs.b)"},
      {"log2ceil('8')", "error type at log2ceil('8')"},
      {"numel([])", "1"},
      {"numel(shapes.x)", "60"},
      {"numel([big, 2])", "error overflow at numel([big, 2])"},
      {"numel(['a'])", "error type at numel(['a'])"},
      {"sameShape(shapes.x, [5, 12])", "true"},
      {"sameShape(shapes.x, 5)", "error type at sameShape(shapes.x, 5)"},
      {"has(attrs, 'i')", "true"},
      {"has(attrs, 'j')", "false"},
      {"has(device . limits, \"size\")", "true"},
      {"has(device.adapterInfo, 'vendor')", "true"},
      {"has(attrs, 3)", "error type at has(attrs, 3)"},
      {"has(attrs, attrs.none)", "error undefined at has(attrs, attrs.none)"},
      {"f16Ok('float16')", "false"},
      {"f16Ok('f16')", "false"},
      {"f16Ok(attrs.none)", "true"},
      {"f16Ok(16)", "true"},
      {"device.features.has('subgroups')", "true"},
      {"device.features.has('x')", "false"},
      {"device.features.has(1)", "error type at device.features.has(1)"},
      {"'it\\'s' == \"it's\"", "true"},
      {"\"tab\\t\\\\\"", "\"tab\\t\\\\\""},
  };
  CHECK(rows);
}

static void long_chains(void **state) {
  (void)state;
  environment world;
  environment_create(&world);
  char text[4096];
  size_t length = 0;
  for (int i = 0; i < 1000; ++i) {
    length += (size_t)snprintf(text + length, sizeof text - length, "%s", i == 0 ? "1" : " + 1");
  }
  assert_string_equal(environment_evaluate(&world, text), "1000");
  length = 0;
  for (int i = 0; i < 250; ++i) { /* the condition holds at the end only */
    length += (size_t)snprintf(text + length, sizeof text - length, "attrs.none or ");
  }
  (void)snprintf(text + length, sizeof text - length, "7");
  assert_string_equal(environment_evaluate(&world, text), "7");
  /* A stack deeper than the evaluator's own: the last argument of 16 nests. */
  length = 0;
  for (int i = 0; i < 20; ++i) {
    length += (size_t)snprintf(text + length, sizeof text - length,
                               "max(attrs.i,1,1,1,1,1,1,1,1,1,1,1,1,1,1,");
  }
  length += (size_t)snprintf(text + length, sizeof text - length, "99");
  for (int i = 0; i < 20; ++i) {
    length += (size_t)snprintf(text + length, sizeof text - length, ")");
  }
  assert_string_equal(environment_evaluate(&world, text), "99");
  environment_destroy(&world);
}

static void steps_are_bounded(void **state) {
  (void)state;
  environment world;
  environment_create(&world);
  world.env.steps_left = 5;
  assert_string_equal(environment_evaluate(&world, "attrs.i + attrs.i * 2"), "51");
  assert_int_equal(world.env.steps_left, 0);
  assert_string_equal(environment_evaluate(&world, "attrs.i"), "error limit at attrs.i");
  world.env.steps_left = 4;
  assert_string_equal(environment_evaluate(&world, "attrs.i + attrs.i * 2"),
                      "error limit at attrs.i + attrs.i * 2");
  /* Branches that are not taken cost nothing: choice, condition, branch. */
  world.env.steps_left = 3;
  assert_string_equal(environment_evaluate(&world, "attrs.i if attrs.b else attrs.i + attrs.i"),
                      "17");
  environment_destroy(&world);
}

/* Sixteenfold lists of lists: an enormous value in a short text. */
static void lists_are_bounded(void **state) {
  (void)state;
  environment world;
  environment_create(&world);
  static const char *const names[] = {"l0", "l1", "l2", "l3", "l4", "l5", "l6", "l7"};
  environment_derive(&world, names[0], "[attrs.i]");
  for (size_t i = 1; i < 8; ++i) {
    char *text = quire_arena_alloc(&world.arena, 256);
    assert_non_null(text);
    (void)snprintf(text, 256, "[%s,%s,%s,%s,%s,%s,%s,%s,%s,%s,%s,%s,%s,%s,%s,%s]", names[i - 1],
                   names[i - 1], names[i - 1], names[i - 1], names[i - 1], names[i - 1],
                   names[i - 1], names[i - 1], names[i - 1], names[i - 1], names[i - 1],
                   names[i - 1], names[i - 1], names[i - 1], names[i - 1], names[i - 1]);
    environment_derive(&world, names[i], text);
  }
  assert_string_equal(environment_evaluate(&world, "l1 == l1"), "true");
  const char *result = environment_evaluate(&world, "l7 == l7");
  assert_memory_equal(result, "error limit at ", 15);
  world.env.steps_left = 1000000;
  /* Nesting: each name adds one level. */
  static char deep[MAX_DERIVED][8];
  for (int i = 0; i < 64; ++i) {
    (void)snprintf(deep[i], sizeof deep[i], "d%d", i);
    char *text = quire_arena_alloc(&world.arena, 16);
    assert_non_null(text);
    (void)snprintf(text, 16, i == 0 ? "[attrs.i]" : "[d%d]", i - 1);
    environment_derive(&world, deep[i], text);
  }
  assert_string_equal(environment_evaluate(&world, "d63 == d62"), "false");
  assert_string_equal(environment_evaluate(&world, "[d63]"), "error limit at [d63]");
  environment_destroy(&world);
}

static void constants_are_known(void **state) {
  (void)state;
  static const struct {
    const char *text;
    bool constant;
    quire_wholeness wholeness;
  } rows[] = {
      {"7", true, QUIRE_WHOLE},
      {"[1, 2] == [1, 2]", true, QUIRE_WHOLENESS_UNKNOWN},
      {"1 if 2 > 1 else 0.5", true, QUIRE_WHOLE},
      {"7 / 2", true, QUIRE_FRACTIONAL},
      {"8 / 2", true, QUIRE_WHOLE},
      {"9223372036854775807 + 1", false, QUIRE_WHOLE},
      {"attrs.i", false, QUIRE_WHOLENESS_UNKNOWN},
      {"[dim(shapes.x, 0), 7 / 2]", false, QUIRE_FRACTIONAL},
      {"[3, dim(shapes.x, 0)]", false, QUIRE_WHOLE},
      {"shapes.x", false, QUIRE_WHOLE},
      {"f16Ok('f32')", false, QUIRE_WHOLENESS_UNKNOWN},
      {"dim(shapes.x, 0) / 2", false, QUIRE_FRACTIONAL},
      {"floor(dim(shapes.x, 0) / 2) + 1", false, QUIRE_WHOLE},
      {"ceilDiv(attrs.f, 2) * numel(shapes.x)", false, QUIRE_WHOLE},
      {"dim(shapes.x, 0) // attrs.f", false, QUIRE_WHOLE},
      {"max(1, 2.5 * dim(shapes.x, 0))", false, QUIRE_FRACTIONAL},
      {"1 if attrs.i / 2 > 3 else 2", false, QUIRE_WHOLE},
      {"1 if attrs.b else attrs.i / 2", false, QUIRE_FRACTIONAL},
  };
  environment world;
  environment_create(&world);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    quire_compile_error error;
    quire_value value;
    const quire_expr *expr =
        environment_compile(&world, rows[i].text, strlen(rows[i].text), &error);
    assert_non_null(expr);
    bool out_of_memory = false;
    const quire_wholeness wholeness =
        quire_expr_wholeness(expr, &world.arena, NULL, NULL, &out_of_memory);
    if (quire_expr_is_constant(expr, &value) != rows[i].constant ||
        wholeness != rows[i].wholeness || out_of_memory) {
      fail_msg("%s: wholeness %d", rows[i].text, (int)wholeness);
    }
  }
  environment_destroy(&world);
}

static void references_are_listed(void **state) {
  (void)state;
  environment world;
  environment_create(&world);
  environment_derive(&world, "n", "attrs.i + 1");
  quire_compile_error error;
  static const char text[] = "n if m is defined else has(attrs, 'i') and n > ranks.x";
  const quire_expr *expr = environment_compile(&world, text, sizeof text - 1, &error);
  assert_non_null(expr);
  assert_int_equal(quire_expr_ref_count(expr), 4);
  const quire_ref *refs = quire_expr_refs(expr);
  assert_int_equal(refs[0].kind, QUIRE_REF_DERIVED);
  assert_int_equal(refs[1].kind, QUIRE_REF_UNKNOWN);
  assert_int_equal(refs[2].kind, QUIRE_REF_DERIVED);
  size_t length = 0;
  assert_ptr_equal(quire_expr_source(expr, &length), text);
  assert_int_equal(length, sizeof text - 1);
  environment_destroy(&world);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(arithmetic),
      cmocka_unit_test(comparison),
      cmocka_unit_test(logic_is_lazy),
      cmocka_unit_test(functions),
      cmocka_unit_test(long_chains),
      cmocka_unit_test(steps_are_bounded),
      cmocka_unit_test(lists_are_bounded),
      cmocka_unit_test(constants_are_known),
      cmocka_unit_test(references_are_listed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
