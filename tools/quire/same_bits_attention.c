/* PagedAttention: decodes, drafts and prompts, past and new tokens as below. */
#include <stdlib.h>
#include <string.h>

#include "bench_memory.h"
#include "failure.h"
#include "files.h"
#include "quire/operators.h"
#include "same_bits.h"

enum {
  SEQUENCES = 7,
  HEADS = 16,
  KV_HEADS = 4,
  SIZE = 128,
  ROW = HEADS * SIZE,
  KV_ROW = KV_HEADS * SIZE,
  MOST_FRESH = 64
};

static const int64_t past_tokens[SEQUENCES] = {2047, 513, 100, 900, 0, 300, 4500};
static const int64_t fresh[SEQUENCES] = {1, 1, 4, 8, 37, 64, 1};

/* One way of laying it out; everything is released together. */
typedef struct layout {
  quire_device *device;
  const bits_variation *variation;
  bits_work work;
  quire_dtype dtype;
  size_t element;
  int64_t block_size, columns, blocks;
  int64_t strides[4];
  int32_t table[SEQUENCES][512];
  unsigned char *caches[2];
  size_t cache_bytes;
  unsigned char *query, *key, *value, *output; /* rows of one call */
  float lse[SEQUENCES * MOST_FRESH * HEADS];
} layout;

static int64_t blocks_of(const layout *of, size_t sequence) {
  const int64_t keys = past_tokens[sequence] + fresh[sequence];
  return (keys + of->block_size - 1) / of->block_size;
}

static void lay_out(layout *of) {
  const bits_variation *variation = of->variation;
  of->block_size = variation->block_size > 0 ? variation->block_size : 16;
  for (size_t s = 0; s < SEQUENCES; ++s) {
    of->blocks += blocks_of(of, s);
    of->columns = blocks_of(of, s) > of->columns ? blocks_of(of, s) : of->columns;
  }
  of->columns += variation->more_columns;
  const int64_t row = KV_ROW + (variation->is_apart ? 24 : 0);
  const int64_t plain[4] = {of->block_size * row, row, SIZE, 1};
  const int64_t head_major[4] = {of->block_size * SIZE, SIZE, of->blocks * of->block_size * SIZE,
                                 1};
  memcpy(of->strides, variation->is_head_major ? head_major : plain, sizeof of->strides);
  of->cache_bytes = (size_t)(of->blocks * of->block_size * row) * of->element;
}

/* What no key lies in holds NaN. */
static void fill_caches(layout *of) {
  int32_t order[4096];
  unsigned char row[KV_ROW * sizeof(float)];
  size_t next = 0;
  quire_bits_order(of->variation->shuffle, (size_t)of->blocks, order);
  memset(of->caches[0], 0xff, of->cache_bytes);
  memset(of->caches[1], 0xff, of->cache_bytes);
  for (size_t s = 0; s < SEQUENCES; ++s) {
    for (int64_t c = 0; c < 512; ++c) {
      of->table[s][c] = c < blocks_of(of, s) ? order[next++] : -1;
    }
    for (int64_t j = 0; j < 2 * past_tokens[s]; ++j) {
      const int64_t position = j / 2;
      const int64_t at = of->table[s][position / of->block_size] * of->strides[0] +
                         position % of->block_size * of->strides[1];
      quire_bits_fill_row(of->dtype, s, position, (int)(j % 2), KV_ROW, row);
      for (int64_t h = 0; h < KV_HEADS; ++h) {
        memcpy(of->caches[j % 2] + (size_t)(at + h * of->strides[2]) * of->element,
               row + (size_t)(h * SIZE) * of->element, SIZE * of->element);
      }
    }
  }
}

/* Tokens [first, first + count) of a sequence, as rows of the next call. */
static void fill_part(layout *of, const bits_part *one, int64_t at) {
  const int64_t width = of->variation->is_packed ? ROW + 2 * KV_ROW : ROW;
  for (int64_t i = 0; i < one->count; ++i) {
    const int64_t position = past_tokens[one->sequence] + one->first + i;
    unsigned char *query = of->query + (size_t)((at + i) * width) * of->element;
    unsigned char *key = of->variation->is_packed
                             ? query + (size_t)ROW * of->element
                             : of->key + (size_t)((at + i) * KV_ROW) * of->element;
    unsigned char *value = of->variation->is_packed
                               ? key + (size_t)KV_ROW * of->element
                               : of->value + (size_t)((at + i) * KV_ROW) * of->element;
    quire_bits_fill_row(of->dtype, one->sequence, position, 2, ROW, query);
    quire_bits_fill_row(of->dtype, one->sequence, position, 0, KV_ROW, key);
    quire_bits_fill_row(of->dtype, one->sequence, position, 1, KV_ROW, value);
  }
}

