/* Contexts and operators through the public interface. */
#include <stdio.h>
#include <string.h>

#include "library_fixture.h"

static const char *const builtin[] = {
    "com.microsoft.PagedAttention", "com.microsoft.LinearAttention",
    "ai.onnx.LinearAttention",      "quire.PagedDecode",
    "quire.MergeAttentionStates",   "com.microsoft.CausalConvWithState",
    "ai.onnx.CausalConvWithState",  "quire.LinearAttentionReplay",
};
enum { BUILTIN_COUNT = sizeof builtin / sizeof builtin[0] };

static quire_context *make_context(void) {
  quire_context *context = NULL;
  quire_error error;
  if (quire_context_create(NULL, &context, &error) != QUIRE_OK) {
    fail_msg("%s", error.message);
  }
  return context;
}

static void options_are_checked(void **state) {
  (void)state;
  quire_error error;
  quire_context *context = (quire_context *)&error;
  quire_context_options options;
  quire_context_options_init(&options);
  options.struct_size = 3;
  assert_int_equal(quire_context_create(&options, &context, &error), QUIRE_BAD_REQUEST);
  assert_null(context);
  assert_non_null(strstr(error.message, "struct_size is 3"));
  assert_int_equal(quire_context_create(NULL, NULL, &error), QUIRE_BAD_REQUEST);

  quire_allocator half = {NULL, NULL, NULL};
  quire_context_options_init(&options);
  options.allocator = &half;
  assert_int_equal(quire_context_create(&options, &context, &error), QUIRE_BAD_REQUEST);
  assert_string_equal(error.subject, "allocator");
  quire_context_release(NULL);
  quire_context_options_init(NULL);
  quire_package_options_init(NULL);
}

static void all_memory_comes_from_the_allocator_and_goes_back(void **state) {
  (void)state;
  counting_allocator counting;
  counting_allocator_init(&counting);
  cpu_device cpu = open_cpu(&counting.allocator, 0);
  paged_case data;
  paged_case_init(&data);
  assert_int_equal(quire_paged_attention(cpu.device, &data.args, NULL), QUIRE_OK);
  assert_true(atomic_load(&counting.bytes) > 0);
  quire_context_release(cpu.context); /* the device keeps what it needs */
  assert_int_equal(quire_paged_attention(cpu.device, &data.args, NULL), QUIRE_OK);
  quire_device_release(cpu.device);
  assert_int_equal(atomic_load(&counting.bytes), 0);
}

static void operators_are_found_by_name(void **state) {
  (void)state;
  quire_context *context = make_context();
  assert_int_equal(quire_context_operator_count(context), BUILTIN_COUNT);
  for (size_t i = 0; i < BUILTIN_COUNT; i++) {
    const quire_operator *op = quire_context_find_operator(context, builtin[i]);
    assert_non_null(op);
    assert_string_equal(quire_operator_name(op), builtin[i]);
    assert_ptr_equal(quire_context_operator(context, i), op);
    assert_true(quire_operator_variant_count(op) >= 1);
    assert_string_equal(quire_operator_variant_backend(op, 0), "cpu");
    assert_non_null(quire_operator_variant_name(op, 0));
    assert_null(quire_operator_variant_name(op, quire_operator_variant_count(op)));
  }
  assert_null(quire_context_operator(context, BUILTIN_COUNT));
  static const struct {
    const char *bare;
    const char *qualified; /* NULL: not found */
  } names[] = {
      {"PagedAttention", "com.microsoft.PagedAttention"},
      {"PagedDecode", "quire.PagedDecode"},
      {"MergeAttentionStates", "quire.MergeAttentionStates"},
      {"LinearAttention", NULL}, /* two domains have one */
      {"pageddecode", NULL},
      {"", NULL},
  };
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    const quire_operator *op = quire_context_find_operator(context, names[i].bare);
    if (names[i].qualified == NULL) {
      assert_null(op);
    } else {
      assert_string_equal(quire_operator_name(op), names[i].qualified);
    }
  }
  assert_null(quire_context_find_operator(context, NULL));
  assert_null(quire_context_find_operator(NULL, "PagedDecode"));
  assert_int_equal(
      quire_operator_since_version(quire_context_find_operator(context, "ai.onnx.LinearAttention")),
      27);
  quire_context_release(context);
}

