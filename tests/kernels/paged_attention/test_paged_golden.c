/* The golden vectors PA-G1 to PA-G13 of the operator's specification, on the passes themselves. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "numeric.h"
#include "paged_harness.h"

/* PA-G1 in f32 and f16. */
typedef struct golden {
  paged_call call;
  uint32_t query[12], key[6], value[6]; /* room for f32 */
  uint32_t key_cache[16], value_cache[16];
  uint32_t sink[2];
  uint32_t output[12];
  float lse[6];
  int32_t cumulative[3], past[2], table[4];
} golden;

static void put(quire_dtype dtype, void *row, const float *values, size_t n) {
  quire_narrow_row(dtype, values, n, row);
}

static void golden_init(golden *g, quire_dtype dtype) {
  memset(g, 0, sizeof *g);
  const float query[12] = {1, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1};
  const float key[6] = {2, 0, 1, 0, 0, 1};
  const float value[6] = {30, 3, 10, 1, 20, 2};
  float keys[16];
  float values[16];
  for (size_t i = 0; i < 16; ++i) {
    keys[i] = NAN;
    values[i] = NAN;
  }
  const float old_keys[4] = {1, 0, 0, 1};
  const float old_values[4] = {10, 1, 20, 2};
  memcpy(keys + 4, old_keys, sizeof old_keys);
  memcpy(values + 4, old_values, sizeof old_values);
  put(dtype, g->query, query, 12);
  put(dtype, g->key, key, 6);
  put(dtype, g->value, value, 6);
  put(dtype, g->key_cache, keys, 16);
  put(dtype, g->value_cache, values, 16);
  const int32_t cumulative[3] = {0, 1, 3};
  const int32_t past[2] = {2, 0};
  const int32_t table[4] = {1, 0, 3, 2};
  memcpy(g->cumulative, cumulative, sizeof cumulative);
  memcpy(g->past, past, sizeof past);
  memcpy(g->table, table, sizeof table);
  paged_call *c = &g->call;
  c->dtype = c->cache_dtype = dtype;
  c->tokens = 3;
  c->sequences = 2;
  c->num_heads = 2;
  c->kv_num_heads = 1;
  c->head_size = 2;
  c->block_count = 4;
  c->block_size = 2;
  c->columns = 2;
  c->query = g->query;
  c->key = g->key;
  c->value = g->value;
  c->key_cache = g->key_cache;
  c->value_cache = g->value_cache;
  c->cumulative = g->cumulative;
  c->past = g->past;
  c->table = g->table;
  c->scale = 0.5f;
  c->state_limit = c->extra_items = c->runners = -1;
  c->output = g->output;
  c->softmax_lse = g->lse;
}

static double output_at(const golden *g, int64_t row, int64_t head, int64_t d) {
  return (double)quire_load_f32(g->call.dtype, g->output, (row * 2 + head) * 2 + d);
}

static void expect(const golden *g, int64_t row, int64_t head, double first, double lse) {
  for (int64_t d = 0; d < 2; ++d) {
    const double want = d == 0 ? first : first / 10;
    const double limit = 2e-6 * fabs(want) + 1e-7;
    if (fabs(output_at(g, row, head, d) - want) > limit) {
      fail_msg("row %d head %d channel %d: %.8g, not %.8g", (int)row, (int)head, (int)d,
               output_at(g, row, head, d), want);
    }
  }
  assert_true(fabs((double)g->lse[row * 2 + head] - lse) < 3e-7);
}

static void test_g1_f32(void **state) {
  (void)state;
  golden g;
  golden_init(&g, QUIRE_FLOAT32);
  assert_int_equal(paged_run(&g.call, NULL), QUIRE_OK);
  expect(&g, 0, 0, 21.9928451, 1.6802697);
  expect(&g, 0, 1, 20, 1.2943768);
  expect(&g, 1, 0, 10, 0.5);
  expect(&g, 1, 1, 10, 0);
  expect(&g, 2, 0, 13.7754067, 0.9740770);
  expect(&g, 2, 1, 16.2245933, 0.9740770);
}

static void test_g1_f16(void **state) {
  (void)state;
  golden g;
  golden_init(&g, QUIRE_FLOAT16);
  assert_int_equal(paged_run(&g.call, NULL), QUIRE_OK);
  const double want[12] = {22.0, 2.19921875, 20,           2,        10,          1, 10,
                           1,    13.7734375, 1.3779296875, 16.21875, 1.6220703125};
  for (int64_t i = 0; i < 12; ++i) {
    const float expected = (float)want[i];
    const uint16_t bits = quire_f32_to_f16(expected);
    uint16_t got;
    memcpy(&got, (const char *)g.output + 2 * i, sizeof got);
    assert_int_equal(got, bits);
  }
}

