/*
 * What `quire explain --limits` says of a phone, and what then runs on a device with these limits:
 * every case, its variant, dispatches, uniform values and shaders. The explanation sees a file, no
 * device; what runs is looked at where it lies: pipelines and buffers.
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

#include "call.h"
#include "limits_file.h"
#include "quire/webgpu.h"
#include "text.h"
#include "webgpu_plan.h"

static quire_session session;
static quire_limits_file phone;
static quire_device_description described; /* the phone's limits and features */
static size_t compared, refused;

static void append(void *user, const char *text, size_t length) {
  quire_text_append(user, text, length);
}

/* ---- the executed plan ---- */

static void check_uniform(const char *path, const quire_plan *plan,
                          const quire_webgpu_source *source, const json_t *fields) {
  quire_webgpu *gpu = quire_webgpu_of(plan->device);
  uint32_t *words = calloc(source->bytes / 4, sizeof *words);
  quire_error error;
  assert_non_null(words);
  quire_webgpu_lock(gpu);
  assert_int_equal(quire_webgpu_read(gpu, quire_webgpu_plan_of(plan)->uniforms,
                                     (uint64_t)source->uniform, words, source->bytes, &error),
                   QUIRE_OK);
  quire_webgpu_unlock(gpu);
  const char *name = NULL;
  json_t *value = NULL;
  size_t i = 0;
  json_object_foreach((json_t *)(uintptr_t)fields, name, value) {
    assert_true(i < source->bytes / 4);
    float as_float = 0;
    memcpy(&as_float, &words[i], sizeof as_float);
    const double want = json_number_value(value);
    const bool is_same =
        (double)words[i] == want || (double)(int32_t)words[i] == want || (double)as_float == want;
    if (!is_same) {
      fail_msg("%s: %s is %u (%g), explained as %g", path, name, (unsigned)words[i],
               (double)as_float, want);
    }
    i++;
  }
  free(words);
}

/* The text that is explained must have been compiled: it finds the very pipeline. */
static void check_shader(const char *path, const quire_plan *plan, const quire_webgpu_pass *pass,
                         const quire_request *request) {
  quire_webgpu *gpu = quire_webgpu_of(plan->device);
  quire_webgpu_pipeline found;
  quire_error error;
  quire_text text;
  WGPUBufferBindingType types[QUIRE_WEBGPU_MOST_BINDINGS];
  for (size_t i = 0; i < pass->source_count; i++) {
    types[i] = pass->sources[i].uniform >= 0 ? WGPUBufferBindingType_Uniform
               : pass->sources[i].writable   ? WGPUBufferBindingType_Storage
                                             : WGPUBufferBindingType_ReadOnlyStorage;
  }
  quire_text_init(&text, gpu->allocator);
  assert_int_equal(
      quire_render(plan->op, NULL, &described, request, pass->id, append, &text, &error), QUIRE_OK);
  quire_webgpu_lock(gpu);
  assert_int_equal(quire_webgpu_pipeline_get(gpu, quire_text_view(&text), text.length, types,
                                             pass->source_count, pass->id, &found, &error),
                   QUIRE_OK);
  if (found.pipeline != pass->pipeline.pipeline) {
    fail_msg("%s: another shader than the explained one ran as %s", path, pass->id);
  }
  quire_webgpu_pipeline_release(gpu, &found);
  quire_webgpu_unlock(gpu);
  quire_text_release(&text);
}

static void check_pass(const char *path, const quire_plan *plan, const quire_webgpu_pass *pass,
                       const json_t *explained, const quire_request *request) {
  const json_t *dispatch = json_object_get(explained, "dispatch");
  assert_string_equal(pass->id, json_string_value(json_object_get(explained, "id")));
  for (size_t d = 0; d < 3; d++) {
    if (pass->dispatch[d] != (uint64_t)json_integer_value(json_array_get(dispatch, d))) {
      fail_msg("%s: dispatch %zu of %s is %u", path, d, pass->id, (unsigned)pass->dispatch[d]);
    }
  }
  const json_t *bindings = json_object_get(explained, "bindings");
  assert_int_equal(pass->source_count, json_array_size(bindings));
  for (size_t i = 0; i < pass->source_count; i++) {
    const json_t *binding = json_array_get(bindings, i);
    const char *name = json_string_value(json_object_get(binding, "name"));
    const bool is_uniform = pass->sources[i].uniform >= 0;
    assert_int_equal(is_uniform,
                     strcmp(json_string_value(json_object_get(binding, "kind")), "uniform") == 0);
    if (is_uniform) {
      check_uniform(path, plan, &pass->sources[i],
                    json_object_get(json_object_get(explained, "uniforms"), name));
    }
  }
  check_shader(path, plan, pass, request);
}

static bool is_skipped(const json_t *pass) {
  const json_t *dispatch = json_object_get(pass, "dispatch");
  bool is_empty = json_object_get(pass, "shader") == NULL;
  for (size_t d = 0; d < 3; d++) {
    is_empty = is_empty || json_integer_value(json_array_get(dispatch, d)) == 0;
  }
  return is_empty;
}

