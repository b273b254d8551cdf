#include "linear_attention_kernels.h"

#include "linear_attention_call.h"

#define FLOATS                                                       \
  (QUIRE_DTYPE_BIT(QUIRE_FLOAT32) | QUIRE_DTYPE_BIT(QUIRE_FLOAT16) | \
   QUIRE_DTYPE_BIT(QUIRE_BFLOAT16))
#define FLOAT32 QUIRE_DTYPE_BIT(QUIRE_FLOAT32)
#define INT32 QUIRE_DTYPE_BIT(QUIRE_INT32)
#define INT64 QUIRE_DTYPE_BIT(QUIRE_INT64)

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
};

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
    {.kernel = "linear_attention_recurrence",
     .name = "linear_attention_recurrence__scalar",
     .bindings = recurrence_bindings,
     .binding_count = LA_COUNT,
     .uniforms = LA_UNIFORMS,
     .isa = QUIRE_ISA_SCALAR,
     .function = quire_linear_attention_recurrence},
    {.kernel = "linear_attention_recurrence_strict",
     .name = "linear_attention_recurrence_strict__scalar",
     .bindings = recurrence_bindings,
     .binding_count = LA_STRICT_COUNT,
     .uniforms = LA_UNIFORMS,
     .isa = QUIRE_ISA_SCALAR,
     .function = quire_linear_attention_recurrence_strict},
};

const quire_implementation_list quire_kernels_linear_attention = {
    implementations, sizeof implementations / sizeof implementations[0]};
