/* The pass functions of this folder and their bindings. */
#ifndef QUIRE_KERNELS_PAGED_ATTENTION_PASSES_H
#define QUIRE_KERNELS_PAGED_ATTENTION_PASSES_H

#include "pass.h"

#define QUIRE_FLOAT_BITS                                             \
  (QUIRE_DTYPE_BIT(QUIRE_FLOAT32) | QUIRE_DTYPE_BIT(QUIRE_FLOAT16) | \
   QUIRE_DTYPE_BIT(QUIRE_BFLOAT16))

enum {
  QUIRE_SCHEDULE_BINDING_COUNT = 12,
  QUIRE_SCATTER_BINDING_COUNT = 8,
  QUIRE_ATTEND_BINDING_COUNT = 18,
  QUIRE_MERGE_BINDING_COUNT = 7
};

extern const quire_pass_binding
    quire_paged_attention_schedule_bindings[QUIRE_SCHEDULE_BINDING_COUNT];
extern const quire_pass_binding quire_paged_attention_scatter_bindings[QUIRE_SCATTER_BINDING_COUNT];
extern const quire_pass_binding quire_paged_attention_attend_bindings[QUIRE_ATTEND_BINDING_COUNT];
extern const quire_pass_binding quire_paged_attention_merge_bindings[QUIRE_MERGE_BINDING_COUNT];

quire_pass_function quire_paged_attention_schedule;
quire_pass_function quire_paged_attention_scatter;
quire_pass_function quire_paged_attention_attend;
quire_pass_function quire_paged_attention_merge;

quire_pass_function quire_paged_attention_attend_avx2;
quire_pass_function quire_paged_attention_attend_avx512;
quire_pass_function quire_paged_attention_attend_neon;

#endif
