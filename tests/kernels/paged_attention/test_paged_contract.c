/* The contract of PagedAttention, row by row of its validation table. */
#include "contract_changes.h"

#include <math.h>

/* T 3, Hq 4, Hkv 2, D 8, NB 4, P 2, B 2, MB 2 */

static const contract_form paged_inputs[] = {
    {"query", F16, 2, {3, 32}},
    {"key", F16, 2, {3, 16}},
    {"value", F16, 2, {3, 16}},
    {"key_cache", F16, 4, {4, 2, 2, 8}},
    {"value_cache", F16, 4, {4, 2, 2, 8}},
    {"cumulative_sequence_length", I32, 1, {3}},
    {"past_seqlens", I32, 1, {2}},
    {"block_table", I32, 2, {2, 2}},
};

static const contract_form paged_extras[] = {
    {"slot_mapping", I32, 1, {3}},             /* 0 */
    {"slot_mapping", I32, 1, {4}},             /* 1 */
    {"cos_cache", F16, 2, {9, 4}},             /* 2 */
    {"sin_cache", F16, 2, {9, 4}},             /* 3 */
    {"q_norm_weight", F16, 1, {8}},            /* 4 */
    {"k_norm_weight", F16, 1, {8}},            /* 5 */
    {"head_sink", F16, 1, {4}},                /* 6 */
    {"head_sink", F16, 1, {2}},                /* 7 */
    {"k_scale", F32, 1, {1}},                  /* 8 */
    {"v_scale", F32, 1, {1}},                  /* 9 */
    {"k_scale", F32, 3, {2, 1, 8}},            /* 10 */
    {"attention_metadata", I32, 1, {2}},       /* 11 */
    {"attention_metadata", I32, 1, {3}},       /* 12 */
    {"attention_metadata", I32, 1, {4}},       /* 13 */
    {"no_such", F16, 1, {1}},                  /* 14 */
    {"output", F16, 2, {3, 31}},               /* 15 */
    {"key_cache_out", F16, 4, {4, 2, 2, 8}},   /* 16 */
    {"value_cache_out", F16, 4, {4, 2, 2, 8}}, /* 17 */
    {"value_cache_out", F16, 4, {4, 2, 1, 8}}, /* 18 */
    {"softmax_lse", F32, 2, {3, 4}},           /* 19 */
    {"softmax_lse", F32, 2, {3, 2}},           /* 20 */
    {"softmax_lse", F16, 2, {3, 4}},           /* 21 */
    {"cos_cache", F32, 2, {9, 4}},             /* 22 */
    {"k_norm_weight", F32, 1, {8}},            /* 23 */
    {"k_scale_cache", F32, 3, {4, 2, 2}},      /* 24 */
    {"v_scale_cache", F32, 3, {4, 2, 2}},      /* 25 */
    {"k_scale_cache", F16, 3, {4, 2, 2}},      /* 26 */
    {"k_scale_cache", F32, 2, {4, 4}},         /* 27 */
    {"v_scale_cache", F32, 3, {4, 2, 1}},      /* 28 */
    {"k_scale_cache_out", F32, 3, {4, 2, 2}},  /* 29 */
    {"v_scale_cache_out", F32, 3, {4, 2, 2}},  /* 30 */
    {"key_cache_out", I8, 4, {4, 2, 2, 8}},    /* 31 */
    {"value_cache_out", I8, 4, {4, 2, 2, 8}},  /* 32 */
    {"k_scale_cache_out", F32, 3, {4, 2, 1}},  /* 33 */
};

static const quire_named_value paged_attributes[] = {
    {"num_heads", QUIRE_VALUE_TYPE_INT, 4, 0, NULL},
    {"kv_num_heads", QUIRE_VALUE_TYPE_INT, 2, 0, NULL},
};

/* Caches of int8, and how keys and values are scaled. */
/* clang-format off */
#define INT8_CACHES(k_scaling, v_scaling)             \
  {"text", "k_quant_type", 0, 0, 0, k_scaling, WITH}, \
  {"text", "v_quant_type", 0, 0, 0, v_scaling, WITH}, \
  {"type", "key_cache", I8, 0, 0, NULL, WITH},        \
  {"type", "value_cache", I8, 0, 0, NULL, WITH}
