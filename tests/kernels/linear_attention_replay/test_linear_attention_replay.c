/*
 * Verification with a log and LinearAttentionReplay, by their typed calls: LR-G1, the same log and
 * states on every instruction set, the rules. Random calls are compared with float64 and with
 * decoding one by one by tests/oracle, and between instruction sets by tests/kernels/differential.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cpu_device.h"
#include "quire/quire.h"

typedef quire_linear_attention_args linear_args;
typedef quire_linear_attention_replay_args replay_args;

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

#define F32 QUIRE_FLOAT32
#define I32 QUIRE_INT32

/* ---- drafted tokens: verified, some accepted ---- */

enum { BATCH = 2, TOKENS = 5, HEADS = 4, KEY_HEADS = 2, DK = 19, DV = 37 };
enum { QUERY_WIDTH = HEADS * DK, KEY_WIDTH = KEY_HEADS * DK, VALUE_WIDTH = HEADS * DV };

typedef struct draft {
  float query[BATCH][TOKENS][QUERY_WIDTH], key[BATCH][TOKENS][KEY_WIDTH];
  float value[BATCH][TOKENS][VALUE_WIDTH], decay[BATCH][TOKENS][HEADS], beta[BATCH][TOKENS][HEADS];
  float past[BATCH][HEADS][DK * DV], output[BATCH][TOKENS][VALUE_WIDTH];
  float log_key[BATCH][TOKENS][KEY_WIDTH], log_value[BATCH][TOKENS][VALUE_WIDTH];
  float log_decay[BATCH][TOKENS][HEADS];
  float present[BATCH][HEADS][DK * DV];
  int32_t accepted[BATCH];
} draft;

static const int64_t query_shape[] = {BATCH, TOKENS, QUERY_WIDTH};
static const int64_t key_shape[] = {BATCH, TOKENS, KEY_WIDTH};
static const int64_t value_shape[] = {BATCH, TOKENS, VALUE_WIDTH};
static const int64_t gate_shape[] = {BATCH, TOKENS, HEADS};
static const int64_t state_shape[] = {BATCH, HEADS, DK, DV};
static const int64_t batch_shape[] = {BATCH};

static void fill(float *values, size_t count, float low, float high) {
  uint32_t state = (uint32_t)count * 2654435761u;
  for (size_t i = 0; i < count; i++) {
    state = state * 1664525u + 1013904223u;
    values[i] = low + (high - low) * (float)(state >> 8) / 16777216.0f;
  }
}
#define FILL(array, low, high) fill((float *)(array), sizeof(array) / sizeof(float), low, high)

static void draft_init(draft *d) {
  memset(d, 0, sizeof *d);
  FILL(d->query, -1, 1);
  FILL(d->key, -0.3f, 0.3f);
  FILL(d->value, -1, 1);
  FILL(d->decay, -1, 0);
  FILL(d->beta, 0, 1);
  FILL(d->past, -1, 1);
}

static linear_args verification(draft *d) {
  linear_args args;
  quire_linear_attention_args_init(&args);
  args.query = tensor(F32, d->query, 3, query_shape);
  args.key = tensor(F32, d->key, 3, key_shape);
  args.value = tensor(F32, d->value, 3, value_shape);
  args.decay = tensor(F32, d->decay, 3, gate_shape);
  args.beta = tensor(F32, d->beta, 3, gate_shape);
  args.past_state = tensor(F32, d->past, 4, state_shape);
  args.output = tensor(F32, d->output, 3, value_shape);
  args.log_key = tensor(F32, d->log_key, 3, key_shape);
  args.log_value = tensor(F32, d->log_value, 3, value_shape);
  args.log_decay = tensor(F32, d->log_decay, 3, gate_shape);
  args.q_num_heads = args.kv_num_heads = HEADS;
  args.qk_l2_norm = 1;
  return args;
}

static replay_args replay_of(draft *d) {
  replay_args args;
  quire_linear_attention_replay_args_init(&args);
  args.log_key = tensor(F32, d->log_key, 3, key_shape);
  args.log_value = tensor(F32, d->log_value, 3, value_shape);
  args.log_decay = tensor(F32, d->log_decay, 3, gate_shape);
  args.accepted = tensor(I32, d->accepted, 1, batch_shape);
  args.past_state = tensor(F32, d->past, 4, state_shape);
  args.present_state = tensor(F32, d->present, 4, state_shape);
  args.kv_num_heads = HEADS;
  args.key_num_heads = KEY_HEADS;
  return args;
}

static void linear_ok(quire_device *device, const linear_args *args) {
  quire_error error;
  if (quire_linear_attention(device, args, &error) != QUIRE_OK) {
    fail_msg("%s", error.message);
  }
}

