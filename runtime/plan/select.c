/* Step 4: the walk over the variants, and the refusal if none is eligible (LANGUAGE.md 8.1). */
#include <string.h>

#include "planning.h"

/* Refuses for want of a variant, with the first obstacle of `index`. */
static quire_status refuse(quire_planning *p, int32_t index, const quire_verdict *verdict,
                           bool insisted) {
  const char *id = p->manifest->variants[index].id;
  quire_refusal refusal = {.stage = "variants",
                           .failing = quire_verdict_clause(p, verdict),
                           .reason = quire_verdict_reason(verdict),
                           .status = QUIRE_UNSUPPORTED,
                           .variant = index,
                           .explained = true,
                           .code = verdict->code,
                           .at = {verdict->fault.at, verdict->fault.at_length}};
  p->env.steps_left = QUIRE_PLAN_STEPS;
  if (refusal.failing == NULL || !quire_verdict_explain(p, index, verdict, &refusal.because)) {
    return quire_refuse(p, &(quire_refusal){.status = QUIRE_OUT_OF_MEMORY});
  }
  const char *why = quire_verdict_sentence(p, index, verdict, &refusal.because, refusal.failing);
  if (why != NULL) {
    refusal.detail = insisted
                         ? quire_planning_format(p, "variant %s of %s is not possible: %s", id,
                                                 p->manifest->qualified, why)
                         : quire_planning_format(p, "no variant of %s fits; the nearest, %s: %s",
                                                 p->manifest->qualified, id, why);
  }
  return quire_refuse(p, &refusal);
}

/* True if variant a explains a refusal better than b, which stands earlier in the walk. */
static bool is_nearer(const quire_planning *p, int32_t a, size_t a_count, int32_t b,
                      size_t b_count) {
  const quire_manifest_variant *variants = p->manifest->variants;
  const char *backend = quire_target_backend(p->target);
  bool a_foreign = strcmp(variants[a].backend, backend) != 0;
  bool b_foreign = strcmp(variants[b].backend, backend) != 0;
  if (a_foreign != b_foreign) {
    return b_foreign;
  }
  if (a_count != b_count) {
    return a_count > b_count;
  }
  return variants[a].priority < variants[b].priority;
}

static quire_status refuse_all(quire_planning *p) {
  int32_t best = -1;
  size_t best_count = 0;
  for (size_t i = 0; i < p->manifest->variant_count; i++) {
    int32_t index = p->manifest->walk[i];
    quire_verdict ignored = {0};
    size_t count = quire_verdict_count_clauses(p, &p->manifest->variants[index], &ignored);
    if (best < 0 || is_nearer(p, index, count, best, best_count)) {
      best = index;
      best_count = count;
    }
  }
  quire_verdict verdict;
  if (!quire_verdict_find(p, best, &verdict)) {
    return quire_refuse(p, &(quire_refusal){.status = QUIRE_OUT_OF_MEMORY});
  }
  return refuse(p, best, &verdict, false);
}

static quire_status select_named(quire_planning *p, const char *id, int32_t *chosen) {
  for (size_t i = 0; i < p->manifest->variant_count; i++) {
    quire_verdict verdict;
    if (strcmp(p->manifest->variants[i].id, id) != 0) {
      continue;
    }
    if (!quire_verdict_find(p, (int32_t)i, &verdict)) {
      return quire_refuse(p, &(quire_refusal){.status = QUIRE_OUT_OF_MEMORY});
    }
    *chosen = (int32_t)i;
    return verdict.obstacle == QUIRE_OBSTACLE_NONE ? QUIRE_OK
                                                   : refuse(p, (int32_t)i, &verdict, true);
  }
  return quire_refuse(p, &(quire_refusal){.stage = "request",
                                          .failing = quire_planning_format(p, "variants.%s", id),
                                          .reason = "unknown",
                                          .status = QUIRE_BAD_REQUEST,
                                          .subject = id,
                                          .detail = quire_planning_format(
                                              p, "is not a variant of %s", p->manifest->qualified),
                                          .variant = -1});
}

quire_status quire_planning_select(quire_planning *p, int32_t *chosen) {
  if (p->request->variant != NULL) {
    return select_named(p, p->request->variant, chosen);
  }
  int32_t first_demoted = -1;
  for (size_t i = 0; i < p->manifest->variant_count; i++) {
    int32_t index = p->manifest->walk[i];
    quire_verdict verdict;
    if (!quire_verdict_find(p, index, &verdict)) {
      return quire_refuse(p, &(quire_refusal){.status = QUIRE_OUT_OF_MEMORY});
    }
    if (verdict.obstacle != QUIRE_OBSTACLE_NONE) {
      continue;
    }
    if (!verdict.demoted) {
      *chosen = index;
      return QUIRE_OK;
    }
    first_demoted = first_demoted < 0 ? index : first_demoted;
  }
  *chosen = first_demoted;
  return first_demoted >= 0 ? QUIRE_OK : refuse_all(p);
}
