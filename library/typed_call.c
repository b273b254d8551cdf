/* The body of every typed call: args -> key -> plan -> workspace -> run. */
#include "typed_call.h"

#include <string.h>

#include "call_cache.h"
#include "call_key.h"
#include "error.h"

enum { MOST_SLOTS = 48 };

const quire_call_description *quire_call_describe(quire_call_kind kind) {
  static const quire_call_description *const descriptions[QUIRE_CALL_KIND_COUNT] = {
      [QUIRE_CALL_PAGED_ATTENTION] = &quire_call_paged_attention,
      [QUIRE_CALL_LINEAR_ATTENTION] = &quire_call_linear_attention,
      [QUIRE_CALL_ONNX_LINEAR_ATTENTION] = &quire_call_onnx_linear_attention,
      [QUIRE_CALL_PAGED_DECODE] = &quire_call_paged_decode,
      [QUIRE_CALL_MERGE_ATTENTION_STATES] = &quire_call_merge_attention_states,
      [QUIRE_CALL_CAUSAL_CONV_WITH_STATE] = &quire_call_causal_conv_with_state,
      [QUIRE_CALL_ONNX_CAUSAL_CONV_WITH_STATE] = &quire_call_onnx_causal_conv_with_state,
      [QUIRE_CALL_LINEAR_ATTENTION_REPLAY] = &quire_call_linear_attention_replay,
  };
  return descriptions[kind];
}

/* ---- members of an args struct ---- */

/* One call on its way: what the functions below share. */
typedef struct call_state {
  const quire_call_description *description;
  const quire_call_binding *binding;
  const unsigned char *args;
  quire_error *error;
} call_state;

static const quire_tensor *tensor_at(const call_state *call, size_t index) {
  return (const quire_tensor *)(const void *)(call->args +
                                              call->description->tensors[index].offset);
}

static int64_t int_at(const call_state *call, const quire_call_attribute *attribute) {
  return *(const int64_t *)(const void *)(call->args + attribute->offset);
}

static float float_at(const call_state *call, const quire_call_attribute *attribute) {
  return *(const float *)(const void *)(call->args + attribute->offset);
}

static const char *text_at(const call_state *call, const quire_call_attribute *attribute) {
  const char *text = *(const char *const *)(const void *)(call->args + attribute->offset);
  return text == NULL ? attribute->text : text;
}

static quire_workspace *workspace_of(const call_state *call) {
  return *(quire_workspace *const *)(const void *)(call->args +
                                                   call->description->workspace_offset);
}

static const quire_executor *executor_of(const call_state *call) {
  return *(const quire_executor *const *)(const void *)(call->args +
                                                        call->description->executor_offset);
}

void quire_call_init(quire_call_kind kind, void *args) {
  if (args == NULL) {
    return;
  }
  const quire_call_description *description = quire_call_describe(kind);
  unsigned char *bytes = args;
  memset(args, 0, description->args_size);
  *(size_t *)args = description->args_size;
  for (size_t i = 0; i < description->attribute_count; i++) {
    const quire_call_attribute *attribute = &description->attributes[i];
    void *member = bytes + attribute->offset;
    if (attribute->type == QUIRE_VALUE_TYPE_INT) {
      *(int64_t *)member = (int64_t)attribute->number;
    } else if (attribute->type == QUIRE_VALUE_TYPE_FLOAT) {
      *(float *)member = (float)attribute->number;
    } else {
      *(const char **)member = attribute->text;
    }
  }
}

/* ---- binding ---- */

bool quire_call_bind(quire_call_kind kind, const quire_operator *op, quire_call_binding *binding) {
  const quire_call_description *description = quire_call_describe(kind);
  memset(binding, 0, sizeof *binding);
  binding->op = op;
  if (op == NULL) {
    return true;
  }
  for (size_t i = 0; i < description->tensor_count; i++) {
    const quire_call_tensor *tensor = &description->tensors[i];
    binding->slots[i] = quire_operator_find_slot(op, tensor->name, tensor->is_output);
  }
  for (size_t i = 0; i < description->attribute_count; i++) {
    int32_t declared = quire_manifest_find_attribute(op->manifest, description->attributes[i].name);
    binding->bucket[i] = declared >= 0 && op->manifest->attributes[declared].bucket_pow2;
  }
  return quire_operator_slot_count(op) <= MOST_SLOTS;
}

