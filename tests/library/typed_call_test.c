/* The typed calls on the golden vectors of the specifications, and what they refuse. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "library_fixture.h"

static cpu_device cpu;

static int open_device(void **state) {
  (void)state;
  cpu = open_cpu(NULL, 0);
  return 0;
}

static int close_device(void **state) {
  (void)state;
  cpu_close(&cpu);
  return 0;
}

static void assert_ok(quire_status status, const quire_error *error, const char *name) {
  if (status != QUIRE_OK) {
    fail_msg("%s: %s: %s", name, quire_status_name(status), error->message);
  }
}

/* ---- PagedAttention ---- */

/* PA-G1 to PA-G12 but for G5 and G11; output of the first channel and logarithm of row t, per head.
 */
static const struct {
  const char *name;
  int row;
  float scale, softcap;
  int64_t window, causal;
  bool sink;
  float sink_value;
  double output[2], lse[2];
} paged_rows[] = {
    {"PA-G1", 0, 0.5f, 0, -1, 1, false, 0, {21.9928451, 20}, {1.6802697, 1.2943768}},
    {"PA-G1", 1, 0.5f, 0, -1, 1, false, 0, {10, 10}, {0.5, 0}},
    {"PA-G1", 2, 0.5f, 0, -1, 1, false, 0, {13.7754067, 16.2245933}, {0.9740770, 0.9740770}},
    {"PA-G2", 0, 1, 0, -1, 1, false, 0, {24.2051248, NAN}, {2.4076060, NAN}},
    {"PA-G3", 0, 0, 0, -1, 1, false, 0, {22.9197994, NAN}, {1.9659039, NAN}},
    {"PA-G4", 0, -1, 0, -1, 1, false, 0, {18.4530210, NAN}, {0.4076060, NAN}},
    {"PA-G6", 0, 0.5f, 0, 2, 1, false, 0, {27.3105858, 23.7754067}, {1.3132617, 0.9740770}},
    {"PA-G7", 0, 0.5f, 0, -1, 1, true, 0, {18.5386540, 15.6977416}, {1.8511289, 1.5365922}},
    {"PA-G8", 0, 0.5f, 0, -1, 1, true, 1, {14.5988260, 11.4613460}, {2.0900457, 1.8511289}},
    {"PA-G9", 0, 0.5f, 1, -1, 1, false, 0, {21.1720078, 20}, {1.5537389, 1.2774364}},
    {"PA-G10", 0, 0.5f, 1, 2, 1, true, 0, {20.3421013, 17.2124902}, {1.4211034, 1.2774364}},
    {"PA-G12", 1, 0.5f, 0, -1, 0, false, 0, {13.7754067, 16.2245933}, {0.9740770, 0.9740770}},
    {"PA-G12", 2, 0.5f, 0, -1, 0, false, 0, {13.7754067, 16.2245933}, {0.9740770, 0.9740770}},
};

static void paged_attention_gives_the_golden_vectors(void **state) {
  (void)state;
  static const int64_t two[] = {2};
  for (size_t i = 0; i < sizeof paged_rows / sizeof paged_rows[0]; i++) {
    paged_case data;
    paged_case_init(&data);
    data.args.scale = paged_rows[i].scale;
    data.args.softcap = paged_rows[i].softcap;
    data.args.local_window_size = paged_rows[i].window;
    data.args.is_causal = paged_rows[i].causal;
    data.sink[0] = data.sink[1] = paged_rows[i].sink_value;
    if (paged_rows[i].sink) {
      data.args.head_sink = floats(data.sink, 1, two);
    }
    quire_error error;
    assert_ok(quire_paged_attention(cpu.device, &data.args, &error), &error, paged_rows[i].name);
    for (size_t head = 0; head < 2; head++) {
      double want = paged_rows[i].output[head];
      if (!isnan(want)) {
        assert_near(paged_rows[i].name, (double)data.output[paged_rows[i].row][2 * head], want);
        assert_near(paged_rows[i].name, (double)data.output[paged_rows[i].row][2 * head + 1],
                    want / 10);
        assert_near(paged_rows[i].name, (double)data.lse[paged_rows[i].row][head],
                    paged_rows[i].lse[head]);
      }
    }
    /* Derived slots 0, 6 and 7 hold the new keys; every other row is as it was. */
    assert_true(data.key_cache[0][0][0][0] == 2 && data.key_cache[3][0][0][0] == 1 &&
                data.key_cache[3][1][0][1] == 1 && data.value_cache[3][1][0][0] == 20);
    assert_true(isnan(data.key_cache[0][1][0][0]) && isnan(data.key_cache[2][0][0][0]));
  }
}

