/* Warnings about a manifest that loads: what is certain to be odd, whatever the request. */
#include <stdio.h>
#include <string.h>

#include "expr_whole.h"
#include "manifest_loader.h"
#include "pass.h"

typedef struct quire_linter {
  quire_loader *loader;
  const quire_manifest *manifest;
  const quire_manifest_layer *layers[QUIRE_LAYER_COUNT];
  uint8_t *wholeness[QUIRE_LAYER_COUNT]; /* of derived names, plus 1; 0: not known yet */
  bool *bound;                           /* by tensor key: some pass binds it */
  const quire_expr *fractional[QUIRE_MANIFEST_MAX_FINDINGS]; /* told already */
  size_t fractional_count;
} quire_linter;

/* ---- integer places ---- */

static bool set_layer(quire_linter *linter, int32_t layer, const quire_manifest_layer *names) {
  linter->layers[layer] = names;
  linter->wholeness[layer] = quire_loader_scratch(linter->loader, names->count, 1);
  return linter->wholeness[layer] != NULL;
}

static quire_wholeness value_wholeness(const quire_value *value) {
  return value->kind == QUIRE_VALUE_DOUBLE ? QUIRE_FRACTIONAL : QUIRE_WHOLENESS_UNKNOWN;
}

/* Derived names nest at most 64 deep, and so does this. */
static quire_wholeness ref_wholeness(void *user, const quire_ref *ref) {
  quire_linter *linter = user;
  if (ref->kind == QUIRE_REF_ATTRIBUTE && ref->index >= 0) {
    const quire_manifest_attribute *attribute = &linter->manifest->attributes[ref->index];
    return attribute->type == QUIRE_VALUE_TYPE_INT     ? QUIRE_WHOLE
           : attribute->type == QUIRE_VALUE_TYPE_FLOAT ? QUIRE_FRACTIONAL
                                                       : QUIRE_WHOLENESS_UNKNOWN;
  }
  if (ref->kind == QUIRE_REF_TUNABLE) {
    return value_wholeness(&linter->manifest->tunables[ref->index].value);
  }
  if (ref->kind != QUIRE_REF_DERIVED) {
    return QUIRE_WHOLENESS_UNKNOWN;
  }
  uint8_t *known = &linter->wholeness[ref->layer][ref->index];
  if (*known == 0) {
    const quire_expr *expr = linter->layers[ref->layer]->names[ref->index].expr;
    *known = (uint8_t)(1 + quire_expr_wholeness(expr, &linter->loader->scratch, ref_wholeness,
                                                linter, &linter->loader->out_of_memory));
  }
  return (quire_wholeness)(*known - 1);
}

/* The same text at several places is told once. */
static bool is_told(quire_linter *linter, const quire_expr *expr) {
  size_t length = 0;
  const char *text = quire_expr_source(expr, &length);
  for (size_t i = 0; i < linter->fractional_count; ++i) {
    size_t other_length = 0;
    const char *other = quire_expr_source(linter->fractional[i], &other_length);
    if (length == other_length && memcmp(text, other, length) == 0) {
      return true;
    }
  }
  if (linter->fractional_count < QUIRE_MANIFEST_MAX_FINDINGS) {
    linter->fractional[linter->fractional_count++] = expr;
  }
  return false;
}

static void lint_integer(quire_linter *linter, const quire_expr *expr,
                         const quire_json_place *place) {
  if (expr == NULL || quire_expr_wholeness(expr, &linter->loader->scratch, ref_wholeness, linter,
                                           &linter->loader->out_of_memory) != QUIRE_FRACTIONAL) {
    return;
  }
  if (!is_told(linter, expr)) {
    size_t length = 0;
    const char *text = quire_expr_source(expr, &length);
    quire_loader_warn(linter->loader, place, "can have a fraction, which is dropped: %.*s%s",
                      length > 80 ? 80 : (int)length, text, length > 80 ? "..." : "");
  }
}

static void lint_shape(quire_linter *linter, const quire_shape_expr *shape,
                       const quire_json_place *parent) {
  quire_json_place place = quire_json_member(parent, "shape");
  lint_integer(linter, shape->list, &place);
  for (size_t i = 0; i < shape->count; ++i) {
    quire_json_place element = quire_json_element(&place, i);
    lint_integer(linter, shape->dims[i], &element);
  }
}

/* ---- conditions ---- */

/* 1: certainly true, 0: certainly not, -1: depends. */
static int certainty(const quire_expr *clause) {
  quire_value value;
  if (!quire_expr_is_constant(clause, &value)) {
    return -1;
  }
  return value.kind == QUIRE_VALUE_BOOLEAN && value.as.boolean ? 1 : 0;
}

