#include "linear_attention_kernels.h"

#include "linear_attention_call.h"
#include "registration.h"

static const quire_pass_binding schedule_bindings[LA_SCHEDULE_COUNT] = {
    [LA_SCHEDULE_QUERY] = {"query", FLOATS},
    [LA_SCHEDULE_SPANS] = {"spans", INT64},
    [LA_SCHEDULE_CU_SEQLENS] = {"cu_seqlens", INT32},
    [LA_SCHEDULE_READ_INDICES] = {"read_indices", INT32},
    [LA_SCHEDULE_WRITE_INDICES] = {"write_indices", INT32},
    [LA_SCHEDULE_STATE_POOL] = {"state_pool", FLOATS},
    [LA_SCHEDULE_WRITE_SLOTS] = {"write_slots", INT32},
    [LA_SCHEDULE_SLOT_OWNERS] = {"slot_owners", INT32},
};

static const quire_pass_binding recurrence_bindings[LA_COUNT] = {
    [LA_QUERY] = {"query", FLOATS},
    [LA_KEY] = {"key", FLOATS},
    [LA_VALUE] = {"value", FLOATS},
    [LA_PAST_STATE] = {"past_state", FLOATS},
    [LA_DECAY] = {"decay", FLOATS},
    [LA_BETA] = {"beta", FLOATS},
    [LA_SPANS] = {"spans", INT64},
    [LA_SCRATCH] = {"scratch", FLOAT32},
    [LA_OUTPUT] = {"output", FLOATS},
    [LA_PRESENT_STATE] = {"present_state", FLOATS},
    [LA_A_LOG] = {"a_log", FLOAT32},
    [LA_DT_BIAS] = {"dt_bias", FLOAT32},
    [LA_STATE_POOL] = {"state_pool", FLOATS},
    [LA_WRITE_SLOTS] = {"write_slots", INT32},
    [LA_LOG_KEY] = {"log_key", FLOAT32},
    [LA_LOG_VALUE] = {"log_value", FLOAT32},
    [LA_LOG_DECAY] = {"log_decay", FLOAT32},
};

#define RECURRENCE                                                          \
  .kernel = "linear_attention_recurrence", .bindings = recurrence_bindings, \
  .binding_count = LA_COUNT, .uniforms = LA_UNIFORMS
#define RECURRENCE_STRICT                                                          \
  .kernel = "linear_attention_recurrence_strict", .bindings = recurrence_bindings, \
  .binding_count = LA_STRICT_COUNT, .uniforms = LA_UNIFORMS

static const quire_implementation implementations[] = {
    {.kernel = "linear_attention_schedule",
     .name = "linear_attention_schedule__scalar",
     .bindings = schedule_bindings,
     .binding_count = LA_SCHEDULE_COUNT,
     .uniforms = LA_SCHEDULE_UNIFORMS,
     .isa = QUIRE_ISA_SCALAR,
     .function = quire_linear_attention_schedule},
    {.kernel = "linear_attention_schedule_strict",
     .name = "linear_attention_schedule_strict__scalar",
     .bindings = schedule_bindings,
     .binding_count = LA_SCHEDULE_STRICT_COUNT,
     .uniforms = "",
     .isa = QUIRE_ISA_SCALAR,
     .function = quire_linear_attention_schedule_strict},
    {RECURRENCE, SCALAR, .name = "linear_attention_recurrence__scalar",
     .function = quire_linear_attention_recurrence},
    {RECURRENCE_STRICT, SCALAR, .name = "linear_attention_recurrence_strict__scalar",
     .function = quire_linear_attention_recurrence_strict},
#ifdef QUIRE_WITH_AVX2
    {RECURRENCE, AVX2, .name = "linear_attention_recurrence__avx2",
     .function = quire_linear_attention_recurrence_avx2},
    {RECURRENCE_STRICT, AVX2, .name = "linear_attention_recurrence_strict__avx2",
     .function = quire_linear_attention_recurrence_strict_avx2},
#endif
#ifdef QUIRE_WITH_AVX512
    {RECURRENCE, AVX512, .name = "linear_attention_recurrence__avx512",
     .function = quire_linear_attention_recurrence_avx512},
    {RECURRENCE_STRICT, AVX512, .name = "linear_attention_recurrence_strict__avx512",
     .function = quire_linear_attention_recurrence_strict_avx512},
#endif
#ifdef QUIRE_WITH_NEON
    {RECURRENCE, NEON, .name = "linear_attention_recurrence__neon",
     .function = quire_linear_attention_recurrence_neon},
    {RECURRENCE_STRICT, NEON, .name = "linear_attention_recurrence_strict__neon",
     .function = quire_linear_attention_recurrence_strict_neon},
#endif
};

const quire_implementation_list quire_kernels_linear_attention = {
    implementations, sizeof implementations / sizeof implementations[0]};
