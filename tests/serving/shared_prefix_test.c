/* Attention over a shared prefix equals the plain call. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quire/quire.h"
#include "serving_fixture.h"

enum { D = 16, HQ = 4, HKV = 2, P = 8, NB = 64, COLUMNS = 16, MOST_ROWS = 128 };

typedef struct shared_case {
  const char *name;
  int sequences, new_tokens, suffix, prefix_blocks;
  int has_sink;
  float softcap;
  int is_int8; /* caches with a scale for each token and head */
} shared_case;

static float query[MOST_ROWS][HQ * D], key[MOST_ROWS][HKV * D], value[MOST_ROWS][HKV * D];
static float key_cache[NB][P][HKV][D], value_cache[NB][P][HKV][D], sink[HQ];
static int8_t int8_keys[NB][P][HKV][D], int8_values[NB][P][HKV][D];
static float key_scales[NB][P][HKV], value_scales[NB][P][HKV];
static float plain[MOST_ROWS][HQ * D], shared[MOST_ROWS][HQ * D];
static float plain_lse[MOST_ROWS][HQ], shared_lse[MOST_ROWS][HQ];
static int32_t cumulative[17], past[16], table[16][COLUMNS], slots[MOST_ROWS], prefix[COLUMNS];

static void fill(float *data, size_t count, randomness *source) {
  for (size_t i = 0; i < count; ++i) {
    data[i] = random_float(source) * 2;
  }
}

/* A cache of sequences that share prefix_blocks, each with a suffix of its own, and a step. */
static int64_t build(const shared_case *test, quire_cache *cache, quire_batch *batch,
                     quire_batch_group *group) {
  static const quire_prefix_key key_of = {{1, 2, 3, 4}};
  int32_t ids[COLUMNS * P] = {0};
  quire_sequence first = begin(cache, &key_of, ids, 0, 0);
  grow(cache, first, ids, test->prefix_blocks * P);
  quire_batch_entry entries[16];
  for (int i = 0; i < test->sequences; ++i) {
    ids[test->prefix_blocks * P] = i + 1;
    entries[i] = (quire_batch_entry){0, test->new_tokens, 0, 0};
    entries[i].sequence =
        begin(cache, &key_of, ids, test->prefix_blocks * P + test->suffix, test->prefix_blocks * P);
    if (test->suffix > 0) {
      grow(cache, entries[i].sequence, ids + test->prefix_blocks * P, test->suffix + i % 3);
    }
    MUST(quire_sequence_append(cache, entries[i].sequence, test->new_tokens, error));
  }
  MUST(quire_sequence_free(cache, first, error));
  int64_t tokens = 0;
  MUST(quire_cache_shared_prefix(cache, entries, (size_t)test->sequences, &tokens, error));
  assert_true(tokens >= (int64_t)test->prefix_blocks * P);
  batch->row_capacity = MOST_ROWS;
  batch->sequence_capacity = 16;
  batch->cumulative_sequence_length = cumulative;
  batch->past_seqlens = past;
  batch->groups = group;
  batch->group_count = 1;
  MUST(quire_batch_build(cache, entries, (size_t)test->sequences, batch, error));
  return batch->rows;
}

static void use_int8(quire_paged_attention_args *call, const int64_t *cache_shape) {
  call->key_cache = (quire_tensor){int8_keys, 0, QUIRE_INT8, 4, cache_shape, NULL};
  call->value_cache = (quire_tensor){int8_values, 0, QUIRE_INT8, 4, cache_shape, NULL};
  call->k_scale_cache = (quire_tensor){key_scales, 0, QUIRE_FLOAT32, 3, cache_shape, NULL};
  call->v_scale_cache = (quire_tensor){value_scales, 0, QUIRE_FLOAT32, 3, cache_shape, NULL};
  call->k_quant_type = "PER_TOKEN";
  call->v_quant_type = "PER_TOKEN";
}

