/* Variants: conditions, requirements, intermediates, the order of the walk
 * (docs/manifest-language.md 3.6, 15).
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "manifest_loader.h"

/* ---- requires ---- */

static void load_features(quire_loader *loader, json_t *list, const quire_json_place *place,
                          quire_manifest_requires *requires) {
  size_t count = quire_loader_list(loader, list, place);
  const char **features = quire_loader_array(loader, count, sizeof *features);
  if (features == NULL) {
    return;
  }
  for (size_t i = 0; i < count; ++i) {
    const char *text = json_string_value(json_array_get(list, i));
    if (text == NULL || text[0] == '\0') {
      quire_json_place element = quire_json_element(place, i);
      quire_loader_fault(loader, &element, "must be the name of a feature");
      text = "";
    }
    features[i] = quire_loader_copy(loader, text);
  }
  requires->features = features;
  requires->feature_count = count;
}

/* Limits are whole, so a least value with a fraction means the next whole one. */
static int64_t round_up(const quire_value *value) {
  if (value->kind == QUIRE_VALUE_INTEGER) {
    return value->as.integer;
  }
  double whole = ceil(value->as.number);
  return whole >= 9223372036854775808.0   ? INT64_MAX
         : whole < -9223372036854775808.0 ? INT64_MIN
                                          : (int64_t)whole;
}

static void load_limits(quire_loader *loader, json_t *map, const quire_json_place *place,
                        quire_manifest_requires *requires) {
  size_t count = quire_loader_map(loader, map, place);
  quire_manifest_limit *limits = quire_loader_array(loader, count, sizeof *limits);
  if (limits == NULL || count == 0) {
    return;
  }
  const char *key = NULL;
  json_t *json = NULL;
  json_object_foreach(map, key, json) {
    if (quire_is_comment(key)) {
      continue;
    }
    quire_json_place member = quire_json_member(place, key);
    if (!json_is_number(json)) {
      quire_loader_fault(loader, &member, "must be a number");
      continue;
    }
    quire_value value = quire_json_number(json);
    quire_manifest_limit *limit = &limits[requires->limit_count++];
    limit->limit = quire_name_list_add(loader, &loader->limits, key, strlen(key));
    limit->least = round_up(&value);
    if (limit->limit < 0) {
      quire_loader_fault(loader, &member, "too many different limits");
      limit->limit = 0;
    }
  }
  requires->limits = limits;
}

static const char *load_backend(quire_loader *loader, json_t *json, const quire_json_place *place) {
  static const char *const backends[] = {"webgpu", "cpu", "cuda"};
  const char *text = quire_loader_string(loader, json, "backend", place);
  for (size_t i = 0; text != NULL && i < sizeof backends / sizeof *backends; ++i) {
    if (strcmp(backends[i], text) == 0) {
      return backends[i];
    }
  }
  if (text != NULL) {
    quire_json_place member = quire_json_member(place, "backend");
    quire_loader_fault(loader, &member, "must be \"cpu\", \"webgpu\" or \"cuda\"");
  }
  return backends[0];
}

void quire_load_requires(quire_loader *loader, json_t *json, const quire_json_place *place,
                         quire_manifest_requires *requires, const char **backend) {
  static const char *const kernel_members[] = {"features", "limits", "subgroupMinSize", NULL};
  static const char *const members[] = {"features", "limits", "subgroupMinSize", "backend", NULL};
  if (json == NULL ||
      !quire_loader_object(loader, json, place, backend == NULL ? kernel_members : members)) {
    return;
  }
  quire_json_place features = quire_json_member(place, "features");
  quire_json_place limits = quire_json_member(place, "limits");
  quire_json_place subgroup = quire_json_member(place, "subgroupMinSize");
  load_features(loader, json_object_get(json, "features"), &features, requires);
  load_limits(loader, json_object_get(json, "limits"), &limits, requires);
  json_t *size = json_object_get(json, "subgroupMinSize");
  if (size != NULL && !json_is_number(size)) {
    quire_loader_fault(loader, &subgroup, "must be a number");
  } else if (size != NULL) {
    requires->has_subgroup_min_size = true;
    requires->subgroup_min_size = json_number_value(size);
  }
  if (backend != NULL) {
    *backend = load_backend(loader, json, place);
  }
}

