#include "plan_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"

static char *copy_text(const char *text) {
  char *copy = malloc(strlen(text) + 1);
  assert_non_null(copy);
  return strcpy(copy, text);
}

char *fixture_text(const char *text) {
  char *copy = copy_text(text);
  for (char *c = copy; *c != '\0'; c++) {
    *c = (char)(*c == '\'' ? '"' : *c == '`' ? '\'' : *c);
  }
  return copy;
}

json_t *fixture_json(const char *text) {
  char *copy = fixture_text(text != NULL ? text : "{}");
  json_error_t error;
  json_t *json = json_loads(copy, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &error);
  if (json == NULL) {
    fail_msg("bad JSON in a table: %s near %s in %s", error.text, error.source, copy);
  }
  free(copy);
  return json;
}

void fixture_merge(json_t *base, const json_t *overlay) {
  const char *key;
  json_t *value;
  json_t *over = (json_t *)(uintptr_t)overlay;
  json_object_foreach(over, key, value) {
    json_t *old = json_object_get(base, key);
    if (json_is_null(value)) {
      json_object_del(base, key);
    } else if (json_is_object(old) && json_is_object(value)) {
      fixture_merge(old, value);
    } else {
      json_object_set_new(base, key, json_deep_copy(value));
    }
  }
}

quire_manifest *fixture_load(const json_t *manifest) {
  char *text = json_dumps(manifest, 0);
  assert_non_null(text);
  quire_manifest *loaded = NULL;
  quire_error error = {0};
  quire_status status = quire_manifest_load(&quire_default_allocator, text, strlen(text), NULL,
                                            NULL, &loaded, &error);
  if (status != QUIRE_OK) {
    fail_msg("the manifest does not load: %s\n%s", error.message, text);
  }
  free(text);
  return loaded;
}

quire_manifest *fixture_load_text(const char *text) {
  json_t *json = fixture_json(text);
  quire_manifest *manifest = fixture_load(json);
  json_decref(json);
  return manifest;
}

/* ---- planning ---- */

static quire_status describe(const quire_manifest *manifest, const quire_request *request,
                             const quire_target *target, quire_error *error) {
  quire_arena arena;
  quire_plan_description description;
  quire_arena_init(&arena, &quire_default_allocator);
  quire_status status = quire_plan_describe(manifest, request, target, &arena, &description, error);
  quire_arena_release(&arena);
  return status;
}

fixture_result fixture_plan(const quire_manifest *manifest, const char *request, size_t length,
                            const quire_registry *registry, quire_isa isa, const char *variant) {
  fixture_result result = {0};
  quire_arena arena;
  quire_json_request parsed;
  quire_text json;
  quire_text text;
  quire_target target;
  quire_error plain = {0};
  quire_arena_init(&arena, &quire_default_allocator);
  quire_text_init(&json, &quire_default_allocator);
  quire_text_init(&text, &quire_default_allocator);
  result.status = quire_request_parse(request, length, &arena, &parsed, &result.error);
  if (result.status == QUIRE_OK) {
    parsed.request.variant = variant;
    quire_target_init(&target, &parsed.device, registry, isa);
    result.status = quire_plan_explain(manifest, &parsed.request, &target, QUIRE_EXPLAIN_JSON,
                                       &quire_default_allocator, &json, &result.error);
    assert_int_equal(result.status,
                     quire_plan_explain(manifest, &parsed.request, &target, QUIRE_EXPLAIN_TEXT,
                                        &quire_default_allocator, &text, &plain));
    assert_int_equal(result.status, describe(manifest, &parsed.request, &target, &plain));
    assert_string_equal(result.error.message, plain.message);
  }
  if (json.length > 0) {
    json_error_t error;
    result.json = json_loads(quire_text_view(&json), JSON_REJECT_DUPLICATES, &error);
    if (result.json == NULL) {
      fail_msg("the explanation is no JSON: %s\n%s", error.text, quire_text_view(&json));
    }
  }
  result.text = copy_text(quire_text_view(&text));
  quire_text_release(&json);
  quire_text_release(&text);
  quire_arena_release(&arena);
  return result;
}

void fixture_release(fixture_result *result) {
  json_decref(result->json);
  free(result->text);
}

/* ---- comparison ---- */

enum { PATH_SIZE = 400, DIFFERENCE_SIZE = 2600 };

typedef struct comparison {
  int subset;
  char path[PATH_SIZE];
  char *out;
} comparison;

static int report(comparison *c, const json_t *got, const json_t *want) {
  char *got_text = got != NULL ? json_dumps(got, JSON_ENCODE_ANY) : NULL;
  char *want_text = want != NULL ? json_dumps(want, JSON_ENCODE_ANY) : NULL;
  (void)snprintf(c->out, DIFFERENCE_SIZE, "at $%s: got %.800s, want %.800s", c->path,
                 got_text != NULL ? got_text : "nothing",
                 want_text != NULL ? want_text : "nothing");
  free(got_text);
  free(want_text);
  return 0;
}

