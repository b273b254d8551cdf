/* PagedDecode on its passes: golden vectors, batches, forced blocks, refusals. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "numeric.h"
#include "paged_harness.h"

/* PD-G1 and G3: pages 1 and 0 hold tokens 0, 1 and 2; the fourth row is NaN. f32. */
typedef struct golden {
  paged_call call;
  float query[12], keys[8], values[8], output[12], lse[6], sink[2];
  int32_t table[6], lengths[3];
} golden;

static void golden_init(golden *g, int64_t rows) {
  memset(g, 0, sizeof *g);
  const float keys[8] = {2, 0, NAN, NAN, 1, 0, 0, 1};
  const float values[8] = {30, 3, NAN, NAN, 10, 1, 20, 2};
  memcpy(g->keys, keys, sizeof keys);
  memcpy(g->values, values, sizeof values);
  for (int64_t row = 0; row < rows; ++row) {
    g->query[row * 4] = 1;
    g->query[row * 4 + 3] = 1;
    g->table[row * 2] = 1;
    g->lengths[row] = (int32_t)(3 - rows + 1 + row);
  }
  g->call = (paged_call){.dtype = QUIRE_FLOAT32,
                         .cache_dtype = QUIRE_FLOAT32,
                         .tokens = rows,
                         .sequences = rows,
                         .num_heads = 2,
                         .kv_num_heads = 1,
                         .head_size = 2,
                         .block_count = 2,
                         .block_size = 2,
                         .columns = 2,
                         .query = g->query,
                         .key_cache = g->keys,
                         .value_cache = g->values,
                         .past = g->lengths,
                         .table = g->table,
                         .scale = 0.5f,
                         .state_limit = -1,
                         .extra_items = -1,
                         .output = g->output,
                         .softmax_lse = g->lse};
}

static void expect(const golden *g, int64_t row, int64_t head, double first, double lse) {
  const float *output = g->output + (row * 2 + head) * 2;
  if (!(fabs((double)output[0] - first) <= 2e-6 * first &&
        fabs((double)output[1] - first / 10) <= 2e-6 * first / 10)) {
    fail_msg("row %d head %d: %.8g, %.8g, not %.8g", (int)row, (int)head, (double)output[0],
             (double)output[1], first);
  }
  if (!isnan(lse)) {
    assert_true(fabs((double)g->lse[row * 2 + head] - lse) < 3e-7);
  }
}

static void test_golden(void **state) {
  (void)state;
  const int64_t blocks[5] = {0, 1, 2, 4, 1024};
  for (size_t i = 0; i < 5; ++i) {
    golden g;
    golden_init(&g, 3);
    g.call.partial_blocks = blocks[i];
    assert_int_equal(paged_run(&g.call, NULL), QUIRE_OK);
    expect(&g, 0, 0, 10, 0.5);
    expect(&g, 0, 1, 10, 0);
    expect(&g, 1, 0, 13.7754067, 0.9740770);
    expect(&g, 1, 1, 16.2245933, 0.9740770);
    expect(&g, 2, 0, 21.9928451, 1.6802697);
    expect(&g, 2, 1, 20, 1.2943768);
    assert_true(g.output[0] == 10.0f); /* PD-E1: exactly */
    golden_init(&g, 1);
    g.call.scale = 1.0f;
    g.call.partial_blocks = blocks[i];
    assert_int_equal(paged_run(&g.call, NULL), QUIRE_OK);
    expect(&g, 0, 0, 24.2051248, (double)NAN);
  }
}

static void test_window_and_sink(void **state) {
  (void)state;
  golden g;
  golden_init(&g, 1);
  g.call.window = 2;
  assert_int_equal(paged_run(&g.call, NULL), QUIRE_OK);
  expect(&g, 0, 0, 27.3105858, (double)NAN);
  expect(&g, 0, 1, 23.7754067, (double)NAN);
  for (int sink = 0; sink < 2; ++sink) {
    golden_init(&g, 1);
    g.sink[0] = g.sink[1] = (float)sink;
    g.call.sink = g.sink;
    g.call.partial_blocks = sink == 0 ? 0 : 3;
    assert_int_equal(paged_run(&g.call, NULL), QUIRE_OK);
    expect(&g, 0, 0, sink == 0 ? 18.5386540 : 14.5988260, (double)NAN);
    expect(&g, 0, 1, sink == 0 ? 15.6977416 : 11.4613460, (double)NAN);
  }
  /* Pages wholly below the window may be unmapped. */
  golden_init(&g, 1);
  g.call.window = 1;
  g.table[0] = -1;
  assert_int_equal(paged_run(&g.call, NULL), QUIRE_OK);
  assert_true(g.output[0] == 30.0f);
}