/* Separate cache outputs leave the inputs alone; naming the input's own buffer is in place. */
static void paged_attention_honours_cache_outputs(void **state) {
  (void)state;
  for (int same = 0; same < 2; same++) {
    paged_case data;
    paged_case_init(&data);
    float keys[16], values[16];
    data.args.key_cache_out = data.args.key_cache;
    data.args.value_cache_out = data.args.value_cache;
    if (!same) {
      data.args.key_cache_out.data = keys;
      data.args.value_cache_out.data = values;
    }
    quire_error error;
    assert_ok(quire_paged_attention(cpu.device, &data.args, &error), &error, "cache outputs");
    assert_near("output", (double)data.output[0][0], 21.9928451);
    float *written = same ? &data.key_cache[0][0][0][0] : keys;
    assert_true(written[0] == 2);
    assert_true(same || isnan(data.key_cache[0][0][0][0]));
  }
}

static void typed_calls_are_strict(void **state) {
  (void)state;
  paged_case data;
  paged_case_init(&data);
  data.table[0][0] = -1; /* PA-G5, which only permissive runs mask */
  quire_error error;
  assert_int_equal(quire_paged_attention(cpu.device, &data.args, &error), QUIRE_BAD_VALUE);
  assert_non_null(strstr(error.message, "block_table"));
  assert_true(isnan(data.key_cache[0][0][0][0]));
  assert_true(data.output[0][0] == 0);
}

/* ---- LinearAttention ---- */

static const struct {
  const char *name;
  const char *rule;
  bool per_key;
  double output[2], first[2], last[2];
} linear_rows[] = {
    {"LA-G1", "linear", false, {6, 10.4}, {6, 8}, {7.8, 10.4}},
    {"LA-G2", "gated", false, {4, 3.4}, {4, 4}, {2.8, 3.4}},
    {"LA-G3", "gated", true, {4, 6.4}, {4, 8}, {2.8, 6.4}},
    {"LA-G4", "delta", false, {3, 3.84}, {3, 8}, {-0.12, 3.84}},
    {"LA-G5", "gated_delta", false, {2, 2.52}, {2, 4}, {1.64, 2.52}},
    {"LA-G6", "gated_delta", true, {2, 3.6}, {2, 8}, {0.2, 3.6}},
};

static void check_linear(size_t i, int64_t window) {
  static const int64_t wide[] = {1, 2, 2};
  linear_case data;
  linear_case_init(&data);
  const char *name = linear_rows[i].name;
  data.args.update_rule = linear_rows[i].rule;
  if (linear_rows[i].per_key) {
    data.args.decay = floats(&data.decay_key[0][0], 3, wide);
  }
  int64_t windowed[] = {window, 1, 1, 2, 1};
  float pasts[3][2] = {{NAN, NAN}, {NAN, NAN}, {4, 8}};
  if (window > 0) { /* only the newest slot of the past counts */
    data.args.state_window = window;
    data.args.past_state = floats(pasts[3 - window], 5, windowed);
    data.args.present_state = floats(&data.present[0][0], 5, windowed);
  }
  quire_error error;
  assert_ok(quire_linear_attention(cpu.device, &data.args, &error), &error, name);
  int64_t newest = window > 0 ? window - 1 : 0;
  for (int c = 0; c < 2; c++) {
    assert_near(name, (double)data.output[c], linear_rows[i].output[c]);
    assert_near(name, (double)data.present[newest][c], linear_rows[i].last[c]);
    if (window >= 2) {
      assert_near(name, (double)data.present[newest - 1][c], linear_rows[i].first[c]);
    }
    if (window == 3) {
      assert_true(data.present[0][c] == 0); /* LA-G7: no token, no state */
    }
  }
}

static void linear_attention_gives_the_golden_vectors(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof linear_rows / sizeof linear_rows[0]; i++) {
    for (int64_t window = 0; window <= 3; window++) {
      check_linear(i, window);
    }
  }
}

static void linear_attention_updates_in_place(void **state) {
  (void)state;
  linear_case data;
  linear_case_init(&data);
  data.args.present_state = data.args.past_state;
  quire_error error;
  assert_ok(quire_linear_attention(cpu.device, &data.args, &error), &error, "in place");
  assert_near("state 0", (double)data.past[0], 1.64);
  assert_near("state 1", (double)data.past[1], 2.52);
}

