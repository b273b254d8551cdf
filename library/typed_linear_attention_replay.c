#include "typed_call.h"

#define MEMBER(name) offsetof(quire_linear_attention_replay_args, name)

static const quire_call_tensor tensors[] = {
    {"log_key", MEMBER(log_key), false, -1},
    {"log_value", MEMBER(log_value), false, -1},
    {"log_decay", MEMBER(log_decay), false, -1},
    {"accepted", MEMBER(accepted), false, -1},
    {"past_state", MEMBER(past_state), false, -1},
    {"cu_seqlens", MEMBER(cu_seqlens), false, -1},
    {"state_pool", MEMBER(state_pool), false, -1},
    {"read_indices", MEMBER(read_indices), false, -1},
    {"write_indices", MEMBER(write_indices), false, -1},
    {"present_state", MEMBER(present_state), true, 4},
    {"state_pool_out", MEMBER(state_pool_out), true, 6},
};

static const quire_call_attribute attributes[] = {
    {"kv_num_heads", MEMBER(kv_num_heads), QUIRE_VALUE_TYPE_INT, true, 0, NULL},
    {"key_num_heads", MEMBER(key_num_heads), QUIRE_VALUE_TYPE_INT, false, 0, NULL},
    {"state_layout", MEMBER(state_layout), QUIRE_VALUE_TYPE_STRING, false, 0, "k_major"},
    {"head_mapping", MEMBER(head_mapping), QUIRE_VALUE_TYPE_STRING, false, 0, "blocked"},
};

const quire_call_description quire_call_linear_attention_replay = {
    "quire.LinearAttentionReplay",
    sizeof(quire_linear_attention_replay_args),
    MEMBER(workspace),
    MEMBER(executor),
    tensors,
    sizeof tensors / sizeof tensors[0],
    attributes,
    sizeof attributes / sizeof attributes[0],
};

void quire_linear_attention_replay_args_init(quire_linear_attention_replay_args *args) {
  quire_call_init(QUIRE_CALL_LINEAR_ATTENTION_REPLAY, args);
}

quire_status quire_linear_attention_replay(quire_device *device,
                                           const quire_linear_attention_replay_args *args,
                                           quire_error *error) {
  return quire_call(QUIRE_CALL_LINEAR_ATTENTION_REPLAY, device, args, error);
}
