#include "linear_attention_item.h"

#include <math.h>
#include <string.h>

static bool present(const quire_view *view) {
  return view->dtype != QUIRE_DTYPE_NONE;
}

void quire_linear_attention_item_init(quire_linear_attention_item *item, const quire_pass *pass,
                                      const quire_view *views, const size_t index[3]) {
  const quire_linear_attention_uniforms *uniforms =
      (const quire_linear_attention_uniforms *)pass->uniforms;
  const size_t q_heads = uniforms->q_num_heads;
  const size_t kv_heads = uniforms->kv_num_heads;
  const size_t block = uniforms->column_block;
  const size_t dk = (size_t)views[LA_QUERY].shape[2] / q_heads;
  const size_t dv = (size_t)views[LA_VALUE].shape[2] / kv_heads;
  const size_t key_heads = (size_t)views[LA_KEY].shape[2] / dk;
  const size_t head = index[1];
  const size_t first = index[0] * block;
  const size_t number = (index[2] * pass->grid[1] + head) * pass->grid[0] + index[0];
  const size_t floats = quire_linear_attention_work_floats(dk);
  *item = (quire_linear_attention_item){
      .views = views,
      .uniforms = uniforms,
      .span = (const int64_t *)views[LA_SPANS].data + index[2] * QUIRE_SPAN_COUNT,
      .window = (int64_t)uniforms->state_window,
      .sequence = index[2],
      .head = head,
      .key_head = uniforms->tiled_heads ? head % key_heads : head / (kv_heads / key_heads),
      .group = q_heads > kv_heads ? q_heads / kv_heads : 1,
      .dk = dk,
      .dv = dv,
      .first = first,
      .columns = dv - first < block ? dv - first : block,
      .scale = uniforms->scale != 0.0f ? uniforms->scale : (float)(1.0 / sqrt((double)dk)),
      .scratch = floats == 0 ? NULL : (float *)views[LA_SCRATCH].data + number * floats,
  };
  item->tokens = item->span[QUIRE_SPAN_TOKENS];
}

void quire_linear_attention_strict_views(const quire_pass *pass, quire_view views[LA_COUNT]) {
  memset(views, 0, LA_COUNT * sizeof views[0]);
  memcpy(views, pass->views, LA_STRICT_COUNT * sizeof views[0]);
}

void *quire_linear_attention_token_row(const quire_linear_attention_item *item,
                                       const quire_view *view, int64_t token, size_t channel) {
  int64_t element = item->span[QUIRE_SPAN_ROW] * view->stride[0] +
                    (item->span[QUIRE_SPAN_FIRST] + token) * view->stride[1] + (int64_t)channel;
  return (unsigned char *)view->data + element * (int64_t)quire_dtype_size(view->dtype);
}

