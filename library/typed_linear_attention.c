#include "typed_call.h"

#define MEMBER(name) offsetof(quire_linear_attention_args, name)

static const quire_call_tensor tensors[] = {
    {"query", MEMBER(query), false, -1},
    {"key", MEMBER(key), false, -1},
    {"value", MEMBER(value), false, -1},
    {"past_state", MEMBER(past_state), false, -1},
    {"decay", MEMBER(decay), false, -1},
    {"beta", MEMBER(beta), false, -1},
    {"cu_seqlens", MEMBER(cu_seqlens), false, -1},
    {"state_pool", MEMBER(state_pool), false, -1},
    {"read_indices", MEMBER(read_indices), false, -1},
    {"write_indices", MEMBER(write_indices), false, -1},
    {"a_log", MEMBER(a_log), false, -1},
    {"dt_bias", MEMBER(dt_bias), false, -1},
    {"output", MEMBER(output), true, -1},
    {"present_state", MEMBER(present_state), true, 3},
    {"state_pool_out", MEMBER(state_pool_out), true, 7},
    {"log_key", MEMBER(log_key), true, -1},
    {"log_value", MEMBER(log_value), true, -1},
    {"log_decay", MEMBER(log_decay), true, -1},
};

static const quire_call_attribute attributes[] = {
    {"q_num_heads", MEMBER(q_num_heads), QUIRE_VALUE_TYPE_INT, true, 0, NULL},
    {"kv_num_heads", MEMBER(kv_num_heads), QUIRE_VALUE_TYPE_INT, true, 0, NULL},
    {"update_rule", MEMBER(update_rule), QUIRE_VALUE_TYPE_STRING, false, 0, "gated_delta"},
    {"scale", MEMBER(scale), QUIRE_VALUE_TYPE_FLOAT, false, 0, NULL},
    {"chunk_size", MEMBER(chunk_size), QUIRE_VALUE_TYPE_INT, false, 64, NULL},
    {"state_window", MEMBER(state_window), QUIRE_VALUE_TYPE_INT, false, 0, NULL},
    {"gate_activation", MEMBER(gate_activation), QUIRE_VALUE_TYPE_STRING, false, 0, "none"},
    {"beta_activation", MEMBER(beta_activation), QUIRE_VALUE_TYPE_STRING, false, 0, "none"},
    {"qk_l2_norm", MEMBER(qk_l2_norm), QUIRE_VALUE_TYPE_INT, false, 0, NULL},
    {"qk_l2_norm_epsilon", MEMBER(qk_l2_norm_epsilon), QUIRE_VALUE_TYPE_FLOAT, false, 1e-6, NULL},
    {"state_layout", MEMBER(state_layout), QUIRE_VALUE_TYPE_STRING, false, 0, "k_major"},
    {"head_mapping", MEMBER(head_mapping), QUIRE_VALUE_TYPE_STRING, false, 0, "blocked"},
};

const quire_call_description quire_call_linear_attention = {
    "com.microsoft.LinearAttention",
    sizeof(quire_linear_attention_args),
    MEMBER(workspace),
    MEMBER(executor),
    tensors,
    sizeof tensors / sizeof tensors[0],
    attributes,
    sizeof attributes / sizeof attributes[0],
};

/* The strict operator takes the same args; what it does not know must be at its default. */
const quire_call_description quire_call_onnx_linear_attention = {
    "ai.onnx.LinearAttention",
    sizeof(quire_linear_attention_args),
    MEMBER(workspace),
    MEMBER(executor),
    tensors,
    sizeof tensors / sizeof tensors[0],
    attributes,
    sizeof attributes / sizeof attributes[0],
};

void quire_linear_attention_args_init(quire_linear_attention_args *args) {
  quire_call_init(QUIRE_CALL_LINEAR_ATTENTION, args);
}

quire_status quire_linear_attention(quire_device *device, const quire_linear_attention_args *args,
                                    quire_error *error) {
  return quire_call(QUIRE_CALL_LINEAR_ATTENTION, device, args, error);
}

quire_status quire_onnx_linear_attention(quire_device *device,
                                         const quire_linear_attention_args *args,
                                         quire_error *error) {
  return quire_call(QUIRE_CALL_ONNX_LINEAR_ATTENTION, device, args, error);
}
