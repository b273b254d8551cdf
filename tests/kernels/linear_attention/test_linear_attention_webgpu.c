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

#include "numeric.h"
#include "variant_compare.h"

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

typedef struct problem {
  variant_call call;
  void *owned[VARIANT_MAX_TENSORS];
  size_t owned_count;
  uint64_t random;
} problem;

static float uniform(problem *p, float low, float high) {
  p->random = p->random * 6364136223846793005u + 1442695040888963407u;
  return low + (high - low) * (float)(p->random >> 40) / (float)(1 << 24);
}

static void *keep(problem *p, size_t bytes) {
  void *memory = calloc(1, bytes + 1);
  assert_non_null(memory);
  p->owned[p->owned_count++] = memory;
  return memory;
}

static variant_tensor *add(problem *p, const char *name, quire_dtype dtype, int32_t ndim,
                           const int64_t *shape) {
  variant_tensor *tensor = &p->call.inputs[p->call.input_count++];
  *tensor = (variant_tensor){.name = name, .dtype = dtype, .ndim = ndim};
  memcpy(tensor->shape, shape, (size_t)ndim * sizeof *shape);
  return tensor;
}

static void store(quire_dtype dtype, void *data, size_t index, float value) {
  if (dtype == F32) {
    ((float *)data)[index] = value;
  } else if (dtype == F16) {
    ((uint16_t *)data)[index] = quire_f32_to_f16(value);
  } else {
    ((uint16_t *)data)[index] = quire_f32_to_bf16(value);
  }
}

static void *add_floats(problem *p, const char *name, quire_dtype dtype, int32_t ndim,
                        const int64_t *shape, float low, float high) {
  variant_tensor *tensor = add(p, name, dtype, ndim, shape);
  size_t count = 1;
  for (int32_t d = 0; d < ndim; d++) {
    count *= (size_t)shape[d];
  }
  void *data = keep(p, count * quire_dtype_size(dtype));
  for (size_t i = 0; i < count; i++) {
    store(dtype, data, i, uniform(p, low, high));
  }
  tensor->data = data;
  return data;
}

static void add_integers(problem *p, const char *name, int32_t ndim, const int64_t *shape,
                         const int32_t *values, size_t count) {
  int32_t *data = keep(p, count * sizeof *data);
  memcpy(data, values, count * sizeof *data);
  add(p, name, QUIRE_INT32, ndim, shape)->data = data;
}

static void add_gates(problem *p, const row *r, int64_t batch) {
  const bool decays = strncmp(r->rule, "gated", 5) == 0;
  const bool deltas = strstr(r->rule, "delta") != NULL;
  if (decays) {
    const int64_t shape[] = {batch, r->tokens, r->heads * (r->by_channel ? r->dk : 1)};
    void *decay = add_floats(p, "decay", r->type, 3, shape, -1, r->positive ? 0.125F : 0);
    const size_t count = (size_t)(shape[0] * shape[1] * shape[2]);
    for (size_t i = 11; i < count && !r->gated && !r->positive; i += 29) {
      store(r->type, decay, i, -INFINITY); /* LA-E13 */
    }
  }
  if (deltas) {
    const int64_t shape[] = {batch, r->tokens, r->one_beta ? 1 : r->heads};
    (void)add_floats(p, "beta", r->type, 3, shape, 0, 1);
  }
  if (r->gated) {
    const int64_t heads[] = {r->heads};
    const int64_t biases[] = {r->heads * (r->bias_by_channel ? r->dk : 1)};
    (void)add_floats(p, "a_log", F32, 1, heads, -1, 1);
    (void)add_floats(p, "dt_bias", F32, 1, biases, -1, 1);
    variant_set_text(p->call.attributes, &p->call.attribute_count, "gate_activation", "qwen");
  }
  if (r->beta_activation != NULL) {
    variant_set_text(p->call.attributes, &p->call.attribute_count, "beta_activation",
                     r->beta_activation);
  }
}