static void a_state_must_go_somewhere(void **state) {
  (void)state;
  linear_case data;
  linear_case_init(&data);
  memset(&data.args.present_state, 0, sizeof data.args.present_state);
  quire_error error;
  assert_int_equal(quire_linear_attention(cpu.device, &data.args, &error), QUIRE_BAD_PRESENCE);
  assert_string_equal(error.subject, "present_state");
  assert_true(data.output[0] == 0);
}

static void linear_attention_uses_a_state_pool(void **state) {
  (void)state; /* LA-G12 */
  static const int64_t wide[] = {1, 2, 2}, narrow[] = {1, 2, 1}, pool_shape[] = {3, 1, 2, 1},
                       two[] = {2}, three[] = {3};
  linear_case data;
  linear_case_init(&data);
  float pool[3][2] = {{4, 8}, {0, 0}, {0, 0}};
  int32_t offsets[] = {0, 1, 2}, reads[] = {0, -1}, writes[] = {2, 1};
  quire_linear_attention_args args;
  quire_linear_attention_args_init(&args);
  args.query = floats(&data.query[0][0], 3, wide);
  args.key = floats(&data.key[0][0], 3, wide);
  args.value = floats(data.value, 3, narrow);
  args.cu_seqlens = ints(offsets, 1, three);
  args.state_pool = floats(&pool[0][0], 4, pool_shape);
  args.read_indices = ints(reads, 1, two);
  args.write_indices = ints(writes, 1, two);
  args.output = floats(data.output, 3, narrow);
  args.q_num_heads = args.kv_num_heads = 1;
  args.update_rule = "linear";
  args.scale = 1;
  quire_error error;
  assert_ok(quire_linear_attention(cpu.device, &args, &error), &error, "LA-G12");
  const double want[3][2] = {{4, 8}, {1.8, 2.4}, {6, 8}};
  for (int slot = 0; slot < 3; slot++) {
    assert_near("slot", (double)pool[slot][0], want[slot][0]);
    assert_near("slot", (double)pool[slot][1], want[slot][1]);
  }
  assert_near("output", (double)data.output[0], 6);
  assert_near("output", (double)data.output[1], 2.4);
}

/* The standard's operator: the same numbers by stricter rules. */
static void onnx_linear_attention_is_stricter(void **state) {
  (void)state;
  linear_case data;
  linear_case_init(&data);
  quire_error error;
  assert_ok(quire_onnx_linear_attention(cpu.device, &data.args, &error), &error, "strict");
  assert_near("output", (double)data.output[1], 2.52);

  data.args.update_rule = "linear"; /* does not use decay and beta */
  assert_ok(quire_linear_attention(cpu.device, &data.args, &error), &error, "contrib");
  assert_int_equal(quire_onnx_linear_attention(cpu.device, &data.args, &error), QUIRE_BAD_PRESENCE);

  linear_case_init(&data);
  data.args.state_layout = "v_major";
  assert_int_equal(quire_onnx_linear_attention(cpu.device, &data.args, &error), QUIRE_UNSUPPORTED);
  linear_case_init(&data);
  static const int64_t one[] = {1};
  float gate = 0;
  data.args.a_log = floats(&gate, 1, one);
  assert_int_equal(quire_onnx_linear_attention(cpu.device, &data.args, &error), QUIRE_UNSUPPORTED);
  assert_string_equal(error.subject, "a_log");
}

/* ---- PagedDecode and MergeAttentionStates ---- */

static void paged_decode_gives_the_golden_vectors(void **state) {
  (void)state;
  static const double output[3][2] = {{10, 10}, {13.7754067, 16.2245933}, {21.9928451, 20}};
  static const double lse[3][2] = {{0.5, 0}, {0.9740770, 0.9740770}, {1.6802697, 1.2943768}};
  decode_case data;
  decode_case_init(&data);
  quire_error error;
  assert_ok(quire_paged_decode(cpu.device, &data.args, &error), &error, "PD-G3");
  for (int row = 0; row < 3; row++) {
    for (size_t head = 0; head < 2; head++) {
      assert_near("PD-G3", (double)data.output[row][head][0], output[row][head]);
      assert_near("PD-G3", (double)data.output[row][head][1], output[row][head] / 10);
      assert_near("PD-G3", (double)data.lse[row][head], lse[row][head]);
    }
  }
  data.args.local_window_size = 2; /* PD-G7 */
  assert_ok(quire_paged_decode(cpu.device, &data.args, &error), &error, "PD-G7");
  assert_near("PD-G7 window", (double)data.output[2][0][0], 27.3105858);
  static const int64_t two[] = {2};
  data.sink[0] = data.sink[1] = 1;
  data.args.local_window_size = -1;
  data.args.head_sink = floats(data.sink, 1, two);
  assert_ok(quire_paged_decode(cpu.device, &data.args, &error), &error, "PD-G7");
  assert_near("PD-G7 sink", (double)data.output[2][0][0], 14.5988260);
  assert_near("PD-G7 sink", (double)data.output[2][1][0], 11.4613460);
}

