/* A plan or a refusal as JSON (docs: LANGUAGE.md sections 8 and 9, EXPLAIN.md). */
#include <string.h>

#include "planning.h"
#include "tuning.h"

static void put_key(quire_text *out, const char **separator, const char *key) {
  quire_text_put(out, *separator);
  quire_text_json_string(out, key, strlen(key));
  quire_text_put(out, ": ");
  *separator = ", ";
}

static void put_string(quire_text *out, const char *text) {
  quire_text_json_string(out, text, strlen(text));
}

static void put_member(quire_text *out, const char **separator, const char *key,
                       const char *value) {
  put_key(out, separator, key);
  put_string(out, value);
}

static void put_span(quire_text *out, quire_span span) {
  quire_text_json_string(out, span.text != NULL ? span.text : "", span.length);
}

/* ---- refusals ---- */

static void put_operands(quire_text *out, const quire_because *because) {
  const char *separator = "";
  quire_text_put(out, "{");
  for (size_t i = 0; i < because->operand_count; i++) {
    const quire_operand *operand = &because->operands[i];
    bool repeated = false;
    for (size_t j = 0; j < i && !repeated; j++) {
      quire_span other = because->operands[j].text;
      repeated = other.length == operand->text.length &&
                 memcmp(other.text, operand->text.text, other.length) == 0;
    }
    if (repeated) {
      continue;
    }
    quire_text_put(out, separator);
    put_span(out, operand->text);
    quire_text_put(out, ": ");
    if (operand->error != QUIRE_EXPR_OK) {
      quire_text_format(out, "{\"error\": \"%s\"}", quire_expr_code_name(operand->error));
    } else {
      quire_value_write_json(out, &operand->value);
    }
    separator = ", ";
  }
  quire_text_put(out, "}");
}

static void put_because(quire_text *out, const char **separator, const quire_because *because) {
  put_key(out, separator, "because");
  quire_text_put(out, "[");
  for (size_t i = 0; i < because->chain_length; i++) {
    quire_text_put(out, i > 0 ? ", " : "");
    put_span(out, because->chain[i]);
  }
  quire_text_put(out, "]");
  put_key(out, separator, "operands");
  put_operands(out, because);
}

static void put_rejected(quire_text *out, const quire_explanation *explanation) {
  quire_planning *p = explanation->p;
  const char *separator = "";
  quire_text_put(out, "{");
  for (size_t i = 0; i < p->manifest->variant_count; i++) {
    int32_t index = p->manifest->walk[i];
    const quire_verdict *verdict = &explanation->verdicts[index];
    if (verdict->obstacle == QUIRE_OBSTACLE_NONE) {
      continue;
    }
    const char *clause = quire_verdict_clause(p, verdict);
    if (clause == NULL) {
      out->failed = true;
      return;
    }
    put_key(out, &separator, p->manifest->variants[index].id);
    if (verdict->code == QUIRE_EXPR_OK) {
      put_string(out, clause);
      continue;
    }
    quire_text_put(out, "{\"clause\": ");
    put_string(out, clause);
    quire_text_format(out, ", \"error\": \"%s\", \"at\": ", quire_expr_code_name(verdict->code));
    quire_text_json_string(out, verdict->fault.at, verdict->fault.at_length);
    quire_text_put(out, "}");
  }
  quire_text_put(out, "}");
}

