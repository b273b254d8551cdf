/*
 * CausalConvWithState by its typed calls: golden vectors CC-G1 to CC-G7, states, the contract's
 * rules. Random calls are compared with float64 by tests/oracle, and between instruction sets by
 * tests/kernels/differential.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cpu_device.h"
#include "quire/quire.h"

typedef quire_causal_conv_with_state_args conv_args;

static cpu_levels cpu;

static int set_up(void **state) {
  (void)state;
  cpu = cpu_open_levels();
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  cpu_close_levels(&cpu);
  return 0;
}

static quire_tensor tensor(quire_dtype dtype, void *data, int32_t ndim, const int64_t *shape) {
  return (quire_tensor){.data = data, .dtype = dtype, .ndim = ndim, .shape = shape};
}

/* ---- golden vectors: docs/causal_conv.md, section 8 ---- */

enum { MOST = 16 };

typedef struct golden_row {
  const char *name;
  int64_t tokens, length, window, dilation, sequences; /* sequences > 1: cu_seqlens */
  const char *activation;
  float input[MOST], weight[3], bias;
  const float *past; /* of the last slot; NULL: absent */
  float output[MOST], present[MOST];
} golden_row;

static const float past_12[] = {1, 2};
static const float past_1234[] = {1, 2, 3, 4};
static const float past_1278[] = {1, 2, 7, 8};

/* clang-format off */
static const golden_row golden_rows[] = {
    {"CC-G1", 3, 2, 0, 1, 1, "none", {3, 4, 5}, {1, 10, 100}, 0.5f, past_12,
     {321.5f, 432.5f, 543.5f}, {4, 5}},
    {"CC-G2", 3, 2, 0, 1, 1, "none", {3, 4, 5}, {1, 10, 100}, 0.5f, NULL,
     {300.5f, 430.5f, 543.5f}, {4, 5}},
    {"CC-G3", 2, 4, 0, 2, 1, "none", {5, 6}, {1, 10, 100}, 0.5f, past_1234,
     {531.5f, 642.5f}, {3, 4, 5, 6}},
    {"CC-G4", 3, 2, 4, 1, 1, "none", {3, 4, 5}, {1, 10, 100}, 0.5f, past_12,
     {321.5f, 432.5f, 543.5f}, {0, 0, 2, 3, 3, 4, 4, 5}},
    {"CC-G5", 2, 2, 0, 1, 1, "silu", {1, -2}, {0, 0, 1}, 0, NULL,
     {0.7310585786f, -0.2384058440f}, {1, -2}},
    {"CC-G6", 3, 2, 0, 1, 2, "none", {3, 4, 5}, {1, 10, 100}, 0.5f, past_1278,
     {321.5f, 432.5f, 587.5f}, {3, 4, 8, 5}},
};
/* clang-format on */

