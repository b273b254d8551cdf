/* Step 4: the walk over the variants, and why each is or is not eligible (LANGUAGE.md 8.1). */
#include <string.h>

#include "planning.h"

static const char storage_limit[] = "maxStorageBuffersPerShaderStage";
static const char uniform_limit[] = "maxUniformBuffersPerShaderStage";

/* ---- requirements ---- */

static bool meets_requires(const quire_planning *p, const quire_manifest_requires *requirements,
                           quire_verdict *verdict) {
  for (size_t i = 0; i < requirements->feature_count; i++) {
    const char *feature = requirements->features[i];
    if (!quire_target_feature(p->target, feature, strlen(feature))) {
      verdict->obstacle = QUIRE_OBSTACLE_FEATURE;
      verdict->name = feature;
      return false;
    }
  }
  for (size_t i = 0; i < requirements->limit_count; i++) {
    const quire_manifest_limit *limit = &requirements->limits[i];
    const char *name = p->manifest->limits[limit->limit];
    int64_t value = -1;
    if (!quire_target_limit(p->target, name, strlen(name), &value) || value < limit->least) {
      verdict->obstacle = QUIRE_OBSTACLE_LIMIT;
      verdict->name = name;
      verdict->count = limit->least;
      verdict->most = value;
      return false;
    }
  }
  if (requirements->has_subgroup_min_size) {
    quire_value size =
        quire_target_adapter(p->target, "subgroupMinSize", strlen("subgroupMinSize"));
    bool is_number = size.kind == QUIRE_VALUE_INTEGER || size.kind == QUIRE_VALUE_DOUBLE;
    if (!is_number || !(quire_value_as_double(&size) >= requirements->subgroup_min_size)) {
      verdict->obstacle = QUIRE_OBSTACLE_SUBGROUP;
      return false;
    }
  }
  return true;
}

/* Storage or uniform bindings of a pass, without optional ones whose tensor is absent. */
static int64_t count_buffers(const quire_planning *p, const quire_manifest_pass *pass,
                             bool uniforms) {
  int64_t count = 0;
  for (size_t i = 0; i < pass->binding_count; i++) {
    const quire_manifest_binding *binding = &pass->bindings[i];
    bool absent = binding->optional && binding->kind == QUIRE_BINDING_ARG &&
                  !quire_planning_tensor(p, binding->source)->present;
    count += (binding->kind == QUIRE_BINDING_UNIFORM) == uniforms && !absent;
  }
  return count;
}

static bool meets_buffers(const quire_planning *p, const quire_manifest_variant *variant,
                          bool uniforms, quire_verdict *verdict) {
  const char *name = uniforms ? uniform_limit : storage_limit;
  int64_t limit = quire_target_limit_or_most(p->target, name);
  int64_t largest = 0;
  for (size_t i = 0; i < variant->pass_count; i++) {
    const quire_manifest_pass *pass = &variant->passes[i];
    size_t most = uniforms ? pass->uniform_count : pass->storage_count;
    if (pass->native == NULL && (int64_t)most > limit) {
      int64_t count = count_buffers(p, pass, uniforms);
      largest = count > largest ? count : largest;
    }
  }
  if (largest <= limit) {
    return true;
  }
  verdict->obstacle = QUIRE_OBSTACLE_BUFFERS;
  verdict->name = name;
  verdict->count = largest;
  verdict->most = limit;
  return false;
}

static bool meets_native(const quire_planning *p, int32_t index, quire_verdict *verdict) {
  const quire_manifest_variant *variant = &p->manifest->variants[index];
  for (size_t i = 0; i < variant->pass_count; i++) {
    const quire_manifest_pass *pass = &variant->passes[i];
    if (quire_native_is_needed(variant, pass) && quire_native_choose(p, index, pass) == NULL) {
      verdict->obstacle = QUIRE_OBSTACLE_NATIVE;
      verdict->index = (int32_t)i;
      return false;
    }
  }
  return true;
}

/* Shader passes address tensors without strides. */
static bool meets_dense(const quire_planning *p, const quire_manifest_variant *variant,
                        quire_verdict *verdict) {
  for (size_t i = 0; p->strided && i < variant->pass_count; i++) {
    const quire_manifest_pass *pass = &variant->passes[i];
    for (size_t j = 0; pass->native == NULL && j < pass->binding_count; j++) {
      const quire_manifest_binding *binding = &pass->bindings[j];
      if (binding->kind == QUIRE_BINDING_ARG && !quire_planning_is_dense(p, binding->source)) {
        verdict->obstacle = QUIRE_OBSTACLE_DENSE;
        verdict->index = binding->source;
        return false;
      }
    }
  }
  return true;
}

static bool meets_all_requirements(quire_planning *p, int32_t index, quire_verdict *verdict) {
  const quire_manifest_variant *variant = &p->manifest->variants[index];
  if (strcmp(variant->backend, quire_target_backend(p->target)) != 0) {
    verdict->obstacle = QUIRE_OBSTACLE_BACKEND;
    verdict->name = variant->backend;
    return false;
  }
  return meets_requires(p, &p->manifest->requires, verdict) &&
         meets_requires(p, &variant->requires, verdict) &&
         meets_buffers(p, variant, false, verdict) && meets_buffers(p, variant, true, verdict) &&
         meets_native(p, index, verdict) && meets_dense(p, variant, verdict);
}

