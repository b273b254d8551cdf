/* Why a clause is not true: the chain of names and the values of the operands. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "expr_environment.h"

/* "a > b > c | operand = value; ..." */
static const char *explain(environment *world, const char *clause) {
  quire_compile_error error;
  quire_because because;
  quire_text text;
  const quire_expr *expr = environment_compile(world, clause, strlen(clause), &error);
  assert_non_null(expr);
  assert_true(quire_expr_explain(expr, &world->env, &because));
  quire_text_init(&text, &quire_default_allocator);
  for (size_t i = 0; i < because.chain_length; ++i) {
    quire_text_put(&text, i > 0 ? " > " : "");
    quire_text_append(&text, because.chain[i].text, because.chain[i].length);
  }
  quire_text_put(&text, " |");
  for (size_t i = 0; i < because.operand_count; ++i) {
    quire_text_put(&text, i > 0 ? "; " : " ");
    quire_text_append(&text, because.operands[i].text.text, because.operands[i].text.length);
    quire_text_put(&text, " = ");
    if (because.operands[i].error != QUIRE_EXPR_OK) {
      quire_text_put(&text, quire_expr_code_name(because.operands[i].error));
    } else {
      quire_value_write_json(&text, &because.operands[i].value);
    }
  }
  const char *result = quire_arena_copy(&world->arena, quire_text_view(&text), text.length);
  quire_text_release(&text);
  return result;
}

static void chains_and_operands(void **state) {
  (void)state;
  static const struct {
    const char *clause;
    const char *because;
  } rows[] = {
      {"attrs.i > 20", "attrs.i > 20 | attrs.i = 17"},
      {"20 < (attrs.i + 1)", "20 < (attrs.i + 1) | attrs.i + 1 = 18"},
      {"not attrs.b", "not attrs.b | attrs.b = true"},
      {"attrs.b and attrs.i == 1 and big + 1 > 0", "attrs.i == 1 | attrs.i = 17"},
      {"attrs.b and (attrs.b and (attrs.none))", "attrs.none |"},
      {"small", "small > count < 10 | count = 17"},
      {"both", "both > small > count < 10 | count = 17"},
      {"attrs.b and both", "both > small > count < 10 | count = 17"},
      {"attrs.i == 1 if attrs.b else attrs.i == 2", "attrs.i == 1 | attrs.i = 17"},
      {"attrs.i == 1 if not attrs.b else attrs.i == 2", "attrs.i == 2 | attrs.i = 17"},
      {"not present.x or attrs.i == 3", "attrs.i == 3 | attrs.i = 17"},
      {"not present.x or (attrs.b and small)", "small > count < 10 | count = 17"},
      {"attrs.i == 1 or attrs.i == 2", "attrs.i == 1 or attrs.i == 2 | attrs.i = 17"},
      {"attrs.i == 1 or (attrs.f == 2 or not attrs.b) or small",
       "attrs.i == 1 or (attrs.f == 2 or not attrs.b) or small | attrs.i = 17; attrs.f = 2.5; "
       "attrs.b = true; small = false"},
      {"attrs.i == 1 or big + 1 > 2",
       "attrs.i == 1 or big + 1 > 2 | attrs.i = 17; big + 1 = overflow"},
      {"attrs.i == 1 if big + 1 > 0 else false", "attrs.i == 1 if big + 1 > 0 else false |"},
      {"(attrs.i == 1 if big + 1 > 0 else false) and attrs.b",
       "(attrs.i == 1 if big + 1 > 0 else false) and attrs.b |"},
      {"big + 1 > 0 and attrs.b", "big + 1 > 0 and attrs.b |"},
      {"f16Ok('f16')", "f16Ok('f16') |"},
      {"attrs.none is defined", "attrs.none is defined |"},
      {"attrs.none", "attrs.none |"},
      {"false", "false |"},
      {"flag", "flag > 1 > 2 |"},
      {"'a' == attrs.s", "'a' == attrs.s | attrs.s = \"gated\""},
      {"attrs.i", "attrs.i |"},
  };
  environment world;
  environment_create(&world);
  environment_derive(&world, "count", "attrs.i");
  environment_derive(&world, "small", "count < 10");
  environment_derive(&world, "both", "count > 1 and small");
  environment_derive(&world, "flag", "1 > 2");
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    const char *because = explain(&world, rows[i].clause);
    if (strcmp(because, rows[i].because) != 0) {
      fail_msg("%s:\n  %s\n  not %s", rows[i].clause, because, rows[i].because);
    }
  }
  environment_destroy(&world);
}

/* A number or boolean of the JSON is no expression: the name is where the chain ends. */
static void json_constants_end_the_chain(void **state) {
  (void)state;
  environment world;
  environment_create(&world);
  world.derived_name[0] = "never";
  world.derived[0] = quire_expr_constant(&world.arena, quire_value_boolean(false), "false", 5);
  world.derived_count = 1;
  assert_string_equal(explain(&world, "never"), "never |");
  environment_destroy(&world);
}

static void long_alternatives(void **state) {
  (void)state;
  char clause[4096] = "attrs.i == 1";
  size_t length = strlen(clause);
  for (int i = 0; i < 250; ++i) {
    memcpy(clause + length, " or attrs.i > 99", 16);
    length += 16;
  }
  clause[length] = '\0';
  environment world;
  environment_create(&world);
  const char *because = explain(&world, clause);
  assert_string_equal(because + strlen(because) - 15, " | attrs.i = 17");
  /* With no steps left everything fails, and nothing worse happens. */
  world.env.steps_left = 0;
  assert_string_equal(explain(&world, "attrs.i > 20"), "attrs.i > 20 | attrs.i = limit");
  environment_destroy(&world);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(chains_and_operands),
      cmocka_unit_test(json_constants_end_the_chain),
      cmocka_unit_test(long_alternatives),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
