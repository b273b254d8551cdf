/*
 * The provider through ONNX Runtime's C interface, for valgrind and sanitizers to watch. Results
 * are compared bit for bit with Quire's own calls. Skipped unless QUIRE_TEST_ONNXRUNTIME names the
 * runtime's library.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ort_calls.h"

static quire_context *context;
static quire_device *device;

/* ---- PagedAttention ---- */

/* What a test works on, on the heap, where sanitizers watch its ends. */
typedef struct paged_test {
  paged *got, *want;
  ort_tensor inputs[PAGED_INPUTS], outputs[PAGED_OUTPUTS];
} paged_test;

static paged_test paged_begin(void) {
  paged_test test;
  test.got = malloc(sizeof *test.got);
  test.want = malloc(sizeof *test.want);
  assert_non_null(test.got);
  assert_non_null(test.want);
  paged_fill(test.got, 1);
  paged_fill(test.want, 1);
  paged_expect(device, test.want);
  paged_tensors(test.got, test.inputs, test.outputs);
  return test;
}

static void paged_end(paged_test *test) {
  free(test->got);
  free(test->want);
}

static OrtSession *paged_session(const paged_test *test, bool with_caches, bool symbolic,
                                 int threads) {
  const ort_node node = paged_node(with_caches);
  const ort_model model = {
      &node,   1, test->inputs, PAGED_INPUTS, test->outputs, with_caches ? PAGED_OUTPUTS : 1,
      symbolic};
  return ort_session(&model, threads);
}

#define ASSERT_SAME(a, b) assert_memory_equal(a, b, sizeof(a))

static void omitted_outputs_are_in_place(void **state) {
  (void)state;
  paged_test test = paged_begin();
  for (int threads = 1; threads <= 2; threads++) {
    paged_fill(test.got, 1);
    OrtSession *session = paged_session(&test, false, threads == 1, threads);
    ort_ok(ort_try_run(session, test.inputs, PAGED_INPUTS, test.outputs, 1));
    ASSERT_SAME(test.got->output, test.want->output);
    ASSERT_SAME(test.got->caches, test.want->caches);
    ort_api->ReleaseSession(session);
  }
  paged_end(&test);
}

static void unbound_outputs_are_copies(void **state) {
  (void)state;
  paged_test test = paged_begin();
  paged *before = malloc(sizeof *before);
  assert_non_null(before);
  paged_fill(before, 1);
  OrtSession *session = paged_session(&test, true, true, 2);
  ort_ok(ort_try_run(session, test.inputs, PAGED_INPUTS, test.outputs, PAGED_OUTPUTS));
  ASSERT_SAME(test.got->output, test.want->output);
  ASSERT_SAME(test.got->results, test.want->caches);
  ASSERT_SAME(test.got->caches, before->caches);
  /* Left to the runtime's own memory. */
  test.outputs[1].data = test.outputs[2].data = NULL;
  ort_ok(ort_try_run(session, test.inputs, PAGED_INPUTS, test.outputs, PAGED_OUTPUTS));
  ASSERT_SAME(test.got->caches, before->caches);
  ort_api->ReleaseSession(session);
  free(before);
  paged_end(&test);
}

static void bound_outputs_are_in_place_and_swapped_ones_refused(void **state) {
  (void)state;
  paged_test test = paged_begin();
  OrtSession *session = paged_session(&test, true, true, 1);
  for (int i = 0; i < 2; i++) {
    test.outputs[1 + i].data = test.got->caches[1 - i];
  }
  ort_refused(ort_try_run(session, test.inputs, PAGED_INPUTS, test.outputs, PAGED_OUTPUTS),
              ORT_INVALID_ARGUMENT, "PagedAttention node \"attention\": PA-V12", "BAD_ALIAS");
  for (int i = 0; i < 2; i++) {
    test.outputs[1 + i].data = test.got->caches[i];
  }
  ort_ok(ort_try_run(session, test.inputs, PAGED_INPUTS, test.outputs, PAGED_OUTPUTS));
  ASSERT_SAME(test.got->output, test.want->output);
  ASSERT_SAME(test.got->caches, test.want->caches);
  ort_api->ReleaseSession(session);
  paged_end(&test);
}

static void a_refused_run_changes_nothing(void **state) {
  (void)state;
  paged_test test = paged_begin();
  OrtSession *session = paged_session(&test, false, true, 2);
  test.got->past[1] = 1000;
  ort_refused(ort_try_run(session, test.inputs, PAGED_INPUTS, test.outputs, 1),
              ORT_INVALID_ARGUMENT, "PagedAttention node \"attention\": PA-V13", "BAD_VALUE");
  paged_fill(test.want, 1);
  ASSERT_SAME(test.got->caches, test.want->caches);
  test.got->past[1] = test.want->past[1];
  ort_ok(ort_try_run(session, test.inputs, PAGED_INPUTS, test.outputs, 1));
  paged_expect(device, test.want);
  ASSERT_SAME(test.got->output, test.want->output);
  ort_api->ReleaseSession(session);
  paged_end(&test);
}

