#include "causal_conv_kernels.h"

#include "causal_conv_call.h"
#include "registration.h"

static const quire_pass_binding schedule_bindings[CC_SCHEDULE_COUNT] = {
    [CC_SCHEDULE_INPUT] = {"input", FLOATS},
    [CC_SCHEDULE_SPANS] = {"spans", INT64},
    [CC_SCHEDULE_CU_SEQLENS] = {"cu_seqlens", INT32},
    [CC_SCHEDULE_READ_INDICES] = {"read_indices", INT32},
    [CC_SCHEDULE_WRITE_INDICES] = {"write_indices", INT32},
    [CC_SCHEDULE_STATE_POOL] = {"state_pool", FLOATS},
    [CC_SCHEDULE_WRITE_SLOTS] = {"write_slots", INT32},
    [CC_SCHEDULE_SLOT_OWNERS] = {"slot_owners", INT32},
};

static const quire_pass_binding convolve_bindings[CC_COUNT] = {
    [CC_INPUT] = {"input", FLOATS},
    [CC_WEIGHT] = {"weight", FLOATS},
    [CC_BIAS] = {"bias", FLOATS},
    [CC_PAST_STATE] = {"past_state", FLOATS},
    [CC_SPANS] = {"spans", INT64},
    [CC_OUTPUT] = {"output", FLOATS},
    [CC_PRESENT_STATE] = {"present_state", FLOATS},
    [CC_STATE_POOL] = {"state_pool", FLOATS},
    [CC_WRITE_SLOTS] = {"write_slots", INT32},
};

#define CONVOLVE                                                                     \
  .kernel = "causal_conv", .bindings = convolve_bindings, .binding_count = CC_COUNT, \
  .uniforms = CC_UNIFORMS
#define CONVOLVE_STRICT                                                                            \
  .kernel = "causal_conv_strict", .bindings = convolve_bindings, .binding_count = CC_STRICT_COUNT, \
  .uniforms = CC_UNIFORMS

static const quire_implementation implementations[] = {
    {.kernel = "causal_conv_schedule",
     .name = "causal_conv_schedule__scalar",
     .bindings = schedule_bindings,
     .binding_count = CC_SCHEDULE_COUNT,
     .uniforms = CC_SCHEDULE_UNIFORMS,
     .isa = QUIRE_ISA_SCALAR,
     .function = quire_causal_conv_schedule},
    {.kernel = "causal_conv_schedule_strict",
     .name = "causal_conv_schedule_strict__scalar",
     .bindings = schedule_bindings,
     .binding_count = CC_SCHEDULE_STRICT_COUNT,
     .uniforms = "",
     .isa = QUIRE_ISA_SCALAR,
     .function = quire_causal_conv_schedule_strict},
    {CONVOLVE, SCALAR, .name = "causal_conv__scalar", .function = quire_causal_conv},
    {CONVOLVE_STRICT, SCALAR, .name = "causal_conv_strict__scalar",
     .function = quire_causal_conv_strict},
#ifdef QUIRE_WITH_AVX2
    {CONVOLVE, AVX2, .name = "causal_conv__avx2", .function = quire_causal_conv_avx2},
    {CONVOLVE_STRICT, AVX2, .name = "causal_conv_strict__avx2",
     .function = quire_causal_conv_strict_avx2},
#endif
#ifdef QUIRE_WITH_AVX512
    {CONVOLVE, AVX512, .name = "causal_conv__avx512", .function = quire_causal_conv_avx512},
    {CONVOLVE_STRICT, AVX512, .name = "causal_conv_strict__avx512",
     .function = quire_causal_conv_strict_avx512},
#endif
#ifdef QUIRE_WITH_NEON
    {CONVOLVE, NEON, .name = "causal_conv__neon", .function = quire_causal_conv_neon},
    {CONVOLVE_STRICT, NEON, .name = "causal_conv_strict__neon",
     .function = quire_causal_conv_strict_neon},
#endif
};

const quire_implementation_list quire_kernels_causal_conv = {
    implementations, sizeof implementations / sizeof implementations[0]};
