/*
 * Every WebGPU variant of both manifests against the CPU's scalar kernels: rules, types, heads,
 * gates, layouts, windows, pools, ragged batches, chunks and segments of every kind. Memory around
 * the tensors is NaN, so is what must not be read.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "variant_hostile.h"

#define F32 QUIRE_FLOAT32
#define F16 QUIRE_FLOAT16
#define BF16 QUIRE_BFLOAT16

enum { MAX_SEQUENCES = 6 };

/* One call. What is 0 is usual: f32, one batch row, equal heads. */
typedef struct row {
  const char *variant; /* NULL: the planner's choice */
  const char *rule;
  quire_dtype type, state_type;
  int64_t batch, tokens, q_heads, heads, key_heads, dk, dv;
  int64_t window;
  const int32_t *ends; /* ragged: cu_seqlens, `sequences` + 1 entries */
  int64_t sequences;
  bool by_channel, bias_by_channel, gated, normalised, v_major, tiled, pool, log, stateless, fresh,
      in_place, one_beta, positive, strict;
  const char *beta_activation;
  int64_t chunk, from, scratch, unrolled, rows_each, wide;
} row;

static const int32_t ends[] = {0, 35, 35, 52, 119, 120};
static const int32_t few_ends[] = {0, 3, 3, 8, 9};

