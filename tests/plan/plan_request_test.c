/* Requests: malformed JSON, malformed records, both namings, lack of memory, steps of evaluation.
 */
#include "plan_fixture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "counting_allocator.h"

static const char manifest_text[] =
    "{'domain': 'test', 'name': 'Op', 'sinceVersion': 1,"
    " 'inputs': {'x': {'onnx': 'query', 'dtype': 'T', 'rank': 2},"
    "  'c': {'onnx': 'cache', 'dtype': 'T', 'optional': true}},"
    " 'outputs': {'o': {'onnx': 'output', 'dtype': 'T', 'shape': 'shapes.x'},"
    "  'c': {'onnx': 'cache_out', 'dtype': 'T', 'optional': true}},"
    " 'attributes': {'heads': {}, 'scale': {'default': 1}},"
    " 'typeConstraints': {'T': ['float32', 'float16']},"
    " 'tunables': {'WG': {'default': 64}},"
    " 'derive': {'count': 'dim(shapes.x, 0)', 'heavy': 'count + attrs.scale'},"
    " 'variants': [{'id': 'gpu', 'passes': [{'id': 'main', 'shader': 'a', 'bindings': ['x', 'o'],"
    "  'dispatch': {'x': 'count'}}]}]}";

/* ---- malformed JSON ---- */

typedef struct malformed_case {
  const char *text;
  const char *path;    /* the error's subject */
  const char *message; /* part of it */
} malformed_case;

#define X "'inputs': {'x': {'dtype': 'float32', 'shape': [1, 2]}}"
#define REQUEST(members) "{" X ", 'attributes': {}, " members "}"

