/* Decoding of rows that share a prefix, in blocks of 16. */
#include <stdlib.h>
#include <string.h>

#include "bench_memory.h"
#include "bench_serving.h"
#include "failure.h"
#include "files.h"

enum {
  ROWS = BENCH_SERVING_ROWS,
  PREFIX = BENCH_SERVING_PREFIX,
  SUFFIX = 48, /* tokens of each row alone, cached */
  P = 16,
  D = 128,
  NB = PREFIX / P + ROWS * (SUFFIX / P + 1),
  COLUMNS = PREFIX / P + SUFFIX / P + 1,
  ALIGNMENT = 64
};

struct bench_prefix {
  quire_device *device;
  quire_cache *cache;
  quire_batch_entry entries[ROWS];
  int32_t cumulative[ROWS + 1], past[ROWS], table[ROWS * COLUMNS], slots[ROWS];
  int32_t prefix_table[PREFIX / P], ids[PREFIX];
  bench_prefix_shape shape;
  void *query, *key, *value, *output, *key_cache, *value_cache;
  void *scratch;
};

static const quire_prefix_key tenant = {{1, 2, 3, 4}};

static size_t bytes_of(quire_dtype dtype, int64_t count) {
  return (size_t)count * quire_dtype_size(dtype);
}

/* Numbers of absolute values from 0.125 to 2; NULL without memory. */
static void *make(quire_dtype dtype, int64_t count, uint32_t seed) {
  void *memory = quire_bench_memory_new(bytes_of(dtype, count));
  for (int64_t i = 0; i < count && memory; ++i) {
    seed = seed * 1664525u + 1013904223u;
    if (dtype == QUIRE_FLOAT16) {
      ((uint16_t *)memory)[i] = (uint16_t)((seed >> 16 & 0x8fffu) | 0x3000u);
    } else {
      const uint32_t bits = (seed & 0x81ffffffu) | 0x3e000000u;
      memcpy((float *)memory + i, &bits, sizeof bits);
    }
  }
  return memory;
}

/* Elements of the queries, of the new keys, of a cache. */
enum { QUERIES, KEYS, CACHE };
static int64_t count_of(const bench_prefix_shape *shape, int what) {
  const int64_t rows = what == CACHE ? (int64_t)NB * P : ROWS;
  return rows * (what == QUERIES ? shape->heads : shape->kv_heads) * D;
}

double quire_bench_prefix_flops(const bench_prefix_shape *shape) {
  return 4.0 * ROWS * (PREFIX + SUFFIX + 1) * (double)(shape->heads * D);
}

static quire_status make_tensors(bench_prefix *prefix, quire_error *error) {
  const bench_prefix_shape *shape = &prefix->shape;
  prefix->query = make(shape->dtype, count_of(shape, QUERIES), 1);
  prefix->output = make(shape->dtype, count_of(shape, QUERIES), 1);
  prefix->key = make(shape->dtype, count_of(shape, KEYS), 2);
  prefix->value = make(shape->dtype, count_of(shape, KEYS), 3);
  prefix->key_cache = make(shape->dtype, count_of(shape, CACHE), 4);
  prefix->value_cache = make(shape->dtype, count_of(shape, CACHE), 5);
  return prefix->query && prefix->output && prefix->key && prefix->value && prefix->key_cache &&
                 prefix->value_cache
             ? QUIRE_OK
             : quire_failure_set(error, QUIRE_OUT_OF_MEMORY, "no memory for the caches");
}

static quire_status begin_one(bench_prefix *prefix, int row, quire_error *error) {
  quire_batch_entry *entry = &prefix->entries[row];
  entry->new_tokens = 1;
  quire_status status = quire_sequence_create(prefix->cache, &tenant, prefix->ids, PREFIX,
                                              &entry->sequence, NULL, error);
  if (status == QUIRE_OK) {
    status = quire_sequence_append(prefix->cache, entry->sequence, SUFFIX, error);
  }
  if (status == QUIRE_OK) {
    status = quire_sequence_commit(prefix->cache, entry->sequence, NULL, SUFFIX, error);
  }
  return status == QUIRE_OK ? quire_sequence_append(prefix->cache, entry->sequence, 1, error)
                            : status;
}

static quire_status begin_all(bench_prefix *prefix, quire_error *error) {
  const quire_cache_group group = {NB, P, 0};
  quire_cache_options options;
  quire_cache_options_init(&options);
  options.groups = &group;
  options.group_count = 1;
  options.sequence_limit = ROWS + 1;
  quire_sequence first = 0;
  quire_status status = quire_cache_create(&options, &prefix->cache, error);
  if (status == QUIRE_OK) {
    status = quire_sequence_create(prefix->cache, &tenant, NULL, 0, &first, NULL, error);
  }
  if (status == QUIRE_OK) {
    status = quire_sequence_append(prefix->cache, first, PREFIX, error);
  }
  if (status == QUIRE_OK) {
    status = quire_sequence_commit(prefix->cache, first, prefix->ids, PREFIX, error);
  }
  for (int row = 0; row < ROWS && status == QUIRE_OK; ++row) {
    status = begin_one(prefix, row, error);
  }
  return status;
}