static void check_golden(quire_device *device, const golden_row *row, int64_t last) {
  float input[MOST], weight[3], bias[1], output[MOST] = {0}, past[4 * MOST], present[MOST];
  int32_t offsets[] = {0, 2, 3};
  const int64_t slots = row->window > 0 ? row->window : 1;
  const int64_t state_count = row->sequences * row->length;
  const int64_t input_shape[] = {1, last ? row->tokens : 1, last ? 1 : row->tokens};
  const int64_t weight_shape[] = {1, 1, 3};
  const int64_t bias_shape[] = {1};
  const int64_t offsets_shape[] = {3};
  const int64_t state_shape[] = {row->window, row->sequences, last ? row->length : 1,
                                 last ? 1 : row->length};
  const int32_t state_rank = row->window > 0 ? 4 : 3;
  const int64_t *shape = state_shape + (4 - state_rank);
  memcpy(input, row->input, sizeof input);
  memcpy(weight, row->weight, sizeof weight);
  bias[0] = row->bias;
  for (int64_t i = 0; i < slots * state_count; i++) {
    past[i] = i < (slots - 1) * state_count || !row->past
                  ? NAN /* CC-E6: old slots have no effect */
                  : row->past[i - (slots - 1) * state_count];
    present[i] = NAN;
  }
  conv_args args;
  quire_causal_conv_with_state_args_init(&args);
  args.input = tensor(QUIRE_FLOAT32, input, 3, input_shape);
  args.weight = tensor(QUIRE_FLOAT32, weight, 3, weight_shape);
  args.bias = tensor(QUIRE_FLOAT32, bias, 1, bias_shape);
  if (row->past) {
    args.past_state = tensor(QUIRE_FLOAT32, past, state_rank, shape);
  }
  if (row->sequences > 1) {
    args.cu_seqlens = tensor(QUIRE_INT32, offsets, 1, offsets_shape);
  }
  args.output = tensor(QUIRE_FLOAT32, output, 3, input_shape);
  args.present_state = tensor(QUIRE_FLOAT32, present, state_rank, shape);
  args.activation = row->activation;
  args.dilation = row->dilation;
  args.channels_last = last;
  args.state_window = row->window;
  quire_error error;
  if (quire_causal_conv_with_state(device, &args, &error) != QUIRE_OK) {
    fail_msg("%s: %s", row->name, error.message);
  }
  for (int64_t i = 0; i < row->tokens; i++) {
    if (!(fabsf(output[i] - row->output[i]) <= 1e-6f * fabsf(row->output[i]))) {
      fail_msg("%s: output %lld is %.9g, expected %.9g", row->name, (long long)i, (double)output[i],
               (double)row->output[i]);
    }
  }
  for (int64_t i = 0; i < slots * state_count; i++) {
    if (present[i] != row->present[i]) {
      fail_msg("%s: state %lld is %.9g, expected %.9g", row->name, (long long)i, (double)present[i],
               (double)row->present[i]);
    }
  }
}

static void test_golden(void **state) {
  (void)state;
  for (size_t d = 0; d < CPU_LEVELS; d++) {
    for (size_t i = 0; cpu.devices[d] && i < sizeof golden_rows / sizeof golden_rows[0]; i++) {
      check_golden(cpu.devices[d], &golden_rows[i], 0);
      check_golden(cpu.devices[d], &golden_rows[i], 1);
    }
  }
}

/* ---- states: a call with tensors that fit each other ---- */

enum { BATCH = 2, CHANNELS = 3, TOKENS = 4, TAPS = 3, LENGTH = 2, SLOTS = 5 };

typedef struct fixture {
  float input[BATCH][CHANNELS][TOKENS], weight[CHANNELS][1][TAPS], bias[CHANNELS];
  float past[BATCH][CHANNELS][LENGTH], pool[SLOTS][CHANNELS][LENGTH];
  float output[BATCH][CHANNELS][TOKENS], present[8][BATCH][CHANNELS][LENGTH];
  int32_t reads[BATCH], writes[BATCH];
  conv_args args;
} fixture;

static const int64_t input_shape[] = {BATCH, CHANNELS, TOKENS};
static const int64_t weight_shape[] = {CHANNELS, 1, TAPS};
static const int64_t bias_shape[] = {CHANNELS};
static const int64_t state_shape[] = {BATCH, CHANNELS, LENGTH};
static const int64_t pool_shape[] = {SLOTS, CHANNELS, LENGTH};
static const int64_t index_shape[] = {BATCH};

static void fill(float *values, size_t count, float first) {
  for (size_t i = 0; i < count; i++) {
    values[i] = first + (float)(i * 7 % 11) - 5;
  }
}

static void fixture_init(fixture *f) {
  memset(f, 0, sizeof *f);
  fill(&f->input[0][0][0], sizeof f->input / sizeof(float), 0.25f);
  fill(&f->weight[0][0][0], sizeof f->weight / sizeof(float), 0.5f);
  fill(&f->past[0][0][0], sizeof f->past / sizeof(float), 0.125f);
  fill(&f->pool[0][0][0], sizeof f->pool / sizeof(float), 0.125f);
  quire_causal_conv_with_state_args_init(&f->args);
  f->args.input = tensor(QUIRE_FLOAT32, f->input, 3, input_shape);
  f->args.weight = tensor(QUIRE_FLOAT32, f->weight, 3, weight_shape);
  f->args.bias = tensor(QUIRE_FLOAT32, f->bias, 1, bias_shape);
  f->args.past_state = tensor(QUIRE_FLOAT32, f->past, 3, state_shape);
  f->args.output = tensor(QUIRE_FLOAT32, f->output, 3, input_shape);
  f->args.present_state = tensor(QUIRE_FLOAT32, f->present, 3, state_shape);
}