typedef struct variant {
  const char *name;
  float scale;
  int32_t first_entry;
  int64_t window;
  int has_sink;
  float sink, softcap;
  double output[2], lse[2];
} variant;

static const variant variants[] = {
    {"G2", 1.0f, 1, 0, 0, 0, 0, {24.2051248, NAN}, {2.4076060, NAN}},
    {"G3", 0.0f, 1, 0, 0, 0, 0, {22.9197994, NAN}, {1.9659039, NAN}},
    {"G3, -0", -0.0f, 1, 0, 0, 0, 0, {22.9197994, NAN}, {1.9659039, NAN}},
    {"G4", -1.0f, 1, 0, 0, 0, 0, {18.4530210, NAN}, {0.4076060, NAN}},
    {"G5", 0.5f, -1, 0, 0, 0, 0, {30, 30}, {1, 0}},
    {"G5, too large", 0.5f, 4, 0, 0, 0, 0, {30, 30}, {1, 0}},
    {"G6", 0.5f, 1, 2, 0, 0, 0, {27.3105858, 23.7754067}, {1.3132617, 0.9740770}},
    {"G7", 0.5f, 1, 0, 1, 0, 0, {18.5386540, 15.6977416}, {1.8511289, 1.5365922}},
    {"G8", 0.5f, 1, 0, 1, 1, 0, {14.5988260, 11.4613460}, {2.0900457, 1.8511289}},
    {"G9", 0.5f, 1, 0, 0, 0, 1, {21.1720078, 20}, {1.5537389, 1.2774364}},
    {"G10", 0.5f, 1, 2, 1, 0, 1, {20.3421013, 17.2124902}, {1.4211034, 1.2774364}},
};

static void test_variants(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof variants / sizeof *variants; ++i) {
    const variant *v = &variants[i];
    golden g;
    golden_init(&g, QUIRE_FLOAT32);
    g.call.scale = v->scale;
    g.table[0] = v->first_entry;
    g.call.window = v->window;
    g.call.softcap = v->softcap;
    const float sink[2] = {v->sink, v->sink};
    put(QUIRE_FLOAT32, g.sink, sink, 2);
    g.call.sink = v->has_sink ? g.sink : NULL;
    assert_int_equal(paged_run(&g.call, NULL), QUIRE_OK);
    print_message("%s\n", v->name);
    for (int64_t head = 0; head < 2; ++head) {
      if (!isnan(v->output[head])) {
        expect(&g, 0, head, v->output[head], v->lse[head]);
      }
    }
  }
}

static void test_g12(void **state) {
  (void)state;
  golden g;
  golden_init(&g, QUIRE_FLOAT32);
  g.call.non_causal = true;
  assert_int_equal(paged_run(&g.call, NULL), QUIRE_OK);
  for (int64_t row = 1; row < 3; ++row) {
    expect(&g, row, 0, 13.7754067, 0.9740770);
    expect(&g, row, 1, 16.2245933, 0.9740770);
  }
}

/* PA-G13: which table entries are mapped, seen by the slots that are written. */
static void test_g13(void **state) {
  (void)state;
  const int32_t entries[5] = {-2, -1, 0, 3, 4};
  for (size_t i = 0; i < 5; ++i) {
    golden g;
    golden_init(&g, QUIRE_FLOAT32);
    g.table[2] = entries[i];
    const int mapped = entries[i] >= 0 && entries[i] < 4;
    assert_int_equal(paged_run(&g.call, NULL), QUIRE_OK);
    const double first = output_at(&g, 1, 0, 0);
    assert_true(first == (mapped ? 10.0 : 0.0));
    assert_true((g.lse[2] == -INFINITY) == !mapped);
    /* Strict runs refuse what is not mapped. */
    quire_error error;
    g.call.flags = QUIRE_RUN_STRICT;
    const quire_status status = paged_run(&g.call, &error);
    assert_int_equal(status, mapped ? QUIRE_OK : QUIRE_BAD_VALUE);
    if (!mapped) {
      assert_string_equal(error.subject, "block_table");
    }
  }
}

/* No visible key but a sink: output 0, log-sum-exp s. */
static void test_sink_alone(void **state) {
  (void)state;
  golden g;
  golden_init(&g, QUIRE_FLOAT32);
  g.table[0] = g.table[1] = -1;
  const float sink[2] = {3.0f, -INFINITY};
  put(QUIRE_FLOAT32, g.sink, sink, 2);
  g.call.sink = g.sink;
  assert_int_equal(paged_run(&g.call, NULL), QUIRE_OK);
  assert_true(output_at(&g, 0, 0, 0) == 0.0 && output_at(&g, 0, 1, 1) == 0.0);
  assert_true(g.lse[0] == 3.0f && g.lse[1] == -INFINITY);
}