/* clang-format off */
static const row rows[] = {
    /* chunks: every rule, short last chunk, both decays, segments, hidden shapes */
    {"chunked", "linear", F16, F16, .tokens = 70, .heads = 2, .dk = 12, .dv = 8},
    {"chunked", "gated", F16, F32, .tokens = 65, .q_heads = 4, .heads = 2, .key_heads = 1, .dk = 8, .dv = 20},
    {"chunked", "gated", F32, F16, .tokens = 81, .heads = 2, .dk = 20, .dv = 8, .by_channel = true, .v_major = true},
    {"chunked", "delta", F32, F32, .batch = 2, .tokens = 64, .heads = 2, .dk = 36, .dv = 36, .normalised = true},
    {"chunked", "gated_delta", F16, F16, .batch = 2, .tokens = 97, .q_heads = 2, .heads = 4, .key_heads = 2, .dk = 20, .dv = 24, .scratch = 1},
    {"chunked", "gated_delta", F16, F32, .tokens = 97, .q_heads = 2, .heads = 4, .key_heads = 2, .dk = 20, .dv = 24, .by_channel = true, .gated = true, .normalised = true, .beta_activation = "sigmoid"},
    {"chunked", "gated_delta", BF16, BF16, .tokens = 70, .heads = 1, .dk = 20, .dv = 8, .fresh = true, .chunk = 32},
    {"chunked", "gated_delta", F32, F32, .tokens = 70, .heads = 3, .dk = 20, .dv = 8, .positive = true},
    {"chunked", "gated_delta", F16, F16, .batch = 4, .tokens = 70, .q_heads = 6, .heads = 2, .key_heads = 1, .dk = 20, .dv = 8, .pool = true, .tiled = true},
    {"chunked", "gated_delta", F16, F32, .tokens = 120, .heads = 2, .dk = 20, .dv = 8, .ends = ends, .sequences = 5, .from = 1, .scratch = 1},
    {"chunked", "gated_delta", F16, F16, .tokens = 120, .heads = 2, .dk = 20, .dv = 8, .ends = ends, .sequences = 5, .from = 1, .pool = true, .chunk = 32},
    {"chunked", "gated_delta", F16, F32, .tokens = 130, .heads = 1, .dk = 128, .dv = 128, .chunk = 64, .in_place = true},
    {"chunked", "gated_delta", F16, F32, .tokens = 33, .heads = 1, .dk = 8, .dv = 8, .unrolled = 1, .from = 1},
    /* single tokens and a few */
    {"recurrent", "linear", F16, F16, .tokens = 5, .heads = 2, .dk = 8, .dv = 12},
    {"recurrent", "gated", F16, F32, .tokens = 5, .q_heads = 4, .heads = 2, .key_heads = 1, .dk = 12, .dv = 8, .by_channel = true},
    {"recurrent", "delta", F32, F16, .tokens = 4, .heads = 2, .dk = 20, .dv = 8, .normalised = true},
    {"recurrent", "gated_delta", BF16, F32, .batch = 2, .tokens = 6, .heads = 2, .dk = 8, .dv = 8, .by_channel = true, .gated = true, .bias_by_channel = true, .beta_activation = "sigmoid"},
    {"recurrent", "gated_delta", F32, BF16, .batch = 2, .tokens = 6, .q_heads = 2, .heads = 4, .key_heads = 2, .dk = 8, .dv = 8, .gated = true, .bias_by_channel = true, .normalised = true, .beta_activation = "twice_sigmoid"},
    {"recurrent", "gated_delta", F16, F16, .tokens = 7, .q_heads = 4, .heads = 2, .key_heads = 1, .dk = 36, .dv = 12, .v_major = true},
    {"recurrent", "gated_delta", F32, F32, .batch = 2, .tokens = 2, .heads = 2, .dk = 8, .dv = 8, .window = 5, .v_major = true},
    {"recurrent", "gated_delta", F16, F16, .tokens = 5, .heads = 2, .dk = 8, .dv = 8, .window = 3},
    {"recurrent", "gated_delta", F16, F32, .batch = 4, .tokens = 3, .heads = 2, .dk = 8, .dv = 8, .window = 2, .pool = true, .v_major = true},
    {"recurrent", "gated_delta", F16, F16, .batch = 3, .tokens = 1, .q_heads = 1, .heads = 2, .key_heads = 1, .dk = 128, .dv = 128},
    {"recurrent", "gated_delta", F16, F16, .tokens = 1, .heads = 1, .dk = 32, .dv = 64, .wide = 1, .rows_each = 4},
    {"recurrent", "gated_delta", F16, F32, .tokens = 3, .heads = 1, .dk = 260, .dv = 8, .by_channel = true},
    {"recurrent", "gated_delta", F32, F32, .tokens = 0, .heads = 1, .dk = 8, .dv = 8},
    {"recurrent_in_place", "gated_delta", F16, F16, .tokens = 1, .heads = 2, .dk = 32, .dv = 32, .in_place = true},
    {"recurrent_in_place", "gated_delta", F32, F32, .tokens = 3, .heads = 2, .dk = 20, .dv = 8, .in_place = true, .v_major = true},
    {"recurrent_planned", "gated_delta", F16, F16, .tokens = 9, .heads = 2, .dk = 8, .dv = 8, .ends = few_ends, .sequences = 4, .pool = true, .window = 3, .gated = true, .normalised = true},
    {"recurrent_planned", "gated_delta", F16, F32, .tokens = 9, .q_heads = 6, .heads = 3, .key_heads = 3, .dk = 20, .dv = 8, .ends = few_ends, .sequences = 4, .by_channel = true, .log = true},
    {"recurrent_planned", "gated", F16, F16, .tokens = 4, .heads = 2, .dk = 8, .dv = 8, .log = true, .stateless = true, .normalised = true},
    /* small heads, and any */
    {"serial", "gated_delta", F16, F16, .tokens = 4, .q_heads = 3, .heads = 3, .key_heads = 1, .dk = 3, .dv = 5},
    {"serial", "gated_delta", BF16, F16, .batch = 3, .tokens = 4, .heads = 2, .dk = 7, .dv = 5, .by_channel = true, .gated = true, .bias_by_channel = true, .beta_activation = "sigmoid"},
    {"serial", "gated", F16, BF16, .tokens = 4, .q_heads = 3, .heads = 1, .key_heads = 1, .dk = 5, .dv = 7, .v_major = true, .window = 3},
    {"serial", "delta", F16, F16, .batch = 3, .tokens = 2, .q_heads = 1, .heads = 3, .key_heads = 3, .dk = 1, .dv = 1, .window = 4, .tiled = true, .one_beta = true},
    {"serial", "linear", F16, F16, .tokens = 9, .heads = 1, .dk = 5, .dv = 3, .ends = few_ends, .sequences = 4, .pool = true, .window = 2, .normalised = true},
    {"columns", "gated_delta", F16, F32, .tokens = 4, .heads = 1, .dk = 301, .dv = 3, .log = true, .normalised = true},
    {"columns", "gated_delta", F16, F16, .tokens = 9, .heads = 3, .dk = 19, .dv = 3, .ends = few_ends, .sequences = 4, .pool = true, .by_channel = true},
    {"columns", "linear", F32, F32, .tokens = 3, .heads = 2, .dk = 18, .dv = 1, .fresh = true},
    /* the standard operator */
    {"chunked", "gated_delta", F16, F16, .tokens = 70, .heads = 2, .dk = 20, .dv = 8, .strict = true},
    {"recurrent", "delta", F32, F32, .tokens = 3, .q_heads = 4, .heads = 2, .dk = 20, .dv = 8, .strict = true},
    {"recurrent_in_place", "gated", F16, F16, .tokens = 1, .heads = 2, .dk = 20, .dv = 8, .in_place = true, .strict = true},
    {"recurrent_planned", "linear", F16, F32, .tokens = 3, .heads = 2, .dk = 8, .dv = 8, .strict = true},
    {"serial", "gated_delta", F32, F32, .tokens = 3, .heads = 2, .dk = 5, .dv = 3, .by_channel = true, .strict = true},
    {"columns", "gated_delta", F16, F16, .tokens = 3, .heads = 2, .dk = 17, .dv = 3, .strict = true},
};
/* clang-format on */