static void use_pool(fixture *f) {
  memset(&f->args.past_state, 0, sizeof f->args.past_state);
  memset(&f->args.present_state, 0, sizeof f->args.present_state);
  f->args.state_pool = tensor(QUIRE_FLOAT32, f->pool, 3, pool_shape);
  f->args.read_indices = tensor(QUIRE_INT32, f->reads, 1, index_shape);
  f->args.write_indices = tensor(QUIRE_INT32, f->writes, 1, index_shape);
}

static void call_ok(quire_device *device, const fixture *f) {
  quire_error error;
  if (quire_causal_conv_with_state(device, &f->args, &error) != QUIRE_OK) {
    fail_msg("%s", error.message);
  }
}

/* CC-E7, and slots that are read and written: the outputs and states of separate buffers. */
static void test_states_in_place(void **state) {
  (void)state;
  for (size_t d = 0; d < CPU_LEVELS; d++) {
    if (!cpu.devices[d]) {
      continue;
    }
    fixture apart, shared, pooled;
    fixture_init(&apart);
    fixture_init(&shared);
    fixture_init(&pooled);
    call_ok(cpu.devices[d], &apart);
    shared.args.present_state.data = shared.past;
    call_ok(cpu.devices[d], &shared);
    assert_memory_equal(apart.output, shared.output, sizeof apart.output);
    assert_memory_equal(apart.present[0], shared.past, sizeof apart.past);
    memcpy(pooled.pool[1], pooled.past, sizeof pooled.past); /* slots 1 and 2 */
    pooled.reads[0] = pooled.writes[0] = 1;
    pooled.reads[1] = 2;
    pooled.writes[1] = -1;
    use_pool(&pooled);
    const fixture before = pooled;
    call_ok(cpu.devices[d], &pooled);
    assert_memory_equal(apart.output, pooled.output, sizeof apart.output);
    assert_memory_equal(apart.present[0][0], pooled.pool[1], sizeof pooled.pool[1]);
    assert_memory_equal(before.pool[0], pooled.pool[0], sizeof pooled.pool[0]);
    assert_memory_equal(before.pool[2], pooled.pool[2], 3 * sizeof pooled.pool[0]);
  }
}

/* CC-G7. */
static void test_pool_golden(void **state) {
  (void)state;
  float input[] = {3, 4, 5}, weight[] = {1, 10, 100}, bias[] = {0.5f}, output[3];
  float pool[] = {1, 2, 7, 8, 0, 0};
  int32_t offsets[] = {0, 2, 3}, reads[] = {0, -1}, writes[] = {1, 2};
  const int64_t one[] = {1}, two[] = {2}, three[] = {3};
  const int64_t line[] = {1, 1, 3}, slots[] = {3, 1, 2};
  conv_args args;
  quire_causal_conv_with_state_args_init(&args);
  args.input = tensor(QUIRE_FLOAT32, input, 3, line);
  args.weight = tensor(QUIRE_FLOAT32, weight, 3, line);
  args.bias = tensor(QUIRE_FLOAT32, bias, 1, one);
  args.cu_seqlens = tensor(QUIRE_INT32, offsets, 1, three);
  args.state_pool = tensor(QUIRE_FLOAT32, pool, 3, slots);
  args.read_indices = tensor(QUIRE_INT32, reads, 1, two);
  args.write_indices = tensor(QUIRE_INT32, writes, 1, two);
  args.output = tensor(QUIRE_FLOAT32, output, 3, line);
  assert_int_equal(quire_causal_conv_with_state(cpu.devices[0], &args, NULL), QUIRE_OK);
  const float outputs[] = {321.5f, 432.5f, 500.5f}, states[] = {1, 2, 3, 4, 0, 5};
  assert_memory_equal(output, outputs, sizeof outputs);
  assert_memory_equal(pool, states, sizeof states);
}

