#include "paged_attention_kernels.h"

#include "paged_attention_passes.h"
#include "registration.h"

#define ATTEND_UNIFORMS                                                         \
  "num_heads:u32 scale:f32 softcap:f32 window:u32 is_causal:u32 head_size:u32 " \
  "value_size:u32"
#define ATTEND                                                                           \
  .kernel = "paged_attention_attend", .bindings = quire_paged_attention_attend_bindings, \
  .binding_count = QUIRE_ATTEND_BINDING_COUNT, .uniforms = ATTEND_UNIFORMS
#define ATTEND_BF16                                                                           \
  .kernel = "paged_attention_attend", .bindings = quire_paged_attention_attend_bf16_bindings, \
  .binding_count = QUIRE_ATTEND_BINDING_COUNT, .uniforms = ATTEND_UNIFORMS,                   \
  .isa = QUIRE_ISA_AVX512, .precision = QUIRE_PRECISION_FAST
#define SCATTER                                                                            \
  .kernel = "paged_attention_scatter", .bindings = quire_paged_attention_scatter_bindings, \
  .binding_count = QUIRE_SCATTER_BINDING_COUNT, .uniforms = "num_heads:u32"
#define MERGE                                                                          \
  .kernel = "paged_attention_merge", .bindings = quire_paged_attention_merge_bindings, \
  .binding_count = QUIRE_MERGE_BINDING_COUNT,                                          \
  .uniforms = "num_heads:u32 kv_num_heads:u32 value_size:u32"

static const quire_implementation implementations[] = {
    {.kernel = "paged_attention_schedule",
     .name = "paged_attention_schedule__scalar",
     .bindings = quire_paged_attention_schedule_bindings,
     .binding_count = QUIRE_SCHEDULE_BINDING_COUNT,
     .uniforms = "num_heads:u32 kv_num_heads:u32 block_count:u32 block_size:u32 window:u32 "
                 "is_causal:u32 state_limit:u32",
     .isa = QUIRE_ISA_SCALAR,
     .function = quire_paged_attention_schedule},
    {SCATTER, SCALAR, .name = "paged_attention_scatter__scalar",
     .function = quire_paged_attention_scatter},
    {ATTEND, SCALAR, .name = "paged_attention_attend__scalar",
     .function = quire_paged_attention_attend},
    {MERGE, SCALAR, .name = "paged_attention_merge__scalar",
     .function = quire_paged_attention_merge},
#ifdef QUIRE_WITH_AVX2
    {ATTEND, AVX2, .name = "paged_attention_attend__avx2",
     .function = quire_paged_attention_attend_avx2},
    {SCATTER, AVX2, .name = "paged_attention_scatter__avx2",
     .function = quire_paged_attention_scatter_avx2},
    {MERGE, AVX2, .name = "paged_attention_merge__avx2",
     .function = quire_paged_attention_merge_avx2},
#endif
#ifdef QUIRE_WITH_AVX512
    {ATTEND, AVX512, .name = "paged_attention_attend__avx512",
     .function = quire_paged_attention_attend_avx512},
    {SCATTER, AVX512, .name = "paged_attention_scatter__avx512",
     .function = quire_paged_attention_scatter_avx512},
    {MERGE, AVX512, .name = "paged_attention_merge__avx512",
     .function = quire_paged_attention_merge_avx512},
#endif
#ifdef QUIRE_WITH_AVX512BF16
    {ATTEND_BF16, .name = "paged_attention_attend_bf16__avx512_fast",
     .features = AVX512_FEATURES | QUIRE_CPU_AVX512BF16, .priority = 30,
     .function = quire_paged_attention_attend_avx512bf16},
#endif
#ifdef QUIRE_WITH_AMX
    {ATTEND_BF16, .name = "paged_attention_attend_bf16__amx_fast",
     .features = AVX512_FEATURES | QUIRE_CPU_AVX512BF16 | QUIRE_CPU_AMX_BF16, .priority = 40,
     .function = quire_paged_attention_attend_amx},
#endif
#ifdef QUIRE_WITH_NEON
    {ATTEND, NEON, .name = "paged_attention_attend__neon",
     .function = quire_paged_attention_attend_neon},
    {SCATTER, NEON, .name = "paged_attention_scatter__neon",
     .function = quire_paged_attention_scatter_neon},
    {MERGE, NEON, .name = "paged_attention_merge__neon",
     .function = quire_paged_attention_merge_neon},
#endif
};

const quire_implementation_list quire_kernels_paged_attention = {
    implementations, sizeof implementations / sizeof *implementations};