/* The matrix of `slot` and this item's head: [slot, Hkv, ., .], or [window, slot, Hkv, ., .]. */
static quire_linear_attention_state state_at(const quire_linear_attention_item *item,
                                             const quire_view *view, int64_t window, int64_t slot) {
  const int64_t *stride = view->stride + (view->ndim == 5 ? 1 : 0);
  int64_t element = slot * stride[0] + (int64_t)item->head * stride[1];
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

static const quire_linear_attention_state nowhere = {NULL, QUIRE_DTYPE_NONE, 0};

quire_linear_attention_state quire_linear_attention_past(const quire_linear_attention_item *item) {
  const quire_view *past = &item->views[LA_PAST_STATE];
  const quire_view *pool = &item->views[LA_STATE_POOL];
  int64_t read_slot = item->span[QUIRE_SPAN_READ_SLOT];
  if (present(pool)) {
    return read_slot >= 0 ? state_at(item, pool, 0, read_slot) : nowhere;
  }
  return present(past) ? state_at(item, past, item->window - 1, (int64_t)item->sequence) : nowhere;
}

quire_linear_attention_state quire_linear_attention_present(const quire_linear_attention_item *item,
                                                            int64_t window) {
  const quire_view *pool = &item->views[LA_STATE_POOL];
  if (!present(pool)) {
    const quire_view *states = &item->views[LA_PRESENT_STATE];
    return present(states) ? state_at(item, states, window, (int64_t)item->sequence) : nowhere;
  }
  int64_t width = item->window > 0 ? item->window : 1;
  const int32_t *slots = (const int32_t *)item->views[LA_WRITE_SLOTS].data;
  int32_t slot = slots[(int64_t)item->sequence * width + window];
  return slot >= 0 ? state_at(item, pool, 0, slot) : nowhere;
}

void quire_linear_attention_zero_unreached(const quire_linear_attention_item *item) {
  if (!present(&item->views[LA_PRESENT_STATE])) { /* a pool's slots are left alone */
    return;
  }
  const bool v_major = item->uniforms->v_major != 0;
  const size_t rows = v_major ? item->columns : item->dk;
  const size_t length = v_major ? item->dk : item->columns;
  const int64_t states = item->tokens > 0 ? item->tokens : 1;
  for (int64_t window = 0; window < item->window - states; window++) {
    quire_linear_attention_state state = quire_linear_attention_present(item, window);
    for (size_t row = 0; state.data && row < rows; row++) {
      const size_t matrix_row = v_major ? item->first + row : row;
      const int64_t element =
          (int64_t)matrix_row * state.row_stride + (v_major ? 0 : (int64_t)item->first);
      memset(state.data + element * (int64_t)quire_dtype_size(state.dtype), 0,
             length * quire_dtype_size(state.dtype));
    }
  }
}

int64_t quire_linear_attention_slot_of(const quire_linear_attention_item *item, int64_t token) {
  if (item->window == 0) {
    return token == item->tokens - 1 ? 0 : -1;
  }
  const int64_t slot = token + item->window - item->tokens;
  return slot >= 0 ? slot : -1;
}

size_t quire_linear_attention_output_head(const quire_linear_attention_item *item, size_t member) {
  return item->uniforms->tiled_heads ? item->head + member * item->uniforms->kv_num_heads
                                     : item->head * item->group + member;
}

size_t quire_linear_attention_query_head(const quire_linear_attention_item *item, size_t member) {
  const size_t q_heads = item->uniforms->q_num_heads;
  const size_t kv_heads = item->uniforms->kv_num_heads;
  const size_t head = quire_linear_attention_output_head(item, member);
  if (item->uniforms->tiled_heads) {
    return head % q_heads;
  }
  return q_heads >= kv_heads ? head : head / (kv_heads / q_heads);
}

bool quire_linear_attention_decays_by_channel(const quire_linear_attention_item *item) {
  const int64_t kv_heads = (int64_t)item->uniforms->kv_num_heads;
  return item->uniforms->uses_decay && (item->views[LA_DECAY].shape[2] != kv_heads ||
                                        (item->uniforms->gate_activation == LA_GATE_QWEN &&
                                         item->views[LA_DT_BIAS].shape[0] != kv_heads));
}

size_t quire_linear_attention_gate_start(const quire_linear_attention_item *item, int64_t width) {
  return width == (int64_t)item->uniforms->kv_num_heads ? item->head : item->head * item->dk;
}

/* ---- X8 ---- */

bool quire_linear_attention_logs(const quire_linear_attention_item *item) {
  return present(&item->views[LA_LOG_KEY]);
}

static float *log_row(const quire_linear_attention_item *item, int view, int64_t token,
                      size_t channel) {
  return (float *)quire_linear_attention_token_row(item, &item->views[view], token, channel);
}

void quire_linear_attention_log_update(const quire_linear_attention_item *item, int64_t token,
                                       size_t first, size_t columns, const float *update) {
  if (quire_linear_attention_logs(item)) {
    memcpy(log_row(item, LA_LOG_VALUE, token, item->head * item->dv + first), update,
           columns * sizeof *update);
  }
}

void quire_linear_attention_log_token(const quire_linear_attention_item *item, int64_t token,
                                      const float *key, const float *factors, float factor) {
  if (!quire_linear_attention_logs(item) || item->first != 0) {
    return;
  }
  const size_t key_heads = (size_t)item->views[LA_KEY].shape[2] / item->dk;
  const size_t sharing = item->uniforms->kv_num_heads / key_heads;
  const bool leads =
      item->uniforms->tiled_heads ? item->head < key_heads : item->head % sharing == 0;
  if (leads) {
    memcpy(log_row(item, LA_LOG_KEY, token, item->key_head * item->dk), key,
           item->dk * sizeof *key);
  }
  if (!item->uniforms->uses_decay) {
    return;
  }
  if (quire_linear_attention_decays_by_channel(item)) {
    memcpy(log_row(item, LA_LOG_DECAY, token, item->head * item->dk), factors,
           item->dk * sizeof *factors);
  } else {
    *log_row(item, LA_LOG_DECAY, token, item->head) = factor;
  }
}