static void lint_clauses(quire_linter *linter, const quire_expr *const *clauses, size_t count,
                         const quire_json_place *parent, const char *never) {
  quire_json_place place = quire_json_member(parent, "when");
  for (size_t i = 0; i < count; ++i) {
    quire_json_place element = quire_json_element(&place, i);
    int certain = certainty(clauses[i]);
    if (certain == 0) {
      quire_loader_warn(linter->loader, &element, "is never true: %s", never);
    } else if (certain == 1) {
      quire_loader_warn(linter->loader, &element, "is always true");
    }
  }
}

static void lint_contract(quire_linter *linter) {
  quire_json_place root = quire_json_root();
  quire_json_place place = quire_json_member(&root, "contract");
  for (size_t i = 0; i < linter->manifest->contract_count; ++i) {
    int certain = certainty(linter->manifest->contract[i].require);
    quire_json_place element = quire_json_element(&place, i);
    quire_json_place require = quire_json_member(&element, "require");
    if (certain == 0) {
      quire_loader_warn(linter->loader, &require, "is never true: every request is refused");
    } else if (certain == 1) {
      quire_loader_warn(linter->loader, &require, "is always true");
    }
  }
}

/* ---- features ---- */

/* Feature names of WebGPU (GPUFeatureName) that a kernel can ask for, and one of its extensions. */
static const char *const webgpu_features[] = {"core-features-and-limits",
                                              "timestamp-query",
                                              "indirect-first-instance",
                                              "shader-f16",
                                              "subgroups",
                                              "primitive-index",
                                              "chromium-experimental-subgroup-matrix",
                                              "depth-clip-control",
                                              "depth32float-stencil8",
                                              "texture-compression-bc",
                                              "texture-compression-bc-sliced-3d",
                                              "texture-compression-etc2",
                                              "texture-compression-astc",
                                              "texture-compression-astc-sliced-3d",
                                              "rg11b10ufloat-renderable",
                                              "bgra8unorm-storage",
                                              "float32-filterable",
                                              "float32-blendable",
                                              "clip-distances",
                                              "dual-source-blending",
                                              "texture-formats-tier1",
                                              "texture-formats-tier2",
                                              "texture-component-swizzle"};

static bool is_among(const char *text, const char *const *names, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (strcmp(names[i], text) == 0) {
      return true;
    }
  }
  return false;
}

static bool backend_has(const char *backend, const char *feature) {
  if (strcmp(backend, "webgpu") == 0) {
    return is_among(feature, webgpu_features, sizeof webgpu_features / sizeof *webgpu_features);
  }
  return strcmp(backend, "cpu") != 0 ||
         is_among(feature, quire_cpu_features, QUIRE_CPU_FEATURE_COUNT);
}

/* backend NULL: requirements of every variant. */
static void lint_features(quire_linter *linter, const quire_manifest_requires *requires,
                          const char *backend, const quire_json_place *parent) {
  quire_json_place place = quire_json_member(parent, "requires");
  quire_json_place features = quire_json_member(&place, "features");
  for (size_t i = 0; i < requires->feature_count; ++i) {
    const char *feature = requires->features[i];
    bool known = backend != NULL ? backend_has(backend, feature)
                                 : backend_has("webgpu", feature) || backend_has("cpu", feature);
    if (!known) {
      quire_json_place element = quire_json_element(&features, i);
      quire_loader_warn(linter->loader, &element, "`%.60s` is no feature of %s that is known",
                        feature, backend == NULL ? "a backend" : backend);
    }
  }
}

/* ---- variants that another one hides ---- */

static size_t most_bindings(const quire_manifest_variant *variant, bool uniforms) {
  size_t most = 0;
  for (size_t i = 0; i < variant->pass_count; ++i) {
    const quire_manifest_pass *pass = &variant->passes[i];
    size_t count = pass->native != NULL ? 0 : uniforms ? pass->uniform_count : pass->storage_count;
    most = count > most ? count : most;
  }
  return most;
}

/* Nothing of its own can reject it: it is eligible whenever the kernel's conditions hold. */
static bool is_unconditional(const quire_manifest_variant *variant) {
  bool free = variant->requires.feature_count == 0 && variant->requires.limit_count == 0 &&
              !variant->requires.has_subgroup_min_size && variant->demote_when == NULL;
  for (size_t i = 0; i < variant->when_count; ++i) {
    free = free && certainty(variant->when[i]) == 1;
  }
  for (size_t i = 0; i < variant->pass_count; ++i) {
    free = free && variant->passes[i].native == NULL;
  }
  return free;
}

