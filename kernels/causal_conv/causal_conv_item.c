#include "causal_conv_item.h"

#include <string.h>

#include "recurrent_work.h"

static bool present(const quire_view *view) {
  return view->dtype != QUIRE_DTYPE_NONE;
}

/* Axes [., C, T] or, channels last, [., T, C] of a view from axis `axis` on. */
static quire_causal_conv_grid grid_of(const quire_causal_conv_item *item, const quire_view *view,
                                      int32_t axis, int64_t element) {
  const int64_t size = (int64_t)item->size;
  const int64_t *stride = view->stride + axis;
  quire_causal_conv_grid grid = {
      .channel_stride = stride[item->channels_last ? 1 : 0] * size,
      .position_stride = stride[item->channels_last ? 0 : 1] * size,
  };
  if (view->data) {
    grid.data =
        (unsigned char *)view->data + element * size + (int64_t)item->first * grid.channel_stride;
  }
  return grid;
}

/* The rows of this item's tokens in the input or the output. */
static quire_causal_conv_grid token_grid(const quire_causal_conv_item *item,
                                         const quire_view *view) {
  quire_causal_conv_grid grid =
      grid_of(item, view, 1, item->span[QUIRE_SPAN_ROW] * view->stride[0]);
  if (grid.data) {
    grid.data += item->span[QUIRE_SPAN_FIRST] * grid.position_stride;
  }
  return grid;
}

/* A state of [slot, ., .], or [window, slot, ., .]. */
static quire_causal_conv_grid state_grid(const quire_causal_conv_item *item, const quire_view *view,
                                         int64_t window, int64_t slot) {
  if (view->ndim == 4) {
    return grid_of(item, view, 2, window * view->stride[0] + slot * view->stride[1]);
  }
  return grid_of(item, view, 1, slot * view->stride[0]);
}

static const quire_causal_conv_grid nowhere = {NULL, 0, 0};

static quire_causal_conv_grid past_grid(const quire_causal_conv_item *item) {
  const quire_view *past = &item->views[CC_PAST_STATE];
  const quire_view *pool = &item->views[CC_STATE_POOL];
  if (present(pool)) {
    const int64_t slot = item->span[QUIRE_SPAN_READ_SLOT];
    return slot >= 0 ? state_grid(item, pool, 0, slot) : nowhere;
  }
  return present(past) ? state_grid(item, past, item->window - 1, (int64_t)item->sequence)
                       : nowhere;
}

void quire_causal_conv_item_init(quire_causal_conv_item *item, const quire_pass *pass,
                                 const quire_view *views, const size_t index[3]) {
  const quire_causal_conv_uniforms *uniforms = (const quire_causal_conv_uniforms *)pass->uniforms;
  const quire_view *input = &views[CC_INPUT];
  const quire_view *bias = &views[CC_BIAS];
  const size_t channels = (size_t)input->shape[uniforms->channels_last ? 2 : 1];
  const size_t first = index[0] * uniforms->channel_block;
  const size_t block = uniforms->channel_block;
  const int64_t taps = views[CC_WEIGHT].shape[2];
  *item = (quire_causal_conv_item){
      .views = views,
      .dtype = input->dtype,
      .size = quire_dtype_size(input->dtype),
      .span = (const int64_t *)views[CC_SPANS].data + index[1] * QUIRE_SPAN_COUNT,
      .taps = taps,
      .dilation = (int64_t)uniforms->dilation,
      .state_length = (taps - 1) * (int64_t)uniforms->dilation,
      .window = (int64_t)uniforms->state_window,
      .sequence = index[1],
      .first = first,
      .channels = channels - first < block ? channels - first : block,
      .silu = uniforms->silu != 0,
      .channels_last = uniforms->channels_last != 0,
  };
  item->tokens = item->span[QUIRE_SPAN_TOKENS];
  item->input = token_grid(item, input);
  item->output = token_grid(item, &views[CC_OUTPUT]);
  item->past = past_grid(item);
  item->weight = (const unsigned char *)views[CC_WEIGHT].data + first * (size_t)taps * item->size;
  item->bias = present(bias) ? (const unsigned char *)bias->data + first * item->size : NULL;
}

void quire_causal_conv_strict_views(const quire_pass *pass, quire_view views[CC_COUNT]) {
  memset(views, 0, CC_COUNT * sizeof views[0]);
  memcpy(views, pass->views, CC_STRICT_COUNT * sizeof views[0]);
}

