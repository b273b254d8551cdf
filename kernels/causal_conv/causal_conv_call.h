/*
 * One call of CausalConvWithState as its passes see it: the bindings by number and the uniforms.
 * Letters as in docs/causal_conv.md.
 */
#ifndef QUIRE_CAUSAL_CONV_CALL_H
#define QUIRE_CAUSAL_CONV_CALL_H

#include <stdint.h>

#include "pass.h"

/* Bindings of the schedule passes. The strict operator has the first two only. */
enum {
  CC_SCHEDULE_INPUT, /* for its shape */
  CC_SCHEDULE_SPANS, /* int64 [sequences, QUIRE_SPAN_COUNT] */
  CC_SCHEDULE_CU_SEQLENS,
  CC_SCHEDULE_READ_INDICES,
  CC_SCHEDULE_WRITE_INDICES,
  CC_SCHEDULE_STATE_POOL, /* for its shape */
  CC_SCHEDULE_WRITE_SLOTS,
  CC_SCHEDULE_SLOT_OWNERS,
  CC_SCHEDULE_COUNT
};
enum { CC_SCHEDULE_STRICT_COUNT = CC_SCHEDULE_CU_SEQLENS };

/* Bindings of the convolution. The strict operator lacks those from STATE_POOL on. */
enum {
  CC_INPUT,
  CC_WEIGHT,
  CC_BIAS,
  CC_PAST_STATE,
  CC_SPANS,
  CC_OUTPUT,
  CC_PRESENT_STATE,
  CC_STATE_POOL,
  CC_WRITE_SLOTS,
  CC_COUNT
};
enum { CC_STRICT_COUNT = CC_STATE_POOL };

#define CC_SCHEDULE_UNIFORMS "state_window:u32 channels_last:u32"

typedef struct quire_causal_conv_schedule_uniforms {
  uint32_t state_window;
  uint32_t channels_last;
} quire_causal_conv_schedule_uniforms;

#define CC_UNIFORMS "state_window:u32 silu:u32 channels_last:u32 dilation:u32 channel_block:u32"

typedef struct quire_causal_conv_uniforms {
  uint32_t state_window;
  uint32_t silu;
  uint32_t channels_last;
  uint32_t dilation;
  uint32_t channel_block; /* channels of one item; never changes a bit */
} quire_causal_conv_uniforms;

quire_pass_function quire_causal_conv_schedule;
quire_pass_function quire_causal_conv_schedule_strict;
quire_pass_function quire_causal_conv;
quire_pass_function quire_causal_conv_strict;
quire_pass_function quire_causal_conv_avx2;
quire_pass_function quire_causal_conv_strict_avx2;
quire_pass_function quire_causal_conv_avx512;
quire_pass_function quire_causal_conv_strict_avx512;
quire_pass_function quire_causal_conv_neon;
quire_pass_function quire_causal_conv_strict_neon;

#endif
