/* Finding a library: every way in which that fails, with the reason. Needs no adapter. */
#include "webgpu_harness.h"

#define FAKE_OLD WEBGPU_FAKE_OLD   /* has everything but what came in December 2025 */
#define FAKE_PART WEBGPU_FAKE_PART /* has the gate, and nothing else */

static quire_status open_with(const quire_webgpu_options *options, quire_error *error) {
  gpu_world world;
  gpu_open_world(&world);
  quire_device_options device_options;
  quire_device_options_init(&device_options);
  device_options.webgpu = options;
  const quire_status status =
      quire_device_open_backend(&world.owner, "webgpu", &device_options, &world.device, error);
  gpu_close(&world);
  return status;
}

static void check_refused(const quire_webgpu_options *options, quire_status want,
                          const char *part) {
  quire_error error;
  const quire_status status = open_with(options, &error);
  if (status != want || strstr(error.message, part) == NULL) {
    fail_msg("%s: %s; want %s: %s", quire_status_name(status),
             status == QUIRE_OK ? "" : error.message, quire_status_name(want), part);
  }
}

static void test_paths(void **state) {
  (void)state;
  quire_webgpu_options options;
  quire_webgpu_options_init(&options);
  options.library = "/no/such/libwgpu.so";
  check_refused(&options, QUIRE_NOT_FOUND,
                "no usable library: /no/such/libwgpu.so: cannot open shared object file");
  options.library = "libm.so.6";
  check_refused(&options, QUIRE_NOT_FOUND, "libm.so.6: lacks wgpuGetInstanceLimits");
  options.library = FAKE_OLD;
  check_refused(&options, QUIRE_NOT_FOUND, "lacks wgpuTextureGetTextureBindingViewDimension");
  options.library = FAKE_PART;
  check_refused(&options, QUIRE_NOT_FOUND, "lacks wgpuCreateInstance");
}

/* What the variable names is the only candidate. */
static void test_environment(void **state) {
  (void)state;
  quire_webgpu_options options;
  quire_webgpu_options_init(&options);
  char *before = getenv("QUIRE_WEBGPU_LIBRARY");
  char *kept = before == NULL ? NULL : strdup(before);
  assert_int_equal(setenv("QUIRE_WEBGPU_LIBRARY", FAKE_OLD, 1), 0);
  check_refused(&options, QUIRE_NOT_FOUND, FAKE_OLD ": lacks");
  check_refused(NULL, QUIRE_NOT_FOUND, FAKE_OLD ": lacks");
  assert_int_equal(
      kept == NULL ? unsetenv("QUIRE_WEBGPU_LIBRARY") : setenv("QUIRE_WEBGPU_LIBRARY", kept, 1), 0);
  free(kept);
}

static void *resolve_some(void *user, const char *name) {
  size_t *calls = user;
  ++*calls;
  return strcmp(name, "wgpuGetInstanceLimits") == 0 ? user : NULL;
}

static void test_resolver(void **state) {
  (void)state;
  size_t calls = 0;
  quire_webgpu_options options;
  quire_webgpu_options_init(&options);
  options.resolve = resolve_some;
  options.resolve_user = &calls;
  check_refused(&options, QUIRE_NOT_FOUND,
                "the caller's resolver has no wgpuTextureGetTextureBindingViewDimension");
  assert_int_equal(calls, 2);
}

static void test_options(void **state) {
  (void)state;
  quire_webgpu_options options;
  quire_webgpu_options_init(&options);
  options.struct_size = 8;
  check_refused(&options, QUIRE_BAD_REQUEST, "struct_size is 8");
  quire_webgpu_options_init(&options);
  options.pipeline_cache_size = (size_t)1 << 40;
  check_refused(&options, QUIRE_BAD_REQUEST, "pipeline_cache_size");
  quire_webgpu_options_init(&options);
  options.queue = (struct WGPUQueueImpl *)(void *)&options;
  check_refused(&options, QUIRE_BAD_REQUEST, "a queue is given, no device");
  quire_error error;
  assert_int_equal(quire_webgpu_list_adapters(NULL, NULL, NULL, &error), QUIRE_BAD_REQUEST);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_paths),
      cmocka_unit_test(test_environment),
      cmocka_unit_test(test_resolver),
      cmocka_unit_test(test_options),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
