#include "typed_call.h"

#define MEMBER(name) offsetof(quire_causal_conv_with_state_args, name)

static const quire_call_tensor tensors[] = {
    {"input", MEMBER(input), false, -1},
    {"weight", MEMBER(weight), false, -1},
    {"bias", MEMBER(bias), false, -1},
    {"past_state", MEMBER(past_state), false, -1},
    {"cu_seqlens", MEMBER(cu_seqlens), false, -1},
    {"state_pool", MEMBER(state_pool), false, -1},
    {"read_indices", MEMBER(read_indices), false, -1},
    {"write_indices", MEMBER(write_indices), false, -1},
    {"output", MEMBER(output), true, -1},
    {"present_state", MEMBER(present_state), true, 3},
    {"state_pool_out", MEMBER(state_pool_out), true, 5},
};

static const quire_call_attribute attributes[] = {
    {"activation", MEMBER(activation), QUIRE_VALUE_TYPE_STRING, false, 0, "none"},
    {"ndim", MEMBER(ndim), QUIRE_VALUE_TYPE_INT, false, 1, NULL},
    {"dilation", MEMBER(dilation), QUIRE_VALUE_TYPE_INT, false, 1, NULL},
    {"channels_last", MEMBER(channels_last), QUIRE_VALUE_TYPE_INT, false, 0, NULL},
    {"state_window", MEMBER(state_window), QUIRE_VALUE_TYPE_INT, false, 0, NULL},
};

#define DESCRIPTION(op)                                                                           \
  {                                                                                               \
    op, sizeof(quire_causal_conv_with_state_args), MEMBER(workspace), MEMBER(executor), tensors,  \
        sizeof tensors / sizeof tensors[0], attributes, sizeof attributes / sizeof attributes[0], \
  }

const quire_call_description quire_call_causal_conv_with_state =
    DESCRIPTION("com.microsoft.CausalConvWithState");

/* The strict operator takes the same args; what it does not know must be at its default. */
const quire_call_description quire_call_onnx_causal_conv_with_state =
    DESCRIPTION("ai.onnx.CausalConvWithState");

void quire_causal_conv_with_state_args_init(quire_causal_conv_with_state_args *args) {
  quire_call_init(QUIRE_CALL_CAUSAL_CONV_WITH_STATE, args);
}

quire_status quire_causal_conv_with_state(quire_device *device,
                                          const quire_causal_conv_with_state_args *args,
                                          quire_error *error) {
  return quire_call(QUIRE_CALL_CAUSAL_CONV_WITH_STATE, device, args, error);
}

quire_status quire_onnx_causal_conv_with_state(quire_device *device,
                                               const quire_causal_conv_with_state_args *args,
                                               quire_error *error) {
  return quire_call(QUIRE_CALL_ONNX_CAUSAL_CONV_WITH_STATE, device, args, error);
}
