/* The PagedAttention call of a case. */
#include <stdlib.h>
#include <string.h>

#include "failure.h"

#include "bench_builder.h"

/* Keys that a sequence's tokens see, each once; and the pairs of token and key. */
static void count_keys(const bench_attention *item, const bench_sequence *sequence, double *keys,
                       double *pairs) {
  const int64_t total = sequence->past + sequence->fresh;
  const int64_t window = item->window > 0 ? item->window : total;
  const int64_t reach = window + sequence->fresh - 1;
  *keys += (double)(reach < total ? reach : total);
  /* Token t sees past + t + 1 keys, but no more than the window: the first `growing` tokens see one
     more each. */
  const int64_t room = window > sequence->past ? window - sequence->past : 0;
  const int64_t growing = room < sequence->fresh ? room : sequence->fresh;
  const int64_t more = growing * (growing + 1) / 2;
  *pairs += (double)(growing * sequence->past + more + (sequence->fresh - growing) * window);
}

static void count(const bench_attention *item, double *keys, double *pairs, int64_t *tokens,
                  int64_t *longest) {
  *keys = *pairs = 0;
  *tokens = *longest = 0;
  for (size_t i = 0; i < item->sequence_count; ++i) {
    const bench_sequence *sequence = &item->sequences[i];
    const int64_t total = sequence->past + sequence->fresh;
    count_keys(item, sequence, keys, pairs);
    *tokens += sequence->fresh;
    *longest = total > *longest ? total : *longest;
  }
}

/* Keys and values once; queries and outputs too where there are many. */
double quire_bench_attention_bytes(const bench_attention *item, quire_dtype dtype) {
  double keys = 0;
  double pairs = 0;
  int64_t tokens = 0;
  int64_t longest = 0;
  count(item, &keys, &pairs, &tokens, &longest);
  const double size = (double)item->head_size * (double)quire_dtype_size(dtype);
  double bytes = 2 * keys * (double)item->kv_heads * size;
  if ((size_t)tokens > item->sequence_count) {
    bytes += 2 * (double)tokens * (double)item->heads * size;
  }
  return bytes;
}

/* Blocks are given out in random order. */
static void fill_table(bench_builder *builder, const bench_attention *item, int64_t columns,
                       int32_t *table) {
  const int64_t blocks = quire_bench_count_blocks(item);
  int32_t *order = table ? calloc((size_t)blocks + 1, sizeof *order) : NULL;
  if (!order) {
    if (builder->status == QUIRE_OK) {
      builder->status =
          quire_failure_set(builder->error, QUIRE_OUT_OF_MEMORY, "no memory for a block table");
    }
    return;
  }
  for (int64_t i = 0; i < blocks; ++i) {
    const int64_t other = quire_bench_random_below(&builder->random, i + 1);
    order[i] = order[other];
    order[other] = (int32_t)i;
  }
  int64_t next = 0;
  for (size_t s = 0; s < item->sequence_count; ++s) {
    int64_t first;
    int64_t end;
    quire_bench_columns(item, &item->sequences[s], &first, &end);
    for (int64_t c = 0; c < columns; ++c) {
      table[(int64_t)s * columns + c] = c >= first && c < end ? order[next++] : -1;
    }
  }
  free(order);
}

static void add_lengths(bench_builder *builder, const bench_attention *item, int64_t longest) {
  const int64_t sequences = (int64_t)item->sequence_count;
  const int64_t columns = (longest + item->block_size - 1) / item->block_size;
  int32_t *offsets = quire_bench_tensor(builder, "cumulative_sequence_length", 0, 0, QUIRE_INT32,
                                        NULL, 1, (const int64_t[]){sequences + 1});
  int32_t *past = quire_bench_tensor(builder, "past_seqlens", 0, 0, QUIRE_INT32, NULL, 1,
                                     (const int64_t[]){sequences});
  int32_t *table = quire_bench_tensor(builder, "block_table", 0, 0, QUIRE_INT32, NULL, 2,
                                      (const int64_t[]){sequences, columns});
  for (int64_t s = 0; s < sequences && table; ++s) {
    const bench_sequence *sequence = &item->sequences[s];
    offsets[s + 1] = offsets[s] + (int32_t)sequence->fresh;
    past[s] = (int32_t)sequence->past;
  }
  fill_table(builder, item, columns, table);
}

static void add_caches(bench_builder *builder, const bench_attention *item, quire_dtype dtype) {
  const int64_t blocks = quire_bench_count_blocks(item);
  const int64_t shape[4] = {blocks, item->block_size, item->kv_heads, item->head_size};
  const size_t elements =
      (size_t)blocks * (size_t)(item->block_size * item->kv_heads * item->head_size);
  static const char *const names[2] = {"key_cache", "value_cache"};
  for (int i = 0; i < 2; ++i) {
    void *cache = quire_bench_tensor(builder, names[i], 0, 1, dtype, NULL, 4, shape);
    if (cache) {
      quire_bench_fill_normal(&builder->random, dtype, cache, elements, 1);
      quire_bench_repeat(builder, names[i]);
    }
  }
}

