/* The golden vectors LA-G1 to LA-G14 of docs/linear_attention.md, section 8. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "linear_attention_call.h"
#include "linear_attention_harness.h"

static const float query[] = {1, 0, 0, 1};
static const float key[] = {1, 0, 0.6f, 0.8f};
static const float value[] = {2, 3};
static const float past[] = {4, 8};
static const float beta[] = {0.5f, 1};

static void check_values(const char *what, const float *got, const double *want, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (fabs((double)got[i] - want[i]) > 2e-6 * fmax(1, fabs(want[i]))) {
      fail_msg("%s: element %zu is %.9g, expected %.9g", what, i, (double)got[i], want[i]);
    }
  }
}

static la_call golden_call(la_rule rule, const float *decay, int64_t decay_width) {
  la_call call = {.rule = rule,
                  .tokens = 2,
                  .dk = 2,
                  .dv = 1,
                  .scale = 1,
                  .query = query,
                  .key = key,
                  .value = value,
                  .past = past,
                  .decay = decay,
                  .decay_width = decay_width,
                  .beta = beta};
  la_defaults(&call);
  return call;
}

static const float ln_half = -0.693147181f, ln_quarter = -1.38629436f;

/* G1 to G6, and G8 (last row); G7 is the same with windows. */
static const struct golden {
  const char *name;
  la_rule rule;
  int64_t decay_width;
  double output[2], first[2], second[2];
} golden[] = {
    {"LA-G1", LA_LINEAR, 0, {6, 10.4}, {6, 8}, {7.8, 10.4}},
    {"LA-G2", LA_GATED, 1, {4, 3.4}, {4, 4}, {2.8, 3.4}},
    {"LA-G3", LA_GATED, 2, {4, 6.4}, {4, 8}, {2.8, 6.4}},
    {"LA-G4", LA_DELTA, 0, {3, 3.84}, {3, 8}, {-0.12, 3.84}},
    {"LA-G5", LA_GATED_DELTA, 1, {2, 2.52}, {2, 4}, {1.64, 2.52}},
    {"LA-G6", LA_GATED_DELTA, 2, {2, 3.6}, {2, 8}, {0.2, 3.6}},
    {"LA-G8", LA_GATED_DELTA, -1, {2, 2.4}, {2, 4}, {1.8, 2.4}},
};

static const float *golden_decay(const struct golden *g) {
  static float per_head[2], per_channel[4], to_zero[2];
  per_head[0] = ln_half;
  per_head[1] = ln_quarter;
  per_channel[0] = ln_half;
  per_channel[1] = 0;
  per_channel[2] = ln_quarter;
  per_channel[3] = ln_half;
  to_zero[0] = ln_half;
  to_zero[1] = -INFINITY;
  return g->decay_width == 0   ? NULL
         : g->decay_width == 1 ? per_head
         : g->decay_width == 2 ? per_channel
                               : to_zero;
}

static void test_rules(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof golden / sizeof golden[0]; i++) {
    const struct golden *g = &golden[i];
    float output[2], present[2] = {0};
    la_call call = golden_call(g->rule, golden_decay(g), g->decay_width == 2 ? 2 : 1);
    call.output = output;
    call.present = present;
    assert_int_equal(la_run(&call, NULL), QUIRE_OK);
    check_values(g->name, output, g->output, 2);
    check_values(g->name, present, g->second, 2);
    call.strict_kernels = true;
    assert_int_equal(la_run(&call, NULL), QUIRE_OK);
    check_values(g->name, output, g->output, 2);
    check_values(g->name, present, g->second, 2);
  }
}

static void test_windows(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof golden / sizeof golden[0]; i++) {
    const struct golden *g = &golden[i];
    for (int64_t window = 1; window <= 3; window++) {
      double want[6] = {0, 0, g->first[0], g->first[1], g->second[0], g->second[1]};
      float output[2], present[6] = {0}, windowed_past[6];
      for (int64_t slot = 0; slot < window; slot++) {
        bool last = slot == window - 1;
        windowed_past[2 * slot] = last ? past[0] : NAN;
        windowed_past[2 * slot + 1] = last ? past[1] : NAN;
      }
      la_call call = golden_call(g->rule, golden_decay(g), g->decay_width == 2 ? 2 : 1);
      call.window = window;
      call.past = windowed_past;
      call.output = output;
      call.present = present;
      assert_int_equal(la_run(&call, NULL), QUIRE_OK);
      check_values(g->name, output, g->output, 2);
      check_values(g->name, present, want + 2 * (3 - window), (size_t)(2 * window));
    }
  }
}

