/* A plan or a refusal for people (EXPLAIN.md, "Text output"). */
#include <string.h>

#include "planning.h"
#include "tuning.h"

/*
 * Ends the line that begins at byte `begin`. Its names are those of other people's files: a control
 * byte in them would be obeyed by a terminal, a line end would make a line of its own.
 */
static void end_line(quire_text *out, size_t begin) {
  for (size_t i = begin; i < out->length && !out->failed; i++) {
    unsigned char byte = (unsigned char)out->data[i];
    if (byte < 0x20 || byte == 0x7f) {
      out->data[i] = '?';
    }
  }
  quire_text_put(out, "\n");
}

static void put_span(quire_text *out, quire_span span) {
  quire_text_append(out, span.text != NULL ? span.text : "", span.length);
}

static void put_value(quire_text *out, const quire_operand *operand) {
  if (operand->error != QUIRE_EXPR_OK) {
    quire_text_format(out, "error %s", quire_expr_code_name(operand->error));
  } else if (operand->value.kind == QUIRE_VALUE_UNDEFINED) {
    quire_text_put(out, "undefined");
  } else {
    quire_value_write_json(out, &operand->value);
  }
}

/* "CHAIN > CHAIN  [operand = value, ...]" */
static void put_because(quire_text *out, const quire_because *because) {
  for (size_t i = 0; i < because->chain_length; i++) {
    quire_text_put(out, i > 0 ? " > " : "");
    put_span(out, because->chain[i]);
  }
  for (size_t i = 0; i < because->operand_count; i++) {
    quire_text_put(out, i > 0 ? ", " : "  [");
    put_span(out, because->operands[i].text);
    quire_text_put(out, " = ");
    put_value(out, &because->operands[i]);
  }
  quire_text_put(out, because->operand_count > 0 ? "]" : "");
}

/* ---- variants ---- */

/* The sibling that ranks higher, is eligible and not demoted; -1: none. */
static int32_t find_superseder(const quire_explanation *explanation, size_t place) {
  const quire_manifest *manifest = explanation->p->manifest;
  const quire_manifest_variant *variant = &manifest->variants[manifest->walk[place]];
  for (size_t i = 0; i < place; i++) {
    int32_t higher = manifest->walk[i];
    const quire_verdict *verdict = &explanation->verdicts[higher];
    for (size_t j = 0; j < variant->superseded_count; j++) {
      if (variant->superseded_by[j] == higher && verdict->obstacle == QUIRE_OBSTACLE_NONE &&
          !verdict->demoted) {
        return higher;
      }
    }
  }
  return -1;
}

static void put_eligible(quire_text *out, const quire_explanation *explanation, size_t place) {
  const quire_manifest *manifest = explanation->p->manifest;
  int32_t index = manifest->walk[place];
  int32_t superseder = find_superseder(explanation, place);
  if (explanation->p->variant == index) {
    quire_text_put(out, "selected");
  } else if (superseder >= 0) {
    quire_text_format(out, "superseded by %s", manifest->variants[superseder].id);
  } else {
    quire_text_put(out, "eligible");
  }
  quire_text_put(out, explanation->verdicts[index].demoted ? " (demoted)" : "");
}

static void put_rejected(quire_text *out, quire_planning *p, int32_t index,
                         const quire_verdict *verdict) {
  if (verdict->code != QUIRE_EXPR_OK) {
    size_t length = 0;
    const char *source = quire_expr_source(verdict->clause, &length);
    quire_text_format(out, "error %s in ", quire_expr_code_name(verdict->code));
    quire_text_append(out, source, length);
    quire_text_put(out, " at ");
    quire_text_append(out, verdict->fault.at, verdict->fault.at_length);
    return;
  }
  quire_because because;
  quire_text_put(out, "rejected because ");
  if (!quire_verdict_explain(p, index, verdict, &because)) {
    out->failed = true;
    return;
  }
  put_because(out, &because);
}

static void put_priority(quire_text *out, const quire_planning *p, double priority) {
  quire_text number;
  quire_text_init(&number, p->scratch->allocator);
  quire_text_double(&number, priority);
  quire_text_format(out, "%5s", quire_text_view(&number));
  out->failed = out->failed || number.failed;
  quire_text_release(&number);
}

