#include "lm_layers.h"

#include <string.h>

#include "lm_dense.h"

/* A tensor with up to four dimensions, its shape kept in `shape`. */
typedef struct lm_view {
  int64_t shape[4];
} lm_view;

static quire_tensor tensor(lm_view *view, void *data, quire_dtype dtype, int rank, int64_t a,
                           int64_t b, int64_t c, int64_t d) {
  *view = (lm_view){{a, b, c, d}};
  return (quire_tensor){data, 0, dtype, rank, view->shape, NULL};
}

static quire_status upload(lm_model *m, enum lm_place to, const void *from, size_t count,
                           quire_error *error) {
  return quire_buffer_write(m->device, m->places[to], 0, from, 4 * count, error);
}

/* Copies columns [first, first + count) of rows of `stride` to dense rows. */
static void columns(const float *from, float *to, size_t rows, size_t stride, size_t first,
                    size_t count) {
  for (size_t r = 0; r < rows; r++) {
    memcpy(to + r * count, from + r * stride + first, count * sizeof *to);
  }
}

static quire_status attention(lm_model *m, const lm_layer *layer, const lm_step *step,
                              quire_error *error) {
  const lm_config *c = &m->c;
  const size_t rows = (size_t)step->rows, width = (size_t)c->width, size = (size_t)c->head_size;
  const size_t queries = (size_t)c->query_heads * size, keys = (size_t)c->key_value_heads * size;
  float *q = m->wide[0], *k = m->wide[1], *v = m->wide[2], *gate = m->wide[3];
  lm_linear(m->normed, layer->query, q, rows, width, queries, 0);
  lm_linear(m->normed, layer->key, k, rows, width, keys, 0);
  lm_linear(m->normed, layer->value, v, rows, width, keys, 0);
  lm_linear(m->normed, layer->gate, gate, rows, width, queries, 0);
  lm_rms_norm(q, layer->query_norm, q, rows * (size_t)c->query_heads, size, c->epsilon);
  lm_rms_norm(k, layer->key_norm, k, rows * (size_t)c->key_value_heads, size, c->epsilon);
  for (size_t r = 0; r < rows; r++) {
    lm_rotate(q + r * queries, step->positions[r], (size_t)c->query_heads, size,
              (size_t)c->rotary_size, c->rotary_base);
    lm_rotate(k + r * keys, step->positions[r], (size_t)c->key_value_heads, size,
              (size_t)c->rotary_size, c->rotary_base);
  }
  quire_status status = upload(m, LM_QUERY, q, rows * queries, error);
  if (status == QUIRE_OK) {
    status = upload(m, LM_KEY, k, rows * keys, error);
  }
  if (status == QUIRE_OK) {
    status = upload(m, LM_VALUE, v, rows * keys, error);
  }
  if (status != QUIRE_OK) {
    return status;
  }
  lm_view views[10];
  const int64_t t = step->rows, b = step->sequences;
  quire_paged_attention_args args;
  quire_paged_attention_args_init(&args);
  args.query = tensor(&views[0], m->places[LM_QUERY], QUIRE_FLOAT32, 2, t, (int64_t)queries, 0, 0);
  args.key = tensor(&views[1], m->places[LM_KEY], QUIRE_FLOAT32, 2, t, (int64_t)keys, 0, 0);
  args.value = tensor(&views[2], m->places[LM_VALUE], QUIRE_FLOAT32, 2, t, (int64_t)keys, 0, 0);
  args.key_cache = tensor(&views[3], layer->key_cache, QUIRE_FLOAT32, 4, m->limits.blocks,
                          LM_BLOCK_SIZE, c->key_value_heads, c->head_size);
  args.value_cache = tensor(&views[4], layer->value_cache, QUIRE_FLOAT32, 4, m->limits.blocks,
                            LM_BLOCK_SIZE, c->key_value_heads, c->head_size);
  args.cumulative_sequence_length =
      tensor(&views[5], m->places[LM_CUMULATIVE], QUIRE_INT32, 1, b + 1, 0, 0, 0);
  args.past_seqlens = tensor(&views[6], m->places[LM_PAST], QUIRE_INT32, 1, b, 0, 0, 0);
  args.block_table =
      tensor(&views[7], m->places[LM_TABLE], QUIRE_INT32, 2, b, m->limits.columns, 0, 0);
  args.slot_mapping = tensor(&views[8], m->places[LM_SLOTS], QUIRE_INT32, 1, t, 0, 0, 0);
  args.output =
      tensor(&views[9], m->places[LM_OUTPUT], QUIRE_FLOAT32, 2, t, (int64_t)queries, 0, 0);
  args.num_heads = c->query_heads;
  args.kv_num_heads = c->key_value_heads;
  status = quire_paged_attention(m->device, &args, error);
  if (status == QUIRE_OK) {
    status = quire_buffer_read(m->device, m->places[LM_OUTPUT], 0, q, 4 * rows * queries, error);
  }
  for (size_t i = 0; i < rows * queries; i++) {
    q[i] *= lm_sigmoid(gate[i]);
  }
  lm_linear(q, layer->output, m->x, rows, queries, width, 1);
  return status;
}