static void replay_ok(quire_device *device, const replay_args *args) {
  quire_error error;
  if (quire_linear_attention_replay(device, args, &error) != QUIRE_OK) {
    fail_msg("%s", error.message);
  }
}

/* All accepted: the state that the same call would have left. In place: the same. */
static void test_replay_of_all(void **state) {
  (void)state;
  draft plain, first;
  draft_init(&plain);
  linear_args whole = verification(&plain);
  memset(&whole.log_key, 0, 3 * sizeof whole.log_key);
  whole.present_state = tensor(F32, plain.present, 4, state_shape);
  linear_ok(cpu.devices[0], &whole);
  for (size_t i = 0; i < CPU_LEVELS; i++) {
    if (!cpu.devices[i]) {
      continue;
    }
    draft d;
    draft_init(&d);
    const linear_args verify = verification(&d);
    linear_ok(cpu.devices[i], &verify);
    assert_memory_equal(d.output, plain.output, sizeof d.output);
    if (i == 0) {
      first = d;
    }
    assert_memory_equal(d.log_key, first.log_key, sizeof d.log_key);
    assert_memory_equal(d.log_value, first.log_value, sizeof d.log_value);
    assert_memory_equal(d.log_decay, first.log_decay, sizeof d.log_decay);
    d.accepted[0] = d.accepted[1] = TOKENS;
    replay_args replay = replay_of(&d);
    replay_ok(cpu.devices[i], &replay);
    assert_memory_equal(d.present, plain.present, sizeof d.present);
    replay.present_state.data = d.past;
    replay_ok(cpu.devices[i], &replay);
    assert_memory_equal(d.past, plain.present, sizeof d.past);
  }
}

/* Nothing accepted: the old state. */
static void test_replay_of_none(void **state) {
  (void)state;
  draft d;
  draft_init(&d);
  const linear_args verify = verification(&d);
  linear_ok(cpu.devices[0], &verify);
  const replay_args replay = replay_of(&d);
  replay_ok(cpu.devices[0], &replay);
  assert_memory_equal(d.present, d.past, sizeof d.present);
}

/* LR-G1. */
static void test_golden(void **state) {
  (void)state;
  for (size_t i = 0; i < CPU_LEVELS; i++) {
    for (int32_t accepted = 0; cpu.devices[i] && accepted <= 2; accepted++) {
      static const float want[3][2] = {{4, 8}, {2, 4}, {1.64f, 2.52f}};
      float key[] = {1, 0, 0.6f, 0.8f}, value[] = {0, 1.9f}, decay[] = {0.5f, 0.25f};
      float past[] = {4, 8}, present[2];
      const int64_t keys[] = {1, 2, 2}, values[] = {1, 2, 1}, states[] = {1, 1, 2, 1}, one[] = {1};
      replay_args args;
      quire_linear_attention_replay_args_init(&args);
      args.log_key = tensor(F32, key, 3, keys);
      args.log_value = tensor(F32, value, 3, values);
      args.log_decay = tensor(F32, decay, 3, values);
      args.accepted = tensor(I32, &accepted, 1, one);
      args.past_state = tensor(F32, past, 4, states);
      args.present_state = tensor(F32, present, 4, states);
      args.kv_num_heads = 1;
      replay_ok(cpu.devices[i], &args);
      assert_float_equal(present[0], want[accepted][0], 1e-6f);
      assert_float_equal(present[1], want[accepted][1], 1e-6f);
    }
  }
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
  const char *rule, *subject;
  size_t attribute; /* member; 0: none */
  int64_t number;
  const char *text;
  change changes[3];
} contract_row;

#define NOTHING          \
  QUIRE_DTYPE_NONE, 0, { \
    0                    \
  }

static float numbers[8192];
static int32_t integers[64];

static void apply(const contract_row *row, unsigned char *args, int64_t shapes[3][5]) {
  for (size_t i = 0; i < 3 && row->changes[i].member; i++) {
    const change *c = &row->changes[i];
    quire_tensor t = {0};
    memcpy(shapes[i], c->shape, sizeof c->shape);
    if (c->dtype != QUIRE_DTYPE_NONE) {
      void *data = c->dtype == I32 ? (void *)integers : (void *)numbers;
      t = tensor(c->dtype, data, c->ndim, shapes[i]);
    }
    memcpy(args + c->member, &t, sizeof t);
  }
  if (row->text) {
    memcpy(args + row->attribute, &row->text, sizeof row->text);
  } else if (row->attribute) {
    memcpy(args + row->attribute, &row->number, sizeof row->number);
  }
}