static void put_variants(quire_text *out, const quire_explanation *explanation) {
  quire_planning *p = explanation->p;
  p->env.steps_left = QUIRE_PLAN_STEPS;
  for (size_t i = 0; i < p->manifest->variant_count; i++) {
    int32_t index = p->manifest->walk[i];
    const quire_manifest_variant *variant = &p->manifest->variants[index];
    const quire_verdict *verdict = &explanation->verdicts[index];
    size_t begin = out->length;
    put_priority(out, p, variant->priority);
    quire_text_format(out, " %-34s ", variant->id);
    if (verdict->obstacle == QUIRE_OBSTACLE_NONE) {
      put_eligible(out, explanation, i);
    } else {
      put_rejected(out, p, index, verdict);
    }
    end_line(out, begin);
  }
}

/* ---- refusals ---- */

static void put_refusal(quire_text *out, const quire_refusal *refusal) {
  size_t begin = out->length;
  quire_text_format(out, "refused (%s): %s: %s", refusal->stage, refusal->failing, refusal->reason);
  end_line(out, begin);
  begin = out->length;
  if (refusal->explained && refusal->code == QUIRE_EXPR_OK) {
    quire_text_put(out, "  because ");
    put_because(out, &refusal->because);
    end_line(out, begin);
  }
  if (refusal->code != QUIRE_EXPR_OK) {
    quire_text_format(out, "  error %s at ", quire_expr_code_name(refusal->code));
    put_span(out, refusal->at);
    end_line(out, begin);
  }
  begin = out->length;
  quire_text_format(out, "  %s: %s%s%s%s%s", quire_status_name(refusal->status), refusal->rule,
                    refusal->rule[0] != '\0' ? ": " : "", refusal->subject,
                    refusal->subject[0] != '\0' ? ": " : "", refusal->detail);
  end_line(out, begin);
}

/* ---- plans ---- */

static void put_tuned(quire_text *out, const quire_planning_tuned *tuned) {
  size_t begin = out->length;
  if (tuned->reason != NULL) {
    quire_text_format(out, "tuned values: none: %s", tuned->reason);
    end_line(out, begin);
  } else if (tuned->entry != NULL) {
    quire_text_put(out, "tuned values:");
    for (size_t i = 0; i < tuned->entry->tunable_count; i++) {
      const quire_value value = quire_named_value_read(&tuned->entry->tunables[i]);
      quire_text_format(out, " %s = ", tuned->entry->tunables[i].name);
      quire_value_write_json(out, &value);
    }
    quire_text_put(out, tuned->entry->tunable_count > 0 ? "" : " the defaults");
    end_line(out, begin);
  }
}

static void put_outputs(quire_text *out, const quire_plan_description *plan) {
  const quire_manifest *manifest = plan->manifest;
  for (size_t i = 0; i < manifest->output_count; i++) {
    const quire_plan_tensor *tensor = &plan->outputs[i];
    if (!tensor->present) {
      continue;
    }
    size_t begin = out->length;
    quire_text_format(out, "output %s %s ", manifest->outputs[i].key,
                      quire_dtype_name(tensor->dtype));
    quire_text_int_list(out, tensor->shape, tensor->ndim);
    if (!tensor->dense) {
      quire_text_put(out, " strides ");
      quire_text_int_list(out, tensor->strides, tensor->ndim);
    }
    if (manifest->keys[manifest->outputs[i].key_index].input >= 0) {
      quire_text_put(out, " (in place)");
    } else if (tensor->alias >= 0) {
      quire_text_format(out, " (the buffer of %s)", manifest->keys[tensor->alias].name);
    }
    end_line(out, begin);
  }
}

static void put_intermediates(quire_text *out, const quire_plan_description *plan) {
  const quire_manifest_variant *variant = &plan->manifest->variants[plan->variant];
  for (size_t i = 0; i < variant->intermediate_count; i++) {
    const quire_plan_intermediate *scratch = &plan->intermediates[i];
    size_t begin = out->length;
    quire_text_format(out, "scratch %s %s ", scratch->id, quire_dtype_name(scratch->dtype));
    quire_text_int_list(out, scratch->shape, scratch->ndim);
    quire_text_format(out, " %lld bytes%s%s", (long long)scratch->bytes,
                      scratch->zero_init ? ", zeroed" : "",
                      scratch->step ? ", kept for the step" : "");
    end_line(out, begin);
  }
}