/* ---- key ---- */

static bool has_no_elements(const quire_tensor *tensor) {
  for (int32_t d = 0; d < tensor->ndim; d++) {
    if (tensor->shape[d] == 0) {
      return true;
    }
  }
  return false;
}

/* Checks what must hold before a tensor's members may be looked at, and whether it is there. */
static quire_status check_tensor(const call_state *call, size_t index, bool *present) {
  const quire_tensor *tensor = tensor_at(call, index);
  const char *name = call->description->tensors[index].name;
  *present = false;
  if (tensor->data == NULL && tensor->dtype == QUIRE_DTYPE_NONE) {
    return QUIRE_OK;
  }
  if (tensor->dtype <= QUIRE_DTYPE_NONE || tensor->dtype >= QUIRE_DTYPE_COUNT) {
    return quire_fail(call->error, QUIRE_BAD_TYPE, NULL, name, "dtype %d is no element type",
                      (int)tensor->dtype);
  }
  if (tensor->ndim < 0 || tensor->ndim > QUIRE_MAX_RANK) {
    return quire_fail(call->error, QUIRE_BAD_RANK, NULL, name, "rank is %d, not in 0 to %d",
                      (int)tensor->ndim, (int)QUIRE_MAX_RANK);
  }
  if (tensor->ndim > 0 && tensor->shape == NULL) {
    return quire_fail(call->error, QUIRE_BAD_REQUEST, NULL, name, "shape is NULL, rank is %d",
                      (int)tensor->ndim);
  }
  *present = tensor->data != NULL || has_no_elements(tensor);
  if (*present && call->binding->slots[index] < 0) {
    return quire_fail(call->error, QUIRE_UNSUPPORTED, NULL, name, "%s has no such tensor",
                      call->description->op);
  }
  return QUIRE_OK;
}

/* True if an output is the very buffer of the input that it may share one with. */
static bool shares_buffer(const call_state *call, size_t index) {
  int alias = call->description->tensors[index].alias;
  if (alias < 0) {
    return false;
  }
  const quire_tensor *output = tensor_at(call, index);
  const quire_tensor *input = tensor_at(call, (size_t)alias);
  return output->data != NULL && output->data == input->data &&
         output->byte_offset == input->byte_offset;
}

static quire_status add_tensor(const call_state *call, size_t index, quire_call_key *key) {
  bool present;
  QUIRE_TRY(check_tensor(call, index, &present));
  if (!present) {
    return QUIRE_OK;
  }
  const quire_tensor *tensor = tensor_at(call, index);
  uint64_t strided = tensor->strides != NULL && tensor->ndim > 0;
  uint64_t shared = shares_buffer(call, index);
  quire_call_key_add(key, (index + 1) | (uint64_t)tensor->dtype << 8 |
                              (uint64_t)tensor->ndim << 16 | strided << 24 | shared << 25);
  quire_call_key_add_many(key, tensor->shape, (size_t)tensor->ndim);
  if (strided) {
    quire_call_key_add_many(key, tensor->strides, (size_t)tensor->ndim);
  }
  return QUIRE_OK;
}

/* Bounds enter plans rounded up to a power of two, so that they do not make a plan a token. */
static int64_t bucketed(int64_t value) {
  int64_t power = 1;
  while (power < value && power <= INT64_MAX / 2) {
    power *= 2;
  }
  return value > 0 && power >= value ? power : value;
}

