/* The LinearAttention call of a case. */
#include <math.h>

#include "bench_builder.h"

/* The state is read once and written once, or as often as a window keeps it; rows once each. */
double quire_bench_linear_bytes(const bench_linear *item, quire_dtype dtype) {
  const int64_t state = item->value_heads * item->key_size * item->value_size;
  const int64_t written = item->state_window > 0 ? item->state_window : 1;
  const int64_t rows = (item->query_heads + item->key_heads) * item->key_size +
                       2 * item->value_heads * item->value_size;
  return (double)item->batch *
         ((double)(state * (1 + written)) * (double)quire_dtype_size(item->state_dtype) +
          (double)(item->tokens * rows) * (double)quire_dtype_size(dtype));
}

static void *add_rows(bench_builder *builder, const bench_linear *item, const char *name,
                      quire_dtype dtype, int64_t width) {
  const int64_t shape[3] = {item->batch, item->tokens, width};
  void *data = quire_bench_tensor(builder, name, 0, 0, dtype, NULL, 3, shape);
  if (data) {
    quire_bench_fill_normal(&builder->random, dtype, data,
                            (size_t)(item->batch * item->tokens * width), 1);
  }
  return data;
}

/* Rows of the key heads get length 1. */
static void add_keys(bench_builder *builder, const bench_linear *item, quire_dtype dtype) {
  const int64_t shape[3] = {item->batch, item->tokens, item->key_heads * item->key_size};
  void *data = quire_bench_tensor(builder, "key", 0, 0, dtype, NULL, 3, shape);
  const size_t size = (size_t)item->key_size;
  for (size_t row = 0; data && row < (size_t)(shape[0] * shape[1] * item->key_heads); ++row) {
    const bench_random start = builder->random;
    double sum = 0;
    for (size_t i = 0; i < size; ++i) {
      const double x = (double)quire_bench_random_normal(&builder->random, 1);
      sum += x * x;
    }
    builder->random = start;
    for (size_t i = 0; i < size; ++i) {
      const float x = quire_bench_random_normal(&builder->random, 1);
      quire_bench_store(dtype, data, row * size + i, x / (float)sqrt(sum));
    }
  }
}

/* Decay -0.1 exp(N/2) and beta sigmoid(N); or, where the operator applies the gates, raw numbers.
 */
static void add_gates(bench_builder *builder, const bench_linear *item, quire_dtype dtype) {
  const int64_t width = item->value_heads * (item->has_channel_decay ? item->key_size : 1);
  const size_t rows = (size_t)(item->batch * item->tokens);
  void *decay = add_rows(builder, item, "decay", dtype, width);
  void *beta = add_rows(builder, item, "beta", dtype, item->value_heads);
  if (item->has_gates || !decay || !beta) {
    return;
  }
  for (size_t i = 0; i < rows * (size_t)width; ++i) {
    const float x = quire_bench_random_normal(&builder->random, 0.5f);
    quire_bench_store(dtype, decay, i, -0.1f * expf(x));
  }
  for (size_t i = 0; i < rows * (size_t)item->value_heads; ++i) {
    const float x = quire_bench_random_normal(&builder->random, 1);
    quire_bench_store(dtype, beta, i, 1 / (1 + expf(-x)));
  }
}

static void add_activations(bench_builder *builder, const bench_linear *item) {
  float *a_log =
      quire_bench_tensor(builder, "a_log", 0, 0, QUIRE_FLOAT32, NULL, 1, &item->value_heads);
  float *bias =
      quire_bench_tensor(builder, "dt_bias", 0, 0, QUIRE_FLOAT32, NULL, 1, &item->value_heads);
  for (int64_t h = 0; h < item->value_heads && a_log && bias; ++h) {
    a_log[h] = quire_bench_random_normal(&builder->random, 0.5f);
    bias[h] = quire_bench_random_normal(&builder->random, 0.5f);
  }
  quire_bench_text(builder, "gate_activation", "qwen");
  quire_bench_text(builder, "beta_activation", "sigmoid");
  quire_bench_integer(builder, "qk_l2_norm", 1);
}

/* Unless the case says otherwise the state is updated in place; with a window, what is read lies
   apart. */
static void add_states(bench_builder *builder, const bench_linear *item) {
  const int64_t window = item->state_window;
  const int64_t shape[5] = {window, item->batch, item->value_heads, item->key_size,
                            item->value_size};
  const int32_t ndim = window > 0 ? 5 : 4;
  const int64_t *dims = shape + (5 - ndim);
  size_t elements = 1;
  for (int32_t d = 0; d < ndim; ++d) {
    elements *= (size_t)dims[d];
  }
  void *past = quire_bench_tensor(builder, "past_state", 0, 1, item->state_dtype, NULL, ndim, dims);
  if (past) {
    quire_bench_fill_normal(&builder->random, item->state_dtype, past, elements, 0.1f);
    quire_bench_repeat(builder, "past_state");
  }
  (void)quire_bench_tensor(builder, "present_state", 1, 1, item->state_dtype,
                           window > 0 || item->is_apart ? NULL : "past_state", ndim, dims);
}

quire_status quire_bench_make_linear(const quire_session *session, const bench_linear *item,
                                     quire_dtype dtype, size_t sets, bench_layers *layers,
                                     quire_error *error) {
  const int64_t heads =
      item->query_heads > item->value_heads ? item->query_heads : item->value_heads;
  const int64_t output[3] = {item->batch, item->tokens, heads * item->value_size};
  bench_builder builder;
  quire_bench_begin(&builder, session, "com.microsoft.LinearAttention", sets, layers, error);
  (void)add_rows(&builder, item, "query", dtype, item->query_heads * item->key_size);
  add_keys(&builder, item, dtype);
  (void)add_rows(&builder, item, "value", dtype, item->value_heads * item->value_size);
  add_states(&builder, item);
  add_gates(&builder, item, dtype);
  if (item->has_gates) {
    add_activations(&builder, item);
  }
  (void)quire_bench_tensor(&builder, "output", 1, 0, dtype, NULL, 3, output);
  quire_bench_integer(&builder, "q_num_heads", item->query_heads);
  quire_bench_integer(&builder, "kv_num_heads", item->value_heads);
  quire_bench_integer(&builder, "state_window", item->state_window);
  layers->bytes = quire_bench_linear_bytes(item, dtype);
  layers->flops = 7 * (double)(item->batch * item->tokens) * (double)item->value_heads *
                  (double)(item->key_size * item->value_size);
  layers->traffic = item->is_apart ? BENCH_COPY : BENCH_UPDATE;
  return quire_bench_end(&builder);
}