static void check_plan(const char *path, const quire_plan *plan, const json_t *explained,
                       const quire_request *request) {
  const quire_webgpu_plan *made = quire_webgpu_plan_of(plan);
  const json_t *passes = json_object_get(explained, "passes");
  size_t next = 0;
  assert_string_equal(quire_plan_variant(plan),
                      json_string_value(json_object_get(explained, "variant")));
  for (size_t i = 0; i < json_array_size(passes); i++) {
    if (!is_skipped(json_array_get(passes, i))) {
      assert_true(next < made->pass_count);
      check_pass(path, plan, &made->passes[next++], json_array_get(passes, i), request);
    }
  }
  assert_int_equal(next, made->pass_count);
}

/* ---- cases ---- */

static void check_call(const char *path, const quire_case *opened, const quire_operator *op,
                       const quire_call_options *options, const quire_request *request) {
  quire_call call = {0};
  quire_error error;
  quire_error refusal;
  quire_text text;
  quire_text_init(&text, &quire_default_allocator);
  const quire_status told =
      quire_explain(op, NULL, &described, request, QUIRE_EXPLAIN_JSON, append, &text, &refusal);
  const quire_status status =
      quire_call_execute(&session, op, opened, options, request, &call, &error);
  if (told != QUIRE_OK) {
    if (call.plan != NULL || status != told || strcmp(error.message, refusal.message) != 0) {
      fail_msg("%s: explained as %s: %s; got %s: %s", path, quire_status_name(told),
               refusal.message, quire_status_name(status), error.message);
    }
    refused++;
  } else if (call.plan == NULL) {
    fail_msg("%s: explained, but refused: %s: %s", path, quire_status_name(status), error.message);
  } else {
    json_t *explained = json_loads(quire_text_view(&text), 0, NULL);
    assert_non_null(explained);
    check_plan(path, call.plan, explained, request);
    json_decref(explained);
    compared++;
  }
  quire_call_release(&call);
  quire_text_release(&text);
}

static void check_case(const char *path) {
  const quire_call_options options = {.device = "webgpu"};
  const quire_operator *op = NULL;
  quire_case opened;
  quire_case_request built = {0};
  quire_error error;
  assert_int_equal(quire_case_open(path, &opened, &error), QUIRE_OK);
  assert_int_equal(quire_session_operator(&session, &options, &opened, &op, &error), QUIRE_OK);
  if (quire_request_build(&opened, &options, op, 1, &built, &error) == QUIRE_OK) {
    check_call(path, &opened, op, &options, &built.request);
    quire_request_release(&built);
  }
  quire_case_release(&opened);
}

static void test_cases(void **state) {
  (void)state;
  quire_file_paths paths = {0};
  quire_error error;
  assert_int_equal(quire_file_list(QUIRE_TEST_DATA "/cases", ".safetensors", &paths, &error),
                   QUIRE_OK);
  for (size_t i = 0; i < paths.count; i++) {
    check_case(paths.items[i]);
  }
  print_message("%zu calls ran as explained, %zu were refused as explained\n", compared, refused);
  assert_true(compared > 100 && refused > 10);
  quire_file_list_release(&paths);
}

/* The device's own limits are the file's, so that nothing else can decide. */
static void test_limits(void **state) {
  (void)state;
  const quire_device_description *device = quire_device_describe(session.device);
  for (size_t i = 0; i < phone.description.limit_count; i++) {
    const quire_named_value *limit = &phone.description.limits[i];
    size_t k = 0;
    while (k < device->limit_count && strcmp(device->limits[k].name, limit->name) != 0) {
      k++;
    }
    assert_true(k < device->limit_count);
    if (device->limits[k].i != limit->i) {
      fail_msg("%s is %lld on the device", limit->name, (long long)device->limits[k].i);
    }
  }
  for (size_t i = 0; i < device->feature_count; i++) {
    assert_string_not_equal(device->features[i], "subgroups");
  }
}

int main(void) {
  const quire_call_options options = {.device = "webgpu", .no_subgroups = 1, .default_limits = 1};
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_limits), cmocka_unit_test(test_cases)};
  quire_error error;
  int failures = 1;
  if (quire_session_open(&session, &error) == QUIRE_OK &&
      quire_limits_open(PHONE_LIMITS, &phone, &error) == QUIRE_OK) {
    const quire_status status = quire_session_open_device(&session, &options, &error);
    if (status == QUIRE_OK) {
      described = phone.description;
      described.struct_size = sizeof described;
      described.adapter = quire_device_describe(session.device)->adapter; /* type, vendor */
      described.adapter_count = quire_device_describe(session.device)->adapter_count;
      failures = cmocka_run_group_tests(tests, NULL, NULL);
    } else if (status == QUIRE_NOT_FOUND) {
      failures = 77;
    }
  }
  if (failures != 0) {
    (void)fprintf(stderr, "%s\n", error.message);
  }
  quire_limits_release(&phone);
  quire_session_close(&session);
  return failures;
}
