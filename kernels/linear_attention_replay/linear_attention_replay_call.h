/*
 * One call of LinearAttentionReplay as its passes see it: the bindings by number and the uniforms.
 * Letters as in docs/linear_attention.md, section 11.
 */
#ifndef QUIRE_LINEAR_ATTENTION_REPLAY_CALL_H
#define QUIRE_LINEAR_ATTENTION_REPLAY_CALL_H

#include <stdint.h>

#include "pass.h"

/* Bindings of the schedule pass. */
enum {
  LR_SCHEDULE_LOG_KEY, /* for its shape */
  LR_SCHEDULE_ACCEPTED,
  LR_SCHEDULE_SPANS, /* int64 [sequences, QUIRE_SPAN_COUNT]: accepted tokens only */
  LR_SCHEDULE_CU_SEQLENS,
  LR_SCHEDULE_READ_INDICES,
  LR_SCHEDULE_WRITE_INDICES,
  LR_SCHEDULE_STATE_POOL, /* for its shape */
  LR_SCHEDULE_WRITE_SLOTS,
  LR_SCHEDULE_SLOT_OWNERS,
  LR_SCHEDULE_COUNT
};

/* Bindings of the replay. */
enum {
  LR_LOG_KEY,
  LR_LOG_VALUE,
  LR_LOG_DECAY,
  LR_PAST_STATE,
  LR_SPANS,
  LR_PRESENT_STATE,
  LR_STATE_POOL,
  LR_WRITE_SLOTS,
  LR_COUNT
};

#define LR_UNIFORMS "kv_num_heads:u32 key_num_heads:u32 v_major:u32 tiled_heads:u32 row_block:u32"

typedef struct quire_linear_attention_replay_uniforms {
  uint32_t kv_num_heads;
  uint32_t key_num_heads;
  uint32_t v_major;
  uint32_t tiled_heads;
  uint32_t row_block; /* rows of a state matrix of one item; never changes a bit */
} quire_linear_attention_replay_uniforms;

quire_pass_function quire_linear_attention_replay_schedule;
quire_pass_function quire_linear_attention_replay_rows;
quire_pass_function quire_linear_attention_replay_rows_avx2;
quire_pass_function quire_linear_attention_replay_rows_avx512;
quire_pass_function quire_linear_attention_replay_rows_neon;

#endif
