/*
 * Int8 with a scale for each token and head, through the typed calls: one head-major arena that
 * PagedAttention writes (X7) and PagedDecode reads (X2); buffers of their own for what a call
 * writes; refusals.
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

#include "cpu_device.h"
#include "quire/quire.h"

#define SEQUENCES INT64_C(3)
#define PROMPT INT64_C(33) /* tokens of each sequence; then one more by both operators */
#define HEADS INT64_C(6)
#define KV_HEADS INT64_C(2)
#define SIZE INT64_C(22)
#define PADDED INT64_C(24)
#define BLOCKS INT64_C(10)
#define BLOCK INT64_C(16)
#define COLUMNS INT64_C(3)
#define TOKENS (SEQUENCES * PROMPT)
#define ARENA (KV_HEADS * BLOCKS * BLOCK)

typedef struct arena {
  int8_t keys[ARENA * PADDED], values[ARENA * PADDED];
  float key_scales[ARENA], value_scales[ARENA];
} arena;

typedef struct data {
  arena cache;
  float query[TOKENS * HEADS * SIZE], key[TOKENS * KV_HEADS * SIZE],
      value[TOKENS * KV_HEADS * SIZE];
  float output[TOKENS * HEADS * SIZE];
  int32_t cumulative[SEQUENCES + 1], past[SEQUENCES], table[SEQUENCES * COLUMNS];
} data;

static const int64_t cache_shape[4] = {BLOCKS, BLOCK, KV_HEADS, SIZE};
static const int64_t cache_strides[4] = {BLOCK * PADDED, PADDED, BLOCKS *BLOCK *PADDED, 1};
static const int64_t scale_shape[3] = {BLOCKS, BLOCK, KV_HEADS};
static const int64_t scale_strides[3] = {BLOCK, 1, BLOCKS *BLOCK};

static void fill(float *values, int64_t n, uint32_t seed) {
  for (int64_t i = 0; i < n; ++i) {
    seed = seed * 1664525u + 1013904223u;
    values[i] = (float)(int32_t)seed * 0x1p-31f;
  }
}

static data *data_create(void) {
  data *d = calloc(1, sizeof *d);
  if (d == NULL) {
    fail_msg("no memory");
    return NULL;
  }
  memset(&d->cache, 0x7f, sizeof d->cache); /* scales of 3e38 where nobody wrote */
  fill(d->query, TOKENS * HEADS * SIZE, 1);
  fill(d->key, TOKENS * KV_HEADS * SIZE, 2);
  fill(d->value, TOKENS * KV_HEADS * SIZE, 3);
  for (int64_t i = 0; i < SEQUENCES * COLUMNS; ++i) {
    d->table[i] = (int32_t)(BLOCKS - 1 - i);
  }
  return d;
}

static quire_tensor tensor(void *memory, quire_dtype dtype, int32_t ndim, const int64_t *shape,
                           const int64_t *strides) {
  const quire_tensor result = {memory, 0, dtype, ndim, shape, strides};
  return result;
}

/* `new_tokens` of each sequence; shapes must outlive the call. */
typedef struct shapes {
  int64_t query[2], key[2], one[1], ends[1], table[2];
} shapes;

