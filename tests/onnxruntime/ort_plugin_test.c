/*
 * The provider through ONNX Runtime's C interface, for valgrind and sanitizers to watch. Results
 * are compared bit for bit with Quire's own calls. Skipped unless QUIRE_TEST_ONNXRUNTIME names the
 * runtime's library.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ort_fixture.h"
#include "quire/quire.h"

/* New tokens, sequences; heads and their size; blocks, their rows; table columns. */
enum { T = 5, B = 3, HQ = 4, HKV = 2, D = 16, NB = 8, P = 16, MB = 3 };
enum { QUERY = HQ * D, KEY = HKV * D, QUERIES = T * QUERY, KEYS = T * KEY, CACHE = NB * P * KEY };
#define F16 ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16
#define F32 ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT
#define I32 ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32

static quire_context *context;
static quire_device *device;

/* ---- PagedAttention ---- */

/* One call with memory of its own; float16 as bits. */
typedef struct paged {
  uint16_t query[QUERIES], key[KEYS], value[KEYS];
  uint16_t caches[2][CACHE], results[2][CACHE], output[QUERIES];
  int32_t starts[B + 1], past[B], table[B][MB];
} paged;

/* Finite values between -1 and 1, and different ones everywhere. */
static void fill(uint16_t *values, size_t count, uint32_t seed) {
  for (size_t i = 0; i < count; i++) {
    seed = seed * 1664525u + 1013904223u; /* Knuth's linear congruential generator */
    values[i] = (uint16_t)((seed >> 16 & 0x83FFu) | (0x3000u + (seed >> 8 & 0x0800u)));
  }
}

static void paged_fill(paged *p, uint32_t seed) {
  static const int32_t starts[] = {0, 3, 3, 5};
  static const int32_t past[] = {17, 40, 0};
  static const int32_t table[B][MB] = {{5, 2, -1}, {0, 7, 3}, {6, -1, -1}};
  fill(p->query, QUERIES, seed);
  fill(p->key, KEYS, seed + 1);
  fill(p->value, KEYS, seed + 2);
  fill(p->caches[0], CACHE, seed + 3);
  fill(p->caches[1], CACHE, seed + 4);
  memset(p->results, 0, sizeof p->results);
  memset(p->output, 0, sizeof p->output);
  memcpy(p->starts, starts, sizeof starts);
  memcpy(p->past, past, sizeof past);
  memcpy(p->table, table, sizeof table);
}

enum { PAGED_INPUTS = 8, PAGED_OUTPUTS = 3 };

static void paged_tensors(paged *p, ort_tensor inputs[PAGED_INPUTS],
                          ort_tensor outputs[PAGED_OUTPUTS]) {
  const ort_tensor in[PAGED_INPUTS] = {
      {"query", F16, 2, {T, QUERY}, p->query},
      {"key", F16, 2, {T, KEY}, p->key},
      {"value", F16, 2, {T, KEY}, p->value},
      {"key_cache", F16, 4, {NB, P, HKV, D}, p->caches[0]},
      {"value_cache", F16, 4, {NB, P, HKV, D}, p->caches[1]},
      {"starts", I32, 1, {B + 1}, p->starts},
      {"past", I32, 1, {B}, p->past},
      {"table", I32, 2, {B, MB}, p->table},
  };
  const ort_tensor out[PAGED_OUTPUTS] = {
      {"output", F16, 2, {T, QUERY}, p->output},
      {"key_cache_out", F16, 4, {NB, P, HKV, D}, p->results[0]},
      {"value_cache_out", F16, 4, {NB, P, HKV, D}, p->results[1]},
  };
  memcpy(inputs, in, sizeof in);
  memcpy(outputs, out, sizeof out);
}

static ort_node paged_node(bool with_caches) {
  ort_node node = {
      "PagedAttention",
      "com.microsoft",
      "attention",
      {"query", "key", "value", "key_cache", "value_cache", "starts", "past", "table", NULL},
      {"output", with_caches ? "key_cache_out" : NULL, "value_cache_out", NULL},
      {{"num_heads", ORT_OP_ATTR_INT, HQ, 0, NULL},
       {"kv_num_heads", ORT_OP_ATTR_INT, HKV, 0, NULL}},
  };
  return node;
}

/* The same call without the runtime; the caches are updated in place. */
static void paged_expect(paged *p) {
  const int64_t query[] = {T, QUERY}, key[] = {T, KEY}, cache[] = {NB, P, HKV, D};
  const int64_t starts[] = {B + 1}, past[] = {B}, table[] = {B, MB};
  quire_paged_attention_args args;
  quire_error error;
  quire_paged_attention_args_init(&args);
  args.query = (quire_tensor){p->query, 0, QUIRE_FLOAT16, 2, query, NULL};
  args.key = (quire_tensor){p->key, 0, QUIRE_FLOAT16, 2, key, NULL};
  args.value = (quire_tensor){p->value, 0, QUIRE_FLOAT16, 2, key, NULL};
  args.key_cache = (quire_tensor){p->caches[0], 0, QUIRE_FLOAT16, 4, cache, NULL};
  args.value_cache = (quire_tensor){p->caches[1], 0, QUIRE_FLOAT16, 4, cache, NULL};
  args.cumulative_sequence_length = (quire_tensor){p->starts, 0, QUIRE_INT32, 1, starts, NULL};
  args.past_seqlens = (quire_tensor){p->past, 0, QUIRE_INT32, 1, past, NULL};
  args.block_table = (quire_tensor){p->table, 0, QUIRE_INT32, 2, table, NULL};
  args.output = (quire_tensor){p->output, 0, QUIRE_FLOAT16, 2, query, NULL};
  args.num_heads = HQ;
  args.kv_num_heads = HKV;
  if (quire_paged_attention(device, &args, &error) != QUIRE_OK) {
    fail_msg("%s", error.message);
  }
}

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
  paged_expect(test.want);
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
  paged_expect(test.want);
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
    paged_expect(want);
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