/* ---- data ---- */

static void add_gates(variant_problem *p, const row *r, int64_t batch) {
  const bool decays = strncmp(r->rule, "gated", 5) == 0;
  const bool deltas = strstr(r->rule, "delta") != NULL;
  if (decays) {
    const int64_t shape[] = {batch, r->tokens, r->heads * (r->by_channel ? r->dk : 1)};
    void *decay = variant_add_floats(p, "decay", r->type, 3, shape, -1, r->positive ? 0.125F : 0);
    const int64_t count = shape[0] * shape[1] * shape[2];
    for (int64_t i = 11; i < count && !r->gated && !r->positive; i += 29) {
      variant_store(r->type, decay, i, -INFINITY); /* LA-E13 */
    }
  }
  if (deltas) {
    const int64_t shape[] = {batch, r->tokens, r->one_beta ? 1 : r->heads};
    (void)variant_add_floats(p, "beta", r->type, 3, shape, 0, 1);
  }
  if (r->gated) {
    const int64_t heads[] = {r->heads};
    const int64_t biases[] = {r->heads * (r->bias_by_channel ? r->dk : 1)};
    (void)variant_add_floats(p, "a_log", F32, 1, heads, -1, 1);
    (void)variant_add_floats(p, "dt_bias", F32, 1, biases, -1, 1);
    variant_set_text(p->call.attributes, &p->call.attribute_count, "gate_activation", "qwen");
  }
  if (r->beta_activation != NULL) {
    variant_set_text(p->call.attributes, &p->call.attribute_count, "beta_activation",
                     r->beta_activation);
  }
}

/* Sequence 1 begins with zeros, 2 reads what it writes, 3 ends nowhere; other slots are NaN. */
static void add_pool(variant_problem *p, const row *r, int64_t sequences) {
  const int64_t width = r->window > 0 ? r->window : 1;
  const int64_t slots = sequences * (width + 1) + 1;
  const int64_t shape[] = {slots, r->heads, r->v_major ? r->dv : r->dk, r->v_major ? r->dk : r->dv};
  void *pool = variant_add_floats(p, "state_pool", r->state_type, 4, shape, -1, 1);
  const int64_t state = r->heads * r->dk * r->dv;
  int32_t reads[MAX_SEQUENCES], writes[MAX_SEQUENCES * 8];
  for (int64_t n = 0; n < sequences; n++) {
    for (int64_t w = 0; w < width; w++) {
      writes[n * width + w] = (int32_t)(n * (width + 1) + w);
    }
    reads[n] = n == 1 ? -1 : (int32_t)(n * (width + 1) + (n == 2 ? width - 1 : width));
  }
  if (sequences > 3) {
    writes[4 * width - 1] = -1;
  }
  for (int64_t i = 0; i < state; i++) {
    variant_store(r->state_type, pool, (slots - 1) * state + i, NAN);
  }
  const int64_t index_shape[] = {sequences, width};
  variant_add_integers(p, "read_indices", 1, index_shape, reads);
  variant_add_integers(p, "write_indices", r->window > 0 ? 2 : 1, index_shape, writes);
}