static void check(const contract_row *row, size_t number, quire_status status,
                  const quire_error *error) {
  if (status != row->status || (row->rule && strcmp(error->rule, row->rule) != 0) ||
      (row->subject && strcmp(error->subject, row->subject) != 0)) {
    fail_msg("row %zu: expected %s %s %s, got %s %s %s: %s", number, quire_status_name(row->status),
             row->rule ? row->rule : "", row->subject ? row->subject : "",
             quire_status_name(status), error->rule, error->subject, error->message);
  }
}

#define AT(name) offsetof(replay_args, name)
#define POOL                  \
  {                           \
    AT(state_pool), F32, 4, { \
      3, HEADS, DK, DV        \
    }                         \
  }
#define READS                   \
  {                             \
    AT(read_indices), I32, 1, { \
      BATCH                     \
    }                           \
  }
#define WRITES                   \
  {                              \
    AT(write_indices), I32, 1, { \
      BATCH                      \
    }                            \
  }

/* clang-format off */
static const contract_row replay_rows[] = {
    {QUIRE_OK, NULL, NULL, 0, 0, NULL, {{0}}},
    {QUIRE_OK, NULL, NULL, 0, 0, NULL, {{AT(log_decay), NOTHING}, {AT(past_state), NOTHING}}},
    {QUIRE_OK, NULL, NULL, 0, 0, NULL, {{AT(log_decay), F32, 3, {BATCH, TOKENS, QUERY_WIDTH}}}},
    {QUIRE_BAD_ATTRIBUTE, "LR-V1", "kv_num_heads", AT(kv_num_heads), 0, NULL, {{0}}},
    {QUIRE_BAD_ATTRIBUTE, "LR-V1", "key_num_heads", AT(key_num_heads), -1, NULL, {{0}}},
    {QUIRE_BAD_ATTRIBUTE, "LR-V1", "state_layout", AT(state_layout), 0, "rows", {{0}}},
    {QUIRE_BAD_ATTRIBUTE, "LR-V1", "head_mapping", AT(head_mapping), 0, "", {{0}}},
    {QUIRE_BAD_PRESENCE, "LR-V2", "accepted", 0, 0, NULL, {{AT(accepted), NOTHING}}},
    {QUIRE_BAD_PRESENCE, "LR-V2", NULL, 0, 0, NULL, {{AT(present_state), NOTHING}}},
    {QUIRE_BAD_RANK, "LR-V3", "log_key", 0, 0, NULL, {{AT(log_key), F32, 2, {TOKENS, KEY_WIDTH}}}},
    {QUIRE_BAD_TYPE, "LR-V4", "log_value", 0, 0, NULL,
     {{AT(log_value), QUIRE_FLOAT16, 3, {BATCH, TOKENS, VALUE_WIDTH}}}},
    {QUIRE_BAD_TYPE, "LR-V4", "accepted", 0, 0, NULL, {{AT(accepted), F32, 1, {BATCH}}}},
    {QUIRE_BAD_SHAPE, "LR-V5", "log_key", 0, 0, NULL, {{AT(log_key), F32, 3, {BATCH, TOKENS, 0}}}},
    {QUIRE_BAD_SHAPE, "LR-V5", "log_key", 0, 0, NULL, {{AT(log_key), F32, 3, {BATCH, TOKENS, 39}}}},
    {QUIRE_BAD_SHAPE, "LR-V6", "log_value", 0, 0, NULL, {{AT(log_value), F32, 3, {BATCH, TOKENS, 147}}}},
    {QUIRE_BAD_SHAPE, "LR-V7", "key_num_heads", AT(key_num_heads), 19, NULL, {{0}}},
    {QUIRE_BAD_SHAPE, "LR-V8", "log_value", 0, 0, NULL, {{AT(log_value), F32, 3, {BATCH, 4, VALUE_WIDTH}}}},
    {QUIRE_BAD_SHAPE, "LR-V9", "log_decay", 0, 0, NULL, {{AT(log_decay), F32, 3, {1, TOKENS, HEADS}}}},
    {QUIRE_BAD_SHAPE, "LR-V9", "log_decay", 0, 0, NULL, {{AT(log_decay), F32, 3, {BATCH, TOKENS, 1}}}},
    {QUIRE_BAD_SHAPE, "LR-V10", "accepted", 0, 0, NULL, {{AT(accepted), I32, 1, {3}}}},
    {QUIRE_BAD_SHAPE, "LR-V10", "past_state", 0, 0, NULL,
     {{AT(past_state), F32, 4, {BATCH, HEADS, DV, DK}}}},
    {QUIRE_BAD_SHAPE, "LR-V10", "past_state", AT(state_layout), 0, "v_major", {{0}}},
    {QUIRE_BAD_SHAPE, "LR-X3", "log_key", 0, 0, NULL, {{AT(cu_seqlens), I32, 1, {BATCH + 1}}}},
    {QUIRE_BAD_PRESENCE, "LR-X4", "past_state", 0, 0, NULL, {POOL, READS, WRITES}},
    {QUIRE_BAD_PRESENCE, "LR-X4", "read_indices", 0, 0, NULL, {READS}},
    {QUIRE_BAD_PRESENCE, "LR-X4", "write_indices", 0, 0, NULL, {POOL, READS}},
};
/* clang-format on */