static void args_init(data *d, int64_t past, int64_t new_tokens, shapes *s,
                      quire_paged_attention_args *args) {
  *s = (shapes){.query = {SEQUENCES * new_tokens, HEADS * SIZE},
                .key = {SEQUENCES * new_tokens, KV_HEADS * SIZE},
                .one = {SEQUENCES},
                .ends = {SEQUENCES + 1},
                .table = {SEQUENCES, COLUMNS}};
  for (int64_t i = 0; i < SEQUENCES; ++i) {
    d->past[i] = (int32_t)past;
    d->cumulative[i + 1] = (int32_t)((i + 1) * new_tokens);
  }
  quire_paged_attention_args_init(args);
  args->query = tensor(d->query, QUIRE_FLOAT32, 2, s->query, NULL);
  args->key = tensor(d->key, QUIRE_FLOAT32, 2, s->key, NULL);
  args->value = tensor(d->value, QUIRE_FLOAT32, 2, s->key, NULL);
  args->key_cache = tensor(d->cache.keys, QUIRE_INT8, 4, cache_shape, cache_strides);
  args->value_cache = tensor(d->cache.values, QUIRE_INT8, 4, cache_shape, cache_strides);
  args->k_scale_cache = tensor(d->cache.key_scales, QUIRE_FLOAT32, 3, scale_shape, scale_strides);
  args->v_scale_cache = tensor(d->cache.value_scales, QUIRE_FLOAT32, 3, scale_shape, scale_strides);
  args->cumulative_sequence_length = tensor(d->cumulative, QUIRE_INT32, 1, s->ends, NULL);
  args->past_seqlens = tensor(d->past, QUIRE_INT32, 1, s->one, NULL);
  args->block_table = tensor(d->table, QUIRE_INT32, 2, s->table, NULL);
  args->output = tensor(d->output, QUIRE_FLOAT32, 2, s->query, NULL);
  args->num_heads = HEADS;
  args->kv_num_heads = KV_HEADS;
  args->k_quant_type = "PER_TOKEN";
  args->v_quant_type = "PER_TOKEN";
}

static cpu_device cpu;

static int open_device(void **state) {
  (void)state;
  cpu = cpu_open(NULL, NULL);
  return 0;
}

static int close_device(void **state) {
  (void)state;
  cpu_close(&cpu);
  return 0;
}

static void must_run(const quire_paged_attention_args *args) {
  quire_error error;
  if (quire_paged_attention(cpu.device, args, &error) != QUIRE_OK) {
    fail_msg("%s", error.message);
  }
}

/* X2 reads what X7 wrote, rows padded, and gives the bits of X7's own decode. */
static void test_one_arena(void **state) {
  (void)state;
  data *d = data_create();
  quire_paged_attention_args args;
  shapes s;
  args_init(d, 0, PROMPT, &s, &args);
  must_run(&args);
  args_init(d, PROMPT, 1, &s, &args);
  args.scale = 0.25f;
  must_run(&args);
  const int64_t query_shape[3] = {SEQUENCES, HEADS, SIZE};
  const int64_t page_shape[4] = {KV_HEADS, BLOCKS, BLOCK, PADDED};
  const int64_t page_scales[3] = {KV_HEADS, BLOCKS, BLOCK};
  int32_t lengths[SEQUENCES] = {PROMPT + 1, PROMPT + 1, PROMPT + 1};
  float *output = calloc(SEQUENCES * HEADS * SIZE, sizeof(float));
  assert_non_null(output);
  quire_paged_decode_args decode;
  quire_paged_decode_args_init(&decode);
  decode.query = tensor(d->query, QUIRE_FLOAT32, 3, query_shape, NULL);
  decode.key_pages = tensor(d->cache.keys, QUIRE_INT8, 4, page_shape, NULL);
  decode.value_pages = tensor(d->cache.values, QUIRE_INT8, 4, page_shape, NULL);
  decode.key_scales = tensor(d->cache.key_scales, QUIRE_FLOAT32, 3, page_scales, NULL);
  decode.value_scales = tensor(d->cache.value_scales, QUIRE_FLOAT32, 3, page_scales, NULL);
  decode.page_table = args.block_table;
  decode.context_lengths = tensor(lengths, QUIRE_INT32, 1, s.one, NULL);
  decode.output = tensor(output, QUIRE_FLOAT32, 3, query_shape, NULL);
  decode.scale = 0.25f;
  quire_error error;
  if (quire_paged_decode(cpu.device, &decode, &error) != QUIRE_OK) {
    fail_msg("%s", error.message);
  }
  assert_memory_equal(output, d->output, SEQUENCES * HEADS * SIZE * sizeof(float));
  /* Padding and rows that no token has are as they were. */
  for (int64_t row = 0; row < ARENA; ++row) {
    assert_int_equal(d->cache.keys[row * PADDED + SIZE], 0x7f);
    const int64_t block = row / BLOCK % BLOCKS;
    const bool used = block != 0 && (block % 3 != 1 || row % BLOCK < 2);
    assert_true((d->cache.key_scales[row] < 1.0f) == used);
    assert_true((d->cache.value_scales[row] < 1.0f) == used);
  }
  free(output);
  free(d);
}

