#include "soak_model.h"

#include <math.h>
#include <string.h>

#include "numeric.h"

#define TRY(call)                        \
  do {                                   \
    const quire_status status_ = (call); \
    if (status_ != QUIRE_OK) {           \
      return status_;                    \
    }                                    \
  } while (0)

static const float key_scale = 0.03f, value_scale = 0.04f;

/* ---- tensors ---- */

static void form(soak_memory *memory, int layer, quire_dtype dtype, int32_t ndim, int64_t a,
                 int64_t b, int64_t c, int64_t d) {
  const int i = memory->counts[layer]++;
  int64_t *shape = memory->shapes[layer][i];
  shape[0] = a;
  shape[1] = b;
  shape[2] = c;
  shape[3] = d;
  memory->tensors[layer][i] = (quire_tensor){NULL, 0, dtype, ndim, shape, NULL};
}

void soak_memory_form(const soak_model *model, const int64_t blocks[SOAK_GROUPS],
                      const int64_t sizes[SOAK_GROUPS], int64_t slots, soak_memory *memory) {
  memset(memory, 0, sizeof *memory);
  for (int i = 0; i < model->layer_count; ++i) {
    const soak_layer *layer = &model->layers[i];
    if (layer->is_linear) {
      form(memory, i, model->element, 3, slots, SOAK_TAPS - 1, SOAK_CHANNELS, 1);
      form(memory, i, QUIRE_FLOAT32, 4, slots, SOAK_STATE_HEADS, SOAK_SIZE, SOAK_SIZE);
      continue;
    }
    const quire_dtype type = layer->quantisation != SOAK_NONE ? QUIRE_INT8 : model->element;
    const int64_t count = blocks[layer->group], size = sizes[layer->group];
    for (int side = 0; side < 2; ++side) {
      form(memory, i, type, 4, count, size, SOAK_KV_HEADS, SOAK_SIZE);
    }
    for (int side = 0; side < 2 && layer->quantisation == SOAK_PER_TOKEN; ++side) {
      form(memory, i, QUIRE_FLOAT32, 3, count, size, SOAK_KV_HEADS, 1);
    }
  }
}

uint64_t soak_tensor_bytes(const quire_tensor *tensor) {
  uint64_t bytes = quire_dtype_size(tensor->dtype);
  for (int32_t d = 0; d < tensor->ndim; ++d) {
    bytes *= (uint64_t)tensor->shape[d];
  }
  return bytes;
}

/* ---- arguments in memory of the place ---- */

/* The tensors of one call: host memory, and on WebGPU the buffers that stand for it. */
typedef struct call_memory {
  const soak_place *place;
  int64_t shapes[SOAK_STAGES][4];
  void *hosts[SOAK_STAGES]; /* of outputs: where the results go */
  quire_tensor tensors[SOAK_STAGES];
  int count;
  quire_status status;
  quire_error *error;
} call_memory;

static quire_tensor add(call_memory *call, const void *host, bool is_output, quire_dtype dtype,
                        int32_t ndim, int64_t a, int64_t b, int64_t c) {
  const int i = call->count++;
  union {
    const void *read_only;
    void *data;
  } memory = {host}; /* inputs are not written */
  call->shapes[i][0] = a;
  call->shapes[i][1] = b;
  call->shapes[i][2] = c;
  quire_tensor *tensor = &call->tensors[i];
  *tensor = (quire_tensor){memory.data, 0, dtype, ndim, call->shapes[i], NULL};
  call->hosts[i] = is_output ? memory.data : NULL;
  if (call->place->stage != NULL) {
    tensor->data = call->place->stage->buffers[i];
    if (!is_output && call->status == QUIRE_OK) {
      call->status = quire_buffer_write(call->place->device, tensor->data, 0, host,
                                        soak_tensor_bytes(tensor), call->error);
    }
  }
  return *tensor;
}

static quire_tensor input(call_memory *call, const void *host, quire_dtype dtype, int32_t ndim,
                          int64_t a, int64_t b, int64_t c) {
  return add(call, host, false, dtype, ndim, a, b, c);
}

static quire_tensor output(call_memory *call, void *host, quire_dtype dtype, int32_t ndim,
                           int64_t a, int64_t b, int64_t c) {
  return add(call, host, true, dtype, ndim, a, b, c);
}

