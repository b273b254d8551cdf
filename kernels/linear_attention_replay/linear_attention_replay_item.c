#include "linear_attention_replay_item.h"

#include "recurrent_work.h"

static bool present(const quire_view *view) {
  return view->dtype != QUIRE_DTYPE_NONE;
}

/* The head's part, `channel` elements into the row, of the first token's log. */
static quire_linear_attention_replay_log log_of(const quire_view *view, const int64_t *span,
                                                size_t channel) {
  quire_linear_attention_replay_log log = {NULL, view->stride[1]};
  if (present(view) && view->data) {
    log.first = (const float *)view->data + span[QUIRE_SPAN_ROW] * view->stride[0] +
                span[QUIRE_SPAN_FIRST] * view->stride[1] + (int64_t)channel;
  }
  return log;
}

static unsigned char *matrix_of(const quire_view *view, int64_t slot, size_t head) {
  const int64_t element = slot * view->stride[0] + (int64_t)head * view->stride[1];
  return (unsigned char *)view->data + element * (int64_t)quire_dtype_size(view->dtype);
}

static void find_states(quire_linear_attention_replay_item *item, const quire_view *views,
                        const int64_t *span, const size_t index[3]) {
  const quire_view *pool = &views[LR_STATE_POOL];
  const quire_view *past = &views[LR_PAST_STATE];
  const size_t head = index[1];
  const int64_t sequence = (int64_t)index[2];
  if (present(pool)) {
    const int64_t read = span[QUIRE_SPAN_READ_SLOT];
    const int32_t write = ((const int32_t *)views[LR_WRITE_SLOTS].data)[sequence];
    item->dtype = pool->dtype;
    item->past = read >= 0 ? matrix_of(pool, read, head) : NULL;
    item->present = write >= 0 ? matrix_of(pool, write, head) : NULL;
    return;
  }
  item->dtype = views[LR_PRESENT_STATE].dtype;
  item->past = present(past) ? matrix_of(past, sequence, head) : NULL;
  item->present = matrix_of(&views[LR_PRESENT_STATE], sequence, head);
}

bool quire_linear_attention_replay_item_init(quire_linear_attention_replay_item *item,
                                             const quire_pass *pass, const size_t index[3]) {
  const quire_linear_attention_replay_uniforms *uniforms =
      (const quire_linear_attention_replay_uniforms *)pass->uniforms;
  const quire_view *views = pass->views;
  const int64_t *span = (const int64_t *)views[LR_SPANS].data + index[2] * QUIRE_SPAN_COUNT;
  const quire_view *decay = &views[LR_LOG_DECAY];
  const size_t heads = uniforms->kv_num_heads;
  const size_t key_heads = uniforms->key_num_heads;
  const size_t head = index[1];
  const size_t key_head = uniforms->tiled_heads ? head % key_heads : head / (heads / key_heads);
  const size_t dk = (size_t)views[LR_LOG_KEY].shape[2] / key_heads;
  const size_t dv = (size_t)views[LR_LOG_VALUE].shape[2] / heads;
  const size_t rows = uniforms->v_major ? dv : dk;
  const size_t block = uniforms->row_block;
  *item = (quire_linear_attention_replay_item){
      .tokens = span[QUIRE_SPAN_TOKENS],
      .first = index[0] * block,
      .columns = uniforms->v_major ? dk : dv,
      .v_major = uniforms->v_major != 0,
      .key = log_of(&views[LR_LOG_KEY], span, key_head * dk),
      .update = log_of(&views[LR_LOG_VALUE], span, head * dv),
      .factor_by_channel = present(decay) && decay->shape[2] != (int64_t)heads,
  };
  item->rows = rows - item->first < block ? rows - item->first : block;
  item->factor = log_of(decay, span, item->factor_by_channel ? head * dk : head);
  find_states(item, views, span, index);
  item->size = quire_dtype_size(item->dtype);
  return item->present && (item->tokens > 0 || item->present != item->past);
}
