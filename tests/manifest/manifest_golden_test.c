/*
 * The compatibility manifests and the golden files about loading, from the folder that
 * QUIRE_COMPAT_DIR names. They are other people's, so they are not part of the project.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "manifest.h"

enum { SKIPPED = 77, LARGEST_LINE = 1 << 20 };

static const char *folder;
static char line[LARGEST_LINE];

static FILE *open_file(const char *name) {
  char path[1024];
  (void)snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "rb");
  if (file == NULL) {
    fail_msg("cannot read %s", path);
  }
  return file;
}

static quire_status load(const char *text, size_t length, size_t *variants, quire_error *error) {
  quire_manifest *manifest = NULL;
  quire_status status =
      quire_manifest_load(&quire_default_allocator, text, length, NULL, NULL, &manifest, error);
  *variants = manifest == NULL ? 0 : manifest->variant_count;
  quire_manifest_destroy(manifest);
  return status;
}

static void compatibility_manifests(void **state) {
  (void)state;
  static const struct {
    const char *name;
    size_t variants;
  } rows[] = {{"compat/paged_attention.manifest.json", 8},
              {"compat/linear_attention.manifest.json", 28},
              {"compat/features.manifest.json", 6}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    FILE *file = open_file(rows[i].name);
    size_t length = fread(line, 1, sizeof line, file);
    size_t variants = 0;
    quire_error error = {.status = QUIRE_OK};
    (void)fclose(file);
    if (load(line, length, &variants, &error) != QUIRE_OK) {
      fail_msg("%s: %s", rows[i].name, error.message);
    }
    assert_int_equal(variants, rows[i].variants);
  }
}

static void load_cases(void **state) {
  (void)state;
  FILE *file = open_file("load_cases.jsonl");
  size_t count = 0;
  while (fgets(line, sizeof line, file) != NULL) {
    json_t *row = json_loads(line, 0, NULL);
    assert_non_null(row);
    const char *text = json_string_value(json_object_get(row, "text"));
    bool ok = json_is_true(json_object_get(row, "ok"));
    size_t variants = 0;
    quire_error error = {.status = QUIRE_OK};
    quire_status status = load(text, strlen(text), &variants, &error);
    if ((status == QUIRE_OK) != ok || (!ok && error.subject[0] != '$')) {
      fail_msg("%s (%s): %s", json_string_value(json_object_get(row, "id")),
               json_string_value(json_object_get(row, "note")), error.message);
    }
    json_decref(row);
    ++count;
  }
  (void)fclose(file);
  assert_int_equal(count, 108);
}

/* Which expressions compile; their values are the planner's golden test. */
static void expression_cases(void **state) {
  (void)state;
  FILE *file = open_file("expr_cases.jsonl");
  assert_non_null(fgets(line, sizeof line, file));
  json_t *first = json_loads(line, 0, NULL);
  json_t *manifest = json_object_get(first, "manifest");
  size_t count = 0;
  while (fgets(line, sizeof line, file) != NULL) {
    json_t *row = json_loads(line, 0, NULL);
    assert_non_null(row);
    json_object_set(json_object_get(manifest, "derive"), "probe", json_object_get(row, "expr"));
    char *text = json_dumps(manifest, 0);
    size_t variants = 0;
    quire_error error = {.status = QUIRE_OK};
    quire_status status = load(text, strlen(text), &variants, &error);
    bool ok = !json_is_true(json_object_get(row, "load_error"));
    if ((status == QUIRE_OK) != ok) {
      fail_msg("%s: %s", json_string_value(json_object_get(row, "expr")), error.message);
    }
    if (!ok) {
      assert_string_equal(error.subject, "$.derive.probe");
    }
    free(text);
    json_decref(row);
    ++count;
  }
  json_decref(first);
  (void)fclose(file);
  assert_int_equal(count, 226);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(compatibility_manifests),
                                     cmocka_unit_test(load_cases),
                                     cmocka_unit_test(expression_cases)};
  folder = getenv("QUIRE_COMPAT_DIR");
  if (folder == NULL || folder[0] == '\0') {
    (void)printf("SKIPPED: QUIRE_COMPAT_DIR is not set, so NO golden file has been read\n");
    return SKIPPED;
  }
  return cmocka_run_group_tests(tests, NULL, NULL);
}
