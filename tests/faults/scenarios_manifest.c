/* Contexts, manifests and packages. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fault_world.h"

/* ---- contexts ---- */

static quire_status create_context(fault_world *world, quire_error *error) {
  quire_context_options options;
  quire_context_options_init(&options);
  options.allocator = &fault_allocator;
  const quire_status status = quire_context_create(&options, &world->own_context, error);
  assert_true((status == QUIRE_OK) == (world->own_context != NULL));
  return status;
}

/* ---- loading ---- */

static uint64_t look_at_operator(const fault_world *world) {
  const size_t facts[2] = {quire_operator_slot_count(world->op),
                           quire_operator_variant_count(world->op)};
  return fault_hash(1, facts, sizeof facts);
}

static quire_status show_operator(fault_world *world, quire_status status) {
  assert_true((status == QUIRE_OK) == (world->op != NULL));
  world->look = status == QUIRE_OK ? look_at_operator : NULL;
  return status;
}

static quire_status load(fault_world *world, quire_error *error) {
  size_t length = 0;
  const char *text = fault_file(world->scenario->argument, &length);
  return show_operator(world, quire_operator_load(world->context, text, length, &world->op, error));
}

static void report(void *user, const quire_finding *finding) {
  fault_show(user, finding->path, strlen(finding->path));
  fault_show(user, finding->message, strlen(finding->message));
  fault_show(user, &finding->line, sizeof finding->line);
}

static quire_status lint(fault_world *world, quire_error *error) {
  size_t length = 0;
  const char *text = fault_file(world->scenario->argument, &length);
  return quire_operator_lint(world->context, text, length, report, world, error);
}

/* ---- packages ---- */

/* In two pieces, and nothing is in the folder "missing". */
static quire_status read_package(void *user, const char *path, quire_write_function *write,
                                 void *write_user) {
  char whole[512];
  (void)user;
  (void)snprintf(whole, sizeof whole, "%s/kernels/%s", QUIRE_SOURCE_FOLDER, path);
  FILE *file = fopen(whole, "rb");
  if (file == NULL) {
    return QUIRE_NOT_FOUND;
  }
  char piece[8192];
  for (size_t size = 1; size > 0;) {
    size = fread(piece, 1, sizeof piece, file);
    write(write_user, piece, size);
  }
  assert_int_equal(fclose(file), 0);
  return QUIRE_OK;
}

static const char broken_text[] =
    "{\"domain\": \"test\", \"name\": \"Broken\", \"sinceVersion\": 1,"
    " \"inputs\": {\"x\": {\"dtype\": \"float32\", \"rank\": 1}},"
    " \"outputs\": {\"y\": {\"dtype\": \"float32\", \"shape\": \"shapes.x\"}},"
    " \"variants\": [{\"id\": \"broken\", \"passes\": [{\"id\": \"wrong\","
    "  \"shader\": \"broken.wgsl.jinja\", \"bindings\": [\"x\", \"y\"],"
    "  \"dispatch\": {\"x\": 1}}]}]}";

/* Text that a template's every construct is in, and a fault at its end. */
static const char broken_template[] =
    "{% macro twice(name, other=2) %}{{ name }}{{ other }}{% endmacro %}"
    "{% set list = [1, 2.5, \"three\"] %}"
    "{% for one in list %}{% if loop.first %}{{ one }}{% elif one == 2.5 %}{{ one * 2 }}"
    "{% else %}{{ twice(one, other=1) }}{% endif %}{% endfor %}{% if list %}";

static quire_status read_broken(void *user, const char *path, quire_write_function *write,
                                void *write_user) {
  (void)user;
  if (strcmp(path, "broken.wgsl.jinja") != 0) {
    return QUIRE_NOT_FOUND;
  }
  write(write_user, broken_template, sizeof broken_template - 1);
  return QUIRE_OK;
}

static const char *package_of(const fault_world *world, size_t *length,
                              quire_package_options *options) {
  quire_package_options_init(options);
  if (world->scenario->argument == NULL) {
    options->read = read_broken;
    *length = sizeof broken_text - 1;
    return broken_text;
  }
  char path[256];
  (void)snprintf(path, sizeof path, "kernels/%s/manifest.json",
                 (const char *)world->scenario->argument);
  options->folder = world->scenario->argument;
  options->read = read_package;
  return fault_file(path, length);
}

static quire_status load_package(fault_world *world, quire_error *error) {
  quire_package_options options;
  size_t length = 0;
  const char *text = package_of(world, &length, &options);
  return show_operator(world, quire_operator_load_package(world->context, text, length, &options,
                                                          &world->op, error));
}

static quire_status lint_package(fault_world *world, quire_error *error) {
  quire_package_options options;
  size_t length = 0;
  const char *text = package_of(world, &length, &options);
  return quire_operator_lint_package(world->context, text, length, &options, report, world, error);
}

/* ---- what takes no memory ---- */

static void look_at_status(fault_world *world) {
  const quire_error nothing = {QUIRE_OK, "", "", ""};
  fault_show(world, quire_status_name(nothing.status), 2);
  fault_show(world, quire_status_description(QUIRE_BAD_RANK), 2);
  assert_int_equal(quire_status_is_invalid_argument(QUIRE_BAD_RANK), 1);
  assert_int_equal(quire_dtype_size(quire_dtype_from_name("float16")), 2);
  fault_show(world, quire_dtype_name(QUIRE_INT32), 5);
  fault_show(world, quire_version(), 1);
}

