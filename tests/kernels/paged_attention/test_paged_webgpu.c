/*
 * Every WebGPU variant against the CPU's scalar kernels: types, groups, head and block sizes,
 * windows, caps, sinks, int8 caches, slots, holes and mixed batches. Memory that no token may see
 * is NaN, around the tensors too.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "paged_webgpu_call.h"

#define F32 QUIRE_FLOAT32
#define F16 QUIRE_FLOAT16
#define BF16 QUIRE_BFLOAT16

/* clang-format off */
static const paged_row rows[] = {
    /* decode: ranges of few keys, so that there are many of them */
    {"decode_subgroups", F16, 8, 2, 128, 16, {300, 0, 77}, {1, 1, 1}, 3, .range = 128},
    {"decode_subgroups", F16, 6, 2, 96, 3, {40, 200, 5}, {2, 1, 0}, 3, .window = 30, .sink = true, .lse = true, .range = 64},
    {"decode_subgroups", F32, 2, 2, 40, 1, {90, 17}, {1, 3}, 2, .softcap = 2, .packed = true, .holes = true},
    {"decode_subgroups", BF16, 16, 1, 128, 16, {130}, {4}, 1, .non_causal = true, .slots = true, .range = 64},
    {"decode_subgroups", F16, 7, 1, 64, 16, {33, 100}, {1, 1}, 2, "PER_TENSOR", .lse = true, .sink = true, .range = 32},
    {"decode_subgroups", F32, 4, 2, 256, 48, {100, 20}, {1, 2}, 2, "PER_CHANNEL", .holes = true},
    {"decode_subgroups", F16, 4, 4, 8, 256, {300, 3}, {1, 1}, 2, .scale = -0.5, .packed = true},
    {"decode_subgroups", F16, 8, 2, 32, 16, {300, 0, 77}, {1, 1, 2}, 3, .range = 128, .lse = true},
    {"decode", F16, 8, 2, 128, 16, {300, 0, 77}, {1, 1, 1}, 3, .range = 128},
    {"decode", F16, 6, 2, 96, 3, {40, 200, 5}, {2, 1, 0}, 3, .window = 30, .sink = true, .lse = true, .range = 64},
    {"decode", F32, 2, 2, 40, 1, {90, 17}, {1, 3}, 2, .softcap = 2, .packed = true, .holes = true},
    {"decode", BF16, 16, 1, 128, 16, {130}, {4}, 1, .non_causal = true, .slots = true, .range = 64},
    {"decode", F16, 7, 1, 64, 16, {33, 100}, {1, 1}, 2, "PER_CHANNEL", .lse = true, .sink = true, .range = 32},
    {"decode", F32, 4, 2, 256, 48, {100, 20}, {1, 2}, 2, "PER_TENSOR", .holes = true},
    {"decode", F16, 4, 4, 8, 256, {300, 3}, {1, 1}, 2, .scale = -0.5, .packed = true},
    /* the same in one pass less */
    {"decode_subgroups_stored", F16, 8, 2, 64, 16, {30, 0, 77}, {1, 1, 0}, 3, .slots = true, .sink = true},
    {"decode_subgroups_stored", F32, 2, 1, 16, 3, {30, 9}, {4, 1}, 2, .packed = true, .holes = true},
    {"decode_stored", BF16, 8, 2, 64, 16, {30, 0, 77}, {1, 1, 0}, 3, .slots = true, .sink = true},
    {"decode_stored", F32, 2, 1, 16, 3, {30, 9}, {4, 1}, 2, .packed = true, .holes = true},
    /* tiles, beside rows of short sequences */
    {"prefill_subgroups", F16, 4, 2, 128, 16, {0, 40, 9, 100}, {37, 1, 0, 8}, 4, .lse = true},
    {"prefill_subgroups", F32, 3, 1, 40, 3, {70, 3}, {33, 9}, 2, .window = 20, .sink = true, .poison = true},
    {"prefill_subgroups", F16, 10, 2, 64, 16, {5, 150}, {21, 1}, 2, "PER_CHANNEL", .lse = true, .sink = true, .range = 64},
    {"prefill", F16, 4, 2, 128, 16, {0, 40, 9, 100}, {37, 1, 0, 8}, 4, .poison = true, .slots = true},
    {"prefill", BF16, 2, 1, 80, 16, {100}, {70}, 1, .softcap = 3, .packed = true, .holes = true, .lse = true},
    {"prefill", F16, 66, 1, 8, 16, {20, 7}, {19, 1}, 2, .non_causal = true},
    {"prefill", F32, 2, 1, 256, 16, {0}, {20}, 1, .quantised = "PER_TENSOR"},
    {"prefill", F16, 2, 2, 128, 16, {60}, {80}, 1, .poison = true, .rows = 64, .keys = 128},
    /* int8 with a scale for each token and head */
    {"decode_subgroups", F16, 8, 2, 64, 16, {90, 0, 33}, {1, 3, 2}, 3, "PER_TOKEN", .range = 32, .lse = true, .holes = true},
    {"decode_subgroups", BF16, 6, 1, 96, 3, {40}, {2}, 1, "PER_TOKEN", "PER_CHANNEL", .softcap = 2, .packed = true},
    {"decode", F32, 7, 1, 40, 16, {33, 100}, {1, 1}, 2, "PER_TOKEN", .sink = true, .window = 30, .range = 64},
    {"decode", F16, 4, 2, 256, 16, {20}, {4}, 1, "PER_TENSOR", "PER_TOKEN", .slots = true, .lse = true},
    {"prefill_subgroups", F16, 4, 2, 128, 16, {0, 40, 9, 100}, {37, 1, 0, 8}, 4, "PER_TOKEN", .lse = true, .poison = true},
    {"prefill", F32, 3, 1, 40, 3, {70, 3}, {33, 9}, 2, "PER_TOKEN", .window = 20, .sink = true, .unbounded = true},
    {"prefill", F16, 4, 2, 64, 16, {20}, {40}, 1, "PER_CHANNEL", "PER_TOKEN", .packed = true, .slots = true, .unbounded = true},
    {"general", F16, 6, 2, 5, 3, {40, 12, 0}, {3, 0, 11}, 3, "PER_TOKEN", .slots = true, .sink = true, .lse = true, .poison = true},
    {"general", F32, 2, 1, 20, 16, {70, 9}, {2, 12}, 2, "PER_TOKEN", "PER_TENSOR", .window = 9, .holes = true},
    /* any shape */
    {"general", F16, 6, 2, 5, 3, {40, 12, 0}, {3, 0, 11}, 3, .slots = true, .lse = true, .poison = true},
    {"general", BF16, 3, 3, 7, 16, {20}, {5}, 1, .packed = true, .holes = true, .softcap = 5},
    {"general", F16, 2, 1, 3, 4, {9, 30}, {2, 1}, 2, "PER_CHANNEL", .sink = true, .lse = true},
    {"general", F32, 2, 1, 20, 16, {70}, {2}, 1, "PER_TENSOR", .window = 9},
    {"general", F32, 2, 1, 1100, 2, {5}, {2}, 1, .non_causal = true},
    {"general", F16, 71, 1, 64, 16, {3}, {12}, 1, .sink = true},
    {"general", F16, 2, 1, 16, 2, {0}, {0}, .sequences = 1},
};
/* clang-format on */