static void put_refusal(quire_text *out, const quire_explanation *explanation) {
  const quire_planning *p = explanation->p;
  const quire_refusal *refusal = &p->refusal;
  const char *separator = ", ";
  quire_text_put(out, "{\"refused\": true");
  put_member(out, &separator, "stage", refusal->stage);
  put_member(out, &separator, "failing", refusal->failing);
  put_member(out, &separator, "reason", refusal->reason);
  if (refusal->rule[0] != '\0') {
    put_member(out, &separator, "rule", refusal->rule);
    put_member(out, &separator, "status", quire_status_name(refusal->status));
  } else if (refusal->contract_subject != NULL) {
    put_member(out, &separator, "status", quire_status_name(refusal->status));
  }
  if (refusal->contract_subject != NULL) {
    put_member(out, &separator, "subject", refusal->contract_subject);
  }
  if (refusal->variant >= 0) {
    put_member(out, &separator, "variant", p->manifest->variants[refusal->variant].id);
  }
  if (refusal->explained) {
    put_because(out, &separator, &refusal->because);
  }
  if (refusal->code != QUIRE_EXPR_OK) {
    if (refusal->explained) {
      put_member(out, &separator, "error", quire_expr_code_name(refusal->code));
    }
    put_key(out, &separator, "at");
    put_span(out, refusal->at);
  }
  if (refusal->variant >= 0 && explanation->verdicts != NULL) {
    put_key(out, &separator, "rejected");
    put_rejected(out, explanation);
  }
  quire_text_put(out, "}\n");
}

/* ---- plans ---- */

static void put_outputs(quire_text *out, const quire_plan_description *plan) {
  const quire_manifest *manifest = plan->manifest;
  const char *separator = "";
  quire_text_put(out, "{");
  for (size_t i = 0; i < manifest->output_count; i++) {
    const quire_plan_tensor *tensor = &plan->outputs[i];
    if (!tensor->present) {
      continue;
    }
    bool in_place = manifest->keys[manifest->outputs[i].key_index].input >= 0;
    put_key(out, &separator, manifest->outputs[i].key);
    quire_text_format(out, "{\"dtype\": \"%s\", \"shape\": ", quire_dtype_name(tensor->dtype));
    quire_text_int_list(out, tensor->shape, tensor->ndim);
    quire_text_put(out,
                   in_place || tensor->alias >= 0 ? ", \"alias\": true" : ", \"alias\": false");
    if (!tensor->dense) {
      quire_text_put(out, ", \"strides\": ");
      quire_text_int_list(out, tensor->strides, tensor->ndim);
    }
    quire_text_put(out, "}");
  }
  quire_text_put(out, "}");
}

static void put_intermediates(quire_text *out, const quire_plan_description *plan) {
  const quire_manifest_variant *variant = &plan->manifest->variants[plan->variant];
  const char *separator = "";
  quire_text_put(out, "{");
  for (size_t i = 0; i < variant->intermediate_count; i++) {
    const quire_plan_intermediate *scratch = &plan->intermediates[i];
    put_key(out, &separator, scratch->id);
    quire_text_format(out, "{\"dtype\": \"%s\", \"shape\": ", quire_dtype_name(scratch->dtype));
    quire_text_int_list(out, scratch->shape, scratch->ndim);
    quire_text_put(out, ", \"elements\": ");
    quire_text_int(out, scratch->elements);
    quire_text_put(out, ", \"bytes\": ");
    quire_text_int(out, scratch->bytes);
    quire_text_put(out, scratch->zero_init ? ", \"zeroInit\": true" : "");
    quire_text_put(out, scratch->step ? ", \"lifetime\": \"step\"}" : "}");
  }
  quire_text_put(out, "}");
}

/* Types of native passes are the buffers' own: "float16". */
static const char *element_name(const quire_explanation *explanation,
                                const quire_plan_binding *binding) {
  if (binding->element != NULL) {
    return binding->element;
  }
  const quire_planning *p = explanation->p;
  return quire_dtype_name(quire_native_dtype(p, p->variant, binding->manifest));
}

static bool is_absent(const quire_explanation *explanation, const quire_plan_binding *binding) {
  return binding->index < 0 ||
         (binding->manifest->kind == QUIRE_BINDING_ARG &&
          !quire_planning_tensor(explanation->p, binding->manifest->source)->present);
}