static void test_replay_contract(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof replay_rows / sizeof replay_rows[0]; i++) {
    draft d;
    int64_t shapes[3][5];
    quire_error error = {0};
    draft_init(&d);
    replay_args args = replay_of(&d);
    apply(&replay_rows[i], (unsigned char *)&args, shapes);
    check(&replay_rows[i], i, quire_linear_attention_replay(cpu.devices[0], &args, &error), &error);
  }
}

/* LR-V11, LR-X4: values. A refused call changes nothing. */
static void test_replay_values(void **state) {
  (void)state;
  static const int32_t wrong[] = {-1, TOKENS + 1};
  for (size_t i = 0; i < 2; i++) {
    draft d;
    quire_error error;
    draft_init(&d);
    d.accepted[1] = wrong[i];
    const draft before = d;
    const replay_args args = replay_of(&d);
    assert_int_equal(quire_linear_attention_replay(cpu.devices[0], &args, &error), QUIRE_BAD_VALUE);
    assert_string_equal(error.rule, "LR-V11");
    assert_string_equal(error.subject, "accepted");
    assert_memory_equal(&before, &d, sizeof d);
  }
  draft d;
  quire_error error;
  int32_t slots[] = {0, 0};
  draft_init(&d);
  replay_args args = replay_of(&d);
  args.state_pool = args.past_state;
  memset(&args.past_state, 0, sizeof args.past_state);
  memset(&args.present_state, 0, sizeof args.present_state);
  args.read_indices = args.write_indices = tensor(I32, slots, 1, batch_shape);
  assert_int_equal(quire_linear_attention_replay(cpu.devices[0], &args, &error), QUIRE_BAD_VALUE);
  assert_string_equal(error.rule, "LR-X4");
  slots[1] = 1;
  replay_ok(cpu.devices[0], &args);
}

#undef AT
#define AT(name) offsetof(linear_args, name)

/* clang-format off */
static const contract_row log_rows[] = {
    {QUIRE_OK, NULL, NULL, 0, 0, NULL, {{0}}},
    {QUIRE_OK, NULL, NULL, AT(update_rule), 0, "delta", {{AT(log_decay), NOTHING}}},
    {QUIRE_BAD_PRESENCE, "LA-X8", "log_key", 0, 0, NULL, {{AT(log_key), NOTHING}}},
    {QUIRE_BAD_PRESENCE, "LA-X8", "log_decay", 0, 0, NULL, {{AT(log_decay), NOTHING}}},
    {QUIRE_BAD_PRESENCE, "LA-X8", "log_decay", AT(update_rule), 0, "delta", {{0}}},
    {QUIRE_BAD_PRESENCE, "LA-V2", "present_state", 0, 0, NULL,
     {{AT(log_key), NOTHING}, {AT(log_value), NOTHING}, {AT(log_decay), NOTHING}}},
    {QUIRE_BAD_SHAPE, "LA-V10", "log_decay", 0, 0, NULL,
     {{AT(decay), F32, 3, {BATCH, TOKENS, QUERY_WIDTH}}}},
    {QUIRE_BAD_SHAPE, "LA-V10", "log_key", 0, 0, NULL, {{AT(log_key), F32, 3, {BATCH, TOKENS, DK}}}},
    {QUIRE_BAD_SHAPE, "LA-X8", "value", 0, 0, NULL,
     {{AT(value), F32, 3, {BATCH, TOKENS, 0}}, {AT(past_state), NOTHING},
      {AT(output), F32, 3, {BATCH, TOKENS, 0}}}},
    {QUIRE_BAD_TYPE, "LA-V4", "log_value", 0, 0, NULL,
     {{AT(log_value), QUIRE_BFLOAT16, 3, {BATCH, TOKENS, VALUE_WIDTH}}}},
};
/* clang-format on */

static void test_log_contract(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof log_rows / sizeof log_rows[0]; i++) {
    draft d;
    int64_t shapes[3][5];
    quire_error error = {0};
    draft_init(&d);
    linear_args args = verification(&d);
    apply(&log_rows[i], (unsigned char *)&args, shapes);
    check(&log_rows[i], i, quire_linear_attention(cpu.devices[0], &args, &error), &error);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_golden),         cmocka_unit_test(test_replay_of_all),
      cmocka_unit_test(test_replay_of_none), cmocka_unit_test(test_replay_contract),
      cmocka_unit_test(test_replay_values),  cmocka_unit_test(test_log_contract),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