/* Sequence 1 begins with zeros, 2 reads what it writes, 3 ends nowhere; other slots are NaN. */
static void add_pool(problem *p, const row *r, int64_t sequences) {
  const int64_t width = r->window > 0 ? r->window : 1;
  const int64_t slots = sequences * (width + 1) + 1;
  const int64_t shape[] = {slots, r->heads, r->v_major ? r->dv : r->dk, r->v_major ? r->dk : r->dv};
  void *pool = add_floats(p, "state_pool", r->state_type, 4, shape, -1, 1);
  const size_t state = (size_t)(r->heads * r->dk * r->dv);
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
  for (size_t i = 0; i < state; i++) {
    store(r->state_type, pool, (size_t)(slots - 1) * state + i, NAN);
  }
  const int64_t index_shape[] = {sequences, width};
  add_integers(p, "read_indices", 1, index_shape, reads, (size_t)sequences);
  add_integers(p, "write_indices", r->window > 0 ? 2 : 1, index_shape, writes,
               (size_t)(sequences * width));
}

static void add_past(problem *p, const row *r, int64_t sequences) {
  const int64_t rows_of = r->v_major ? r->dv : r->dk;
  const int64_t columns = r->v_major ? r->dk : r->dv;
  if (r->window > 0) {
    const int64_t shape[] = {r->window, sequences, r->heads, rows_of, columns};
    void *past = add_floats(p, "past_state", r->state_type, 5, shape, -1, 1);
    const size_t unread = (size_t)((r->window - 1) * sequences * r->heads * rows_of * columns);
    for (size_t i = 0; i < unread; i++) {
      store(r->state_type, past, i, NAN);
    }
  } else if (!r->fresh) {
    const int64_t shape[] = {sequences, r->heads, rows_of, columns};
    (void)add_floats(p, "past_state", r->state_type, 4, shape, -1, 1);
  }
}

static void add_outputs(problem *p, const row *r) {
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

static void add_attributes(problem *p, const row *r) {
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
static void make(problem *p, const row *r, uint64_t seed) {
  memset(p, 0, sizeof *p);
  p->random = seed;
  p->call.op = r->strict ? "ai.onnx.LinearAttention" : "com.microsoft.LinearAttention";
  const int64_t batch = r->batch ? r->batch : 1;
  const int64_t q_heads = r->q_heads ? r->q_heads : r->heads;
  const int64_t key_heads = r->key_heads ? r->key_heads : r->heads;
  const int64_t sequences = r->ends != NULL ? r->sequences : batch;
  const int64_t query[] = {batch, r->tokens, q_heads * r->dk};
  const int64_t key[] = {batch, r->tokens, key_heads * r->dk};
  const int64_t value[] = {batch, r->tokens, r->heads * r->dv};
  const float length = 1.7F / sqrtf((float)r->dk);
  (void)add_floats(p, "query", r->type, 3, query, -1, 1);
  (void)add_floats(p, "key", r->type, 3, key, -length, length);
  (void)add_floats(p, "value", r->type, 3, value, -1, 1);
  add_gates(p, r, batch);
  if (r->ends != NULL) {
    const int64_t shape[] = {sequences + 1};
    add_integers(p, "cu_seqlens", 1, shape, r->ends, (size_t)sequences + 1);
  }
  if (r->pool) {
    add_pool(p, r, sequences);
  } else {
    add_past(p, r, sequences);
  }
  add_outputs(p, r);
  add_attributes(p, r);
}

static void drop(problem *p) {
  for (size_t i = 0; i < p->owned_count; i++) {
    free(p->owned[i]);
  }
}

/* ---- tests ---- */

/* Marks the variants that rows insist on; every one for this backend must be among them. */
static void check_complete(const variant_world *world, const char *name, bool strict) {
  const quire_operator *op = quire_context_find_operator(world->context, name);
  for (size_t v = 0; v < quire_operator_variant_count(op); v++) {
    if (strcmp(quire_operator_variant_backend(op, v), "webgpu") != 0) {
      continue;
    }
    bool found = false;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
      found = found || (rows[i].strict == strict &&
                        strcmp(rows[i].variant, quire_operator_variant_name(op, v)) == 0);
    }
    if (!found) {
      fail_msg("%s: no row insists on %s", name, quire_operator_variant_name(op, v));
    }
  }
}

static void test_variants(void **state) {
  (void)state;
  variant_world world;
  variant_open(&world, true, false);
  check_complete(&world, "com.microsoft.LinearAttention", false);
  check_complete(&world, "ai.onnx.LinearAttention", true);
  if (world.gpu == NULL) {
    variant_close(&world);
    skip();
  }
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    problem p;
    make(&p, &rows[i], 4711 + i);
    const char *chosen = "";
    const variant_tolerance tolerance = {rows[i].tokens >= 32 ? 4e-5 : 1e-5};
    if (variant_compare(&world, &p.call, rows[i].variant, tolerance, &chosen) != QUIRE_OK) {
      fail_msg("row %zu: %s is not offered", i, rows[i].variant);
    }
    assert_string_equal(chosen, rows[i].variant);
    drop(&p);
  }
  variant_close(&world);
}