/* ---- states ---- */

/* Where window slot `window` (0 without a window) is stored; data NULL: nowhere. */
static quire_causal_conv_grid present_grid(const quire_causal_conv_item *item, int64_t window) {
  const quire_view *pool = &item->views[CC_STATE_POOL];
  if (!present(pool)) {
    return state_grid(item, &item->views[CC_PRESENT_STATE], window, (int64_t)item->sequence);
  }
  const int64_t width = item->window > 0 ? item->window : 1;
  const int32_t *slots = (const int32_t *)item->views[CC_WRITE_SLOTS].data;
  const int32_t slot = slots[(int64_t)item->sequence * width + window];
  return slot >= 0 ? state_grid(item, pool, 0, slot) : nowhere;
}

/* Copies towards lower addresses or apart. Most copies are a few elements: no call for these. */
static void copy_elements(unsigned char *to, const unsigned char *from, size_t bytes) {
  if (bytes > 64) {
    memmove(to, from, bytes);
    return;
  }
  for (size_t i = 0; i < bytes; i += 2) {
    to[i] = from[i];
    to[i + 1] = from[i + 1];
  }
}

static void copy_run(unsigned char *to, const unsigned char *from, size_t bytes) {
  if (from) {
    copy_elements(to, from, bytes);
  } else {
    memset(to, 0, bytes);
  }
}

/*
 * The state after the first n tokens: positions n - L to n - 1 of past and input. Copies upwards,
 * so that `state` may be the past itself (which moves down by n).
 */
static void store_state(const quire_causal_conv_item *item, const quire_causal_conv_grid *state,
                        int64_t n) {
  const int64_t length = item->state_length;
  const int64_t old = n < length ? length - n : 0; /* that come from the past */
  const bool past = item->past.data != NULL;
  if (item->channels_last) {
    for (int64_t i = 0; i < length; i++) {
      const unsigned char *from = i >= old ? quire_causal_conv_at(&item->input, 0, n - length + i)
                                  : past   ? quire_causal_conv_at(&item->past, 0, n + i)
                                           : NULL;
      copy_run(quire_causal_conv_at(state, 0, i), from, item->channels * item->size);
    }
    return;
  }
  for (size_t channel = 0; channel < item->channels; channel++) {
    unsigned char *to = quire_causal_conv_at(state, channel, 0);
    const size_t old_bytes = (size_t)old * item->size;
    if (old > 0) {
      copy_run(to, past ? quire_causal_conv_at(&item->past, channel, n) : NULL, old_bytes);
    }
    if (old < length) {
      copy_elements(to + old_bytes, quire_causal_conv_at(&item->input, channel, n - length + old),
                    (size_t)(length - old) * item->size);
    }
  }
}

static void zero_state(const quire_causal_conv_item *item, const quire_causal_conv_grid *state) {
  const bool last = item->channels_last;
  const size_t runs = last ? (size_t)item->state_length : item->channels;
  const size_t bytes = (last ? item->channels : (size_t)item->state_length) * item->size;
  for (size_t run = 0; run < runs; run++) {
    memset(
        last ? quire_causal_conv_at(state, 0, (int64_t)run) : quire_causal_conv_at(state, run, 0),
        0, bytes);
  }
}

void quire_causal_conv_store_states(const quire_causal_conv_item *item) {
  const int64_t width = item->window > 0 ? item->window : 1;
  const int64_t states = item->tokens > 0 ? item->tokens : 1;
  quire_causal_conv_grid over_past = nowhere; /* overwrites what the others still read */
  int64_t over_past_tokens = 0;
  if (item->state_length == 0) {
    return;
  }
  for (int64_t window = 0; window < width; window++) {
    const quire_causal_conv_grid state = present_grid(item, window);
    const int64_t tokens = item->tokens - (width - 1 - window);
    if (!state.data) {
      continue;
    }
    if (window < width - states) {
      zero_state(item, &state); /* no pool: its entries without a state are nowhere */
    } else if (state.data == item->past.data) {
      over_past = state;
      over_past_tokens = tokens;
    } else {
      store_state(item, &state, tokens);
    }
  }
  if (over_past.data) {
    store_state(item, &over_past, over_past_tokens);
  }
}
