/* Devices: adapters, the caller's own device and encoder, buffers, budget, loss, threads, timing.
 */
#include <pthread.h>

#include "webgpu_harness.h"

/* ---- adapters ---- */

typedef struct seen {
  int count;
  char first[QUIRE_WEBGPU_TEXT];
} seen;

static void see(void *user, const quire_webgpu_adapter *adapter) {
  seen *list = user;
  assert_int_equal(adapter->index, list->count);
  assert_true(adapter->type[0] != '\0' && adapter->backend[0] != '\0');
  if (list->count++ == 0) {
    (void)snprintf(list->first, sizeof list->first, "%s", adapter->name);
  }
}

static void test_adapters(void **state) {
  (void)state;
  seen list = {0, ""};
  quire_error error;
  const quire_status status = quire_webgpu_list_adapters(NULL, see, &list, &error);
  if (status == QUIRE_NOT_FOUND || list.count == 0) {
    skip();
  }
  assert_int_equal(status, QUIRE_OK);
  gpu_world world;
  quire_webgpu_options options;
  quire_webgpu_options_init(&options);
  options.adapter_name = list.first;
  options.adapter_index = 0;
  assert_true(gpu_open(&world, &options));
  quire_device_facts facts;
  quire_device_get_facts(world.device, &facts);
  assert_non_null(strstr(facts.model, list.first));
  quire_device_release(world.device);
  world.device = NULL;
  quire_device_options device_options;
  quire_device_options_init(&device_options);
  device_options.webgpu = &options;
  options.adapter_name = "no adapter has this name";
  assert_int_equal(
      quire_device_open_backend(&world.owner, "webgpu", &device_options, &world.device, &error),
      QUIRE_NOT_FOUND);
  assert_non_null(strstr(error.message, list.first));
  gpu_close(&world);
}

static bool has_feature(const quire_device *device, const char *name) {
  const quire_device_description *description = quire_device_describe(device);
  for (size_t i = 0; i < description->feature_count; i++) {
    if (strcmp(description->features[i], name) == 0) {
      return true;
    }
  }
  return false;
}

static int64_t limit(const quire_device *device, const char *name) {
  const quire_device_description *description = quire_device_describe(device);
  for (size_t i = 0; i < description->limit_count; i++) {
    if (strcmp(description->limits[i].name, name) == 0) {
      return description->limits[i].i;
    }
  }
  return -1;
}

static void test_description(void **state) {
  (void)state;
  gpu_world world;
  quire_webgpu_options options;
  quire_webgpu_options_init(&options);
  options.use_subgroups = 0;
  options.default_limits = 1;
  if (!gpu_open(&world, &options)) {
    skip();
  }
  assert_false(has_feature(world.device, "subgroups"));
  assert_int_equal(limit(world.device, "maxComputeWorkgroupStorageSize"), 16384);
  assert_int_equal(limit(world.device, "maxStorageBuffersPerShaderStage"), 8);
  gpu_call call = {.with_bias = true};
  quire_error error;
  gpu_make(&world, &call, 5, 7, 33);
  assert_int_equal(gpu_run(&call, 0, &error), QUIRE_OK);
  gpu_check(&call, 1);
  gpu_free(&call);
  gpu_close(&world);
}

/* A software adapter may be planned for as a GPU; what it can do stays as it is. */
static void test_as_hardware(void **state) {
  (void)state;
  gpu_world world;
  quire_webgpu_options options;
  quire_webgpu_options_init(&options);
  options.as_hardware = 1;
  if (!gpu_open(&world, &options)) {
    skip();
  }
  const quire_device_description *description = quire_device_describe(world.device);
  bool found = false;
  for (size_t i = 0; i < description->adapter_count; i++) {
    if (strcmp(description->adapter[i].name, "type") == 0) {
      found = true;
      assert_string_not_equal(description->adapter[i].s, "CPU");
    }
  }
  assert_true(found);
  gpu_close(&world);
}

/* ---- embedding ---- */

