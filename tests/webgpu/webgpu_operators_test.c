/*
 * The WebGPU variants of the small operators against the CPU's scalar kernels: replay, convolution
 * of both standards, merging; hostile values on the device; and that every operator with WebGPU
 * variants is in a test like this one.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "variant_hostile.h"

#define F32 QUIRE_FLOAT32
#define F16 QUIRE_FLOAT16
#define BF16 QUIRE_BFLOAT16

enum { SEQUENCES = 4, TOKENS = 9, HOSTILE_RUNS = 20 };

static const variant_tolerance tolerance = {1e-5};
static const int32_t ragged_ends[SEQUENCES + 1] = {0, 3, 3, 8, 9};

/* The state pool of a ragged call, of `size` elements a slot: sequence n reads slot 2 n + 1 and
   writes 2 n (the newer entries of a window nowhere); the last slot is not named, and NaN. */
static void add_pool(variant_problem *p, quire_dtype dtype, int32_t ndim, const int64_t *state,
                     int64_t window) {
  const int64_t shape[] = {2 * SEQUENCES + 1, state[0], state[1], ndim > 3 ? state[2] : 1};
  void *pool = variant_add_floats(p, "state_pool", dtype, ndim, shape, -1, 1);
  const int64_t size = shape[1] * shape[2] * shape[3];
  const int64_t last = (shape[0] - 1) * size;
  for (int64_t i = 0; i < size; i++) {
    variant_store(dtype, pool, last + i, NAN);
  }
  const int64_t width = window > 0 ? window : 1;
  const int64_t index_shape[] = {SEQUENCES, width};
  int32_t *reads = variant_add(p, "read_indices", QUIRE_INT32, 1, index_shape);
  int32_t *writes = variant_add(p, "write_indices", QUIRE_INT32, window > 0 ? 2 : 1, index_shape);
  for (int32_t n = 0; n < SEQUENCES; n++) {
    reads[n] = 2 * n + 1;
    for (int64_t w = 0; w < width; w++) {
      writes[n * width + w] = w == width - 1 ? 2 * n : -1;
    }
  }
}

/* ---- replay ---- */

typedef struct replay_row {
  const char *variant;
  quire_dtype type;
  int64_t heads, key_heads, dk, dv;
  int decay; /* 0: none, 1: per head, 2: per channel */
  bool v_major, tiled, pool, fresh;
} replay_row;

static const replay_row replays[] = {
    {"elements", F32, 2, 1, 8, 12, 1, .v_major = false},
    {"elements", F16, 4, 2, 5, 7, 2, .tiled = true},
    {"elements", BF16, 2, 2, 6, 3, 0, .fresh = true},
    {"elements", F16, 2, 1, 8, 8, 2, .v_major = true, .pool = true},
    {"elements", BF16, 1, 1, 3, 5, 1, .pool = true},
    {"in_place", F16, 2, 2, 8, 4, 1, .v_major = true},
    {"in_place", F32, 3, 1, 5, 6, 2, .v_major = false},
};

static void make_replay(variant_problem *p, const replay_row *r) {
  variant_begin(p, "quire.LinearAttentionReplay", 11);
  const int64_t batch = r->pool ? 1 : SEQUENCES;
  const int64_t key[] = {batch, TOKENS, r->key_heads * r->dk};
  const int64_t value[] = {batch, TOKENS, r->heads * r->dv};
  const int64_t decay[] = {batch, TOKENS, r->heads * (r->decay == 2 ? r->dk : 1)};
  const int64_t state[] = {SEQUENCES, r->heads, r->v_major ? r->dv : r->dk,
                           r->v_major ? r->dk : r->dv};
  static const int64_t sequences[] = {SEQUENCES};
  static const int64_t ends[] = {SEQUENCES + 1};
  static const int32_t accepted[SEQUENCES] = {2, 0, 4, 1};
  (void)variant_add_floats(p, "log_key", F32, 3, key, -1, 1);
  (void)variant_add_floats(p, "log_value", F32, 3, value, -1, 1);
  if (r->decay != 0) {
    (void)variant_add_floats(p, "log_decay", F32, 3, decay, 0, 1);
  }
  (void)variant_add_integers(p, "accepted", 1, sequences, accepted);
  variant_call *call = &p->call;
  if (r->pool) {
    (void)variant_add_integers(p, "cu_seqlens", 1, ends, ragged_ends);
    add_pool(p, r->type, 4, state + 1, 0);
  } else {
    if (!r->fresh) {
      (void)variant_add_floats(p, "past_state", r->type, 4, state, -1, 1);
    }
    call->outputs[call->output_count++] =
        (variant_tensor){.name = "present_state",
                         .dtype = r->type,
                         .ndim = -1,
                         .alias = strcmp(r->variant, "in_place") == 0 ? "past_state" : NULL};
  }
  variant_set_int(call->attributes, &call->attribute_count, "kv_num_heads", r->heads);
  variant_set_int(call->attributes, &call->attribute_count, "key_num_heads", r->key_heads);
  variant_set_text(call->attributes, &call->attribute_count, "state_layout",
                   r->v_major ? "v_major" : "k_major");
  variant_set_text(call->attributes, &call->attribute_count, "head_mapping",
                   r->tiled ? "tiled" : "blocked");
}

