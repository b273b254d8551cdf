/* Explanations through the public functions: which device is meant, and what is written when. */
#include "described_target.h"
#include "device_harness.h"

typedef struct sink {
  char text[4096];
  size_t length, calls;
} sink;

static void keep(void *user, const char *text, size_t length) {
  sink *into = user;
  into->calls++;
  size_t room = sizeof(into->text) - 1 - into->length;
  size_t count = length < room ? length : room;
  memcpy(into->text + into->length, text, count);
  into->length += count;
  into->text[into->length] = '\0';
}

static const int64_t shape[2] = {2, 3};
static const quire_request_tensor x = {"x", QUIRE_FLOAT32, 2, shape, NULL, NULL};

static quire_request make_request(void) {
  quire_request request;
  quire_request_init(&request);
  request.inputs = &x;
  request.input_count = 1;
  return request;
}

static void test_device(void **state) {
  (void)state;
  harness h;
  harness_open(&h, 1);
  quire_device_description webgpu = {.struct_size = sizeof(webgpu), .backend = "webgpu"};
  quire_device_description cpu = {.struct_size = sizeof(cpu), .backend = "cpu"};
  quire_device_description unnamed = {.struct_size = sizeof(unnamed)};
  const struct {
    quire_device *device;
    const quire_device_description *description;
    quire_status status;
    const char *contains;
  } cases[] = {
      {h.device, NULL, QUIRE_OK, "\"variant\""},
      {NULL, &cpu, QUIRE_OK, "\"variant\""},
      {h.device, &cpu, QUIRE_OK, "\"variant\""},
      {h.device, &unnamed, QUIRE_OK, "\"variant\""}, /* laid over the device's: still a cpu */
      {h.device, &webgpu, QUIRE_UNSUPPORTED, "requires.backend"},
      {NULL, &unnamed, QUIRE_UNSUPPORTED, "requires.backend"},
      {NULL, NULL, QUIRE_UNSUPPORTED, "requires.backend"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    sink out = {{0}, 0, 0};
    quire_request request = make_request();
    quire_error error;
    quire_status status = quire_explain(&h.scale, cases[i].device, cases[i].description, &request,
                                        QUIRE_EXPLAIN_JSON, keep, &out, &error);
    if (status != cases[i].status || strstr(out.text, cases[i].contains) == NULL) {
      fail_msg("case %zu: %s: %s", i, quire_status_name(status), out.text);
    }
  }
  harness_close(&h);
}

/* A description's features replace the device's; its limits and properties do, one by one. */
static void test_laid_over(void **state) {
  (void)state;
  harness h;
  harness_open(&h, 1);
  static const quire_named_value own[] = {{.name = "small", .type = QUIRE_VALUE_TYPE_INT, .i = 5},
                                          {.name = "large", .type = QUIRE_VALUE_TYPE_INT, .i = 6}};
  static const quire_named_value upper[] = {
      {.name = "large", .type = QUIRE_VALUE_TYPE_INT, .i = 9}};
  static const char *const features[] = {"invented"};
  const quire_device_description kept = h.device->description;
  h.device->description.limits = own;
  h.device->description.limit_count = 2;
  quire_device_description over = {.struct_size = sizeof(over),
                                   .features = features,
                                   .feature_count = 1,
                                   .limits = upper,
                                   .limit_count = 1};
  quire_arena arena;
  quire_arena_init(&arena, &h.memory.allocator);
  quire_described_target described;
  assert_int_equal(quire_describe_target(&h.scale, h.device, &over, &arena, &described, NULL),
                   QUIRE_OK);
  const quire_device_description *merged = &described.merged;
  assert_string_equal(merged->backend, "cpu");
  assert_int_equal(merged->feature_count, 1);
  assert_string_equal(merged->features[0], "invented");
  assert_int_equal(merged->limit_count, 2);
  assert_string_equal(merged->limits[0].name, "large");
  assert_int_equal(merged->limits[0].i, 9);
  assert_string_equal(merged->limits[1].name, "small");
  assert_int_equal(merged->limits[1].i, 5);
  quire_arena_release(&arena);
  h.device->description = kept;
  harness_close(&h);
}

static void test_malformed(void **state) {
  (void)state;
  harness h;
  harness_open(&h, 1);
  sink out = {{0}, 0, 0};
  quire_request request = make_request();
  request.struct_size = 0;
  quire_error error;
  assert_int_equal(
      quire_explain(&h.scale, NULL, NULL, &request, QUIRE_EXPLAIN_TEXT, keep, &out, &error),
      QUIRE_BAD_REQUEST);
  request = make_request();
  assert_int_equal(quire_explain(NULL, NULL, NULL, &request, QUIRE_EXPLAIN_TEXT, keep, &out, NULL),
                   QUIRE_BAD_REQUEST);
  assert_int_equal(quire_explain(&h.scale, NULL, NULL, NULL, QUIRE_EXPLAIN_TEXT, keep, &out, NULL),
                   QUIRE_BAD_REQUEST);
  assert_int_equal(
      quire_explain(&h.scale, NULL, NULL, &request, (quire_explain_format)7, keep, &out, NULL),
      QUIRE_BAD_REQUEST);
  assert_int_equal(
      quire_explain(&h.scale, NULL, NULL, &request, QUIRE_EXPLAIN_TEXT, NULL, &out, NULL),
      QUIRE_BAD_REQUEST);
  assert_int_equal(out.calls, 0);
  harness_close(&h);
}

/* A description that is no description: refused before anything is read or written. */
static void test_malformed_descriptions(void **state) {
  (void)state;
  harness h;
  harness_open(&h, 1);
  static const quire_named_value nameless[1] = {{.type = QUIRE_VALUE_TYPE_INT, .i = 1}};
  const struct {
    quire_device_description description;
    const char *subject;
  } cases[] = {
      {{.struct_size = 8}, "description"},
      {{.struct_size = sizeof(quire_device_description), .feature_count = 1}, "features"},
      {{.struct_size = sizeof(quire_device_description), .limit_count = 1}, "limits"},
      {{.struct_size = sizeof(quire_device_description), .adapter_count = 1}, "adapter"},
      {{.struct_size = sizeof(quire_device_description), .limits = nameless, .limit_count = 1},
       "limits"}};
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    sink out = {{0}, 0, 0};
    quire_request request = make_request();
    quire_error error;
    quire_status status = quire_explain(&h.scale, h.device, &cases[i].description, &request,
                                        QUIRE_EXPLAIN_TEXT, keep, &out, &error);
    if (status != QUIRE_BAD_REQUEST || out.length > 0 ||
        strcmp(error.subject, cases[i].subject) != 0) {
      fail_msg("case %zu: %s, written: \"%s\"", i, quire_status_name(status), out.text);
    }
  }
  harness_close(&h);
}