/* ---- runs at the same time ---- */

enum { RUNNERS = 4, ROUNDS = 10 };

typedef struct runner {
  OrtSession *session;
  uint32_t seed;
  bool same;
} runner;

static void *run_rounds(void *user) {
  runner *one = user;
  paged *got = malloc(sizeof *got);
  paged *want = malloc(sizeof *want);
  ort_tensor inputs[PAGED_INPUTS], outputs[PAGED_OUTPUTS];
  assert_non_null(got);
  assert_non_null(want);
  one->same = true;
  for (uint32_t i = 0; i < ROUNDS; i++) {
    paged_fill(got, one->seed + i);
    paged_fill(want, one->seed + i);
    paged_expect(device, want);
    paged_tensors(got, inputs, outputs);
    OrtStatus *status = ort_try_run(one->session, inputs, PAGED_INPUTS, outputs, 1);
    one->same = one->same && status == NULL &&
                memcmp(got->output, want->output, sizeof got->output) == 0 &&
                memcmp(got->caches, want->caches, sizeof got->caches) == 0;
    ort_api->ReleaseStatus(status);
  }
  free(got);
  free(want);
  return NULL;
}

static void runs_of_one_session_may_overlap(void **state) {
  (void)state;
  paged_test test = paged_begin();
  OrtSession *session = paged_session(&test, false, true, 2);
  pthread_t threads[RUNNERS];
  runner runners[RUNNERS];
  for (uint32_t i = 0; i < RUNNERS; i++) {
    runners[i] = (runner){session, 100 * i, false};
    assert_int_equal(pthread_create(&threads[i], NULL, run_rounds, &runners[i]), 0);
  }
  for (uint32_t i = 0; i < RUNNERS; i++) {
    pthread_join(threads[i], NULL);
    assert_true(runners[i].same);
  }
  ort_api->ReleaseSession(session);
  paged_end(&test);
}

/* ---- LinearAttention ---- */

/* False: this runtime does not have the operator, or no windows. */
static bool try_linear_session(const ort_tensor *inputs, const ort_tensor *outputs, size_t taken,
                               bool window, OrtSession **session) {
  const ort_node node = linear_node(window);
  const ort_model model = {&node, 1, inputs, LINEAR_INPUTS, outputs, taken, true};
  OrtStatus *status = ort_try_session(&model, 2, NULL, session);
  if (status != NULL && strstr(ort_api->GetErrorMessage(status), "node \"recurrence\"") == NULL) {
    ort_api->ReleaseStatus(status);
    return false;
  }
  ort_ok(status);
  return true;
}

static void check_linear(bool window) {
  linear *got = malloc(sizeof *got);
  linear *want = malloc(sizeof *want);
  ort_tensor inputs[LINEAR_INPUTS], outputs[LINEAR_OUTPUTS];
  OrtSession *session = NULL;
  assert_non_null(got);
  assert_non_null(want);
  linear_tensors(got, LT, window, inputs, outputs);
  if (!try_linear_session(inputs, outputs, LINEAR_OUTPUTS, window, &session)) {
    free(got);
    free(want);
    skip();
    return;
  }
  for (int64_t tokens = window ? 1 : 0; tokens <= LT; tokens++) {
    linear_fill(got);
    linear_fill(want);
    linear_expect(device, want, tokens, window);
    linear_tensors(got, tokens, window, inputs, outputs);
    ort_ok(ort_try_run(session, inputs, LINEAR_INPUTS, outputs, LINEAR_OUTPUTS));
    ASSERT_SAME(got->output, want->output);
    ASSERT_SAME(got->present, want->present);
  }
  ort_api->ReleaseSession(session);
  free(got);
  free(want);
}

static void states_pass_through_every_number_of_tokens(void **state) {
  (void)state;
  check_linear(false);
}

static void windows_of_states(void **state) {
  (void)state;
  check_linear(true);
}

