/*
 * The convolution, the scalar reference (NU-11 of docs/numerics.md): a chain of fma from the bias
 * on, oldest token first. One item computes some channels of one sequence; channels do not know
 * each other, so the width of a block never changes a bit.
 */
#include <math.h>

#include "causal_conv_call.h"
#include "causal_conv_item.h"
#include "numeric.h"

/* The value at a position of the sequence's tokens; below 0 it is the past's. */
static float value_at(const quire_causal_conv_item *item, size_t channel, int64_t position) {
  if (position >= 0) {
    return quire_load_f32(item->dtype, quire_causal_conv_at(&item->input, channel, position), 0);
  }
  if (!item->past.data) {
    return 0.0f;
  }
  const int64_t row = item->state_length + position;
  return quire_load_f32(item->dtype, quire_causal_conv_at(&item->past, channel, row), 0);
}

static float convolve(const quire_causal_conv_item *item, size_t channel, int64_t token) {
  const int64_t taps = item->taps;
  float sum = item->bias ? quire_load_f32(item->dtype, item->bias, (int64_t)channel) : 0.0f;
  for (int64_t tap = 0; tap < taps; tap++) {
    const float weight = quire_load_f32(item->dtype, item->weight, (int64_t)channel * taps + tap);
    const int64_t position = token - (taps - 1 - tap) * item->dilation;
    sum = fmaf(weight, value_at(item, channel, position), sum);
  }
  return item->silu ? sum * quire_sigmoid(sum) : sum;
}

void quire_causal_conv_channels(const quire_causal_conv_item *item, size_t first, size_t count) {
  for (size_t channel = first; channel < first + count; channel++) {
    for (int64_t token = 0; token < item->tokens; token++) {
      const float result = convolve(item, channel, token);
      quire_narrow_row(item->dtype, &result, 1,
                       quire_causal_conv_at(&item->output, channel, token));
    }
  }
}

static void run_item(const quire_pass *pass, const quire_view *views, const size_t index[3]) {
  quire_causal_conv_item item;
  quire_causal_conv_item_init(&item, pass, views, index);
  quire_causal_conv_channels(&item, 0, item.channels);
  quire_causal_conv_store_states(&item);
}

quire_status quire_causal_conv(const quire_pass *pass, const size_t item[3]) {
  run_item(pass, pass->views, item);
  return QUIRE_OK;
}

quire_status quire_causal_conv_strict(const quire_pass *pass, const size_t item[3]) {
  quire_view views[CC_COUNT];
  quire_causal_conv_strict_views(pass, views);
  run_item(pass, views, item);
  return QUIRE_OK;
}