static quire_status fetch(call_memory *call) {
  for (int i = 0; i < call->count && call->place->stage != NULL; ++i) {
    if (call->hosts[i] != NULL) {
      TRY(quire_buffer_read(call->place->device, call->tensors[i].data, 0, call->hosts[i],
                            soak_tensor_bytes(&call->tensors[i]), call->error));
    }
  }
  return QUIRE_OK;
}

/* ---- what stands for weights ---- */

static void mix(const float *from, int64_t salt, int count, float *to) {
  for (int i = 0; i < count; ++i) {
    const float a = from[(i * 7 + (int)salt) % SOAK_HIDDEN];
    const float b = from[(i * 11 + 3 * (int)salt + 5) % SOAK_HIDDEN];
    to[i] = ((i + (int)salt) & 1) != 0 ? a - 0.5f * b : 0.5f * a + b;
  }
}

static void normalise(float *row) {
  float sum = 0;
  for (int i = 0; i < SOAK_HIDDEN; ++i) {
    sum += row[i] * row[i];
  }
  const float factor = 1.0f / sqrtf(sum / SOAK_HIDDEN + 1e-6f);
  for (int i = 0; i < SOAK_HIDDEN; ++i) {
    row[i] *= factor;
  }
}

static void embed(int32_t token, int32_t owner, int32_t position, float *row) {
  uint64_t state = (uint64_t)(uint32_t)token * 1000003u + (uint64_t)(uint32_t)position * 7919u +
                   (uint64_t)(uint32_t)owner * 15485863u;
  for (int i = 0; i < SOAK_HIDDEN; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    row[i] = (float)(int32_t)(state >> 33) * 0x1p-30f - 1.0f;
  }
  normalise(row);
}

/* Mixed rows in the model's element type. */
static void project(const soak_model *model, soak_rows *rows, int64_t count, int64_t salt,
                    int width, void *to) {
  for (int64_t r = 0; r < count; ++r) {
    mix(rows->hidden[r], salt, width, rows->mixed[0]);
    quire_narrow_row(model->element, rows->mixed[0], (size_t)width,
                     (unsigned char *)to + (size_t)(r * width) * quire_dtype_size(model->element));
  }
}

/* Adds a layer's result to the rows. */
static void add_result(const soak_model *model, soak_rows *rows, int64_t count, int width) {
  for (int64_t r = 0; r < count; ++r) {
    const unsigned char *from =
        rows->output + (size_t)(r * width) * quire_dtype_size(model->element);
    quire_widen_row(model->element, from, (size_t)width, rows->mixed[0]);
    for (int i = 0; i < SOAK_HIDDEN; ++i) {
      rows->hidden[r][i] += rows->mixed[0][i % width];
    }
    normalise(rows->hidden[r]);
  }
}

/* ---- layers ---- */

static void set_scales(const soak_layer *layer, const soak_memory *memory, int index,
                       call_memory *call, quire_paged_attention_args *args) {
  static const char *const types[] = {"NONE", "PER_TENSOR", "PER_CHANNEL", "PER_TOKEN"};
  args->k_quant_type = args->v_quant_type = types[layer->quantisation];
  if (layer->quantisation == SOAK_PER_TOKEN) {
    args->k_scale_cache = memory->tensors[index][2];
    args->v_scale_cache = memory->tensors[index][3];
  } else if (layer->quantisation == SOAK_PER_TENSOR) {
    args->k_scale = input(call, &key_scale, QUIRE_FLOAT32, 1, 1, 1, 1);
    args->v_scale = input(call, &value_scale, QUIRE_FLOAT32, 1, 1, 1, 1);
  } else if (layer->quantisation == SOAK_PER_CHANNEL) {
    static const float wide[2][SOAK_KV] = {
        {0.03f, 0.03f, 0.03f, 0.03f, 0.03f, 0.03f, 0.03f, 0.03f, 0.04f, 0.04f, 0.04f,
         0.04f, 0.04f, 0.04f, 0.04f, 0.04f, 0.03f, 0.03f, 0.03f, 0.03f, 0.03f, 0.03f,
         0.03f, 0.03f, 0.05f, 0.05f, 0.05f, 0.05f, 0.05f, 0.05f, 0.05f, 0.05f},
        {0.05f, 0.05f, 0.05f, 0.05f, 0.05f, 0.05f, 0.05f, 0.05f, 0.04f, 0.04f, 0.04f,
         0.04f, 0.04f, 0.04f, 0.04f, 0.04f, 0.03f, 0.03f, 0.03f, 0.03f, 0.03f, 0.03f,
         0.03f, 0.03f, 0.04f, 0.04f, 0.04f, 0.04f, 0.04f, 0.04f, 0.04f, 0.04f}};
    args->k_scale = input(call, wide[0], QUIRE_FLOAT32, 3, SOAK_KV_HEADS, 1, SOAK_SIZE);
    args->v_scale = input(call, wide[1], QUIRE_FLOAT32, 3, SOAK_KV_HEADS, 1, SOAK_SIZE);
  }
}