static quire_status run(quire_device *device, const shared_case *test, bool is_shared) {
  quire_cache_group blocks;
  quire_cache_options options = options_of(&blocks, NB, P);
  options.sequence_limit = 16;
  quire_cache *cache = make_cache_with(&options);
  quire_batch batch;
  quire_batch_init(&batch);
  quire_batch_group group = {&table[0][0], COLUMNS, slots, is_shared ? prefix : NULL, -1};
  const int64_t prefix_tokens = is_shared ? (int64_t)test->prefix_blocks * P : 0;
  batch.prefix_tokens = prefix_tokens;
  const int64_t rows = build(test, cache, &batch, &group);
  const int64_t query_shape[] = {rows, HQ * D}, key_shape[] = {rows, HKV * D};
  const int64_t cache_shape[] = {NB, P, HKV, D}, table_shape[] = {test->sequences, COLUMNS};
  const int64_t count[] = {test->sequences}, count_and_one[] = {test->sequences + 1};
  const int64_t row_shape[] = {rows}, lse_shape[] = {rows, HQ}, sink_shape[] = {HQ};
  const int64_t prefix_shape[] = {1, test->prefix_blocks};
  quire_shared_prefix_args args;
  quire_shared_prefix_args_init(&args);
  quire_paged_attention_args *call = &args.attention;
  call->query = (quire_tensor){query, 0, QUIRE_FLOAT32, 2, query_shape, NULL};
  call->key = (quire_tensor){key, 0, QUIRE_FLOAT32, 2, key_shape, NULL};
  call->value = (quire_tensor){value, 0, QUIRE_FLOAT32, 2, key_shape, NULL};
  call->key_cache = (quire_tensor){key_cache, 0, QUIRE_FLOAT32, 4, cache_shape, NULL};
  call->value_cache = (quire_tensor){value_cache, 0, QUIRE_FLOAT32, 4, cache_shape, NULL};
  call->cumulative_sequence_length =
      (quire_tensor){cumulative, 0, QUIRE_INT32, 1, count_and_one, NULL};
  call->past_seqlens = (quire_tensor){past, 0, QUIRE_INT32, 1, count, NULL};
  call->block_table = (quire_tensor){table, 0, QUIRE_INT32, 2, table_shape, NULL};
  call->slot_mapping = (quire_tensor){slots, 0, QUIRE_INT32, 1, row_shape, NULL};
  if (test->is_int8) {
    use_int8(call, cache_shape);
  }
  if (test->has_sink) {
    call->head_sink = (quire_tensor){sink, 0, QUIRE_FLOAT32, 1, sink_shape, NULL};
  }
  call->softcap = test->softcap;
  call->num_heads = HQ;
  call->kv_num_heads = HKV;
  call->output = (quire_tensor){is_shared ? shared : plain, 0, QUIRE_FLOAT32, 2, query_shape, NULL};
  call->softmax_lse =
      (quire_tensor){is_shared ? shared_lse : plain_lse, 0, QUIRE_FLOAT32, 2, lse_shape, NULL};
  quire_status status = QUIRE_OK;
  if (is_shared) {
    args.prefix_table = (quire_tensor){prefix, 0, QUIRE_INT32, 2, prefix_shape, NULL};
    args.prefix_tokens = prefix_tokens;
    MUST(quire_shared_prefix_scratch(&args, &args.scratch_bytes, error));
    args.scratch = aligned_alloc(64, args.scratch_bytes);
    assert_non_null(args.scratch);
    status = quire_shared_prefix_attention(device, &args, NULL);
    args.scratch_bytes -= 1;
    assert_int_equal(quire_shared_prefix_attention(device, &args, NULL), QUIRE_BAD_REQUEST);
    free(args.scratch);
  } else {
    status = quire_paged_attention(device, call, NULL);
  }
  quire_cache_release(cache);
  return status;
}

static void near(const char *name, const char *what, const float *got, const float *want,
                 size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const double limit = 1e-5 * fabs((double)want[i]) + 1e-5;
    if (!(fabs((double)got[i] - (double)want[i]) <= limit)) {
      fail_msg("%s: %s %zu is %.9g, plain %.9g", name, what, i, (double)got[i], (double)want[i]);
    }
  }
}

static void fill_all(uint64_t seed) {
  randomness source = {seed};
  fill(&query[0][0], sizeof query / sizeof(float), &source);
  fill(&key[0][0], sizeof key / sizeof(float), &source);
  fill(&value[0][0], sizeof value / sizeof(float), &source);
  fill(&key_cache[0][0][0][0], sizeof key_cache / sizeof(float), &source);
  fill(&value_cache[0][0][0][0], sizeof value_cache / sizeof(float), &source);
  fill(sink, HQ, &source);
  for (size_t i = 0; i < sizeof int8_keys; ++i) {
    (&int8_keys[0][0][0][0])[i] = (int8_t)random_between(&source, -127, 127);
    (&int8_values[0][0][0][0])[i] = (int8_t)random_between(&source, -127, 127);
  }
  for (size_t i = 0; i < sizeof key_scales / sizeof(float); ++i) {
    (&key_scales[0][0][0])[i] = (float)random_between(&source, 5, 15) / 1000;
    (&value_scales[0][0][0])[i] = (float)random_between(&source, 5, 15) / 1000;
  }
}