static void test_json(void **state) {
  (void)state;
  harness h;
  harness_open(&h, 1);
  static const char good[] =
      "{\"inputs\": {\"x\": {\"dtype\": \"float32\", \"shape\": [2, 3]}}, \"attributes\": {},"
      " \"device\": {\"backend\": \"cpu\"}}";
  static const char elsewhere[] =
      "{\"inputs\": {\"x\": {\"dtype\": \"float32\", \"shape\": [2, 3]}}, \"attributes\": {}}";
  static const char unknown[] =
      "{\"inputs\": {\"z\": {\"dtype\": \"float32\", \"shape\": [2]}}, \"attributes\": {}}";
  static const char broken[] = "{\"inputs\": ";
  const struct {
    const char *text;
    quire_status status;
    int refused;
  } cases[] = {{good, QUIRE_OK, 0},
               {elsewhere, QUIRE_UNSUPPORTED, 1},
               {unknown, QUIRE_UNSUPPORTED, 1},
               {broken, QUIRE_BAD_REQUEST, 0}};
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    sink out = {{0}, 0, 0};
    int refused = 7;
    quire_error error;
    quire_status status = quire_explain_json(&h.scale, cases[i].text, strlen(cases[i].text),
                                             QUIRE_EXPLAIN_TEXT, keep, &out, &refused, &error);
    if (status != cases[i].status || refused != cases[i].refused ||
        (out.length > 0) != (status == QUIRE_OK || refused)) {
      fail_msg("case %zu: %s, refused %d: %s (%s)", i, quire_status_name(status), refused, out.text,
               status == QUIRE_OK ? "" : error.message);
    }
  }
  harness_close(&h);
}

/* Memory that fails anywhere: a status, nothing written, nothing lost. */
static void test_memory(void **state) {
  (void)state;
  harness h;
  harness_open(&h, 1);
  size_t live = atomic_load(&h.memory.live);
  size_t sites = 0;
  size_t refused = 0;
  for (;; sites++) {
    sink out = {{0}, 0, 0};
    quire_request request = make_request();
    quire_device_description cpu = {.struct_size = sizeof(cpu), .backend = "cpu"};
    atomic_store(&h.memory.requests, 0);
    h.memory.fail_at = sites + 1;
    quire_status status =
        quire_explain(&h.scale, h.device, &cpu, &request, QUIRE_EXPLAIN_TEXT, keep, &out, NULL);
    bool failed = atomic_load(&h.memory.requests) >= h.memory.fail_at;
    bool written = status == QUIRE_OK;
    if ((!written && status != QUIRE_OUT_OF_MEMORY) || (!written && !failed) ||
        out.calls != (written ? 1 : 0)) {
      fail_msg("allocation %zu: %s, written: \"%s\"", sites + 1, quire_status_name(status),
               out.text);
    }
    refused += written ? 0 : 1;
    assert_int_equal(atomic_load(&h.memory.live), live);
    if (!failed) {
      break;
    }
  }
  h.memory.fail_at = 0;
  assert_true(sites >= 2 && refused >= 2);
  harness_close(&h);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_device),    cmocka_unit_test(test_laid_over),
      cmocka_unit_test(test_malformed), cmocka_unit_test(test_malformed_descriptions),
      cmocka_unit_test(test_json),      cmocka_unit_test(test_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