static void add_past(variant_problem *p, const row *r, int64_t sequences) {
  const int64_t rows_of = r->v_major ? r->dv : r->dk;
  const int64_t columns = r->v_major ? r->dk : r->dv;
  if (r->window > 0) {
    const int64_t shape[] = {r->window, sequences, r->heads, rows_of, columns};
    void *past = variant_add_floats(p, "past_state", r->state_type, 5, shape, -1, 1);
    const int64_t unread = (r->window - 1) * sequences * r->heads * rows_of * columns;
    for (int64_t i = 0; i < unread; i++) {
      variant_store(r->state_type, past, i, NAN);
    }
  } else if (!r->fresh) {
    const int64_t shape[] = {sequences, r->heads, rows_of, columns};
    (void)variant_add_floats(p, "past_state", r->state_type, 4, shape, -1, 1);
  }
}

static void add_outputs(variant_problem *p, const row *r) {
  variant_tensor *out = p->call.outputs;
  if (r->log) {
    out[p->call.output_count++] = (variant_tensor){.name = "log_key", .ndim = -1};
    out[p->call.output_count++] = (variant_tensor){.name = "log_value", .ndim = -1};
    if (strncmp(r->rule, "gated", 5) == 0) {
      out[p->call.output_count++] = (variant_tensor){.name = "log_decay", .ndim = -1};
    }
  }
  if (!r->pool && !r->stateless) {
    out[p->call.output_count++] =
        (variant_tensor){.name = "present_state",
                         .dtype = r->fresh && !r->strict ? r->state_type : QUIRE_DTYPE_NONE,
                         .ndim = -1,
                         .alias = r->in_place ? "past_state" : NULL};
  }
}

static void add_attributes(variant_problem *p, const row *r) {
  variant_call *call = &p->call;
  const struct {
    const char *name;
    int64_t value;
  } integers[] = {{"q_num_heads", r->q_heads ? r->q_heads : r->heads},
                  {"kv_num_heads", r->heads},
                  {"state_window", r->window},
                  {"qk_l2_norm", r->normalised}};
  for (size_t i = 0; i < sizeof integers / sizeof *integers; i++) {
    if (integers[i].value != 0) {
      variant_set_int(call->attributes, &call->attribute_count, integers[i].name,
                      integers[i].value);
    }
  }
  variant_set_text(call->attributes, &call->attribute_count, "update_rule", r->rule);
  if (r->v_major) {
    variant_set_text(call->attributes, &call->attribute_count, "state_layout", "v_major");
  }
  if (r->tiled) {
    variant_set_text(call->attributes, &call->attribute_count, "head_mapping", "tiled");
  }
  const struct {
    const char *name;
    int64_t value;
  } tunables[] = {{"chunk", r->chunk},          {"chunkedFrom", r->from},
                  {"scratchBytes", r->scratch}, {"unrolled", r->unrolled},
                  {"rowsEach", r->rows_each},   {"wideTile", r->wide}};
  for (size_t i = 0; i < sizeof tunables / sizeof *tunables; i++) {
    if (tunables[i].value != 0) {
      variant_set_int(call->tunables, &call->tunable_count, tunables[i].name, tunables[i].value);
    }
  }
}

/* Keys of about unit length, so that the delta rules stay in bounds. */
static void make(variant_problem *p, const row *r, uint64_t seed) {
  variant_begin(p, r->strict ? "ai.onnx.LinearAttention" : "com.microsoft.LinearAttention", seed);
  const int64_t batch = r->batch ? r->batch : 1;
  const int64_t q_heads = r->q_heads ? r->q_heads : r->heads;
  const int64_t key_heads = r->key_heads ? r->key_heads : r->heads;
  const int64_t sequences = r->ends != NULL ? r->sequences : batch;
  const int64_t query[] = {batch, r->tokens, q_heads * r->dk};
  const int64_t key[] = {batch, r->tokens, key_heads * r->dk};
  const int64_t value[] = {batch, r->tokens, r->heads * r->dv};
  const float length = 1.7F / sqrtf((float)r->dk);
  (void)variant_add_floats(p, "query", r->type, 3, query, -1, 1);
  (void)variant_add_floats(p, "key", r->type, 3, key, -length, length);
  (void)variant_add_floats(p, "value", r->type, 3, value, -1, 1);
  add_gates(p, r, batch);
  if (r->ends != NULL) {
    const int64_t shape[] = {sequences + 1};
    variant_add_integers(p, "cu_seqlens", 1, shape, r->ends);
  }
  if (r->pool) {
    add_pool(p, r, sequences);
  } else {
    add_past(p, r, sequences);
  }
  add_outputs(p, r);
  add_attributes(p, r);
}