/* ---- the contract ---- */

typedef struct change {
  size_t member; /* of a tensor in the args; 0: no more changes */
  quire_dtype dtype;
  int32_t ndim;
  int64_t shape[5];
} change;

typedef struct contract_row {
  quire_status status;
  const char *rule, *subject; /* NULL: any */
  size_t attribute;           /* member; 0: none */
  int64_t number;
  const char *text; /* for activation */
  bool pool;
  change changes[3];
} contract_row;

#define AT(name) offsetof(conv_args, name)
#define F32 QUIRE_FLOAT32
#define I32 QUIRE_INT32
#define NOTHING          \
  QUIRE_DTYPE_NONE, 0, { \
    0                    \
  }

/* clang-format off */
static const contract_row rows[] = {
    {QUIRE_OK, NULL, NULL, 0, 0, NULL, false, {{0}}},
    {QUIRE_OK, NULL, NULL, 0, 0, NULL, true, {{0}}},
    {QUIRE_BAD_ATTRIBUTE, "CC-V1", "activation", AT(activation), 0, "relu", false, {{0}}},
    {QUIRE_UNSUPPORTED, "CC-V1", "ndim", AT(ndim), 2, NULL, false, {{0}}},
    {QUIRE_BAD_ATTRIBUTE, "CC-V1", "ndim", AT(ndim), 4, NULL, false, {{0}}},
    {QUIRE_BAD_ATTRIBUTE, "CC-V1", "dilation", AT(dilation), 0, NULL, false, {{0}}},
    {QUIRE_BAD_ATTRIBUTE, "CC-V1", "dilation", AT(dilation), INT64_C(1) << 31, NULL, false, {{0}}},
    {QUIRE_BAD_ATTRIBUTE, "CC-V1", "channels_last", AT(channels_last), -1, NULL, false, {{0}}},
    {QUIRE_BAD_ATTRIBUTE, "CC-V1", "state_window", AT(state_window), 9, NULL, false, {{0}}},
    {QUIRE_BAD_PRESENCE, "CC-V2", "weight", 0, 0, NULL, false, {{AT(weight), NOTHING}}},
    {QUIRE_BAD_PRESENCE, "CC-V2", NULL, 0, 0, NULL, false, {{AT(present_state), NOTHING}}},
    {QUIRE_OK, NULL, NULL, 0, 0, NULL, false, {{AT(bias), NOTHING}, {AT(past_state), NOTHING}}},
    {QUIRE_BAD_RANK, "CC-V3", "input", 0, 0, NULL, false, {{AT(input), F32, 4, {2, 3, 4, 1}}}},
    {QUIRE_BAD_RANK, "CC-V3", "bias", 0, 0, NULL, false, {{AT(bias), F32, 2, {3, 1}}}},
    {QUIRE_BAD_RANK, "CC-V3", "past_state", AT(state_window), 2, NULL, false, {{0}}},
    {QUIRE_BAD_TYPE, "CC-V4", "weight", 0, 0, NULL, false, {{AT(weight), QUIRE_FLOAT16, 3, {3, 1, 3}}}},
    {QUIRE_BAD_TYPE, "CC-V4", "past_state", 0, 0, NULL, false,
     {{AT(past_state), QUIRE_FLOAT16, 3, {2, 3, 2}}}},
    {QUIRE_BAD_SHAPE, "CC-V5", "weight", 0, 0, NULL, false, {{AT(weight), F32, 3, {4, 1, 3}}}},
    {QUIRE_BAD_SHAPE, "CC-V5", "weight", 0, 0, NULL, false, {{AT(weight), F32, 3, {3, 2, 3}}}},
    {QUIRE_BAD_SHAPE, "CC-V5", "weight", 0, 0, NULL, false, {{AT(weight), F32, 3, {3, 1, 0}}}},
    {QUIRE_BAD_SHAPE, "CC-V6", "bias", 0, 0, NULL, false, {{AT(bias), F32, 1, {2}}}},
    {QUIRE_BAD_SHAPE, "CC-V7", "past_state", 0, 0, NULL, false, {{AT(past_state), F32, 3, {2, 3, 3}}}},
    {QUIRE_BAD_SHAPE, "CC-V7", "present_state", 0, 0, NULL, false,
     {{AT(present_state), F32, 3, {2, 2, 3}}}},
    {QUIRE_BAD_SHAPE, "CC-V7", "output", 0, 0, NULL, false, {{AT(output), F32, 3, {2, 4, 3}}}},
    {QUIRE_BAD_SHAPE, "CC-V7", "past_state", AT(dilation), 2, NULL, false, {{0}}},
    {QUIRE_BAD_SHAPE, "CC-V8", "state_window", AT(state_window), 2, NULL, false,
     {{AT(input), F32, 3, {2, 3, 0}}, {AT(past_state), NOTHING},
      {AT(present_state), F32, 4, {2, 2, 3, 2}}}},
    {QUIRE_BAD_SHAPE, "CC-X3", "input", 0, 0, NULL, false, {{AT(cu_seqlens), I32, 1, {3}}}},
    {QUIRE_BAD_SHAPE, "CC-X3", "cu_seqlens", 0, 0, NULL, false,
     {{AT(cu_seqlens), I32, 1, {0}}, {AT(past_state), NOTHING}}},
    {QUIRE_BAD_PRESENCE, "CC-X4", "read_indices", 0, 0, NULL, true, {{AT(read_indices), NOTHING}}},
    {QUIRE_BAD_PRESENCE, "CC-X4", "write_indices", 0, 0, NULL, true, {{AT(write_indices), NOTHING}}},
    {QUIRE_BAD_PRESENCE, "CC-X4", "read_indices", 0, 0, NULL, false, {{AT(read_indices), I32, 1, {2}}}},
    {QUIRE_BAD_PRESENCE, "CC-X4", "past_state", 0, 0, NULL, true,
     {{AT(past_state), F32, 3, {2, 3, 2}}}},
    {QUIRE_BAD_PRESENCE, "CC-X4", "present_state", 0, 0, NULL, true,
     {{AT(present_state), F32, 3, {2, 3, 2}}}},
    {QUIRE_BAD_SHAPE, "CC-X4", "state_pool", 0, 0, NULL, true, {{AT(state_pool), F32, 3, {5, 2, 2}}}},
    {QUIRE_BAD_SHAPE, "CC-X4", "state_pool", 0, 0, NULL, true, {{AT(state_pool), F32, 3, {5, 3, 1}}}},
    {QUIRE_BAD_SHAPE, "CC-X4", "read_indices", 0, 0, NULL, true, {{AT(read_indices), I32, 1, {1}}}},
    {QUIRE_BAD_SHAPE, "CC-X4", "write_indices", AT(state_window), 3, NULL, true,
     {{AT(write_indices), I32, 2, {2, 2}}}},
    {QUIRE_BAD_VALUE, "CC-X4", "read_indices", 0, 0, NULL, true, {{AT(state_pool), F32, 3, {0, 3, 2}}}},
    /* reads and writes hold zeros: both sequences write slot 0 */
    {QUIRE_BAD_VALUE, "CC-X4", "write_indices", AT(state_window), 1, NULL, true,
     {{AT(write_indices), I32, 2, {2, 1}}}},
};
/* clang-format on */

