/*
 * PagedAttention through the typed call: strides, threads, separate cache buffers and offsets above
 * 2^31 elements give the bits of the plain call; overlaps and bad values write nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "cpu_device.h"
#include "quire/quire.h"

#define TOKENS INT64_C(24)
#define HEADS INT64_C(6)
#define KV_HEADS INT64_C(2)
#define SIZE INT64_C(20)
#define BLOCKS INT64_C(90)
#define BLOCK INT64_C(16)
#define CACHE (BLOCKS * BLOCK * KV_HEADS * SIZE)
#define COLUMNS INT64_C(80)

typedef struct data {
  float query[TOKENS * HEADS * SIZE];
  float key[TOKENS * KV_HEADS * SIZE], value[TOKENS * KV_HEADS * SIZE];
  float key_cache[CACHE], value_cache[CACHE];
  float output[TOKENS * HEADS * SIZE], lse[TOKENS * HEADS];
  int32_t cumulative[4], past[3], table[3 * COLUMNS];
} data;

static void fill(float *values, int64_t n, uint32_t seed) {
  for (int64_t i = 0; i < n; ++i) {
    seed = seed * 1664525u + 1013904223u;
    values[i] = (float)(int32_t)seed * 0x1p-31f;
  }
}

/* A decode over 1000 keys, a draft of 3, a prefill of 20; blocks in descending order. */
static data *data_create(void) {
  data *d = calloc(1, sizeof *d);
  if (d == NULL) {
    fail_msg("no memory");
    return NULL;
  }
  fill(d->query, TOKENS * HEADS * SIZE, 1);
  fill(d->key, TOKENS * KV_HEADS * SIZE, 2);
  fill(d->value, TOKENS * KV_HEADS * SIZE, 3);
  fill(d->key_cache, CACHE, 4);
  fill(d->value_cache, CACHE, 5);
  const int32_t cumulative[4] = {0, 1, 4, 24};
  const int32_t past[3] = {1000, 70, 33};
  memcpy(d->cumulative, cumulative, sizeof cumulative);
  memcpy(d->past, past, sizeof past);
  int32_t next = (int32_t)BLOCKS - 1;
  for (int64_t s = 0; s < 3; ++s) {
    const int64_t keys = past[s] + cumulative[s + 1] - cumulative[s];
    for (int64_t c = 0; c < COLUMNS; ++c) {
      d->table[s * COLUMNS + c] = c * BLOCK < keys ? next-- : -1;
    }
  }
  return d;
}

static const int64_t cache_shape[4] = {BLOCKS, BLOCK, KV_HEADS, SIZE};

static quire_tensor tensor(void *memory, quire_dtype dtype, int32_t ndim, const int64_t *shape,
                           const int64_t *strides) {
  const quire_tensor result = {memory, 0, dtype, ndim, shape, strides};
  return result;
}

static void args_init(data *d, quire_paged_attention_args *args) {
  static const int64_t query_shape[2] = {TOKENS, HEADS * SIZE};
  static const int64_t key_shape[2] = {TOKENS, KV_HEADS * SIZE};
  static const int64_t table_shape[2] = {3, COLUMNS};
  static const int64_t lse_shape[2] = {TOKENS, HEADS};
  static const int64_t three = 3;
  static const int64_t four = 4;
  quire_paged_attention_args_init(args);
  args->query = tensor(d->query, QUIRE_FLOAT32, 2, query_shape, NULL);
  args->key = tensor(d->key, QUIRE_FLOAT32, 2, key_shape, NULL);
  args->value = tensor(d->value, QUIRE_FLOAT32, 2, key_shape, NULL);
  args->key_cache = tensor(d->key_cache, QUIRE_FLOAT32, 4, cache_shape, NULL);
  args->value_cache = tensor(d->value_cache, QUIRE_FLOAT32, 4, cache_shape, NULL);
  args->cumulative_sequence_length = tensor(d->cumulative, QUIRE_INT32, 1, &four, NULL);
  args->past_seqlens = tensor(d->past, QUIRE_INT32, 1, &three, NULL);
  args->block_table = tensor(d->table, QUIRE_INT32, 2, table_shape, NULL);
  args->output = tensor(d->output, QUIRE_FLOAT32, 2, query_shape, NULL);
  args->softmax_lse = tensor(d->lse, QUIRE_FLOAT32, 2, lse_shape, NULL);
  args->num_heads = HEADS;
  args->kv_num_heads = KV_HEADS;
}