static void lint_hidden(quire_linter *linter, const quire_json_place *variants) {
  const quire_manifest *manifest = linter->manifest;
  for (size_t i = 0; i < manifest->variant_count; ++i) {
    const quire_manifest_variant *variant = &manifest->variants[manifest->walk[i]];
    for (size_t j = 0; j < i; ++j) {
      const quire_manifest_variant *earlier = &manifest->variants[manifest->walk[j]];
      if (is_unconditional(earlier) && strcmp(earlier->backend, variant->backend) == 0 &&
          most_bindings(earlier, false) <= most_bindings(variant, false) &&
          most_bindings(earlier, true) <= most_bindings(variant, true)) {
        quire_json_place element = quire_json_element(variants, (size_t)manifest->walk[i]);
        quire_loader_warn(linter->loader, &element,
                          "`%.60s` is never chosen: `%.60s` ranks before it and has no conditions",
                          variant->id, earlier->id);
        break;
      }
    }
  }
}

static size_t walk_position(const quire_manifest *manifest, int32_t variant) {
  size_t position = 0;
  while (position < manifest->variant_count && manifest->walk[position] != variant) {
    ++position;
  }
  return position;
}

static void lint_superseded(quire_linter *linter, size_t index, const quire_json_place *parent) {
  const quire_manifest_variant *variant = &linter->manifest->variants[index];
  quire_json_place place = quire_json_member(parent, "supersededBy");
  size_t own = walk_position(linter->manifest, (int32_t)index);
  for (size_t i = 0; i < variant->superseded_count; ++i) {
    int32_t other = variant->superseded_by[i];
    const quire_manifest_variant *named = &linter->manifest->variants[other];
    const char *why = walk_position(linter->manifest, other) > own    ? "ranks behind it"
                      : strcmp(named->backend, variant->backend) != 0 ? "is for another backend"
                                                                      : NULL;
    if (why != NULL) {
      quire_loader_warn(linter->loader, &place, "has no effect: `%.60s` %s", named->id, why);
    }
  }
}

/* ---- passes ---- */

/* Fields of a shared binding are told where they are declared. */
static void lint_fields(quire_linter *linter, json_t *use, const quire_manifest_binding *binding,
                        const quire_json_place *place) {
  quire_json_place root = quire_json_root();
  quire_json_place shared = quire_json_member(&root, "bindings");
  quire_json_place named =
      quire_json_member(&shared, json_is_string(use) ? json_string_value(use) : "");
  quire_json_place list = quire_json_member(json_is_string(use) ? &named : place, "struct");
  for (size_t i = 0; i < binding->field_count; ++i) {
    quire_json_place element = quire_json_element(&list, i);
    quire_json_place value = quire_json_member(&element, "value");
    if (binding->fields[i].type != QUIRE_FIELD_F32) {
      lint_integer(linter, binding->fields[i].value, &value);
    }
  }
}

static void lint_pass(quire_linter *linter, const quire_manifest_pass *pass, json_t *json,
                      const quire_json_place *place, bool *scratch) {
  static const char *const axes[] = {"x", "y", "z"};
  quire_json_place dispatch = quire_json_member(place, "dispatch");
  quire_json_place bindings = quire_json_member(place, "bindings");
  quire_json_place workgroup = quire_json_member(place, "workgroup");
  if (!set_layer(linter, QUIRE_LAYER_PASS, &pass->derive)) {
    return;
  }
  for (size_t i = 0; i < 3; ++i) {
    quire_json_place axis = quire_json_member(&dispatch, axes[i]);
    quire_json_place groups = quire_json_member(&dispatch, "workgroups");
    quire_json_place size = quire_json_element(&workgroup, i);
    if (pass->dispatch_form != QUIRE_DISPATCH_THREADS) { /* threads are rounded up, not down */
      lint_integer(linter, pass->dispatch[i],
                   pass->dispatch_form == QUIRE_DISPATCH_XYZ ? &axis : &groups);
    }
    lint_integer(linter, pass->workgroup[i], &size);
  }
  json_t *list = json_object_get(json, "bindings");
  for (size_t i = 0; i < pass->binding_count; ++i) {
    const quire_manifest_binding *binding = &pass->bindings[i];
    quire_json_place element = quire_json_element(&bindings, i);
    if (binding->kind == QUIRE_BINDING_UNIFORM) {
      lint_fields(linter, json_array_get(list, i), binding, &element);
    } else {
      (binding->kind == QUIRE_BINDING_ARG ? linter->bound : scratch)[binding->source] = true;
    }
  }
}

