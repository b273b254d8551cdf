/* Whether a variant is eligible, and what stands in its way first (LANGUAGE.md 8.1). */
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
    if (!quire_value_is_number(&size) ||
        !(quire_value_as_double(&size) >= requirements->subgroup_min_size)) {
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
size_t quire_verdict_count_clauses(quire_planning *p, const quire_manifest_variant *variant,
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
  (void)quire_verdict_count_clauses(p, variant, verdict);
  if (verdict->obstacle == QUIRE_OBSTACLE_NONE) {
    quire_expr_code code = QUIRE_EXPR_OK;
    verdict->demoted = is_demoted(p, variant, &code);
    return code != QUIRE_EXPR_MEMORY;
  }
  return verdict->code != QUIRE_EXPR_MEMORY;
}