static quire_status paged(const soak_model *model, const soak_place *place,
                          const soak_memory *memory, const soak_arrays *arrays, int index,
                          soak_rows *rows, quire_error *error) {
  const soak_layer *layer = &model->layers[index];
  const int group = layer->group;
  const int64_t count = arrays->rows, sequences = arrays->sequences;
  const quire_dtype type = model->element;
  call_memory call = {.place = place, .status = QUIRE_OK, .error = error};
  quire_paged_attention_args args;
  quire_paged_attention_args_init(&args);
  project(model, rows, count, 5 * index + 1, SOAK_HIDDEN, rows->query);
  project(model, rows, count, 5 * index + 2, SOAK_KV, rows->key);
  project(model, rows, count, 5 * index + 3, SOAK_KV, rows->value);
  args.query = input(&call, rows->query, type, 2, count, SOAK_HIDDEN, 1);
  args.key = input(&call, rows->key, type, 2, count, SOAK_KV, 1);
  args.value = input(&call, rows->value, type, 2, count, SOAK_KV, 1);
  args.key_cache = memory->tensors[index][0];
  args.value_cache = memory->tensors[index][1];
  args.cumulative_sequence_length =
      input(&call, arrays->cumulative, QUIRE_INT32, 1, sequences + 1, 1, 1);
  args.past_seqlens = input(&call, arrays->past, QUIRE_INT32, 1, sequences, 1, 1);
  args.block_table =
      input(&call, arrays->tables[group], QUIRE_INT32, 2, sequences, arrays->columns[group], 1);
  args.slot_mapping = input(&call, arrays->slots[group], QUIRE_INT32, 1, count, 1, 1);
  args.output = output(&call, rows->output, type, 2, count, SOAK_HIDDEN, 1);
  args.num_heads = SOAK_HEADS;
  args.kv_num_heads = SOAK_KV_HEADS;
  args.local_window_size = model->windows[group] > 0 ? model->windows[group] : -1;
  args.executor = place->executor;
  set_scales(layer, memory, index, &call, &args);
  TRY(call.status);
  TRY(quire_paged_attention(place->device, &args, error));
  TRY(fetch(&call));
  add_result(model, rows, count, SOAK_HIDDEN);
  return QUIRE_OK;
}

/* Taps and channels of the convolution's weights: fixed, and not alike. */
static void make_weights(const soak_model *model, void *to) {
  float taps[SOAK_CHANNELS * SOAK_TAPS];
  for (int i = 0; i < SOAK_CHANNELS * SOAK_TAPS; ++i) {
    taps[i] = (float)(i * 37 % 23 - 11) / 20;
  }
  quire_narrow_row(model->element, taps, sizeof taps / sizeof *taps, to);
}