static const variant_tolerance tolerance = {2e-5};
enum { HOSTILE_RUNS = 3 };

static void test_variants(void **state) {
  variant_world *world = *state;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    paged_problem p;
    paged_make(&p, &rows[i], 4711 + i);
    const char *chosen = "";
    print_message("row %zu: %s\n", i, rows[i].variant);
    if (variant_compare(world, &p.base.call, rows[i].variant, tolerance, &chosen) != QUIRE_OK) {
      fail_msg("row %zu: %s is not offered", i, rows[i].variant);
    }
    assert_string_equal(chosen, rows[i].variant);
    variant_drop(&p.base);
  }
  variant_expect_all(world, "com.microsoft.PagedAttention");
}

/* Values on the device that break the contract, in the shapes of all rows: what is stored and
   attended to is what the CPU makes of the harmless values, and nothing else. */
static void test_hostile_values(void **state) {
  variant_world *world = *state;
  size_t runs = 0;
  size_t refused = 0;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    for (uint64_t seed = 0; seed < HOSTILE_RUNS; seed++) {
      paged_problem p;
      variant_problem harmless;
      paged_make_hostile(&p, &rows[i], 1000 * i + seed, &harmless);
      print_message("row %zu: %s, seed %d\n", i, rows[i].variant, (int)seed);
      assert_int_equal(
          variant_compare_as(world, &p.base.call, &harmless.call, rows[i].variant, tolerance),
          QUIRE_OK);
      refused += variant_is_refused(world, &p.base.call, rows[i].variant);
      variant_drop(&harmless);
      variant_drop(&p.base);
      runs++;
    }
  }
  print_message("%zu calls with hostile values, %zu refused when checked\n", runs, refused);
  assert_true(refused > 0 && refused < runs);
}

