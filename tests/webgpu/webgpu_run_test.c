/* Runs on an adapter: results, in-place tensors, aliases, what is checked first. */
#include "webgpu_harness.h"

static void test_results(void **state) {
  (void)state;
  gpu_world world;
  if (!gpu_open(&world, NULL)) {
    skip();
  }
  for (int form = 0; form < 8; form++) {
    gpu_call call = {
        .with_bias = (form & 1) != 0, .z_is_x = (form & 2) != 0, .separate = (form & 4) != 0};
    gpu_make(&world, &call, 5, 7, 33);
    quire_error error;
    for (int runs = 1; runs <= 3; runs++) {
      if (gpu_run(&call, runs == 1 ? QUIRE_RUN_CHECK_VALUES : 0, &error) != QUIRE_OK) {
        fail_msg("%s", error.message);
      }
      gpu_check(&call, runs);
    }
    quire_workspace_counters counters;
    quire_workspace_get_counters(call.workspace, &counters);
    assert_int_equal(counters.prepared, 1);
    assert_int_equal(counters.reused, 2);
    assert_true(counters.allocated > 0 && counters.bytes >= 20);
    gpu_free(&call);
  }
  gpu_close(&world);
}

/* Passes without workgroups are left out, empty tensors need no buffer. */
static void test_empty(void **state) {
  (void)state;
  static const int64_t sizes[][3] = {{0, 7, 5}, {3, 0, 5}, {3, 4, 0}, {0, 0, 0}};
  gpu_world world;
  if (!gpu_open(&world, NULL)) {
    skip();
  }
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    gpu_call call = {.with_bias = true};
    gpu_make(&world, &call, sizes[i][0], sizes[i][1], sizes[i][2]);
    quire_error error;
    if (gpu_run(&call, QUIRE_RUN_CHECK_VALUES, &error) != QUIRE_OK) {
      fail_msg("%s", error.message);
    }
    gpu_check(&call, 1);
    gpu_free(&call);
  }
  gpu_close(&world);
}

static void test_values(void **state) {
  (void)state;
  gpu_world world;
  if (!gpu_open(&world, NULL)) {
    skip();
  }
  gpu_call call = {.with_bias = false};
  gpu_make(&world, &call, 5, 7, 33);
  quire_error error;
  const int32_t wrong[2] = {8, -1}; /* in a row: the first is named */
  call.lengths[3] = 8;
  call.lengths[4] = -1;
  assert_int_equal(
      quire_buffer_write(world.device, call.buffers[GPU_LENGTHS], 12, wrong, sizeof wrong, &error),
      QUIRE_OK);
  assert_int_equal(gpu_run(&call, QUIRE_RUN_CHECK_VALUES, &error), QUIRE_BAD_VALUE);
  assert_string_equal(error.message, "TG-V3: lengths: [3] is 8");
  gpu_check_untouched(&call);
  assert_int_equal(gpu_run(&call, 0, &error), QUIRE_OK); /* the shader clamps */
  gpu_check(&call, 1);
  gpu_free(&call);
  gpu_close(&world);
}

/* A change to a good call, and how it is refused. */
typedef struct refusal {
  quire_status status;
  const char *message; /* a part of it */
  void (*change)(gpu_call *call);
} refusal;

static void shift_offset(gpu_call *call) {
  call->tensors[GPU_X].byte_offset = 4;
}

static void leave_buffer(gpu_call *call) {
  call->tensors[GPU_X].byte_offset = 256;
}

static void far_offset(gpu_call *call) {
  call->tensors[GPU_X].byte_offset = UINT64_MAX - 255;
}

static void take_y_for_z(gpu_call *call) {
  call->tensors[GPU_Z].data = call->tensors[GPU_Y].data;
}

static void take_x_for_z(gpu_call *call) {
  call->tensors[GPU_Z].data = call->tensors[GPU_X].data;
}

static void drop_x(gpu_call *call) {
  call->tensors[GPU_X].data = NULL;
}

static void share_buffer(gpu_call *call) {
  quire_error error;
  quire_device *device = call->world->device;
  quire_buffer_destroy(device, call->buffers[GPU_X]);
  assert_int_equal(quire_buffer_create(device, 512, &call->buffers[GPU_X], &error), QUIRE_OK);
  call->tensors[GPU_X].data = call->tensors[GPU_Z].data = call->buffers[GPU_X];
  call->tensors[GPU_Z].byte_offset = 256;
}

static void share_cache(gpu_call *call) {
  quire_error error;
  quire_device *device = call->world->device;
  void *both = NULL;
  assert_int_equal(quire_buffer_create(device, 512, &both, &error), QUIRE_OK);
  assert_int_equal(quire_buffer_write(device, both, 0, call->cache, 140, &error), QUIRE_OK);
  quire_buffer_destroy(device, call->buffers[GPU_CACHE]);
  call->buffers[GPU_CACHE] = call->tensors[GPU_CACHE].data = both;
  call->tensors[GPU_CACHE_OUT].data = both;
  call->tensors[GPU_CACHE_OUT].byte_offset = 256;
}

static void take_uniform(gpu_call *call) {
  quire_webgpu *gpu = quire_webgpu_of(call->world->device);
  quire_error error;
  quire_buffer_destroy(call->world->device, call->buffers[GPU_X]);
  WGPUBuffer made = NULL;
  quire_webgpu_lock(gpu);
  assert_int_equal(
      quire_webgpu_make_buffer(gpu, 256, WGPUBufferUsage_Uniform, "test", &made, &error), QUIRE_OK);
  quire_webgpu_unlock(gpu);
  call->buffers[GPU_X] = call->tensors[GPU_X].data = made;
}

