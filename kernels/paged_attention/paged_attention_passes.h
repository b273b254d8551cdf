/* The pass functions of this folder and their bindings. */
#ifndef QUIRE_KERNELS_PAGED_ATTENTION_PASSES_H
#define QUIRE_KERNELS_PAGED_ATTENTION_PASSES_H

#include "pass.h"

#define QUIRE_FLOAT_BITS                                             \
  (QUIRE_DTYPE_BIT(QUIRE_FLOAT32) | QUIRE_DTYPE_BIT(QUIRE_FLOAT16) | \
   QUIRE_DTYPE_BIT(QUIRE_BFLOAT16))

enum {
  QUIRE_SCHEDULE_BINDING_COUNT = 12,
  QUIRE_SCATTER_BINDING_COUNT = 10,
  QUIRE_ATTEND_BINDING_COUNT = 20,
  QUIRE_MERGE_BINDING_COUNT = 7
};

/* The bindings of attend, for the types that an implementation takes. */
/* clang-format off */
#define QUIRE_ATTEND_BINDINGS(query_types, cache_types) \
  {"query", query_types},                               \
  {"key_cache", cache_types},                           \
  {"value_cache", cache_types},                         \
  {"block_table", QUIRE_DTYPE_BIT(QUIRE_INT32)},        \
  {"k_scale", QUIRE_DTYPE_BIT(QUIRE_FLOAT32)},          \
  {"v_scale", QUIRE_DTYPE_BIT(QUIRE_FLOAT32)},          \
  {"k_scale_cache", QUIRE_DTYPE_BIT(QUIRE_FLOAT32)},    \
  {"v_scale_cache", QUIRE_DTYPE_BIT(QUIRE_FLOAT32)},    \
  {"head_sink", QUIRE_FLOAT_BITS},                      \
  {"output", QUIRE_FLOAT_BITS},                         \
  {"softmax_lse", QUIRE_DTYPE_BIT(QUIRE_FLOAT32)},      \
  {"items", QUIRE_DTYPE_BIT(QUIRE_INT64)},              \
  {"partial_values", QUIRE_DTYPE_BIT(QUIRE_FLOAT32)},   \
  {"partial_stats", QUIRE_DTYPE_BIT(QUIRE_FLOAT32)},    \
  {"queue", QUIRE_DTYPE_BIT(QUIRE_INT64)},              \
  {"queue_taken", QUIRE_DTYPE_BIT(QUIRE_UINT32)},       \
  {"attend_panels", QUIRE_DTYPE_BIT(QUIRE_FLOAT32)},    \
  {"attend_rows", QUIRE_DTYPE_BIT(QUIRE_FLOAT32)},      \
  {"work_values", QUIRE_DTYPE_BIT(QUIRE_FLOAT32)},      \
  {"work_stats", QUIRE_DTYPE_BIT(QUIRE_FLOAT32)}
/* clang-format on */

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
quire_pass_function quire_paged_attention_scatter_avx2;
quire_pass_function quire_paged_attention_scatter_avx512;
quire_pass_function quire_paged_attention_scatter_neon;
quire_pass_function quire_paged_attention_merge_avx2;
quire_pass_function quire_paged_attention_merge_avx512;
quire_pass_function quire_paged_attention_merge_neon;

/* Precision fast, for bf16 only. */
extern const quire_pass_binding
    quire_paged_attention_attend_bf16_bindings[QUIRE_ATTEND_BINDING_COUNT];
quire_pass_function quire_paged_attention_attend_avx512bf16;
quire_pass_function quire_paged_attention_attend_amx;

#endif