static quire_status convolve(const soak_model *model, const soak_place *place,
                             const soak_memory *memory, int index, const void *from, int64_t count,
                             const int32_t *offsets, const int32_t *reads, const int32_t *writes,
                             int64_t sequences, int64_t window, void *to, quire_error *error) {
  unsigned char weights[SOAK_CHANNELS * SOAK_TAPS * 4];
  call_memory call = {.place = place, .status = QUIRE_OK, .error = error};
  quire_causal_conv_with_state_args args;
  quire_causal_conv_with_state_args_init(&args);
  make_weights(model, weights);
  args.input = input(&call, from, model->element, 3, 1, count, SOAK_CHANNELS);
  args.weight = input(&call, weights, model->element, 3, SOAK_CHANNELS, 1, SOAK_TAPS);
  args.cu_seqlens = input(&call, offsets, QUIRE_INT32, 1, sequences + 1, 1, 1);
  args.state_pool = memory->tensors[index][0];
  args.read_indices = input(&call, reads, QUIRE_INT32, 1, sequences, 1, 1);
  args.write_indices = input(&call, writes, QUIRE_INT32, window > 0 ? 2 : 1, sequences, window, 1);
  args.output = output(&call, to, model->element, 3, 1, count, SOAK_CHANNELS);
  args.activation = "silu";
  args.channels_last = 1;
  args.state_window = window;
  args.executor = place->executor;
  TRY(call.status);
  TRY(quire_causal_conv_with_state(place->device, &args, error));
  return fetch(&call);
}

/* The convolution's channels are query, key and value; gates come from the rows themselves. */
static void split(const soak_model *model, soak_rows *rows, int64_t count) {
  const size_t size = quire_dtype_size(model->element), part = SOAK_LINEAR * size;
  for (int64_t r = 0; r < count; ++r) {
    const unsigned char *from = rows->output + (size_t)r * 3 * part;
    memcpy(rows->query + (size_t)r * part, from, part);
    memcpy(rows->key + (size_t)r * part, from + part, part);
    memcpy(rows->value + (size_t)r * part, from + 2 * part, part);
    float gates[2][SOAK_STATE_HEADS];
    for (int h = 0; h < SOAK_STATE_HEADS; ++h) {
      gates[0][h] = -0.1f * fabsf(rows->hidden[r][h]);
      gates[1][h] = 0.5f + 0.1f * rows->hidden[r][h + 7];
    }
    for (int i = 0; i < 2; ++i) {
      quire_narrow_row(model->element, gates[i], SOAK_STATE_HEADS,
                       rows->gates[i] + (size_t)r * SOAK_STATE_HEADS * size);
    }
  }
}

static quire_status linear(const soak_model *model, const soak_place *place,
                           const soak_memory *memory, const soak_arrays *arrays, int index,
                           bool with_log, soak_rows *rows, quire_error *error) {
  const int64_t count = arrays->rows, sequences = arrays->sequences, window = model->state_window;
  const quire_dtype type = model->element;
  project(model, rows, count, 5 * index + 4, SOAK_CHANNELS, rows->inputs[index]);
  TRY(convolve(model, place, memory, index, rows->inputs[index], count, arrays->cumulative,
               arrays->reads, arrays->writes, sequences, window, rows->output, error));
  split(model, rows, count);
  call_memory call = {.place = place, .status = QUIRE_OK, .error = error};
  quire_linear_attention_args args;
  quire_linear_attention_args_init(&args);
  args.query = input(&call, rows->query, type, 3, 1, count, SOAK_LINEAR);
  args.key = input(&call, rows->key, type, 3, 1, count, SOAK_LINEAR);
  args.value = input(&call, rows->value, type, 3, 1, count, SOAK_LINEAR);
  args.decay = input(&call, rows->gates[0], type, 3, 1, count, SOAK_STATE_HEADS);
  args.beta = input(&call, rows->gates[1], type, 3, 1, count, SOAK_STATE_HEADS);
  args.cu_seqlens = input(&call, arrays->cumulative, QUIRE_INT32, 1, sequences + 1, 1, 1);
  args.state_pool = memory->tensors[index][1];
  args.read_indices = input(&call, arrays->reads, QUIRE_INT32, 1, sequences, 1, 1);
  args.write_indices =
      input(&call, arrays->writes, QUIRE_INT32, window > 0 ? 2 : 1, sequences, window, 1);
  args.output = output(&call, rows->output, type, 3, 1, count, SOAK_LINEAR);
  if (with_log) {
    args.log_key = output(&call, rows->log_key[index], QUIRE_FLOAT32, 3, 1, count, SOAK_LINEAR);
    args.log_value = output(&call, rows->log_value[index], QUIRE_FLOAT32, 3, 1, count, SOAK_LINEAR);
    args.log_decay =
        output(&call, rows->log_decay[index], QUIRE_FLOAT32, 3, 1, count, SOAK_STATE_HEADS);
  }
  args.q_num_heads = args.kv_num_heads = SOAK_STATE_HEADS;
  args.qk_l2_norm = 1;
  args.state_window = window;
  args.executor = place->executor;
  TRY(call.status);
  TRY(quire_linear_attention(place->device, &args, error));
  TRY(fetch(&call));
  add_result(model, rows, count, SOAK_LINEAR);
  return QUIRE_OK;
}

