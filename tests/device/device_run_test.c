/* Runs: executors, thread counts, grids, single items, options, descriptions of devices and plans.
 */
#include <pthread.h>

#include "device_harness.h"

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

/* ---- executors ---- */

typedef struct counted_executor {
  quire_executor executor;
  atomic_size_t calls;
} counted_executor;

static void run_reversed(void *user, quire_task_function *task, void *task_user, size_t count) {
  atomic_fetch_add(&((counted_executor *)user)->calls, 1);
  for (size_t i = count; i-- > 0;) {
    task(task_user, i);
  }
}

static void run_strided(void *user, quire_task_function *task, void *task_user, size_t count) {
  atomic_fetch_add(&((counted_executor *)user)->calls, 1);
  for (size_t start = 0; start < 3; start++) {
    for (size_t i = start; i < count; i += 3) {
      task(task_user, i);
    }
  }
}

typedef struct team {
  quire_task_function *task;
  void *task_user;
  size_t count;
  atomic_size_t next;
} team;

static void *team_main(void *user) {
  team *one = user;
  for (size_t i = atomic_fetch_add(&one->next, 1); i < one->count;
       i = atomic_fetch_add(&one->next, 1)) {
    one->task(one->task_user, i);
  }
  return NULL;
}

static void run_threads(void *user, quire_task_function *task, void *task_user, size_t count) {
  atomic_fetch_add(&((counted_executor *)user)->calls, 1);
  team one = {.task = task, .task_user = task_user, .count = count};
  atomic_init(&one.next, 0);
  pthread_t threads[3];
  for (int i = 0; i < 3; i++) {
    assert_int_equal(pthread_create(&threads[i], NULL, team_main, &one), 0);
  }
  for (int i = 0; i < 3; i++) {
    pthread_join(threads[i], NULL);
  }
}

static void run_ok(append_call *call, quire_workspace *workspace,
                   const quire_run_options *options) {
  quire_error error;
  quire_status status =
      quire_plan_run(call->plan, call->tensors, APPEND_SLOTS, workspace, options, &error);
  if (status != QUIRE_OK) {
    fail_msg("%s: %s", quire_status_name(status), error.message);
  }
}

static const append_options shapes[] = {
    {.n = 9, .c = 6, .d = 5, .step = 2, .values = true},
    {.n = 9, .c = 6, .d = 5, .step = 2, .padded = true},
    {.n = 2, .c = 1, .d = 1, .step = 1},
    {.n = 0, .c = 4, .d = 3, .step = 1, .values = true},
    {.n = 5, .c = 3, .d = 0, .step = 1},
    {.n = 7,
     .c = 300,
     .d = 200,
     .step = 1,
     .padded = true,
     .listed = true,
     .output = APPEND_SEPARATE},
};
enum { SHAPE_COUNT = sizeof(shapes) / sizeof(shapes[0]) };

static void test_executors(void **state) {
  (void)state;
  harness h;
  harness_open(&h, 2);
  counted_executor executors[] = {
      {.executor = {.parallel_for = run_reversed}},
      {.executor = {.parallel_for = run_strided, .thread_limit = 1}},
      {.executor = {.parallel_for = run_threads, .thread_limit = 3}},
  };
  quire_workspace *workspace = make_workspace(&h);
  for (size_t s = 0; s < SHAPE_COUNT; s++) {
    append_call call;
    append_make(&h, &call, &shapes[s]);
    run_ok(&call, workspace, NULL);
    append_check(&call, &shapes[s]);
    for (size_t e = 0; e < 3; e++) {
      executors[e].executor.user = &executors[e];
      quire_run_options options;
      quire_run_options_init(&options);
      options.executor = &executors[e].executor;
      append_reset(&call);
      run_ok(&call, workspace, &options);
      append_check(&call, &shapes[s]);
    }
    append_free(&call);
  }
  for (size_t e = 0; e < 3; e++) {
    assert_true(atomic_load(&executors[e].calls) > 0);
  }
  quire_workspace_release(workspace);
  harness_close(&h);
}