static void slots_are_inputs_then_outputs(void **state) {
  (void)state;
  quire_context *context = make_context();
  for (size_t i = 0; i < BUILTIN_COUNT; i++) {
    const quire_operator *op = quire_context_operator(context, i);
    int outputs_begun = 0;
    quire_slot slot;
    for (size_t s = 0; s < quire_operator_slot_count(op); s++) {
      assert_int_equal(quire_operator_slot(op, s, &slot), QUIRE_OK);
      assert_true(slot.is_output >= outputs_begun);
      outputs_begun = slot.is_output;
      assert_int_equal(quire_operator_find_slot(op, slot.name, slot.is_output), s);
    }
    assert_int_equal(outputs_begun, 1);
    assert_int_equal(quire_operator_slot(op, quire_operator_slot_count(op), &slot),
                     QUIRE_BAD_REQUEST);
  }
  const quire_operator *op = quire_context_find_operator(context, "PagedAttention");
  quire_slot slot;
  int32_t cache = quire_operator_find_slot(op, "key_cache", 0);
  int32_t cache_out = quire_operator_find_slot(op, "key_cache_out", 1);
  assert_true(cache >= 0 && cache_out > cache);
  assert_int_equal(quire_operator_slot(op, (size_t)cache_out, &slot), QUIRE_OK);
  assert_int_equal(slot.alias, cache);
  assert_string_equal(slot.key, "key_cache");
  assert_int_equal(slot.is_optional, 1);
  assert_int_equal(quire_operator_slot(op, (size_t)cache, &slot), QUIRE_OK);
  assert_int_equal(slot.alias, -1);
  assert_int_equal(slot.is_optional, 0);
  assert_int_equal(quire_operator_find_slot(op, "key_cache_out", 0), -1);
  assert_int_equal(quire_operator_find_slot(op, NULL, 0), -1);
  quire_context_release(context);
}

static void attributes_have_kinds_and_defaults(void **state) {
  (void)state;
  static const struct {
    const char *name;
    quire_value_type type, default_type;
    int64_t i;
    double f;
    const char *s;
  } wanted[] = {
      {"q_num_heads", QUIRE_VALUE_TYPE_INT, QUIRE_VALUE_TYPE_NONE, 0, 0, NULL},
      {"scale", QUIRE_VALUE_TYPE_FLOAT, QUIRE_VALUE_TYPE_FLOAT, 0, 0, NULL},
      {"chunk_size", QUIRE_VALUE_TYPE_INT, QUIRE_VALUE_TYPE_INT, 64, 0, NULL},
      {"update_rule", QUIRE_VALUE_TYPE_STRING, QUIRE_VALUE_TYPE_STRING, 0, 0, "gated_delta"},
      {"qk_l2_norm_epsilon", QUIRE_VALUE_TYPE_FLOAT, QUIRE_VALUE_TYPE_FLOAT, 0, 1e-6, NULL},
  };
  quire_context *context = make_context();
  const quire_operator *op = quire_context_find_operator(context, "com.microsoft.LinearAttention");
  quire_named_value value;
  quire_value_type type;
  size_t found = 0;
  for (size_t a = 0; a < quire_operator_attribute_count(op); a++) {
    assert_int_equal(quire_operator_attribute(op, a, &value, &type), QUIRE_OK);
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
      if (strcmp(value.name, wanted[i].name) == 0) {
        found++;
        assert_int_equal(type, wanted[i].type);
        assert_int_equal(value.type, wanted[i].default_type);
        assert_true(value.type != QUIRE_VALUE_TYPE_INT || value.i == wanted[i].i);
        assert_true(value.type != QUIRE_VALUE_TYPE_FLOAT || (float)value.f == (float)wanted[i].f);
        assert_true(value.type != QUIRE_VALUE_TYPE_STRING ||
                    (value.s != NULL && strcmp(value.s, "gated_delta") == 0));
      }
    }
  }
  assert_int_equal(found, sizeof wanted / sizeof wanted[0]);
  assert_int_equal(quire_operator_attribute(op, quire_operator_attribute_count(op), &value, &type),
                   QUIRE_BAD_REQUEST);
  quire_context_release(context);
}

