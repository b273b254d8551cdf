#include "typed_call.h"

#define MEMBER(name) offsetof(quire_merge_attention_states_args, name)

static const quire_call_tensor tensors[] = {
    {"output_a", MEMBER(output_a), false, -1}, {"softmax_lse_a", MEMBER(softmax_lse_a), false, -1},
    {"output_b", MEMBER(output_b), false, -1}, {"softmax_lse_b", MEMBER(softmax_lse_b), false, -1},
    {"output", MEMBER(output), true, -1},      {"softmax_lse", MEMBER(softmax_lse), true, -1},
};

const quire_call_description quire_call_merge_attention_states = {
    "quire.MergeAttentionStates",
    sizeof(quire_merge_attention_states_args),
    MEMBER(workspace),
    MEMBER(executor),
    tensors,
    sizeof tensors / sizeof tensors[0],
    NULL,
    0,
};

void quire_merge_attention_states_args_init(quire_merge_attention_states_args *args) {
  quire_call_init(QUIRE_CALL_MERGE_ATTENTION_STATES, args);
}

quire_status quire_merge_attention_states(quire_device *device,
                                          const quire_merge_attention_states_args *args,
                                          quire_error *error) {
  return quire_call(QUIRE_CALL_MERGE_ATTENTION_STATES, device, args, error);
}
