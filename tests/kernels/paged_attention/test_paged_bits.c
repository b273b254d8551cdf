/* Random problems, laid out and run in different ways: right, and the same bits always. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "numeric.h"
#include "paged_problem.h"

static const paged_problem problems[] = {
    {.name = "decode, two groups",
     .dtype = QUIRE_FLOAT32,
     .num_heads = 4,
     .kv_num_heads = 2,
     .head_size = 8,
     .block_size = 16,
     .sequences = 3,
     .past = {9000, 511, 0},
     .fresh = {1, 1, 1}},
    {.name = "draft of 8",
     .dtype = QUIRE_FLOAT16,
     .num_heads = 4,
     .kv_num_heads = 2,
     .head_size = 16,
     .block_size = 16,
     .sink = true,
     .hole = 3,
     .sequences = 3,
     .past = {1020, 63, 0},
     .fresh = {8, 3, 8}},
    {.name = "prefill",
     .dtype = QUIRE_FLOAT32,
     .num_heads = 6,
     .kv_num_heads = 2,
     .head_size = 40,
     .block_size = 16,
     .packed = true,
     .sequences = 4,
     .past = {0, 700, 0, 64},
     .fresh = {70, 33, 0, 1}},
    {.name = "prefill, capped",
     .dtype = QUIRE_BFLOAT16,
     .num_heads = 5,
     .kv_num_heads = 1,
     .head_size = 50,
     .block_size = 3,
     .window = 100,
     .softcap = 2,
     .sink = true,
     .hole = 9,
     .sequences = 2,
     .past = {517, 0},
     .fresh = {100, 9}},
    {.name = "not causal",
     .dtype = QUIRE_FLOAT32,
     .num_heads = 3,
     .kv_num_heads = 3,
     .head_size = 33,
     .block_size = 48,
     .sink = true,
     .non_causal = true,
     .sequences = 3,
     .past = {600, 0, 3},
     .fresh = {5, 40, 0}},
    {.name = "not causal, window",
     .dtype = QUIRE_FLOAT16,
     .num_heads = 2,
     .kv_num_heads = 1,
     .head_size = 24,
     .block_size = 16,
     .window = 90,
     .non_causal = true,
     .packed = true,
     .sequences = 2,
     .past = {600, 10},
     .fresh = {5, 40}},
    {.name = "int8 per tensor",
     .dtype = QUIRE_FLOAT32,
     .quantised = 1,
     .num_heads = 4,
     .kv_num_heads = 2,
     .head_size = 32,
     .block_size = 16,
     .sequences = 3,
     .past = {100, 0, 600},
     .fresh = {1, 12, 2}},
    {.name = "int8 per channel",
     .dtype = QUIRE_FLOAT16,
     .quantised = 2,
     .num_heads = 4,
     .kv_num_heads = 2,
     .head_size = 48,
     .block_size = 16,
     .softcap = 3,
     .sink = true,
     .packed = true,
     .hole = 2,
     .sequences = 3,
     .past = {100, 0, 600},
     .fresh = {1, 12, 2}},
    {.name = "int8 per token",
     .dtype = QUIRE_FLOAT32,
     .quantised = 3,
     .num_heads = 4,
     .kv_num_heads = 2,
     .head_size = 40,
     .block_size = 16,
     .softcap = 2,
     .sink = true,
     .hole = 2,
     .sequences = 3,
     .past = {100, 0, 600},
     .fresh = {1, 12, 3}},
    {.name = "int8 per token, not causal, window",
     .dtype = QUIRE_BFLOAT16,
     .quantised = 3,
     .num_heads = 6,
     .kv_num_heads = 3,
     .head_size = 33,
     .block_size = 3,
     .window = 90,
     .non_causal = true,
     .packed = true,
     .sequences = 4,
     .past = {9000, 0, 70, 0},
     .fresh = {2, 9, 20, 0}},
    {.name = "large heads",
     .dtype = QUIRE_FLOAT32,
     .num_heads = 2,
     .kv_num_heads = 1,
     .head_size = 1100,
     .block_size = 16,
     .sink = true,
     .sequences = 2,
     .past = {70, 0},
     .fresh = {1, 10}},
    {.name = "one channel, block of 1",
     .dtype = QUIRE_FLOAT32,
     .num_heads = 71,
     .kv_num_heads = 1,
     .head_size = 1,
     .block_size = 1,
     .sequences = 2,
     .past = {65, 0},
     .fresh = {2, 11}},
    {.name = "wide window, long",
     .dtype = QUIRE_FLOAT32,
     .num_heads = 2,
     .kv_num_heads = 1,
     .head_size = 16,
     .block_size = 256,
     .window = 8500,
     .sequences = 2,
     .past = {10000, 1},
     .fresh = {2, 1}},
    {.name = "few tokens, long past",
     .dtype = QUIRE_FLOAT32,
     .num_heads = 2,
     .kv_num_heads = 2,
     .head_size = 8,
     .block_size = 16,
     .sequences = 1,
     .past = {8300},
     .fresh = {9}},
};
enum { PROBLEM_COUNT = sizeof problems / sizeof *problems };

static void run(paged_built *b) {
  quire_error error;
  if (paged_run(&b->call, &error) != QUIRE_OK) {
    fail_msg("%s", error.message);
  }
}

static void build_and_run(const paged_problem *p, const paged_layout *l, paged_built *b) {
  paged_build(p, l, b);
  run(b);
}

static paged_layout plain_layout(const paged_problem *p) {
  const paged_layout l = {1, 0, false, false, false, 0, p->sequences, 0, 0};
  return l;
}

/* Rows of `got` against rows of `want` from first_row on. */
static void expect_same(const paged_problem *p, const char *what, const paged_built *want,
                        int64_t first_row, const paged_built *got) {
  const size_t row_bytes = (size_t)(p->num_heads * p->head_size) * quire_dtype_size(p->dtype);
  const char *want_rows = (const char *)want->call.output + (size_t)first_row * row_bytes;
  const float *want_lse = want->call.softmax_lse + first_row * p->num_heads;
  const int same =
      memcmp(want_rows, got->call.output, (size_t)got->rows * row_bytes) == 0 &&
      memcmp(want_lse, got->call.softmax_lse, (size_t)(got->rows * p->num_heads) * 4) == 0;
  if (!same) {
    fail_msg("%s: other bits with %s", p->name, what);
  }
}