/* ---- the caller's manifests ---- */

static const char good[] =
    "{\"domain\": \"test\", \"name\": \"Copy\", \"sinceVersion\": 3,"
    " \"inputs\": {\"x\": {\"dtype\": \"float32\", \"rank\": 1}},"
    " \"outputs\": {\"y\": {\"dtype\": \"float32\", \"rank\": 1, \"shape\": \"shapes.x\"}},"
    " \"variants\": [{\"id\": \"only\", "
    "\"passes\": [{\"id\": \"copy\", \"name\": \"Copy\", \"shader\": \"copy.wgsl\","
    " \"bindings\": [\"x\", \"y\"], \"dispatch\": {\"x\": 1}}]}]}";

/* The same for the CPU, with a kernel that no implementation has. */
#define PASS "\"passes\": [{\"id\": \"copy\", \"name\": \"Copy\", "
static const char shader_pass[] = PASS "\"shader\": \"copy.wgsl\"";
static const char native_pass[] =
    "\"requires\": {\"backend\": \"cpu\"}, " PASS "\"native\": \"no_such_kernel\"";

static void loaded_operators_outlive_their_context(void **state) {
  (void)state;
  counting_allocator counting;
  counting_allocator_init(&counting);
  quire_context_options options;
  quire_context_options_init(&options);
  options.allocator = &counting.allocator;
  quire_context *context = NULL;
  quire_operator *op = NULL;
  quire_error error;
  assert_int_equal(quire_context_create(&options, &context, &error), QUIRE_OK);
  if (quire_operator_load(context, good, sizeof good - 1, &op, &error) != QUIRE_OK) {
    fail_msg("%s", error.message);
  }
  quire_context_release(context);
  assert_string_equal(quire_operator_name(op), "test.Copy");
  assert_int_equal(quire_operator_since_version(op), 3);
  assert_int_equal(quire_operator_find_slot(op, "y", 1), 1);
  quire_operator_release(op);
  quire_operator_release(NULL);
  assert_int_equal(atomic_load(&counting.bytes), 0);
}

static void bad_manifests_are_refused(void **state) {
  (void)state;
  static const struct {
    const char *name;
    const char *from, *to; /* a change of `good`; from NULL: `to` is the whole text */
    const char *message;
  } rows[] = {
      {"empty", NULL, "", ""},
      {"no JSON", NULL, "{\"name\": ", ""},
      {"no object", NULL, "[1]", ""},
      {"unknown name", "shapes.x", "shapes.z", "z"},
      {"unknown kernel", shader_pass, native_pass, "no_such_kernel"},
  };
  quire_context *context = make_context();
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    char text[2048];
    if (rows[i].from == NULL) {
      (void)snprintf(text, sizeof text, "%s", rows[i].to);
    } else {
      const char *at = strstr(good, rows[i].from);
      assert_non_null(at);
      (void)snprintf(text, sizeof text, "%.*s%s%s", (int)(at - good), good, rows[i].to,
                     at + strlen(rows[i].from));
    }
    quire_error error;
    memset(&error, 0, sizeof error);
    quire_operator *op = (quire_operator *)&error;
    quire_status status = quire_operator_load(context, text, strlen(text), &op, &error);
    if (status != QUIRE_BAD_MANIFEST || op != NULL ||
        strstr(error.message, rows[i].message) == NULL) {
      fail_msg("%s: got %s: %s", rows[i].name, quire_status_name(status), error.message);
    }
  }
  assert_int_equal(quire_operator_load(context, NULL, 1, NULL, NULL), QUIRE_BAD_REQUEST);
  quire_operator *op = NULL;
  assert_int_equal(quire_operator_load(NULL, good, 1, &op, NULL), QUIRE_BAD_REQUEST);
  quire_context_release(context);
}