/* ---- convolution ---- */

typedef struct conv_row {
  quire_dtype type;
  int64_t channels, taps, dilation, window;
  bool strict, last, silu, bias, ragged, pool, in_place;
} conv_row;

static const conv_row convolutions[] = {
    {F32, 6, 4, 1, 0, .bias = true, .silu = true},
    {F16, 5, 3, 2, 0, .last = true},
    {BF16, 7, 4, 1, 3, .ragged = true, .last = true, .bias = true},
    {F16, 4, 4, 1, 0, .ragged = true, .pool = true, .last = true, .silu = true},
    {F16, 3, 4, 1, 2, .ragged = true, .pool = true, .bias = true},
    {F32, 5, 2, 3, 0, .ragged = true, .pool = true, .last = true},
    {F16, 6, 4, 1, 0, .in_place = true},
    {F16, 7, 4, 1, 0, .strict = true, .silu = true, .bias = true},
    {BF16, 3, 3, 1, 0, .strict = true, .in_place = true},
};

static void make_conv(variant_problem *p, const conv_row *r) {
  variant_begin(p, r->strict ? "ai.onnx.CausalConvWithState" : "com.microsoft.CausalConvWithState",
                13);
  const int64_t batch = r->ragged ? 1 : SEQUENCES;
  const int64_t input[] = {batch, r->last ? TOKENS : r->channels, r->last ? r->channels : TOKENS};
  const int64_t weight[] = {r->channels, 1, r->taps};
  const int64_t length = (r->taps - 1) * r->dilation;
  const int64_t state[] = {r->window, SEQUENCES, r->last ? length : r->channels,
                           r->last ? r->channels : length};
  static const int64_t ends[] = {SEQUENCES + 1};
  (void)variant_add_floats(p, "input", r->type, 3, input, -1, 1);
  (void)variant_add_floats(p, "weight", r->type, 3, weight, -1, 1);
  if (r->bias) {
    (void)variant_add_floats(p, "bias", r->type, 1, &r->channels, -1, 1);
  }
  if (r->ragged) {
    (void)variant_add_integers(p, "cu_seqlens", 1, ends, ragged_ends);
  }
  variant_call *call = &p->call;
  if (r->pool) {
    add_pool(p, r->type, 3, state + 2, r->window);
  } else {
    const int32_t ndim = r->window > 0 ? 4 : 3;
    (void)variant_add_floats(p, "past_state", r->type, ndim, state + (4 - ndim), -1, 1);
    call->outputs[call->output_count++] = (variant_tensor){
        .name = "present_state", .ndim = -1, .alias = r->in_place ? "past_state" : NULL};
  }
  variant_set_text(call->attributes, &call->attribute_count, "activation",
                   r->silu ? "silu" : "none");
  if (!r->strict) {
    variant_set_int(call->attributes, &call->attribute_count, "dilation", r->dilation);
    variant_set_int(call->attributes, &call->attribute_count, "channels_last", r->last);
    variant_set_int(call->attributes, &call->attribute_count, "state_window", r->window);
  }
}

/* ---- merging ---- */

static void make_merge(variant_problem *p, quire_dtype type, int64_t size) {
  const int64_t rows[] = {3, 5, size};
  static const char *const outputs[] = {"output_a", "output_b"};
  static const char *const logarithms[] = {"softmax_lse_a", "softmax_lse_b"};
  variant_begin(p, "quire.MergeAttentionStates", 17);
  for (size_t i = 0; i < 2; i++) {
    (void)variant_add_floats(p, outputs[i], type, 3, rows, -1, 1);
    float *lse = variant_add_floats(p, logarithms[i], F32, 2, rows, -3, 3);
    lse[3] = lse[5 + i] = -INFINITY; /* both sides empty, and either */
  }
}

/* ---- tests ---- */

static void expect_equal(variant_world *world, variant_problem *p, const char *variant) {
  assert_int_equal(variant_compare(world, &p->call, variant, tolerance, NULL), QUIRE_OK);
  variant_drop(p);
}

