/* Workspaces: counters, growth, the caller's memory, what "prepared" means, and memory that fails.
 */
#include "device_harness.h"

static const append_options small = {.n = 4, .c = 5, .d = 3, .step = 1, .values = true};
static const append_options large = {.n = 50, .c = 5, .d = 30, .step = 1};

static quire_status run(append_call *call, quire_workspace *workspace, uint32_t flags) {
  quire_run_options options;
  quire_run_options_init(&options);
  options.flags = flags;
  return quire_plan_run(call->plan, call->tensors, APPEND_SLOTS, workspace, &options, NULL);
}

static quire_status prepare(append_call *call, quire_workspace *workspace) {
  return quire_plan_prepare(call->plan, call->tensors, APPEND_SLOTS, workspace, NULL, NULL);
}

static void expect_counters(const quire_workspace *workspace, uint64_t prepared, uint64_t reused,
                            uint64_t allocated) {
  quire_workspace_counters got;
  quire_workspace_get_counters(workspace, &got);
  if (got.prepared != prepared || got.reused != reused || got.allocated != allocated) {
    fail_msg("prepared %d, reused %d, allocated %d; want %d, %d, %d", (int)got.prepared,
             (int)got.reused, (int)got.allocated, (int)prepared, (int)reused, (int)allocated);
  }
}

/* ---- counters ---- */

static void test_counters(void **state) {
  (void)state;
  harness h;
  harness_open(&h, 2);
  append_call a, b;
  append_make(&h, &a, &small);
  append_make(&h, &b, &large);
  quire_workspace *workspace = make_workspace(&h);
  expect_counters(workspace, 0, 0, 0);
  for (uint64_t i = 0; i < 5; i++) { /* PD-G6 on the CPU */
    assert_int_equal(run(&a, workspace, 0), QUIRE_OK);
    expect_counters(workspace, 1, i, 1);
  }
  assert_int_equal(run(&b, workspace, 0), QUIRE_OK);
  expect_counters(workspace, 2, 4, 2);
  assert_int_equal(run(&a, workspace, 0), QUIRE_OK); /* fits into what is there */
  expect_counters(workspace, 3, 4, 2);
  assert_int_equal(prepare(&a, workspace), QUIRE_OK);
  expect_counters(workspace, 3, 5, 2);
  assert_int_equal(run(&a, workspace, QUIRE_RUN_PREPARED), QUIRE_OK);
  expect_counters(workspace, 3, 6, 2);
  quire_workspace_counters got;
  quire_workspace_get_counters(workspace, &got);
  quire_workspace_need need;
  quire_plan_workspace(b.plan, &need);
  assert_int_equal(got.bytes, need.bytes);
  quire_workspace_get_counters(NULL, &got);
  assert_int_equal(got.bytes, 0);
  quire_workspace_release(workspace);
  append_free(&a);
  append_free(&b);
  harness_close(&h);
}

/* PD-E15: what was there stays, and the next call finds its plan in place. */
static void test_failures_change_nothing(void **state) {
  (void)state;
  harness h;
  harness_open(&h, 2);
  append_call a, b;
  append_make(&h, &a, &small);
  append_make(&h, &b, &large);
  quire_workspace *workspace = make_workspace(&h);
  assert_int_equal(run(&a, workspace, 0), QUIRE_OK);
  const void *memory = workspace->memory;

  h.memory.fail_at = atomic_load(&h.memory.requests) + 1;
  assert_int_equal(run(&b, workspace, 0), QUIRE_OUT_OF_MEMORY);
  append_check_untouched(&b);
  expect_counters(workspace, 1, 0, 1);

  b.lengths[40] = 99; /* the schedule pass refuses after memory has grown */
  assert_int_equal(run(&b, workspace, 0), QUIRE_BAD_VALUE);
  append_check_untouched(&b);
  expect_counters(workspace, 1, 0, 1);
  assert_ptr_equal(workspace->memory, memory);

  append_reset(&a);
  assert_int_equal(run(&a, workspace, 0), QUIRE_OK);
  append_check(&a, &small);
  expect_counters(workspace, 1, 1, 1);
  b.lengths[40] = 5;
  assert_int_equal(run(&b, workspace, 0), QUIRE_OK);
  append_check(&b, &large);
  expect_counters(workspace, 2, 1, 2);
  quire_workspace_release(workspace);
  append_free(&a);
  append_free(&b);
  harness_close(&h);
}

