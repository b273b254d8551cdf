/*
 * The work list of operators that carry a state per sequence: one span per sequence, and, with a
 * pool of states, the slots that receive one. Written by schedule passes, which check the values of
 * the caller's tensors here; the other passes trust the list.
 *
 * All records are integer arrays, so that they are intermediates of a plan.
 */
#ifndef QUIRE_KERNELS_RECURRENT_WORK_H
#define QUIRE_KERNELS_RECURRENT_WORK_H

#include <stdint.h>

#include "pass.h"

/* Columns of `spans`, int64 [sequences, QUIRE_SPAN_COUNT]. */
enum {
  QUIRE_SPAN_ROW,   /* b of the batch axis */
  QUIRE_SPAN_FIRST, /* first token */
  QUIRE_SPAN_TOKENS,
  QUIRE_SPAN_READ_SLOT, /* of the pool; -1: the state starts from zeros */
  QUIRE_SPAN_COUNT
};

typedef struct quire_recurrent_work {
  /* What to write. */
  int64_t *spans;
  int32_t *write_slots; /* [sequences, width], with a pool */
  int32_t *slot_owners; /* [pool_slots], with a pool: scratch of the check */

  /* The call. Tensors that are absent are NULL. */
  int64_t sequences;
  int64_t tokens; /* of the token axis */
  int64_t width;  /* slots that a sequence may write: its window, at least 1 */
  int64_t pool_slots;
  const int32_t *cu_seqlens;
  const int32_t *read_indices;
  const int32_t *write_indices;

  /* For messages. */
  const char *lengths_rule; /* of cu_seqlens */
  const char *pool_rule;
  const char *token_tensor; /* whose token axis it is */
} quire_recurrent_work;

/*
 * Writes one span per sequence; those of cu_seqlens, which must run from 0 to `tokens` and never
 * fall, or else one per batch row.
 */
quire_status quire_recurrent_work_spans(const quire_recurrent_work *work, quire_error *error);

/*
 * With a pool, after the spans: checks that slots lie in [-1, pool_slots) and that no sequence
 * touches a slot which another one writes. Entries of a window without a state (fewer tokens than
 * entries; one state even without tokens) become -1 in write_slots: they are not stored.
 */
quire_status quire_recurrent_work_pool(const quire_recurrent_work *work, quire_error *error);

/* The data of an int32 view, NULL if the tensor is absent. */
const int32_t *quire_recurrent_work_integers(const quire_view *view);

#endif
