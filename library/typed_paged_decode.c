#include "typed_call.h"

#define MEMBER(name) offsetof(quire_paged_decode_args, name)

static const quire_call_tensor tensors[] = {
    {"query", MEMBER(query), false, -1},
    {"key_pages", MEMBER(key_pages), false, -1},
    {"value_pages", MEMBER(value_pages), false, -1},
    {"page_table", MEMBER(page_table), false, -1},
    {"context_lengths", MEMBER(context_lengths), false, -1},
    {"key_scales", MEMBER(key_scales), false, -1},
    {"value_scales", MEMBER(value_scales), false, -1},
    {"head_sink", MEMBER(head_sink), false, -1},
    {"output", MEMBER(output), true, -1},
    {"softmax_lse", MEMBER(softmax_lse), true, -1},
};

static const quire_call_attribute attributes[] = {
    {"scale", MEMBER(scale), QUIRE_VALUE_TYPE_FLOAT, true, 0, NULL},
    {"partial_blocks", MEMBER(partial_blocks), QUIRE_VALUE_TYPE_INT, false, 0, NULL},
    {"context_bound", MEMBER(context_bound), QUIRE_VALUE_TYPE_INT, false, 0, NULL},
    {"local_window_size", MEMBER(local_window_size), QUIRE_VALUE_TYPE_INT, false, -1, NULL},
};

const quire_call_description quire_call_paged_decode = {
    "quire.PagedDecode",
    sizeof(quire_paged_decode_args),
    MEMBER(workspace),
    MEMBER(executor),
    tensors,
    sizeof tensors / sizeof tensors[0],
    attributes,
    sizeof attributes / sizeof attributes[0],
};

void quire_paged_decode_args_init(quire_paged_decode_args *args) {
  quire_call_init(QUIRE_CALL_PAGED_DECODE, args);
}

quire_status quire_paged_decode(quire_device *device, const quire_paged_decode_args *args,
                                quire_error *error) {
  return quire_call(QUIRE_CALL_PAGED_DECODE, device, args, error);
}