/* ---- the caller's memory ---- */

static void test_callers_memory(void **state) {
  (void)state;
  harness h;
  harness_open(&h, 2);
  append_call call;
  append_make(&h, &call, &small);
  quire_workspace_need need;
  quire_plan_workspace(call.plan, &need);
  assert_int_equal(need.alignment, 64);
  assert_true(need.bytes > 0);
  enum { ROOM = 4096, GUARD = 64 };
  static _Alignas(64) unsigned char memory[ROOM];
  assert_true(need.bytes + GUARD <= ROOM);
  for (size_t less = 0; less < 2; less++) {
    memset(memory, 0x5a, sizeof(memory));
    quire_workspace_options options;
    quire_workspace_options_init(&options);
    options.memory = memory;
    options.bytes = need.bytes - less;
    quire_workspace *workspace = NULL;
    assert_int_equal(quire_workspace_create(h.device, &options, &workspace, NULL), QUIRE_OK);
    append_reset(&call);
    quire_error error;
    quire_status status =
        quire_plan_run(call.plan, call.tensors, APPEND_SLOTS, workspace, NULL, &error);
    assert_int_equal(status, less == 0 ? QUIRE_OK : QUIRE_LIMIT);
    if (status == QUIRE_OK) {
      append_check(&call, &small);
    } else {
      assert_string_equal(error.subject, "workspace");
      append_check_untouched(&call);
    }
    expect_counters(workspace, less == 0, 0, 0);
    quire_workspace_release(workspace);
    for (size_t i = options.bytes; i < ROOM; i++) {
      assert_int_equal(memory[i], 0x5a);
    }
  }
  append_free(&call);
  harness_close(&h);
}

static void test_bad_options(void **state) {
  (void)state;
  harness h;
  harness_open(&h, 2);
  static _Alignas(64) unsigned char memory[256];
  const quire_workspace_options bad[] = {
      {0, NULL, 0},
      {sizeof(quire_workspace_options) - 1, NULL, 0},
      {sizeof(quire_workspace_options), NULL, 64},
      {sizeof(quire_workspace_options), memory + 1, 64},
      {sizeof(quire_workspace_options), memory + 32, 64},
      {sizeof(quire_workspace_options), memory, SIZE_MAX},
  };
  for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
    quire_workspace *workspace = (quire_workspace *)memory;
    assert_int_equal(quire_workspace_create(h.device, &bad[i], &workspace, NULL),
                     QUIRE_BAD_REQUEST);
    assert_null(workspace);
  }
  assert_int_equal(quire_workspace_create(h.device, NULL, NULL, NULL), QUIRE_BAD_REQUEST);
  quire_workspace_release(NULL);

  quire_device_options options;
  quire_device *device = NULL;
  quire_device_options_init(&options);
  options.threads = 5000;
  assert_int_equal(quire_device_open_backend(&h.owner, "cpu", &options, &device, NULL),
                   QUIRE_BAD_REQUEST);
  quire_device_options_init(&options);
  options.isa = (quire_isa)9;
  assert_int_equal(quire_device_open_backend(&h.owner, "cpu", &options, &device, NULL),
                   QUIRE_BAD_REQUEST);
  const quire_executor empty = {NULL, NULL, 0};
  quire_device_options_init(&options);
  options.executor = &empty;
  assert_int_equal(quire_device_open_backend(&h.owner, "cpu", &options, &device, NULL),
                   QUIRE_BAD_REQUEST);
  quire_device_options_init(&options);
  options.struct_size = 0;
  assert_int_equal(quire_device_open_backend(&h.owner, "cpu", &options, &device, NULL),
                   QUIRE_BAD_REQUEST);
  assert_int_equal(quire_device_open_backend(&h.owner, "tpu", NULL, &device, NULL),
                   QUIRE_NOT_FOUND);
  assert_null(device);
  assert_string_equal(quire_device_name(0), "cpu");
  assert_null(quire_device_name(99));
  harness_close(&h);
}

