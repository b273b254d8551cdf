#include "ort_operators.h"

#include <limits.h>
#include <string.h>

static const quire_ort_kind kinds[QUIRE_ORT_KINDS] = {
    {
        .domain = "com.microsoft",
        .type = "PagedAttention",
        .least_version = 1,
        .most_version = INT_MAX,
        .name = "com.microsoft.PagedAttention",
        .inputs = {"query", "key", "value", "key_cache", "value_cache",
                   "cumulative_sequence_length", "past_seqlens", "block_table", "cos_cache",
                   "sin_cache", "slot_mapping", "head_sink", "q_norm_weight", "k_norm_weight",
                   "k_scale", "v_scale", "attention_metadata"},
        .outputs = {"output", "key_cache_out", "value_cache_out"},
        .fallback = QUIRE_ORT_FALLBACK_NONE,
    },
    {
        .domain = "com.microsoft",
        .type = "LinearAttention",
        .least_version = 1,
        .most_version = INT_MAX,
        .name = "com.microsoft.LinearAttention",
        .inputs = {"query", "key", "value", "past_state", "decay", "beta"},
        .outputs = {"output", "present_state"},
        .alias_output = "present_state",
        .alias_input = "past_state",
        .fallback = QUIRE_ORT_FALLBACK_FLOAT32,
    },
    {
        .domain = "",
        .type = "LinearAttention",
        .least_version = 27,
        .most_version = 27,
        .name = "ai.onnx.LinearAttention",
        .inputs = {"query", "key", "value", "past_state", "decay", "beta"},
        .outputs = {"output", "present_state"},
        .alias_output = "present_state",
        .alias_input = "past_state",
        .fallback = QUIRE_ORT_FALLBACK_ALWAYS,
    },
    {
        .domain = "com.microsoft",
        .type = "CausalConvWithState",
        .least_version = 1,
        .most_version = INT_MAX,
        .name = "com.microsoft.CausalConvWithState",
        .inputs = {"input", "weight", "bias", "past_state"},
        .outputs = {"output", "present_state"},
        .alias_output = "present_state",
        .alias_input = "past_state",
        .neutral = {"state_channels_last", -1}, /* the layout that channels_last says */
        .fallback = QUIRE_ORT_FALLBACK_FLOAT32,
    },
    {
        .domain = "",
        .type = "CausalConvWithState",
        .least_version = 27,
        .most_version = 27,
        .name = "ai.onnx.CausalConvWithState",
        .inputs = {"input", "weight", "bias", "past_state"},
        .outputs = {"output", "present_state"},
        .alias_output = "present_state",
        .alias_input = "past_state",
        .fallback = QUIRE_ORT_FALLBACK_ALWAYS,
    },
};

static int32_t position(const char *const *names, size_t count, const char *name) {
  for (size_t i = 0; name != NULL && i < count; i++) {
    if (strcmp(names[i], name) == 0) {
      return (int32_t)i;
    }
  }
  return -1;
}

static bool bind_inputs(quire_ort_binding *binding) {
  const quire_ort_kind *kind = binding->kind;
  size_t i = 0;
  for (; i < QUIRE_ORT_MOST_INPUTS && kind->inputs[i] != NULL; i++) {
    binding->input_slots[i] = quire_operator_find_slot(binding->op, kind->inputs[i], 0);
    if (binding->input_slots[i] < 0) {
      return false;
    }
  }
  binding->input_count = i;
  return true;
}

static bool bind_outputs(quire_ort_binding *binding) {
  const quire_ort_kind *kind = binding->kind;
  size_t i = 0;
  for (; i < QUIRE_ORT_MOST_OUTPUTS && kind->outputs[i] != NULL; i++) {
    int32_t slot = quire_operator_find_slot(binding->op, kind->outputs[i], 1);
    quire_slot facts;
    if (slot < 0 || quire_operator_slot(binding->op, (size_t)slot, &facts) != QUIRE_OK) {
      return false;
    }
    binding->output_slots[i] = slot;
    binding->in_place[i] = facts.alias >= 0;
    binding->alias[i] = -1;
    if (kind->alias_output != NULL && strcmp(kind->alias_output, kind->outputs[i]) == 0) {
      binding->alias[i] = position(kind->inputs, binding->input_count, kind->alias_input);
    }
  }
  binding->output_count = i;
  return true;
}

OrtStatus *quire_ort_bind(const quire_ort_runtime *runtime, const quire_context *context,
                          quire_ort_binding bindings[QUIRE_ORT_KINDS]) {
  for (size_t i = 0; i < QUIRE_ORT_KINDS; i++) {
    quire_ort_binding *binding = &bindings[i];
    memset(binding, 0, sizeof *binding);
    binding->kind = &kinds[i];
    binding->op = quire_context_find_operator(context, kinds[i].name);
    binding->slot_count = quire_operator_slot_count(binding->op);
    if (binding->op == NULL || binding->slot_count > QUIRE_ORT_MOST_SLOTS ||
        !bind_inputs(binding) || !bind_outputs(binding)) {
      return quire_ort_fail(runtime, ORT_FAIL, "Quire %s has another %s than its provider expects",
                            quire_version(), kinds[i].name);
    }
  }
  return NULL;
}

const quire_ort_binding *quire_ort_find(const quire_ort_binding bindings[QUIRE_ORT_KINDS],
                                        const char *domain, const char *type, int since_version) {
  for (size_t i = 0; i < QUIRE_ORT_KINDS; i++) {
    const quire_ort_kind *kind = bindings[i].kind;
    if (strcmp(kind->type, type) == 0 && strcmp(kind->domain, domain) == 0 &&
        kind->least_version <= since_version && since_version <= kind->most_version) {
      return &bindings[i];
    }
  }
  return NULL;
}
