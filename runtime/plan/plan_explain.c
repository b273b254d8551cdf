/* What explanations show beyond the plan: every variant's verdict and every derived name's value.
 */
#include <string.h>

#include "planning.h"

static bool evaluate_names(quire_planning *p, int layer) {
  for (size_t i = 0; i < p->layers[layer].count; i++) {
    quire_ref ref = {QUIRE_REF_DERIVED, layer, (int32_t)i, 0};
    quire_value value = quire_value_undefined();
    quire_expr_fault fault = {0};
    if (p->env.load(&p->env, &ref, &value, &fault) == QUIRE_EXPR_MEMORY) {
      return false;
    }
  }
  return true;
}

static bool fill_verdicts(quire_explanation *explanation) {
  quire_planning *p = explanation->p;
  size_t count = p->manifest->variant_count;
  quire_verdict *verdicts = quire_arena_array(p->scratch, count, sizeof *verdicts);
  if (verdicts == NULL) {
    return false;
  }
  for (size_t i = 0; i < count; i++) {
    if (!quire_verdict_find(p, p->manifest->walk[i], &verdicts[p->manifest->walk[i]])) {
      return false;
    }
  }
  explanation->verdicts = verdicts;
  return true;
}

static bool fill_pass_names(quire_explanation *explanation) {
  quire_planning *p = explanation->p;
  const quire_manifest_variant *variant = &p->manifest->variants[p->variant];
  const quire_memo **names =
      quire_arena_array(p->scratch, variant->pass_count, sizeof(quire_memo *));
  if (names == NULL) {
    return false;
  }
  for (size_t i = 0; i < variant->pass_count; i++) {
    if (quire_planning_enter_pass(p, &variant->passes[i]) != QUIRE_OK ||
        !evaluate_names(p, QUIRE_LAYER_PASS)) {
      return false;
    }
    names[i] = p->memos[QUIRE_LAYER_PASS];
  }
  explanation->pass_names = names;
  return true;
}

bool quire_explanation_fill(quire_explanation *explanation) {
  quire_planning *p = explanation->p;
  const char *stage = p->refusal.stage;
  bool selected = p->variant >= 0 || (stage != NULL && strcmp(stage, "variants") == 0);
  p->env.steps_left = QUIRE_PLAN_STEPS;
  if (selected && !fill_verdicts(explanation)) {
    return false;
  }
  if (explanation->description == NULL) {
    return true;
  }
  p->env.steps_left = QUIRE_PLAN_STEPS;
  return evaluate_names(p, QUIRE_LAYER_KERNEL) && evaluate_names(p, QUIRE_LAYER_VARIANT) &&
         fill_pass_names(explanation);
}