static void put_binding(quire_text *out, const quire_explanation *explanation,
                        const quire_plan_pass *pass, const quire_plan_binding *binding) {
  const quire_planning *p = explanation->p;
  const quire_manifest_binding *manifest = binding->manifest;
  if (manifest->kind == QUIRE_BINDING_UNIFORM) {
    quire_text_format(out, "  %d uniform    %s ", (int)binding->index, manifest->name);
    quire_explain_write_fields(binding, out);
    return;
  }
  const char *source =
      quire_manifest_source(p->manifest, &p->manifest->variants[p->variant], manifest);
  if (manifest->kind == QUIRE_BINDING_ARG && !quire_planning_tensor(p, manifest->source)->present) {
    quire_text_format(out, "  - absent     %s <- %s", manifest->name, source);
    return;
  }
  const char *element = binding->element != NULL
                            ? binding->element
                            : quire_dtype_name(quire_native_dtype(p, p->variant, manifest));
  quire_text_format(out, "  %d %-10s %s: ", (int)binding->index,
                    manifest->writable ? "read_write" : "read", manifest->name);
  quire_text_format(out, pass->manifest->native != NULL ? "%s <- %s" : "array<%s> <- %s", element,
                    source);
}

/* The implementation in use, and why the others of its kernel are not. */
static void put_implementations(quire_text *out, quire_planning *p, const quire_plan_pass *pass) {
  const quire_registry *registry = p->target->registry;
  for (size_t list = 0; registry != NULL && list < registry->count; list++) {
    for (size_t i = 0; i < registry->lists[list].count; i++) {
      const quire_implementation *item = &registry->lists[list].items[i];
      if (strcmp(item->kernel, pass->manifest->native) != 0) {
        continue;
      }
      const char *why = quire_native_misfit(p, p->variant, pass->manifest, item);
      size_t begin = out->length;
      if (why == NULL) {
        out->failed = true;
      } else if (item == pass->implementation) {
        quire_text_format(out, "  uses %s (priority %d)", item->name, item->priority);
      } else if (why[0] != '\0') {
        quire_text_format(out, "  not %s: %s", item->name, why);
      } else {
        quire_text_format(out, "  not %s: its priority is %d", item->name, item->priority);
      }
      end_line(out, begin);
    }
  }
}

static void put_pass(quire_text *out, const quire_explanation *explanation,
                     const quire_plan_pass *pass) {
  const quire_manifest_pass *manifest = pass->manifest;
  size_t begin = out->length;
  quire_text_format(out, "pass %s %s%s dispatch %u x %u x %u", manifest->id,
                    manifest->native != NULL ? "native " : "",
                    manifest->native != NULL ? manifest->native : manifest->shader,
                    (unsigned)pass->dispatch[0], (unsigned)pass->dispatch[1],
                    (unsigned)pass->dispatch[2]);
  if (manifest->grid >= 0) {
    quire_text_format(out, " at most, as %s says",
                      explanation->description->intermediates[manifest->grid].id);
  }
  quire_text_put(out, manifest->schedule ? " (schedule)" : "");
  if (manifest->workgroup[0] != NULL) {
    quire_text_put(out, " workgroup ");
    quire_text_int_list(out, pass->workgroup, 3);
  }
  if (manifest->workgroup_bytes != NULL) {
    quire_text_format(out, " workgroup memory %lld bytes", (long long)pass->workgroup_bytes);
  }
  end_line(out, begin);
  if (manifest->native != NULL) {
    put_implementations(out, explanation->p, pass);
  }
  for (size_t i = 0; i < manifest->binding_count; i++) {
    size_t line = out->length;
    put_binding(out, explanation, pass, &pass->bindings[i]);
    end_line(out, line);
  }
}

void quire_explain_write_text(const quire_explanation *explanation, quire_text *out) {
  quire_planning *p = explanation->p;
  size_t begin = out->length;
  quire_text_format(out, "%s version %lld", p->manifest->qualified,
                    (long long)p->manifest->since_version);
  end_line(out, begin);
  if (explanation->description == NULL) {
    put_refusal(out, &p->refusal);
  }
  if (explanation->verdicts != NULL) {
    put_variants(out, explanation);
  }
  if (explanation->description == NULL) {
    return;
  }
  put_tuned(out, &explanation->p->tuned);
  put_outputs(out, explanation->description);
  put_intermediates(out, explanation->description);
  const quire_manifest_variant *variant = &p->manifest->variants[p->variant];
  for (size_t i = 0; i < variant->pass_count; i++) {
    put_pass(out, explanation, &explanation->description->passes[i]);
  }
}
