/*
 * One sequence alone: caches of its own in one block, states of its own, scalar kernels, one
 * thread. What a row of a batch must be is what it is here.
 */
#ifndef QUIRE_SOAK_REFERENCE_H
#define QUIRE_SOAK_REFERENCE_H

#include "soak_model.h"
#include "soak_random.h"

typedef struct soak_reference {
  int64_t length; /* tokens that it has run */
  int64_t kept;   /* tokens of the state in the other slot; -1: none */
  int32_t owner;
  int32_t current; /* slot of the state */
  soak_memory memory;
  unsigned char *data; /* of all tensors */
} soak_reference;

/* Memory for any model; false: there is none. */
bool soak_reference_open(soak_reference *reference);
void soak_reference_close(soak_reference *reference);
/* Begins a sequence of this model. */
void soak_reference_begin(soak_reference *reference, const soak_model *model);
/*
 * Runs tokens[start, start + count), and before them what is missing; goes back where it was
 * further. The first `zone` tokens are run SOAK_STEP at a time, all others at most 8. The rows'
 * hidden values are in rows.
 */
quire_status soak_reference_run(soak_reference *reference, const soak_model *model,
                                const soak_place *place, soak_random *random, int64_t zone,
                                int32_t owner, const int32_t *tokens, int64_t start, int64_t count,
                                soak_rows *rows, quire_error *error);

#endif
