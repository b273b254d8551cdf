/* The contract: rules with ids and statuses of their own, checked before selection (section 15). */
#include <string.h>

#include "planning.h"

/* The operator's name of what a rule is about: manifests write tensor keys. */
static const char *operator_name(const quire_manifest *manifest, const char *subject) {
  int32_t key = quire_manifest_find_key(manifest, subject);
  if (key < 0) {
    return subject;
  }
  const quire_manifest_key *record = &manifest->keys[key];
  return record->input >= 0 ? manifest->inputs[record->input].onnx
                            : manifest->outputs[record->output].onnx;
}

static quire_status refuse(quire_planning *p, const quire_manifest_contract *contract,
                           const quire_value *value, quire_expr_code code,
                           const quire_expr_fault *fault) {
  size_t length = 0;
  const char *source = quire_expr_source(contract->require, &length);
  const char *failing = quire_planning_format(p, "%.*s", (int)length, source);
  quire_refusal refusal = {.stage = "contract",
                           .failing = failing,
                           .reason = "false",
                           .status = contract->rule.status,
                           .rule = contract->rule.rule,
                           .subject = operator_name(p->manifest, contract->subject),
                           .variant = -1,
                           .explained = true,
                           .contract_subject = contract->subject};
  if (refusal.status == QUIRE_OK) {
    refusal.status = QUIRE_BAD_SHAPE;
  }
  if (failing == NULL || code == QUIRE_EXPR_MEMORY) {
    return quire_refuse(p, &(quire_refusal){.status = QUIRE_OUT_OF_MEMORY});
  }
  if (code != QUIRE_EXPR_OK) {
    quire_span *chain = quire_arena_array(p->scratch, 1, sizeof *chain);
    if (chain == NULL) {
      return quire_refuse(p, &(quire_refusal){.status = QUIRE_OUT_OF_MEMORY});
    }
    *chain = (quire_span){source, length};
    refusal.because = (quire_because){chain, 1, NULL, 0};
    refusal.reason = "error";
    refusal.code = code;
    refusal.at = (quire_span){fault->at, fault->at_length};
    refusal.detail =
        quire_planning_format(p, "%s: error \"%s\" in %.*s", failing, quire_expr_code_name(code),
                              (int)fault->at_length, fault->at);
    return quire_refuse(p, &refusal);
  }
  p->env.steps_left = QUIRE_PLAN_STEPS;
  if (!quire_expr_explain(contract->require, &p->env, &refusal.because)) {
    return quire_refuse(p, &(quire_refusal){.status = QUIRE_OUT_OF_MEMORY});
  }
  refusal.detail = quire_because_sentence(p, &refusal.because, value);
  return quire_refuse(p, &refusal);
}

quire_status quire_planning_check_contract(quire_planning *p) {
  for (size_t i = 0; i < p->manifest->contract_count; i++) {
    const quire_manifest_contract *contract = &p->manifest->contract[i];
    quire_value value = quire_value_undefined();
    quire_expr_fault fault = {0};
    quire_expr_code code = quire_expr_evaluate(contract->require, &p->env, &value, &fault);
    if (code != QUIRE_EXPR_OK || value.kind != QUIRE_VALUE_BOOLEAN || !value.as.boolean) {
      return refuse(p, contract, &value, code, &fault);
    }
  }
  return QUIRE_OK;
}
