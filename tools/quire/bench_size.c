/* What a case needs, before anything is made of it: its numbers come from a file. */
#include "bench_case.h"

/* A product that stops one above the limit. */
static int64_t times(int64_t left, int64_t right) {
  return right > 0 && left > BENCH_MOST_BYTES / right ? BENCH_MOST_BYTES + 1 : left * right;
}

int64_t quire_bench_tensor_bytes(quire_dtype dtype, int64_t copies, int32_t ndim,
                                 const int64_t *dims) {
  int64_t bytes = times((int64_t)quire_dtype_size(dtype), copies);
  for (int32_t d = 0; d < ndim; ++d) {
    bytes = times(bytes, dims[d]);
  }
  return bytes;
}

/* As in a serving engine, blocks behind the window of the first new token are gone. */
void quire_bench_columns(const bench_attention *item, const bench_sequence *sequence,
                         int64_t *first, int64_t *end) {
  const int64_t hidden = item->window > 0 ? sequence->past + 1 - item->window : 0;
  *first = hidden > 0 ? hidden / item->block_size : 0;
  *end = (sequence->past + sequence->fresh + item->block_size - 1) / item->block_size;
}

int64_t quire_bench_count_blocks(const bench_attention *item) {
  int64_t blocks = 0;
  for (size_t s = 0; s < item->sequence_count; ++s) {
    int64_t first;
    int64_t end;
    quire_bench_columns(item, &item->sequences[s], &first, &end);
    blocks += end - first;
  }
  return blocks;
}

typedef struct needed {
  int64_t bytes;
  const char *excess;
} needed;

/* Counts a tensor of four-byte elements, the widest that there are; three dimensions, or one of
   them 1. */
static void need(needed *sum, const char *name, int64_t copies, int64_t rows, int64_t heads,
                 int64_t size) {
  const int64_t dims[3] = {rows, heads, size};
  sum->bytes += quire_bench_tensor_bytes(QUIRE_FLOAT32, copies, 3, dims);
  if (sum->bytes > BENCH_MOST_BYTES) {
    sum->bytes = 0; /* what follows must not overflow */
    sum->excess = sum->excess ? sum->excess : name;
  }
}

/* The scales of int8 caches are never larger than the caches. */
static void need_attention(needed *sum, const bench_case *item) {
  const bench_attention *attention = &item->attention;
  const int64_t sets = item->states * item->attention_layers;
  const int64_t slots = quire_bench_count_blocks(attention) * attention->block_size;
  int64_t tokens = 0;
  int64_t longest = 0;
  for (size_t s = 0; s < attention->sequence_count; ++s) {
    const int64_t total = attention->sequences[s].past + attention->sequences[s].fresh;
    tokens += attention->sequences[s].fresh;
    longest = total > longest ? total : longest;
  }
  need(sum, "query", 1, tokens, attention->heads, attention->head_size);
  need(sum, "key", 1, tokens, attention->kv_heads, attention->head_size);
  need(sum, "value", 1, tokens, attention->kv_heads, attention->head_size);
  need(sum, "key_cache", sets, slots, attention->kv_heads, attention->head_size);
  need(sum, "value_cache", sets, slots, attention->kv_heads, attention->head_size);
  need(sum, "block_table", 1, (int64_t)attention->sequence_count,
       longest / attention->block_size + 1, 1);
  need(sum, "output", 1, tokens, attention->heads, attention->head_size);
}

static void need_linear(needed *sum, const bench_case *item) {
  const bench_linear *linear = &item->linear;
  const int64_t sets = item->states * item->linear_layers;
  const int64_t rows = linear->batch * linear->tokens;
  const int64_t window = linear->state_window > 0 ? linear->state_window : 1;
  const int64_t heads =
      linear->query_heads > linear->value_heads ? linear->query_heads : linear->value_heads;
  const int64_t states = window * linear->batch * linear->value_heads;
  need(sum, "query", 1, rows, linear->query_heads, linear->key_size);
  need(sum, "key", 1, rows, linear->key_heads, linear->key_size);
  need(sum, "value", 1, rows, linear->value_heads, linear->value_size);
  need(sum, "past_state", sets, states, linear->key_size, linear->value_size);
  need(sum, "present_state", sets, states, linear->key_size, linear->value_size);
  need(sum, "decay", 1, rows, linear->value_heads,
       linear->has_channel_decay ? linear->key_size : 1);
  need(sum, "beta", 1, rows, linear->value_heads, 1);
  need(sum, "output", 1, rows, heads, linear->value_size);
}

const char *quire_bench_case_excess(const bench_case *item) {
  needed sum = {0};
  if (item->linear_layers > 0) {
    need_linear(&sum, item);
  }
  if (item->attention_layers > 0) {
    need_attention(&sum, item);
  }
  need(&sum, "stream_mib", 1, item->stream_mib, 1 << 18, 1);
  return sum.excess;
}