/* One scale for each token and head, beside the caches. */
static void add_scale_caches(bench_builder *builder, const bench_attention *item) {
  const int64_t blocks = quire_bench_count_blocks(item);
  const int64_t shape[3] = {blocks, item->block_size, item->kv_heads};
  static const char *const names[2] = {"k_scale_cache", "v_scale_cache"};
  for (int i = 0; i < 2; ++i) {
    float *scales = quire_bench_tensor(builder, names[i], 0, 1, QUIRE_FLOAT32, NULL, 3, shape);
    for (int64_t c = 0; c < blocks * item->block_size * item->kv_heads && scales; ++c) {
      scales[c] = 0.02f + 0.0001f * (float)quire_bench_random_below(&builder->random, 100);
    }
    if (scales) {
      quire_bench_repeat(builder, names[i]);
    }
  }
  quire_bench_text(builder, "k_quant_type", "PER_TOKEN");
  quire_bench_text(builder, "v_quant_type", "PER_TOKEN");
}

static void add_scales(bench_builder *builder, const bench_attention *item) {
  const int64_t shape[3] = {item->kv_heads, 1, item->head_size};
  static const char *const names[2] = {"k_scale", "v_scale"};
  for (int i = 0; i < 2; ++i) {
    float *scale = quire_bench_tensor(builder, names[i], 0, 0, QUIRE_FLOAT32, NULL, 3, shape);
    for (int64_t c = 0; c < item->kv_heads * item->head_size && scale; ++c) {
      scale[c] = 0.02f + 0.0001f * (float)quire_bench_random_below(&builder->random, 100);
    }
  }
  quire_bench_text(builder, "k_quant_type", "PER_CHANNEL");
  quire_bench_text(builder, "v_quant_type", "PER_CHANNEL");
}

static void add_rows(bench_builder *builder, const char *name, quire_dtype dtype, int64_t rows,
                     int64_t width) {
  void *data =
      quire_bench_tensor(builder, name, 0, 0, dtype, NULL, 2, (const int64_t[]){rows, width});
  if (data) {
    quire_bench_fill_normal(&builder->random, dtype, data, (size_t)(rows * width), 1);
  }
}

quire_status quire_bench_make_attention(const quire_session *session, const bench_attention *item,
                                        quire_precision precision, const char *dtype_name,
                                        size_t sets, bench_layers *layers, quire_error *error) {
  const quire_dtype cache = quire_bench_dtype(dtype_name);
  const quire_dtype element = cache == QUIRE_INT8 ? QUIRE_FLOAT32 : cache;
  const int64_t width = item->heads * item->head_size;
  const int64_t kv_width = item->kv_heads * item->head_size;
  double keys = 0;
  double pairs = 0;
  int64_t tokens = 0;
  int64_t longest = 0;
  count(item, &keys, &pairs, &tokens, &longest);
  bench_builder builder;
  quire_bench_begin(&builder, session, "com.microsoft.PagedAttention", sets, layers, error);
  builder.request.precision = precision;
  add_rows(&builder, "query", element, tokens, width);
  add_rows(&builder, "key", element, tokens, kv_width);
  add_rows(&builder, "value", element, tokens, kv_width);
  add_caches(&builder, item, cache);
  add_lengths(&builder, item, longest);
  if (!strcmp(dtype_name, "i8t")) {
    add_scale_caches(&builder, item);
  } else if (cache == QUIRE_INT8) {
    add_scales(&builder, item);
  }
  if (item->has_sink) {
    void *sink = quire_bench_tensor(&builder, "head_sink", 0, 0, element, NULL, 1, &item->heads);
    if (sink) {
      quire_bench_fill_normal(&builder.random, element, sink, (size_t)item->heads, 1);
    }
  }
  (void)quire_bench_tensor(&builder, "output", 1, 0, element, NULL, 2,
                           (const int64_t[]){tokens, width});
  quire_bench_integer(&builder, "num_heads", item->heads);
  quire_bench_integer(&builder, "kv_num_heads", item->kv_heads);
  if (item->window > 0) {
    quire_bench_integer(&builder, "local_window_size", item->window);
  }
  if (item->softcap > 0) {
    quire_bench_number(&builder, "softcap", item->softcap);
  }
  layers->bytes = quire_bench_attention_bytes(item, cache);
  if (!strcmp(dtype_name, "i8t")) {
    layers->bytes += 2 * keys * (double)item->kv_heads * sizeof(float);
  }
  layers->flops = 4 * pairs * (double)width;
  return quire_bench_end(&builder);
}