static const malformed_case malformed_cases[] = {
    {"", "request", "line"},
    {"[]", "$", "an object is expected, not a list"},
    {"{" X ", 'attributes': {}} 1", "request", "line 1"},
    {"{" X ", 'attributes': {}", "request", "line 1"},
    {"{" X ", 'attributes': {}, 'attributes': {}}", "request", "duplicate"},
    {"{" X ", 'attributes': {'a': NaN}}", "request", "line 1"},
    {"{" X ", 'attributes': {'a': 1e999}}", "request", "line 1"},
    {"{" X ", 'attributes': {'a': 9223372036854775808}}", "request", "line 1"},
    {"{" X ", 'attributes': {'a': '\\u0000'}}", "request", "line 1"},
    {"{'attributes': {}}", "$", "has no \"inputs\""},
    {"{" X "}", "$", "has no \"attributes\""},
    {REQUEST("'output': {}"), "$.output", "this member is unknown"},
    {REQUEST("'outputs': []"), "$.outputs", "an object is expected"},
    {"{'inputs': [], 'attributes': {}}", "$.inputs", "an object is expected"},
    {"{'inputs': {'x': 1}, 'attributes': {}}", "$.inputs.x", "an object is expected"},
    {"{'inputs': {'x': {'shape': []}}, 'attributes': {}}", "$.inputs.x", "has no \"dtype\""},
    {"{'inputs': {'x': {'dtype': 'int8'}}, 'attributes': {}}", "$.inputs.x", "has no \"shape\""},
    {"{'inputs': {'x': {'dtype': 'int8', 'shape': [], 'data': 1}}, 'attributes': {}}",
     "$.inputs.x.data", "this member is unknown"},
    {"{'inputs': {'x': {'dtype': 'half', 'shape': []}}, 'attributes': {}}", "$.inputs.x.dtype",
     "is no element type"},
    {"{'inputs': {'x': {'dtype': 3, 'shape': []}}, 'attributes': {}}", "$.inputs.x.dtype",
     "a string is expected"},
    {"{'inputs': {'x': {'dtype': 'int8', 'shape': 3}}, 'attributes': {}}", "$.inputs.x.shape",
     "a list is expected"},
    {"{'inputs': {'x': {'dtype': 'int8', 'shape': [1, -1]}}, 'attributes': {}}",
     "$.inputs.x.shape[1]", "is negative"},
    {"{'inputs': {'x': {'dtype': 'int8', 'shape': [1.5]}}, 'attributes': {}}",
     "$.inputs.x.shape[0]", "an integer is expected"},
    {"{'inputs': {'x': {'dtype': 'int8', 'shape': [1e300]}}, 'attributes': {}}",
     "$.inputs.x.shape[0]", "an integer is expected"},
    {"{'inputs': {'x': {'dtype': 'int8', 'shape': [true]}}, 'attributes': {}}",
     "$.inputs.x.shape[0]", "an integer is expected, not a boolean"},
    {"{'inputs': {'x': {'dtype': 'int8', 'shape': [1,1,1,1,1,1,1,1,1]}}, 'attributes': {}}",
     "$.inputs.x.shape", "has 9 entries"},
    {"{'inputs': {'x': {'dtype': 'int8', 'shape': [1], 'strides': [1, 1]}}, 'attributes': {}}",
     "$.inputs.x.strides", "another length"},
    {"{'inputs': {'x': {'dtype': 'int8', 'shape': [1], 'strides': ['1']}}, 'attributes': {}}",
     "$.inputs.x.strides[0]", "an integer is expected"},
    {REQUEST("'outputs': {'o': {'strides': [1]}}"), "$.outputs.o.strides", "another length"},
    {REQUEST("'outputs': {'o': null}"), "$.outputs.o", "an object is expected, not null"},
    {REQUEST("'alias': {'o': 1}"), "$.alias.o", "a string is expected"},
    {REQUEST("'alias': 'o'"), "$.alias", "an object is expected"},
    {"{" X ", 'attributes': {'heads': [1]}}", "$.attributes.heads", "a number, string or boolean"},
    {"{" X ", 'attributes': {'heads': null}}", "$.attributes.heads", "not null"},
    {"{" X ", 'attributes': 1}", "$.attributes", "an object is expected"},
    {REQUEST("'tunables': {'WG': {}}"), "$.tunables.WG", "a number, string or boolean"},
    {REQUEST("'dtypes': {'T': 1}"), "$.dtypes.T", "a string is expected"},
    {REQUEST("'precision': 'slow'"), "$.precision", "must be \"exact\" or \"fast\""},
    {REQUEST("'precision': 1"), "$.precision", "must be"},
    {REQUEST("'device': 1"), "$.device", "an object is expected"},
    {REQUEST("'device': {'speed': 1}"), "$.device.speed", "this member is unknown"},
    {REQUEST("'device': {'backend': 'abacus'}"), "$.device.backend", "must be"},
    {REQUEST("'device': {'features': {}}"), "$.device.features", "a list is expected"},
    {REQUEST("'device': {'features': ['a', 1]}"), "$.device.features[1]", "a string is expected"},
    {REQUEST("'device': {'limits': {'maxBufferSize': -1}}"), "$.device.limits.maxBufferSize",
     "is negative"},
    {REQUEST("'device': {'limits': {'maxBufferSize': 1.5}}"), "$.device.limits.maxBufferSize",
     "an integer is expected"},
    {REQUEST("'device': {'adapterInfo': {'vendor': []}}"), "$.device.adapterInfo.vendor",
     "a number, string or boolean"},
};

static int check_malformed(const quire_manifest *manifest, const char *text, const char *path,
                           const char *message) {
  fixture_result result = fixture_plan(manifest, text, strlen(text), NULL, QUIRE_ISA_BEST, NULL);
  int wrong = result.status != QUIRE_BAD_REQUEST || result.json != NULL ||
              strcmp(result.error.subject, path) != 0 ||
              strstr(result.error.message, message) == NULL;
  if (wrong) {
    print_error("%.200s\n  %s, subject %s: %s\n", text, quire_status_name(result.status),
                result.error.subject, result.error.message);
  }
  fixture_release(&result);
  return wrong;
}

static void test_malformed(void **state) {
  quire_manifest *manifest = fixture_load_text(manifest_text);
  int wrong = 0;
  (void)state;
  for (size_t i = 0; i < sizeof malformed_cases / sizeof *malformed_cases; i++) {
    char *text = fixture_text(malformed_cases[i].text);
    wrong += check_malformed(manifest, text, malformed_cases[i].path, malformed_cases[i].message);
    free(text);
  }
  quire_manifest_destroy(manifest);
  assert_int_equal(wrong, 0);
}