/* ---- clauses ---- */

/* Number of clauses that hold, from the first; the one that does not is put into the verdict. */
static size_t count_clauses(quire_planning *p, const quire_expr *const *clauses, size_t count,
                            quire_verdict *verdict) {
  for (size_t i = 0; i < count; i++) {
    quire_value value = quire_value_undefined();
    quire_expr_fault fault = {0};
    quire_expr_code code = quire_expr_evaluate(clauses[i], &p->env, &value, &fault);
    if (code != QUIRE_EXPR_OK || value.kind != QUIRE_VALUE_BOOLEAN || !value.as.boolean) {
      verdict->obstacle = QUIRE_OBSTACLE_WHEN;
      verdict->clause = clauses[i];
      verdict->value = value;
      verdict->code = code;
      verdict->fault = fault;
      return i;
    }
  }
  return count;
}

/* The kernel's clauses once, then the variant's. */
static size_t count_all_clauses(quire_planning *p, const quire_manifest_variant *variant,
                                quire_verdict *verdict) {
  size_t kernel = p->manifest->when_count;
  if (p->kernel_when.state != QUIRE_MEMO_DONE) {
    size_t count = count_clauses(p, p->manifest->when, kernel, verdict);
    if (count < kernel) {
      return count;
    }
    p->kernel_when.state = QUIRE_MEMO_DONE;
  }
  return kernel + count_clauses(p, variant->when, variant->when_count, verdict);
}

static bool is_demoted(quire_planning *p, const quire_manifest_variant *variant,
                       quire_expr_code *code) {
  quire_value value = quire_value_undefined();
  quire_expr_fault fault = {0};
  *code = QUIRE_EXPR_OK;
  if (variant->demote_when == NULL) {
    return false;
  }
  *code = quire_expr_evaluate(variant->demote_when, &p->env, &value, &fault);
  return *code == QUIRE_EXPR_OK && value.kind == QUIRE_VALUE_BOOLEAN && value.as.boolean;
}

bool quire_verdict_find(quire_planning *p, int32_t index, quire_verdict *verdict) {
  const quire_manifest_variant *variant = &p->manifest->variants[index];
  *verdict = (quire_verdict){.obstacle = QUIRE_OBSTACLE_NONE};
  if (!meets_all_requirements(p, index, verdict)) {
    return true;
  }
  (void)count_all_clauses(p, variant, verdict);
  if (verdict->obstacle == QUIRE_OBSTACLE_NONE) {
    quire_expr_code code = QUIRE_EXPR_OK;
    verdict->demoted = is_demoted(p, variant, &code);
    return code != QUIRE_EXPR_MEMORY;
  }
  return verdict->code != QUIRE_EXPR_MEMORY;
}

/* ---- telling ---- */

const char *quire_verdict_reason(const quire_verdict *verdict) {
  switch (verdict->obstacle) {
    case QUIRE_OBSTACLE_BACKEND:
    case QUIRE_OBSTACLE_FEATURE:
    case QUIRE_OBSTACLE_NATIVE:
      return "feature";
    case QUIRE_OBSTACLE_LIMIT:
    case QUIRE_OBSTACLE_SUBGROUP:
    case QUIRE_OBSTACLE_BUFFERS:
      return "limit";
    default:
      return verdict->code != QUIRE_EXPR_OK ? "error" : "false";
  }
}

const char *quire_verdict_clause(quire_planning *p, const quire_verdict *verdict) {
  size_t length = 0;
  const char *source = NULL;
  switch (verdict->obstacle) {
    case QUIRE_OBSTACLE_BACKEND:
      return "requires.backend";
    case QUIRE_OBSTACLE_FEATURE:
      return quire_planning_format(p, "requires.features.%s", verdict->name);
    case QUIRE_OBSTACLE_LIMIT:
      return quire_planning_format(p, "requires.limits.%s", verdict->name);
    case QUIRE_OBSTACLE_SUBGROUP:
      return "requires.subgroupMinSize";
    case QUIRE_OBSTACLE_BUFFERS:
      return "requires.buffers";
    case QUIRE_OBSTACLE_NATIVE:
      return "requires.native";
    case QUIRE_OBSTACLE_DENSE:
      return "requires.dense";
    default:
      source = quire_expr_source(verdict->clause, &length);
      return quire_planning_format(p, "%.*s", (int)length, source);
  }
}

static quire_operand make_operand(const char *text, quire_value value) {
  return (quire_operand){{text, strlen(text)}, value, QUIRE_EXPR_OK};
}

