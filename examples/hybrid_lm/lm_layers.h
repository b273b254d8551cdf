/* What the two halves of the model share: lm_model.c makes it, lm_layers.c runs it. */
#ifndef LM_LAYERS_H
#define LM_LAYERS_H

#include "lm_model.h"

/* The device's side of a step: operands of the operators, which live as long as the model. */
enum lm_place {
  LM_QUERY,
  LM_KEY,
  LM_VALUE,
  LM_DECAY,
  LM_BETA,
  LM_OUTPUT,
  LM_MIXED,
  LM_CONVOLVED,
  LM_CUMULATIVE,
  LM_PAST,
  LM_TABLE,
  LM_SLOTS,
  LM_STATE_READ,
  LM_STATE_WRITE,
  LM_PLACES
};

typedef struct lm_layer {
  int is_attention;
  const float *mixer_norm, *feed_forward_norm, *gate_up[2], *down;
  const float *mixed, *gate, *decay, *beta, *norm, *output;   /* delta */
  const float *query, *key, *value, *query_norm, *key_norm;   /* attention */
  void *key_cache, *value_cache;                              /* attention, on the device */
  void *states, *conv_states, *convolution, *a_log, *dt_bias; /* delta, on the device */
} lm_layer;

struct lm_model {
  quire_device *device;
  lm_config c;
  lm_limits limits;
  lm_layer *layers;
  const float *embedding, *norm;
  void *places[LM_PLACES];
  float *x, *normed, *wide[4]; /* rows of the host */
  size_t keys, values, mixed;  /* channels of a delta layer */
};

#endif
