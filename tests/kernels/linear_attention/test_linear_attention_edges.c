/* Edge cases LA-E* of docs/linear_attention.md, and what the schedule pass refuses. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "linear_attention_harness.h"
#include "quire/status.h"

static const float ones[64] = {1, 1, 1, 1, 1, 1, 1, 1};

/* One head, dk = dv = 1: the state is one number. */
static la_call scalar_call(la_rule rule, int64_t tokens, float *output, float *present) {
  la_call call = {.rule = rule,
                  .tokens = tokens,
                  .dk = 1,
                  .dv = 1,
                  .scale = 1,
                  .query = ones,
                  .key = ones,
                  .value = ones,
                  .decay = ones,
                  .beta = ones};
  call.output = output;
  call.present = present;
  la_defaults(&call);
  return call;
}

static void run(la_call call) {
  assert_int_equal(la_run(&call, NULL), QUIRE_OK);
}

/* LA-E1: T = 0 is the identity, with and without a past. */
static void test_no_tokens(void **state) {
  (void)state;
  const float past[] = {3};
  float output[1], present[] = {7};
  la_call call = scalar_call(LA_GATED_DELTA, 0, output, present);
  run(call);
  assert_true(present[0] == 0);
  call.past = past;
  run(call);
  assert_true(present[0] == 3);
}

/* LA-E3, LA-E7: no sequences, no value columns. */
static void test_empty_calls(void **state) {
  (void)state;
  float output[1], present[1] = {0};
  la_call call = scalar_call(LA_GATED_DELTA, 1, output, present);
  call.batch = 0;
  run(call);
  call = scalar_call(LA_GATED_DELTA, 1, output, present);
  call.dv = 0;
  run(call);
}

/* X3: an empty sequence with a window keeps its past in the last slot, zeros elsewhere. */
static void test_empty_sequence_window(void **state) {
  (void)state;
  static const int32_t cu_seqlens[] = {0, 0, 1};
  const float past[] = {NAN, NAN, 3, 4};
  float output[1], present[4] = {9, 9, 9, 9};
  la_call call = scalar_call(LA_LINEAR, 1, output, present);
  call.window = 2;
  call.cu_seqlens = cu_seqlens;
  call.sequences = 2;
  call.past = past;
  run(call);
  assert_true(present[0] == 0 && present[1] == 0 && present[2] == 3 && present[3] == 5);
  call.past = NULL;
  run(call);
  assert_true(present[0] == 0 && present[1] == 0 && present[2] == 0 && present[3] == 1);
}

/* LA-E12, LA-E13, LA-E14: default scale; decays -inf, 88 and 100; an infinite past. */
static void test_scale_and_decay(void **state) {
  (void)state;
  const float minus_infinity[] = {-INFINITY}, large[] = {88}, overflow[] = {100}, past[] = {2};
  const float infinite[] = {INFINITY}, four[] = {1, 1, 1, 1};
  float output[1], present[4] = {0};
  la_call call = scalar_call(LA_GATED, 1, output, present);
  call.past = past;
  call.decay = minus_infinity;
  run(call);
  assert_true(present[0] == 1);
  call.decay = large;
  run(call);
  assert_true(isfinite(present[0]) && present[0] > 3e38f / 2);
  call.decay = overflow;
  run(call);
  assert_true(!isfinite(present[0]));
  call.past = infinite;
  call.decay = minus_infinity;
  run(call);
  assert_true(isnan(present[0]));
  la_call scaled = {.rule = LA_LINEAR,
                    .tokens = 1,
                    .dk = 4,
                    .dv = 1,
                    .query = four,
                    .key = four,
                    .value = four,
                    .output = output,
                    .present = present};
  la_defaults(&scaled);
  run(scaled);
  assert_true(output[0] == 2);
  scaled.scale = -0.0f;
  run(scaled);
  assert_true(output[0] == 2);
  scaled.scale = -1;
  run(scaled);
  assert_true(output[0] == -4);
}

/* LA-E16, LA-E17: beta 0 and 1, k = 0. */
static void test_beta_and_key(void **state) {
  (void)state;
  const float zero[] = {0}, half[] = {-0.693147181f}, past[] = {2}, value[] = {5};
  float output[1], present[1] = {0};
  la_call call = scalar_call(LA_GATED_DELTA, 1, output, present);
  call.past = past;
  call.decay = half;
  call.value = value;
  call.beta = zero;
  run(call);
  assert_true(fabsf(present[0] - 1) < 1e-6f);
  call.beta = ones;
  run(call);
  assert_true(present[0] == 5);
  call.key = zero;
  run(call);
  assert_true(fabsf(present[0] - 1) < 1e-6f);
}

/* LA-E23: an f32 state beyond f16's range becomes infinite when it is stored, not before. */
static void test_f16_state_overflow(void **state) {
  (void)state;
  const float value[] = {60000, 5536, -65536};
  float output[3], present[3] = {0};
  la_call call = scalar_call(LA_LINEAR, 3, output, present);
  call.state_type = QUIRE_FLOAT16;
  call.value = value;
  call.window = 3;
  run(call);
  assert_true(present[0] == 60000 && isinf(present[1]) && present[2] == 0);
  assert_true(output[1] == 65536 && output[2] == 0);
}