static void check_reference(const paged_problem *p, const paged_built *b) {
  const int64_t n = b->rows * p->num_heads;
  double *output = calloc((size_t)(n * p->head_size) + 1, sizeof(double));
  double *lse = calloc((size_t)n + 1, sizeof(double));
  if (output == NULL || lse == NULL) {
    free(output);
    free(lse);
    fail_msg("no memory");
    return;
  }
  paged_reference(&b->call, output, lse);
  const double relative = p->dtype == QUIRE_FLOAT32   ? 1e-5
                          : p->dtype == QUIRE_FLOAT16 ? 0x1p-10
                                                      : 0x1p-7;
  for (int64_t i = 0; i < n * p->head_size; ++i) {
    const double got = (double)quire_load_f32(p->dtype, b->call.output, i);
    if (!(fabs(got - output[i]) <= relative * fabs(output[i]) + 4e-6)) {
      fail_msg("%s: element %lld is %.9g, not %.9g", p->name, (long long)i, got, output[i]);
    }
  }
  for (int64_t i = 0; i < n; ++i) {
    const double got = (double)b->call.softmax_lse[i];
    if (!(got == lse[i] || fabs(got - lse[i]) <= 4e-6 + 1e-6 * fabs(lse[i]))) {
      fail_msg("%s: lse %lld is %.9g, not %.9g", p->name, (long long)i, got, lse[i]);
    }
  }
  free(output);
  free(lse);
}

/* The bits that the written order gives. */
static void check_exact(const paged_problem *p, const paged_built *b) {
  const int64_t n = b->rows * p->num_heads;
  const size_t bytes = (size_t)(n * p->head_size) * quire_dtype_size(p->dtype);
  void *output = calloc(bytes + 1, 1);
  float *lse = calloc((size_t)n + 1, sizeof(float));
  if (output == NULL || lse == NULL) {
    free(output);
    free(lse);
    fail_msg("no memory");
    return;
  }
  paged_exact(&b->call, output, lse);
  if (memcmp(output, b->call.output, bytes) != 0 ||
      memcmp(lse, b->call.softmax_lse, (size_t)n * sizeof(float)) != 0) {
    fail_msg("%s: not the bits of the written order", p->name);
  }
  free(output);
  free(lse);
}

static void test_reference(void **state) {
  (void)state;
  for (size_t i = 0; i < PROBLEM_COUNT; ++i) {
    const paged_layout l = plain_layout(&problems[i]);
    paged_built b;
    build_and_run(&problems[i], &l, &b);
    print_message("%s: %d items, %d merged rows\n", problems[i].name, (int)b.call.item_count,
                  (int)b.call.merge_count);
    check_reference(&problems[i], &b);
    check_exact(&problems[i], &b);
    paged_release(&b);
  }
}