/* A single key returns its value row, signs of zero included (NU-6: chains start at -0). */
static void test_single_key_zero(void **state) {
  (void)state;
  golden g;
  golden_init(&g, QUIRE_FLOAT32);
  const float value[6] = {30, 3, -0.0f, 0.0f, 20, 2};
  put(QUIRE_FLOAT32, g.value, value, 6);
  assert_int_equal(paged_run(&g.call, NULL), QUIRE_OK);
  assert_true(signbit(output_at(&g, 1, 0, 0)) != 0 && signbit(output_at(&g, 1, 0, 1)) == 0);
}

/* X6: 1, .25, .75, -.25, -100, 100 at scale .5 are stored as 2, 0, 2, 0, -128, 127. */
static void test_int8_store(void **state) {
  (void)state;
  golden g;
  golden_init(&g, QUIRE_FLOAT32);
  const float key[6] = {1, .25f, .75f, -.25f, -100, 100};
  const float value[6] = {NAN, INFINITY, -INFINITY, 0.5f, 1e30f, 63.75f};
  put(QUIRE_FLOAT32, g.key, key, 6);
  put(QUIRE_FLOAT32, g.value, value, 6);
  const float scale = 0.5f;
  const float zero = 0.0f;
  for (int is_zero = 0; is_zero < 2; ++is_zero) {
    memset(g.key_cache, 99, sizeof g.key_cache);
    memset(g.value_cache, 99, sizeof g.value_cache);
    g.call.cache_dtype = QUIRE_INT8;
    g.call.k_scale = is_zero ? &zero : &scale;
    g.call.v_scale = g.call.k_scale;
    assert_int_equal(paged_run(&g.call, NULL), QUIRE_OK);
    const int8_t *keys = (const int8_t *)g.key_cache;
    const int8_t *values = (const int8_t *)g.value_cache;
    const int8_t want_keys[6] = {2, 0, 2, 0, -128, 127};
    const int8_t want_values[6] = {0, 127, -128, 1, 127, 127};
    const size_t slots[3] = {0, 6, 7};
    for (size_t i = 0; i < 6; ++i) {
      const size_t at = slots[i / 2] * 2 + i % 2;
      assert_int_equal(keys[at], is_zero ? 0 : want_keys[i]);
      assert_int_equal(values[at], is_zero ? 0 : want_values[i]);
    }
    assert_int_equal(keys[10], 99);
  }
}

/* X7: a row's own scale beside it, and rows that have none: NaN, zeros, infinity, tiny numbers. */
static void test_int8_store_per_token(void **state) {
  (void)state;
  const float huge = 0x1.fffffep127f;
  const struct {
    float row[4];
    float scale;
    int8_t stored[4];
  } rows[] = {
      {{1, -.3f, .1f, 0}, 0.0078740157f, {127, -38, 13, 0}},
      {{0, -0.0f, 0, 0}, 1.0f, {0, 0, 0, 0}},
      {{-254, 1, 3, -5}, 2.0f, {-127, 0, 2, -2}}, /* halves go to even */
      {{NAN, 127, -63.5f, 62.5f}, 1.0f, {0, 127, -64, 62}},
      {{INFINITY, 1, -INFINITY, 0}, INFINITY, {0, 0, 0, 0}},
      {{huge, -huge, 0, 1}, huge / 127.0f, {127, -127, 0, 0}},
      {{0x1p-149f, 0, 0, 0}, 1.0f, {0, 0, 0, 0}}, /* its scale would be 0 */
      {{NAN, NAN, NAN, NAN}, 1.0f, {0, 0, 0, 0}},
  };
  static const quire_isa sets[] = {QUIRE_ISA_SCALAR, QUIRE_ISA_AVX2, QUIRE_ISA_AVX512,
                                   QUIRE_ISA_NEON};
  for (size_t i = 0; i < sizeof rows / sizeof *rows * 4; ++i) {
    const size_t r = i / 4;
    if (!paged_has_isa(sets[i % 4])) {
      continue;
    }
    float key[4];
    float value[4] = {0.5f, 0, 0, 0};
    float query[4] = {0, 0, 0, 0};
    memcpy(key, rows[r].row, sizeof key);
    int8_t caches[2][4] = {{99, 99, 99, 99}, {99, 99, 99, 99}};
    float scales[2] = {NAN, NAN};
    float output[4];
    const int32_t lengths[2] = {0, 1};
    const int32_t zero = 0;
    paged_call c = {.dtype = QUIRE_FLOAT32,
                    .cache_dtype = QUIRE_INT8,
                    .isa = sets[i % 4],
                    .tokens = 1,
                    .sequences = 1,
                    .num_heads = 1,
                    .kv_num_heads = 1,
                    .head_size = 4,
                    .block_count = 1,
                    .block_size = 1,
                    .columns = 1,
                    .query = query,
                    .key = key,
                    .value = value,
                    .key_cache = caches[0],
                    .value_cache = caches[1],
                    .k_scale_cache = &scales[0],
                    .v_scale_cache = &scales[1],
                    .cumulative = lengths,
                    .past = &zero,
                    .table = &zero,
                    .output = output};
    c.state_limit = c.extra_items = c.runners = -1;
    assert_int_equal(paged_run(&c, NULL), QUIRE_OK);
    assert_memory_equal(caches[0], rows[r].stored, 4);
    assert_memory_equal(&scales[0], &rows[r].scale, sizeof(float));
    assert_true(scales[1] == 0.5f / 127.0f && caches[1][0] == 127);
    /* The only key's value row, read back. */
    if (r < 3) {
      assert_true(output[0] == 127.0f * (0.5f / 127.0f) && output[1] == 0.0f);
    }
  }
}

