/*
 * One work item of a replay: some rows of the state matrix of one head of one sequence. Says where
 * the state and the log lie; the arithmetic is the implementations'.
 */
#ifndef QUIRE_LINEAR_ATTENTION_REPLAY_ITEM_H
#define QUIRE_LINEAR_ATTENTION_REPLAY_ITEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "linear_attention_replay_call.h"

/*
 * A matrix row takes one number of one log tensor and a row of the other: K-major rows are key
 * channels, V-major rows value channels.
 */
typedef struct quire_linear_attention_replay_log {
  const float *first; /* of the item's head and first token */
  int64_t stride;     /* floats from token to token */
} quire_linear_attention_replay_log;

typedef struct quire_linear_attention_replay_item {
  quire_dtype dtype;
  size_t size; /* bytes of an element of the state */
  int64_t tokens;
  const unsigned char *past; /* of row 0 of the matrix; NULL: zeros */
  unsigned char *present;    /* NULL: nowhere */
  size_t first;              /* row */
  size_t rows;
  size_t columns; /* of a row, contiguous */
  bool v_major;
  quire_linear_attention_replay_log key;    /* [dk] a token */
  quire_linear_attention_replay_log update; /* [dv] a token */
  quire_linear_attention_replay_log factor; /* first NULL: no decay */
  bool factor_by_channel;                   /* [dk] a token, else one number */
} quire_linear_attention_replay_item;

/* grid: (blocks of matrix rows, state heads, sequences). False: there is nothing to do. */
bool quire_linear_attention_replay_item_init(quire_linear_attention_replay_item *item,
                                             const quire_pass *pass, const size_t index[3]);

#endif
