/*
 * The recurrence: one item runs all tokens of one sequence for one state head and a block of value
 * columns. Columns are independent of each other, so the width of a block never changes a bit, and
 * one head can occupy many threads. Formulas: docs/linear_attention.md, 4.1 to 4.3.
 */
#include <math.h>
#include <string.h>

#include "linear_attention_call.h"
#include "linear_attention_tile.h"
#include "numeric.h"

typedef struct recurrence_item {
  const quire_view *views; /* LA_COUNT of them */
  const quire_linear_attention_uniforms *uniforms;
  const int64_t *span;
  size_t sequence;
  size_t head; /* state head */
  size_t key_head;
  size_t dv;
  float scale;
  float *key;     /* [dk] */
  float *query;   /* [dk] */
  float *factors; /* [dk] exp of the decay */
  quire_linear_attention_tile tile;
} recurrence_item;

static bool present(const quire_view *view) {
  return view->dtype != QUIRE_DTYPE_NONE;
}

static const void *element_at(const quire_view *view, int64_t element) {
  return (const unsigned char *)view->data + element * (int64_t)quire_dtype_size(view->dtype);
}

/* Channel `channel` of row [b, t] of a packed tensor; t counts from the start of the sequence. */
static const void *token_row(const recurrence_item *it, const quire_view *view, int64_t token,
                             size_t channel) {
  int64_t element = it->span[LA_SPAN_ROW] * view->stride[0] +
                    (it->span[LA_SPAN_FIRST] + token) * view->stride[1] + (int64_t)channel;
  return element_at(view, element);
}

/* ---- the state in memory ---- */

/* The matrix of `slot` and this item's head: [slot, Hkv, ., .], or [window, slot, Hkv, ., .]. */
static quire_linear_attention_state state_at(const recurrence_item *it, const quire_view *view,
                                             int64_t window, int64_t slot) {
  const int64_t *stride = view->stride + (view->ndim == 5 ? 1 : 0);
  int64_t element = slot * stride[0] + (int64_t)it->head * stride[1];
  if (view->ndim == 5) {
    element += window * view->stride[0];
  }
  quire_linear_attention_state state = {
      .data = (unsigned char *)view->data + element * (int64_t)quire_dtype_size(view->dtype),
      .dtype = view->dtype,
      .row_stride = stride[2],
  };
  return state;
}

static void load_past(const recurrence_item *it) {
  const quire_view *past = &it->views[LA_PAST_STATE];
  const quire_view *pool = &it->views[LA_STATE_POOL];
  int64_t read_slot = it->span[LA_SPAN_READ_SLOT];
  if (present(pool) && read_slot >= 0) {
    quire_linear_attention_state state = state_at(it, pool, 0, read_slot);
    quire_linear_attention_tile_load(&it->tile, &state);
  } else if (present(past)) {
    int64_t last = (int64_t)it->uniforms->state_window - 1;
    quire_linear_attention_state state = state_at(it, past, last, (int64_t)it->sequence);
    quire_linear_attention_tile_load(&it->tile, &state);
  } else {
    quire_linear_attention_tile_clear(&it->tile);
  }
}

/* Stores the tile as window slot `window` (0 without a window). */
static void store_slot(const recurrence_item *it, int64_t window) {
  const quire_view *pool = &it->views[LA_STATE_POOL];
  if (!present(pool)) {
    quire_linear_attention_state state =
        state_at(it, &it->views[LA_PRESENT_STATE], window, (int64_t)it->sequence);
    quire_linear_attention_tile_store(&it->tile, &state);
    return;
  }
  int64_t width = it->uniforms->state_window > 0 ? (int64_t)it->uniforms->state_window : 1;
  const int32_t *slots = (const int32_t *)it->views[LA_WRITE_SLOTS].data;
  int32_t slot = slots[(int64_t)it->sequence * width + window];
  if (slot >= 0) {
    quire_linear_attention_state state = state_at(it, pool, 0, slot);
    quire_linear_attention_tile_store(&it->tile, &state);
  }
}

/* 4.3: the leading slots of a window that no token reaches are zeros; a pool's are left alone. */
static void zero_unreached_slots(const recurrence_item *it, int64_t states) {
  if (present(&it->views[LA_STATE_POOL])) {
    return;
  }
  for (int64_t window = 0; window < (int64_t)it->uniforms->state_window - states; window++) {
    quire_linear_attention_state state =
        state_at(it, &it->views[LA_PRESENT_STATE], window, (int64_t)it->sequence);
    quire_linear_attention_tile_zero_fill(&it->tile, &state);
  }
}