/* PD-G4: element i is (((i * mult) mod 127) - 63) / 127. */
static void fill_pattern(float *data, int64_t n, int64_t mult) {
  for (int64_t i = 0; i < n; ++i) {
    data[i] = (float)((i * mult) % 127 - 63) / 127.0f;
  }
}

#define T INT64_C(1024)
#define P INT64_C(16)
#define D INT64_C(64)
#define KV INT64_C(2)
#define H INT64_C(4)
#define C INT64_C(64)

static void test_pattern(void **state) {
  (void)state;
  float *keys = calloc(KV * C * P * D, sizeof(float));
  float *values = calloc(KV * C * P * D, sizeof(float));
  assert_true(keys != NULL && values != NULL);
  float query[H * D];
  float output[H * D];
  float lse[H];
  int32_t table[C];
  const int32_t length = T;
  fill_pattern(query, H * D, 17);
  fill_pattern(keys, KV * C * P * D, 31);
  fill_pattern(values, KV * C * P * D, 47);
  for (int32_t i = 0; i < C; ++i) {
    table[i] = i;
  }
  paged_call call = {.dtype = QUIRE_FLOAT32,
                     .cache_dtype = QUIRE_FLOAT32,
                     .tokens = 1,
                     .sequences = 1,
                     .num_heads = H,
                     .kv_num_heads = KV,
                     .head_size = D,
                     .block_count = C,
                     .block_size = P,
                     .columns = C,
                     .query = query,
                     .key_cache = keys,
                     .value_cache = values,
                     .cache_stride = {P * D, D, C * P * D, 1},
                     .past = &length,
                     .table = table,
                     .scale = 1.0f,
                     .state_limit = -1,
                     .extra_items = -1,
                     .output = output,
                     .softmax_lse = lse};
  const double want[4][5] = {{-0.00070939, 0.00383403, -0.00351377, -0.00025542, 7.05752205},
                             {0.00039338, -0.00143218, 0.00222445, 0.00110821, 7.01705053},
                             {0.00160142, -0.00127904, -0.00018473, 0.00039045, 7.02652535},
                             {-0.00022601, 0.00242247, 0.00089386, -0.00272400, 7.03035415}};
  const int64_t blocks[4] = {0, 2, 256, 1000};
  for (size_t b = 0; b < 4; ++b) {
    call.partial_blocks = blocks[b];
    assert_int_equal(paged_run(&call, NULL), QUIRE_OK);
    for (int64_t head = 0; head < H; ++head) {
      for (int64_t d = 0; d < 4; ++d) {
        assert_true(fabs((double)output[head * D + d] - want[head][d]) < 1e-6);
      }
      assert_true(fabs((double)lse[head] - want[head][4]) < 2e-6);
    }
  }
  free(keys);
  free(values);
}

#define ROWS INT64_C(5)
#define HEADS INT64_C(6)
#define KV_HEADS INT64_C(2)
#define SIZE INT64_C(24)
#define PAGES INT64_C(40)
#define PAGE INT64_C(32)
#define COLUMNS INT64_C(300)

/* Random rows that share pages: batch, division and blocks against the written order. */
typedef struct batch {
  paged_call call;
  float *query, *keys, *values, *output, *lse;
  int32_t table[ROWS * COLUMNS], lengths[ROWS];
  float sink[HEADS];
} batch;

static void batch_init(batch *b) {
  memset(b, 0, sizeof *b);
  uint64_t seed = 42;
  const int64_t arena = KV_HEADS * PAGES * PAGE * SIZE;
  b->query = calloc(ROWS * HEADS * SIZE, sizeof(float));
  b->keys = calloc((size_t)arena, sizeof(float));
  b->values = calloc((size_t)arena, sizeof(float));
  b->output = calloc(ROWS * HEADS * SIZE, sizeof(float));
  b->lse = calloc(ROWS * HEADS, sizeof(float));
  assert_true(b->query != NULL && b->keys != NULL && b->values != NULL && b->output != NULL &&
              b->lse != NULL);
  paged_fill(QUIRE_FLOAT32, b->query, ROWS * HEADS * SIZE, 2, &seed);
  paged_fill(QUIRE_FLOAT32, b->keys, arena, 1, &seed);
  paged_fill(QUIRE_FLOAT32, b->values, arena, 1, &seed);
  paged_fill(QUIRE_FLOAT32, b->sink, HEADS, 2, &seed);
  const int32_t lengths[ROWS] = {1025, 0, 9600, 1, 700};
  memcpy(b->lengths, lengths, sizeof lengths);
  for (int64_t i = 0; i < ROWS * COLUMNS; ++i) {
    b->table[i] = (int32_t)((i * 7) % PAGES); /* pages repeat: PD-E5, PD-E6 */
    if (i % COLUMNS * PAGE >= lengths[i / COLUMNS]) {
      b->table[i] = -5;
    }
  }
  b->call = (paged_call){.dtype = QUIRE_FLOAT32,
                         .cache_dtype = QUIRE_FLOAT32,
                         .tokens = ROWS,
                         .sequences = ROWS,
                         .num_heads = HEADS,
                         .kv_num_heads = KV_HEADS,
                         .head_size = SIZE,
                         .block_count = PAGES,
                         .block_size = PAGE,
                         .columns = COLUMNS,
                         .query = b->query,
                         .key_cache = b->keys,
                         .value_cache = b->values,
                         .cache_stride = {PAGE * SIZE, SIZE, PAGES * PAGE * SIZE, 1},
                         .past = b->lengths,
                         .table = b->table,
                         .scale = 0.4f,
                         .state_limit = -1,
                         .extra_items = -1,
                         .output = b->output,
                         .softmax_lse = b->lse};
}