static void test_big_texts(void **state) {
  enum { SIZE = 1 << 20 };
  quire_manifest *manifest = fixture_load_text(manifest_text);
  char *text = malloc(SIZE + 1);
  assert_non_null(text);
  (void)state;
  memset(text, '[', SIZE);
  text[SIZE] = '\0';
  assert_int_equal(check_malformed(manifest, text, "request", "line 1"), 0);
  int head = snprintf(text, SIZE, "{\"inputs\": {}, \"attributes\": {}, \"");
  memset(text + head, 'a', (size_t)(SIZE - head));
  memcpy(text + SIZE - 5, "\": 1}", 5);
  fixture_result result = fixture_plan(manifest, text, SIZE, NULL, QUIRE_ISA_BEST, NULL);
  assert_int_equal(result.status, QUIRE_BAD_REQUEST);
  assert_non_null(strstr(result.error.message, "unknown"));
  fixture_release(&result);
  free(text);
  quire_manifest_destroy(manifest);
}

/* A map or list of a request with `count` entries; the text is to be freed. */
static char *make_many(const char *head, const char *entry, const char *tail, int count) {
  const size_t size = strlen(head) + (size_t)count * (strlen(entry) + 10) + strlen(tail) + 1;
  char *text = malloc(size);
  assert_non_null(text);
  size_t at = (size_t)snprintf(text, size, "%s", head);
  for (int i = 0; i < count; i++) {
    at += (size_t)snprintf(text + at, size - at, "%s\"n%d\"%s", i > 0 ? "," : "", i, entry);
  }
  (void)snprintf(text + at, size - at, "%s", tail);
  char *all = fixture_text(text);
  free(text);
  return all;
}

static void test_many_names(void **state) {
  static const struct {
    const char *head, *entry, *tail, *path;
  } rows[] = {
      {"{'inputs': {", ": {'dtype': 'int8', 'shape': []}", "}, 'attributes': {}}", "$.inputs"},
      {"{" X ", 'attributes': {", ": 1", "}}", "$.attributes"},
      {"{" X ", 'attributes': {}, 'outputs': {", ": {}", "}}", "$.outputs"},
      {"{" X ", 'attributes': {}, 'alias': {", ": 'x'", "}}", "$.alias"},
      {"{" X ", 'attributes': {}, 'tunables': {", ": 1", "}}", "$.tunables"},
      {"{" X ", 'attributes': {}, 'dtypes': {", ": 'int8'", "}}", "$.dtypes"},
      {"{" X ", 'attributes': {}, 'device': {'limits': {", ": 1", "}}}", "$.device.limits"},
      {"{" X ", 'attributes': {}, 'device': {'features': [", "", "]}}", "$.device.features"},
      {"{" X ", 'attributes': {}, 'device': {'adapterInfo': {", ": 1", "}}}",
       "$.device.adapterInfo"},
  };
  quire_manifest *manifest = fixture_load_text(manifest_text);
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char *text = make_many(rows[i].head, rows[i].entry, rows[i].tail, 1025);
    assert_int_equal(check_malformed(manifest, text, rows[i].path,
                                     "has 1025 entries, at most 1024 are possible"),
                     0);
    free(text);
    text = make_many(rows[i].head, rows[i].entry, rows[i].tail, 1024);
    fixture_result result = fixture_plan(manifest, text, strlen(text), NULL, QUIRE_ISA_BEST, NULL);
    assert_null(strstr(result.error.message, "entries"));
    fixture_release(&result);
    free(text);
  }
  quire_manifest_destroy(manifest);
}