/* ---- the inputs of one token ---- */

/* X5: x * (1 / sqrt(sum x^2 + eps)). */
static void load_key_row(const recurrence_item *it, const quire_view *view, int64_t token,
                         size_t head, float *row) {
  size_t dk = it->tile.dk;
  quire_widen_row(view->dtype, token_row(it, view, token, head * dk), dk, row);
  if (it->uniforms->qk_l2_norm) {
    float factor = 1.0f / sqrtf(quire_dot(row, row, dk) + it->uniforms->qk_l2_norm_epsilon);
    for (size_t i = 0; i < dk; i++) {
      row[i] *= factor;
    }
  }
}

/* The element of a per-head [Hkv] or per-key-channel [Hkv*dk] row that serves (head, channel). */
static size_t gate_channel(const recurrence_item *it, int64_t width, size_t channel) {
  return width == (int64_t)it->uniforms->kv_num_heads ? it->head : it->head * it->tile.dk + channel;
}

/* X5 "qwen": g = -exp(a_log) * softplus(decay + dt_bias). */
static float activate_gate(const recurrence_item *it, float decay, size_t channel) {
  const quire_view *bias = &it->views[LA_DT_BIAS];
  size_t bias_channel = gate_channel(it, bias->shape[0], channel);
  float rate =
      quire_exp(quire_load_f32(QUIRE_FLOAT32, it->views[LA_A_LOG].data, (int64_t)it->head));
  float step = decay + quire_load_f32(QUIRE_FLOAT32, bias->data, (int64_t)bias_channel);
  return -rate * quire_softplus(step);
}

static void load_factors(const recurrence_item *it, int64_t token) {
  const quire_view *decay = &it->views[LA_DECAY];
  bool gate = it->uniforms->gate_activation == LA_GATE_QWEN;
  const void *row = token_row(it, decay, token, 0);
  bool per_channel =
      decay->shape[2] != (int64_t)it->uniforms->kv_num_heads ||
      (gate && it->views[LA_DT_BIAS].shape[0] != (int64_t)it->uniforms->kv_num_heads);
  for (size_t i = 0; i < it->tile.dk; i++) {
    if (i > 0 && !per_channel) {
      it->factors[i] = it->factors[0];
      continue;
    }
    size_t channel = gate_channel(it, decay->shape[2], i);
    float g = quire_load_f32(decay->dtype, row, (int64_t)channel);
    it->factors[i] = quire_exp(gate ? activate_gate(it, g, i) : g);
  }
}

static float load_beta(const recurrence_item *it, int64_t token) {
  const quire_view *beta = &it->views[LA_BETA];
  size_t channel = beta->shape[2] == 1 ? 0 : it->head;
  float value = quire_load_f32(beta->dtype, token_row(it, beta, token, channel), 0);
  switch (it->uniforms->beta_activation) {
    case LA_BETA_SIGMOID:
      return quire_sigmoid(value);
    case LA_BETA_TWICE_SIGMOID:
      return 2.0f * quire_sigmoid(value);
    default:
      return value;
  }
}

/* ---- the steps ---- */

/* Steps 1 to 4: the state takes in one token. */
static void update_state(const recurrence_item *it, int64_t token) {
  const quire_view *value = &it->views[LA_VALUE];
  size_t columns = it->tile.columns;
  float update[LA_MAX_COLUMNS];
  float retrieved[LA_MAX_COLUMNS];
  load_key_row(it, &it->views[LA_KEY], token, it->key_head, it->key);
  quire_widen_row(value->dtype, token_row(it, value, token, it->head * it->dv + it->tile.first),
                  columns, update);
  if (it->uniforms->uses_decay) {
    load_factors(it, token);
    quire_linear_attention_tile_decay(&it->tile, it->factors);
  }
  if (it->uniforms->uses_delta) {
    float beta = load_beta(it, token);
    quire_linear_attention_tile_reduce(&it->tile, it->key, retrieved);
    for (size_t j = 0; j < columns; j++) {
      float difference = update[j] - retrieved[j];
      update[j] = beta * difference;
    }
  }
  quire_linear_attention_tile_write(&it->tile, it->key, update);
}

/* 4.2 and X7: the query head of output head o. */
static size_t query_head_of(const quire_linear_attention_uniforms *uniforms, size_t o) {
  size_t q_heads = uniforms->q_num_heads;
  size_t kv_heads = uniforms->kv_num_heads;
  if (uniforms->tiled_heads) {
    return o % q_heads;
  }
  return q_heads >= kv_heads ? o : o / (kv_heads / q_heads);
}