static void batch_release(batch *b) {
  free(b->query);
  free(b->keys);
  free(b->values);
  free(b->output);
  free(b->lse);
}

static void expect_exact(const batch *b) {
  static float output[ROWS * HEADS * SIZE];
  static float lse[ROWS * HEADS];
  paged_exact(&b->call, output, lse);
  assert_memory_equal(output, b->output, (size_t)(b->call.tokens * HEADS * SIZE) * sizeof(float));
  assert_memory_equal(lse, b->lse, (size_t)(b->call.tokens * HEADS) * sizeof(float));
}

static void test_order(void **state) {
  (void)state;
  const int64_t blocks[6] = {0, 1, 2, 7, 1000, 1024};
  const int64_t limits[4] = {-1, 0, 100, 2000};
  for (size_t i = 0; i < 6; ++i) {
    for (size_t j = 0; j < 4; ++j) {
      batch b;
      batch_init(&b);
      b.call.partial_blocks = blocks[i];
      b.call.state_limit = limits[j];
      b.call.window = i % 2 == 1 ? 900 : 0;
      b.call.sink = i > 2 ? b.sink : NULL;
      b.call.reverse = j == 1;
      assert_int_equal(paged_run(&b.call, NULL), QUIRE_OK);
      expect_exact(&b);
      batch_release(&b);
    }
  }
}

/* X2: int8 pages with a scale for each token and head, rows padded from 22 channels to 24: the bits
   of the written order on every instruction set, whatever lies in the padding and beside. */
static void test_int8(void **state) {
  (void)state;
  static const quire_isa sets[] = {QUIRE_ISA_SCALAR, QUIRE_ISA_AVX2, QUIRE_ISA_AVX512,
                                   QUIRE_ISA_NEON};
  const int64_t tokens = KV_HEADS * PAGES * PAGE;
  int8_t *pages = calloc((size_t)(2 * tokens * SIZE), 1);
  float *scales = calloc((size_t)(2 * tokens), sizeof(float));
  assert_true(pages != NULL && scales != NULL);
  uint64_t seed = 4;
  for (int64_t i = 0; i < 2 * tokens * SIZE; ++i) {
    pages[i] = (int8_t)(paged_random(&seed) * 127.0f);
  }
  for (int64_t i = 0; i < 2 * tokens; ++i) {
    const bool used = i % (PAGES * PAGE) / PAGE != PAGES - 1;
    scales[i] = used ? (1.5f + paged_random(&seed)) / 127.0f : NAN;
  }
  for (size_t i = 0; i < 24; ++i) { /* every set with every number of blocks */
    const int64_t blocks[6] = {0, 1, 2, 7, 1000, 1024};
    if (!paged_has_isa(sets[i % 4])) {
      continue;
    }
    batch b;
    batch_init(&b);
    for (int64_t entry = 0; entry < ROWS * COLUMNS; ++entry) {
      b.table[entry] = b.table[entry] == PAGES - 1 ? 0 : b.table[entry];
    }
    b.call.isa = sets[i % 4];
    b.call.partial_blocks = blocks[i / 4];
    b.call.window = i % 2 == 1 ? 900 : 0;
    b.call.sink = i > 10 ? b.sink : NULL;
    b.call.cache_dtype = QUIRE_INT8;
    b.call.head_size = SIZE - 2;
    b.call.padded_size = SIZE;
    b.call.key_cache = pages;
    b.call.value_cache = pages + tokens * SIZE;
    b.call.k_scale_cache = scales;
    b.call.v_scale_cache = scales + tokens;
    const int64_t strides[3] = {PAGE, 1, PAGES * PAGE};
    memcpy(b.call.scale_stride, strides, sizeof strides);
    assert_int_equal(paged_run(&b.call, NULL), QUIRE_OK);
    static float output[ROWS * HEADS * SIZE];
    static float lse[ROWS * HEADS];
    paged_exact(&b.call, output, lse);
    assert_memory_equal(output, b.output, ROWS * HEADS * (SIZE - 2) * sizeof(float));
    assert_memory_equal(lse, b.lse, ROWS * HEADS * sizeof(float));
    static double want[ROWS * HEADS * SIZE];
    paged_reference(&b.call, want, NULL);
    for (int64_t j = 0; j < ROWS * HEADS * (SIZE - 2); ++j) {
      assert_true(fabs((double)b.output[j] - want[j]) <= 1e-5 * fabs(want[j]) + 1e-6);
    }
    batch_release(&b);
  }
  free(pages);
  free(scales);
}