/* ---- intermediates ---- */

static void load_intermediate(quire_scope *scope, json_t *json, const quire_json_place *place,
                              quire_manifest_intermediate *intermediate) {
  static const char *const members[] = {"id", "dtype", "shape", "zeroInit", "lifetime", NULL};
  quire_loader *loader = scope->loader;
  quire_json_place id_place = quire_json_member(place, "id");
  quire_json_place dtype_place = quire_json_member(place, "dtype");
  quire_json_place shape_place = quire_json_member(place, "shape");
  quire_json_place lifetime_place = quire_json_member(place, "lifetime");
  intermediate->id = "";
  if (!quire_loader_object(loader, json, place, members)) {
    return;
  }
  for (size_t i = 0; i < 3; ++i) { /* id, dtype, shape */
    if (json_object_get(json, members[i]) == NULL) {
      quire_loader_fault(loader, place, "`%s` is missing", members[i]);
    }
  }
  const char *id = quire_loader_string(loader, json, "id", place);
  if (id != NULL) {
    intermediate->id = quire_loader_copy(loader, id);
    if (!quire_is_name(id)) {
      quire_loader_fault(loader, &id_place, "`%.60s` is not a name", id);
    }
  }
  const char *dtype = quire_loader_string(loader, json, "dtype", place);
  if (dtype != NULL) {
    intermediate->dtype = quire_dtype_from_name(dtype);
    if (intermediate->dtype == QUIRE_DTYPE_NONE) {
      quire_loader_fault(loader, &dtype_place, "`%.60s` is not an element type", dtype);
    }
  }
  quire_loader_shape(scope, json_object_get(json, "shape"), &shape_place, true,
                     &intermediate->shape);
  intermediate->zero_init = quire_loader_boolean(loader, json, "zeroInit", place, false);
  const char *lifetime = quire_loader_string(loader, json, "lifetime", place);
  intermediate->step = lifetime != NULL && strcmp(lifetime, "step") == 0;
  if (lifetime != NULL && !intermediate->step && strcmp(lifetime, "run") != 0) {
    quire_loader_fault(loader, &lifetime_place, "must be \"step\" or \"run\"");
  }
}

static void load_intermediates(quire_scope *scope, json_t *list, const quire_json_place *place,
                               quire_manifest_variant *variant) {
  quire_loader *loader = scope->loader;
  size_t count = quire_loader_list(loader, list, place);
  quire_manifest_intermediate *items = quire_loader_array(loader, count, sizeof *items);
  if (items == NULL) {
    return;
  }
  for (size_t i = 0; i < count; ++i) {
    quire_json_place element = quire_json_element(place, i);
    load_intermediate(scope, json_array_get(list, i), &element, &items[i]);
    for (size_t j = 0; j < i; ++j) {
      if (items[i].id[0] != '\0' && strcmp(items[i].id, items[j].id) == 0) {
        quire_json_place id = quire_json_member(&element, "id");
        quire_loader_fault(loader, &id, "`%.60s` is there twice", items[i].id);
        break;
      }
    }
  }
  variant->intermediates = items;
  variant->intermediate_count = count;
}

/* ---- a variant ---- */

static const quire_expr *load_demote(quire_scope *scope, json_t *json,
                                     const quire_json_place *place) {
  if (!json_is_array(json)) {
    return json == NULL ? NULL : quire_loader_clause(scope, json, place);
  }
  if (json_array_size(json) != 1) {
    quire_loader_fault(scope->loader, place, "must be one condition, not %zu",
                       json_array_size(json));
    return NULL;
  }
  quire_json_place element = quire_json_element(place, 0);
  return quire_loader_clause(scope, json_array_get(json, 0), &element);
}