/* Records `times` calls into one encoder of the caller's, submits, and looks at the result. */
static void record_calls(gpu_call *call, int times) {
  quire_webgpu *gpu = quire_webgpu_of(call->world->device);
  quire_error error;
  quire_run_options options;
  quire_run_options_init(&options);
  WGPUCommandEncoder encoder =
      gpu->procs.DeviceCreateCommandEncoder(quire_webgpu_device(call->world->device), NULL);
  options.encoder = encoder;
  for (int i = 0; i < times; i++) {
    if (quire_plan_run(call->plan, call->tensors, GPU_SLOTS, call->workspace, &options, &error) !=
        QUIRE_OK) {
      fail_msg("%s", error.message);
    }
  }
  gpu_check_untouched(call); /* nothing ran yet */
  WGPUCommandBuffer commands = gpu->procs.CommandEncoderFinish(encoder, NULL);
  gpu->procs.CommandEncoderRelease(encoder);
  gpu->procs.QueueSubmit(quire_webgpu_queue(call->world->device), 1, &commands);
  gpu->procs.CommandBufferRelease(commands);
  gpu_check(call, times);
}

static void test_encoder(void **state) {
  (void)state;
  gpu_world world;
  if (!gpu_open(&world, NULL)) {
    skip();
  }
  for (int form = 0; form < 2; form++) {
    gpu_call call = {.with_bias = true, .separate = form == 1};
    gpu_make(&world, &call, 5, 7, 33);
    record_calls(&call, 3);
    gpu_free(&call);
  }
  gpu_call call = {.with_bias = true};
  gpu_make(&world, &call, 5, 7, 33);
  quire_run_options options;
  quire_run_options_init(&options);
  quire_error error;
  options.encoder = (struct WGPUCommandEncoderImpl *)(void *)&options;
  options.flags = QUIRE_RUN_CHECK_VALUES; /* would have to wait */
  assert_int_equal(
      quire_plan_run(call.plan, call.tensors, GPU_SLOTS, call.workspace, &options, &error),
      QUIRE_BAD_REQUEST);
  gpu_free(&call);
  gpu_close(&world);
}

/* Kept bindings are those of the very buffers, also where a new buffer takes an old one's place. */
static void test_kept_bindings(void **state) {
  (void)state;
  quire_webgpu_options options;
  quire_webgpu_options_init(&options);
  options.kept_bindings = 2;
  gpu_world world;
  if (!gpu_open(&world, &options)) {
    skip();
  }
  gpu_call call = {.with_bias = true, .separate = true};
  quire_error error;
  gpu_make(&world, &call, 5, 7, 33);
  void *buffers[3] = {call.buffers[GPU_X], NULL, NULL};
  for (int i = 1; i < 3; i++) {
    assert_int_equal(quire_buffer_create(world.device, sizeof call.x, &buffers[i], &error),
                     QUIRE_OK);
  }
  for (int round = 0; round < 40; round++) {
    const int at = round * round % 3;
    if (round % 5 == 4) {
      quire_buffer_destroy(world.device, buffers[at]);
      assert_int_equal(quire_buffer_create(world.device, sizeof call.x, &buffers[at], &error),
                       QUIRE_OK);
    }
    for (int i = 0; i < 33; i++) {
      call.x[i] = (float)(round * 100 + i);
    }
    assert_int_equal(quire_buffer_write(world.device, buffers[at], 0, call.x, 132, &error),
                     QUIRE_OK);
    call.tensors[GPU_X].data = buffers[at];
    assert_int_equal(gpu_run(&call, 0, &error), QUIRE_OK);
    gpu_check(&call, 1);
  }
  call.buffers[GPU_X] = buffers[0];
  quire_buffer_destroy(world.device, buffers[1]);
  quire_buffer_destroy(world.device, buffers[2]);
  gpu_free(&call);
  gpu_close(&world);
}