/* Rows read back are the rows that were written, within half a step. */
static void test_half_a_step(void **state) {
  (void)state;
  data *d = data_create();
  quire_paged_attention_args args;
  shapes s;
  args_init(d, 0, PROMPT, &s, &args);
  must_run(&args);
  for (int64_t t = 0; t < PROMPT; ++t) {
    for (int64_t h = 0; h < KV_HEADS; ++h) {
      const int64_t row = (h * BLOCKS + d->table[t / BLOCK]) * BLOCK + t % BLOCK;
      const float scale = d->cache.key_scales[row];
      for (int64_t i = 0; i < SIZE; ++i) {
        const float want = d->key[(t * KV_HEADS + h) * SIZE + i];
        const float got = (float)d->cache.keys[row * PADDED + i] * scale;
        assert_true(fabsf(got - want) <= 0.5001f * scale);
      }
    }
  }
  free(d);
}

/* Caches and scales in buffers of their own: copies with the new rows; the inputs stay. */
static void test_separate(void **state) {
  (void)state;
  data *want = data_create();
  data *got = data_create();
  static arena before;
  static arena out;
  memset(&out, 0x7f, sizeof out);
  quire_paged_attention_args args;
  shapes s;
  args_init(want, 0, PROMPT, &s, &args);
  must_run(&args);
  args_init(want, PROMPT, 1, &s, &args);
  must_run(&args);
  args_init(got, 0, PROMPT, &s, &args);
  must_run(&args);
  before = got->cache;
  args_init(got, PROMPT, 1, &s, &args);
  args.key_cache_out = tensor(out.keys, QUIRE_INT8, 4, cache_shape, cache_strides);
  args.value_cache_out = tensor(out.values, QUIRE_INT8, 4, cache_shape, cache_strides);
  args.k_scale_cache_out = tensor(out.key_scales, QUIRE_FLOAT32, 3, scale_shape, scale_strides);
  args.v_scale_cache_out = tensor(out.value_scales, QUIRE_FLOAT32, 3, scale_shape, scale_strides);
  must_run(&args);
  assert_memory_equal(want->output, got->output, SEQUENCES * HEADS * SIZE * sizeof(float));
  assert_memory_equal(&before, &got->cache, sizeof before);
  assert_memory_equal(&want->cache, &out, sizeof out);
  free(want);
  free(got);
}

/* PA-V12 for the scales, and a missing one: nothing is written. */
static void test_refused(void **state) {
  (void)state;
  for (int what = 0; what < 4; ++what) {
    data *got = data_create();
    data *before = data_create();
    quire_paged_attention_args args;
    shapes s;
    args_init(got, 0, 2, &s, &args);
    args_init(before, 0, 2, &s, &args);
    args_init(got, 0, 2, &s, &args);
    quire_status want = QUIRE_BAD_ALIAS;
    const char *rule = "PA-V12";
    if (what == 0) {
      args.v_scale_cache.data = got->cache.key_scales;
    } else if (what == 1) {
      args.k_scale_cache.data = got->output;
    } else if (what == 2) {
      args.k_scale_cache.data = got->cache.keys;
    } else {
      args.k_scale_cache = (quire_tensor){0};
      want = QUIRE_BAD_PRESENCE;
      rule = "X7";
    }
    quire_error error;
    const quire_status status = quire_paged_attention(cpu.device, &args, &error);
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
      cmocka_unit_test(test_one_arena),
      cmocka_unit_test(test_half_a_step),
      cmocka_unit_test(test_separate),
      cmocka_unit_test(test_refused),
  };
  return cmocka_run_group_tests(tests, open_device, close_device);
}
