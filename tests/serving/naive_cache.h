/*
 * The reference of the property test: every sequence keeps full copies of its tokens' keys, values
 * and states, and shares nothing with anybody. What a key or value is follows from all tokens
 * before it and from who computed it, so that a block of another sequence never looks right.
 */
#ifndef QUIRE_TESTS_NAIVE_CACHE_H
#define QUIRE_TESTS_NAIVE_CACHE_H

#include "serving_fixture.h"

enum {
  NAIVE_SEQUENCES = 8,
  NAIVE_LENGTH = 72,
  NAIVE_GROUPS = 2,
  NAIVE_HEADS = 2,
  NAIVE_SIZE = 4,
  NAIVE_ROW = NAIVE_HEADS * NAIVE_SIZE,
  NAIVE_STATE = 6
};

typedef struct naive_sequence {
  quire_sequence handle;
  bool is_live;
  int key;        /* -1: none */
  uint64_t owner; /* enters what it computes; equal for equal keys, else unique */
  int32_t tokens[NAIVE_LENGTH];
  uint64_t history[NAIVE_LENGTH + 1]; /* of the first n tokens */
  int64_t length, committed;
  int64_t step; /* tokens of the step that was built; 0: none */
  int64_t drafts;
  bool keeps_state;
  int32_t replay; /* slot that gets the state before commit; -1: the step writes it */
  float key_rows[NAIVE_GROUPS][NAIVE_LENGTH][NAIVE_ROW];
  float value_rows[NAIVE_GROUPS][NAIVE_LENGTH][NAIVE_ROW];
  float states[NAIVE_LENGTH + 1][NAIVE_STATE];
} naive_sequence;

/* Sets token `at` and all that follows from it. */
void naive_set(naive_sequence *sequence, int64_t at, int32_t token);
void naive_begin(naive_sequence *sequence, int key, uint64_t owner);
/* Dense causal attention in double of one query row at position `at`, over the last `window` keys.
 */
void naive_attention(const naive_sequence *sequence, int group, int64_t at, int64_t window,
                     const float *query, int query_heads, float *output);

#endif
