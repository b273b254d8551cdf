/* Tuned values: damaged files, keys, and which plans they change. */
#include "plan_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "counting_allocator.h"
#include "tuning.h"

static const char manifest_text[] =
    "{'domain': 'test', 'name': 'Op', 'sinceVersion': 3,"
    " 'inputs': {'x': {'onnx': 'query', 'dtype': 'T', 'rank': 2}},"
    " 'outputs': {'o': {'dtype': 'T', 'shape': 'shapes.x'}},"
    " 'attributes': {'heads': {'type': 'int'}, 'scale': {'type': 'float', 'default': 0},"
    "  'mode': {'type': 'string'}},"
    " 'typeConstraints': {'T': ['float32', 'float16']},"
    " 'tunables': {'WG': {'default': 64, 'choices': [32, 64, 128, 1024]},"
    "  'from': {'default': 4, 'choices': [4, 1000]}, 'fixed': {'default': 1}},"
    " 'variants': [{'id': 'long', 'priority': 1, 'when': ['dim(shapes.x, 0) >= tunables.from'],"
    "   'passes': [{'id': 'main', 'shader': 'a', 'bindings': ['x', 'o'],"
    "    'workgroup': ['tunables.WG', 1, 1],"
    "    'dispatch': {'threads': 'numel(shapes.x)', 'workgroupSize': 'tunables.WG'}}]},"
    "  {'id': 'short', 'passes': [{'id': 'main', 'shader': 'a', 'bindings': ['x', 'o'],"
    "    'dispatch': {'x': 1}}]}]}";

/* ---- files ---- */

#define KEY "'operator': 'test.Op', 'manifest': 'm', 'variant': 'v', 'adapter': 'a', 'class': 'c'"
#define FILE_OF(entries) "{'format': 'quire-tuning', 'version': 1, 'entries': [" entries "]}"

static const struct {
  const char *text, *subject, *message;
} damaged[] = {
    {"", "tuning", "line"},
    {"{'format': 'quire-tuning', 'version': 1, 'entries': [", "tuning", "line 1"},
    {"[]", "tuning", "is no tuning file"},
    {"{}", "tuning", "is no tuning file"},
    {"{'format': 1, 'version': 1, 'entries': []}", "tuning", "is no tuning file"},
    {"{'format': 'quire-tuning', 'entries': []}", "tuning.version", "is not 1"},
    {"{'format': 'quire-tuning', 'version': 2, 'entries': []}", "tuning.version", "is not 1"},
    {"{'format': 'quire-tuning', 'version': '1', 'entries': []}", "tuning.version", "is not 1"},
    {"{'format': 'quire-tuning', 'version': 1}", "tuning.entries", "is missing"},
    {"{'format': 'quire-tuning', 'version': 1, 'entries': {}}", "tuning.entries", "a list"},
    {"{'format': 'quire-tuning', 'version': 1, 'entries': [], 'x': 1}", "tuning.x", "unknown"},
    {FILE_OF("1"), "tuning.entries[0]", "an object"},
    {FILE_OF("{" KEY "}"), "tuning.entries[0].tunables", "is missing"},
    {FILE_OF("{" KEY ", 'tunables': []}"), "tuning.entries[0].tunables", "an object"},
    {FILE_OF("{" KEY ", 'tunables': {'WG': [1]}}"), "tuning.entries[0].tunables.WG", "a number"},
    {FILE_OF("{" KEY ", 'tunables': {'WG': 1, 'WG': 2}}"), "tuning", "duplicate"},
    {FILE_OF("{" KEY ", 'tunables': {'WG': NaN}}"), "tuning", "line 1"},
    {FILE_OF("{" KEY ", 'tunables': {'WG': 1e999}}"), "tuning", "line 1"},
    {FILE_OF("{" KEY ", 'tunables': {}, 'note': ''}"), "tuning.entries[0].note", "unknown"},
    {FILE_OF("{'operator': 'test.Op', 'tunables': {}}"), "tuning.entries[0].manifest", "missing"},
    {FILE_OF("{'operator': 7, 'tunables': {}}"), "tuning.entries[0].operator", "a string"},
    {FILE_OF("{" KEY ", 'tunables': {}}, {" KEY ", 'tunables': {'WG': 32}}"), "tuning.entries[1]",
     "before it"},
};

static void test_damaged_files(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof damaged / sizeof *damaged; ++i) {
    quire_arena arena;
    quire_tuning tuning;
    quire_error error;
    char *text = fixture_text(damaged[i].text);
    quire_arena_init(&arena, &quire_default_allocator);
    quire_status status = quire_tuning_parse(text, strlen(text), &arena, &tuning, &error);
    if (status != QUIRE_BAD_REQUEST || strcmp(error.subject, damaged[i].subject) != 0 ||
        strstr(error.message, damaged[i].message) == NULL || tuning.count != 0) {
      fail_msg("row %zu: %s, %s: %s", i, quire_status_name(status), error.subject, error.message);
    }
    quire_arena_release(&arena);
    free(text);
  }
}