static void merge_joins_partial_states(void **state) {
  (void)state; /* PA-G11 */
  static const int64_t shape[] = {1, 2, 2};
  float a[] = {10, 1, 10, 1}, b[] = {27.3105858f, 2.73105858f, 23.7754067f, 2.37754067f};
  float lse_a[] = {0.5f, 0}, lse_b[] = {1.3132617f, 0.9740770f}, output[4], lse[2];
  quire_merge_attention_states_args args;
  quire_merge_attention_states_args_init(&args);
  args.output_a = floats(a, 3, shape);
  args.softmax_lse_a = floats(lse_a, 2, shape);
  args.output_b = floats(b, 3, shape);
  args.softmax_lse_b = floats(lse_b, 2, shape);
  args.output = floats(output, 3, shape);
  args.softmax_lse = floats(lse, 2, shape);
  quire_error error;
  assert_ok(quire_merge_attention_states(cpu.device, &args, &error), &error, "PA-G11");
  assert_near("head 0", (double)output[0], 21.9928451);
  assert_near("head 1", (double)output[2], 20);
  assert_near("lse 0", (double)lse[0], 1.6802697);
  assert_near("lse 1", (double)lse[1], 1.2943768);
}

/* ---- refusals ---- */

/* Each breaks one thing of PA-G1. */
static void no_change(paged_case *data) {
  (void)data;
}
static void old_struct(paged_case *data) {
  data->args.struct_size = sizeof(size_t);
}
static void zero_struct(paged_case *data) {
  data->args.struct_size = 0;
}
static void no_query(paged_case *data) {
  memset(&data->args.query, 0, sizeof data->args.query);
}
static void no_output(paged_case *data) {
  data->args.output.data = NULL;
}
static void no_shape(paged_case *data) {
  data->args.query.shape = NULL;
}
static void rank_nine(paged_case *data) {
  data->args.query.ndim = 9;
}
static void rank_negative(paged_case *data) {
  data->args.query.ndim = -1;
}
static void no_type(paged_case *data) {
  data->args.query.dtype = QUIRE_DTYPE_NONE;
}
static void unknown_type(paged_case *data) {
  data->args.query.dtype = (quire_dtype)99;
}
static void wrong_type(paged_case *data) {
  data->args.past_seqlens.dtype = QUIRE_FLOAT32;
}
static void long_text(paged_case *data) {
  data->args.k_quant_type =
      "a text that is longer than any name that an attribute of this library has";
}
static void no_heads(paged_case *data) {
  data->args.num_heads = 0;
}
static void scale_not_finite(paged_case *data) {
  data->args.scale = INFINITY;
}
static void one_cache_output(paged_case *data) {
  static float other[16];
  data->args.key_cache_out = data->args.key_cache;
  data->args.key_cache_out.data = other;
}
static void length_beyond_table(paged_case *data) {
  data->past[0] = 4;
}
static void output_over_cache(paged_case *data) {
  data->args.output.data = data->key_cache;
}

static const struct {
  const char *name;
  void (*change)(paged_case *data);
  quire_status status;
  const char *message; /* part of it */
} refusals[] = {
    {"none", no_change, QUIRE_OK, ""},
    {"old struct", old_struct, QUIRE_BAD_REQUEST, "struct_size"},
    {"zero struct", zero_struct, QUIRE_BAD_REQUEST, "struct_size"},
    {"no query", no_query, QUIRE_BAD_PRESENCE, "query"},
    {"no output", no_output, QUIRE_BAD_PRESENCE, "output"},
    {"no shape", no_shape, QUIRE_BAD_REQUEST, "query"},
    {"rank 9", rank_nine, QUIRE_BAD_RANK, "query"},
    {"rank -1", rank_negative, QUIRE_BAD_RANK, "query"},
    {"no type", no_type, QUIRE_BAD_TYPE, "query"},
    {"unknown type", unknown_type, QUIRE_BAD_TYPE, "query"},
    {"wrong type", wrong_type, QUIRE_BAD_TYPE, "past_seqlens"},
    {"long text", long_text, QUIRE_BAD_ATTRIBUTE, "k_quant_type"},
    {"no heads", no_heads, QUIRE_BAD_ATTRIBUTE, "num_heads"},
    {"scale not finite", scale_not_finite, QUIRE_BAD_ATTRIBUTE, "scale"},
    {"one cache output", one_cache_output, QUIRE_BAD_PRESENCE, "cache"},
    {"length beyond table", length_beyond_table, QUIRE_BAD_VALUE, "past_seqlens"},
    {"output over cache", output_over_cache, QUIRE_BAD_ALIAS, "output"},
};