static void put_bindings(quire_text *out, const quire_explanation *explanation,
                         const quire_plan_pass *pass) {
  const quire_manifest_variant *variant = quire_described_variant(explanation->description);
  const char *outer = "";
  quire_text_put(out, "[");
  for (size_t i = 0; i < pass->manifest->binding_count; i++) {
    const quire_plan_binding *binding = &pass->bindings[i];
    const quire_manifest_binding *manifest = binding->manifest;
    const char *separator = ", ";
    if (is_absent(explanation, binding)) {
      continue;
    }
    quire_text_put(out, outer);
    quire_text_format(out, "{\"binding\": %d", (int)binding->index);
    put_member(out, &separator, "name", manifest->name);
    if (manifest->kind == QUIRE_BINDING_UNIFORM) {
      quire_text_format(out, ", \"kind\": \"uniform\", \"bytes\": %u", (unsigned)binding->bytes);
    } else {
      put_member(out, &separator, "kind", manifest->kind == QUIRE_BINDING_ARG ? "arg" : "scratch");
      put_member(out, &separator, "source",
                 quire_manifest_source(explanation->p->manifest, variant, manifest));
      put_member(out, &separator, "access", manifest->writable ? "read_write" : "read");
      put_member(out, &separator, "elementType", element_name(explanation, binding));
    }
    quire_text_put(out, "}");
    outer = ", ";
  }
  quire_text_put(out, "]");
}

void quire_explain_write_fields(const quire_plan_binding *binding, quire_text *out) {
  const char *separator = "";
  quire_text_put(out, "{");
  for (size_t i = 0; i < binding->manifest->field_count; i++) {
    const quire_manifest_field *field = &binding->manifest->fields[i];
    put_key(out, &separator, field->name);
    if (field->type == QUIRE_FIELD_U32) {
      quire_text_int(out, binding->words[i].u);
    } else if (field->type == QUIRE_FIELD_I32) {
      quire_text_int(out, binding->words[i].i);
    } else {
      quire_text_double(out, (double)binding->words[i].f);
    }
  }
  quire_text_put(out, "}");
}

static void put_uniforms(quire_text *out, const quire_plan_pass *pass) {
  const char *separator = "";
  quire_text_put(out, "{");
  for (size_t i = 0; i < pass->manifest->binding_count; i++) {
    const quire_plan_binding *binding = &pass->bindings[i];
    if (binding->manifest->kind == QUIRE_BINDING_UNIFORM) {
      put_key(out, &separator, binding->manifest->name);
      quire_explain_write_fields(binding, out);
    }
  }
  quire_text_put(out, "}");
}

static void put_memo(quire_text *out, const quire_memo *memo) {
  if (memo->state == QUIRE_MEMO_DONE && memo->code == QUIRE_EXPR_OK) {
    quire_value_write_json(out, &memo->value);
    return;
  }
  /* Not even begun: it lies deeper than names may be nested. */
  quire_expr_code code = memo->state == QUIRE_MEMO_DONE ? memo->code : QUIRE_EXPR_LIMIT;
  quire_text_format(out, "{\"error\": \"%s\"}", quire_expr_code_name(code));
}

/* What a pass runs, and as what. */
static void put_code(quire_text *out, const char **separator, const quire_plan_pass *pass) {
  const quire_manifest_pass *manifest = pass->manifest;
  put_member(out, separator, "id", manifest->id);
  put_member(out, separator, "name", manifest->name);
  if (manifest->native != NULL) {
    put_member(out, separator, "native", manifest->native);
    if (pass->implementation != NULL) {
      put_member(out, separator, "implementation", pass->implementation->name);
    }
  } else {
    put_member(out, separator, "shader", manifest->shader);
  }
  if (manifest->schedule) {
    put_member(out, separator, "role", "schedule");
  }
}