/* The planner's own choice on a device with nothing beyond the defaults: what it cannot hold is a
   log of a call that also has two states. */
static void test_default_limits(void **state) {
  (void)state;
  variant_world world;
  variant_open(&world, false, true);
  if (world.gpu == NULL) {
    variant_close(&world);
    skip();
  }
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i += 3) {
    problem p;
    make(&p, &rows[i], 42 + i);
    p.call.tunable_count = 0;
    const variant_tolerance tolerance = {rows[i].tokens >= 32 ? 4e-5 : 1e-5};
    const quire_status status = variant_compare(&world, &p.call, NULL, tolerance, NULL);
    if (status != QUIRE_OK && !(rows[i].log && !rows[i].pool)) {
      fail_msg("row %zu is refused", i);
    }
    drop(&p);
  }
  variant_close(&world);
}

/* Replaces an integer input's values. */
static void replace(problem *p, const char *name, const int32_t *values) {
  for (size_t i = 0; i < p->call.input_count; i++) {
    variant_tensor *tensor = &p->call.inputs[i];
    if (strcmp(tensor->name, name) == 0) {
      int32_t *data = keep(p, (size_t)tensor->shape[0] * sizeof *data);
      memcpy(data, values, (size_t)tensor->shape[0] * sizeof *data);
      tensor->data = data;
      return;
    }
  }
  fail_msg("no input %s", name);
}

/* Offsets and slots on the device that break the contract are made harmless: nothing outside is
   written, nothing hangs, rows before the first offset are zero. */
static void test_hostile_values(void **state) {
  (void)state;
  variant_world world;
  variant_open(&world, true, false);
  if (world.gpu == NULL) {
    variant_close(&world);
    skip();
  }
  static const int32_t hostile[][5] = {
      {4, 2, INT32_MAX, -5, 7}, {INT32_MIN, -1, 0, 0, 3}, {9, 9, 9, 9, 9}};
  static const int32_t slots[][4] = {
      {-2, INT32_MAX, INT32_MIN, 9}, {0, 0, 0, 0}, {1000000, -1, 3, 1 << 30}};
  static const char *const variants[] = {"recurrent_planned", "serial", "columns", "chunked"};
  for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) {
    for (size_t v = 0; v < sizeof variants / sizeof *variants; v++) {
      const row base = {variants[v],      "gated_delta",  F16,       F32,
                        .tokens = 9,      .heads = 1,     .dk = 8,   .dv = 8,
                        .ends = few_ends, .sequences = 4, .from = 1, .pool = true};
      problem p;
      make(&p, &base, 7);
      replace(&p, "cu_seqlens", hostile[i]);
      replace(&p, "read_indices", slots[i]);
      replace(&p, "write_indices", slots[(i + 1) % 3]);
      uint16_t *output = (uint16_t *)(void *)variant_run(&world, &p.call, variants[v], "output");
      const int32_t first = hostile[i][0] < 0 ? 0 : hostile[i][0];
      for (size_t e = 0; e < (size_t)first * 8; e++) {
        assert_int_equal(output[e], 0);
      }
      free(output);
      drop(&p);
    }
  }
  variant_close(&world);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_variants),
      cmocka_unit_test(test_default_limits),
      cmocka_unit_test(test_hostile_values),
  };
  return cmocka_run_group_tests_name("linear attention on webgpu", tests, NULL, NULL);
}