/* Every text that begins like a sound one, and every text with one byte changed, is read or refused
   without a fault (the sanitizers look on). */
static void test_cut_and_changed_files(void **state) {
  (void)state;
  char *sound =
      fixture_text(FILE_OF("{" KEY ", 'tunables': {'WG': 32, 'a': true, 'b': 'x', 'c': 0.5}}"));
  const size_t length = strlen(sound);
  for (size_t i = 0; i < 2 * length; ++i) {
    quire_arena arena;
    quire_tuning tuning;
    quire_error error;
    char *text = fixture_text(sound);
    if (i >= length) {
      text[i - length] = (char)(text[i - length] ^ 1);
    }
    quire_arena_init(&arena, &quire_default_allocator);
    const quire_status status =
        quire_tuning_parse(text, i < length ? i : length, &arena, &tuning, &error);
    assert_true(i >= length || status != QUIRE_OK);
    assert_true(status == QUIRE_OK || tuning.count == 0);
    quire_arena_release(&arena);
    free(text);
  }
  free(sound);
}

static void test_huge_and_deep_files(void **state) {
  (void)state;
  const size_t length = (4 << 20) + 1;
  char *text = malloc(length);
  assert_non_null(text);
  const struct {
    char filling;
    size_t length;
    const char *message;
  } rows[] = {{' ', length, "bytes"}, {'[', length - 1, "nested"}, {'[', 9, "nested"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    quire_arena arena;
    quire_tuning tuning;
    quire_error error;
    memset(text, rows[i].filling, rows[i].length);
    quire_arena_init(&arena, &quire_default_allocator);
    assert_int_equal(quire_tuning_parse(text, rows[i].length, &arena, &tuning, &error),
                     QUIRE_LIMIT);
    assert_non_null(strstr(error.message, rows[i].message));
    quire_arena_release(&arena);
  }
  free(text);
}

/* ---- plans ---- */

/* A manifest, a device with a name, and a call of it. */
typedef struct world {
  quire_manifest *manifest;
  quire_named_value adapter[1], attributes[2], tunable;
  quire_device_description device;
  int64_t shape[2];
  quire_request_tensor input;
  quire_request request;
  quire_tuning_entry entry;
  quire_named_value values[2];
  quire_tuning tuning;
  quire_text key[3];
} world;

static quire_named_value integer(const char *name, int64_t i) {
  return (quire_named_value){.name = name, .type = QUIRE_VALUE_TYPE_INT, .i = i};
}

static void open_world(world *w, int64_t rows) {
  memset(w, 0, sizeof *w);
  w->manifest = fixture_load_text(manifest_text);
  w->adapter[0] =
      (quire_named_value){.name = "device", .type = QUIRE_VALUE_TYPE_STRING, .s = "test card"};
  w->device = (quire_device_description){
      .struct_size = sizeof w->device, .adapter = w->adapter, .adapter_count = 1};
  w->shape[0] = rows;
  w->shape[1] = 100;
  w->input =
      (quire_request_tensor){.name = "x", .dtype = QUIRE_FLOAT32, .ndim = 2, .shape = w->shape};
  w->attributes[0] = integer("heads", 8);
  w->attributes[1] =
      (quire_named_value){.name = "scale", .type = QUIRE_VALUE_TYPE_FLOAT, .f = 0.25};
  w->request = (quire_request){.struct_size = sizeof w->request,
                               .naming = QUIRE_NAMES_MANIFEST,
                               .inputs = &w->input,
                               .input_count = 1,
                               .attributes = w->attributes,
                               .attribute_count = 2};
  for (size_t i = 0; i < 3; ++i) {
    quire_text_init(&w->key[i], &quire_default_allocator);
  }
  quire_tuning_write_manifest(w->manifest, &w->key[0]);
  w->entry = (quire_tuning_entry){.op = "test.Op",
                                  .manifest = quire_text_view(&w->key[0]),
                                  .variant = "long",
                                  .adapter = " |  | test card | ",
                                  .problem = "query:float32[16, 128] heads=8 scale=*",
                                  .tunables = w->values,
                                  .tunable_count = 1};
  w->values[0] = integer("WG", 32);
  w->tuning = (quire_tuning){&w->entry, 1};
}

static void close_world(world *w) {
  for (size_t i = 0; i < 3; ++i) {
    quire_text_release(&w->key[i]);
  }
  quire_manifest_destroy(w->manifest);
}

/* Plans twice: the dispatch of the description must be that of the explanation, whose end says
   `told`. */
static void expect_plan(world *w, uint32_t groups, const char *told) {
  quire_arena arena;
  quire_target target;
  quire_plan_description description;
  quire_text text;
  quire_error error;
  quire_arena_init(&arena, &quire_default_allocator);
  quire_text_init(&text, &quire_default_allocator);
  quire_target_init(&target, &w->device, NULL, QUIRE_ISA_BEST);
  target.tuning = &w->tuning;
  assert_int_equal(
      quire_plan_describe(w->manifest, &w->request, &target, &arena, &description, &error),
      QUIRE_OK);
  assert_int_equal(description.passes[0].dispatch[0], groups);
  assert_int_equal(quire_plan_explain(w->manifest, &w->request, &target, QUIRE_EXPLAIN_JSON,
                                      &quire_default_allocator, &text, &error),
                   QUIRE_OK);
  char dispatch[64];
  (void)snprintf(dispatch, sizeof dispatch, "\"dispatch\": [%u, 1, 1]", (unsigned)groups);
  if (strstr(quire_text_view(&text), dispatch) == NULL ||
      strstr(quire_text_view(&text), told) == NULL) {
    fail_msg("want %s and %s in %s", dispatch, told, quire_text_view(&text));
  }
  quire_text_release(&text);
  quire_text_init(&text, &quire_default_allocator);
  assert_int_equal(quire_plan_explain(w->manifest, &w->request, &target, QUIRE_EXPLAIN_TEXT,
                                      &quire_default_allocator, &text, &error),
                   QUIRE_OK);
  assert_non_null(strstr(quire_text_view(&text), "\ntuned values: "));
  quire_text_release(&text);
  quire_arena_release(&arena);
}

static void test_values_in_force(void **state) {
  (void)state;
  world w;
  open_world(&w, 10);
  expect_plan(&w, 32, "\"tuned\": {\"tunables\": {\"WG\": 32}}}");
  w.shape[0] = 9; /* the same class */
  expect_plan(&w, 29, "\"tuned\": {\"tunables\": {\"WG\": 32}}}");
  w.attributes[1].f = 0.5; /* of floats only whether they are zero */
  expect_plan(&w, 29, "\"tuned\": {\"tunables\": {\"WG\": 32}}}");
  w.entry.tunable_count = 0;
  expect_plan(&w, 15, "\"tuned\": {\"tunables\": {}}}");
  close_world(&w);
}

/* Any other key leaves the manifest's own values in force. */
static void test_other_keys(void **state) {
  (void)state;
  world w;
  open_world(&w, 10);
  const quire_tuning_entry good = w.entry;
  const char **const members[] = {&w.entry.op, &w.entry.manifest, &w.entry.variant,
                                  &w.entry.adapter, &w.entry.problem};
  for (size_t i = 0; i < sizeof members / sizeof *members; ++i) {
    *members[i] = "other";
    expect_plan(&w, 16, "\"reason\": \"no entry");
    w.entry = good;
  }
  w.shape[0] = 17;
  expect_plan(&w, 27, "\"reason\": \"no entry");
  w.shape[0] = 10;
  w.attributes[1].f = 0;
  expect_plan(&w, 16, "\"reason\": \"no entry");
  w.attributes[1].f = 0.25;
  w.attributes[0].i = 4;
  expect_plan(&w, 16, "\"reason\": \"no entry");
  w.attributes[0].i = 8;
  w.device.adapter_count = 0; /* an adapter without a name has no values */
  w.entry.adapter = "";
  expect_plan(&w, 16, "\"reason\": \"no entry");
  close_world(&w);
}

/* Values that the manifest does not offer, or that its checks refuse, are ignored with the reason.
 */
static void test_hostile_values(void **state) {
  (void)state;
  world w;
  open_world(&w, 10);
  const struct {
    quire_named_value value;
    const char *reason;
  } rows[] = {
      {integer("WG", 33), "WG has a value that is none of its choices"},
      {integer("WG", 0), "WG has a value that is none of its choices"},
      {integer("WG", -1), "WG has a value that is none of its choices"},
      {{.name = "WG", .type = QUIRE_VALUE_TYPE_STRING, .s = "64"}, "none of its choices"},
      {{.name = "WG", .type = QUIRE_VALUE_TYPE_BOOL, .i = 1}, "none of its choices"},
      {{.name = "WG", .type = QUIRE_VALUE_TYPE_FLOAT, .f = 32.5}, "none of its choices"},
      {integer("fixed", 1), "fixed has a value that is none of its choices"},
      {integer("nothing", 1), "nothing is no tunable"},
      {integer("WG", 1024), "there is no plan with its values"}, /* above the device's limit */
      {integer("from", 1000), "its values select another variant"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    w.values[0] = rows[i].value;
    expect_plan(&w, 16, rows[i].reason);
  }
  w.values[0] = integer("WG", 32);
  w.tunable = integer("WG", 128);
  w.request.tunables = &w.tunable;
  w.request.tunable_count = 1;
  expect_plan(&w, 8, "the request has tunables of its own");
  close_world(&w);
}

/* ---- memory ---- */

/* Reads a file, and explains with its values, with one allocation refused. */
static quire_status read_and_explain(world *w, const quire_allocator *allocator,
                                     quire_error *error) {
  quire_arena arena;
  quire_text file;
  quire_text told;
  quire_tuning tuning;
  quire_target target;
  quire_arena_init(&arena, allocator);
  quire_text_init(&file, &quire_default_allocator);
  quire_text_init(&told, allocator);
  quire_text_format(&file,
                    "{\"format\": \"quire-tuning\", \"version\": 1, \"entries\": [{"
                    "\"operator\": \"%s\", \"manifest\": \"%s\", \"variant\": \"%s\", "
                    "\"adapter\": \"%s\", \"class\": \"%s\", \"tunables\": {\"WG\": 32}}]}",
                    w->entry.op, w->entry.manifest, w->entry.variant, w->entry.adapter,
                    w->entry.problem);
  quire_status status =
      quire_tuning_parse(quire_text_view(&file), file.length, &arena, &tuning, error);
  if (status == QUIRE_OK) {
    quire_target_init(&target, &w->device, NULL, QUIRE_ISA_BEST);
    target.tuning = &tuning;
    status = quire_plan_explain(w->manifest, &w->request, &target, QUIRE_EXPLAIN_JSON, allocator,
                                &told, error);
  }
  if (status == QUIRE_OK) {
    assert_non_null(strstr(quire_text_view(&told), "\"tuned\": {\"tunables\": {\"WG\": 32}}"));
  }
  quire_text_release(&told);
  quire_text_release(&file);
  quire_arena_release(&arena);
  return status;
}

/* Every allocation fails in turn: a status each time, and nothing leaks. */
static void test_memory(void **state) {
  (void)state;
  world w;
  open_world(&w, 10);
  quire_status status = QUIRE_OUT_OF_MEMORY;
  size_t failures = 0;
  for (size_t fail_at = 1; status == QUIRE_OUT_OF_MEMORY && fail_at < 200; fail_at++) {
    counting_allocator counting;
    counting_allocator_init(&counting);
    counting.fail_at = fail_at;
    quire_error error;
    status = read_and_explain(&w, &counting.allocator, &error);
    assert_int_equal(counting.live, 0);
    assert_true(status == QUIRE_OK || error.status == QUIRE_OUT_OF_MEMORY);
    failures += status == QUIRE_OUT_OF_MEMORY ? 1 : 0;
  }
  assert_int_equal(status, QUIRE_OK);
  assert_true(failures > 5);
  close_world(&w);
}

/* The key that a plan tells is the one that is looked for. */
static void test_key_of_plan(void **state) {
  (void)state;
  world w;
  open_world(&w, 10);
  quire_arena arena;
  quire_target target;
  quire_plan_description description;
  quire_text text;
  quire_arena_init(&arena, &quire_default_allocator);
  quire_text_init(&text, &quire_default_allocator);
  quire_target_init(&target, &w.device, NULL, QUIRE_ISA_BEST);
  assert_int_equal(quire_plan_describe(w.manifest, &w.request, &target, &arena, &description, NULL),
                   QUIRE_OK);
  quire_plan_write_tuning_key(&description, &text);
  json_t *got = json_loads(quire_text_view(&text), JSON_REJECT_DUPLICATES, NULL);
  json_t *want =
      json_pack("{s:s, s:s, s:s, s:s, s:s}", "operator", w.entry.op, "manifest", w.entry.manifest,
                "variant", w.entry.variant, "adapter", w.entry.adapter, "class", w.entry.problem);
  assert_string_equal(fixture_difference(got, want, 0), "");
  json_decref(got);
  json_decref(want);
  quire_text_release(&text);
  quire_arena_release(&arena);
  close_world(&w);
}

/* Another text of a manifest has another key. */
static void test_digest(void **state) {
  (void)state;
  json_t *json = fixture_json(manifest_text);
  quire_manifest *first = fixture_load(json);
  json_t *other = fixture_json("{'tunables': {'fixed': {'default': 2}}}");
  fixture_merge(json, other);
  quire_manifest *second = fixture_load(json);
  assert_true(first->digest != second->digest);
  quire_manifest_destroy(first);
  quire_manifest_destroy(second);
  json_decref(json);
  json_decref(other);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_damaged_files),
      cmocka_unit_test(test_cut_and_changed_files),
      cmocka_unit_test(test_huge_and_deep_files),
      cmocka_unit_test(test_values_in_force),
      cmocka_unit_test(test_other_keys),
      cmocka_unit_test(test_hostile_values),
      cmocka_unit_test(test_key_of_plan),
      cmocka_unit_test(test_digest),
      cmocka_unit_test(test_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