static int same(comparison *c, const json_t *got, const json_t *want);

static int same_numbers(const json_t *got, const json_t *want) {
  if (json_is_integer(got) && json_is_integer(want)) {
    return json_integer_value(got) == json_integer_value(want);
  }
  double a = json_number_value(got);
  double b = json_number_value(want);
  return !(a < b) && !(a > b);
}

static int same_objects(comparison *c, const json_t *got, const json_t *want) {
  size_t length = strlen(c->path);
  const char *key;
  json_t *value;
  json_t *map = (json_t *)(uintptr_t)want;
  json_object_foreach(map, key, value) {
    (void)snprintf(c->path + length, PATH_SIZE - length, ".%s", key);
    if (!same(c, json_object_get(got, key), value)) {
      return 0;
    }
    c->path[length] = '\0';
  }
  map = (json_t *)(uintptr_t)got;
  json_object_foreach(map, key, value) {
    if (!c->subset && json_object_get(want, key) == NULL) {
      (void)snprintf(c->path + length, PATH_SIZE - length, ".%s", key);
      return report(c, value, NULL);
    }
  }
  return 1;
}

static int same_lists(comparison *c, const json_t *got, const json_t *want) {
  size_t length = strlen(c->path);
  if (json_array_size(got) != json_array_size(want)) {
    return report(c, got, want);
  }
  for (size_t i = 0; i < json_array_size(want); i++) {
    (void)snprintf(c->path + length, PATH_SIZE - length, "[%zu]", i);
    if (!same(c, json_array_get(got, i), json_array_get(want, i))) {
      return 0;
    }
    c->path[length] = '\0';
  }
  return 1;
}

static int same(comparison *c, const json_t *got, const json_t *want) {
  if (json_is_object(want) && json_is_object(got)) {
    return same_objects(c, got, want);
  }
  if (json_is_array(want) && json_is_array(got)) {
    return same_lists(c, got, want);
  }
  if (json_is_number(want) && json_is_number(got)) {
    return same_numbers(got, want) ? 1 : report(c, got, want);
  }
  return json_equal(got, want) ? 1 : report(c, got, want);
}

const char *fixture_difference(const json_t *got, const json_t *want, int subset) {
  static char text[DIFFERENCE_SIZE];
  comparison c = {.subset = subset, .out = text};
  text[0] = '\0';
  (void)same(&c, got, want);
  return text;
}

/* ---- tables ---- */

static int complain(const char *name, const char *what, const char *got, const char *want) {
  print_error("%s: %s: got %s, want %s\n", name, what, got, want);
  return 1;
}

static int check_row(const fixture_case *row, const fixture_result *result) {
  int wrong = 0;
  if (result->status != row->status) {
    wrong += complain(row->name, "status", quire_status_name(result->status),
                      quire_status_name(row->status));
    print_error("  %s\n", result->error.message);
  }
  if (row->expect != NULL) {
    json_t *want = fixture_json(row->expect);
    const char *difference = fixture_difference(result->json, want, 1);
    if (difference[0] != '\0') {
      wrong += complain(row->name, "explanation", difference, "");
    }
    json_decref(want);
  }
  if (row->rule != NULL && strcmp(row->rule, result->error.rule) != 0) {
    wrong += complain(row->name, "rule", result->error.rule, row->rule);
  }
  if (row->subject != NULL && strcmp(row->subject, result->error.subject) != 0) {
    wrong += complain(row->name, "subject", result->error.subject, row->subject);
  }
  const char *told = result->status == QUIRE_OK ? result->text : result->error.message;
  if (row->message != NULL && strstr(told, row->message) == NULL) {
    wrong += complain(row->name, "message", told, row->message);
  }
  return wrong;
}

void fixture_run(const char *base_manifest, const char *base_request, const fixture_case *cases,
                 size_t count, const quire_registry *registry, quire_isa isa) {
  int wrong = 0;
  for (size_t i = 0; i < count; i++) {
    json_t *manifest = fixture_json(base_manifest);
    json_t *request = fixture_json(base_request);
    json_t *over = fixture_json(cases[i].manifest);
    fixture_merge(manifest, over);
    json_decref(over);
    over = fixture_json(cases[i].request);
    fixture_merge(request, over);
    json_decref(over);
    quire_manifest *loaded = fixture_load(manifest);
    char *text = json_dumps(request, 0);
    fixture_result result =
        fixture_plan(loaded, text, strlen(text), registry, isa, cases[i].variant);
    wrong += check_row(&cases[i], &result);
    fixture_release(&result);
    free(text);
    quire_manifest_destroy(loaded);
    json_decref(manifest);
    json_decref(request);
  }
  assert_int_equal(wrong, 0);
}
