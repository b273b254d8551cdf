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

/* ---- refusals: nothing has changed ---- */

enum { ROWS = 3, BLOCKS_OF_PREFIX = 2, SCRATCH = 16384 };

static const int64_t query_form[] = {ROWS, HQ *D}, key_form[] = {ROWS, HKV *D};
static const int64_t cache_form[] = {NB, P, HKV, D}, row_form[] = {ROWS}, lse_form[] = {ROWS, HQ};
static const int64_t one_form[] = {1}, two_form[] = {2}, table_form[] = {1, COLUMNS};
static const int64_t prefix_form[] = {1, BLOCKS_OF_PREFIX};
static _Alignas(64) unsigned char scratch[SCRATCH];

/* A call of one sequence of three tokens behind a prefix of two blocks. */
static quire_shared_prefix_args good_call(void) {
  fill_all(3);
  cumulative[0] = 0;
  cumulative[1] = ROWS;
  past[0] = 0;
  table[0][0] = 4;
  for (int32_t i = 0; i < ROWS; ++i) {
    slots[i] = 4 * P + i;
  }
  prefix[0] = 1;
  prefix[1] = 0;
  memset(shared, 0x55, sizeof shared);
  memset(shared_lse, 0x55, sizeof shared_lse);
  quire_shared_prefix_args args;
  quire_shared_prefix_args_init(&args);
  quire_paged_attention_args *call = &args.attention;
  call->query = (quire_tensor){query, 0, QUIRE_FLOAT32, 2, query_form, NULL};
  call->key = (quire_tensor){key, 0, QUIRE_FLOAT32, 2, key_form, NULL};
  call->value = (quire_tensor){value, 0, QUIRE_FLOAT32, 2, key_form, NULL};
  call->key_cache = (quire_tensor){key_cache, 0, QUIRE_FLOAT32, 4, cache_form, NULL};
  call->value_cache = (quire_tensor){value_cache, 0, QUIRE_FLOAT32, 4, cache_form, NULL};
  call->cumulative_sequence_length = (quire_tensor){cumulative, 0, QUIRE_INT32, 1, two_form, NULL};
  call->past_seqlens = (quire_tensor){past, 0, QUIRE_INT32, 1, one_form, NULL};
  call->block_table = (quire_tensor){table, 0, QUIRE_INT32, 2, table_form, NULL};
  call->slot_mapping = (quire_tensor){slots, 0, QUIRE_INT32, 1, row_form, NULL};
  call->output = (quire_tensor){shared, 0, QUIRE_FLOAT32, 2, query_form, NULL};
  call->softmax_lse = (quire_tensor){shared_lse, 0, QUIRE_FLOAT32, 2, lse_form, NULL};
  call->num_heads = HQ;
  call->kv_num_heads = HKV;
  args.prefix_table = (quire_tensor){prefix, 0, QUIRE_INT32, 2, prefix_form, NULL};
  args.prefix_tokens = (int64_t)BLOCKS_OF_PREFIX * P;
  args.scratch = scratch;
  args.scratch_bytes = sizeof scratch;
  return args;
}

typedef struct refusal {
  const char *what;
  void (*spoil)(quire_shared_prefix_args *args);
  quire_status status;
  const char *subject;
} refusal;

static void small_output(quire_shared_prefix_args *args) {
  static const int64_t form[] = {1, HQ * D};
  args->attention.output.shape = form;
}
static void flat_output(quire_shared_prefix_args *args) {
  args->attention.output.ndim = 1;
}
static void half_output(quire_shared_prefix_args *args) {
  args->attention.output.dtype = QUIRE_FLOAT16;
}
static void no_output(quire_shared_prefix_args *args) {
  args->attention.output.data = NULL;
}
static void wide_output(quire_shared_prefix_args *args) {
  static const int64_t strides[] = {2 * HQ * D, 1};
  args->attention.output.strides = strides;
}
static void output_over_keys(quire_shared_prefix_args *args) {
  args->attention.output.data = key_cache;
}
static void output_over_query(quire_shared_prefix_args *args) {
  args->attention.output.data = query;
}
static void output_over_prefix(quire_shared_prefix_args *args) {
  args->prefix_table.data = shared;
  memset(shared, 0, sizeof shared);
}
static void output_over_lse(quire_shared_prefix_args *args) {
  args->attention.softmax_lse.data = shared;
}
static void odd_output(quire_shared_prefix_args *args) {
  args->attention.output.byte_offset = 1;
}
static void output_in_scratch(quire_shared_prefix_args *args) {
  args->attention.output.data = scratch;
}
static void scratch_over_keys(quire_shared_prefix_args *args) {
  const uintptr_t past_64 = (uintptr_t)key_cache % 64;
  args->scratch = (unsigned char *)key_cache + (64 - past_64) % 64;
}
static void scratch_over_slots(quire_shared_prefix_args *args) {
  args->attention.slot_mapping.data = scratch;
  memset(scratch, 0, sizeof scratch);
}
static void short_lse(quire_shared_prefix_args *args) {
  static const int64_t form[] = {ROWS - 1, HQ};
  args->attention.softmax_lse.shape = form;
}
static void half_lse(quire_shared_prefix_args *args) {
  args->attention.softmax_lse.dtype = QUIRE_FLOAT16;
}
static void no_slots(quire_shared_prefix_args *args) {
  args->attention.slot_mapping.data = NULL;
}
static void flat_table(quire_shared_prefix_args *args) {
  args->prefix_table.ndim = 1;
}
static void long_table(quire_shared_prefix_args *args) {
  args->prefix_table.dtype = QUIRE_INT64;
}
static void tall_table(quire_shared_prefix_args *args) {
  static const int64_t form[] = {2, BLOCKS_OF_PREFIX};
  args->prefix_table.shape = form;
}
static void strided_table(quire_shared_prefix_args *args) {
  static const int64_t strides[] = {4, 2};
  args->prefix_table.strides = strides;
}
static void no_table(quire_shared_prefix_args *args) {
  args->prefix_table.data = NULL;
}
static void odd_table(quire_shared_prefix_args *args) {
  args->prefix_table.byte_offset = 2;
}
static void far_table(quire_shared_prefix_args *args) {
  args->prefix_table.byte_offset = UINT64_MAX;
}
static void entry_too_large(quire_shared_prefix_args *args) {
  (void)args;
  prefix[1] = NB;
}
static void entry_below_0(quire_shared_prefix_args *args) {
  (void)args;
  prefix[0] = -1;
}
static void long_prefix(quire_shared_prefix_args *args) {
  args->prefix_tokens += P;
}

