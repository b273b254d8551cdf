#include "linear_attention_replay_kernels.h"

#include "linear_attention_replay_call.h"
#include "registration.h"

static const quire_pass_binding schedule_bindings[LR_SCHEDULE_COUNT] = {
    [LR_SCHEDULE_LOG_KEY] = {"log_key", FLOAT32},
    [LR_SCHEDULE_ACCEPTED] = {"accepted", INT32},
    [LR_SCHEDULE_SPANS] = {"spans", INT64},
    [LR_SCHEDULE_CU_SEQLENS] = {"cu_seqlens", INT32},
    [LR_SCHEDULE_READ_INDICES] = {"read_indices", INT32},
    [LR_SCHEDULE_WRITE_INDICES] = {"write_indices", INT32},
    [LR_SCHEDULE_STATE_POOL] = {"state_pool", FLOATS},
    [LR_SCHEDULE_WRITE_SLOTS] = {"write_slots", INT32},
    [LR_SCHEDULE_SLOT_OWNERS] = {"slot_owners", INT32},
};

static const quire_pass_binding replay_bindings[LR_COUNT] = {
    [LR_LOG_KEY] = {"log_key", FLOAT32},
    [LR_LOG_VALUE] = {"log_value", FLOAT32},
    [LR_LOG_DECAY] = {"log_decay", FLOAT32},
    [LR_PAST_STATE] = {"past_state", FLOATS},
    [LR_SPANS] = {"spans", INT64},
    [LR_PRESENT_STATE] = {"present_state", FLOATS},
    [LR_STATE_POOL] = {"state_pool", FLOATS},
    [LR_WRITE_SLOTS] = {"write_slots", INT32},
};

#define REPLAY                                                                                 \
  .kernel = "linear_attention_replay", .bindings = replay_bindings, .binding_count = LR_COUNT, \
  .uniforms = LR_UNIFORMS

static const quire_implementation implementations[] = {
    {.kernel = "linear_attention_replay_schedule",
     .name = "linear_attention_replay_schedule__scalar",
     .bindings = schedule_bindings,
     .binding_count = LR_SCHEDULE_COUNT,
     .uniforms = "",
     .isa = QUIRE_ISA_SCALAR,
     .function = quire_linear_attention_replay_schedule},
    {REPLAY, SCALAR, .name = "linear_attention_replay__scalar",
     .function = quire_linear_attention_replay_rows},
#ifdef QUIRE_WITH_AVX2
    {REPLAY, AVX2, .name = "linear_attention_replay__avx2",
     .function = quire_linear_attention_replay_rows_avx2},
#endif
#ifdef QUIRE_WITH_AVX512
    {REPLAY, AVX512, .name = "linear_attention_replay__avx512",
     .function = quire_linear_attention_replay_rows_avx512},
#endif
#ifdef QUIRE_WITH_NEON
    {REPLAY, NEON, .name = "linear_attention_replay__neon",
     .function = quire_linear_attention_replay_rows_neon},
#endif
};

const quire_implementation_list quire_kernels_linear_attention_replay = {
    implementations, sizeof implementations / sizeof implementations[0]};