/* Runs on a device of its own with that many threads. */
static quire_status run(const quire_paged_attention_args *args, size_t threads,
                        quire_error *error) {
  quire_device_options options;
  quire_device_options_init(&options);
  options.threads = threads;
  cpu_device cpu = cpu_open(NULL, &options);
  const quire_status status = quire_paged_attention(cpu.device, args, error);
  cpu_close(&cpu);
  return status;
}

static data *run_plain(void) {
  data *d = data_create();
  quire_paged_attention_args args;
  quire_error error;
  args_init(d, &args);
  if (run(&args, 1, &error) != QUIRE_OK) {
    fail_msg("%s", error.message);
  }
  return d;
}

static int same_bits(const void *a, const void *b, size_t bytes) {
  return memcmp(a, b, bytes) == 0;
}

static void expect_same(const data *want, const data *got, const char *what) {
  if (!same_bits(want->output, got->output, sizeof want->output) ||
      !same_bits(want->lse, got->lse, sizeof want->lse)) {
    fail_msg("other bits with %s", what);
  }
}

static void test_threads(void **state) {
  (void)state;
  data *want = run_plain();
  const size_t threads[3] = {2, 3, 7};
  for (size_t i = 0; i < 3; ++i) {
    data *got = data_create();
    quire_paged_attention_args args;
    quire_error error;
    args_init(got, &args);
    assert_int_equal(run(&args, threads[i], &error), QUIRE_OK);
    expect_same(want, got, "threads");
    assert_memory_equal(want->key_cache, got->key_cache, sizeof want->key_cache);
    assert_memory_equal(want->value_cache, got->value_cache, sizeof want->value_cache);
    free(got);
  }
  free(want);
}

/* Copies a dense cache to other strides. */
static void spread(const float *dense, const int64_t *strides, float *out) {
  for (int64_t i = 0; i < CACHE / SIZE; ++i) {
    const int64_t at = i / (BLOCK * KV_HEADS) * strides[0] + i / KV_HEADS % BLOCK * strides[1] +
                       i % KV_HEADS * strides[2];
    memcpy(out + at, dense + i * SIZE, SIZE * sizeof(float));
  }
}

static void run_spread(const data *want, const int64_t *strides, float *keys, float *values,
                       const char *what) {
  data *got = data_create();
  quire_paged_attention_args args;
  quire_error error;
  args_init(got, &args);
  spread(got->key_cache, strides, keys);
  spread(got->value_cache, strides, values);
  args.key_cache = tensor(keys, QUIRE_FLOAT32, 4, cache_shape, strides);
  args.value_cache = tensor(values, QUIRE_FLOAT32, 4, cache_shape, strides);
  if (run(&args, 2, &error) != QUIRE_OK) {
    fail_msg("%s", error.message);
  }
  expect_same(want, got, what);
  free(got);
}

/* Head-major arenas, blocks with heads first, and rows with room between them. */
static void test_strides(void **state) {
  (void)state;
  data *want = run_plain();
  const int64_t layouts[3][4] = {{BLOCK * SIZE, SIZE, BLOCKS * BLOCK * SIZE, 1},
                                 {KV_HEADS * BLOCK * SIZE, SIZE, BLOCK * SIZE, 1},
                                 {KV_HEADS * BLOCK * 32, KV_HEADS * 32, 32, 1}};
  for (size_t i = 0; i < 3; ++i) {
    float *keys = calloc(2 * CACHE, sizeof(float));
    float *values = calloc(2 * CACHE, sizeof(float));
    if (keys == NULL || values == NULL) {
      fail_msg("no memory");
    } else {
      run_spread(want, layouts[i], keys, values, "other strides");
    }
    free(keys);
    free(values);
  }
  free(want);
}

