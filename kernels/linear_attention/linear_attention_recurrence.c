/*
 * The recurrence, the scalar reference: one item runs all tokens of one sequence for one state head
 * and a block of value columns. Columns are independent of each other, so the width of a block
 * never changes a bit, and one head can occupy many threads. Formulas: docs/linear_attention.md,
 * 4.1 to 4.3.
 */
#include <math.h>

#include "linear_attention_call.h"
#include "linear_attention_item.h"
#include "linear_attention_tile.h"
#include "numeric.h"

enum { WORK_ROWS = 3, STACK_FLOATS = LA_TILE_FLOATS };

typedef struct recurrence {
  const quire_linear_attention_item *item;
  float *key;     /* [dk] */
  float *query;   /* [dk] */
  float *factors; /* [dk] exp of the decay */
  quire_linear_attention_tile tile;
} recurrence;

static void load_past(const recurrence *it) {
  quire_linear_attention_state state = quire_linear_attention_past(it->item);
  if (state.data) {
    quire_linear_attention_tile_load(&it->tile, &state);
  } else {
    quire_linear_attention_tile_clear(&it->tile);
  }
}

static void store_slot(const recurrence *it, int64_t window) {
  quire_linear_attention_state state = quire_linear_attention_present(it->item, window);
  if (state.data) {
    quire_linear_attention_tile_store(&it->tile, &state);
  }
}

/* ---- the inputs of one token ---- */

/* X5: x * (1 / sqrt(sum x^2 + eps)). */
static void load_key_row(const recurrence *it, const quire_view *view, int64_t token, size_t head,
                         float *row) {
  const quire_linear_attention_uniforms *uniforms = it->item->uniforms;
  size_t dk = it->tile.dk;
  quire_widen_row(view->dtype, quire_linear_attention_token_row(it->item, view, token, head * dk),
                  dk, row);
  if (uniforms->qk_l2_norm) {
    float factor = 1.0f / sqrtf(quire_dot(row, row, dk) + uniforms->qk_l2_norm_epsilon);
    for (size_t i = 0; i < dk; i++) {
      row[i] *= factor;
    }
  }
}

/* The element of a per-head [Hkv] or per-key-channel [Hkv*dk] row that serves (head, channel). */
static size_t gate_channel(const recurrence *it, int64_t width, size_t channel) {
  size_t start = quire_linear_attention_gate_start(it->item, width);
  return width == (int64_t)it->item->uniforms->kv_num_heads ? start : start + channel;
}

/* X5 "qwen": g = -exp(a_log) * softplus(decay + dt_bias). */
static float activate_gate(const recurrence *it, float decay, size_t channel) {
  const quire_view *views = it->item->views;
  const quire_view *bias = &views[LA_DT_BIAS];
  size_t bias_channel = gate_channel(it, bias->shape[0], channel);
  float rate =
      quire_exp(quire_load_f32(QUIRE_FLOAT32, views[LA_A_LOG].data, (int64_t)it->item->head));
  float step = decay + quire_load_f32(QUIRE_FLOAT32, bias->data, (int64_t)bias_channel);
  return -rate * quire_softplus(step);
}

static void load_factors(const recurrence *it, int64_t token) {
  const quire_view *decay = &it->item->views[LA_DECAY];
  bool gate = it->item->uniforms->gate_activation == LA_GATE_QWEN;
  const void *row = quire_linear_attention_token_row(it->item, decay, token, 0);
  bool by_channel = quire_linear_attention_decays_by_channel(it->item);
  for (size_t i = 0; i < it->tile.dk; i++) {
    if (i > 0 && !by_channel) {
      it->factors[i] = it->factors[0];
      continue;
    }
    size_t channel = gate_channel(it, decay->shape[2], i);
    float g = quire_load_f32(decay->dtype, row, (int64_t)channel);
    it->factors[i] = quire_exp(gate ? activate_gate(it, g, i) : g);
  }
}