/* ---- tests ---- */

static void test_variants(void **state) {
  variant_world *world = *state;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    variant_problem p;
    make(&p, &rows[i], 4711 + i);
    const char *chosen = "";
    const variant_tolerance tolerance = {rows[i].tokens >= 32 ? 4e-5 : 1e-5};
    if (variant_compare(world, &p.call, rows[i].variant, tolerance, &chosen) != QUIRE_OK) {
      fail_msg("row %zu: %s is not offered", i, rows[i].variant);
    }
    assert_string_equal(chosen, rows[i].variant);
    variant_drop(&p);
  }
  variant_expect_all(world, "com.microsoft.LinearAttention");
  variant_expect_all(world, "ai.onnx.LinearAttention");
}

/* The planner's own choice on a device with nothing beyond the defaults: what it cannot hold is a
   log of a call that also has two states. */
static void test_default_limits(void **state) {
  (void)state;
  variant_world world;
  variant_open(&world, false, true);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i += 3) {
    variant_problem p;
    make(&p, &rows[i], 42 + i);
    p.call.tunable_count = 0;
    const variant_tolerance tolerance = {rows[i].tokens >= 32 ? 4e-5 : 1e-5};
    const quire_status status = variant_compare(&world, &p.call, NULL, tolerance, NULL);
    if (status != QUIRE_OK && !(rows[i].log && !rows[i].pool)) {
      fail_msg("row %zu is refused", i);
    }
    variant_drop(&p);
  }
  variant_close(&world);
}

/* Replaces the values of an integer input. */
static void replace(const variant_problem *p, const char *name, const int32_t *values,
                    size_t count) {
  memcpy(variant_data(p, name), values, count * sizeof *values);
}

/* Offsets and slots on the device that break the contract are made harmless: nothing outside is
   written, nothing hangs, rows before the first offset are zero, the others' results stay. */
static void test_hostile_values(void **state) {
  variant_world *world = *state;
  static const int32_t hostile[][5] = {
      {4, 2, INT32_MAX, -5, 7}, {INT32_MIN, -1, 0, 0, 3}, {9, 9, 9, 9, 9}};
  static const int32_t slots[][4] = {
      {-2, INT32_MAX, INT32_MIN, 9}, {0, 0, 0, 0}, {1000000, -1, 3, 1 << 30}};
  static const char *const variants[] = {"recurrent_planned", "serial", "columns", "chunked"};
  variant_counts counts = {0, 0};
  for (size_t v = 0; v < sizeof variants / sizeof *variants; v++) {
    const row base = {variants[v],      "gated_delta",  F16,       F32,
                      .tokens = 9,      .heads = 1,     .dk = 8,   .dv = 8,
                      .ends = few_ends, .sequences = 4, .from = 1, .pool = true};
    variant_problem p;
    make(&p, &base, 7);
    variant_hostile_pool(world, &p, variants[v], 8 * sizeof(uint16_t), 12, &counts);
    for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) {
      replace(&p, "cu_seqlens", hostile[i], 5);
      replace(&p, "read_indices", slots[i], 4);
      replace(&p, "write_indices", slots[(i + 1) % 3], 4);
      uint16_t *output = (uint16_t *)(void *)variant_run(world, &p.call, variants[v], "output");
      const int32_t first = hostile[i][0] < 0 ? 0 : hostile[i][0];
      for (size_t e = 0; e < (size_t)first * 8; e++) {
        assert_int_equal(output[e], 0);
      }
      free(output);
      counts.runs++;
    }
    variant_drop(&p);
  }
  print_message("%zu calls with hostile values, %zu refused when checked\n", counts.runs,
                counts.refused);
  assert_true(counts.refused > 0);
}

int main(void) {
  struct CMUnitTest tests[] = {
      cmocka_unit_test(test_variants),
      cmocka_unit_test(test_hostile_values),
      cmocka_unit_test(test_default_limits),
  };
  return variant_main("linear attention on webgpu", tests, sizeof tests / sizeof *tests);
}