static void check_row(const contract_row *row, size_t number) {
  static float zeros[4096];
  static int32_t no_indices[64];
  fixture f;
  int64_t shapes[3][5];
  fixture_init(&f);
  if (row->pool) {
    use_pool(&f);
    f.reads[1] = f.writes[1] = 1;
    if (row->attribute == AT(state_window) && row->number == 1) {
      f.writes[1] = 0;
    }
  }
  unsigned char *args = (unsigned char *)&f.args;
  for (size_t i = 0; i < 3 && row->changes[i].member; i++) {
    const change *c = &row->changes[i];
    quire_tensor t = {0};
    memcpy(shapes[i], c->shape, sizeof shapes[i]);
    if (c->dtype != QUIRE_DTYPE_NONE) {
      t = tensor(c->dtype, c->dtype == I32 ? (void *)no_indices : (void *)zeros, c->ndim,
                 shapes[i]);
    }
    if (c->member == AT(write_indices) && c->dtype == I32) {
      t.data = f.writes;
    }
    memcpy(args + c->member, &t, sizeof t);
  }
  if (row->text) {
    memcpy(args + row->attribute, &row->text, sizeof row->text);
  } else if (row->attribute) {
    memcpy(args + row->attribute, &row->number, sizeof row->number);
  }
  const fixture before = f;
  quire_error error;
  memset(&error, 0, sizeof error);
  const quire_status status = quire_causal_conv_with_state(cpu.devices[0], &f.args, &error);
  if (status != row->status || (row->rule && strcmp(error.rule, row->rule) != 0) ||
      (row->subject && strcmp(error.subject, row->subject) != 0)) {
    fail_msg("row %zu: expected %s %s %s, got %s %s %s: %s", number, quire_status_name(row->status),
             row->rule ? row->rule : "", row->subject ? row->subject : "",
             quire_status_name(status), error.rule, error.subject, error.message);
  }
  if (status != QUIRE_OK) { /* a refused call changes nothing */
    assert_memory_equal(&before, &f, offsetof(fixture, args));
  }
}