static quire_status add_attribute(const call_state *call, size_t index, quire_call_key *key) {
  const quire_call_attribute *attribute = &call->description->attributes[index];
  if (attribute->type == QUIRE_VALUE_TYPE_INT) {
    int64_t value = int_at(call, attribute);
    quire_call_key_add(key, (uint64_t)(call->binding->bucket[index] ? bucketed(value) : value));
  } else if (attribute->type == QUIRE_VALUE_TYPE_FLOAT) {
    float value = float_at(call, attribute);
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    quire_call_key_add(key, bits);
  } else {
    const char *text = text_at(call, attribute);
    const char *end = memchr(text, 0, QUIRE_CALL_TEXT_SIZE);
    if (end == NULL) {
      return quire_fail(call->error, QUIRE_BAD_ATTRIBUTE, NULL, attribute->name,
                        "is longer than %d bytes", (int)QUIRE_CALL_TEXT_SIZE - 1);
    }
    quire_call_key_add_text(key, text, (size_t)(end - text));
  }
  return QUIRE_OK;
}

static quire_status make_key(const call_state *call, quire_call_kind kind, quire_call_key *key) {
  quire_call_key_begin(key);
  quire_call_key_add(key, (uint64_t)kind);
  for (size_t i = 0; i < call->description->tensor_count; i++) {
    QUIRE_TRY(add_tensor(call, i, key));
  }
  quire_call_key_add(key, 0); /* no tensor's first word: ends the list */
  for (size_t i = 0; i < call->description->attribute_count; i++) {
    QUIRE_TRY(add_attribute(call, i, key));
  }
  if (key->count > QUIRE_CALL_KEY_WORDS) {
    return quire_fail(call->error, QUIRE_INTERNAL, NULL, call->description->op,
                      "the call's key takes %zu words", key->count);
  }
  quire_call_key_end(key);
  return QUIRE_OK;
}

/* ---- planning: the slow path ---- */

typedef struct call_request {
  quire_request request;
  quire_request_tensor inputs[QUIRE_CALL_MOST_TENSORS];
  quire_request_tensor outputs[QUIRE_CALL_MOST_TENSORS];
  quire_named_value attributes[QUIRE_CALL_MOST_ATTRIBUTES];
} call_request;

static void request_tensors(const call_state *call, call_request *out) {
  const quire_call_description *description = call->description;
  for (size_t i = 0; i < description->tensor_count; i++) {
    const quire_call_tensor *member = &description->tensors[i];
    const quire_tensor *tensor = tensor_at(call, i);
    if (tensor->data == NULL && (tensor->dtype == QUIRE_DTYPE_NONE || !has_no_elements(tensor))) {
      continue;
    }
    quire_request_tensor *entry = member->is_output ? &out->outputs[out->request.output_count++]
                                                    : &out->inputs[out->request.input_count++];
    entry->name = member->name;
    entry->dtype = tensor->dtype;
    entry->ndim = tensor->ndim;
    entry->shape = tensor->shape;
    entry->strides = tensor->strides;
    entry->alias = shares_buffer(call, i) ? description->tensors[member->alias].name : NULL;
  }
}

/* Attributes at their default are left out: an operator need not know them then. */
static void request_attributes(const call_state *call, call_request *out) {
  const quire_call_description *description = call->description;
  for (size_t i = 0; i < description->attribute_count; i++) {
    const quire_call_attribute *attribute = &description->attributes[i];
    quire_named_value value = {attribute->name, attribute->type, 0, 0, NULL};
    bool is_default;
    if (attribute->type == QUIRE_VALUE_TYPE_INT) {
      value.i = int_at(call, attribute);
      is_default = value.i == (int64_t)attribute->number;
    } else if (attribute->type == QUIRE_VALUE_TYPE_FLOAT) {
      float number = float_at(call, attribute);
      value.f = (double)number;
      is_default = number == (float)attribute->number;
    } else {
      value.s = text_at(call, attribute);
      is_default = strcmp(value.s, attribute->text) == 0;
    }
    if (attribute->required || !is_default) {
      out->attributes[out->request.attribute_count++] = value;
    }
  }
}

