/* Manifests with their templates: each is checked once, and no package costs much. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "quire/context.h"

enum { MOST_TEXT = 1 << 16, BIG = 1000000 };

typedef struct world {
  quire_context *context;
  quire_package_options options;
  char *manifest;
  char *big; /* file "big" */
  int findings;
  quire_error error;
} world;

/* "bad..." does not parse, "t..." includes "big", "good" is fine, nothing else is there. */
static quire_status read_file(void *user, const char *path, quire_write_function *write,
                              void *write_user) {
  const world *all = user;
  const char *text = NULL;
  if (strncmp(path, "bad", 3) == 0) {
    text = "{% if 1 %}";
  } else if (path[0] == 't') {
    text = "{% include \"big\" %}";
  } else if (strcmp(path, "big") == 0) {
    text = all->big;
  } else if (strcmp(path, "good") == 0) {
    text = "x";
  } else {
    return QUIRE_NOT_FOUND;
  }
  write(write_user, text, strlen(text));
  return QUIRE_OK;
}

static void count_finding(void *user, const quire_finding *finding) {
  ++((world *)user)->findings;
  (void)finding;
}

static void world_create(world *all) {
  memset(all, 0, sizeof *all);
  assert_int_equal(quire_context_create(NULL, &all->context, &all->error), QUIRE_OK);
  quire_package_options_init(&all->options);
  all->options.read = read_file;
  all->options.user = all;
  all->options.folder = "";
  all->manifest = calloc(1, MOST_TEXT);
  all->big = calloc(1, BIG + 1);
  assert_non_null(all->manifest);
  assert_non_null(all->big);
  memset(all->big, ' ', BIG);
}

static void world_release(world *all) {
  quire_context_release(all->context);
  free(all->manifest);
  free(all->big);
}

/* A manifest of one variant; `shaders` are the passes' templates, # in them their index. */
static void make_manifest(world *all, const char *const *shaders, size_t shader_count, int count) {
  size_t at = (size_t)snprintf(all->manifest, MOST_TEXT,
                               "{\"domain\": \"d\", \"name\": \"N\", \"sinceVersion\": 1,"
                               " \"inputs\": {\"a\": {\"dtype\": \"float32\"}},"
                               " \"outputs\": {\"o\": {\"dtype\": \"float32\", \"shape\": [1]}}, "
                               "\"variants\": [{\"passes\": [");
  for (int i = 0; i < count; ++i) {
    const char *shader = shaders[(size_t)i % shader_count];
    const size_t prefix = strcspn(shader, "#");
    at += (size_t)snprintf(all->manifest + at, MOST_TEXT - at, "%s{\"shader\": \"%.*s",
                           i > 0 ? "," : "", (int)prefix, shader);
    if (shader[prefix] == '#') {
      at += (size_t)snprintf(all->manifest + at, MOST_TEXT - at, "%d", i);
    }
    at += (size_t)snprintf(all->manifest + at, MOST_TEXT - at,
                           "\", \"bindings\": [\"a\", \"o\"], \"dispatch\": {\"x\": 1}}");
  }
  at += (size_t)snprintf(all->manifest + at, MOST_TEXT - at, "]}]}");
  assert_in_range(at, 1, MOST_TEXT - 1);
}

static quire_status lint(world *all) {
  all->findings = 0;
  return quire_operator_lint_package(all->context, all->manifest, strlen(all->manifest),
                                     &all->options, count_finding, all, &all->error);
}

static void test_spellings_of_one_path(void **state) {
  static const char *const spellings[] = {"bad", "./bad", ".//bad", "x/../bad", ".//./bad"};
  static const char *const two[] = {"bad1", "./bad2", "bad2", ".//bad1"};
  world all;
  (void)state;
  world_create(&all);
  make_manifest(&all, spellings, 5, 50);
  assert_int_equal(lint(&all), QUIRE_BAD_MANIFEST);
  assert_int_equal(all.findings, 1);
  make_manifest(&all, two, 4, 4);
  assert_int_equal(lint(&all), QUIRE_BAD_MANIFEST);
  assert_int_equal(all.findings, 2);
  all.options.folder = "folder";
  make_manifest(&all, (const char *const[]){"../good", "../x/../good", "../missing"}, 3, 9);
  assert_int_equal(lint(&all), QUIRE_BAD_MANIFEST);
  assert_int_equal(all.findings, 1);
  world_release(&all);
}

static void test_many_findings(void **state) {
  world all;
  (void)state;
  world_create(&all);
  make_manifest(&all, (const char *const[]){"bad#"}, 1, 200);
  assert_int_equal(lint(&all), QUIRE_BAD_MANIFEST);
  assert_int_equal(all.findings, 200);
  make_manifest(&all, (const char *const[]){"bad#", "missing#", "../#"}, 3, 600);
  assert_int_equal(lint(&all), QUIRE_BAD_MANIFEST);
  assert_int_equal(all.findings, 200);
  world_release(&all);
}

static void test_bytes_of_a_package(void **state) {
  world all;
  quire_operator *op = NULL;
  (void)state;
  world_create(&all);
  make_manifest(&all, (const char *const[]){"t#"}, 1, 67);
  assert_int_equal(lint(&all), QUIRE_OK);
  make_manifest(&all, (const char *const[]){"t#"}, 1, 68);
  assert_int_equal(lint(&all), QUIRE_LIMIT);
  assert_int_equal(quire_operator_load_package(all.context, all.manifest, strlen(all.manifest),
                                               &all.options, &op, &all.error),
                   QUIRE_LIMIT);
  assert_null(op);
  world_release(&all);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_spellings_of_one_path),
                                     cmocka_unit_test(test_many_findings),
                                     cmocka_unit_test(test_bytes_of_a_package)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