static void test_thread_counts(void **state) {
  (void)state;
  static const size_t counts[] = {1, 2, 3, 7, 0};
  for (size_t t = 0; t < sizeof(counts) / sizeof(counts[0]); t++) {
    harness h;
    harness_open(&h, counts[t]);
    quire_device_facts facts;
    quire_device_get_facts(h.device, &facts);
    assert_true(counts[t] == 0 ? facts.threads >= 1 : facts.threads == counts[t]);
    quire_workspace *workspace = make_workspace(&h);
    for (size_t s = 0; s < SHAPE_COUNT; s++) {
      append_call call;
      append_make(&h, &call, &shapes[s]);
      run_ok(&call, workspace, NULL);
      append_check(&call, &shapes[s]);
      append_free(&call);
    }
    quire_workspace_release(workspace);
    harness_close(&h);
  }
}

/* An executor of the device's own: no pool, and one item never asks it. */
static void test_device_executor(void **state) {
  (void)state;
  harness h;
  harness_open(&h, 1);
  counted_executor counted = {.executor = {.parallel_for = run_reversed}};
  counted.executor.user = &counted;
  quire_device_options options;
  quire_device_options_init(&options);
  options.executor = &counted.executor;
  quire_device *device = NULL;
  assert_int_equal(quire_device_open_backend(&h.owner, "cpu", &options, &device, NULL), QUIRE_OK);
  quire_device *pooled = h.device;
  h.device = device;
  quire_workspace *workspace = make_workspace(&h);
  for (int64_t rows = 1; rows <= 2; rows++) {
    const int64_t shape[2] = {rows, 3};
    float x[6] = {1, 2, 3, 4, 5, 6}, y[6] = {0};
    quire_plan *plan = scale_plan(&h, &h.scale, shape, 2, false);
    quire_tensor tensors[] = {dense_tensor(x, QUIRE_FLOAT32, 2, shape),
                              dense_tensor(y, QUIRE_FLOAT32, 2, shape)};
    assert_int_equal(quire_plan_run(plan, tensors, 2, workspace, NULL, NULL), QUIRE_OK);
    assert_true(y[3 * rows - 1] == 6.0f * (float)rows);
    assert_int_equal(atomic_load(&counted.calls), rows - 1);
    quire_plan_release(plan);
  }
  quire_workspace_release(workspace);
  quire_device_release(device);
  h.device = pooled;
  harness_close(&h);
}

/* ---- views ---- */

static void test_axes(void **state) {
  (void)state;
  harness h;
  harness_open(&h, 2);
  const int64_t shape[2] = {2, 3};
  float x[6] = {1, 2, 3, 4, 5, 6}, y[6] = {0};
  quire_plan *plan = scale_plan(&h, &h.columns, shape, -1, false);
  quire_workspace *workspace = make_workspace(&h);
  quire_tensor tensors[] = {dense_tensor(x, QUIRE_FLOAT32, 2, shape),
                            dense_tensor(y, QUIRE_FLOAT32, 2, shape)};
  assert_int_equal(quire_plan_run(plan, tensors, 2, workspace, NULL, NULL), QUIRE_OK);
  for (int i = 0; i < 6; i++) {
    assert_true(y[i] == -x[i]);
  }
  quire_plan_release(plan);
  quire_workspace_release(workspace);
  harness_close(&h);
}