typedef struct refusal {
  const char *name;
  int32_t cumulative[3], past[2], slots[3], metadata[2];
  uint32_t flags;
  const char *rule, *subject; /* NULL: accepted */
} refusal;

static const refusal refusals[] = {
    {"legal", {0, 1, 3}, {2, 0}, {0, 6, 7}, {0, 0}, 2, NULL, NULL},
    {"first not 0",
     {1, 1, 3},
     {2, 0},
     {0, 6, 7},
     {0, 0},
     0,
     "PA-V13",
     "cumulative_sequence_length"},
    {"decreasing", {0, 4, 3}, {0, 0}, {0, 6, 7}, {0, 0}, 0, "PA-V13", "cumulative_sequence_length"},
    {"last not T", {0, 1, 2}, {2, 0}, {0, 6, 7}, {0, 0}, 0, "PA-V13", "cumulative_sequence_length"},
    {"negative past", {0, 1, 3}, {-1, 0}, {0, 6, 7}, {0, 0}, 0, "PA-V13", "past_seqlens"},
    {"capacity", {0, 1, 3}, {4, 0}, {0, 6, 7}, {0, 0}, 0, "PA-V13", "past_seqlens"},
    {"empty at capacity", {0, 0, 3}, {4, 0}, {0, 6, 7}, {0, 0}, 0, NULL, NULL},
    {"empty beyond capacity", {0, 0, 3}, {5, 0}, {0, 6, 7}, {0, 0}, 0, "PA-V13", "past_seqlens"},
    {"slots", {0, 1, 3}, {2, 0}, {-2, 8, 100}, {0, 0}, 0, NULL, NULL},
    {"slots, strict", {0, 1, 3}, {2, 0}, {0, 8, 7}, {0, 0}, 2, "PA-E12", "slot_mapping"},
    {"slot -1, strict", {0, 1, 3}, {2, 0}, {0, -1, 7}, {0, 0}, 2, NULL, NULL},
    {"slot -2, strict", {0, 1, 3}, {2, 0}, {0, -2, 7}, {0, 0}, 2, "PA-E12", "slot_mapping"},
    {"understated bounds", {0, 1, 3}, {2, 0}, {0, 6, 7}, {1, 1}, 0, NULL, NULL},
    {"negative bound", {0, 1, 3}, {2, 0}, {0, 6, 7}, {1, -1}, 0, "X10", "attention_metadata"},
};

static void test_refusals(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof refusals / sizeof *refusals; ++i) {
    const refusal *r = &refusals[i];
    golden g;
    golden_init(&g, QUIRE_FLOAT32);
    g.call.cumulative = r->cumulative;
    g.call.past = r->past;
    g.call.slots = r->slots;
    g.call.metadata = r->metadata;
    g.call.metadata_count = 2;
    g.call.flags = r->flags;
    quire_error error = {QUIRE_OK, "", "", ""};
    const quire_status status = paged_run(&g.call, &error);
    print_message("%s: %s\n", r->name, error.message);
    assert_int_equal(status, r->rule == NULL ? QUIRE_OK : QUIRE_BAD_VALUE);
    assert_string_equal(error.rule, r->rule == NULL ? "" : r->rule);
    assert_string_equal(error.subject, r->subject == NULL ? "" : r->subject);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_g1_f32),
      cmocka_unit_test(test_g1_f16),
      cmocka_unit_test(test_variants),
      cmocka_unit_test(test_g12),
      cmocka_unit_test(test_g13),
      cmocka_unit_test(test_sink_alone),
      cmocka_unit_test(test_single_key_zero),
      cmocka_unit_test(test_int8_store),
      cmocka_unit_test(test_int8_store_per_token),
      cmocka_unit_test(test_refusals),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