/* Step 5, for one output head. */
static void read_out(const recurrence_item *it, int64_t token, size_t o) {
  const quire_view *output = &it->views[LA_OUTPUT];
  float result[LA_MAX_COLUMNS];
  load_key_row(it, &it->views[LA_QUERY], token, query_head_of(it->uniforms, o), it->query);
  quire_linear_attention_tile_reduce(&it->tile, it->query, result);
  for (size_t j = 0; j < it->tile.columns; j++) {
    result[j] *= it->scale;
  }
  int64_t element = it->span[LA_SPAN_ROW] * output->stride[0] +
                    (it->span[LA_SPAN_FIRST] + token) * output->stride[1] +
                    (int64_t)(o * it->dv + it->tile.first);
  quire_narrow_row(
      output->dtype, result, it->tile.columns,
      (unsigned char *)output->data + element * (int64_t)quire_dtype_size(output->dtype));
}

/* Step 5, for every output head of this state head. */
static void read_out_heads(const recurrence_item *it, int64_t token) {
  size_t q_heads = it->uniforms->q_num_heads;
  size_t kv_heads = it->uniforms->kv_num_heads;
  size_t group = q_heads > kv_heads ? q_heads / kv_heads : 1;
  for (size_t member = 0; member < group; member++) {
    read_out(it, token,
             it->uniforms->tiled_heads ? it->head + member * kv_heads : it->head * group + member);
  }
}

static void run_sequence(const recurrence_item *it) {
  int64_t tokens = it->span[LA_SPAN_TOKENS];
  int64_t window = (int64_t)it->uniforms->state_window;
  load_past(it);
  zero_unreached_slots(it, tokens > 0 ? tokens : 1);
  for (int64_t token = 0; token < tokens; token++) {
    update_state(it, token);
    read_out_heads(it, token);
    int64_t slot = token + window - tokens;
    if (window > 0 && slot >= 0) {
      store_slot(it, slot);
    }
  }
  if (window == 0) {
    store_slot(it, 0);
  } else if (tokens == 0) { /* X3: an empty sequence keeps its state in the last slot */
    store_slot(it, window - 1);
  }
}

/* ---- the pass ---- */

/* grid: (blocks of value columns, state heads, sequences). */
static void run_item(const quire_pass *pass, const quire_view *views, const size_t item[3]) {
  const quire_linear_attention_uniforms *uniforms =
      (const quire_linear_attention_uniforms *)pass->uniforms;
  size_t kv_heads = uniforms->kv_num_heads;
  size_t dk = (size_t)views[LA_QUERY].shape[2] / uniforms->q_num_heads;
  size_t dv = (size_t)views[LA_VALUE].shape[2] / kv_heads;
  size_t key_heads = (size_t)views[LA_KEY].shape[2] / dk;
  size_t block = uniforms->column_block;
  size_t first = item[0] * block;
  float stack[LA_STACK_FLOATS];
  float *work = stack;
  size_t floats = dk * (block + LA_WORK_ROWS);
  if (floats > LA_STACK_FLOATS) {
    size_t index = (item[2] * pass->grid[1] + item[1]) * pass->grid[0] + item[0];
    work = (float *)views[LA_SCRATCH].data + index * floats;
  }
  recurrence_item it = {
      .views = views,
      .uniforms = uniforms,
      .span = (const int64_t *)views[LA_SPANS].data + item[2] * LA_SPAN_COUNT,
      .sequence = item[2],
      .head = item[1],
      .key_head = uniforms->tiled_heads ? item[1] % key_heads : item[1] / (kv_heads / key_heads),
      .dv = dv,
      .scale = uniforms->scale != 0.0f ? uniforms->scale : (float)(1.0 / sqrt((double)dk)),
      .key = work,
      .query = work + dk,
      .factors = work + 2 * dk,
      .tile = {.data = work + LA_WORK_ROWS * dk,
               .dk = dk,
               .first = first,
               .columns = dv - first < block ? dv - first : block,
               .v_major = uniforms->v_major != 0},
  };
  run_sequence(&it);
}

quire_status quire_linear_attention_recurrence(const quire_pass *pass, const size_t item[3]) {
  run_item(pass, pass->views, item);
  return QUIRE_OK;
}

/* The standard operator has none of the extensions: their views are absent. */
quire_status quire_linear_attention_recurrence_strict(const quire_pass *pass,
                                                      const size_t item[3]) {
  quire_view views[LA_COUNT];
  memset(views, 0, sizeof views);
  memcpy(views, pass->views, LA_STRICT_COUNT * sizeof views[0]);
  run_item(pass, views, item);
  return QUIRE_OK;
}