/* Names may hold any byte; no control byte of them is in the text for people. */
static void test_control_bytes(void **state) {
  static const char hostile[] =
      "{'domain': 'te\\u001b[31mst', 'name': 'Op', 'sinceVersion': 1,"
      " 'inputs': {'x': {'dtype': 'float32'}}, 'outputs': {'o': {'dtype': 'float32', 'shape': "
      "[1]}},"
      " 'variants': [{'id': 'gpu', 'passes': [{'id': 'main', 'shader': 'a\\nselected\\u007f',"
      "  'bindings': ['x', 'o'], 'dispatch': {'x': 1}}]}]}";
  static const struct {
    const char *request, *line; /* one of the text's */
  } rows[] = {
      {"{" X ", 'attributes': {}}", "te?[31mst.Op version 1\n"},
      {"{" X ", 'attributes': {}}", "\npass main a?selected? dispatch 1 x 1 x 1\n"},
      {"{" X ", 'attributes': {'n\\u0007\\tame': 1}}", "n??ame"},
  };
  quire_manifest *manifest = fixture_load_text(hostile);
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char *text = fixture_text(rows[i].request);
    fixture_result result = fixture_plan(manifest, text, strlen(text), NULL, QUIRE_ISA_BEST, NULL);
    if (strstr(result.text, rows[i].line) == NULL) {
      fail_msg("no \"%s\" in\n%s", rows[i].line, result.text);
    }
    for (const char *at = result.text; *at != '\0'; at++) {
      assert_true(*at == '\n' || ((unsigned char)*at >= 0x20 && *at != 0x7f));
    }
    fixture_release(&result);
    free(text);
  }
  quire_manifest_destroy(manifest);
}

/* ---- requests as records ---- */

static const int64_t shape[9] = {2, 3, 1, 1, 1, 1, 1, 1, 1};
static const int64_t negative[2] = {2, -3};

static quire_status describe(const quire_manifest *manifest, const quire_request *request,
                             quire_plan_description *description, quire_arena *arena,
                             quire_error *error) {
  quire_target target;
  quire_target_init(&target, NULL, NULL, QUIRE_ISA_BEST);
  memset(error, 0, sizeof *error);
  return quire_plan_describe(manifest, request, &target, arena, description, error);
}

static void expect(const quire_manifest *manifest, const quire_request *request,
                   quire_status status, const char *message) {
  quire_plan_description description;
  quire_arena arena;
  quire_error error;
  quire_arena_init(&arena, &quire_default_allocator);
  quire_status got = describe(manifest, request, &description, &arena, &error);
  if (got != status || strstr(error.message, message) == NULL) {
    fail_msg("%s, want %s with \"%s\": %s", quire_status_name(got), quire_status_name(status),
             message, error.message);
  }
  quire_arena_release(&arena);
}

