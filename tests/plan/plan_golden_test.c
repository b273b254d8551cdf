/*
 * Golden plans, refusals and expressions of the compatibility manifests. They are not part of this
 * project: the folder that holds them is named by QUIRE_COMPAT_DIR. Without it the test is skipped.
 */
#include "plan_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *folder;

enum { LINE_SIZE = 1 << 18 };

static FILE *open_cases(const char *name) {
  char path[1000];
  (void)snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "rb");
  if (file == NULL) {
    fail_msg("%s cannot be read", path);
  }
  return file;
}

static json_t *next_case(FILE *file, char *line) {
  if (fgets(line, LINE_SIZE, file) == NULL) {
    return NULL;
  }
  json_error_t error;
  json_t *json = json_loads(line, JSON_REJECT_DUPLICATES, &error);
  if (json == NULL) {
    fail_msg("a golden case is no JSON: %s", error.text);
  }
  return json;
}

static quire_manifest *load_file(const char *name) {
  char path[1000];
  json_error_t error;
  (void)snprintf(path, sizeof path, "%s/compat/%s.manifest.json", folder, name);
  json_t *json = json_load_file(path, 0, &error);
  if (json == NULL) {
    fail_msg("%s: %s", path, error.text);
  }
  quire_manifest *manifest = fixture_load(json);
  json_decref(json);
  return manifest;
}

/* ---- plans ---- */

typedef struct named_manifest {
  char name[100];
  quire_manifest *manifest;
} named_manifest;

enum { MOST_MANIFESTS = 8 };

static const quire_manifest *find_manifest(named_manifest *loaded, const char *name) {
  for (size_t i = 0; i < MOST_MANIFESTS; i++) {
    if (loaded[i].manifest == NULL) {
      (void)snprintf(loaded[i].name, sizeof loaded[i].name, "%s", name);
      loaded[i].manifest = load_file(name);
    }
    if (strcmp(loaded[i].name, name) == 0) {
      return loaded[i].manifest;
    }
  }
  fail_msg("too many manifests");
  return NULL;
}

static int check_plan(const quire_manifest *manifest, const json_t *json) {
  char *request = json_dumps(json_object_get(json, "request"), 0);
  fixture_result result =
      fixture_plan(manifest, request, strlen(request), NULL, QUIRE_ISA_BEST, NULL);
  const json_t *expect = json_object_get(json, "expect");
  int refused = json_is_true(json_object_get(expect, "refused"));
  int wrong = 0;
  const char *difference = fixture_difference(result.json, expect, 0);
  if (difference[0] != '\0' || refused != (result.status != QUIRE_OK)) {
    print_error("%s (%s): status %s, %s\n", json_string_value(json_object_get(json, "id")),
                json_string_value(json_object_get(json, "note")), quire_status_name(result.status),
                difference);
    wrong = 1;
  }
  fixture_release(&result);
  free(request);
  return wrong;
}

static void test_plans(void **state) {
  named_manifest loaded[MOST_MANIFESTS] = {0};
  FILE *file = open_cases("plan_cases.jsonl");
  char *line = malloc(LINE_SIZE);
  int wrong = 0;
  int count = 0;
  (void)state;
  for (json_t *json = next_case(file, line); json != NULL; json = next_case(file, line)) {
    const char *name = json_string_value(json_object_get(json, "manifest"));
    wrong += check_plan(find_manifest(loaded, name), json);
    count++;
    json_decref(json);
  }
  print_message("%d golden plans, %d differ\n", count, wrong);
  for (size_t i = 0; i < MOST_MANIFESTS; i++) {
    quire_manifest_destroy(loaded[i].manifest);
  }
  free(line);
  (void)fclose(file);
  assert_true(count > 100);
  assert_int_equal(wrong, 0);
}

/* ---- expressions ---- */

static const char *check_probe(const json_t *json, const quire_manifest *manifest,
                               const char *request) {
  fixture_result result =
      fixture_plan(manifest, request, strlen(request), NULL, QUIRE_ISA_BEST, NULL);
  const json_t *error = json_object_get(json, "error");
  json_t *want = error != NULL ? json_pack("{s:O}", "error", error)
                               : json_incref(json_object_get(json, "value"));
  const json_t *derived = json_object_get(result.json, "derived");
  const char *difference = fixture_difference(json_object_get(derived, "probe"), want, 0);
  json_decref(want);
  fixture_release(&result);
  return difference;
}

static int check_expression(json_t *base, const char *request, const json_t *json) {
  const char *id = json_string_value(json_object_get(json, "id"));
  json_object_set(json_object_get(base, "derive"), "probe", json_object_get(json, "expr"));
  char *text = json_dumps(base, 0);
  quire_manifest *manifest = NULL;
  quire_error error = {0};
  (void)quire_manifest_load(&quire_default_allocator, text, strlen(text), NULL, NULL, &manifest,
                            &error);
  int refused = json_is_true(json_object_get(json, "load_error"));
  const char *difference = "";
  if ((manifest == NULL) != refused) {
    difference = manifest == NULL ? error.message : "it loads";
  } else if (manifest != NULL) {
    difference = check_probe(json, manifest, request);
  }
  if (difference[0] != '\0') {
    print_error("%s: %s: %s\n", id, json_string_value(json_object_get(json, "expr")), difference);
  }
  quire_manifest_destroy(manifest);
  free(text);
  return difference[0] != '\0';
}

static void test_expressions(void **state) {
  FILE *file = open_cases("expr_cases.jsonl");
  char *line = malloc(LINE_SIZE);
  int wrong = 0;
  int count = 0;
  (void)state;
  json_t *head = next_case(file, line);
  json_t *base = json_object_get(head, "manifest");
  char *request = json_dumps(json_object_get(head, "request"), 0);
  for (json_t *json = next_case(file, line); json != NULL; json = next_case(file, line)) {
    wrong += check_expression(base, request, json);
    count++;
    json_decref(json);
  }
  print_message("%d golden expressions, %d differ\n", count, wrong);
  json_decref(head);
  free(request);
  free(line);
  (void)fclose(file);
  assert_true(count > 100);
  assert_int_equal(wrong, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_plans),
                                     cmocka_unit_test(test_expressions)};
  folder = getenv("QUIRE_COMPAT_DIR");
  if (folder == NULL || folder[0] == '\0') {
    (void)fprintf(stderr,
                  "SKIPPED: QUIRE_COMPAT_DIR is not set: the golden plans and expressions of the "
                  "compatibility manifests were NOT checked\n");
    return 77;
  }
  return cmocka_run_group_tests(tests, NULL, NULL);
}