/* The short convolution over the mixed channels of wide[0], in place. */
static quire_status convolve(lm_model *m, const lm_layer *layer, const lm_step *step,
                             quire_error *error) {
  const size_t count = (size_t)step->rows * m->mixed;
  const int64_t t = step->rows, b = step->sequences, channels = (int64_t)m->mixed;
  const int64_t taps = m->c.taps;
  quire_status status = upload(m, LM_MIXED, m->wide[0], count, error);
  lm_view views[7];
  quire_causal_conv_with_state_args args;
  quire_causal_conv_with_state_args_init(&args);
  args.input = tensor(&views[0], m->places[LM_MIXED], QUIRE_FLOAT32, 3, 1, t, channels, 0);
  args.weight = tensor(&views[1], layer->convolution, QUIRE_FLOAT32, 3, channels, 1, taps, 0);
  args.cu_seqlens = tensor(&views[2], m->places[LM_CUMULATIVE], QUIRE_INT32, 1, b + 1, 0, 0, 0);
  args.state_pool = tensor(&views[3], layer->conv_states, QUIRE_FLOAT32, 3, m->limits.sequences,
                           taps - 1, channels, 0);
  args.read_indices = tensor(&views[4], m->places[LM_STATE_READ], QUIRE_INT32, 1, b, 0, 0, 0);
  args.write_indices = tensor(&views[5], m->places[LM_STATE_WRITE], QUIRE_INT32, 1, b, 0, 0, 0);
  args.output = tensor(&views[6], m->places[LM_CONVOLVED], QUIRE_FLOAT32, 3, 1, t, channels, 0);
  args.activation = "silu";
  args.channels_last = 1;
  if (status == QUIRE_OK) {
    status = quire_causal_conv_with_state(m->device, &args, error);
  }
  return status == QUIRE_OK ? quire_buffer_read(m->device, m->places[LM_CONVOLVED], 0, m->wide[0],
                                                4 * count, error)
                            : status;
}

/* Query, key, value, decay and beta to the device; they are columns of wide[0] and products. */
static quire_status upload_delta(lm_model *m, const lm_layer *layer, size_t rows,
                                 quire_error *error) {
  const size_t width = (size_t)m->c.width, heads = (size_t)m->c.state_heads;
  const struct {
    enum lm_place to;
    size_t first, count;
  } parts[] = {
      {LM_QUERY, 0, m->keys}, {LM_KEY, m->keys, m->keys}, {LM_VALUE, 2 * m->keys, m->values}};
  quire_status status = QUIRE_OK;
  for (size_t i = 0; i < 3 && status == QUIRE_OK; i++) {
    columns(m->wide[0], m->wide[1], rows, m->mixed, parts[i].first, parts[i].count);
    status = upload(m, parts[i].to, m->wide[1], rows * parts[i].count, error);
  }
  if (status == QUIRE_OK) {
    lm_linear(m->normed, layer->decay, m->wide[1], rows, width, heads, 0);
    status = upload(m, LM_DECAY, m->wide[1], rows * heads, error);
  }
  if (status == QUIRE_OK) {
    lm_linear(m->normed, layer->beta, m->wide[1], rows, width, heads, 0);
    status = upload(m, LM_BETA, m->wide[1], rows * heads, error);
  }
  return status;
}