#define SCALES_PER_TOKEN                          \
  INT8_CACHES("PER_TOKEN", "PER_TOKEN"),          \
  {"add", "k_scale_cache", 24, 0, 0, NULL, WITH}, \
  {"add", "v_scale_cache", 25, 0, 0, NULL, WITH}
/* clang-format on */

static const contract_change paged_changes[] = {
    {NULL, NULL, 0, 0, 0, NULL, QUIRE_OK, NULL, NULL},
    {"without", "num_heads", 0, 0, 0, NULL, QUIRE_BAD_ATTRIBUTE, "PA-V1", NULL},
    {"without", "kv_num_heads", 0, 0, 0, NULL, QUIRE_BAD_ATTRIBUTE, "PA-V1", NULL},
    {"int", "num_heads", 0, 0, 0, NULL, QUIRE_BAD_ATTRIBUTE, "PA-V1", NULL},
    {"int", "kv_num_heads", 0, 0, 0, NULL, QUIRE_BAD_ATTRIBUTE, "PA-V1", NULL},
    {"int", "kv_num_heads", 0, 3, 0, NULL, QUIRE_BAD_ATTRIBUTE, "PA-V1", "num_heads"},
    {"float", "scale", 0, 0, (double)INFINITY, NULL, QUIRE_BAD_ATTRIBUTE, "PA-V2", NULL},
    {"float", "scale", 0, 0, (double)NAN, NULL, QUIRE_BAD_ATTRIBUTE, "PA-V2", NULL},
    {"float", "scale", 0, 0, 1e300, NULL, QUIRE_BAD_ATTRIBUTE, "PA-V2", NULL},
    {"float", "scale", 0, 0, -1, NULL, QUIRE_OK, NULL, NULL},
    {"int", "is_causal", 0, 0, 0, NULL, QUIRE_OK, NULL, NULL},
    {"int", "is_causal", 0, 2, 0, NULL, QUIRE_BAD_ATTRIBUTE, "PA-V3", NULL},
    {"int", "do_rotary", 0, 0, 0, NULL, QUIRE_OK, NULL, NULL},
    {"int", "do_rotary", 0, 1, 0, NULL, QUIRE_UNSUPPORTED, "PA-V3", NULL},
    {"int", "rotary_interleaved", 0, 1, 0, NULL, QUIRE_UNSUPPORTED, "PA-V3", NULL},
    {"int", "rotary_offset", 0, 1, 0, NULL, QUIRE_UNSUPPORTED, "PA-V3", NULL},
    {"int", "v_head_size", 0, 4, 0, NULL, QUIRE_UNSUPPORTED, "PA-V3", NULL},
    {"float", "qk_norm_epsilon", 0, 0, 0.5, NULL, QUIRE_OK, NULL, NULL},
    {"text", "kv_cache_layout", 0, 0, 0, "LATENT", QUIRE_UNSUPPORTED, "PA-V3", NULL},
    {"text", "k_cache_dtype", 0, 0, 0, "", QUIRE_OK, NULL, NULL},
    {"text", "k_cache_dtype", 0, 0, 0, "int4", QUIRE_UNSUPPORTED, "PA-V3", NULL},
    {"text", "v_cache_dtype", 0, 0, 0, "int4", QUIRE_UNSUPPORTED, "PA-V3", NULL},
    {"text", "k_quant_type", 0, 0, 0, "PER_ROW", QUIRE_UNSUPPORTED, "PA-V3", NULL},
    {"text", "v_quant_type", 0, 0, 0, "PER_ROW", QUIRE_UNSUPPORTED, "PA-V3", NULL},
    {"add", "cos_cache", 2, 0, 0, NULL, QUIRE_UNSUPPORTED, "PA-V3", NULL},
    {"add", "sin_cache", 3, 0, 0, NULL, QUIRE_UNSUPPORTED, "PA-V3", NULL},
    {"add", "q_norm_weight", 4, 0, 0, NULL, QUIRE_UNSUPPORTED, "PA-V3", NULL},
    {"add", "k_norm_weight", 5, 0, 0, NULL, QUIRE_UNSUPPORTED, "PA-V3", NULL},
    {"add", "cos_cache", 22, 0, 0, NULL, QUIRE_UNSUPPORTED, "PA-V3", NULL},
    {"add", "k_norm_weight", 23, 0, 0, NULL, QUIRE_UNSUPPORTED, "PA-V3", NULL},
    {"int", "local_window_size", 0, INT64_MAX, 0, NULL, QUIRE_OK, NULL, NULL},
    {"int", "local_window_size", 0, INT64_MIN, 0, NULL, QUIRE_OK, NULL, NULL},
    {"float", "softcap", 0, 0, -1, NULL, QUIRE_BAD_ATTRIBUTE, "X3", NULL},
    {"float", "softcap", 0, 0, (double)INFINITY, NULL, QUIRE_BAD_ATTRIBUTE, "X3", NULL},
    {"drop", "query", 0, 0, 0, NULL, QUIRE_BAD_PRESENCE, "PA-V4", NULL},
    {"drop", "key_cache", 0, 0, 0, NULL, QUIRE_BAD_PRESENCE, "PA-V4", NULL},
    {"drop", "value_cache", 0, 0, 0, NULL, QUIRE_BAD_PRESENCE, "PA-V4", NULL},
    {"drop", "cumulative_sequence_length", 0, 0, 0, NULL, QUIRE_BAD_PRESENCE, "PA-V4", NULL},
    {"drop", "past_seqlens", 0, 0, 0, NULL, QUIRE_BAD_PRESENCE, "PA-V4", NULL},
    {"drop", "block_table", 0, 0, 0, NULL, QUIRE_BAD_PRESENCE, "PA-V4", NULL},
    {"drop", "key", 0, 0, 0, NULL, QUIRE_BAD_PRESENCE, "PA-V4", "value"},
    {"drop", "value", 0, 0, 0, NULL, QUIRE_BAD_PRESENCE, "PA-V4", NULL},
    {"out", "key_cache_out", 16, 0, 0, NULL, QUIRE_BAD_PRESENCE, "PA-V4", "value_cache"},
    {"out", "key_cache_out", 16, 0, 0, NULL, WITH},
    {"out", "value_cache_out", 17, 0, 0, NULL, QUIRE_OK, NULL, NULL},
    {"rank", "query", 0, 3, 0, NULL, QUIRE_BAD_RANK, "PA-V5", NULL},
    {"rank", "key_cache", 0, 3, 0, NULL, QUIRE_BAD_RANK, "PA-V5", NULL},
    {"rank", "past_seqlens", 0, 2, 0, NULL, QUIRE_BAD_RANK, "PA-V5", NULL},
    {"type", "key", F32, 0, 0, NULL, QUIRE_BAD_TYPE, "PA-V6", NULL},
    {"type", "value_cache", F32, 0, 0, NULL, QUIRE_BAD_TYPE, "PA-V6", NULL},
    {"type", "block_table", QUIRE_INT64, 0, 0, NULL, QUIRE_BAD_TYPE, "PA-V6", NULL},
    {"type", "query", I8, 0, 0, NULL, QUIRE_BAD_TYPE, "PA-V6", NULL},
    {"type", "key_cache", I8, 0, 0, NULL, WITH},
    {"type", "value_cache", I8, 0, 0, NULL, QUIRE_BAD_TYPE, "PA-V6", "key_cache"},
    {"dim", "key_cache", 0, 0, 0, NULL, QUIRE_BAD_SHAPE, "PA-V7", NULL},
    {"dim", "key_cache", 1, 0, 0, NULL, QUIRE_BAD_SHAPE, "PA-V7", NULL},
    {"dim", "key_cache", 2, 3, 0, NULL, QUIRE_BAD_SHAPE, "PA-V7", NULL},
    {"dim", "key_cache", 3, 0, 0, NULL, QUIRE_BAD_SHAPE, "PA-V7", NULL},
    {"dim", "value_cache", 0, 5, 0, NULL, QUIRE_BAD_SHAPE, "PA-V7", NULL},
    {"dim", "query", 1, 31, 0, NULL, QUIRE_BAD_SHAPE, "PA-V8", NULL},
    {"dim", "key", 1, 8, 0, NULL, QUIRE_BAD_SHAPE, "PA-V8", NULL},
    {"dim", "value", 0, 4, 0, NULL, QUIRE_BAD_SHAPE, "PA-V8", NULL},
    {"drop", "key", 0, 0, 0, NULL, WITH},
    {"drop", "value", 0, 0, 0, NULL, QUIRE_BAD_SHAPE, "PA-V8", "query"},
    {"drop", "key", 0, 0, 0, NULL, WITH},
    {"drop", "value", 0, 0, 0, NULL, WITH},
    {"dim", "query", 1, 64, 0, NULL, QUIRE_OK, NULL, NULL},
    {"dim", "cumulative_sequence_length", 0, 1, 0, NULL, QUIRE_BAD_SHAPE, "PA-V9", NULL},
    {"dim", "past_seqlens", 0, 3, 0, NULL, QUIRE_BAD_SHAPE, "PA-V9", NULL},
    {"dim", "block_table", 0, 1, 0, NULL, QUIRE_BAD_SHAPE, "PA-V9", NULL},
    {"dim", "block_table", 1, 0, 0, NULL, QUIRE_BAD_SHAPE, "PA-V9", NULL},
    {"add", "slot_mapping", 1, 0, 0, NULL, QUIRE_BAD_SHAPE, "PA-V9", NULL},
    {"add", "slot_mapping", 0, 0, 0, NULL, QUIRE_OK, NULL, NULL},
    {"out", "output", 15, 0, 0, NULL, QUIRE_BAD_SHAPE, "PA-V10", NULL},
    {"out", "key_cache_out", 16, 0, 0, NULL, WITH},
    {"out", "value_cache_out", 18, 0, 0, NULL, QUIRE_BAD_SHAPE, "PA-V10", NULL},
    {"int", "num_heads", 0, INT64_C(1) << 32, 0, NULL, QUIRE_LIMIT, "PA-V11", NULL},
    /* Without tokens no size is too large: PA-V11 is a rule of its own. */
    {"int", "num_heads", 0, INT64_C(1) << 33, 0, NULL, WITH},
    {"dim", "query", 0, 0, 0, NULL, WITH},
    {"dim", "query", 1, INT64_C(1) << 36, 0, NULL, WITH},
    {"dim", "key", 0, 0, 0, NULL, WITH},
    {"dim", "value", 0, 0, 0, NULL, QUIRE_LIMIT, "PA-V11", "num_heads"},
    {"dim", "key_cache", 0, INT64_MAX, 0, NULL, WITH},
    {"dim", "value_cache", 0, INT64_MAX, 0, NULL, QUIRE_LIMIT, "PA-V11", "key_cache"},
    {"stride", "key_cache", 0, INT64_MAX / 4, 0, NULL, QUIRE_LIMIT, "PA-V11", NULL},
    {"stride", "key_cache", 0, 1000, 0, NULL, QUIRE_OK, NULL, NULL},
    {"stride", "query", 0, 0, 0, NULL, QUIRE_OK, NULL, NULL},
    {"stride", "key_cache", 3, 2, 0, NULL, QUIRE_UNSUPPORTED, "PA-S1", NULL},
    {"stride", "value_cache", 1, -16, 0, NULL, QUIRE_UNSUPPORTED, "PA-S1", NULL},
    {"stride", "query", 0, 99, 0, NULL, QUIRE_OK, NULL, NULL},
    {"stride", "query", 1, 2, 0, NULL, QUIRE_UNSUPPORTED, "PA-S1", NULL},
    {"stride", "key", 0, -16, 0, NULL, QUIRE_UNSUPPORTED, "PA-S1", NULL},
    {"stride", "block_table", 0, 3, 0, NULL, QUIRE_UNSUPPORTED, "PA-S1", NULL},
    {"add", "head_sink", 6, 0, 0, NULL, QUIRE_OK, NULL, NULL},
    {"add", "head_sink", 7, 0, 0, NULL, QUIRE_BAD_SHAPE, "X4", NULL},
    {"add", "attention_metadata", 11, 0, 0, NULL, QUIRE_OK, NULL, NULL},
    {"add", "attention_metadata", 12, 0, 0, NULL, QUIRE_OK, NULL, NULL},
    {"add", "attention_metadata", 13, 0, 0, NULL, QUIRE_BAD_SHAPE, "X10", NULL},
    {"out", "softmax_lse", 19, 0, 0, NULL, QUIRE_OK, NULL, NULL},
    {"out", "softmax_lse", 20, 0, 0, NULL, QUIRE_BAD_SHAPE, "PA-V10", NULL},
    {"out", "softmax_lse", 21, 0, 0, NULL, QUIRE_BAD_TYPE, "PA-V6", NULL},
    /* X6 */
    {"text", "k_quant_type", 0, 0, 0, "PER_TENSOR", QUIRE_UNSUPPORTED, "X6", "v_quant_type"},
    {"add", "k_scale", 8, 0, 0, NULL, QUIRE_BAD_PRESENCE, "X6", NULL},
    {"text", "k_quant_type", 0, 0, 0, "PER_TENSOR", WITH},
    {"text", "v_quant_type", 0, 0, 0, "PER_TENSOR", QUIRE_BAD_PRESENCE, "X6", "k_scale"},
    {"text", "k_quant_type", 0, 0, 0, "PER_TENSOR", WITH},
    {"text", "v_quant_type", 0, 0, 0, "PER_TENSOR", WITH},
    {"add", "k_scale", 8, 0, 0, NULL, WITH},
    {"add", "v_scale", 9, 0, 0, NULL, QUIRE_BAD_TYPE, "PA-V6", "key_cache"},
    INT8_CACHES("PER_TENSOR", "PER_TENSOR"),
    {"add", "k_scale", 10, 0, 0, NULL, WITH},
    {"add", "v_scale", 9, 0, 0, NULL, QUIRE_BAD_SHAPE, "X6", "k_scale"},
    INT8_CACHES("PER_CHANNEL", "PER_TENSOR"),
    {"add", "k_scale", 10, 0, 0, NULL, WITH},
    {"add", "v_scale", 9, 0, 0, NULL, QUIRE_OK, NULL, NULL},
    /* X7 */
    {"add", "k_scale_cache", 24, 0, 0, NULL, QUIRE_BAD_PRESENCE, "X7", NULL},
    {"add", "v_scale_cache", 25, 0, 0, NULL, QUIRE_BAD_PRESENCE, "X7", NULL},
    {"text", "k_quant_type", 0, 0, 0, "PER_TOKEN", QUIRE_UNSUPPORTED, "X6", "v_quant_type"},
    {"text", "v_quant_type", 0, 0, 0, "PER_TOKEN", QUIRE_UNSUPPORTED, "X6", NULL},
    INT8_CACHES("PER_TOKEN", "PER_TOKEN"),
    {"add", "v_scale_cache", 25, 0, 0, NULL, QUIRE_BAD_PRESENCE, "X7", "k_scale_cache"},
    INT8_CACHES("PER_TOKEN", "PER_TOKEN"),
    {"add", "k_scale_cache", 24, 0, 0, NULL, QUIRE_BAD_PRESENCE, "X7", "v_scale_cache"},
    {"text", "k_quant_type", 0, 0, 0, "PER_TOKEN", WITH},
    {"text", "v_quant_type", 0, 0, 0, "PER_TOKEN", WITH},
    {"add", "k_scale_cache", 24, 0, 0, NULL, WITH},
    {"add", "v_scale_cache", 25, 0, 0, NULL, QUIRE_BAD_TYPE, "PA-V6", "key_cache"},
    INT8_CACHES("PER_TOKEN", "PER_TOKEN"),
    {"add", "k_scale", 8, 0, 0, NULL, WITH},
    {"add", "k_scale_cache", 24, 0, 0, NULL, WITH},
    {"add", "v_scale_cache", 25, 0, 0, NULL, QUIRE_BAD_PRESENCE, "X6", "k_scale"},
    INT8_CACHES("PER_TOKEN", "PER_TOKEN"),
    {"add", "k_scale_cache", 26, 0, 0, NULL, WITH},
    {"add", "v_scale_cache", 25, 0, 0, NULL, QUIRE_BAD_TYPE, "PA-V6", "k_scale_cache"},
    INT8_CACHES("PER_TOKEN", "PER_TOKEN"),
    {"add", "k_scale_cache", 27, 0, 0, NULL, WITH},
    {"add", "v_scale_cache", 25, 0, 0, NULL, QUIRE_BAD_RANK, "PA-V5", "k_scale_cache"},
    INT8_CACHES("PER_TOKEN", "PER_TOKEN"),
    {"add", "k_scale_cache", 24, 0, 0, NULL, WITH},
    {"add", "v_scale_cache", 28, 0, 0, NULL, QUIRE_BAD_SHAPE, "X7", "v_scale_cache"},
    SCALES_PER_TOKEN,
    {"dim", "k_scale_cache", 1, 3, 0, NULL, QUIRE_BAD_SHAPE, "X7", NULL},
    SCALES_PER_TOKEN,
    {"stride", "k_scale_cache", 0, -4, 0, NULL, QUIRE_UNSUPPORTED, "PA-S1", NULL},
    SCALES_PER_TOKEN,
    {"stride", "v_scale_cache", 2, -1, 0, NULL, QUIRE_UNSUPPORTED, "PA-S1", NULL},
    SCALES_PER_TOKEN,
    {"stride", "v_scale_cache", 0, INT64_MAX / 4, 0, NULL, QUIRE_LIMIT, "PA-V11", NULL},
    SCALES_PER_TOKEN,
    {"stride", "k_scale_cache", 0, 99, 0, NULL, QUIRE_OK, NULL, NULL},
    /* X7, caches with buffers of their own: scales go where their rows go. */
    SCALES_PER_TOKEN,
    {"out", "key_cache_out", 31, 0, 0, NULL, WITH},
    {"out", "value_cache_out", 32, 0, 0, NULL, WITH},
    {"out", "k_scale_cache_out", 29, 0, 0, NULL, QUIRE_BAD_PRESENCE, "X7", "v_scale_cache"},
    SCALES_PER_TOKEN,
    {"out", "k_scale_cache_out", 29, 0, 0, NULL, QUIRE_BAD_PRESENCE, "X7", "k_scale_cache"},
    SCALES_PER_TOKEN,
    {"out", "key_cache_out", 31, 0, 0, NULL, WITH},
    {"out", "value_cache_out", 32, 0, 0, NULL, WITH},
    {"out", "v_scale_cache_out", 30, 0, 0, NULL, WITH},
    {"out", "k_scale_cache_out", 33, 0, 0, NULL, QUIRE_BAD_SHAPE, "PA-V10", NULL},
    SCALES_PER_TOKEN,
    {"out", "key_cache_out", 31, 0, 0, NULL, WITH},
    {"out", "value_cache_out", 32, 0, 0, NULL, WITH},
    {"out", "v_scale_cache_out", 30, 0, 0, NULL, WITH},
    {"out", "k_scale_cache_out", 29, 0, 0, NULL, QUIRE_OK, NULL, NULL},
    /* Keys and values each in their own way. */
    INT8_CACHES("PER_CHANNEL", "PER_TOKEN"),
    {"add", "k_scale", 10, 0, 0, NULL, WITH},
    {"add", "v_scale_cache", 25, 0, 0, NULL, QUIRE_OK, NULL, NULL},
};

static void test_paged_attention(void **state) {
  (void)state;
  const contract_legal l = {
      "com.microsoft.PagedAttention", paged_inputs, COUNT(paged_inputs), paged_attributes,
      COUNT(paged_attributes),        paged_extras};
  contract_check(&l, paged_changes, COUNT(paged_changes));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_paged_attention)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