/* PA-E21: element offsets above 2^31, in memory that is mostly untouched. */
static void test_large_offsets(void **state) {
  (void)state;
  data *want = run_plain();
  const int64_t strides[4] = {INT64_C(1) << 25, KV_HEADS * SIZE, SIZE, 1};
  const size_t bytes = (size_t)BLOCKS * sizeof(float) << 25;
  const int protection = PROT_READ | PROT_WRITE;
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  float *keys = mmap(NULL, bytes, protection, flags, -1, 0);
  float *values = mmap(NULL, bytes, protection, flags, -1, 0);
  if (keys == MAP_FAILED || values == MAP_FAILED) {
    print_message("no address space of this size: skipped\n");
    skip();
  }
  run_spread(want, strides, keys, values, "large offsets");
  munmap(keys, bytes);
  munmap(values, bytes);
  free(want);
}

/* Section 4.5: separate buffers get a copy of the whole cache; the inputs stay as they are. */
static void test_separate_caches(void **state) {
  (void)state;
  data *want = run_plain();
  data *got = data_create();
  data *before = data_create();
  data *out = data_create();
  memset(out->key_cache, 0xff, sizeof out->key_cache);
  memset(out->value_cache, 0xff, sizeof out->value_cache);
  quire_paged_attention_args args;
  quire_error error;
  args_init(got, &args);
  args.key_cache_out = tensor(out->key_cache, QUIRE_FLOAT32, 4, cache_shape, NULL);
  args.value_cache_out = tensor(out->value_cache, QUIRE_FLOAT32, 4, cache_shape, NULL);
  assert_int_equal(run(&args, 2, &error), QUIRE_OK);
  expect_same(want, got, "separate caches");
  assert_memory_equal(got->key_cache, before->key_cache, sizeof got->key_cache);
  assert_memory_equal(got->value_cache, before->value_cache, sizeof got->value_cache);
  assert_memory_equal(out->key_cache, want->key_cache, sizeof got->key_cache);
  assert_memory_equal(out->value_cache, want->value_cache, sizeof got->value_cache);
  free(want);
  free(got);
  free(before);
  free(out);
}

/* Refused calls: PA-V12, PA-V13 and the strict rules. Nothing is written. */
static void test_refused(void **state) {
  (void)state;
  for (int what = 0; what < 5; ++what) {
    data *got = data_create();
    data *before = data_create();
    quire_paged_attention_args args;
    quire_error error;
    args_init(got, &args);
    const char *rule = "PA-V12";
    quire_status want = QUIRE_BAD_ALIAS;
    if (what == 0) {
      args.value_cache.data = got->key_cache + 1;
    } else if (what == 1) {
      args.output.data = got->query;
    } else if (what == 2) {
      args.output.data = got->key_cache;
    } else if (what == 3) {
      rule = "PA-V13";
      want = QUIRE_BAD_VALUE;
      got->past[1] = before->past[1] = (int32_t)(COLUMNS * BLOCK);
    } else {
      rule = "PA-E9";
      want = QUIRE_BAD_VALUE;
      got->table[2] = before->table[2] = -1;
    }
    const quire_status status = run(&args, 2, &error);
    print_message("%s\n", error.message);
    assert_int_equal(status, want);
    assert_string_equal(error.rule, rule);
    assert_memory_equal(got, before, sizeof *got);
    free(got);
    free(before);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_threads),       cmocka_unit_test(test_strides),
      cmocka_unit_test(test_large_offsets), cmocka_unit_test(test_separate_caches),
      cmocka_unit_test(test_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