static void test_contract(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    check_row(&rows[i], i);
  }
}

static void test_aliases(void **state) {
  (void)state;
  fixture f;
  fixture_init(&f);
  f.args.output.data = f.input;
  assert_int_equal(quire_causal_conv_with_state(cpu.devices[0], &f.args, NULL), QUIRE_BAD_ALIAS);
  fixture_init(&f);
  f.args.present_state.data = (float *)f.past + 1;
  assert_int_equal(quire_causal_conv_with_state(cpu.devices[0], &f.args, NULL), QUIRE_BAD_ALIAS);
  static const int64_t window_shape[] = {1, BATCH, CHANNELS, LENGTH};
  fixture_init(&f);
  f.args.state_window = 1;
  f.args.past_state = tensor(F32, f.past, 4, window_shape);
  f.args.present_state = f.args.past_state;
  quire_error error;
  assert_int_equal(quire_causal_conv_with_state(cpu.devices[0], &f.args, &error), QUIRE_BAD_ALIAS);
  assert_string_equal(error.rule, "CC-V10");
}

/* X2: what the standard operator does not know is refused. */
static void test_strict(void **state) {
  (void)state;
  fixture f;
  fixture contrib;
  fixture_init(&f);
  fixture_init(&contrib);
  f.args.activation = contrib.args.activation = "swish";
  assert_int_equal(quire_onnx_causal_conv_with_state(cpu.devices[0], &f.args, NULL), QUIRE_OK);
  call_ok(cpu.devices[0], &contrib);
  assert_memory_equal(f.output, contrib.output, sizeof f.output);
  assert_memory_equal(f.present, contrib.present, sizeof f.present);
  static const size_t unknown[] = {AT(dilation), AT(channels_last), AT(state_window)};
  for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
    const int64_t two = 2;
    fixture_init(&f);
    memcpy((unsigned char *)&f.args + unknown[i], &two, sizeof two);
    assert_int_equal(quire_onnx_causal_conv_with_state(cpu.devices[0], &f.args, NULL),
                     QUIRE_UNSUPPORTED);
  }
  fixture_init(&f);
  use_pool(&f);
  f.args.present_state = tensor(F32, f.present, 3, state_shape);
  assert_int_equal(quire_onnx_causal_conv_with_state(cpu.devices[0], &f.args, NULL),
                   QUIRE_UNSUPPORTED);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_golden),          cmocka_unit_test(test_pool_golden),
      cmocka_unit_test(test_states_in_place), cmocka_unit_test(test_contract),
      cmocka_unit_test(test_aliases),         cmocka_unit_test(test_strict),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