static void load_variant_id(quire_loader *loader, json_t *json, const quire_json_place *place,
                            size_t index, quire_manifest_variant *variant) {
  char automatic[32];
  const char *id = quire_loader_string(loader, json, "id", place);
  if (id != NULL && !quire_is_identifier(id)) {
    quire_json_place member = quire_json_member(place, "id");
    quire_loader_fault(loader, &member, "must consist of letters, digits and _");
  }
  if (id == NULL) {
    (void)snprintf(automatic, sizeof automatic, "variant_%zu", index);
    id = automatic;
  }
  variant->id = quire_loader_copy(loader, id);
}

static void load_conditions(quire_loader *loader, json_t *json, const quire_json_place *place,
                            quire_manifest_variant *variant) {
  quire_scope scope = quire_scope_kernel(loader);
  quire_json_place priority_place = quire_json_member(place, "priority");
  quire_json_place requires_place = quire_json_member(place, "requires");
  quire_json_place when_place = quire_json_member(place, "when");
  quire_json_place demote_place = quire_json_member(place, "demoteWhen");
  json_t *priority = json_object_get(json, "priority");
  if (priority != NULL && !json_is_number(priority)) {
    quire_loader_fault(loader, &priority_place, "must be a number");
  }
  variant->priority = json_is_number(priority) ? json_number_value(priority) : 0.0;
  quire_load_requires(loader, json_object_get(json, "requires"), &requires_place,
                      &variant->requires, &variant->backend);
  variant->when = quire_loader_clauses(&scope, json_object_get(json, "when"), &when_place,
                                       &variant->when_count);
  variant->demote_when = load_demote(&scope, json_object_get(json, "demoteWhen"), &demote_place);
}

static void load_variant(quire_loader *loader, json_t *json, const quire_json_place *place,
                         const uint8_t *kernel_depths, quire_manifest_variant *variant) {
  static const char *const members[] = {
      "id",           "passes",   "priority", "requires",      "when", "demoteWhen",
      "supersededBy", "tunables", "derive",   "intermediates", NULL};
  const uint8_t *depths[QUIRE_LAYER_COUNT] = {kernel_depths, NULL, NULL};
  quire_json_place tunables = quire_json_member(place, "tunables");
  quire_json_place derive_place = quire_json_member(place, "derive");
  quire_json_place intermediates = quire_json_member(place, "intermediates");
  quire_json_place passes = quire_json_member(place, "passes");
  if (!quire_loader_object(loader, json, place, members)) {
    return;
  }
  load_conditions(loader, json, place, variant);
  quire_load_variant_tunables(loader, json_object_get(json, "tunables"), &tunables, variant);
  quire_scope scope = quire_scope_kernel(loader);
  json_t *derive = json_object_get(json, "derive");
  quire_load_layer_names(loader, derive, &derive_place, &variant->derive);
  scope.layers[QUIRE_LAYER_VARIANT] = &variant->derive;
  scope.variant_tunables = true;
  quire_load_layer_texts(&scope, derive, &derive_place, QUIRE_LAYER_VARIANT, depths);
  load_intermediates(&scope, json_object_get(json, "intermediates"), &intermediates, variant);
  json_t *list = json_object_get(json, "passes");
  if (list == NULL) {
    quire_loader_fault(loader, place, "`passes` is missing");
  }
  quire_load_passes(&scope, list, &passes, variant, depths);
}

/* ---- all of them ---- */

static int32_t find_variant(const quire_manifest *manifest, const char *id) {
  for (size_t i = 0; i < manifest->variant_count; ++i) {
    if (strcmp(manifest->variants[i].id, id) == 0) {
      return (int32_t)i;
    }
  }
  return -1;
}

