#include <stdio.h>
#include <stdlib.h>

#include "lm_layers.h"

/* Weights of one layer by name; counts how many were not there. */
typedef struct lm_loader {
  const lm_weights *weights;
  quire_device *device;
  int layer, missing;
  quire_status status;
  quire_error *error;
} lm_loader;

static const float *load(lm_loader *loader, const char *name, size_t count) {
  char full[128];
  snprintf(full, sizeof full, "layers.%d.%s", loader->layer, name);
  const float *values = lm_weights_get(loader->weights, full, count);
  loader->missing += values == NULL;
  return values;
}

/* A buffer of floats on the device, filled with `values` or with zeros. */
static void *place(lm_loader *loader, const float *values, size_t count) {
  void *buffer = NULL;
  float *zeros = values == NULL ? calloc(count, sizeof *zeros) : NULL;
  const uint64_t bytes = count * sizeof *values;
  if (loader->status == QUIRE_OK && values == NULL && zeros == NULL) {
    loader->status = QUIRE_OUT_OF_MEMORY;
  }
  if (loader->status == QUIRE_OK) {
    loader->status = quire_buffer_create(loader->device, bytes, &buffer, loader->error);
  }
  if (loader->status == QUIRE_OK) {
    loader->status = quire_buffer_write(loader->device, buffer, 0, values != NULL ? values : zeros,
                                        bytes, loader->error);
  }
  free(zeros);
  return buffer;
}

static void load_attention(lm_model *m, lm_loader *loader, lm_layer *layer) {
  const lm_config *c = &m->c;
  const size_t width = (size_t)c->width, size = (size_t)c->head_size;
  const size_t queries = (size_t)c->query_heads * size, keys = (size_t)c->key_value_heads * size;
  const size_t cache = (size_t)m->limits.blocks * LM_BLOCK_SIZE * keys;
  layer->query = load(loader, "mixer.query.weight", queries * width);
  layer->gate = load(loader, "mixer.gate.weight", queries * width);
  layer->key = load(loader, "mixer.key.weight", keys * width);
  layer->value = load(loader, "mixer.value.weight", keys * width);
  layer->query_norm = load(loader, "mixer.query_norm.weight", size);
  layer->key_norm = load(loader, "mixer.key_norm.weight", size);
  layer->output = load(loader, "mixer.output.weight", width * queries);
  layer->key_cache = place(loader, NULL, cache);
  layer->value_cache = place(loader, NULL, cache);
}

static void load_delta(lm_model *m, lm_loader *loader, lm_layer *layer) {
  const lm_config *c = &m->c;
  const size_t width = (size_t)c->width, heads = (size_t)c->state_heads;
  const size_t size = (size_t)c->state_size, taps = (size_t)c->taps;
  const size_t slots = (size_t)m->limits.sequences;
  layer->mixed = load(loader, "mixer.mixed.weight", m->mixed * width);
  layer->gate = load(loader, "mixer.gate.weight", m->values * width);
  layer->decay = load(loader, "mixer.decay.weight", heads * width);
  layer->beta = load(loader, "mixer.beta.weight", heads * width);
  layer->norm = load(loader, "mixer.norm.weight", size);
  layer->output = load(loader, "mixer.output.weight", width * m->values);
  const float *convolution = load(loader, "mixer.convolution", m->mixed * taps);
  const float *a_log = load(loader, "mixer.a_log", heads);
  const float *dt_bias = load(loader, "mixer.dt_bias", heads);
  if (loader->missing == 0) {
    layer->convolution = place(loader, convolution, m->mixed * taps);
    layer->a_log = place(loader, a_log, heads);
    layer->dt_bias = place(loader, dt_bias, heads);
  }
  layer->states = place(loader, NULL, slots * heads * size * size);
  layer->conv_states = place(loader, NULL, slots * (taps - 1) * m->mixed);
}