/* NU-7: how the work is divided, and the order in which items run. */
static void test_division(void **state) {
  (void)state;
  size_t merged = 0;
  size_t unmerged = 0;
  for (size_t i = 0; i < PROBLEM_COUNT; ++i) {
    const paged_problem *p = &problems[i];
    const paged_layout l = plain_layout(p);
    paged_built want;
    build_and_run(p, &l, &want);
    const int64_t row_heads = want.rows * p->num_heads;
    const int64_t state_limits[] = {0, 1, row_heads, 2 * row_heads, 3 * row_heads, 100000};
    for (size_t j = 0; j < 6; ++j) {
      for (int64_t extra = 0; extra < 3; ++extra) {
        paged_built got;
        paged_build(p, &l, &got);
        got.call.state_limit = state_limits[j];
        got.call.extra_items = extra == 2 ? -1 : 7 * extra;
        got.call.reverse = (j + (size_t)extra) % 2 == 1;
        got.call.scatter_parts = 1 + extra;
        run(&got);
        merged += got.call.merge_count > 0;
        unmerged += got.call.merge_count == 0;
        expect_same(p, "another division", &want, 0, &got);
        paged_release(&got);
      }
    }
    paged_release(&want);
  }
  assert_true(merged > 10 && unmerged > 10);
}

/* Tables, strides, slots that say the same, wider tables. */
static void test_layouts(void **state) {
  (void)state;
  for (size_t i = 0; i < PROBLEM_COUNT; ++i) {
    const paged_problem *p = &problems[i];
    paged_layout l = plain_layout(p);
    paged_built want;
    build_and_run(p, &l, &want);
    for (int change = 0; change < 5; ++change) {
      l = plain_layout(p);
      l.shuffle = change == 0 ? 77 : 1;
      l.extra_columns = change == 1 ? 1000 : 0;
      l.head_major = change == 2;
      l.spread_query = change == 3;
      l.mapped_slots = change == 4;
      paged_built got;
      build_and_run(p, &l, &got);
      static const char *const names[] = {"another table", "a wider table", "other strides",
                                          "a query stride", "a slot mapping"};
      expect_same(p, names[change], &want, 0, &got);
      paged_release(&got);
    }
    paged_release(&want);
  }
}

/* Each sequence alone gives the bits that it has in the batch. */
static void test_batches(void **state) {
  (void)state;
  for (size_t i = 0; i < PROBLEM_COUNT; ++i) {
    const paged_problem *p = &problems[i];
    paged_layout l = plain_layout(p);
    paged_built want;
    build_and_run(p, &l, &want);
    int64_t row = 0;
    for (int64_t s = 0; s < p->sequences; ++s) {
      l.first = s;
      l.end = s + 1;
      paged_built got;
      build_and_run(p, &l, &got);
      expect_same(p, "a sequence alone", &want, row, &got);
      row += got.rows;
      paged_release(&got);
    }
    paged_release(&want);
  }
}

/* NU-8: up to 8 new tokens of a sequence equal one-token calls. */
static void test_drafts(void **state) {
  (void)state;
  size_t tokens = 0;
  for (size_t i = 0; i < PROBLEM_COUNT; ++i) {
    const paged_problem *p = &problems[i];
    paged_layout l = plain_layout(p);
    paged_built want;
    build_and_run(p, &l, &want);
    int64_t row = 0;
    for (int64_t s = 0; s < p->sequences; row += p->fresh[s++]) {
      /* Quantised caches: the history of a later token is what an earlier one stored. */
      if (p->fresh[s] > 8 || p->non_causal || p->quantised != 0) {
        continue;
      }
      for (int64_t token = 0; token < p->fresh[s]; ++token, ++tokens) {
        l.first = s;
        l.end = s + 1;
        l.first_token = token;
        l.end_token = token + 1;
        paged_built got;
        build_and_run(p, &l, &got);
        expect_same(p, "one-token calls", &want, row + token, &got);
        paged_release(&got);
      }
    }
    paged_release(&want);
  }
  assert_true(tokens > 20);
}

/* PA-E15: of two tokens with one slot the later one's row is stored whole. */
static void test_duplicate_slots(void **state) {
  (void)state;
  const paged_problem *p = &problems[2];
  paged_layout l = plain_layout(p);
  l.mapped_slots = true;
  paged_built b;
  paged_build(p, &l, &b);
  int32_t slots[104];
  assert_int_equal(b.rows, 104);
  for (int64_t i = 0; i < b.rows; ++i) {
    slots[i] = (int32_t)(i % 5);
  }
  b.call.slots = slots;
  b.call.reverse = true;
  b.call.scatter_parts = 2;
  run(&b);
  const int64_t size = p->head_size * (int64_t)quire_dtype_size(p->dtype);
  for (int64_t slot = 0; slot < 5; ++slot) {
    const int64_t token = slot < 4 ? 100 + slot : 99;
    const char *stored = (const char *)b.call.key_cache + slot * p->kv_num_heads * size;
    const char *given = (const char *)b.call.query +
                        (token * (p->num_heads + 2 * p->kv_num_heads) + p->num_heads) * size;
    assert_memory_equal(stored, given, (size_t)(p->kv_num_heads * size));
  }
  paged_release(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_reference), cmocka_unit_test(test_division),
      cmocka_unit_test(test_layouts),   cmocka_unit_test(test_batches),
      cmocka_unit_test(test_drafts),    cmocka_unit_test(test_duplicate_slots),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
