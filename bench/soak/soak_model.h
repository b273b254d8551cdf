/*
 * A model without weights: hybrid layers between fixed mixings of channels. Same tokens before a
 * position, same bits behind it, whatever else is in the batch: that is what a soak checks.
 */
#ifndef QUIRE_SOAK_MODEL_H
#define QUIRE_SOAK_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "quire/quire.h"

enum {
  SOAK_LAYERS = 5,
  SOAK_GROUPS = 2,
  SOAK_HIDDEN = 64,
  SOAK_HEADS = 4, /* of queries, 16 channels each */
  SOAK_KV_HEADS = 2,
  SOAK_SIZE = 16,
  SOAK_KV = SOAK_KV_HEADS * SOAK_SIZE,
  SOAK_STATE_HEADS = 2,
  SOAK_LINEAR = SOAK_STATE_HEADS * SOAK_SIZE,
  SOAK_CHANNELS = 3 * SOAK_LINEAR, /* of the convolution: query, key, value */
  SOAK_TAPS = 4,
  SOAK_LENGTH = 128, /* most tokens of a sequence */
  SOAK_BATCH = 6,    /* sequences of a step, padding included */
  SOAK_STEP = 16,    /* most tokens of a sequence in a step */
  SOAK_ROWS = SOAK_BATCH * SOAK_STEP,
  SOAK_LAYER_TENSORS = 4
};

typedef enum soak_quantisation {
  SOAK_NONE,
  SOAK_PER_TENSOR,
  SOAK_PER_CHANNEL,
  SOAK_PER_TOKEN
} soak_quantisation;

typedef struct soak_layer {
  bool is_linear; /* convolution and LinearAttention; else PagedAttention */
  int group;
  soak_quantisation quantisation;
} soak_layer;

typedef struct soak_model {
  quire_dtype element;
  soak_layer layers[SOAK_LAYERS];
  int layer_count;
  int64_t windows[SOAK_GROUPS]; /* 0: none */
  int64_t state_window;         /* W */
} soak_model;

/* What a layer keeps between steps: key and value cache and scales; or convolution and state. */
typedef struct soak_memory {
  quire_tensor tensors[SOAK_LAYERS][SOAK_LAYER_TENSORS];
  int64_t shapes[SOAK_LAYERS][SOAK_LAYER_TENSORS][4];
  int counts[SOAK_LAYERS];
} soak_memory;

/* The arrays of a step, as quire_batch_build() fills them. */
typedef struct soak_arrays {
  int32_t cumulative[SOAK_BATCH + 1], past[SOAK_BATCH];
  int32_t tables[SOAK_GROUPS][SOAK_BATCH][SOAK_LENGTH];
  int32_t slots[SOAK_GROUPS][SOAK_ROWS], positions[SOAK_ROWS];
  int32_t reads[SOAK_BATCH], writes[SOAK_BATCH * QUIRE_CACHE_MAX_STATE_WINDOW];
  int32_t replays[SOAK_BATCH];
  int64_t columns[SOAK_GROUPS], rows, sequences;
  int32_t tokens[SOAK_ROWS], owners[SOAK_BATCH]; /* whose: the same token is another row */
} soak_arrays;

/* Rows of one step in every form; and what a replay needs of it. */
typedef struct soak_rows {
  float hidden[SOAK_ROWS][SOAK_HIDDEN], mixed[SOAK_ROWS][SOAK_CHANNELS];
  unsigned char query[SOAK_ROWS * SOAK_HIDDEN * 4], key[SOAK_ROWS * SOAK_KV * 4];
  unsigned char value[SOAK_ROWS * SOAK_KV * 4], output[SOAK_ROWS * SOAK_CHANNELS * 4];
  unsigned char gates[2][SOAK_ROWS * SOAK_STATE_HEADS * 4];
  unsigned char inputs[SOAK_LAYERS][SOAK_ROWS * SOAK_CHANNELS * 4];
  float log_key[SOAK_LAYERS][SOAK_ROWS * SOAK_LINEAR],
      log_value[SOAK_LAYERS][SOAK_ROWS * SOAK_LINEAR];
  float log_decay[SOAK_LAYERS][SOAK_ROWS * SOAK_STATE_HEADS];
} soak_rows;

/* Buffers of a WebGPU device, for what a call gets from and returns to host memory. */
enum { SOAK_STAGES = 16, SOAK_STAGE_BYTES = 1 << 16 };
typedef struct soak_stage {
  void *buffers[SOAK_STAGES];
} soak_stage;

/* Where a step runs. */
typedef struct soak_place {
  quire_device *device;
  const quire_executor *executor; /* NULL: the device's */
  soak_stage *stage;              /* NULL: on the CPU */
} soak_place;

/* Names and forms of a layer's tensors for caches of these sizes; data is the caller's to set. */
void soak_memory_form(const soak_model *model, const int64_t blocks[SOAK_GROUPS],
                      const int64_t sizes[SOAK_GROUPS], int64_t slots, soak_memory *memory);
uint64_t soak_tensor_bytes(const quire_tensor *tensor);

/* Computes rows->hidden for arrays->tokens. with_log: keeps what soak_replay() needs. */
quire_status soak_forward(const soak_model *model, const soak_place *place,
                          const soak_memory *memory, const soak_arrays *arrays, bool with_log,
                          soak_rows *rows, quire_error *error);
/* Brings the states of sequences with a replay slot to `accepted` tokens of the step. */
quire_status soak_replay(const soak_model *model, const soak_place *place,
                         const soak_memory *memory, const soak_arrays *arrays,
                         const int32_t *accepted, soak_rows *rows, quire_error *error);

#endif