static void compare(const shared_case *test) {
  const size_t rows = (size_t)test->sequences * (size_t)test->new_tokens;
  near(test->name, "output", &shared[0][0], &plain[0][0], rows * HQ * D);
  near(test->name, "softmax_lse", &shared_lse[0][0], &plain_lse[0][0], rows * HQ);
}

static void equals_the_plain_call(void **state) {
  (void)state;
  static const shared_case table_of_cases[] = {
      {"decode", 12, 1, 5, 6, 0, 0, 0},
      {"two rows, fewer than 8", 2, 1, 3, 4, 0, 0, 0},
      {"no suffix yet", 4, 1, 0, 6, 0, 0, 0},
      {"verification of drafts", 8, 4, 5, 6, 0, 0, 0},
      {"chunks", 6, 20, 2, 3, 0, 0, 0},
      {"more rows than the prefix has", 6, 20, 2, 1, 0, 0, 0},
      {"sink", 12, 1, 5, 6, 1, 0, 0},
      {"softcap and sink", 5, 3, 5, 6, 1, 2, 0},
      {"int8", 12, 1, 5, 6, 1, 0, 1},
      {"int8, drafts", 3, 4, 5, 6, 0, 0, 1},
  };
  cpu_device cpu = cpu_open(NULL, NULL);
  for (size_t i = 0; i < sizeof table_of_cases / sizeof table_of_cases[0]; ++i) {
    const shared_case *test = &table_of_cases[i];
    fill_all(7 + i);
    assert_int_equal(run(cpu.device, test, false), QUIRE_OK);
    assert_int_equal(run(cpu.device, test, true), QUIRE_OK); /* stores the same keys again */
    compare(test);
  }
  cpu_close(&cpu);
}

/* Each allocation of a first call fails in turn; the call after it loses nothing. */
static void memory_may_fail(void **state) {
  (void)state;
  static const shared_case test = {"memory", 12, 1, 5, 6, 1, 0, 0};
  quire_status status = QUIRE_OUT_OF_MEMORY;
  size_t failed = 0;
  for (size_t site = 1; status != QUIRE_OK; ++site) {
    counting_allocator counting;
    counting_allocator_init(&counting);
    cpu_device cpu = cpu_open(&counting.allocator, NULL);
    fill_all(5);
    counting.fail_at = counting.requests + site;
    status = run(cpu.device, &test, true);
    assert_true(status == QUIRE_OK || status == QUIRE_OUT_OF_MEMORY);
    failed += status != QUIRE_OK;
    counting.fail_at = 0;
    assert_int_equal(run(cpu.device, &test, true), QUIRE_OK);
    assert_int_equal(run(cpu.device, &test, false), QUIRE_OK);
    compare(&test);
    cpu_close(&cpu);
    assert_int_equal(counting.bytes, 0);
  }
  print_message("%zu allocations failed in turn\n", failed);
  assert_true(failed >= 5);
}

static void refuses_what_it_cannot(void **state) {
  (void)state;
  quire_shared_prefix_args args;
  quire_shared_prefix_args_init(&args);
  size_t bytes = 0;
  assert_int_equal(quire_shared_prefix_scratch(NULL, &bytes, NULL), QUIRE_BAD_REQUEST);
  assert_int_equal(quire_shared_prefix_scratch(&args, &bytes, NULL), QUIRE_BAD_RANK);
  assert_int_equal(quire_shared_prefix_attention(NULL, &args, NULL), QUIRE_BAD_REQUEST);
  const int64_t huge[] = {INT32_MAX, INT64_MAX / 4};
  args.attention.query = (quire_tensor){query, 0, QUIRE_FLOAT32, 2, huge, NULL};
  args.attention.num_heads = 1;
  assert_int_equal(quire_shared_prefix_scratch(&args, &bytes, NULL), QUIRE_LIMIT);
}