/* Operands of an obstacle that is not a clause; at most two. */
static bool fill_operands(quire_planning *p, int32_t index, const quire_verdict *verdict,
                          quire_because *because) {
  quire_operand *operands = quire_arena_array(p->scratch, 2, sizeof *operands);
  if (operands == NULL) {
    return false;
  }
  const quire_manifest_variant *variant = &p->manifest->variants[index];
  const char *text = NULL;
  const char *backend = quire_target_backend(p->target);
  because->operands = operands;
  switch (verdict->obstacle) {
    case QUIRE_OBSTACLE_BACKEND:
      operands[0] = make_operand("device.backend", quire_value_string(backend, strlen(backend)));
      because->operand_count = 1;
      return true;
    case QUIRE_OBSTACLE_BUFFERS:
      text = quire_planning_format(p, "device.limits.%s", verdict->name);
      operands[0] = make_operand("bindings", quire_value_integer(verdict->count));
      operands[1] = make_operand(text != NULL ? text : "", quire_value_integer(verdict->most));
      because->operand_count = 2;
      return text != NULL;
    case QUIRE_OBSTACLE_NATIVE:
      text = quire_native_describe(p, index, &variant->passes[verdict->index]);
      operands[0] = make_operand(
          "native", quire_value_string(text != NULL ? text : "", text != NULL ? strlen(text) : 0));
      because->operand_count = 1;
      return text != NULL;
    case QUIRE_OBSTACLE_DENSE:
      text = quire_planning_format(p, "dense.%s", p->manifest->keys[verdict->index].name);
      operands[0] = make_operand(text != NULL ? text : "", quire_value_boolean(false));
      because->operand_count = 1;
      return text != NULL;
    default:
      return true;
  }
}

bool quire_verdict_explain(quire_planning *p, int32_t index, const quire_verdict *verdict,
                           quire_because *because) {
  *because = (quire_because){NULL, 0, NULL, 0};
  if (verdict->obstacle == QUIRE_OBSTACLE_WHEN && verdict->code == QUIRE_EXPR_OK) {
    return quire_expr_explain(verdict->clause, &p->env, because);
  }
  quire_span *chain = quire_arena_array(p->scratch, 1, sizeof *chain);
  const char *clause = quire_verdict_clause(p, verdict);
  if (chain == NULL || clause == NULL) {
    return false;
  }
  *chain = (quire_span){clause, strlen(clause)};
  because->chain = chain;
  because->chain_length = 1;
  return fill_operands(p, index, verdict, because);
}

/* One sentence about an obstacle, for the error's message. */
static const char *sentence(quire_planning *p, int32_t index, const quire_verdict *verdict,
                            const quire_because *because, const char *clause) {
  const quire_manifest_variant *variant = &p->manifest->variants[index];
  switch (verdict->obstacle) {
    case QUIRE_OBSTACLE_BACKEND:
      return quire_planning_format(p, "%s: it is for backend %s, the device is of backend %s",
                                   clause, verdict->name, quire_target_backend(p->target));
    case QUIRE_OBSTACLE_FEATURE:
      return quire_planning_format(p, "%s: the device lacks this feature", clause);
    case QUIRE_OBSTACLE_LIMIT:
      return verdict->most < 0
                 ? quire_planning_format(p, "%s: the device does not tell this limit", clause)
                 : quire_planning_format(p, "%s: the device has %lld, %lld is needed", clause,
                                         (long long)verdict->most, (long long)verdict->count);
    case QUIRE_OBSTACLE_SUBGROUP:
      return quire_planning_format(p, "%s: the device's subgroups are too small or unknown",
                                   clause);
    case QUIRE_OBSTACLE_BUFFERS:
      return quire_planning_format(p, "%s: %lld buffers in one pass, the device has %s %lld",
                                   clause, (long long)verdict->count, verdict->name,
                                   (long long)verdict->most);
    case QUIRE_OBSTACLE_NATIVE: {
      const char *why = quire_native_describe(p, index, &variant->passes[verdict->index]);
      return why == NULL ? NULL : quire_planning_format(p, "%s: %s", clause, why);
    }
    case QUIRE_OBSTACLE_DENSE:
      return quire_planning_format(p, "%s: %s has strides, shaders take dense tensors only", clause,
                                   p->manifest->keys[verdict->index].name);
    default:
      if (verdict->code != QUIRE_EXPR_OK) {
        return quire_planning_format(p, "%s: error \"%s\" in %.*s", clause,
                                     quire_expr_code_name(verdict->code),
                                     (int)verdict->fault.at_length, verdict->fault.at);
      }
      return quire_because_sentence(p, because, &verdict->value);
  }
}

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
  const char *why = sentence(p, index, verdict, &refusal.because, refusal.failing);
  if (why != NULL) {
    refusal.detail = insisted
                         ? quire_planning_format(p, "variant %s of %s is not possible: %s", id,
                                                 p->manifest->qualified, why)
                         : quire_planning_format(p, "no variant of %s fits; the nearest, %s: %s",
                                                 p->manifest->qualified, id, why);
  }
  return quire_refuse(p, &refusal);
}

/* ---- the walk ---- */

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
    size_t count = count_all_clauses(p, &p->manifest->variants[index], &ignored);
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