/* What every device guarantees, without subgroups, serves everything: the planner's own choice. */
static void test_default_limits(void **state) {
  (void)state;
  variant_world world;
  variant_open(&world, false, true);
  for (size_t i = 1; i < sizeof rows / sizeof *rows; i++) {
    if (i % 4 != 1 && (rows[i].quantised == NULL || strcmp(rows[i].quantised, "PER_TOKEN") != 0)) {
      continue;
    }
    paged_problem p;
    paged_make(&p, &rows[i], 42 + i);
    p.base.call.tunable_count = 0;
    const char *chosen = "";
    if (variant_compare(&world, &p.base.call, NULL, tolerance, &chosen) != QUIRE_OK) {
      fail_msg("row %zu is refused", i);
    }
    assert_null(strstr(chosen, "subgroups"));
    variant_drop(&p.base);
  }
  variant_close(&world);
}

/* A cache of 8 GiB, more than a binding of any device shows: refused by a plan, with both numbers.
 */
static void test_large_cache(void **state) {
  const variant_world *world = *state;
  static const int64_t rows_of[] = {1, 1024}, cache[] = {1 << 17, 16, 8, 128}, one[] = {1};
  static const int64_t ends[] = {2}, table[] = {1, 8};
  const quire_request_tensor inputs[] = {
      {"query", F32, 2, rows_of, NULL, NULL},
      {"key", F32, 2, rows_of, NULL, NULL},
      {"value", F32, 2, rows_of, NULL, NULL},
      {"key_cache", F32, 4, cache, NULL, NULL},
      {"value_cache", F32, 4, cache, NULL, NULL},
      {"cumulative_sequence_length", QUIRE_INT32, 1, ends, NULL, NULL},
      {"past_seqlens", QUIRE_INT32, 1, one, NULL, NULL},
      {"block_table", QUIRE_INT32, 2, table, NULL, NULL}};
  quire_named_value attributes[2];
  quire_request request;
  quire_request_init(&request);
  request.inputs = inputs;
  request.input_count = sizeof inputs / sizeof *inputs;
  variant_set_int(attributes, &request.attribute_count, "num_heads", 8);
  variant_set_int(attributes, &request.attribute_count, "kv_num_heads", 8);
  request.attributes = attributes;
  const quire_operator *op =
      quire_context_find_operator(world->context, "com.microsoft.PagedAttention");
  quire_plan *plan = NULL;
  quire_error error;
  assert_int_equal(quire_plan_create(world->gpu, op, &request, &plan, &error), QUIRE_LIMIT);
  assert_null(plan);
  assert_string_equal(error.subject, "key_cache");
  assert_non_null(strstr(error.message, "8589934592, the device's limit is "));
}

int main(void) {
  struct CMUnitTest tests[] = {
      cmocka_unit_test(test_variants),
      cmocka_unit_test(test_hostile_values),
      cmocka_unit_test(test_large_cache),
      cmocka_unit_test(test_default_limits),
  };
  return variant_main("paged attention on webgpu", tests, sizeof tests / sizeof *tests);
}