static void test_refusals(void **state) {
  (void)state;
  static const refusal refusals[] = {
      {QUIRE_BAD_REQUEST, "x: byte_offset 4 is no multiple of", shift_offset},
      {QUIRE_BAD_REQUEST, "x: its 132 bytes from 256 on lie outside the buffer's 132",
       leave_buffer},
      {QUIRE_BAD_REQUEST, "x: its 132 bytes from", far_offset},
      {QUIRE_BAD_REQUEST, "z: its 132 bytes from 0 on lie outside the buffer's 20", take_y_for_z},
      {QUIRE_BAD_ALIAS, "TG-V2: z: is written and overlaps x", take_x_for_z},
      {QUIRE_BAD_PRESENCE, "TG-V1: x: has 33 elements, its data is NULL", drop_x},
      {QUIRE_UNSUPPORTED, "z: is written in pass double that reads x, and both lie in one buffer",
       share_buffer},
      {QUIRE_UNSUPPORTED, "cache_out: lies in one buffer with cache", share_cache},
      {QUIRE_BAD_REQUEST, "x: its buffer's usages are 0x40, 0x80 is needed", take_uniform},
  };
  gpu_world world;
  if (!gpu_open(&world, NULL)) {
    skip();
  }
  for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
    gpu_call call = {.with_bias = false};
    quire_error error;
    gpu_make(&world, &call, 5, 7, 33);
    refusals[i].change(&call);
    const quire_status status = gpu_run(&call, 0, &error);
    if (status != refusals[i].status || strstr(error.message, refusals[i].message) == NULL) {
      fail_msg("refusal %zu: %s: %s", i, quire_status_name(status),
               status == QUIRE_OK ? "" : error.message);
    }
    gpu_check_untouched(&call);
    gpu_free(&call);
  }
  gpu_close(&world);
}

static void test_compile_error(void **state) {
  (void)state;
  gpu_world world;
  if (!gpu_open(&world, NULL)) {
    skip();
  }
  const int64_t shape[1] = {64};
  const quire_request_tensor x = {"x", QUIRE_FLOAT32, 1, shape, NULL, NULL};
  quire_request request;
  quire_request_init(&request);
  request.inputs = &x;
  request.input_count = 1;
  quire_plan *plan = NULL;
  quire_error error;
  assert_int_equal(quire_plan_create(world.device, &world.broken, &request, &plan, &error),
                   QUIRE_DEVICE);
  assert_null(plan);
  assert_string_equal(error.subject, "wrong"); /* the pass */
  assert_non_null(strstr(error.message, "no_such_name"));
  assert_null(strchr(error.message, '\n'));
  gpu_close(&world);
}

/* One kept pipeline: plans hold theirs. */
static void test_pipeline_cache(void **state) {
  (void)state;
  quire_webgpu_options options;
  quire_webgpu_options_init(&options);
  options.pipeline_cache_size = 1;
  gpu_world world;
  if (!gpu_open(&world, &options)) {
    skip();
  }
  gpu_call calls[2] = {{.with_bias = false}, {.with_bias = true}};
  quire_error error;
  gpu_make(&world, &calls[0], 5, 7, 33);
  gpu_make(&world, &calls[1], 3, 4, 9);
  for (int runs = 1; runs <= 2; runs++) {
    for (int i = 0; i < 2; i++) {
      assert_int_equal(gpu_run(&calls[i], 0, &error), QUIRE_OK);
      gpu_check(&calls[i], runs);
    }
  }
  gpu_free(&calls[0]);
  gpu_free(&calls[1]);
  gpu_close(&world);
}

static void test_workspace(void **state) {
  (void)state;
  gpu_world world;
  if (!gpu_open(&world, NULL)) {
    skip();
  }
  static unsigned char memory[256 + QUIRE_ALLOC_ALIGNMENT * 8];
  quire_workspace_options options;
  quire_workspace_options_init(&options);
  options.memory = memory + (64 - (uintptr_t)memory % 64) % 64;
  options.bytes = 128;
  quire_workspace *workspace = NULL;
  quire_error error;
  assert_int_equal(quire_workspace_create(world.device, &options, &workspace, &error),
                   QUIRE_UNSUPPORTED);
  /* One workspace serves plans of different sizes. */
  gpu_call small = {.z_is_x = true};
  gpu_call large = {.z_is_x = false};
  gpu_make(&world, &small, 2, 3, 4);
  gpu_make(&world, &large, 8, 8, 64);
  quire_workspace_release(large.workspace);
  large.workspace = small.workspace;
  for (int runs = 1; runs <= 2; runs++) {
    assert_int_equal(gpu_run(&small, 0, &error), QUIRE_OK);
    gpu_check(&small, runs);
    assert_int_equal(gpu_run(&large, 0, &error), QUIRE_OK);
    gpu_check(&large, runs);
  }
  large.workspace = NULL;
  gpu_free(&large);
  gpu_free(&small);
  gpu_close(&world);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_results),       cmocka_unit_test(test_empty),
      cmocka_unit_test(test_values),        cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_compile_error), cmocka_unit_test(test_pipeline_cache),
      cmocka_unit_test(test_workspace),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