static void test_grid_of_three_axes(void **state) {
  (void)state;
  harness h;
  harness_open(&h, 2);
  const int64_t shape[3] = {3, 4, 5};
  float x[60], y[60];
  quire_request request;
  quire_request_init(&request);
  quire_request_tensor input = {"x", QUIRE_FLOAT32, 3, shape, NULL, NULL};
  request.inputs = &input;
  request.input_count = 1;
  quire_plan *plan = NULL;
  assert_int_equal(quire_plan_create(h.device, &h.shift, &request, &plan, NULL), QUIRE_OK);
  quire_workspace *workspace = make_workspace(&h);
  for (int i = 0; i < 60; i++) {
    x[i] = (float)i;
    y[i] = -1;
  }
  quire_tensor tensors[] = {dense_tensor(x, QUIRE_FLOAT32, 3, shape),
                            dense_tensor(y, QUIRE_FLOAT32, 3, shape)};
  assert_int_equal(quire_plan_run(plan, tensors, 2, workspace, NULL, NULL), QUIRE_OK);
  assert_int_equal(quire_plan_items(plan, workspace, 1), 60);
  for (int i = 0; i < 60; i++) {
    assert_true(y[i] == (float)(i + 1));
  }
  quire_plan_release(plan);
  quire_workspace_release(workspace);
  harness_close(&h);
}

/* ---- single items ---- */

static void run_all_items(append_call *call, quire_workspace *workspace, size_t step) {
  quire_error error;
  for (size_t pass = 0; pass < quire_plan_passes(call->plan); pass++) {
    size_t items = quire_plan_items(call->plan, workspace, pass);
    for (size_t k = 0; k * step < items; k++) { /* pieces backwards: order does not matter */
      size_t last = items - k * step;
      size_t first = last > step ? last - step : 0;
      quire_status status = quire_plan_run_items(call->plan, pass, first, last, call->tensors,
                                                 APPEND_SLOTS, workspace, &error);
      if (status != QUIRE_OK) {
        fail_msg("pass %zu: %s", pass, error.message);
      }
    }
  }
}

static void test_items(void **state) {
  (void)state;
  harness h;
  harness_open(&h, 2);
  quire_workspace *workspace = make_workspace(&h);
  for (size_t s = 0; s < SHAPE_COUNT; s++) {
    append_call call;
    append_make(&h, &call, &shapes[s]);
    assert_int_equal(quire_plan_passes(call.plan), 3);              /* leading, append, sum */
    assert_int_equal(quire_plan_items(call.plan, workspace, 1), 0); /* not prepared */
    assert_int_equal(
        quire_plan_run_items(call.plan, 1, 0, 0, call.tensors, APPEND_SLOTS, workspace, NULL),
        QUIRE_BAD_REQUEST);
    assert_int_equal(
        quire_plan_prepare(call.plan, call.tensors, APPEND_SLOTS, workspace, NULL, NULL), QUIRE_OK);
    size_t active = 0;
    for (int64_t n = 0; n < call.n; n++) {
      active += call.lengths[n] > 0;
    }
    assert_int_equal(quire_plan_items(call.plan, workspace, 1), active * (size_t)call.d);
    assert_int_equal(quire_plan_items(call.plan, workspace, 2), call.n);
    assert_int_equal(quire_plan_items(call.plan, workspace, 3), 0);
    for (size_t step = 1; step <= 4; step += 3) {
      append_reset(&call);
      run_all_items(&call, workspace, step);
      append_check(&call, &shapes[s]);
    }
    append_reset(&call);
    assert_int_equal(quire_plan_run_items(call.plan, 2, 0, (size_t)call.n + 1, call.tensors,
                                          APPEND_SLOTS, workspace, NULL),
                     QUIRE_BAD_REQUEST);
    assert_int_equal(
        quire_plan_run_items(call.plan, 2, 1, 0, call.tensors, APPEND_SLOTS, workspace, NULL),
        QUIRE_BAD_REQUEST);
    assert_int_equal(
        quire_plan_run_items(call.plan, 3, 0, 0, call.tensors, APPEND_SLOTS, workspace, NULL),
        QUIRE_BAD_REQUEST);
    append_check_untouched(&call);
    append_free(&call);
  }
  quire_workspace_release(workspace);
  harness_close(&h);
}

/* ---- failures ---- */