static void load_superseded(quire_loader *loader, json_t *json, const quire_json_place *place,
                            size_t index, quire_manifest_variant *variant) {
  size_t count = json_is_string(json) ? 1 : quire_loader_list(loader, json, place);
  int32_t *ids = quire_loader_array(loader, count, sizeof *ids);
  if (ids == NULL) {
    return;
  }
  for (size_t i = 0; i < count; ++i) {
    quire_json_place element = quire_json_element(place, i);
    const quire_json_place *at = json_is_string(json) ? place : &element;
    const char *id = json_string_value(json_is_string(json) ? json : json_array_get(json, i));
    ids[i] = id == NULL ? -1 : find_variant(loader->manifest, id);
    if (id == NULL) {
      quire_loader_fault(loader, at, "must be the id of a variant");
    } else if (ids[i] < 0) {
      quire_loader_fault(loader, at, "unknown variant `%.60s`", id);
    } else if ((size_t)ids[i] == index) {
      quire_loader_fault(loader, at, "a variant cannot supersede itself");
    }
  }
  variant->superseded_by = ids;
  variant->superseded_count = count;
}

/* By decreasing priority, then in the order of the file. */
static void load_walk(quire_loader *loader) {
  quire_manifest *manifest = loader->manifest;
  int32_t *walk = quire_loader_array(loader, manifest->variant_count, sizeof *walk);
  if (walk == NULL) {
    return;
  }
  for (size_t i = 0; i < manifest->variant_count; ++i) {
    size_t j = i;
    for (; j > 0 && manifest->variants[walk[j - 1]].priority < manifest->variants[i].priority;
         --j) {
      walk[j] = walk[j - 1];
    }
    walk[j] = (int32_t)i;
  }
  manifest->walk = walk;
}

/* Ids first: supersededBy may name later variants. */
static void load_ids(quire_loader *loader, json_t *list, const quire_json_place *place,
                     quire_manifest_variant *variants) {
  for (size_t i = 0; i < loader->manifest->variant_count; ++i) {
    quire_json_place element = quire_json_element(place, i);
    json_t *json = json_array_get(list, i);
    variants[i].id = "";
    variants[i].backend = "webgpu";
    if (!json_is_object(json)) {
      continue;
    }
    load_variant_id(loader, json, &element, i, &variants[i]);
    for (size_t j = 0; j < i; ++j) {
      if (strcmp(variants[j].id, variants[i].id) == 0) {
        quire_loader_fault(loader, &element, "the id `%.60s` is there twice", variants[i].id);
        break;
      }
    }
  }
}

void quire_load_variants(quire_loader *loader) {
  quire_manifest *manifest = loader->manifest;
  quire_json_place root = quire_json_root();
  quire_json_place place = quire_json_member(&root, "variants");
  quire_json_place derive_place = quire_json_member(&root, "derive");
  json_t *list = json_object_get(loader->root, "variants");
  const uint8_t *depths[QUIRE_LAYER_COUNT] = {NULL, NULL, NULL};
  quire_scope kernel = quire_scope_kernel(loader);
  quire_load_layer_texts(&kernel, json_object_get(loader->root, "derive"), &derive_place,
                         QUIRE_LAYER_KERNEL, depths);
  if (list == NULL) {
    quire_loader_fault(loader, &root, "`variants` is missing");
  }
  size_t count = quire_loader_list(loader, list, &place);
  if (count == 0 && json_is_array(list)) {
    quire_loader_fault(loader, &place, "must have at least one variant");
  }
  quire_manifest_variant *variants = quire_loader_array(loader, count, sizeof *variants);
  if (variants == NULL || loader->out_of_memory) {
    return;
  }
  manifest->variants = variants;
  manifest->variant_count = count;
  load_ids(loader, list, &place, variants);
  for (size_t i = 0; i < count && !loader->out_of_memory; ++i) {
    quire_json_place element = quire_json_element(&place, i);
    quire_json_place superseded = quire_json_member(&element, "supersededBy");
    json_t *json = json_array_get(list, i);
    load_variant(loader, json, &element, depths[QUIRE_LAYER_KERNEL], &variants[i]);
    load_superseded(loader, json_object_get(json, "supersededBy"), &superseded, i, &variants[i]);
  }
  load_walk(loader);
}