static void refusals_say_why_and_write_nothing(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
    paged_case data, before;
    paged_case_init(&data);
    memcpy(&before, &data, sizeof data);
    refusals[i].change(&data);
    before.past[0] = data.past[0];
    memcpy(&before.args, &data.args, sizeof data.args);
    quire_error error;
    memset(&error, 0, sizeof error);
    quire_status status = quire_paged_attention(cpu.device, &data.args, &error);
    if (status != refusals[i].status || (status != QUIRE_OK && error.status != status) ||
        strstr(error.message, refusals[i].message) == NULL) {
      fail_msg("%s: got %s: %s", refusals[i].name, quire_status_name(status), error.message);
    }
    if (status != QUIRE_OK) {
      assert_memory_equal(&data, &before, sizeof data);
      assert_int_equal(quire_paged_attention(cpu.device, &data.args, NULL), status);
    }
  }
}

static void null_arguments_are_refused(void **state) {
  (void)state;
  quire_error error;
  paged_case data;
  paged_case_init(&data);
  assert_int_equal(quire_paged_attention(NULL, &data.args, &error), QUIRE_BAD_REQUEST);
  assert_string_equal(error.subject, "device");
  assert_int_equal(quire_paged_attention(cpu.device, NULL, &error), QUIRE_BAD_REQUEST);
  assert_string_equal(error.subject, "args");
  assert_int_equal(quire_linear_attention(cpu.device, NULL, NULL), QUIRE_BAD_REQUEST);
  assert_int_equal(quire_onnx_linear_attention(NULL, NULL, NULL), QUIRE_BAD_REQUEST);
  assert_int_equal(quire_paged_decode(cpu.device, NULL, NULL), QUIRE_BAD_REQUEST);
  assert_int_equal(quire_merge_attention_states(cpu.device, NULL, NULL), QUIRE_BAD_REQUEST);
  quire_paged_attention_args_init(NULL);
  quire_linear_attention_args_init(NULL);
  quire_paged_decode_args_init(NULL);
  quire_merge_attention_states_args_init(NULL);
  quire_linear_attention_replay_args_init(NULL);
  quire_causal_conv_with_state_args_init(NULL);
  /* NULL for a text means its default. */
  data.args.k_quant_type = data.args.v_quant_type = NULL;
  assert_int_equal(quire_paged_attention(cpu.device, &data.args, NULL), QUIRE_OK);
}

/* No tokens at all: everything with a T in its shape is empty, and needs no memory. */
static void empty_calls_succeed(void **state) {
  (void)state;
  static const int64_t empty_query[] = {0, 4}, empty_key[] = {0, 2};
  paged_case data;
  paged_case_init(&data);
  data.offsets[1] = data.offsets[2] = 0;
  data.args.query = floats(NULL, 2, empty_query);
  data.args.key = floats(NULL, 2, empty_key);
  data.args.value = floats(NULL, 2, empty_key);
  data.args.output = floats(NULL, 2, empty_query);
  data.args.softmax_lse = floats(NULL, 2, empty_key);
  quire_error error;
  assert_ok(quire_paged_attention(cpu.device, &data.args, &error), &error, "empty");
  assert_true(isnan(data.key_cache[0][0][0][0]));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(paged_attention_gives_the_golden_vectors),
      cmocka_unit_test(paged_attention_honours_cache_outputs),
      cmocka_unit_test(typed_calls_are_strict),
      cmocka_unit_test(linear_attention_gives_the_golden_vectors),
      cmocka_unit_test(linear_attention_updates_in_place),
      cmocka_unit_test(a_state_must_go_somewhere),
      cmocka_unit_test(linear_attention_uses_a_state_pool),
      cmocka_unit_test(onnx_linear_attention_is_stricter),
      cmocka_unit_test(paged_decode_gives_the_golden_vectors),
      cmocka_unit_test(merge_joins_partial_states),
      cmocka_unit_test(refusals_say_why_and_write_nothing),
      cmocka_unit_test(null_arguments_are_refused),
      cmocka_unit_test(empty_calls_succeed),
  };
  return cmocka_run_group_tests(tests, open_device, close_device);
}