static const append_options plain = {.n = 4, .c = 5, .d = 3, .step = 1, .values = true};

static void test_failing_schedule(void **state) {
  (void)state;
  harness h;
  harness_open(&h, 2);
  append_options separate = plain;
  separate.output = APPEND_SEPARATE;
  const append_options *cases[] = {&plain, &separate};
  for (size_t i = 0; i < 2; i++) {
    append_call call;
    append_make(&h, &call, cases[i]);
    quire_workspace *workspace = make_workspace(&h);
    quire_error error;
    call.lengths[2] = 6;
    assert_int_equal(quire_plan_run(call.plan, call.tensors, APPEND_SLOTS, workspace, NULL, &error),
                     QUIRE_BAD_VALUE);
    assert_string_equal(error.rule, "TA-V3");
    assert_string_equal(error.subject, "lengths");
    append_check_untouched(&call);
    call.lengths[2] = 1;
    run_ok(&call, workspace, NULL);
    append_check(&call, cases[i]);
    quire_workspace_release(workspace);
    append_free(&call);
  }
  harness_close(&h);
}

static void test_strict(void **state) {
  (void)state;
  append_fixture f;
  open_fixture(&f, &plain);
  quire_run_options options;
  quire_run_options_init(&options);
  options.flags = QUIRE_RUN_STRICT;
  f.call.lengths[1] = -1;
  assert_int_equal(
      quire_plan_run(f.call.plan, f.call.tensors, APPEND_SLOTS, f.workspace, &options, NULL),
      QUIRE_BAD_VALUE);
  assert_int_equal(
      quire_plan_prepare(f.call.plan, f.call.tensors, APPEND_SLOTS, f.workspace, &options, NULL),
      QUIRE_BAD_VALUE);
  append_check_untouched(&f.call);
  run_ok(&f.call, f.workspace, NULL);
  append_check(&f.call, &plain);
  close_fixture(&f);
}

/* Options that this device has no use for, or that lack a part. */
static void test_options(void **state) {
  (void)state;
  append_fixture f;
  open_fixture(&f, &plain);
  quire_executor executor = {0};
  quire_run_options options;
  quire_error error;
  quire_run_options_init(&options);
  options.executor = &executor;
  assert_int_equal(
      quire_plan_run(f.call.plan, f.call.tensors, APPEND_SLOTS, f.workspace, &options, &error),
      QUIRE_BAD_REQUEST);
  assert_string_equal(error.message, "options: the executor's parallel_for is NULL");
  options.executor = NULL;
  options.encoder = (struct WGPUCommandEncoderImpl *)(void *)&options;
  assert_int_equal(
      quire_plan_run(f.call.plan, f.call.tensors, APPEND_SLOTS, f.workspace, &options, &error),
      QUIRE_BAD_REQUEST);
  assert_string_equal(error.message, "options: an encoder is given, and the device is \"cpu\"");
  append_check_untouched(&f.call);
  close_fixture(&f);
}