static void refusals_change_nothing(void **state) {
  (void)state;
  static const refusal cases[] = {
      {"one row of output", small_output, QUIRE_BAD_SHAPE, "output"},
      {"output of rank 1", flat_output, QUIRE_BAD_RANK, "output"},
      {"output in float16", half_output, QUIRE_BAD_TYPE, "output"},
      {"no output", no_output, QUIRE_BAD_PRESENCE, "output"},
      {"output rows apart", wide_output, QUIRE_UNSUPPORTED, "output"},
      {"output over keys", output_over_keys, QUIRE_BAD_ALIAS, "output"},
      {"output over query", output_over_query, QUIRE_BAD_ALIAS, "output"},
      {"output over prefix_table", output_over_prefix, QUIRE_BAD_ALIAS, "output"},
      {"output over softmax_lse", output_over_lse, QUIRE_BAD_ALIAS, "softmax_lse"},
      {"output at an odd address", odd_output, QUIRE_BAD_REQUEST, "output"},
      {"output in scratch", output_in_scratch, QUIRE_BAD_ALIAS, "output"},
      {"scratch over keys", scratch_over_keys, QUIRE_BAD_ALIAS, "key_cache"},
      {"scratch over slots", scratch_over_slots, QUIRE_BAD_ALIAS, "slot_mapping"},
      {"softmax_lse of two rows", short_lse, QUIRE_BAD_SHAPE, "softmax_lse"},
      {"softmax_lse in float16", half_lse, QUIRE_BAD_TYPE, "softmax_lse"},
      {"no slots", no_slots, QUIRE_BAD_PRESENCE, "slot_mapping"},
      {"table of rank 1", flat_table, QUIRE_BAD_RANK, "prefix_table"},
      {"table in int64", long_table, QUIRE_BAD_TYPE, "prefix_table"},
      {"table of two rows", tall_table, QUIRE_BAD_SHAPE, "prefix_table"},
      {"table with gaps", strided_table, QUIRE_UNSUPPORTED, "prefix_table"},
      {"no table", no_table, QUIRE_BAD_PRESENCE, "prefix_table"},
      {"table at an odd address", odd_table, QUIRE_BAD_REQUEST, "prefix_table"},
      {"table beyond memory", far_table, QUIRE_BAD_REQUEST, "prefix_table"},
      {"entry too large", entry_too_large, QUIRE_BAD_VALUE, "prefix_table"},
      {"entry below 0", entry_below_0, QUIRE_BAD_VALUE, "prefix_table"},
      {"longer than the table", long_prefix, QUIRE_BAD_VALUE, "prefix_tokens"},
  };
  static unsigned char keys[sizeof key_cache], values[sizeof value_cache], outputs[sizeof shared];
  static unsigned char lses[sizeof shared_lse];
  cpu_device cpu = cpu_open(NULL, NULL);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    quire_shared_prefix_args args = good_call();
    cases[i].spoil(&args);
    memcpy(keys, key_cache, sizeof keys);
    memcpy(values, value_cache, sizeof values);
    memcpy(outputs, shared, sizeof outputs);
    memcpy(lses, shared_lse, sizeof lses);
    quire_error error = {QUIRE_OK, "", "", ""};
    const quire_status status = quire_shared_prefix_attention(cpu.device, &args, &error);
    if (status != cases[i].status || strcmp(error.subject, cases[i].subject) != 0) {
      fail_msg("%s: %s: %s", cases[i].what, quire_status_name(status), error.message);
    }
    if (memcmp(keys, key_cache, sizeof keys) != 0 ||
        memcmp(values, value_cache, sizeof values) != 0 ||
        memcmp(outputs, shared, sizeof outputs) != 0 ||
        memcmp(lses, shared_lse, sizeof lses) != 0) {
      fail_msg("%s: has changed something", cases[i].what);
    }
  }
  cpu_close(&cpu);
}

/* Strides of two axes are read as such; without softmax_lse the output is the same. */
static void outputs_may_have_strides(void **state) {
  (void)state;
  static const int64_t strides[] = {HQ * D, 1};
  cpu_device cpu = cpu_open(NULL, NULL);
  quire_shared_prefix_args args = good_call();
  MUST(quire_shared_prefix_attention(cpu.device, &args, error));
  memcpy(plain, shared, sizeof plain);
  args = good_call();
  args.attention.output.strides = strides;
  args.attention.softmax_lse = (quire_tensor){.data = NULL};
  MUST(quire_shared_prefix_attention(cpu.device, &args, error));
  assert_memory_equal(plain, shared, sizeof plain);
  cpu_close(&cpu);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(equals_the_plain_call),    cmocka_unit_test(memory_may_fail),
      cmocka_unit_test(refuses_what_it_cannot),   cmocka_unit_test(queries_are_checked),
      cmocka_unit_test(calls_are_checked),        cmocka_unit_test(refusals_change_nothing),
      cmocka_unit_test(outputs_may_have_strides),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