/* A level that the machine lacks is refused; a lower one hides what lies above it. */
static void test_isa(void **state) {
  (void)state;
  harness h;
  harness_open(&h, 1);
  quire_device_options options;
  quire_device_options_init(&options);
  int refused = 0;
  for (int isa = QUIRE_ISA_BEST; isa <= QUIRE_ISA_NEON; isa++) {
    options.isa = (quire_isa)isa;
    quire_device *device = NULL;
    quire_status status = quire_device_open_backend(&h.owner, "cpu", &options, &device, NULL);
    assert_true(status == QUIRE_OK || status == QUIRE_BAD_REQUEST);
    refused += status != QUIRE_OK;
    if (isa == QUIRE_ISA_SCALAR) {
      quire_device_facts facts;
      quire_device_get_facts(device, &facts);
      assert_string_equal(facts.isa, "scalar");
      assert_int_equal(quire_device_describe(device)->feature_count, 0);
    }
    quire_device_release(device);
  }
  assert_true(refused >= 1); /* no machine has both AVX2 and NEON */
  harness_close(&h);
}

/* ---- prepared ---- */

static void test_prepared(void **state) {
  (void)state;
  harness h;
  harness_open(&h, 2);
  append_call a, b;
  append_make(&h, &a, &small);
  append_make(&h, &b, &small); /* another plan, though equal */
  quire_workspace *workspace = make_workspace(&h);
  assert_int_equal(run(&a, workspace, QUIRE_RUN_PREPARED), QUIRE_BAD_REQUEST);
  assert_int_equal(prepare(&a, workspace), QUIRE_OK);
  assert_int_equal(run(&b, workspace, QUIRE_RUN_PREPARED), QUIRE_BAD_REQUEST);
  append_check_untouched(&b);
  assert_int_equal(run(&a, workspace, QUIRE_RUN_PREPARED), QUIRE_OK);
  append_check(&a, &small);

  /* The work list is the prepared one, whatever the lengths are by now. */
  append_reset(&a);
  int32_t saved = a.lengths[1];
  a.lengths[1] = 99;
  assert_int_equal(run(&a, workspace, QUIRE_RUN_PREPARED), QUIRE_OK);
  assert_int_equal(prepare(&a, workspace), QUIRE_BAD_VALUE);
  a.lengths[1] = saved;
  append_check(&a, &small);

  append_reset(&a); /* the failure has undone the older prepare */
  assert_int_equal(run(&a, workspace, QUIRE_RUN_PREPARED), QUIRE_BAD_REQUEST);
  append_check_untouched(&a);
  assert_int_equal(prepare(&a, workspace), QUIRE_OK);
  assert_int_equal(run(&a, workspace, QUIRE_RUN_PREPARED), QUIRE_OK);
  append_check(&a, &small);

  a.tensors[APPEND_LENGTHS].data = NULL; /* so does one that is refused before it begins */
  assert_int_equal(prepare(&a, workspace), QUIRE_BAD_PRESENCE);
  a.tensors[APPEND_LENGTHS].data = a.lengths;
  assert_int_equal(run(&a, workspace, QUIRE_RUN_PREPARED), QUIRE_BAD_REQUEST);
  quire_workspace_release(workspace);
  append_free(&a);
  append_free(&b);
  harness_close(&h);
}

static void test_bad_calls(void **state) {
  (void)state;
  harness h;
  harness_open(&h, 1);
  append_call call;
  append_make(&h, &call, &small);
  quire_workspace *workspace = make_workspace(&h);
  assert_int_equal(prepare(&call, NULL), QUIRE_BAD_REQUEST);
  assert_int_equal(run(&call, NULL, 0), QUIRE_BAD_REQUEST);
  assert_int_equal(run(&call, workspace, 0x80), QUIRE_BAD_REQUEST);
  assert_int_equal(quire_plan_run(NULL, call.tensors, APPEND_SLOTS, workspace, NULL, NULL),
                   QUIRE_BAD_REQUEST);
  quire_run_options options;
  quire_run_options_init(&options);
  options.struct_size = 3;
  assert_int_equal(quire_plan_run(call.plan, call.tensors, APPEND_SLOTS, workspace, &options, NULL),
                   QUIRE_BAD_REQUEST);
  quire_device *other = NULL;
  assert_int_equal(quire_device_open_backend(&h.owner, "cpu", NULL, &other, NULL), QUIRE_OK);
  quire_workspace *foreign = NULL;
  assert_int_equal(quire_workspace_create(other, NULL, &foreign, NULL), QUIRE_OK);
  assert_int_equal(run(&call, foreign, 0), QUIRE_BAD_REQUEST);
  append_check_untouched(&call);
  quire_device_release(other);
  quire_workspace_release(foreign);
  quire_workspace_release(workspace);
  append_free(&call);
  harness_close(&h);
}