static const char *adapter_property(const quire_device *device, const char *name) {
  const quire_device_description *description = quire_device_describe(device);
  for (size_t i = 0; i < description->adapter_count; i++) {
    if (strcmp(description->adapter[i].name, name) == 0) {
      return description->adapter[i].s;
    }
  }
  fail_msg("no property %s", name);
  return NULL;
}

/* A second device of ours on the handles of the first, as a program would lend its own. */
static void test_caller_owned(void **state) {
  (void)state;
  gpu_world first;
  if (!gpu_open(&first, NULL)) {
    skip();
  }
  quire_webgpu_options options;
  quire_webgpu_options_init(&options);
  options.instance = quire_webgpu_instance(first.device);
  options.device = quire_webgpu_device(first.device);
  options.queue = quire_webgpu_queue(first.device);
  gpu_world second;
  assert_true(gpu_open(&second, &options));
  assert_ptr_equal(quire_webgpu_device(second.device), options.device);
  gpu_call call = {.with_bias = true};
  gpu_make(&second, &call, 5, 7, 33);
  record_calls(&call, 2);
  gpu_free(&call);
  assert_string_equal(adapter_property(second.device, "device"), "");
  gpu_close(&second);
  /* With the adapter, plans know what it is. */
  options.adapter = quire_webgpu_of(first.device)->adapter;
  assert_true(gpu_open(&second, &options));
  const char *const names[] = {"device", "vendor", "type"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    assert_string_equal(adapter_property(second.device, names[i]),
                        adapter_property(first.device, names[i]));
  }
  assert_string_not_equal(adapter_property(second.device, "device"), "");
  gpu_close(&second);
  gpu_close(&first);
}

/* ---- buffers ---- */

static void test_buffers(void **state) {
  (void)state;
  gpu_world world;
  if (!gpu_open(&world, NULL)) {
    skip();
  }
  enum { BYTES = 64 };
  unsigned char want[BYTES];
  unsigned char got[BYTES];
  quire_error error;
  void *buffer = NULL;
  void *other = NULL;
  assert_int_equal(quire_buffer_create(world.device, BYTES, &buffer, &error), QUIRE_OK);
  assert_int_equal(quire_buffer_create(world.device, BYTES, &other, &error), QUIRE_OK);
  for (int i = 0; i < BYTES; i++) {
    want[i] = (unsigned char)(i * 7 + 1);
  }
  assert_int_equal(quire_buffer_write(world.device, buffer, 0, want, BYTES, &error), QUIRE_OK);
  /* Every offset and size within two words. */
  for (uint64_t offset = 0; offset < 8; offset++) {
    for (uint64_t bytes = 0; bytes < 9; bytes++) {
      unsigned char piece[9];
      for (uint64_t i = 0; i < bytes; i++) {
        piece[i] = want[offset + i] = (unsigned char)(want[offset + i] + 31 + i);
      }
      assert_int_equal(quire_buffer_write(world.device, buffer, offset, piece, bytes, &error),
                       QUIRE_OK);
      assert_int_equal(quire_buffer_read(world.device, buffer, offset, got, BYTES - offset, &error),
                       QUIRE_OK);
      assert_memory_equal(got, want + offset, BYTES - offset);
    }
  }
  /* Within one buffer, between two, and of bytes that are no words. */
  const quire_buffer_copy_range ranges[] = {
      {buffer, 0, buffer, 32, 16}, {buffer, 32, other, 0, 32}, {buffer, 3, buffer, 49, 5}};
  assert_int_equal(quire_buffer_write(world.device, other, 0, want, BYTES, &error), QUIRE_OK);
  assert_int_equal(quire_buffer_copy(world.device, ranges, 3, &error), QUIRE_OK);
  memcpy(want + 32, want, 16);
  assert_int_equal(quire_buffer_read(world.device, other, 0, got, 32, &error), QUIRE_OK);
  assert_memory_equal(got, want + 32, 32);
  memcpy(want + 49, want + 3, 5);
  assert_int_equal(quire_buffer_read(world.device, buffer, 0, got, BYTES, &error), QUIRE_OK);
  assert_memory_equal(got, want, BYTES);
  /* Refused: outside, overlapping. Nothing of the list is done. */
  const quire_buffer_copy_range wrong[] = {{buffer, 20, other, 0, 16}, {buffer, 56, other, 0, 16}};
  assert_int_equal(quire_buffer_copy(world.device, wrong, 2, &error), QUIRE_BAD_REQUEST);
  assert_int_equal(quire_buffer_read(world.device, other, 0, got, 16, &error), QUIRE_OK);
  assert_memory_equal(got, want, 16);
  assert_memory_not_equal(got, want + 20, 16);
  const quire_buffer_copy_range overlap = {buffer, 0, buffer, 8, 16};
  assert_int_equal(quire_buffer_copy(world.device, &overlap, 1, &error), QUIRE_BAD_REQUEST);
  assert_int_equal(quire_buffer_write(world.device, buffer, 60, want, 8, &error),
                   QUIRE_BAD_REQUEST);
  assert_int_equal(quire_buffer_read(world.device, buffer, UINT64_MAX - 3, got, 8, &error),
                   QUIRE_BAD_REQUEST);
  quire_buffer_destroy(world.device, buffer);
  quire_buffer_destroy(world.device, other);
  quire_buffer_destroy(world.device, NULL);
  gpu_close(&world);
}

