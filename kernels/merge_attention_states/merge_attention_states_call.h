/* What the implementations of MergeAttentionStates share. */
#ifndef QUIRE_MERGE_ATTENTION_STATES_CALL_H
#define QUIRE_MERGE_ATTENTION_STATES_CALL_H

#include "pass.h"

/* Views of the pass. */
enum {
  MERGE_OUTPUT_A,
  MERGE_SOFTMAX_LSE_A,
  MERGE_OUTPUT_B,
  MERGE_SOFTMAX_LSE_B,
  MERGE_OUTPUT,
  MERGE_SOFTMAX_LSE,
  MERGE_VIEW_COUNT
};

/* The weights of the two parts of one row of values. */
typedef struct quire_merge_weights {
  float a, b, sum;
} quire_merge_weights;

/* The weights of row n*H + h; writes its log-sum-exp. */
quire_merge_weights quire_merge_attention_states_weigh(const quire_view *views, int64_t row);

quire_pass_function quire_merge_attention_states_scalar;
quire_pass_function quire_merge_attention_states_avx2;
quire_pass_function quire_merge_attention_states_avx512;
quire_pass_function quire_merge_attention_states_neon;

#endif
