/* Tensors of a safetensors file, widened to float. */
#ifndef LM_WEIGHTS_H
#define LM_WEIGHTS_H

#include <stddef.h>
#include <stdint.h>

typedef struct lm_config {
  int layers, attention_every, width, feed_forward;
  int query_heads, key_value_heads, head_size, rotary_size;
  int key_heads, state_heads, state_size, taps;
  double rotary_base, epsilon;
} lm_config;

typedef struct lm_tensor {
  char *name;
  size_t count;
  float *values; /* of an integer tensor too */
} lm_tensor;

typedef struct lm_weights {
  lm_tensor *tensors;
  size_t count;
  lm_config config; /* from the file's metadata; zeros without */
} lm_weights;

/* Reads a whole file of F16, F32 and I32 tensors. 0, or -1 after saying why on stderr. */
int lm_weights_load(const char *path, lm_weights *weights);
void lm_weights_free(lm_weights *weights);

/* Elements of the tensor of a name; 0 if there is none. */
size_t lm_weights_count(const lm_weights *weights, const char *name);

/* The tensor of a name, which must have `count` elements; NULL after saying why on stderr. */
const float *lm_weights_get(const lm_weights *weights, const char *name, size_t count);

#endif
