/* Hostile templates meet a limit, and lack of memory is a status wherever it strikes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "counting_allocator.h"
#include "template_fixture.h"

#define MAIN "pack/age/main.wgsl.jinja"
#define LIMIT_AT "LIMIT pack/age/main.wgsl.jinja:"

static const char *render(template_world *world, const char *text) {
  memset(world->files, 0, sizeof world->files);
  world->files[0] = (template_file){MAIN, text};
  return template_render_pass(world, 0, &quire_default_allocator);
}

/* A text with `count` repetitions of `part` between two others; the caller frees it. */
static char *repeat(const char *before, const char *part, size_t count, const char *after) {
  size_t length = strlen(part);
  char *text = malloc(strlen(before) + length * count + strlen(after) + 1);
  assert_non_null(text);
  char *end = text + sprintf(text, "%s", before);
  for (size_t i = 0; i < count; i++) {
    memcpy(end, part, length);
    end += length;
  }
  (void)sprintf(end, "%s", after);
  return text;
}

static void expect(template_world *world, char *text, const char *result) {
  assert_string_equal(render(world, text), result);
  free(text);
}

static void loops(void **state) {
  (void)state;
  template_world world;
  template_world_create(&world);
  assert_string_equal(render(&world, "{% for i in range(100001) %}{% endfor %}"),
                      LIMIT_AT "1:13: limit: more than 100000 rounds in one rendering");
  assert_string_equal(render(&world, "{% for i in range(-9223372036854775807, big) %}{% endfor %}"),
                      LIMIT_AT "1:13: limit: more than 100000 rounds in one rendering");
  assert_string_equal(
      render(&world, "{% for i in range(400) %}{% for j in range(400) %}{% endfor %}{% endfor %}"),
      LIMIT_AT "1:38: limit: more than 100000 rounds in one rendering");
  /* Few rounds with a long body are bounded by the steps. */
  expect(&world,
         repeat("{% for i in range(50000) %}", "{% if i < 0 %}{% endif %}", 10, "{% endfor %}"),
         LIMIT_AT "1:34: limit: `i`");
  template_world_destroy(&world);
}

static void sizes(void **state) {
  (void)state;
  template_world world;
  template_world_create(&world);
  char *kilobyte = repeat("", "x", 1024, "");
  char *text = repeat("{% for i in range(2000) %}", kilobyte, 1, "{% endfor %}");
  assert_string_equal(render(&world, text),
                      LIMIT_AT "1:27: limit: more than 1048576 bytes are rendered");
  free(text);
  free(kilobyte);
  template_world_destroy(&world);
}

static void strings(void **state) {
  (void)state;
  template_world world;
  template_world_create(&world);
  /* Doubling: the variable lives in the loop's frame from the second round on. */
  assert_string_equal(render(&world,
                             "{% for i in range(40) %}"
                             "{% set s = s ~ s if s is defined else \"0123456789abcdef\" %}"
                             "{% endfor %}"),
                      LIMIT_AT "1:36: limit: `s ~ s`");
  assert_string_equal(render(&world,
                             "{% for i in range(100000) %}"
                             "{% set s = s ~ \"x\" if s is defined else \"x\" %}{% endfor %}"),
                      LIMIT_AT "1:40: limit: `s ~ \"x\"`");
  template_world_destroy(&world);
}

static void nesting(void **state) {
  (void)state;
  template_world world;
  template_world_create(&world);
  expect(&world, repeat("", "{% if 1 %}", 65, ""),
         LIMIT_AT "1:641: limit: more than 64 blocks inside each other");
  expect(&world, repeat("", "{% if 1 %}", 64, ""),
         "BAD_MANIFEST pack/age/main.wgsl.jinja:1:631: syntax: this block has no end");
  expect(&world, repeat("{{ ", "(", 70, ""),
         "BAD_MANIFEST pack/age/main.wgsl.jinja:1:1: syntax: `{{` without an end");
  expect(&world, repeat("{{ ", "(", 70, " }}"),
         "BAD_MANIFEST pack/age/main.wgsl.jinja:1:68: syntax: nested more than 64 deep");
  char deep[4000] = "{% macro m0() %}{% endmacro %}";
  for (int i = 1; i <= 16; i++) {
    size_t used = strlen(deep);
    (void)snprintf(deep + used, sizeof deep - used,
                   "{%% macro m%d() %%}{{ m%d() }}{%% endmacro %%}", i, i - 1);
  }
  char with_call[4100];
  (void)snprintf(with_call, sizeof with_call,
                 "{%% set d = env.wgsl.resourceDeclarations %%}%s{{ m15() }}!", deep);
  assert_string_equal(render(&world, with_call), "!");
  (void)snprintf(with_call, sizeof with_call, "%s{{ m16() }}", deep);
  assert_string_equal(render(&world, with_call), LIMIT_AT "1:50: limit: `m0()`");
  template_world_destroy(&world);
}