static void test_variants(void **state) {
  variant_world *world = *state;
  variant_problem p;
  for (size_t i = 0; i < sizeof replays / sizeof *replays; i++) {
    make_replay(&p, &replays[i]);
    expect_equal(world, &p, replays[i].variant);
  }
  for (size_t i = 0; i < sizeof convolutions / sizeof *convolutions; i++) {
    make_conv(&p, &convolutions[i]);
    expect_equal(world, &p, "webgpu");
  }
  static const quire_dtype types[] = {F32, F16, BF16, F16};
  for (int64_t i = 0; i < 4; i++) {
    make_merge(&p, types[i], 5 + i);
    expect_equal(world, &p, "webgpu");
  }
}

static void test_hostile_values(void **state) {
  variant_world *world = *state;
  variant_counts counts = {0, 0};
  variant_problem p;
  for (size_t i = 0; i < sizeof replays / sizeof *replays; i++) {
    if (replays[i].pool) {
      make_replay(&p, &replays[i]);
      variant_hostile_pool(world, &p, replays[i].variant, 0, HOSTILE_RUNS, &counts);
      variant_drop(&p);
    }
  }
  for (size_t i = 0; i < sizeof convolutions / sizeof *convolutions; i++) {
    const conv_row *r = &convolutions[i];
    if (r->pool) {
      make_conv(&p, r);
      const size_t row_bytes = (size_t)r->channels * quire_dtype_size(r->type);
      variant_hostile_pool(world, &p, "webgpu", r->last ? row_bytes : 0, HOSTILE_RUNS, &counts);
      variant_drop(&p);
    }
  }
  print_message("%zu calls with hostile values, %zu refused when checked\n", counts.runs,
                counts.refused);
  assert_true(counts.refused > counts.runs / 2);
}

/* Counts of accepted tokens without a pool: each is cut to the log. */
static void test_hostile_counts(void **state) {
  variant_world *world = *state;
  static const int32_t given[][SEQUENCES] = {{INT32_MAX, INT32_MIN, -1, TOKENS + 1},
                                             {TOKENS, 1 << 30, 3, -7}};
  for (size_t i = 0; i < sizeof replays / sizeof *replays; i++) {
    for (size_t k = 0; !replays[i].pool && k < sizeof given / sizeof *given; k++) {
      variant_problem p;
      variant_problem harmless;
      make_replay(&p, &replays[i]);
      make_replay(&harmless, &replays[i]);
      int32_t *accepted = variant_data(&harmless, "accepted");
      memcpy(variant_data(&p, "accepted"), given[k], sizeof given[k]);
      for (int n = 0; n < SEQUENCES; n++) {
        accepted[n] = given[k][n] < 0 ? 0 : given[k][n] > TOKENS ? TOKENS : given[k][n];
      }
      assert_int_equal(
          variant_compare_as(world, &p.call, &harmless.call, replays[i].variant, tolerance),
          QUIRE_OK);
      variant_drop(&harmless);
      variant_drop(&p);
    }
  }
}

/* Which test compares all variants of an operator (each ends with variant_expect_all). */
static const struct {
  const char *op;
  bool here;
} tested[] = {
    {"com.microsoft.PagedAttention", false},  /* test_paged_webgpu.c */
    {"quire.PagedDecode", false},             /* test_paged_decode_webgpu.c */
    {"com.microsoft.LinearAttention", false}, /* test_linear_attention_webgpu.c */
    {"ai.onnx.LinearAttention", false},       /* the same */
    {"quire.LinearAttentionReplay", true},
    {"com.microsoft.CausalConvWithState", true},
    {"ai.onnx.CausalConvWithState", true},
    {"quire.MergeAttentionStates", true},
};

static void test_every_operator(void **state) {
  const variant_world *world = *state;
  size_t variants = 0;
  for (size_t i = 0; i < quire_context_operator_count(world->context); i++) {
    const quire_operator *op = quire_context_operator(world->context, i);
    size_t own = 0;
    for (size_t v = 0; v < quire_operator_variant_count(op); v++) {
      own += strcmp(quire_operator_variant_backend(op, v), "webgpu") == 0;
    }
    bool found = own == 0;
    for (size_t t = 0; t < sizeof tested / sizeof *tested; t++) {
      if (quire_context_find_operator(world->context, tested[t].op) == op) {
        found = true;
        if (tested[t].here) {
          variant_expect_all(world, tested[t].op);
        }
      }
    }
    if (!found) {
      fail_msg("no test compares the WebGPU variants of %s", quire_operator_name(op));
    }
    variants += own;
  }
  print_message("%zu WebGPU variants\n", variants);
}

int main(void) {
  struct CMUnitTest tests[] = {
      cmocka_unit_test(test_variants),
      cmocka_unit_test(test_every_operator),
      cmocka_unit_test(test_hostile_values),
      cmocka_unit_test(test_hostile_counts),
  };
  return variant_main("operators on webgpu", tests, sizeof tests / sizeof *tests);
}