typedef struct findings {
  size_t errors, warnings;
  char last_error[256];
} findings;

static void collect(void *user, const quire_finding *finding) {
  findings *all = user;
  if (finding->severity == QUIRE_SEVERITY_ERROR) {
    all->errors++;
    (void)snprintf(all->last_error, sizeof all->last_error, "%s", finding->message);
  } else {
    all->warnings++;
  }
}

static void lint_reports_every_finding(void **state) {
  (void)state;
  quire_context *context = make_context();
  findings all = {0};
  quire_error error;
  assert_int_equal(quire_operator_lint(context, good, sizeof good - 1, collect, &all, &error),
                   QUIRE_OK);
  assert_int_equal(all.errors, 0);
  assert_int_equal(quire_operator_lint(context, "[]", 2, collect, &all, &error),
                   QUIRE_BAD_MANIFEST);
  assert_true(all.errors >= 1);
  assert_int_equal(quire_operator_lint(context, "[]", 2, NULL, NULL, NULL), QUIRE_BAD_MANIFEST);

  /* A kernel that no implementation has is an error here too. */
  char text[2048];
  const char *at = strstr(good, shader_pass);
  assert_non_null(at);
  (void)snprintf(text, sizeof text, "%.*s%s%s", (int)(at - good), good, native_pass,
                 at + strlen(shader_pass));
  memset(&all, 0, sizeof all);
  assert_int_equal(quire_operator_lint(context, text, strlen(text), collect, &all, &error),
                   QUIRE_BAD_MANIFEST);
  assert_non_null(strstr(all.last_error, "no_such_kernel"));
  quire_context_release(context);
}

static void devices_open_by_name(void **state) {
  (void)state;
  quire_context *context = make_context();
  quire_device *device = (quire_device *)context;
  quire_error error;
  assert_int_equal(quire_device_open(context, "abacus", NULL, &device, &error), QUIRE_NOT_FOUND);
  assert_null(device);
  assert_int_equal(quire_device_open(NULL, "cpu", NULL, &device, &error), QUIRE_BAD_REQUEST);
  assert_int_equal(quire_device_open(context, NULL, NULL, &device, &error), QUIRE_BAD_REQUEST);
  assert_int_equal(quire_device_open(context, "cpu", NULL, NULL, &error), QUIRE_BAD_REQUEST);
  quire_device_options options;
  quire_device_options_init(&options);
  options.plan_cache_size = SIZE_MAX;
  assert_int_equal(quire_device_open(context, "cpu", &options, &device, &error), QUIRE_BAD_REQUEST);
  assert_string_equal(error.subject, "plan_cache_size");
  quire_context_release(context);
}

static void version_is_told(void **state) {
  (void)state;
  const char *version = quire_version();
  assert_int_equal(strspn(version, "0123456789."), strlen(version));
  const char *dot = strchr(version, '.');
  assert_true(dot != NULL && dot != version && strchr(dot + 1, '.') != NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(options_are_checked),
      cmocka_unit_test(all_memory_comes_from_the_allocator_and_goes_back),
      cmocka_unit_test(operators_are_found_by_name),
      cmocka_unit_test(slots_are_inputs_then_outputs),
      cmocka_unit_test(attributes_have_kinds_and_defaults),
      cmocka_unit_test(loaded_operators_outlive_their_context),
      cmocka_unit_test(bad_manifests_are_refused),
      cmocka_unit_test(lint_reports_every_finding),
      cmocka_unit_test(devices_open_by_name),
      cmocka_unit_test(version_is_told),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