static quire_status look_around(fault_world *world, quire_error *error) {
  (void)error;
  look_at_status(world);
  const size_t count = quire_context_operator_count(world->context);
  for (size_t i = 0; i < count; i++) {
    const quire_operator *op = quire_context_operator(world->context, i);
    const char *name = quire_operator_name(op);
    assert_ptr_equal(quire_context_find_operator(world->context, name), op);
    fault_show(world, name, strlen(name));
    const int64_t version = quire_operator_since_version(op);
    fault_show(world, &version, sizeof version);
    for (size_t k = 0; k < quire_operator_variant_count(op); k++) {
      fault_show(world, quire_operator_variant_name(op, k), 1);
      fault_show(world, quire_operator_variant_backend(op, k), 3);
    }
    for (size_t k = 0; k < quire_operator_slot_count(op); k++) {
      quire_slot slot;
      assert_int_equal(quire_operator_slot(op, k, &slot), QUIRE_OK);
      assert_int_equal(quire_operator_find_slot(op, slot.name, slot.is_output), k);
    }
    for (size_t k = 0; k < quire_operator_attribute_count(op); k++) {
      quire_named_value attribute;
      assert_int_equal(quire_operator_attribute(op, k, &attribute, NULL), QUIRE_OK);
    }
    for (size_t k = 0; k < quire_operator_tunable_count(op); k++) {
      quire_named_value tunable;
      size_t choices = 0;
      assert_int_equal(quire_operator_tunable(op, k, &tunable, &choices), QUIRE_OK);
      for (size_t c = 0; c < choices; c++) {
        assert_int_equal(quire_operator_tunable_choice(op, k, c, &tunable), QUIRE_OK);
      }
    }
  }
  return QUIRE_OK;
}

static const fault_scenario items[] = {
    {.name = "operators and names",
     .functions =
         "quire_status_name quire_status_description quire_status_is_invalid_argument "
         "quire_dtype_size quire_dtype_name quire_dtype_from_name quire_version "
         "quire_context_operator_count quire_context_operator quire_context_find_operator "
         "quire_operator_name quire_operator_since_version quire_operator_variant_count "
         "quire_operator_variant_name quire_operator_variant_backend quire_operator_slot_count "
         "quire_operator_slot quire_operator_find_slot quire_operator_attribute_count "
         "quire_operator_attribute quire_operator_tunable_count quire_operator_tunable "
         "quire_operator_tunable_choice",
     .call = look_around,
     .silent = true},
    {.name = "load paged_attention",
     .functions = "quire_operator_load quire_operator_release",
     .call = load,
     .argument = "kernels/paged_attention/manifest.json"},
    {.name = "load linear_attention",
     .functions = "quire_operator_load",
     .call = load,
     .argument = "kernels/linear_attention/manifest.json"},
    {.name = "load merge_attention_states",
     .functions = "quire_operator_load",
     .call = load,
     .argument = "kernels/merge_attention_states/manifest.json"},
    {.name = "load small",
     .functions = "quire_operator_load",
     .call = load,
     .argument = "tests/data/lint/pass_small.json"},
    {.name = "lint paged_decode",
     .functions = "quire_operator_lint",
     .call = lint,
     .argument = "kernels/paged_decode/manifest.json"},
    {.name = "package merge_attention_states",
     .functions = "quire_operator_load_package quire_package_options_init",
     .call = load_package,
     .argument = "merge_attention_states"},
    {.name = "package linear_attention",
     .functions = "quire_operator_load_package",
     .call = load_package,
     .argument = "linear_attention"},
    {.name = "package with a fault",
     .functions = "quire_operator_load_package",
     .call = load_package},
    {.name = "lint package paged_attention",
     .functions = "quire_operator_lint_package",
     .call = lint_package,
     .argument = "paged_attention",
     .partial = true},
    {.name = "lint package with a fault",
     .functions = "quire_operator_lint_package",
     .call = lint_package,
     .expected = QUIRE_BAD_MANIFEST,
     .partial = true},
    {.name = "context",
     .functions = "quire_context_create quire_context_options_init quire_context_release",
     .call = create_context},
};

const fault_scenarios fault_manifest_scenarios = {items, sizeof items / sizeof *items};

/* ---- every manifest that lint has something to say about ---- */

fault_scenarios fault_lint_scenarios(void) {
  enum { MOST = 256, LONGEST = 96 };
  static fault_scenario made[MOST];
  static char names[MOST][LONGEST];
  size_t count = 0;
  DIR *folder = opendir(QUIRE_SOURCE_FOLDER "/tests/data/lint");
  assert_non_null(folder);
  for (const struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
    if (strstr(entry->d_name, ".json") == NULL) {
      continue;
    }
    assert_true(count < MOST);
    (void)snprintf(names[count], LONGEST, "tests/data/lint/%.70s", entry->d_name);
    made[count] =
        (fault_scenario){.name = names[count] + sizeof "tests/data" - 1,
                         .functions = "quire_operator_lint",
                         .call = lint,
                         .argument = names[count],
                         .expected = FAULT_ANY_STATUS,
                         /* A text without memory for it, in one that is refused anyhow. */
                         .survived = strncmp(entry->d_name, "fail_", 5) == 0};
    count++;
  }
  assert_int_equal(closedir(folder), 0);
  return (fault_scenarios){made, count};
}