quire_status soak_forward(const soak_model *model, const soak_place *place,
                          const soak_memory *memory, const soak_arrays *arrays, bool with_log,
                          soak_rows *rows, quire_error *error) {
  for (int64_t n = 0; n < arrays->sequences; ++n) {
    for (int64_t r = arrays->cumulative[n]; r < arrays->cumulative[n + 1]; ++r) {
      embed(arrays->tokens[r], arrays->owners[n], arrays->positions[r], rows->hidden[r]);
    }
  }
  for (int i = 0; i < model->layer_count; ++i) {
    TRY(model->layers[i].is_linear ? linear(model, place, memory, arrays, i, with_log, rows, error)
                                   : paged(model, place, memory, arrays, i, rows, error));
  }
  return QUIRE_OK;
}

/* ---- replay ---- */

static quire_status replay_states(const soak_place *place, const soak_memory *memory,
                                  const soak_arrays *arrays, const int32_t *accepted, int index,
                                  const soak_rows *rows, quire_error *error) {
  const int64_t count = arrays->rows, sequences = arrays->sequences;
  call_memory call = {.place = place, .status = QUIRE_OK, .error = error};
  quire_linear_attention_replay_args args;
  quire_linear_attention_replay_args_init(&args);
  args.log_key = input(&call, rows->log_key[index], QUIRE_FLOAT32, 3, 1, count, SOAK_LINEAR);
  args.log_value = input(&call, rows->log_value[index], QUIRE_FLOAT32, 3, 1, count, SOAK_LINEAR);
  args.log_decay =
      input(&call, rows->log_decay[index], QUIRE_FLOAT32, 3, 1, count, SOAK_STATE_HEADS);
  args.accepted = input(&call, accepted, QUIRE_INT32, 1, sequences, 1, 1);
  args.cu_seqlens = input(&call, arrays->cumulative, QUIRE_INT32, 1, sequences + 1, 1, 1);
  args.state_pool = memory->tensors[index][1];
  args.read_indices = input(&call, arrays->reads, QUIRE_INT32, 1, sequences, 1, 1);
  args.write_indices = input(&call, arrays->replays, QUIRE_INT32, 1, sequences, 1, 1);
  args.kv_num_heads = SOAK_STATE_HEADS;
  args.executor = place->executor;
  TRY(call.status);
  TRY(quire_linear_attention_replay(place->device, &args, error));
  return fetch(&call);
}

quire_status soak_replay(const soak_model *model, const soak_place *place,
                         const soak_memory *memory, const soak_arrays *arrays,
                         const int32_t *accepted, soak_rows *rows, quire_error *error) {
  const size_t width = SOAK_CHANNELS * quire_dtype_size(model->element);
  int32_t offsets[SOAK_BATCH + 1] = {0};
  for (int i = 0; i < model->layer_count; ++i) {
    if (!model->layers[i].is_linear) {
      continue;
    }
    TRY(replay_states(place, memory, arrays, accepted, i, rows, error));
    /* A convolution's state is its last inputs: it runs again, over what was accepted. */
    for (int64_t n = 0; n < arrays->sequences; ++n) {
      const int32_t count = arrays->replays[n] >= 0 ? accepted[n] : 0;
      memmove(rows->inputs[i] + (size_t)offsets[n] * width,
              rows->inputs[i] + (size_t)arrays->cumulative[n] * width, (size_t)count * width);
      offsets[n + 1] = offsets[n] + count;
    }
    TRY(convolve(model, place, memory, i, rows->inputs[i], offsets[arrays->sequences], offsets,
                 arrays->reads, arrays->replays, arrays->sequences, 0, rows->output, error));
  }
  return QUIRE_OK;
}