static void test_heads(void **state) {
  (void)state;
  const float q[] = {1, 10, 100, 1000}, inverse_k[] = {2, 3}, shared_k[] = {2};
  const float inverse_v[] = {1, 2, 3, 4}, shared_v[] = {1, 3};
  float output[4], present[4] = {0};
  la_call g9 = {.rule = LA_LINEAR,
                .tokens = 1,
                .dk = 1,
                .dv = 1,
                .scale = 1,
                .q_heads = 2,
                .kv_heads = 4,
                .key_heads = 2,
                .query = q,
                .key = inverse_k,
                .value = inverse_v,
                .output = output,
                .present = present};
  la_defaults(&g9);
  assert_int_equal(la_run(&g9, NULL), QUIRE_OK);
  check_values("LA-G9 state", present, (const double[]){2, 4, 9, 12}, 4);
  check_values("LA-G9 output", output, (const double[]){2, 4, 90, 120}, 4);
  la_call g10 = {.rule = LA_LINEAR,
                 .tokens = 1,
                 .dk = 1,
                 .dv = 1,
                 .scale = 1,
                 .q_heads = 4,
                 .kv_heads = 2,
                 .key_heads = 1,
                 .query = q,
                 .key = shared_k,
                 .value = shared_v,
                 .output = output,
                 .present = present};
  la_defaults(&g10);
  assert_int_equal(la_run(&g10, NULL), QUIRE_OK);
  check_values("LA-G10 state", present, (const double[]){2, 6}, 2);
  check_values("LA-G10 output", output, (const double[]){2, 20, 600, 6000}, 4);
}

static void test_varlen_and_pool(void **state) {
  (void)state;
  const int32_t cu_seqlens[] = {0, 1, 2}, reads[] = {0, -1}, writes[] = {2, 1};
  const float both[] = {4, 8, 4, 8};
  float output[2], present[4] = {0};
  float pool[] = {4, 8, -7, -7, -9, -9};
  la_call call = golden_call(LA_LINEAR, NULL, 1);
  call.cu_seqlens = cu_seqlens;
  call.sequences = 2;
  call.past = both;
  call.output = output;
  call.present = present;
  assert_int_equal(la_run(&call, NULL), QUIRE_OK);
  check_values("LA-G11 output", output, (const double[]){6, 10.4}, 2);
  check_values("LA-G11 state", present, (const double[]){6, 8, 5.8, 10.4}, 4);
  call.past = NULL;
  call.pool = pool;
  call.pool_slots = 3;
  call.read_indices = reads;
  call.write_indices = writes;
  assert_int_equal(la_run(&call, NULL), QUIRE_OK);
  check_values("LA-G12 output", output, (const double[]){6, 2.4}, 2);
  check_values("LA-G12 pool", pool, (const double[]){4, 8, 1.8, 2.4, 6, 8}, 6);
}

static void test_gates(void **state) {
  (void)state;
  static const struct {
    float value[2];
    double output[2];
  } rows[] = {{{2, 3}, {1, 1.75}}, {{4, 5}, {2, 3}}, {{2, 4}, {1, 2.25}}};
  const float ones[] = {1, 1}, zeros[] = {0, 0};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    float output[2], present[1] = {0};
    la_call call = {.rule = LA_GATED_DELTA,
                    .tokens = 2,
                    .dk = 1,
                    .dv = 1,
                    .scale = 1,
                    .query = ones,
                    .key = ones,
                    .value = rows[i].value,
                    .decay = zeros,
                    .beta = zeros,
                    .a_log = zeros,
                    .dt_bias = zeros,
                    .gate = LA_GATE_QWEN,
                    .beta_activation = LA_BETA_SIGMOID,
                    .output = output,
                    .present = present};
    la_defaults(&call);
    assert_int_equal(la_run(&call, NULL), QUIRE_OK);
    check_values("LA-G13", output, rows[i].output, 2);
  }
}

/* G14 through one token: state 1, k = 0 leaves exp(g); beta shows through v = 1, k = 1, S = 0. */
static void test_gate_functions(void **state) {
  (void)state;
  static const struct {
    float x, a_log, dt_bias;
    double g;
  } gates[] = {{1, 0.5f, -0.25f, -1.874383410}, {-2, -1, 0.5f, -0.074095804}};
  const float zero[] = {0}, one[] = {1}, half[] = {0.5f};
  float output[1], present[1] = {0};
  for (size_t i = 0; i < 2; i++) {
    la_call call = {.rule = LA_GATED,
                    .tokens = 1,
                    .dk = 1,
                    .dv = 1,
                    .scale = 1,
                    .query = one,
                    .key = zero,
                    .value = one,
                    .past = one,
                    .decay = &gates[i].x,
                    .a_log = &gates[i].a_log,
                    .dt_bias = &gates[i].dt_bias,
                    .gate = LA_GATE_QWEN,
                    .output = output,
                    .present = present};
    la_defaults(&call);
    assert_int_equal(la_run(&call, NULL), QUIRE_OK);
    check_values("LA-G14 gate", present, (const double[]){exp(gates[i].g)}, 1);
  }
  for (int activation = 1; activation <= 2; activation++) {
    la_call call = {.rule = LA_DELTA,
                    .tokens = 1,
                    .dk = 1,
                    .dv = 1,
                    .scale = 1,
                    .query = one,
                    .key = one,
                    .value = one,
                    .beta = half,
                    .beta_activation = activation,
                    .output = output,
                    .present = present};
    la_defaults(&call);
    assert_int_equal(la_run(&call, NULL), QUIRE_OK);
    check_values("LA-G14 beta", present, (const double[]){0.622459331 * activation}, 1);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_rules), cmocka_unit_test(test_windows),
      cmocka_unit_test(test_heads), cmocka_unit_test(test_varlen_and_pool),
      cmocka_unit_test(test_gates), cmocka_unit_test(test_gate_functions),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