/* One call; hashes go to the rows' places in the plain order. */
static quire_status call(void *user, const bits_part *parts, size_t count, bits_rows *rows,
                         quire_error *error) {
  layout *of = user;
  int32_t offsets[SEQUENCES + 1] = {0};
  int32_t past[SEQUENCES];
  int32_t *table = malloc(count * (size_t)of->columns * sizeof *table);
  int64_t total = 0;
  if (!table) {
    return quire_failure_set(error, QUIRE_OUT_OF_MEMORY, "no memory for a table");
  }
  for (size_t i = 0; i < count; ++i) {
    fill_part(of, &parts[i], total);
    total += parts[i].count;
    offsets[i + 1] = (int32_t)total;
    past[i] = (int32_t)(past_tokens[parts[i].sequence] + parts[i].first);
    for (int64_t c = 0; c < of->columns; ++c) {
      table[(int64_t)i * of->columns + c] = c < 512 ? of->table[parts[i].sequence][c] : -1;
    }
  }
  const int64_t calls = (int64_t)count;
  const int64_t ends = calls + 1;
  const int64_t query_shape[2] = {total, of->variation->is_packed ? ROW + 2 * KV_ROW : ROW};
  const int64_t key_shape[2] = {total, KV_ROW};
  const int64_t output_shape[2] = {total, ROW};
  const int64_t lse_shape[2] = {total, HEADS};
  const int64_t table_shape[2] = {calls, of->columns};
  const int64_t cache_shape[4] = {of->blocks, of->block_size, KV_HEADS, SIZE};
  quire_paged_attention_args args;
  quire_paged_attention_args_init(&args);
  args.query = (quire_tensor){of->query, 0, of->dtype, 2, query_shape, NULL};
  if (!of->variation->is_packed) {
    args.key = (quire_tensor){of->key, 0, of->dtype, 2, key_shape, NULL};
    args.value = (quire_tensor){of->value, 0, of->dtype, 2, key_shape, NULL};
  }
  args.key_cache = (quire_tensor){of->caches[0], 0, of->dtype, 4, cache_shape, of->strides};
  args.value_cache = (quire_tensor){of->caches[1], 0, of->dtype, 4, cache_shape, of->strides};
  args.cumulative_sequence_length = (quire_tensor){offsets, 0, QUIRE_INT32, 1, &ends, NULL};
  args.past_seqlens = (quire_tensor){past, 0, QUIRE_INT32, 1, &calls, NULL};
  args.block_table = (quire_tensor){table, 0, QUIRE_INT32, 2, table_shape, NULL};
  args.output = (quire_tensor){of->output, 0, of->dtype, 2, output_shape, NULL};
  args.softmax_lse = (quire_tensor){of->lse, 0, QUIRE_FLOAT32, 2, lse_shape, NULL};
  args.num_heads = HEADS;
  args.kv_num_heads = KV_HEADS;
  const uint64_t begin = quire_clock_nanoseconds();
  const quire_status status = quire_paged_attention(of->device, &args, error);
  rows->nanoseconds += quire_clock_nanoseconds() - begin;
  free(table);
  for (size_t i = 0; i < count && status == QUIRE_OK; ++i) {
    uint64_t *hashes = rows->hashes + quire_bits_place(&of->work, &parts[i]);
    for (int64_t t = 0; t < parts[i].count; ++t) {
      const int64_t at = offsets[i] + t;
      const uint64_t hash = quire_bits_hash(0, of->output + (size_t)(at * ROW) * of->element,
                                            (size_t)ROW * of->element);
      hashes[t] = quire_bits_hash(hash, of->lse + at * HEADS, sizeof(float) * HEADS);
    }
  }
  return status;
}

/* Drafts (at most 8 tokens) are cut into single tokens, prompts into pieces of more than 8: both
   keep the order of arithmetic that the whole has. */
static int64_t piece(size_t sequence, int64_t done, size_t calls) {
  (void)calls;
  const int64_t left = fresh[sequence] - done;
  return fresh[sequence] <= 8 ? 1 : left >= 18 ? 9 : left;
}

quire_status quire_bits_run_attention(quire_device *device, quire_dtype dtype,
                                      const bits_variation *variation, bits_rows *rows,
                                      quire_error *error) {
  layout *of = calloc(1, sizeof *of);
  quire_status status = QUIRE_OK;
  if (!of) {
    return quire_failure_set(error, QUIRE_OUT_OF_MEMORY, "no memory for the problem");
  }
  of->device = device;
  of->variation = variation;
  of->work = (bits_work){variation, SEQUENCES, fresh, piece, call, of};
  of->dtype = dtype;
  of->element = quire_dtype_size(dtype);
  lay_out(of);
  const size_t wide = quire_bits_row_count(&of->work) * (size_t)(ROW + 2 * KV_ROW) * sizeof(float);
  of->caches[0] = quire_bench_memory_new(of->cache_bytes);
  of->caches[1] = quire_bench_memory_new(of->cache_bytes);
  of->query = malloc(wide);
  of->key = malloc(wide);
  of->value = malloc(wide);
  of->output = malloc(wide);
  if (of->caches[0] && of->caches[1] && of->query && of->key && of->value && of->output) {
    fill_caches(of);
    status = quire_bits_run(&of->work, rows, error);
  } else {
    status = quire_failure_set(error, QUIRE_OUT_OF_MEMORY, "no memory for caches");
  }
  quire_bench_memory_release(of->caches[0], of->cache_bytes);
  quire_bench_memory_release(of->caches[1], of->cache_bytes);
  free(of->query);
  free(of->key);
  free(of->value);
  free(of->output);
  free(of);
  return status;
}