static float load_beta(const recurrence *it, int64_t token) {
  const quire_view *beta = &it->item->views[LA_BETA];
  size_t channel = beta->shape[2] == 1 ? 0 : it->item->head;
  float value = quire_load_f32(beta->dtype,
                               quire_linear_attention_token_row(it->item, beta, token, channel), 0);
  switch (it->item->uniforms->beta_activation) {
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
static void update_state(const recurrence *it, int64_t token) {
  const quire_linear_attention_item *item = it->item;
  const quire_view *value = &item->views[LA_VALUE];
  size_t columns = it->tile.columns;
  float update[LA_MAX_COLUMNS];
  float retrieved[LA_MAX_COLUMNS];
  load_key_row(it, &item->views[LA_KEY], token, item->key_head, it->key);
  quire_widen_row(
      value->dtype,
      quire_linear_attention_token_row(item, value, token, item->head * item->dv + it->tile.first),
      columns, update);
  if (item->uniforms->uses_decay) {
    load_factors(it, token);
    quire_linear_attention_tile_decay(&it->tile, it->factors);
  }
  if (item->uniforms->uses_delta) {
    float beta = load_beta(it, token);
    quire_linear_attention_tile_reduce(&it->tile, it->key, retrieved);
    for (size_t j = 0; j < columns; j++) {
      float difference = update[j] - retrieved[j];
      update[j] = beta * difference;
    }
  }
  if (it->tile.first == item->first) { /* the first tile of the item */
    quire_linear_attention_log_token(item, token, it->key, it->factors,
                                     item->uniforms->uses_decay ? it->factors[0] : 1.0f);
  }
  quire_linear_attention_log_update(item, token, it->tile.first, columns, update);
  quire_linear_attention_tile_write(&it->tile, it->key, update);
}

/* Step 5, for one query head of the group. */
static void read_out(const recurrence *it, int64_t token, size_t member) {
  const quire_linear_attention_item *item = it->item;
  const quire_view *output = &item->views[LA_OUTPUT];
  float result[LA_MAX_COLUMNS];
  load_key_row(it, &item->views[LA_QUERY], token, quire_linear_attention_query_head(item, member),
               it->query);
  quire_linear_attention_tile_reduce(&it->tile, it->query, result);
  for (size_t j = 0; j < it->tile.columns; j++) {
    result[j] *= item->scale;
  }
  size_t channel = quire_linear_attention_output_head(item, member) * item->dv + it->tile.first;
  quire_narrow_row(output->dtype, result, it->tile.columns,
                   quire_linear_attention_token_row(item, output, token, channel));
}

static void run_tile(const recurrence *it) {
  const quire_linear_attention_item *item = it->item;
  load_past(it);
  for (int64_t token = 0; token < item->tokens; token++) {
    update_state(it, token);
    for (size_t member = 0; member < item->group; member++) {
      read_out(it, token, member);
    }
    int64_t slot = quire_linear_attention_slot_of(item, token);
    if (slot >= 0) {
      store_slot(it, slot);
    }
  }
  if (item->tokens == 0) { /* X3: an empty sequence keeps its state in the last slot */
    store_slot(it, item->window > 0 ? item->window - 1 : 0);
  }
}

/* ---- the pass ---- */

/* Columns of a tile: what the work memory holds, at most LA_MAX_COLUMNS. */
static size_t tile_columns(size_t dk) {
  if (dk > LA_STACK_CHANNELS) {
    return LA_SCRATCH_COLUMNS;
  }
  size_t columns = STACK_FLOATS / dk - WORK_ROWS;
  return columns < LA_MAX_COLUMNS ? columns : LA_MAX_COLUMNS;
}

static void run_item(const quire_pass *pass, const quire_view *views, const size_t index[3]) {
  float stack[STACK_FLOATS];
  quire_linear_attention_item item;
  quire_linear_attention_item_init(&item, pass, views, index);
  float *work = item.scratch ? item.scratch : stack;
  size_t dk = item.dk;
  size_t block = tile_columns(dk);
  quire_linear_attention_zero_unreached(&item);
  for (size_t done = 0; done < item.columns; done += block) {
    size_t rest = item.columns - done;
    recurrence it = {
        .item = &item,
        .key = work,
        .query = work + dk,
        .factors = work + 2 * dk,
        .tile = {.data = work + WORK_ROWS * dk,
                 .dk = dk,
                 .first = item.first + done,
                 .columns = rest < block ? rest : block,
                 .v_major = item.uniforms->v_major != 0},
    };
    run_tile(&it);
  }
}

quire_status quire_linear_attention_recurrence(const quire_pass *pass, const size_t item[3]) {
  run_item(pass, pass->views, item);
  return QUIRE_OK;
}

quire_status quire_linear_attention_recurrence_strict(const quire_pass *pass,
                                                      const size_t item[3]) {
  quire_view views[LA_COUNT];
  quire_linear_attention_strict_views(pass, views);
  run_item(pass, views, item);
  return QUIRE_OK;
}