/* A plan may have an output that the args left out, since outputs need not be listed. */
static quire_status check_outputs(const call_state *call, const quire_plan *plan) {
  const quire_call_description *description = call->description;
  for (size_t i = 0; i < description->tensor_count; i++) {
    const quire_call_tensor *member = &description->tensors[i];
    int32_t slot = call->binding->slots[i];
    const quire_tensor *given = tensor_at(call, i);
    quire_slot facts;
    quire_tensor form;
    if (!member->is_output || slot < 0 || given->data != NULL ||
        quire_operator_slot(call->binding->op, (size_t)slot, &facts) != QUIRE_OK ||
        facts.alias >= 0 || quire_plan_slot(plan, (size_t)slot, &form) != QUIRE_OK) {
      continue;
    }
    bool given_empty = given->dtype != QUIRE_DTYPE_NONE && has_no_elements(given);
    if (form.dtype != QUIRE_DTYPE_NONE && !given_empty) {
      return quire_fail(call->error, QUIRE_BAD_PRESENCE,
                        call->binding->op->manifest->rules[QUIRE_RULE_PRESENCE], member->name,
                        "is required, data is NULL");
    }
  }
  return QUIRE_OK;
}

static quire_status make_plan(const call_state *call, quire_device *device, quire_plan **plan) {
  call_request storage;
  quire_request_init(&storage.request);
  storage.request.inputs = storage.inputs;
  storage.request.outputs = storage.outputs;
  storage.request.attributes = storage.attributes;
  request_tensors(call, &storage);
  request_attributes(call, &storage);
  QUIRE_TRY(quire_plan_create(device, call->binding->op, &storage.request, plan, call->error));
  quire_status status = check_outputs(call, *plan);
  if (status != QUIRE_OK) {
    quire_plan_release(*plan);
    *plan = NULL;
  }
  return status;
}

/* ---- the call ---- */

static quire_status run(const call_state *call, quire_plan *plan, quire_workspace *workspace) {
  static const quire_tensor absent = {NULL, 0, QUIRE_DTYPE_NONE, 0, NULL, NULL};
  quire_tensor tensors[MOST_SLOTS];
  size_t slot_count = quire_operator_slot_count(call->binding->op);
  for (size_t i = 0; i < slot_count; i++) {
    tensors[i] = absent;
  }
  for (size_t i = 0; i < call->description->tensor_count; i++) {
    int32_t slot = call->binding->slots[i];
    if (slot >= 0) {
      tensors[slot] = *tensor_at(call, i);
    }
  }
  quire_run_options options;
  quire_run_options_init(&options);
  options.executor = executor_of(call);
  options.flags = QUIRE_RUN_STRICT;
  return quire_plan_run(plan, tensors, slot_count, workspace, &options, call->error);
}

static quire_status check_call(const call_state *call, const quire_device *device) {
  if (device == NULL || call->args == NULL) {
    return quire_fail(call->error, QUIRE_BAD_REQUEST, NULL, device == NULL ? "device" : "args",
                      "is NULL");
  }
  size_t struct_size = *(const size_t *)(const void *)call->args;
  if (struct_size < call->description->args_size) {
    return quire_fail(call->error, QUIRE_BAD_REQUEST, NULL, "args",
                      "struct_size is %zu, at least %zu is needed", struct_size,
                      call->description->args_size);
  }
  return QUIRE_OK;
}

quire_status quire_call(quire_call_kind kind, quire_device *device, const void *args,
                        quire_error *error) {
  call_state call = {quire_call_describe(kind), NULL, args, error};
  QUIRE_TRY(check_call(&call, device));
  quire_call_cache *cache = device->calls;
  call.binding = quire_call_cache_binding(cache, kind);
  if (call.binding->op == NULL) {
    return quire_fail(error, QUIRE_NOT_FOUND, NULL, call.description->op, "not in this build");
  }
  quire_call_key key;
  QUIRE_TRY(make_key(&call, kind, &key));

  quire_workspace *own = workspace_of(&call);
  quire_workspace *workspace = own;
  quire_plan *plan = quire_call_cache_find(cache, &key, &workspace);
  if (plan == NULL) {
    QUIRE_TRY(make_plan(&call, device, &plan));
    plan = quire_call_cache_insert(cache, &key, plan);
  }
  quire_status status = QUIRE_OK;
  if (workspace == NULL) {
    status = quire_call_cache_workspace(cache, &workspace, error);
  }
  if (status == QUIRE_OK) {
    status = run(&call, plan, workspace);
  }
  if (own == NULL) {
    quire_call_cache_give_back(cache, workspace);
  }
  quire_plan_release(plan);
  return status;
}
