/*
 * One work item of the convolution: some channels of one sequence, all its tokens. Says where
 * inputs, outputs and states lie, and moves the states, which are copied inputs; the arithmetic is
 * the implementations'.
 */
#ifndef QUIRE_CAUSAL_CONV_ITEM_H
#define QUIRE_CAUSAL_CONV_ITEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "causal_conv_call.h"

/* Channels times positions, either axis contiguous. Strides are in bytes. */
typedef struct quire_causal_conv_grid {
  unsigned char *data; /* of the item's first channel, position 0; NULL: there is none */
  int64_t channel_stride;
  int64_t position_stride;
} quire_causal_conv_grid;

typedef struct quire_causal_conv_item {
  const quire_view *views; /* CC_COUNT of them */
  quire_dtype dtype;
  size_t size; /* bytes of an element */
  const int64_t *span;
  int64_t tokens;
  int64_t taps; /* K */
  int64_t dilation;
  int64_t state_length; /* (K-1) * dilation */
  int64_t window;       /* state slots kept, 0: no window */
  size_t sequence;
  size_t first; /* channel */
  size_t channels;
  bool silu;
  bool channels_last;
  quire_causal_conv_grid input, output;
  quire_causal_conv_grid past; /* position i holds token i - state_length; data NULL: zeros */
  const unsigned char *weight; /* [channels, K] of the item */
  const unsigned char *bias;   /* [channels] of the item; NULL: none */
} quire_causal_conv_item;

/* grid: (blocks of channels, sequences). `views`: CC_COUNT of them. */
void quire_causal_conv_item_init(quire_causal_conv_item *item, const quire_pass *pass,
                                 const quire_view *views, const size_t index[3]);

/* The views of a pass of the standard operator, which has none of the extensions. */
void quire_causal_conv_strict_views(const quire_pass *pass, quire_view views[CC_COUNT]);

/* The state after the last token, or the window of states. After the outputs: the past may be
   overwritten. */
void quire_causal_conv_store_states(const quire_causal_conv_item *item);

/* The outputs of some of the item's channels in plain C. */
void quire_causal_conv_channels(const quire_causal_conv_item *item, size_t first, size_t count);

static inline void *quire_causal_conv_at(const quire_causal_conv_grid *grid, size_t channel,
                                         int64_t position) {
  return grid->data + (int64_t)channel * grid->channel_stride + position * grid->position_stride;
}

#endif