static void includes(void **state) {
  (void)state;
  template_world world;
  template_world_create(&world);
  /* Every file includes the next one many times, and the last is empty. */
  char *many = repeat("", "{% include \"b\" %}", 200, "");
  char *more = repeat("", "{% include \"c\" %}", 200, "");
  memset(world.files, 0, sizeof world.files);
  world.files[0] = (template_file){MAIN, many};
  world.files[1] = (template_file){"b", more};
  world.files[2] = (template_file){"c", ""};
  assert_string_equal(template_render_pass(&world, 0, &quire_default_allocator),
                      "LIMIT b:1:2551: limit: more than 10000 includes");
  free(many);
  free(more);
  char *large = repeat("", "0123456789abcdef", 40000, "");
  world.files[0] = (template_file){MAIN, "{% include \"b\" %}{% include \"b\" %}"};
  world.files[1] = (template_file){"b", large};
  assert_string_equal(
      template_render_pass(&world, 0, &quire_default_allocator),
      "LIMIT b:1:1: limit: the text with its includes is longer than 1048576 bytes");
  free(large);
  expect(&world, repeat("", "{{ a1 }}", 1, ""), render(&world, "{{ a1 }}"));
  template_world_destroy(&world);
}

static void many_names(void **state) {
  (void)state;
  template_world world;
  template_world_create(&world);
  char *text = malloc((size_t)5000 * 16);
  assert_non_null(text);
  char *end = text;
  for (int i = 0; i < 5000; i++) {
    end += sprintf(end, "{{ n%d }}", i);
  }
  expect(&world, text, LIMIT_AT "1:1: limit: more than 4096 different names");
  template_world_destroy(&world);
}

/* ---- memory ---- */

static void memory_fails_in_turn(void **state) {
  (void)state;
  template_world world;
  template_world_create(&world);
  world.files[0] = (template_file){
      MAIN,
      "{% include \"common/x\" %}{% macro m(a, b=a ~ \"y\") %}{{ a }}{{ b }}{% endmacro %}"
      "{% set v = [1, 2, 3] | join(\"-\") %}{% for i in range(3) %}{% if i in list %}{{ m(i ~ v) }}"
      "{% elif i == 0 %}{{ bindings.params.fields | join(\"+\") | upper }}{% endif %}{% endfor %}"
      "{{ shapes.x[1] }}{{ 0.5 | f32 }}{{ \"a\" + high }}"};
  world.files[1] = (template_file){"common/x", "// common\n"};
  counting_allocator counting;
  counting_allocator_init(&counting);
  char good[1 << 12];
  (void)snprintf(good, sizeof good, "%s", template_render_pass(&world, 0, &counting.allocator));
  assert_non_null(strstr(good, "N+SCALE11-2-311-2-3y"));
  assert_int_equal(counting.live, 0);
  size_t sites = counting.requests;
  assert_true(sites > 10);
  for (size_t site = 1; site <= sites; site++) {
    counting.requests = 0;
    counting.fail_at = site;
    const char *result = template_render_pass(&world, 0, &counting.allocator);
    if (strncmp(result, "OUT_OF_MEMORY", 13) != 0 || counting.live != 0) {
      fail_msg("site %zu of %zu: %s, %zu blocks held", site, sites, result, counting.live);
    }
  }
  template_world_destroy(&world);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(loops),
      cmocka_unit_test(sizes),
      cmocka_unit_test(strings),
      cmocka_unit_test(nesting),
      cmocka_unit_test(includes),
      cmocka_unit_test(many_names),
      cmocka_unit_test(memory_fails_in_turn),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