static void lint_variant(quire_linter *linter, size_t index, json_t *json,
                         const quire_json_place *place) {
  const quire_manifest_variant *variant = &linter->manifest->variants[index];
  quire_json_place demote = quire_json_member(place, "demoteWhen");
  quire_json_place intermediates = quire_json_member(place, "intermediates");
  quire_json_place passes = quire_json_member(place, "passes");
  bool *scratch = quire_loader_scratch(linter->loader, variant->intermediate_count, sizeof(bool));
  if (scratch == NULL || !set_layer(linter, QUIRE_LAYER_VARIANT, &variant->derive)) {
    return;
  }
  lint_features(linter, &variant->requires, variant->backend, place);
  lint_clauses(linter, variant->when, variant->when_count, place, "the variant is never chosen");
  lint_superseded(linter, index, place);
  if (variant->demote_when != NULL && certainty(variant->demote_when) >= 0) {
    quire_loader_warn(linter->loader, &demote, "is always the same");
  }
  for (size_t i = 0; i < variant->pass_count; ++i) {
    quire_json_place element = quire_json_element(&passes, i);
    lint_pass(linter, &variant->passes[i], json_array_get(json_object_get(json, "passes"), i),
              &element, scratch);
    if (variant->passes[i].grid >= 0) {
      scratch[variant->passes[i].grid] = true;
    }
  }
  for (size_t i = 0; i < variant->intermediate_count; ++i) {
    quire_json_place element = quire_json_element(&intermediates, i);
    lint_shape(linter, &variant->intermediates[i].shape, &element);
    if (!scratch[i]) {
      quire_loader_warn(linter->loader, &element, "no pass binds intermediate `%.60s`",
                        variant->intermediates[i].id);
    }
  }
}

/* ---- all of it ---- */

static void lint_tensors(quire_linter *linter) {
  const quire_manifest *manifest = linter->manifest;
  quire_json_place root = quire_json_root();
  quire_json_place inputs = quire_json_member(&root, "inputs");
  quire_json_place outputs = quire_json_member(&root, "outputs");
  for (size_t i = 0; i < manifest->input_count; ++i) {
    quire_json_place member = quire_json_member(&inputs, manifest->inputs[i].key);
    lint_shape(linter, &manifest->inputs[i].shape, &member);
  }
  for (size_t i = 0; i < manifest->output_count; ++i) {
    quire_json_place member = quire_json_member(&outputs, manifest->outputs[i].key);
    lint_shape(linter, &manifest->outputs[i].shape, &member);
  }
  for (size_t i = 0; i < manifest->key_count; ++i) {
    const quire_manifest_key *key = &manifest->keys[i];
    quire_json_place member = quire_json_member(key->input >= 0 ? &inputs : &outputs, key->name);
    /* One that is declared only to be refused is asked for. */
    if (!linter->bound[i] && !linter->loader->asked[i]) {
      quire_loader_warn(linter->loader, &member,
                        "no pass binds tensor `%.60s`, and no text asks for it", key->name);
    }
  }
}

/* Shared bindings that no pass lists. */
static void lint_shared(quire_linter *linter) {
  quire_json_place root = quire_json_root();
  quire_json_place shared = quire_json_member(&root, "bindings");
  json_t *used = json_object();
  if (used == NULL) {
    linter->loader->out_of_memory = true;
    return;
  }
  json_t *variants = json_object_get(linter->loader->root, "variants");
  for (size_t i = 0; i < json_array_size(variants); ++i) {
    json_t *passes = json_object_get(json_array_get(variants, i), "passes");
    for (size_t j = 0; j < json_array_size(passes); ++j) {
      json_t *list = json_object_get(json_array_get(passes, j), "bindings");
      for (size_t k = 0; k < json_array_size(list); ++k) {
        const char *name = json_string_value(json_array_get(list, k));
        if (name != NULL && json_object_set(used, name, json_array_get(list, k)) != 0) {
          linter->loader->out_of_memory = true;
        }
      }
    }
  }
  const char *key = NULL;
  json_t *value = NULL;
  json_object_foreach(linter->loader->shared, key, value) {
    if (!quire_is_comment(key) && json_object_get(used, key) == NULL) {
      quire_json_place member = quire_json_member(&shared, key);
      quire_loader_warn(linter->loader, &member, "no pass lists it");
    }
  }
  json_decref(used);
}

void quire_lint(quire_loader *loader) {
  const quire_manifest *manifest = loader->manifest;
  quire_json_place root = quire_json_root();
  quire_json_place variants = quire_json_member(&root, "variants");
  json_t *list = json_object_get(loader->root, "variants");
  quire_linter linter = {.loader = loader, .manifest = manifest};
  linter.bound = quire_loader_scratch(loader, manifest->key_count, sizeof(bool));
  if (linter.bound == NULL || !set_layer(&linter, QUIRE_LAYER_KERNEL, &manifest->derive)) {
    return;
  }
  lint_features(&linter, &manifest->requires, NULL, &root);
  lint_clauses(&linter, manifest->when, manifest->when_count, &root, "no variant is ever chosen");
  lint_contract(&linter);
  for (size_t i = 0; i < manifest->variant_count && !loader->out_of_memory; ++i) {
    quire_json_place element = quire_json_element(&variants, i);
    lint_variant(&linter, i, json_array_get(list, i), &element);
  }
  lint_hidden(&linter, &variants);
  lint_tensors(&linter);
  if (loader->shared != NULL) {
    lint_shared(&linter);
  }
}
