/* The hybrid model: PyTorch's twin is model.py. One step runs any number of sequences. */
#ifndef LM_MODEL_H
#define LM_MODEL_H

#include <stdint.h>

#include "lm_weights.h"
#include "quire/quire.h"

enum { LM_VOCABULARY = 256, LM_BLOCK_SIZE = 16 };

typedef struct lm_limits {
  int rows;      /* tokens of a step */
  int sequences; /* of a step; also the slots of states */
  int blocks;    /* of the key and value caches */
  int columns;   /* of the block table */
} lm_limits;

/* The arrays of a step, as quire_batch_build() fills them, and its tokens. */
typedef struct lm_step {
  int rows, sequences;
  const int32_t *tokens;                   /* [rows] */
  const int32_t *positions;                /* [rows] */
  const int32_t *cumulative;               /* [sequences + 1] */
  const int32_t *past;                     /* [sequences] */
  const int32_t *table;                    /* [sequences][columns] */
  const int32_t *slots;                    /* [rows] */
  const int32_t *state_read, *state_write; /* [sequences] */
} lm_step;

typedef struct lm_model lm_model;

/*
 * Makes caches and states on a device. Weights and device must outlive the model. NULL on failure,
 * with the reason in *error.
 */
lm_model *lm_model_create(quire_device *device, const lm_weights *weights, const lm_limits *limits,
                          quire_error *error);
void lm_model_free(lm_model *model);

/* Runs a step; logits [rows][LM_VOCABULARY]. */
quire_status lm_model_run(lm_model *model, const lm_step *step, float *logits, quire_error *error);

#endif