static quire_status delta(lm_model *m, const lm_layer *layer, const lm_step *step,
                          quire_error *error) {
  const lm_config *c = &m->c;
  const size_t rows = (size_t)step->rows, width = (size_t)c->width;
  float *y = m->wide[0], *gate = m->wide[3];
  lm_linear(m->normed, layer->mixed, y, rows, width, m->mixed, 0);
  lm_linear(m->normed, layer->gate, gate, rows, width, m->values, 0);
  quire_status status = convolve(m, layer, step, error);
  if (status == QUIRE_OK) {
    status = upload_delta(m, layer, rows, error);
  }
  lm_view views[12];
  const int64_t t = step->rows, b = step->sequences, heads = c->state_heads, size = c->state_size;
  const int64_t keys = (int64_t)m->keys, values = (int64_t)m->values;
  void *const *at = m->places;
  quire_linear_attention_args args;
  quire_linear_attention_args_init(&args);
  args.query = tensor(&views[0], at[LM_QUERY], QUIRE_FLOAT32, 3, 1, t, keys, 0);
  args.key = tensor(&views[1], at[LM_KEY], QUIRE_FLOAT32, 3, 1, t, keys, 0);
  args.value = tensor(&views[2], at[LM_VALUE], QUIRE_FLOAT32, 3, 1, t, values, 0);
  args.decay = tensor(&views[3], at[LM_DECAY], QUIRE_FLOAT32, 3, 1, t, heads, 0);
  args.beta = tensor(&views[4], at[LM_BETA], QUIRE_FLOAT32, 3, 1, t, heads, 0);
  args.cu_seqlens = tensor(&views[5], at[LM_CUMULATIVE], QUIRE_INT32, 1, b + 1, 0, 0, 0);
  args.state_pool =
      tensor(&views[6], layer->states, QUIRE_FLOAT32, 4, m->limits.sequences, heads, size, size);
  args.read_indices = tensor(&views[7], at[LM_STATE_READ], QUIRE_INT32, 1, b, 0, 0, 0);
  args.write_indices = tensor(&views[8], at[LM_STATE_WRITE], QUIRE_INT32, 1, b, 0, 0, 0);
  args.a_log = tensor(&views[9], layer->a_log, QUIRE_FLOAT32, 1, heads, 0, 0, 0);
  args.dt_bias = tensor(&views[10], layer->dt_bias, QUIRE_FLOAT32, 1, heads, 0, 0, 0);
  args.output = tensor(&views[11], at[LM_OUTPUT], QUIRE_FLOAT32, 3, 1, t, values, 0);
  args.q_num_heads = c->key_heads;
  args.kv_num_heads = heads;
  args.gate_activation = "qwen";
  args.beta_activation = "sigmoid";
  args.qk_l2_norm = 1;
  if (status == QUIRE_OK) {
    status = quire_linear_attention(m->device, &args, error);
  }
  if (status == QUIRE_OK) {
    status = quire_buffer_read(m->device, at[LM_OUTPUT], 0, y, 4 * rows * m->values, error);
  }
  lm_rms_norm(y, layer->norm, y, rows * (size_t)heads, (size_t)size, c->epsilon);
  for (size_t i = 0; i < rows * m->values; i++) {
    y[i] *= lm_silu(gate[i]);
  }
  lm_linear(y, layer->output, m->x, rows, m->values, width, 1);
  return status;
}

static void feed_forward(lm_model *m, const lm_layer *layer, size_t rows) {
  const size_t width = (size_t)m->c.width, hidden = (size_t)m->c.feed_forward;
  lm_rms_norm(m->x, layer->feed_forward_norm, m->normed, rows, width, m->c.epsilon);
  lm_linear(m->normed, layer->gate_up[0], m->wide[0], rows, width, hidden, 0);
  lm_linear(m->normed, layer->gate_up[1], m->wide[1], rows, width, hidden, 0);
  for (size_t i = 0; i < rows * hidden; i++) {
    m->wide[0][i] = lm_silu(m->wide[0][i]) * m->wide[1][i];
  }
  lm_linear(m->wide[0], layer->down, m->x, rows, hidden, width, 1);
}

static quire_status upload_step(lm_model *m, const lm_step *step, quire_error *error) {
  const size_t rows = (size_t)step->rows, sequences = (size_t)step->sequences;
  const struct {
    enum lm_place to;
    const int32_t *from;
    size_t count;
  } arrays[] = {{LM_CUMULATIVE, step->cumulative, sequences + 1},
                {LM_PAST, step->past, sequences},
                {LM_TABLE, step->table, sequences * (size_t)m->limits.columns},
                {LM_SLOTS, step->slots, rows},
                {LM_STATE_READ, step->state_read, sequences},
                {LM_STATE_WRITE, step->state_write, sequences}};
  quire_status status = QUIRE_OK;
  for (size_t i = 0; i < sizeof arrays / sizeof *arrays && status == QUIRE_OK; i++) {
    status = upload(m, arrays[i].to, arrays[i].from, arrays[i].count, error);
  }
  return status;
}

quire_status lm_model_run(lm_model *m, const lm_step *step, float *logits, quire_error *error) {
  const size_t rows = (size_t)step->rows, width = (size_t)m->c.width;
  quire_status status = upload_step(m, step, error);
  for (size_t r = 0; r < rows; r++) {
    memcpy(m->x + r * width, m->embedding + (size_t)step->tokens[r] * width, width * sizeof *m->x);
  }
  for (int i = 0; i < m->c.layers && status == QUIRE_OK; i++) {
    const lm_layer *layer = &m->layers[i];
    lm_rms_norm(m->x, layer->mixer_norm, m->normed, rows, width, m->c.epsilon);
    status = layer->is_attention ? attention(m, layer, step, error) : delta(m, layer, step, error);
    feed_forward(m, layer, rows);
  }
  lm_rms_norm(m->x, m->norm, m->normed, rows, width, m->c.epsilon);
  lm_linear(m->normed, m->embedding, logits, rows, width, LM_VOCABULARY, 0);
  return status;
}