static void test_memory_limits(void **state) {
  (void)state;
  gpu_world world;
  quire_webgpu_options options;
  quire_webgpu_options_init(&options);
  options.memory_budget = 1 << 20;
  if (!gpu_open(&world, &options)) {
    skip();
  }
  quire_error error;
  void *large = NULL;
  void *small = NULL;
  assert_int_equal(quire_buffer_create(world.device, 1 << 20, &large, &error), QUIRE_OUT_OF_MEMORY);
  assert_null(large);
  assert_int_equal(quire_buffer_create(world.device, (uint64_t)1 << 50, &large, &error),
                   QUIRE_LIMIT);
  assert_int_equal(quire_buffer_create(world.device, 900000, &large, &error), QUIRE_OK);
  assert_int_equal(quire_buffer_create(world.device, 900000, &small, &error), QUIRE_OUT_OF_MEMORY);
  quire_buffer_destroy(world.device, large);
  assert_int_equal(quire_buffer_create(world.device, 900000, &small, &error), QUIRE_OK);
  /* A workspace that cannot grow leaves the call undone. */
  gpu_call call = {.with_bias = false};
  gpu_make(&world, &call, 5, 7, 33);
  quire_webgpu *gpu = quire_webgpu_of(world.device);
  gpu->budget = gpu->bytes;
  assert_int_equal(gpu_run(&call, 0, &error), QUIRE_OUT_OF_MEMORY);
  gpu->budget = 0;
  gpu_check_untouched(&call);
  assert_int_equal(gpu_run(&call, 0, &error), QUIRE_OK);
  gpu_check(&call, 1);
  gpu_free(&call);
  quire_buffer_destroy(world.device, small);
  gpu_close(&world);
}

/* ---- loss ---- */

static void test_loss(void **state) {
  (void)state;
  gpu_world world;
  if (!gpu_open(&world, NULL)) {
    skip();
  }
  gpu_call call = {.with_bias = false};
  quire_error error;
  gpu_make(&world, &call, 5, 7, 33);
  assert_int_equal(gpu_run(&call, 0, &error), QUIRE_OK);
  gpu_destroy_device(&world);
  float values[4] = {0};
  void *buffer = NULL;
  assert_int_equal(gpu_run(&call, 0, &error), QUIRE_DEVICE);
  assert_true(error.message[0] != '\0');
  assert_int_equal(gpu_run(&call, QUIRE_RUN_CHECK_VALUES, &error), QUIRE_DEVICE);
  assert_int_equal(
      quire_buffer_read(world.device, call.buffers[GPU_X], 0, values, sizeof values, &error),
      QUIRE_DEVICE);
  assert_int_equal(
      quire_buffer_write(world.device, call.buffers[GPU_X], 0, values, sizeof values, &error),
      QUIRE_DEVICE);
  assert_int_equal(quire_buffer_create(world.device, 64, &buffer, &error), QUIRE_DEVICE);
  assert_null(buffer);
  gpu_free(&call);
  gpu_close(&world);
}