/* X1: each row's bits are those of the row alone. */
static void test_rows_alone(void **state) {
  (void)state;
  for (int64_t blocks = 0; blocks < 6; blocks += 5) {
    batch together;
    batch alone;
    batch_init(&together);
    batch_init(&alone);
    together.call.partial_blocks = alone.call.partial_blocks = blocks;
    assert_int_equal(paged_run(&together.call, NULL), QUIRE_OK);
    for (int64_t row = 0; row < ROWS; ++row) {
      if (together.lengths[row] == 0) {
        continue;
      }
      alone.call.tokens = alone.call.sequences = 1;
      alone.call.query = alone.query + row * HEADS * SIZE;
      alone.call.past = alone.lengths + row;
      alone.call.table = alone.table + row * COLUMNS;
      assert_int_equal(paged_run(&alone.call, NULL), QUIRE_OK);
      assert_memory_equal(alone.output, together.output + row * HEADS * SIZE,
                          HEADS * SIZE * sizeof(float));
      assert_memory_equal(alone.lse, together.lse + row * HEADS, HEADS * sizeof(float));
    }
    batch_release(&together);
    batch_release(&alone);
  }
}

/* PD-E18: a padding row in a batch is zeros, with log-sum-exp -inf or the sink. */
static void test_empty_row(void **state) {
  (void)state;
  batch b;
  batch_init(&b);
  memset(b.output, 0xff, ROWS * HEADS * SIZE * sizeof(float));
  for (int with_sink = 0; with_sink < 2; ++with_sink) {
    b.call.sink = with_sink ? b.sink : NULL;
    assert_int_equal(paged_run(&b.call, NULL), QUIRE_OK);
    for (int64_t head = 0; head < HEADS; ++head) {
      assert_true(b.lse[HEADS + head] == (with_sink ? b.sink[head] : -INFINITY));
    }
    for (int64_t i = 0; i < HEADS * SIZE; ++i) {
      assert_true(b.output[HEADS * SIZE + i] == 0.0f);
    }
  }
  batch_release(&b);
}

typedef struct refusal {
  const char *name;
  int64_t rows;
  int32_t length, first_page;
  int64_t window;
  const char *rule; /* NULL: accepted */
} refusal;

static const refusal refusals[] = {
    {"empty alone", 1, 0, 1, 0, "PD-V11"},
    {"empty in a batch, beside a page", 2, 0, 1, 0, "PD-V11"},
    {"padding of a batch", 2, 0, -1, 0, NULL},
    {"padding of a batch, page 2 of 2", 2, 0, 2, 0, NULL},
    {"no padding alone", 1, 0, -1, 0, "PD-V11"},
    {"negative", 2, -1, 1, 0, "PD-V11"},
    {"least int", 2, INT32_MIN, 1, 0, "PD-V11"},
    {"full", 1, 4, 1, 0, NULL},
    {"too long", 1, 5, 1, 0, "PD-V11"},
    {"page -1", 1, 3, -1, 0, "PD-V12"},
    {"page 2 of 2", 1, 3, 2, 0, "PD-V12"},
    {"page below the window", 1, 3, 9, 1, NULL},
    {"page in the window", 1, 3, 9, 2, "PD-V12"},
};

static void test_refusals(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof refusals / sizeof *refusals; ++i) {
    golden g;
    golden_init(&g, refusals[i].rows);
    g.lengths[0] = refusals[i].length;
    g.table[0] = refusals[i].first_page;
    g.call.window = refusals[i].window;
    quire_error error = {QUIRE_OK, "", "", ""};
    const quire_status status = paged_run(&g.call, &error);
    print_message("%s: %s\n", refusals[i].name, error.message);
    assert_int_equal(status, refusals[i].rule == NULL ? QUIRE_OK : QUIRE_BAD_VALUE);
    assert_string_equal(error.rule, refusals[i].rule == NULL ? "" : refusals[i].rule);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_golden),     cmocka_unit_test(test_window_and_sink),
      cmocka_unit_test(test_pattern),    cmocka_unit_test(test_order),
      cmocka_unit_test(test_rows_alone), cmocka_unit_test(test_empty_row),
      cmocka_unit_test(test_refusals),   cmocka_unit_test(test_int8),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