/* Questions about nothing, and about slots that are not there, have answers. */
static void test_answers(void **state) {
  (void)state;
  harness h;
  harness_open(&h, 2);
  append_call call;
  append_make(&h, &call, &plain);
  quire_tensor form;
  assert_int_equal(quire_plan_slot(call.plan, APPEND_LENGTHS, &form), QUIRE_OK);
  assert_int_equal(form.dtype, QUIRE_INT32);
  assert_int_equal(form.shape[0], plain.n);
  assert_int_equal(quire_plan_slot_bytes(call.plan, APPEND_LENGTHS), 4 * plain.n);
  assert_int_equal(quire_plan_slot(call.plan, APPEND_SLOTS, &form), QUIRE_BAD_REQUEST);
  assert_int_equal(form.ndim, 0);
  assert_null(form.shape);
  assert_int_equal(quire_plan_slot(NULL, 0, &form), QUIRE_BAD_REQUEST);
  assert_int_equal(quire_plan_slot(call.plan, 0, NULL), QUIRE_BAD_REQUEST);
  assert_int_equal(quire_plan_slot_bytes(call.plan, APPEND_SLOTS), 0);
  assert_int_equal(quire_plan_slot_bytes(NULL, 0), 0);
  quire_workspace_need need = {7, 7};
  quire_plan_workspace(NULL, &need);
  assert_int_equal(need.bytes, 0);
  assert_int_equal(need.alignment, 64);
  quire_plan_workspace(call.plan, NULL);
  assert_null(quire_plan_variant(NULL));
  assert_int_equal(quire_plan_passes(NULL), 0);
  assert_int_equal(quire_plan_create(h.device, &h.append, NULL, NULL, NULL), QUIRE_BAD_REQUEST);
  quire_request_init((quire_request *)NULL); /* the type: it may be a macro that takes the size */
  quire_run_options_init((quire_run_options *)NULL);
  quire_device_options_init((quire_device_options *)NULL);
  quire_device_release(NULL);
  append_free(&call);
  harness_close(&h);
}

static void test_internal(void **state) {
  (void)state;
  harness h;
  harness_open(&h, 2);
  quire_workspace *workspace = make_workspace(&h);
  append_call call;
  append_make(&h, &call, &plain);
  quire_error error;
  call.lengths[0] = HARNESS_GREEDY_LENGTH; /* the schedule asks for more than the plan allows */
  assert_int_equal(quire_plan_run(call.plan, call.tensors, APPEND_SLOTS, workspace, NULL, &error),
                   QUIRE_INTERNAL);
  assert_string_equal(error.subject, "append");
  append_check_untouched(&call);
  append_free(&call);
  append_options failing = plain;
  failing.step = HARNESS_FAILING_STEP;
  append_make(&h, &call, &failing);
  assert_int_equal(quire_plan_run(call.plan, call.tensors, APPEND_SLOTS, workspace, NULL, &error),
                   QUIRE_INTERNAL);
  assert_string_equal(error.subject, "append");
  append_free(&call);
  quire_workspace_release(workspace);
  harness_close(&h);
}

/* The mode of the caller's thread does not reach kernels, and is what it was afterwards. */
static void test_float_mode(void **state) {
  (void)state;
#if defined(__SSE__)
  harness h;
  harness_open(&h, 2);
  quire_workspace *workspace = make_workspace(&h);
  const int64_t shape[2] = {64, 1};
  float x[64], y[64];
  for (int i = 0; i < 64; i++) {
    x[i] = 1e-38f;
  }
  quire_plan *plan = scale_plan(&h, &h.scale, shape, 0.25, false);
  quire_tensor tensors[] = {dense_tensor(x, QUIRE_FLOAT32, 2, shape),
                            dense_tensor(y, QUIRE_FLOAT32, 2, shape)};
  unsigned before = _mm_getcsr();
  _mm_setcsr(before | 0x8040u);
  quire_status status = quire_plan_run(plan, tensors, 2, workspace, NULL, NULL);
  unsigned after = _mm_getcsr();
  _mm_setcsr(before);
  assert_int_equal(status, QUIRE_OK);
  assert_int_equal(after & 0x8040u, 0x8040u);
  for (int i = 0; i < 64; i++) {
    assert_true(y[i] > 0.0f);
  }
  quire_plan_release(plan);
  quire_workspace_release(workspace);
  harness_close(&h);
#endif
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_executors),
      cmocka_unit_test(test_thread_counts),
      cmocka_unit_test(test_device_executor),
      cmocka_unit_test(test_axes),
      cmocka_unit_test(test_grid_of_three_axes),
      cmocka_unit_test(test_items),
      cmocka_unit_test(test_failing_schedule),
      cmocka_unit_test(test_strict),
      cmocka_unit_test(test_options),
      cmocka_unit_test(test_answers),
      cmocka_unit_test(test_internal),
      cmocka_unit_test(test_float_mode),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