quire_status quire_bench_prefix_open(quire_device *device, const bench_prefix_shape *shape,
                                     bench_prefix **prefix, quire_error *error) {
  *prefix = calloc(1, sizeof **prefix);
  if (!*prefix) {
    return quire_failure_set(error, QUIRE_OUT_OF_MEMORY, "no memory for the caches");
  }
  (*prefix)->device = device;
  (*prefix)->shape = *shape;
  const quire_status status = make_tensors(*prefix, error);
  return status == QUIRE_OK ? begin_all(*prefix, error) : status;
}

void quire_bench_prefix_close(bench_prefix *prefix) {
  if (prefix) {
    quire_cache_release(prefix->cache);
    const bench_prefix_shape *shape = &prefix->shape;
    void *const memory[] = {prefix->query, prefix->output,    prefix->key,
                            prefix->value, prefix->key_cache, prefix->value_cache};
    static const int what[] = {QUERIES, QUERIES, KEYS, KEYS, CACHE, CACHE};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; ++i) {
      quire_bench_memory_release(memory[i], bytes_of(shape->dtype, count_of(shape, what[i])));
    }
    free(prefix->scratch);
    free(prefix);
  }
}

static quire_status build(bench_prefix *prefix, int is_shared, quire_error *error) {
  quire_batch_group group = {prefix->table, COLUMNS, prefix->slots,
                             is_shared ? prefix->prefix_table : NULL, -1};
  quire_batch batch;
  quire_batch_init(&batch);
  batch.row_capacity = ROWS;
  batch.sequence_capacity = ROWS;
  batch.prefix_tokens = is_shared ? PREFIX : 0;
  batch.groups = &group;
  batch.group_count = 1;
  batch.cumulative_sequence_length = prefix->cumulative;
  batch.past_seqlens = prefix->past;
  return quire_batch_build(prefix->cache, prefix->entries, ROWS, &batch, error);
}

static quire_status ensure_scratch(bench_prefix *prefix, quire_shared_prefix_args *args,
                                   quire_error *error) {
  const quire_status status = quire_shared_prefix_scratch(args, &args->scratch_bytes, error);
  if (status != QUIRE_OK) {
    return status;
  }
  if (!prefix->scratch) {
    prefix->scratch = malloc(args->scratch_bytes + ALIGNMENT);
  }
  if (!prefix->scratch) {
    return quire_failure_set(error, QUIRE_OUT_OF_MEMORY, "no memory for scratch");
  }
  args->scratch = (char *)prefix->scratch + (ALIGNMENT - (uintptr_t)prefix->scratch % ALIGNMENT);
  return QUIRE_OK;
}

quire_status quire_bench_prefix_run(bench_prefix *prefix, int is_shared, uint64_t *nanoseconds,
                                    quire_error *error) {
  quire_status status = build(prefix, is_shared, error);
  const bench_prefix_shape *shape = &prefix->shape;
  const int64_t query_shape[] = {ROWS, shape->heads * D}, key_shape[] = {ROWS, shape->kv_heads * D};
  const int64_t cache_shape[] = {NB, P, shape->kv_heads, D}, table_shape[] = {ROWS, COLUMNS};
  const int64_t rows[] = {ROWS}, offsets[] = {ROWS + 1}, prefix_shape[] = {1, PREFIX / P};
  quire_shared_prefix_args args;
  quire_shared_prefix_args_init(&args);
  quire_paged_attention_args *call = &args.attention;
  call->query = (quire_tensor){prefix->query, 0, shape->dtype, 2, query_shape, NULL};
  call->key = (quire_tensor){prefix->key, 0, shape->dtype, 2, key_shape, NULL};
  call->value = (quire_tensor){prefix->value, 0, shape->dtype, 2, key_shape, NULL};
  call->key_cache = (quire_tensor){prefix->key_cache, 0, shape->dtype, 4, cache_shape, NULL};
  call->value_cache = (quire_tensor){prefix->value_cache, 0, shape->dtype, 4, cache_shape, NULL};
  call->cumulative_sequence_length =
      (quire_tensor){prefix->cumulative, 0, QUIRE_INT32, 1, offsets, NULL};
  call->past_seqlens = (quire_tensor){prefix->past, 0, QUIRE_INT32, 1, rows, NULL};
  call->block_table = (quire_tensor){prefix->table, 0, QUIRE_INT32, 2, table_shape, NULL};
  call->slot_mapping = (quire_tensor){prefix->slots, 0, QUIRE_INT32, 1, rows, NULL};
  call->output = (quire_tensor){prefix->output, 0, shape->dtype, 2, query_shape, NULL};
  call->num_heads = shape->heads;
  call->kv_num_heads = shape->kv_heads;
  args.prefix_table = (quire_tensor){prefix->prefix_table, 0, QUIRE_INT32, 2, prefix_shape, NULL};
  args.prefix_tokens = PREFIX;
  if (status == QUIRE_OK) {
    status = ensure_scratch(prefix, &args, error);
  }
  if (status != QUIRE_OK) {
    return status;
  }
  const uint64_t begin = quire_clock_nanoseconds();
  status = is_shared ? quire_shared_prefix_attention(prefix->device, &args, error)
                     : quire_paged_attention(prefix->device, call, error);
  *nanoseconds = quire_clock_nanoseconds() - begin;
  return status;
}