/* ---- plans ---- */

static void test_plan(void **state) {
  (void)state;
  harness h;
  harness_open(&h, 1);
  append_options options = small;
  options.padded = true;
  append_call call;
  append_make(&h, &call, &options);
  assert_string_equal(quire_plan_variant(call.plan), "plain");
  quire_tensor form;
  assert_int_equal(quire_plan_slot(call.plan, APPEND_CACHE, &form), QUIRE_OK);
  assert_int_equal(form.dtype, QUIRE_FLOAT32);
  assert_int_equal(form.ndim, 3);
  assert_int_equal(form.shape[2], 3);
  assert_int_equal(form.strides[1], 6);
  assert_null(form.data);
  assert_int_equal(quire_plan_slot(call.plan, APPEND_TOTAL, &form), QUIRE_OK);
  assert_int_equal(form.ndim, 1);
  assert_null(form.strides);
  assert_int_equal(quire_plan_slot(call.plan, APPEND_SLOTS, &form), QUIRE_BAD_REQUEST);
  assert_int_equal(form.dtype, QUIRE_DTYPE_NONE);
  /* hits (run), work, grid (step): every one at a multiple of 64, those of the step first */
  const size_t *offsets = call.plan->offsets;
  for (int i = 0; i < 3; i++) {
    assert_int_equal(offsets[i] % 64, 0);
  }
  assert_true(offsets[1] < offsets[0] && offsets[2] < offsets[0]);
  append_free(&call);

  options.values = false;
  append_make(&h, &call, &options);
  assert_int_equal(quire_plan_slot(call.plan, APPEND_VALUES, &form), QUIRE_OK);
  assert_int_equal(form.dtype, QUIRE_DTYPE_NONE);
  append_free(&call);
  quire_plan_release(NULL);
  harness_close(&h);
}

/* Written tensors whose elements share memory are refused when planning. */
static void test_folded_strides(void **state) {
  (void)state;
  harness h;
  harness_open(&h, 1);
  const int64_t shape[2] = {2, 3};
  const int64_t strides[2] = {2, 1};
  quire_request request;
  quire_request_init(&request);
  quire_request_tensor x = {"x", QUIRE_FLOAT32, 2, shape, strides, NULL};
  quire_request_tensor y = {"y", QUIRE_FLOAT32, 2, shape, NULL, NULL};
  request.inputs = &x;
  request.input_count = 1;
  request.outputs = &y;
  request.output_count = 1;
  quire_plan *plan = NULL;
  assert_int_equal(quire_plan_create(h.device, &h.scale, &request, &plan, NULL), QUIRE_OK);
  quire_plan_release(plan); /* reading them is fine */
  y.strides = strides;
  quire_error error;
  assert_int_equal(quire_plan_create(h.device, &h.scale, &request, &plan, &error),
                   QUIRE_BAD_REQUEST);
  assert_string_equal(error.subject, "y");
  assert_null(plan);
  request.struct_size = 0;
  assert_int_equal(quire_plan_create(h.device, &h.scale, &request, &plan, NULL), QUIRE_BAD_REQUEST);
  assert_int_equal(quire_plan_create(NULL, &h.scale, &request, &plan, NULL), QUIRE_BAD_REQUEST);
  harness_close(&h);
}

/* Plans and workspaces keep the device, the device its owner. */
static void test_release_order(void **state) {
  (void)state;
  harness h;
  harness_open(&h, 2);
  append_call call;
  append_make(&h, &call, &small);
  assert_int_equal(atomic_load(&h.append.references), 2);
  quire_workspace *workspace = make_workspace(&h);
  quire_device_release(h.device);
  h.device = NULL;
  assert_int_equal(run(&call, workspace, 0), QUIRE_OK);
  append_check(&call, &small);
  quire_workspace_release(workspace);
  assert_int_equal(atomic_load(&h.references), 1);
  append_free(&call);
  harness_close(&h);
}