static void test_records(void **state) {
  quire_manifest *manifest = fixture_load_text(manifest_text);
  quire_request_tensor x[2] = {
      {.name = "query", .dtype = QUIRE_FLOAT32, .ndim = 2, .shape = shape}};
  quire_named_value attribute[2] = {{.name = "heads", .type = QUIRE_VALUE_TYPE_INT, .i = 4}};
  quire_request request = {.struct_size = sizeof request, .inputs = x, .input_count = 1};
  (void)state;
  expect(manifest, &request, QUIRE_OK, "");
  request.inputs = NULL;
  expect(manifest, &request, QUIRE_BAD_REQUEST, "inputs: is NULL, its count is 1");
  request.inputs = x;
  request.output_count = 2;
  expect(manifest, &request, QUIRE_BAD_REQUEST, "outputs: is NULL, its count is 2");
  request.output_count = 0;
  request.dtype_count = 1;
  expect(manifest, &request, QUIRE_BAD_REQUEST, "dtypes: is NULL, its count is 1");
  request.dtype_count = 0;
  request.naming = QUIRE_NAMES_MANIFEST;
  expect(manifest, &request, QUIRE_UNSUPPORTED, "query: is not an input of test.Op");
  request.naming = QUIRE_NAMES_OPERATOR;

  x[0].shape = negative;
  expect(manifest, &request, QUIRE_BAD_REQUEST, "query: dim 1 is -3");
  x[0].shape = shape;
  x[0].ndim = 9;
  expect(manifest, &request, QUIRE_BAD_REQUEST, "query: has 9 dimensions");
  x[0].ndim = -1;
  expect(manifest, &request, QUIRE_BAD_REQUEST, "query: has -1 dimensions");
  x[0].ndim = 2;
  x[0].shape = NULL;
  expect(manifest, &request, QUIRE_BAD_REQUEST, "query: has no shape");
  x[0].shape = shape;
  x[0].dtype = QUIRE_DTYPE_NONE;
  expect(manifest, &request, QUIRE_BAD_REQUEST, "query: element type 0 is unknown");
  x[0].dtype = (quire_dtype)QUIRE_DTYPE_COUNT;
  expect(manifest, &request, QUIRE_BAD_REQUEST, "query: element type 14 is unknown");
  x[0].dtype = QUIRE_FLOAT32;
  x[0].alias = "query";
  expect(manifest, &request, QUIRE_BAD_REQUEST, "only outputs take an alias");
  x[0].alias = NULL;
  x[0].name = NULL;
  expect(manifest, &request, QUIRE_BAD_REQUEST, "an input has no name");
  x[0].name = "query";
  x[1] = x[0];
  request.input_count = 2;
  expect(manifest, &request, QUIRE_BAD_REQUEST, "query: the input is given twice");
  request.input_count = 1;

  request.attributes = attribute;
  request.attribute_count = 1;
  expect(manifest, &request, QUIRE_OK, "");
  attribute[0].type = QUIRE_VALUE_TYPE_STRING;
  expect(manifest, &request, QUIRE_BAD_REQUEST, "heads: the value has no known kind");
  attribute[0].type = QUIRE_VALUE_TYPE_FLOAT;
  attribute[0].f = (double)NAN;
  expect(manifest, &request, QUIRE_BAD_ATTRIBUTE, "heads: is not a finite number");
  attribute[0].f = (double)-INFINITY;
  expect(manifest, &request, QUIRE_BAD_ATTRIBUTE, "heads: is not a finite number");
  attribute[0].f = 1;
  attribute[1] = attribute[0];
  request.attribute_count = 2;
  expect(manifest, &request, QUIRE_BAD_REQUEST, "heads: the attribute is given twice");
  request.attribute_count = 1;
  attribute[0].type = QUIRE_VALUE_TYPE_NONE;
  expect(manifest, &request, QUIRE_OK, "");
  quire_manifest_destroy(manifest);
}

static void test_scalars(void **state) {
  quire_manifest *manifest = fixture_load_text(manifest_text);
  const quire_request_tensor x = {
      .name = "query", .dtype = QUIRE_FLOAT32, .ndim = 2, .shape = shape};
  quire_named_value named[2] = {{.name = NULL, .type = QUIRE_VALUE_TYPE_INT, .i = 4}};
  quire_request request = {.struct_size = sizeof request, .inputs = &x, .input_count = 1};
  (void)state;
  request.attributes = named;
  request.attribute_count = 1;
  expect(manifest, &request, QUIRE_BAD_REQUEST, "has no name");
  named[0] = (quire_named_value){.name = "heads", .type = (quire_value_type)99};
  expect(manifest, &request, QUIRE_BAD_REQUEST, "heads: the value has no known kind");
  request.attribute_count = 0;
  request.tunables = named;
  request.tunable_count = 1;
  named[0] = (quire_named_value){.name = "nothing", .type = QUIRE_VALUE_TYPE_INT, .i = 4};
  expect(manifest, &request, QUIRE_BAD_REQUEST, "nothing: is not a tunable of test.Op");
  named[0].name = "WG";
  named[1] = named[0];
  expect(manifest, &request, QUIRE_OK, "");
  request.tunable_count = 2;
  expect(manifest, &request, QUIRE_BAD_REQUEST, "WG: the tunable is given twice");
  request.tunable_count = 0;
  request.dtypes = named;
  request.dtype_count = 1;
  named[0] = (quire_named_value){.name = "T", .type = QUIRE_VALUE_TYPE_INT, .i = 4};
  expect(manifest, &request, QUIRE_BAD_REQUEST, "T: the element type is not given by name");
  quire_manifest_destroy(manifest);
}

