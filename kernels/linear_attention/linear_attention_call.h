/*
 * One call of LinearAttention as its passes see it: the bindings by number, the uniforms, and the
 * work list that the schedule pass hands to the recurrence. Letters as in docs/linear_attention.md.
 */
#ifndef QUIRE_LINEAR_ATTENTION_CALL_H
#define QUIRE_LINEAR_ATTENTION_CALL_H

#include <stdint.h>

#include "pass.h"
#include "recurrent_work.h"

/* Bindings of the schedule passes. The strict operator has the first two only. */
enum {
  LA_SCHEDULE_QUERY, /* for its shape */
  LA_SCHEDULE_SPANS,
  LA_SCHEDULE_CU_SEQLENS,
  LA_SCHEDULE_READ_INDICES,
  LA_SCHEDULE_WRITE_INDICES,
  LA_SCHEDULE_STATE_POOL, /* for its shape */
  LA_SCHEDULE_WRITE_SLOTS,
  LA_SCHEDULE_SLOT_OWNERS,
  LA_SCHEDULE_COUNT
};
enum { LA_SCHEDULE_STRICT_COUNT = LA_SCHEDULE_CU_SEQLENS };

/* Bindings of the recurrence passes. The strict operator lacks those from A_LOG on. */
enum {
  LA_QUERY,
  LA_KEY,
  LA_VALUE,
  LA_PAST_STATE,
  LA_DECAY,
  LA_BETA,
  LA_SPANS,
  LA_SCRATCH,
  LA_OUTPUT,
  LA_PRESENT_STATE,
  LA_A_LOG,
  LA_DT_BIAS,
  LA_STATE_POOL,
  LA_WRITE_SLOTS,
  LA_LOG_KEY,
  LA_LOG_VALUE,
  LA_LOG_DECAY,
  LA_COUNT
};
enum { LA_STRICT_COUNT = LA_A_LOG };

#define LA_SCHEDULE_UNIFORMS "state_window:u32"

typedef struct quire_linear_attention_schedule_uniforms {
  uint32_t state_window;
} quire_linear_attention_schedule_uniforms;

#define LA_UNIFORMS                                                                      \
  "q_num_heads:u32 kv_num_heads:u32 uses_decay:u32 uses_delta:u32 state_window:u32 "     \
  "column_block:u32 gate_activation:u32 beta_activation:u32 qk_l2_norm:u32 v_major:u32 " \
  "tiled_heads:u32 scale:f32 qk_l2_norm_epsilon:f32"

enum { LA_GATE_NONE, LA_GATE_QWEN };
enum { LA_BETA_NONE, LA_BETA_SIGMOID, LA_BETA_TWICE_SIGMOID };

typedef struct quire_linear_attention_uniforms {
  uint32_t q_num_heads;
  uint32_t kv_num_heads;
  uint32_t uses_decay; /* rules gated, gated_delta */
  uint32_t uses_delta; /* rules delta, gated_delta */
  uint32_t state_window;
  uint32_t column_block; /* value columns of one item; never changes a bit */
  uint32_t gate_activation;
  uint32_t beta_activation;
  uint32_t qk_l2_norm;
  uint32_t v_major;
  uint32_t tiled_heads;
  float scale; /* 0: 1/sqrt(dk) */
  float qk_l2_norm_epsilon;
} quire_linear_attention_uniforms;

/*
 * Work memory of one item: its columns of the state in f32, and some rows of key channels. It lies
 * on the stack up to LA_STACK_CHANNELS key channels (a tile of at most LA_TILE_FLOATS), else in the
 * workspace: LA_SCRATCH_COLUMNS columns or rows of the state at a time, and LA_SCRATCH_ROWS rows
 * in all. The manifests use the same numbers.
 */
enum {
  LA_MAX_COLUMNS = 64, /* of a tile; an item may have more tiles */
  LA_STACK_CHANNELS = 512,
  LA_TILE_FLOATS = 8192,
  LA_SCRATCH_COLUMNS = 16,
  LA_SCRATCH_ROWS = 24,
  LA_CHANNEL_ALIGNMENT = 16
};

/* Floats of `scratch` for one item; 0: none. */
static inline size_t quire_linear_attention_work_floats(size_t dk) {
  const size_t mask = LA_CHANNEL_ALIGNMENT - 1;
  return dk <= LA_STACK_CHANNELS ? 0 : LA_SCRATCH_ROWS * ((dk + mask) & ~mask);
}

quire_pass_function quire_linear_attention_schedule;
quire_pass_function quire_linear_attention_schedule_strict;
quire_pass_function quire_linear_attention_recurrence;
quire_pass_function quire_linear_attention_recurrence_strict;
quire_pass_function quire_linear_attention_recurrence_avx2;
quire_pass_function quire_linear_attention_recurrence_strict_avx2;
quire_pass_function quire_linear_attention_recurrence_avx512;
quire_pass_function quire_linear_attention_recurrence_strict_avx512;
quire_pass_function quire_linear_attention_recurrence_neon;
quire_pass_function quire_linear_attention_recurrence_strict_neon;

#endif