/* The state nobody takes needs memory for a while; the state in place needs another plan. */
static void dropped_and_shared_states(void **state) {
  (void)state;
  linear *got = malloc(sizeof *got);
  linear *want = malloc(sizeof *want);
  ort_tensor inputs[LINEAR_INPUTS], outputs[LINEAR_OUTPUTS];
  OrtSession *dropped = NULL;
  OrtSession *shared = NULL;
  assert_non_null(got);
  assert_non_null(want);
  linear_tensors(got, LT, false, inputs, outputs);
  if (!try_linear_session(inputs, outputs, 1, false, &dropped) ||
      !try_linear_session(inputs, outputs, LINEAR_OUTPUTS, false, &shared)) {
    free(got);
    free(want);
    skip();
    return;
  }
  linear_fill(got);
  linear_fill(want);
  linear_expect(device, want, LT, false);
  ort_ok(ort_try_run(dropped, inputs, LINEAR_INPUTS, outputs, 1));
  ASSERT_SAME(got->output, want->output);
  outputs[1].data = got->past;
  ort_ok(ort_try_run(shared, inputs, LINEAR_INPUTS, outputs, LINEAR_OUTPUTS));
  ASSERT_SAME(got->output, want->output);
  assert_memory_equal(got->past, want->present, sizeof(float) * STATES);
  ort_api->ReleaseSession(dropped);
  ort_api->ReleaseSession(shared);
  free(got);
  free(want);
}

/* ---- refusals and registration ---- */

static void refused_nodes_end_the_session_with_the_reason(void **state) {
  (void)state;
  paged_test test = paged_begin();
  OrtSession *session = NULL;
  ort_node node = paged_node(true);
  const ort_attribute rotary = {"do_rotary", ORT_OP_ATTR_INT, 1, 0, NULL};
  node.attributes[2] = rotary;
  const ort_model model = {&node, 1, test.inputs, PAGED_INPUTS, test.outputs, PAGED_OUTPUTS, true};
  ort_refused(ort_try_session(&model, 1, NULL, &session), ORT_NOT_IMPLEMENTED,
              "PagedAttention node \"attention\": PA-V3: do_rotary", "UNSUPPORTED");
  paged_end(&test);
}

static void wrong_options_end_the_session_with_the_reason(void **state) {
  (void)state;
  static const char *const wrong[][3] = {
      {"ops", "Conv", NULL}, {"threads", "many", NULL}, {"speed", "high", NULL}};
  paged_test test = paged_begin();
  const ort_node node = paged_node(true);
  const ort_model model = {&node, 1, test.inputs, PAGED_INPUTS, test.outputs, PAGED_OUTPUTS, true};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    OrtSession *session = NULL;
    OrtStatus *status = ort_try_session(&model, 1, wrong[i], &session);
    ort_refused(status, ORT_FAIL, "QuireExecutionProvider: ", wrong[i][0]); /* wrapped once more */
  }
  OrtSession *session = NULL;
  static const char *const right[] = {"ops", "LinearAttention,PagedAttention", "threads", "2",
                                      NULL};
  ort_ok(ort_try_session(&model, 2, right, &session));
  ort_ok(ort_try_run(session, test.inputs, PAGED_INPUTS, test.outputs, PAGED_OUTPUTS));
  ASSERT_SAME(test.got->results, test.want->caches);
  ort_api->ReleaseSession(session);
  paged_end(&test);
}

static void a_second_registration_is_a_second_device(void **state) {
  (void)state;
  assert_int_equal(ort_device_count(), 1);
  ort_register("again");
  assert_int_equal(ort_device_count(), 2);
  ort_unregister("again");
  assert_int_equal(ort_device_count(), 1);
  omitted_outputs_are_in_place(NULL);
}

static int open_all(void **state) {
  (void)state;
  quire_device_options options;
  quire_device_options_init(&options);
  options.threads = 1;
  if (quire_context_create(NULL, &context, NULL) != QUIRE_OK ||
      quire_device_open(context, "cpu", &options, &device, NULL) != QUIRE_OK) {
    return -1;
  }
  ort_register("quire");
  return 0;
}

static int close_all(void **state) {
  (void)state;
  ort_unregister("quire");
  ort_close();
  quire_device_release(device);
  quire_context_release(context);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(omitted_outputs_are_in_place),
      cmocka_unit_test(unbound_outputs_are_copies),
      cmocka_unit_test(bound_outputs_are_in_place_and_swapped_ones_refused),
      cmocka_unit_test(a_refused_run_changes_nothing),
      cmocka_unit_test(runs_of_one_session_may_overlap),
      cmocka_unit_test(states_pass_through_every_number_of_tokens),
      cmocka_unit_test(windows_of_states),
      cmocka_unit_test(dropped_and_shared_states),
      cmocka_unit_test(refused_nodes_end_the_session_with_the_reason),
      cmocka_unit_test(wrong_options_end_the_session_with_the_reason),
      cmocka_unit_test(a_second_registration_is_a_second_device),
  };
  if (!ort_open()) {
    puts("QUIRE_TEST_ONNXRUNTIME names no library of ONNX Runtime: skipped");
    return 77;
  }
  return cmocka_run_group_tests(tests, open_all, close_all);
}