static void put_pass(quire_text *out, const quire_explanation *explanation, size_t index) {
  const quire_plan_pass *pass = &explanation->description->passes[index];
  const quire_manifest_pass *manifest = pass->manifest;
  const char *separator = "";
  quire_text_put(out, "{");
  put_code(out, &separator, pass);
  put_key(out, &separator, "derived");
  quire_text_put(out, "{");
  const char *inner = "";
  for (size_t i = 0; i < manifest->derive.count; i++) {
    put_key(out, &inner, manifest->derive.names[i].name);
    put_memo(out, &explanation->pass_names[index][i]);
  }
  quire_text_put(out, "}");
  put_key(out, &separator, "bindings");
  put_bindings(out, explanation, pass);
  put_key(out, &separator, "uniforms");
  put_uniforms(out, pass);
  int64_t dispatch[3] = {pass->dispatch[0], pass->dispatch[1], pass->dispatch[2]};
  put_key(out, &separator, "dispatch");
  quire_text_int_list(out, dispatch, 3);
  if (manifest->grid >= 0) {
    put_member(out, &separator, "grid", explanation->description->intermediates[manifest->grid].id);
  }
  if (manifest->workgroup[0] != NULL) {
    put_key(out, &separator, "workgroup");
    quire_text_int_list(out, pass->workgroup, 3);
  }
  if (manifest->workgroup_bytes != NULL) {
    put_key(out, &separator, "workgroupBytes");
    quire_text_int(out, pass->workgroup_bytes);
  }
  quire_text_put(out, "}");
}

static int32_t find_name(const quire_manifest_layer *layer, const char *name) {
  for (size_t i = 0; i < layer->count; i++) {
    if (strcmp(layer->names[i].name, name) == 0) {
      return (int32_t)i;
    }
  }
  return -1;
}

/* Every name of the kernel and the variant, with the value that the variant sees. */
static void put_derived(quire_text *out, const quire_planning *p) {
  const quire_manifest_layer *kernel = &p->layers[QUIRE_LAYER_KERNEL];
  const quire_manifest_layer *variant = &p->layers[QUIRE_LAYER_VARIANT];
  const char *separator = "";
  quire_text_put(out, "{");
  for (size_t i = 0; i < kernel->count; i++) {
    if (find_name(variant, kernel->names[i].name) < 0) {
      put_key(out, &separator, kernel->names[i].name);
      put_memo(out, &p->memos[QUIRE_LAYER_KERNEL][i]);
    }
  }
  for (size_t i = 0; i < variant->count; i++) {
    put_key(out, &separator, variant->names[i].name);
    put_memo(out, &p->memos[QUIRE_LAYER_VARIANT][i]);
  }
  quire_text_put(out, "}");
}

/* {"tunables": {...}} if tuned values are in force, else {"reason": "..."}. */
static void put_tuned(quire_text *out, const quire_planning_tuned *tuned) {
  const char *separator = "";
  quire_text_put(out, "{");
  if (tuned->entry == NULL) {
    put_member(out, &separator, "reason", tuned->reason);
  } else {
    put_key(out, &separator, "tunables");
    separator = "";
    quire_text_put(out, "{");
    for (size_t i = 0; i < tuned->entry->tunable_count; i++) {
      const quire_value value = quire_named_value_read(&tuned->entry->tunables[i]);
      put_key(out, &separator, tuned->entry->tunables[i].name);
      quire_value_write_json(out, &value);
    }
    quire_text_put(out, "}");
  }
  quire_text_put(out, "}");
}

void quire_explain_write_json(const quire_explanation *explanation, quire_text *out) {
  const quire_plan_description *plan = explanation->description;
  if (plan == NULL) {
    put_refusal(out, explanation);
    return;
  }
  const quire_manifest_variant *variant = &plan->manifest->variants[plan->variant];
  const char *separator = "";
  quire_text_put(out, "{");
  put_member(out, &separator, "variant", variant->id);
  put_key(out, &separator, "outputs");
  put_outputs(out, plan);
  put_key(out, &separator, "intermediates");
  put_intermediates(out, plan);
  put_key(out, &separator, "passes");
  quire_text_put(out, "[");
  for (size_t i = 0; i < variant->pass_count; i++) {
    quire_text_put(out, i > 0 ? ", " : "");
    put_pass(out, explanation, i);
  }
  quire_text_put(out, "]");
  put_key(out, &separator, "derived");
  put_derived(out, explanation->p);
  if (explanation->p->tuned.entry != NULL || explanation->p->tuned.reason != NULL) {
    put_key(out, &separator, "tuned");
    put_tuned(out, &explanation->p->tuned);
  }
  quire_text_put(out, "}\n");
}