static void test_strides_need_a_shape(void **state) {
  static const int64_t strides[1] = {1};
  quire_manifest *manifest = fixture_load_text(manifest_text);
  const quire_request_tensor x = {
      .name = "query", .dtype = QUIRE_FLOAT32, .ndim = 2, .shape = shape};
  const quire_request_tensor y = {.name = "cache_out", .ndim = -1, .strides = strides};
  const quire_request request = {.struct_size = sizeof request,
                                 .inputs = &x,
                                 .input_count = 1,
                                 .outputs = &y,
                                 .output_count = 1};
  (void)state;
  expect(manifest, &request, QUIRE_BAD_REQUEST, "cache_out: has strides but no shape");
  quire_manifest_destroy(manifest);
}

/* The output side of an in-place tensor has a name of its own in calls by operator name. */
static void test_naming(void **state) {
  static const int64_t strides[1] = {5};
  quire_manifest *manifest = fixture_load_text(manifest_text);
  quire_request_tensor inputs[2] = {
      {.name = "cache", .dtype = QUIRE_FLOAT32, .ndim = 1, .shape = shape, .strides = strides},
      {.name = "query", .dtype = QUIRE_FLOAT32, .ndim = 2, .shape = shape}};
  quire_request_tensor outputs[2] = {{.name = "cache_out", .ndim = -1}};
  quire_request request = {.struct_size = sizeof request,
                           .inputs = inputs,
                           .input_count = 2,
                           .outputs = outputs,
                           .output_count = 1};
  quire_plan_description plan;
  quire_arena arena;
  quire_error error;
  (void)state;
  quire_arena_init(&arena, &quire_default_allocator);
  assert_int_equal(describe(manifest, &request, &plan, &arena, &error), QUIRE_OK);
  int32_t cache = quire_manifest_find_output(manifest, "cache_out");
  assert_true(plan.outputs[cache].given);
  assert_int_equal(plan.outputs[cache].alias, -1);
  assert_int_equal(plan.outputs[cache].ndim, 1);
  assert_int_equal(plan.outputs[cache].strides[0], 1);
  assert_true(plan.outputs[cache].dense);
  outputs[0].alias = "cache";
  assert_int_equal(describe(manifest, &request, &plan, &arena, &error), QUIRE_OK);
  assert_int_equal(plan.outputs[cache].alias, quire_manifest_find_key(manifest, "c"));
  assert_int_equal(plan.outputs[cache].strides[0], 5);
  outputs[1] = outputs[0];
  request.output_count = 2;
  expect(manifest, &request, QUIRE_BAD_REQUEST, "cache_out: the output is given twice");
  request.output_count = 1;
  request.inputs = &inputs[1];
  request.input_count = 1;
  request.output_count = 0;
  assert_int_equal(describe(manifest, &request, &plan, &arena, &error), QUIRE_OK);
  assert_false(plan.outputs[cache].present);
  assert_int_equal(plan.outputs[cache].ndim, 0);
  request.output_count = 1;
  outputs[0].name = "cache";
  assert_int_equal(describe(manifest, &request, &plan, &arena, &error), QUIRE_BAD_REQUEST);
  quire_arena_release(&arena);
  quire_manifest_destroy(manifest);
}

/* ---- memory ---- */

/* Fails every allocation of an explanation in turn: a status each time, and nothing leaks. */
static void test_memory(void **state) {
  quire_manifest *manifest = fixture_load_text(manifest_text);
  quire_request_tensor x = {.name = "query", .dtype = QUIRE_FLOAT32, .ndim = 2, .shape = shape};
  quire_request request = {.struct_size = sizeof request, .inputs = &x, .input_count = 1};
  quire_target target;
  quire_error error;
  (void)state;
  quire_target_init(&target, NULL, NULL, QUIRE_ISA_BEST);
  for (int refused = 0; refused < 2; refused++) {
    quire_status status = QUIRE_OUT_OF_MEMORY;
    x.dtype = refused ? QUIRE_INT8 : QUIRE_FLOAT32;
    for (size_t fail_at = 1; status == QUIRE_OUT_OF_MEMORY && fail_at < 100; fail_at++) {
      counting_allocator counting;
      counting_allocator_init(&counting);
      counting.fail_at = fail_at;
      quire_text text;
      quire_text_init(&text, &counting.allocator);
      status = quire_plan_explain(manifest, &request, &target, QUIRE_EXPLAIN_TEXT,
                                  &counting.allocator, &text, &error);
      if (status == QUIRE_OUT_OF_MEMORY) {
        assert_int_equal(error.status, QUIRE_OUT_OF_MEMORY);
        assert_true(counting.requests >= fail_at);
      }
      quire_text_release(&text);
      assert_int_equal(counting.live, 0);
    }
    assert_int_equal(status, refused ? QUIRE_BAD_TYPE : QUIRE_OK);
    assert_true(!refused || strstr(error.message, "must be among") != NULL);
  }
  quire_manifest_destroy(manifest);
}