enum { LB = 2, LT = 3, LH = 2, LD = 4, LW = 2, LINEAR_INPUTS = 6, LINEAR_OUTPUTS = 2 };
enum { WIDTH = LH * LD, GATES = LB * LT * LH, ROWS = LB * LT * WIDTH, STATES = LB * WIDTH * LD };

typedef struct linear {
  float rows[3][ROWS], gates[2][GATES];
  float past[LW * STATES], present[LW * STATES], output[ROWS];
} linear;

static void linear_fill(linear *l) {
  float *values = &l->rows[0][0];
  memset(l, 0, sizeof *l);
  for (size_t i = 0; i < sizeof l->rows / sizeof *values; i++) {
    values[i] = (float)((int)(i * 7 % 11) - 5) / 8;
  }
  for (size_t i = 0; i < GATES; i++) {
    l->gates[0][i] = -(float)(i % 3) / 4;
    l->gates[1][i] = (float)(1 + i % 3) / 4;
  }
  for (size_t i = 0; i < sizeof l->past / sizeof l->past[0]; i++) {
    l->past[i] = (float)((int)(i * 5 % 13) - 6) / 4;
  }
}

static void linear_tensors(linear *l, int64_t tokens, bool window, ort_tensor inputs[LINEAR_INPUTS],
                           ort_tensor outputs[LINEAR_OUTPUTS]) {
  const ort_tensor in[LINEAR_INPUTS] = {
      {"query", F32, 3, {LB, tokens, WIDTH}, l->rows[0]},
      {"key", F32, 3, {LB, tokens, WIDTH}, l->rows[1]},
      {"value", F32, 3, {LB, tokens, WIDTH}, l->rows[2]},
      {"past", F32, 5, {LW, LB, LH, LD, LD}, l->past},
      {"decay", F32, 3, {LB, tokens, LH}, l->gates[0]},
      {"beta", F32, 3, {LB, tokens, LH}, l->gates[1]},
  };
  const ort_tensor out[LINEAR_OUTPUTS] = {
      {"output", F32, 3, {LB, tokens, WIDTH}, l->output},
      {"present", F32, 5, {LW, LB, LH, LD, LD}, l->present},
  };
  memcpy(inputs, in, sizeof in);
  memcpy(outputs, out, sizeof out);
  if (!window) {
    const int64_t shape[] = {LB, LH, LD, LD};
    inputs[3].rank = outputs[1].rank = 4;
    memcpy(inputs[3].shape, shape, sizeof shape);
    memcpy(outputs[1].shape, shape, sizeof shape);
  }
}

static ort_node linear_node(bool window) {
  ort_node node = {
      "LinearAttention",
      "com.microsoft",
      "recurrence",
      {"query", "key", "value", "past", "decay", "beta", NULL},
      {"output", "present", NULL},
      {{"q_num_heads", ORT_OP_ATTR_INT, LH, 0, NULL},
       {"kv_num_heads", ORT_OP_ATTR_INT, LH, 0, NULL},
       {window ? "state_window" : NULL, ORT_OP_ATTR_INT, LW, 0, NULL}},
  };
  return node;
}

static void linear_expect(linear *l, int64_t tokens, bool window) {
  const int64_t rows[] = {LB, tokens, WIDTH}, gates[] = {LB, tokens, LH};
  const int64_t states[] = {LW, LB, LH, LD, LD};
  const int32_t rank = window ? 5 : 4;
  quire_linear_attention_args args;
  quire_error error;
  quire_linear_attention_args_init(&args);
  args.query = (quire_tensor){l->rows[0], 0, QUIRE_FLOAT32, 3, rows, NULL};
  args.key = (quire_tensor){l->rows[1], 0, QUIRE_FLOAT32, 3, rows, NULL};
  args.value = (quire_tensor){l->rows[2], 0, QUIRE_FLOAT32, 3, rows, NULL};
  args.decay = (quire_tensor){l->gates[0], 0, QUIRE_FLOAT32, 3, gates, NULL};
  args.beta = (quire_tensor){l->gates[1], 0, QUIRE_FLOAT32, 3, gates, NULL};
  args.past_state = (quire_tensor){l->past, 0, QUIRE_FLOAT32, rank, states + 5 - rank, NULL};
  args.present_state = (quire_tensor){l->present, 0, QUIRE_FLOAT32, rank, states + 5 - rank, NULL};
  args.output = (quire_tensor){l->output, 0, QUIRE_FLOAT32, 3, rows, NULL};
  args.q_num_heads = args.kv_num_heads = LH;
  args.state_window = window ? LW : 0;
  if (quire_linear_attention(device, &args, &error) != QUIRE_OK) {
    fail_msg("%s", error.message);
  }
}

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
    linear_expect(want, tokens, window);
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
  linear_expect(want, LT, false);
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