/* ---- memory ---- */

static void test_run_allocates_nothing(void **state) {
  (void)state;
  harness h;
  harness_open(&h, 3);
  append_options options = large;
  options.output = APPEND_SEPARATE;
  append_call call;
  append_make(&h, &call, &options);
  quire_workspace *workspace = make_workspace(&h);
  assert_int_equal(prepare(&call, workspace), QUIRE_OK);
  size_t before = atomic_load(&h.memory.requests);
  for (int i = 0; i < 10; i++) {
    append_reset(&call);
    assert_int_equal(run(&call, workspace, i < 5 ? QUIRE_RUN_PREPARED : 0), QUIRE_OK);
    append_check(&call, &options);
  }
  assert_int_equal(atomic_load(&h.memory.requests), before);
  quire_workspace_release(workspace);
  append_free(&call);
  harness_close(&h);
}

/* One whole life with the n-th allocation failing. True if nothing failed. */
static bool live_with_failure(harness *h, size_t fail_at) {
  quire_device *device = NULL;
  quire_plan *plan = NULL;
  quire_workspace *workspace = NULL;
  const int64_t shape[3] = {2, 3, 4};
  const int64_t count[1] = {2};
  float cache[24] = {0}, total[2] = {0};
  int32_t lengths[2] = {1, 2};
  quire_request request;
  quire_request_init(&request);
  quire_request_tensor inputs[] = {{"cache", QUIRE_FLOAT32, 3, shape, NULL, NULL},
                                   {"lengths", QUIRE_INT32, 1, count, NULL, NULL}};
  request.inputs = inputs;
  request.input_count = 2;
  quire_tensor tensors[APPEND_SLOTS] = {{0}};
  tensors[APPEND_CACHE] = dense_tensor(cache, QUIRE_FLOAT32, 3, shape);
  tensors[APPEND_LENGTHS] = dense_tensor(lengths, QUIRE_INT32, 1, count);
  tensors[APPEND_TOTAL] = dense_tensor(total, QUIRE_FLOAT32, 1, count);
  size_t live = atomic_load(&h->memory.live);
  atomic_store(&h->memory.requests, 0);
  h->memory.fail_at = fail_at;
  quire_error error;
  quire_device_options options;
  quire_device_options_init(&options);
  options.threads = 2;
  quire_status status = quire_device_open_backend(&h->owner, "cpu", &options, &device, &error);
  if (status == QUIRE_OK) {
    status = quire_plan_create(device, &h->append, &request, &plan, &error);
  }
  if (status == QUIRE_OK) {
    status = quire_workspace_create(device, NULL, &workspace, &error);
  }
  if (status == QUIRE_OK) {
    status = quire_plan_run(plan, tensors, APPEND_SLOTS, workspace, NULL, &error);
  }
  bool failed = atomic_load(&h->memory.requests) >= fail_at;
  assert_int_equal(status, failed ? QUIRE_OUT_OF_MEMORY : QUIRE_OK);
  quire_workspace_release(workspace);
  quire_plan_release(plan);
  quire_device_release(device);
  h->memory.fail_at = 0;
  assert_int_equal(atomic_load(&h->memory.live), live);
  assert_true(failed || total[1] == 8.0f + 4000.0f);
  return !failed;
}

static void test_memory_fails_anywhere(void **state) {
  (void)state;
  harness h;
  harness_open(&h, 1);
  size_t sites = 0;
  while (!live_with_failure(&h, sites + 1)) {
    sites++;
    assert_true(sites < 1000);
  }
  print_message("%zu allocations, each failed once\n", sites);
  assert_true(sites >= 5); /* device, pool, plan, arena, workspace at least */
  harness_close(&h);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_counters),
      cmocka_unit_test(test_failures_change_nothing),
      cmocka_unit_test(test_callers_memory),
      cmocka_unit_test(test_bad_options),
      cmocka_unit_test(test_isa),
      cmocka_unit_test(test_prepared),
      cmocka_unit_test(test_bad_calls),
      cmocka_unit_test(test_plan),
      cmocka_unit_test(test_folded_strides),
      cmocka_unit_test(test_release_order),
      cmocka_unit_test(test_run_allocates_nothing),
      cmocka_unit_test(test_memory_fails_anywhere),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