/* ---- steps ---- */

static const char request[] =
    "{\"inputs\": {\"x\": {\"dtype\": \"float32\", \"shape\": [4, 6]}}, \"attributes\": {}}";

/* Each name uses the one before twice: values are remembered, or this takes for ever. */
static void test_steps(void **state) {
  quire_manifest *manifest = NULL;
  json_t *json = fixture_json(manifest_text);
  json_t *derive = json_object_get(json, "derive");
  (void)state;
  json_object_set_new(derive, "n0", json_string("count"));
  for (int i = 1; i <= 60; i++) {
    char name[20];
    char text[40];
    (void)snprintf(name, sizeof name, "n%d", i);
    (void)snprintf(text, sizeof text, "n%d - n%d + 1", i - 1, i - 1);
    json_object_set_new(derive, name, json_string(text));
  }
  json_object_set_new(json, "when", json_pack("[s]", "n60 == 1"));
  manifest = fixture_load(json);
  fixture_result result =
      fixture_plan(manifest, request, strlen(request), NULL, QUIRE_ISA_BEST, NULL);
  assert_int_equal(result.status, QUIRE_OK);
  fixture_release(&result);
  quire_manifest_destroy(manifest);
  json_decref(json);
}

/* More nodes than a plan may visit: a long field of a shared binding in many passes. */
static void test_step_limit(void **state) {
  enum { PASSES = 300, TERMS = 2040 };
  json_t *json = fixture_json(manifest_text);
  json_t *field = fixture_json("{'params': {'struct': [{'name': 'f', 'type': 'f32'}]}}");
  json_t *passes = json_array();
  char text[2 * TERMS + 10] = "count";
  (void)state;
  for (size_t i = 0; i < TERMS; i++) {
    memcpy(text + 5 + 2 * i, "+1", 3);
  }
  json_t *fields = json_object_get(json_object_get(field, "params"), "struct");
  json_object_set_new(json_array_get(fields, 0), "value", json_string(text));
  for (int i = 0; i < PASSES; i++) {
    json_array_append_new(
        passes, fixture_json("{'shader': 'a', 'bindings': ['params'], 'dispatch': {'x': 1}}"));
  }
  json_object_set_new(json, "bindings", field);
  json_object_set_new(json_array_get(json_object_get(json, "variants"), 0), "passes", passes);
  quire_manifest *manifest = fixture_load(json);
  fixture_result result =
      fixture_plan(manifest, request, strlen(request), NULL, QUIRE_ISA_BEST, NULL);
  assert_int_equal(result.status, QUIRE_LIMIT);
  assert_string_equal(json_string_value(json_object_get(result.json, "stage")), "error");
  assert_string_equal(json_string_value(json_object_get(result.json, "reason")), "limit");
  fixture_release(&result);
  quire_manifest_destroy(manifest);
  json_decref(json);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_scalars),      cmocka_unit_test(test_strides_need_a_shape),
      cmocka_unit_test(test_malformed),    cmocka_unit_test(test_big_texts),
      cmocka_unit_test(test_records),      cmocka_unit_test(test_naming),
      cmocka_unit_test(test_memory),       cmocka_unit_test(test_steps),
      cmocka_unit_test(test_step_limit),   cmocka_unit_test(test_many_names),
      cmocka_unit_test(test_control_bytes)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