/* ---- threads ---- */

enum { THREADS = 4, ROUNDS = 20 };

static void *run_calls(void *user) {
  gpu_call *call = user;
  quire_error error;
  for (int i = 0; i < ROUNDS; i++) {
    if (gpu_run(call, i % 2 == 0 ? QUIRE_RUN_CHECK_VALUES : 0, &error) != QUIRE_OK) {
      return call;
    }
  }
  return NULL;
}

static void test_threads(void **state) {
  (void)state;
  gpu_world world;
  if (!gpu_open(&world, NULL)) {
    skip();
  }
  gpu_call calls[THREADS];
  pthread_t threads[THREADS];
  memset(calls, 0, sizeof calls);
  for (int i = 0; i < THREADS; i++) {
    calls[i].with_bias = true;
    gpu_make(&world, &calls[i], 5, 7, 33);
  }
  for (int i = 0; i < THREADS; i++) {
    assert_int_equal(pthread_create(&threads[i], NULL, run_calls, &calls[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) {
    void *failed = NULL;
    assert_int_equal(pthread_join(threads[i], &failed), 0);
    assert_null(failed);
  }
  for (int i = 0; i < THREADS; i++) {
    gpu_check(&calls[i], ROUNDS);
    gpu_free(&calls[i]);
  }
  gpu_close(&world);
}

/* ---- timing ---- */

static void test_measure(void **state) {
  (void)state;
  gpu_world world;
  if (!gpu_open(&world, NULL)) {
    skip();
  }
  gpu_call call = {.with_bias = false};
  quire_error error;
  gpu_make(&world, &call, 5, 7, 33);
  quire_webgpu_call one = {call.plan, call.tensors, GPU_SLOTS, call.workspace};
  quire_webgpu_times times;
  const bool timed = has_feature(world.device, "timestamp-query");
  assert_int_equal(quire_webgpu_measure(world.device, &one, 1, 3, &times, &error),
                   timed ? QUIRE_OK : QUIRE_UNSUPPORTED);
  if (timed) {
    assert_true(times.gpu_nanoseconds > 0 && times.record_nanoseconds > 0);
    gpu_check(&call, 3);
  }
  one.workspace = NULL;
  assert_int_equal(quire_webgpu_measure(world.device, &one, 1, 1, &times, &error),
                   QUIRE_BAD_REQUEST);
  void *buffer = NULL;
  double nanoseconds = 0;
  assert_int_equal(quire_buffer_create(world.device, 1 << 20, &buffer, &error), QUIRE_OK);
  const quire_status status =
      quire_webgpu_measure_read(world.device, buffer, 1 << 20, 3, &nanoseconds, &error);
  if (timed) {
    assert_int_equal(status, QUIRE_OK);
    assert_true(nanoseconds >= 0);
  } else {
    assert_int_equal(status, QUIRE_UNSUPPORTED);
  }
  assert_int_equal(
      quire_webgpu_measure_read(world.device, buffer, 1 << 21, 3, &nanoseconds, &error),
      QUIRE_BAD_REQUEST);
  quire_buffer_destroy(world.device, buffer);
  gpu_free(&call);
  gpu_close(&world);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_adapters),      cmocka_unit_test(test_description),
      cmocka_unit_test(test_as_hardware),   cmocka_unit_test(test_encoder),
      cmocka_unit_test(test_kept_bindings), cmocka_unit_test(test_caller_owned),
      cmocka_unit_test(test_buffers),       cmocka_unit_test(test_memory_limits),
      cmocka_unit_test(test_loss),          cmocka_unit_test(test_threads),
      cmocka_unit_test(test_measure),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
