#include "paged_attention_kernels.h"

#include "paged_attention_passes.h"

static const quire_implementation implementations[] = {
    {.kernel = "paged_attention_schedule",
     .name = "paged_attention_schedule__scalar",
     .bindings = quire_paged_attention_schedule_bindings,
     .binding_count = QUIRE_SCHEDULE_BINDING_COUNT,
     .uniforms = "num_heads:u32 kv_num_heads:u32 block_count:u32 block_size:u32 window:u32 "
                 "is_causal:u32 state_limit:u32",
     .isa = QUIRE_ISA_SCALAR,
     .function = quire_paged_attention_schedule},
    {.kernel = "paged_attention_scatter",
     .name = "paged_attention_scatter__scalar",
     .bindings = quire_paged_attention_scatter_bindings,
     .binding_count = QUIRE_SCATTER_BINDING_COUNT,
     .uniforms = "num_heads:u32",
     .isa = QUIRE_ISA_SCALAR,
     .function = quire_paged_attention_scatter},
    {.kernel = "paged_attention_attend",
     .name = "paged_attention_attend__scalar",
     .bindings = quire_paged_attention_attend_bindings,
     .binding_count = QUIRE_ATTEND_BINDING_COUNT,
     .uniforms = "num_heads:u32 scale:f32 softcap:f32 window:u32 is_causal:u32",
     .isa = QUIRE_ISA_SCALAR,
     .function = quire_paged_attention_attend},
    {.kernel = "paged_attention_merge",
     .name = "paged_attention_merge__scalar",
     .bindings = quire_paged_attention_merge_bindings,
     .binding_count = QUIRE_MERGE_BINDING_COUNT,
     .uniforms = "num_heads:u32 kv_num_heads:u32 value_size:u32",
     .isa = QUIRE_ISA_SCALAR,
     .function = quire_paged_attention_merge},
};

const quire_implementation_list quire_kernels_paged_attention = {
    implementations, sizeof implementations / sizeof *implementations};
