#include "typed_call.h"

#define MEMBER(name) offsetof(quire_paged_attention_args, name)

static const quire_call_tensor tensors[] = {
    {"query", MEMBER(query), false, -1},
    {"key", MEMBER(key), false, -1},
    {"value", MEMBER(value), false, -1},
    {"key_cache", MEMBER(key_cache), false, -1},
    {"value_cache", MEMBER(value_cache), false, -1},
    {"cumulative_sequence_length", MEMBER(cumulative_sequence_length), false, -1},
    {"past_seqlens", MEMBER(past_seqlens), false, -1},
    {"block_table", MEMBER(block_table), false, -1},
    {"slot_mapping", MEMBER(slot_mapping), false, -1},
    {"head_sink", MEMBER(head_sink), false, -1},
    {"k_scale", MEMBER(k_scale), false, -1},
    {"v_scale", MEMBER(v_scale), false, -1},
    {"k_scale_cache", MEMBER(k_scale_cache), false, -1},
    {"v_scale_cache", MEMBER(v_scale_cache), false, -1},
    {"attention_metadata", MEMBER(attention_metadata), false, -1},
    {"output", MEMBER(output), true, -1},
    {"key_cache_out", MEMBER(key_cache_out), true, 3},
    {"value_cache_out", MEMBER(value_cache_out), true, 4},
    {"k_scale_cache_out", MEMBER(k_scale_cache_out), true, 12},
    {"v_scale_cache_out", MEMBER(v_scale_cache_out), true, 13},
    {"softmax_lse", MEMBER(softmax_lse), true, -1},
};

static const quire_call_attribute attributes[] = {
    {"num_heads", MEMBER(num_heads), QUIRE_VALUE_TYPE_INT, true, 0, NULL},
    {"kv_num_heads", MEMBER(kv_num_heads), QUIRE_VALUE_TYPE_INT, true, 0, NULL},
    {"scale", MEMBER(scale), QUIRE_VALUE_TYPE_FLOAT, false, 0, NULL},
    {"is_causal", MEMBER(is_causal), QUIRE_VALUE_TYPE_INT, false, 1, NULL},
    {"local_window_size", MEMBER(local_window_size), QUIRE_VALUE_TYPE_INT, false, -1, NULL},
    {"softcap", MEMBER(softcap), QUIRE_VALUE_TYPE_FLOAT, false, 0, NULL},
    {"k_quant_type", MEMBER(k_quant_type), QUIRE_VALUE_TYPE_STRING, false, 0, "NONE"},
    {"v_quant_type", MEMBER(v_quant_type), QUIRE_VALUE_TYPE_STRING, false, 0, "NONE"},
};

const quire_call_description quire_call_paged_attention = {
    "com.microsoft.PagedAttention",
    sizeof(quire_paged_attention_args),
    MEMBER(workspace),
    MEMBER(executor),
    tensors,
    sizeof tensors / sizeof tensors[0],
    attributes,
    sizeof attributes / sizeof attributes[0],
};

void quire_paged_attention_args_init(quire_paged_attention_args *args) {
  quire_call_init(QUIRE_CALL_PAGED_ATTENTION, args);
}

quire_status quire_paged_attention(quire_device *device, const quire_paged_attention_args *args,
                                   quire_error *error) {
  return quire_call(QUIRE_CALL_PAGED_ATTENTION, device, args, error);
}