static void load_layers(lm_model *m, lm_loader *loader) {
  const size_t width = (size_t)m->c.width, hidden = (size_t)m->c.feed_forward;
  for (int i = 0; i < m->c.layers; i++) {
    lm_layer *layer = &m->layers[i];
    loader->layer = i;
    layer->is_attention = i % m->c.attention_every == m->c.attention_every - 1;
    layer->mixer_norm = load(loader, "mixer_norm.weight", width);
    layer->feed_forward_norm = load(loader, "feed_forward_norm.weight", width);
    layer->gate_up[0] = load(loader, "feed_forward.gate.weight", hidden * width);
    layer->gate_up[1] = load(loader, "feed_forward.up.weight", hidden * width);
    layer->down = load(loader, "feed_forward.down.weight", width * hidden);
    if (layer->is_attention) {
      load_attention(m, loader, layer);
    } else {
      load_delta(m, loader, layer);
    }
  }
  m->embedding = lm_weights_get(loader->weights, "embedding.weight", LM_VOCABULARY * width);
  m->norm = lm_weights_get(loader->weights, "norm.weight", width);
  loader->missing += m->embedding == NULL || m->norm == NULL;
}

static size_t largest(size_t a, size_t b) {
  return a > b ? a : b;
}

lm_model *lm_model_create(quire_device *device, const lm_weights *weights, const lm_limits *limits,
                          quire_error *error) {
  lm_model *m = calloc(1, sizeof *m);
  if (m == NULL) {
    return NULL;
  }
  const lm_config *c = &weights->config;
  lm_loader loader = {weights, device, 0, 0, QUIRE_OK, error};
  m->device = device;
  m->c = *c;
  m->limits = *limits;
  m->keys = (size_t)c->key_heads * (size_t)c->state_size;
  m->values = (size_t)c->state_heads * (size_t)c->state_size;
  m->mixed = 2 * m->keys + m->values;
  size_t wide = largest(m->mixed, (size_t)c->query_heads * (size_t)c->head_size);
  wide = largest(wide, largest((size_t)c->width, (size_t)c->feed_forward));
  const size_t rows = (size_t)limits->rows, sequences = (size_t)limits->sequences;
  m->layers = calloc((size_t)c->layers + 1, sizeof *m->layers);
  m->x = calloc(rows * wide, sizeof(float));
  m->normed = calloc(rows * wide, sizeof(float));
  for (int i = 0; i < 4; i++) {
    m->wide[i] = calloc(rows * wide, sizeof(float));
  }
  if (m->layers == NULL || m->x == NULL || m->normed == NULL || m->wide[0] == NULL ||
      m->wide[1] == NULL || m->wide[2] == NULL || m->wide[3] == NULL) {
    lm_model_free(m);
    return NULL;
  }
  load_layers(m, &loader);
  for (int i = 0; i < LM_PLACES; i++) {
    const size_t count = i < LM_CUMULATIVE ? rows * wide
                         : i == LM_TABLE   ? sequences * (size_t)limits->columns
                                           : rows + sequences + 1;
    m->places[i] = place(&loader, NULL, count);
  }
  if (loader.missing > 0 || loader.status != QUIRE_OK) {
    lm_model_free(m);
    return NULL;
  }
  return m;
}

void lm_model_free(lm_model *m) {
  if (m == NULL) {
    return;
  }
  for (int i = 0; i < LM_PLACES; i++) {
    quire_buffer_destroy(m->device, m->places[i]);
  }
  for (int i = 0; i < m->c.layers && m->layers != NULL; i++) {
    const lm_layer *layer = &m->layers[i];
    void *const buffers[] = {layer->key_cache,   layer->value_cache, layer->states,
                             layer->conv_states, layer->convolution, layer->a_log,
                             layer->dt_bias};
    for (size_t j = 0; j < sizeof buffers / sizeof *buffers; j++) {
      quire_buffer_destroy(m->device, buffers[j]);
    }
  }
  for (int i = 0; i < 4; i++) {
    free(m->wide[i]);
  }
  free(m->layers);
  free(m->x);
  free(m->normed);
  free(m);
}