/* X4: -1 neither reads nor stores; entries of a window without a state are left alone. */
static void test_pool_window(void **state) {
  (void)state;
  static const int32_t cu_seqlens[] = {0, 2, 2, 3}, reads[] = {-1, 1, 4};
  static const int32_t writes[] = {2, 0, 3, 2, 3, 2, 0, -1, 4};
  float output[3], pool[] = {10, 11, 12, 13, 14};
  la_call call = scalar_call(LA_LINEAR, 3, output, NULL);
  call.window = 3;
  call.cu_seqlens = cu_seqlens;
  call.sequences = 3;
  call.pool = pool;
  call.pool_slots = 5;
  call.read_indices = reads;
  call.write_indices = writes;
  run(call);
  assert_true(pool[0] == 1 && pool[1] == 11 && pool[2] == 11 && pool[3] == 2 && pool[4] == 15);
}

/* NU-9: large terms cancel inside their own chain or lane; one ascending chain would give 0. */
static void test_chain_order(void **state) {
  (void)state;
  static const float zeros[17];
  const float all_ones[17] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  const float past[17] = {1e8f, 1, [16] = -1e8f};
  for (int v_major = 0; v_major < 2; v_major++) {
    float output[1], present[17] = {0};
    la_call call = {.rule = LA_LINEAR,
                    .tokens = 1,
                    .dk = 17,
                    .dv = 1,
                    .scale = 1,
                    .v_major = v_major,
                    .query = all_ones,
                    .key = zeros,
                    .value = zeros,
                    .past = past,
                    .output = output,
                    .present = present};
    la_defaults(&call);
    run(call);
    assert_true(output[0] == 1);
  }
}

/* ---- what the schedule refuses ---- */

static void expect_refusal(la_call *call, const char *rule, const char *subject,
                           const char *message) {
  quire_error error;
  memset(&error, 0, sizeof error);
  assert_int_equal(la_run(call, &error), QUIRE_BAD_VALUE);
  assert_string_equal(error.rule, rule);
  assert_string_equal(error.subject, subject);
  if (!strstr(error.message, message)) {
    fail_msg("message is \"%s\"", error.message);
  }
}

static void test_bad_cu_seqlens(void **state) {
  (void)state;
  static const struct {
    int32_t values[4];
    const char *message;
  } rows[] = {
      {{1, 2, 3, 4}, "element 0 is 1, must be 0"},
      {{0, 3, 2, 4}, "element 2 is 2, less than the 3 before it"},
      {{0, 1, 2, 3}, "the last element is 3, query has 4 tokens"},
      {{0, 1, 2, 5}, "the last element is 5, query has 4 tokens"},
      {{0, -1, 2, 4}, "element 1 is -1"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    float output[4] = {7, 7, 7, 7}, present[3] = {7, 7, 7};
    la_call call = scalar_call(LA_LINEAR, 4, output, present);
    call.cu_seqlens = rows[i].values;
    call.sequences = 3;
    expect_refusal(&call, "LA-X3", "cu_seqlens", rows[i].message);
    assert_true(output[0] == 7 && present[0] == 7);
  }
}

static void test_bad_slots(void **state) {
  (void)state;
  static const struct {
    int32_t reads[2], writes[2];
    const char *subject, *message; /* NULL: legal */
  } rows[] = {
      {{0, 1}, {0, 1}, NULL, NULL},
      {{-1, -1}, {-1, -1}, NULL, NULL},
      {{0, 0}, {1, 2}, NULL, NULL},
      {{3, 0}, {1, 2}, "read_indices", "element 0 is 3, the pool has slots -1 to 2"},
      {{0, -2}, {1, 2}, "read_indices", "element 1 is -2"},
      {{0, 0}, {1, 3}, "write_indices", "element 1 is 3"},
      {{0, 0}, {-2, 2}, "write_indices", "element 0 is -2"},
      {{0, 0}, {1, 1}, "write_indices", "slot 1 is written by sequences 0 and 1"},
      {{0, 1}, {1, 2}, "read_indices", "slot 1 is read by sequence 1 and written by sequence 0"},
      {{1, 0}, {0, 1}, "read_indices", "slot 1 is read by sequence 0 and written by sequence 1"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    float output[2], pool[3] = {5, 6, 7};
    la_call call = scalar_call(LA_LINEAR, 1, output, NULL);
    call.batch = 2;
    call.pool = pool;
    call.pool_slots = 3;
    call.read_indices = rows[i].reads;
    call.write_indices = rows[i].writes;
    if (rows[i].message) {
      expect_refusal(&call, "LA-X4", rows[i].subject, rows[i].message);
      assert_true(pool[0] == 5 && pool[1] == 6 && pool[2] == 7);
    } else {
      run(call);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_no_tokens),
      cmocka_unit_test(test_empty_calls),
      cmocka_unit_test(test_empty_sequence_window),
      cmocka_unit_test(test_scale_and_decay),
      cmocka_unit_test(test_beta_and_key),
      cmocka_unit_test(test_f16_state_overflow),
      cmocka_unit_test(test_pool_window),
      cmocka_unit_test(test_bad_cu_seqlens),
      cmocka_unit_test(test_bad_slots),
      cmocka_unit_test(test_chain_order),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