static void queries_are_checked(void **state) {
  (void)state;
  static const struct {
    int64_t rows, columns, heads;
    quire_dtype dtype;
    quire_status status;
  } bad[] = {
      {3, HQ * D, HQ, QUIRE_DTYPE_NONE, QUIRE_BAD_TYPE},
      {3, HQ * D, 0, QUIRE_FLOAT32, QUIRE_BAD_SHAPE},
      {3, HQ * D, -1, QUIRE_FLOAT32, QUIRE_BAD_SHAPE},
      {-1, HQ * D, HQ, QUIRE_FLOAT32, QUIRE_BAD_SHAPE},
      {3, -HQ * D, HQ, QUIRE_FLOAT32, QUIRE_BAD_SHAPE},
      {3, HQ * D + 1, HQ, QUIRE_FLOAT32, QUIRE_BAD_SHAPE},
  };
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; ++i) {
    const int64_t query_shape[] = {bad[i].rows, bad[i].columns};
    quire_shared_prefix_args args;
    quire_shared_prefix_args_init(&args);
    args.attention.query = (quire_tensor){query, 0, bad[i].dtype, 2, query_shape, NULL};
    args.attention.num_heads = bad[i].heads;
    size_t bytes = 7;
    quire_error error;
    if (quire_shared_prefix_scratch(&args, &bytes, &error) != bad[i].status || bytes != 7 ||
        strcmp(error.rule, "PA-V8") != 0) {
      fail_msg("row %zu: %s", i, error.message);
    }
  }
}

/* Calls that have no prefix to share: refused before anything is read. */
static void calls_are_checked(void **state) {
  (void)state;
  enum {
    PACKED,
    OUTPUT,
    WINDOW,
    NO_SLOTS,
    NO_TABLE,
    FLAT,
    NO_PREFIX,
    UNEVEN,
    HUGE,
    NO_SCRATCH,
    ALL
  };
  static const quire_status want[ALL] = {QUIRE_UNSUPPORTED,  QUIRE_UNSUPPORTED,  QUIRE_UNSUPPORTED,
                                         QUIRE_BAD_PRESENCE, QUIRE_BAD_PRESENCE, QUIRE_BAD_VALUE,
                                         QUIRE_BAD_VALUE,    QUIRE_BAD_VALUE,    QUIRE_BAD_VALUE,
                                         QUIRE_BAD_REQUEST};
  static const int64_t rows[] = {1, HQ * D}, keys[] = {1, HKV * D}, blocks[] = {NB, P, HKV, D};
  static const int64_t one[] = {1}, columns[] = {1, COLUMNS};
  cpu_device cpu = cpu_open(NULL, NULL);
  for (int i = 0; i < ALL; ++i) {
    quire_shared_prefix_args args;
    quire_shared_prefix_args_init(&args);
    quire_paged_attention_args *call = &args.attention;
    call->query = (quire_tensor){query, 0, QUIRE_FLOAT32, 2, rows, NULL};
    call->key = (quire_tensor){key, 0, QUIRE_FLOAT32, i == PACKED ? 0 : 2, keys, NULL};
    call->value = (quire_tensor){value, 0, QUIRE_FLOAT32, 2, keys, NULL};
    call->key_cache = (quire_tensor){key_cache, 0, QUIRE_FLOAT32, i == FLAT ? 2 : 4, blocks, NULL};
    call->value_cache = (quire_tensor){value_cache, 0, QUIRE_FLOAT32, 4, blocks, NULL};
    call->value_cache_out =
        (quire_tensor){value_cache, 0, QUIRE_FLOAT32, i == OUTPUT ? 4 : 0, blocks, NULL};
    call->slot_mapping = (quire_tensor){slots, 0, QUIRE_INT32, i == NO_SLOTS ? 0 : 1, one, NULL};
    call->local_window_size = i == WINDOW ? 4 : -1;
    call->num_heads = HQ;
    call->kv_num_heads = HKV;
    call->output = (quire_tensor){shared, 0, QUIRE_FLOAT32, 2, rows, NULL};
    args.prefix_table =
        (quire_tensor){prefix, 0, QUIRE_INT32, i == NO_TABLE ? 0 : 2, columns, NULL};
    args.prefix_tokens = i == NO_PREFIX ? 0
                         : i == UNEVEN  ? P + 1
                         : i == HUGE    ? INT64_MAX / P * P
                                        : P;
    memset(shared, 0x55, sizeof shared);
    quire_error error;
    const quire_status status = quire_shared_prefix_attention(cpu.device, &args, &error);
    if (status != want[i]) {
      fail_msg("call %d: %s: %s", i, quire_status_name(status), error.message);
    }
    for (size_t j = 0; j < sizeof shared; ++j) {
      assert_int_equal(((const unsigned char *)shared)[j], 0x55);
    }
  }
  cpu_close(&cpu);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(equals_the_plain_call),  cmocka_unit_test(memory_may_fail),
      cmocka_unit_test(refuses_what_it_cannot), cmocka_unit_test(queries_are_checked),
      cmocka_unit_test(calls_are_checked),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
