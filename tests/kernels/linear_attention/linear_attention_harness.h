/*
 * Drives the passes of LinearAttention without an engine: values are f32 arrays in the operator's
 * shapes, converted to the call's types on the way in and back on the way out.
 */
#ifndef QUIRE_TEST_LINEAR_ATTENTION_HARNESS_H
#define QUIRE_TEST_LINEAR_ATTENTION_HARNESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pass.h"
#include "quire/status.h"
#include "quire/tensor.h"

typedef enum la_rule { LA_LINEAR, LA_GATED, LA_DELTA, LA_GATED_DELTA } la_rule;

typedef struct la_call {
  la_rule rule;
  quire_dtype type;       /* E */
  quire_dtype state_type; /* S */
  int64_t batch, tokens;
  int64_t q_heads, kv_heads, key_heads;
  int64_t dk, dv;
  int64_t window;
  float scale;
  bool v_major, tiled;
  int gate, beta_activation, l2_norm; /* as the uniforms */
  float epsilon;
  uint32_t column_block;           /* 0: 32 */
  bool in_place;                   /* present_state in past_state's buffer */
  bool strict_kernels;             /* the passes of the standard operator */
  quire_pass_function *recurrence; /* NULL: the scalar one */
  bool ascending;                  /* order of the items */
  int64_t padding; /* elements between rows of the inputs and between slots of the pool */

  const float *query, *key, *value, *past, *decay, *beta, *a_log, *dt_bias;
  int64_t decay_width, beta_width, dt_bias_width;

  const int32_t *cu_seqlens; /* with sequences; NULL: one sequence per batch row */
  int64_t sequences;

  float *pool; /* updated; replaces past and present */
  int64_t pool_slots;
  const int32_t *read_indices, *write_indices;

  float *output;  /* [batch, tokens, max(q_heads, kv_heads)*dv] */
  float *present; /* like past_state; not with a pool */
} la_call;

/* Fills in types f32, batch 1, equal heads 1, block 32 where the caller leaves zeros. */
void la_defaults(la_call *call);
int64_t la_sequences(const la_call *call);
int64_t la_output_heads(const la_call *call);
size_t la_output_count(const la_call *call);
size_t la_state_count(const la_call *call);

/* Schedule, then every item, in descending order if not `ascending` (items are independent). */
quire_status la_run(la_call *call, quire_error *error);

/* The same in float64, from docs/linear_attention.md 4.1 to 4.3; one sequence at a time. */
void la_reference(const la_call *call, double *output, double *present, double *pool);

/* Deterministic random numbers. */
uint64_t la_random(uint64_t *state);
float la_uniform(uint64_t *state, float low, float high);
/* A random array, rounded to a type so that tests and kernels read the same numbers. malloc'ed. */
float *la_random_array(uint64_t *state, size_t count, float low, float high, quire_dtype type);

#endif
