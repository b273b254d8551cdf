/* Passes: what runs, its dispatch, schedules (docs/manifest-language.md 3.6, 15). */
#include <stdio.h>
#include <string.h>

#include "manifest_loader.h"
#include "pass.h"

/* ---- what runs ---- */

static const char *load_text(quire_loader *loader, json_t *json, const char *key,
                             const quire_json_place *place) {
  const char *text = quire_loader_string(loader, json, key, place);
  if (text != NULL && text[0] == '\0') {
    quire_json_place member = quire_json_member(place, key);
    quire_loader_fault(loader, &member, "must not be empty");
  }
  return text == NULL ? NULL : quire_loader_copy(loader, text);
}

static void load_code(quire_loader *loader, json_t *json, const quire_json_place *place,
                      const quire_manifest_variant *variant, quire_manifest_pass *pass) {
  pass->shader = load_text(loader, json, "shader", place);
  pass->native = load_text(loader, json, "native", place);
  bool shader = json_object_get(json, "shader") != NULL;
  bool native = json_object_get(json, "native") != NULL;
  if (shader == native) {
    quire_loader_fault(loader, place,
                       shader ? "has both `shader` and `native`" : "`shader` is missing");
  }
  if (shader && strcmp(variant->backend, "cpu") == 0) {
    quire_json_place member = quire_json_member(place, "shader");
    quire_loader_fault(loader, &member, "the cpu backend runs native passes only");
  }
}

/* ---- dispatch ---- */

static const quire_expr *load_dispatch_member(quire_scope *scope, json_t *json, const char *key,
                                              const quire_json_place *place) {
  quire_json_place member = quire_json_member(place, key);
  json_t *value = json_object_get(json, key);
  return value == NULL ? NULL : quire_loader_expression(scope, value, &member);
}

static void load_dispatch(quire_scope *scope, json_t *json, const quire_json_place *place,
                          quire_manifest_pass *pass) {
  static const char *const members[] = {"x",          "y", "z", "threads", "workgroupSize",
                                        "workgroups", NULL};
  if (!quire_loader_object(scope->loader, json, place, members)) {
    return;
  }
  bool given[6];
  for (size_t i = 0; i < 6; ++i) {
    given[i] = json_object_get(json, members[i]) != NULL;
  }
  bool axes = given[0] || given[1] || given[2];
  bool threads = given[3] || given[4];
  if (axes + threads + given[5] != 1 || (axes && !given[0]) ||
      (threads && !(given[3] && given[4]))) {
    quire_loader_fault(scope->loader, place,
                       "must have `x` (and `y`, `z`), or `threads` and `workgroupSize`, or "
                       "`workgroups`");
    return;
  }
  pass->dispatch_form = axes      ? QUIRE_DISPATCH_XYZ
                        : threads ? QUIRE_DISPATCH_THREADS
                                  : QUIRE_DISPATCH_WORKGROUPS;
  const char *const *first = axes ? members : threads ? members + 3 : members + 5;
  size_t count = axes ? 3 : threads ? 2 : 1;
  for (size_t i = 0; i < count; ++i) {
    pass->dispatch[i] = load_dispatch_member(scope, json, first[i], place);
  }
}

static void load_workgroup(quire_scope *scope, json_t *json, const quire_json_place *place,
                           quire_manifest_pass *pass) {
  quire_loader *loader = scope->loader;
  quire_json_place size_place = quire_json_member(place, "workgroup");
  quire_json_place bytes_place = quire_json_member(place, "workgroupBytes");
  json_t *size = json_object_get(json, "workgroup");
  json_t *bytes = json_object_get(json, "workgroupBytes");
  if (size != NULL && (!json_is_array(size) || json_array_size(size) != 3)) {
    quire_loader_fault(loader, &size_place, "must be a list of three expressions");
  } else if (size != NULL) {
    for (size_t i = 0; i < 3; ++i) {
      quire_json_place element = quire_json_element(&size_place, i);
      pass->workgroup[i] = quire_loader_expression(scope, json_array_get(size, i), &element);
    }
  }
  if (bytes != NULL) {
    pass->workgroup_bytes = quire_loader_expression(scope, bytes, &bytes_place);
  }
  if (pass->native != NULL && (size != NULL || bytes != NULL)) {
    quire_loader_fault(loader, size != NULL ? &size_place : &bytes_place,
                       "only a shader has workgroups");
  }
}

/* ---- native passes ---- */

static bool is_one(const quire_expr *expr) {
  quire_value value;
  return expr == NULL || (quire_expr_is_constant(expr, &value) &&
                          value.kind == QUIRE_VALUE_INTEGER && value.as.integer == 1);
}

static void check_schedule(quire_loader *loader, const quire_json_place *place, size_t index,
                           const quire_manifest_variant *variant, const quire_manifest_pass *pass) {
  quire_json_place role = quire_json_member(place, "role");
  quire_json_place dispatch = quire_json_member(place, "dispatch");
  quire_json_place bindings = quire_json_member(place, "bindings");
  if (pass->native == NULL) {
    quire_loader_fault(loader, &role, "a schedule pass must be native");
  }
  if (index != 0) {
    quire_loader_fault(loader, &role, "a schedule pass must be the first");
  }
  if (pass->dispatch_form != QUIRE_DISPATCH_XYZ || !is_one(pass->dispatch[0]) ||
      !is_one(pass->dispatch[1]) || !is_one(pass->dispatch[2])) {
    quire_loader_fault(loader, &dispatch, "a schedule pass is dispatched once");
  }
  for (size_t i = 0; i < pass->binding_count; ++i) {
    const quire_manifest_binding *binding = &pass->bindings[i];
    quire_json_place element = quire_json_element(&bindings, i);
    bool buffer = binding->kind != QUIRE_BINDING_UNIFORM && binding->name[0] != '\0';
    if (!buffer || !binding->writable) {
      continue;
    }
    if (binding->kind == QUIRE_BINDING_ARG || variant->intermediate_count == 0 ||
        !variant->intermediates[binding->source].step) {
      quire_loader_fault(loader, &element,
                         "a schedule pass writes only to intermediates of lifetime \"step\"");
    }
  }
}

/* At most one struct, and no more views than a kernel takes. */
static void check_native(quire_loader *loader, const quire_json_place *place,
                         const quire_manifest_pass *pass) {
  quire_json_place bindings = quire_json_member(place, "bindings");
  if (pass->uniform_count > 1) {
    quire_loader_fault(loader, &bindings, "a native pass has at most one struct, not %zu",
                       pass->uniform_count);
  }
  if (pass->storage_count > QUIRE_PASS_MAX_BINDINGS) {
    quire_loader_fault(loader, &bindings, "a native pass has at most %d buffers, not %zu",
                       QUIRE_PASS_MAX_BINDINGS, pass->storage_count);
  }
}

/* One dimension, and if it is known at load, 3. */
static bool may_hold_grid(const quire_manifest_intermediate *intermediate) {
  const quire_shape_expr *shape = &intermediate->shape;
  quire_value value;
  const quire_expr *expr = shape->list;
  if (expr == NULL) {
    if (shape->count != 1) {
      return false;
    }
    expr = shape->dims[0];
  }
  if (expr == NULL || !quire_expr_is_constant(expr, &value)) {
    return true;
  }
  if (shape->list != NULL && value.kind == QUIRE_VALUE_LIST) {
    if (value.length != 1) {
      return false;
    }
    value = value.as.list[0];
  }
  return value.kind == QUIRE_VALUE_INTEGER && value.as.integer == 3;
}

static void load_grid(quire_loader *loader, json_t *json, const quire_json_place *place,
                      const quire_manifest_variant *variant, quire_manifest_pass *pass) {
  quire_json_place member = quire_json_member(place, "grid");
  const char *id = quire_loader_string(loader, json, "grid", place);
  pass->grid = -1;
  for (size_t i = 0; id != NULL && i < variant->intermediate_count; ++i) {
    if (strcmp(variant->intermediates[i].id, id) == 0) {
      pass->grid = (int32_t)i;
    }
  }
  if (id == NULL) {
    return;
  }
  if (pass->grid < 0) {
    quire_loader_fault(loader, &member, "unknown intermediate `%.60s`", id);
    return;
  }
  const quire_manifest_intermediate *grid = &variant->intermediates[pass->grid];
  if (pass->native == NULL || pass->schedule) {
    quire_loader_fault(loader, &member, "only a native pass after the schedule has a `grid`");
  }
  if (!grid->step || grid->dtype != QUIRE_UINT32 || !may_hold_grid(grid)) {
    quire_loader_fault(loader, &member,
                       "intermediate `%.60s` must be uint32, of shape [3] and of lifetime \"step\"",
                       id);
  }
}

/* The schedule must write the grids that later passes read. */
static void check_grids(quire_loader *loader, const quire_json_place *place,
                        const quire_manifest_variant *variant) {
  const quire_manifest_pass *first = &variant->passes[0];
  for (size_t i = 0; i < variant->pass_count; ++i) {
    bool written = variant->passes[i].grid < 0;
    for (size_t j = 0; first->schedule && j < first->binding_count; ++j) {
      const quire_manifest_binding *binding = &first->bindings[j];
      written = written || (binding->kind == QUIRE_BINDING_SCRATCH && binding->writable &&
                            binding->source == variant->passes[i].grid);
    }
    if (!written) {
      quire_json_place element = quire_json_element(place, i);
      quire_json_place member = quire_json_member(&element, "grid");
      quire_loader_fault(loader, &member, "no schedule pass writes it");
    }
  }
}

/* ---- a pass ---- */

static void load_pass_names(quire_loader *loader, json_t *json, const quire_json_place *place,
                            size_t index, quire_manifest_pass *pass) {
  char automatic[32];
  const char *id = quire_loader_string(loader, json, "id", place);
  const char *name = quire_loader_string(loader, json, "name", place);
  if (id != NULL && !quire_is_identifier(id)) {
    quire_json_place member = quire_json_member(place, "id");
    quire_loader_fault(loader, &member, "must consist of letters, digits and _");
  }
  if (id == NULL) {
    (void)snprintf(automatic, sizeof automatic, "pass_%zu", index);
    id = automatic;
  }
  pass->id = quire_loader_copy(loader, id);
  pass->name = name == NULL ? pass->id : quire_loader_copy(loader, name);
}

static void load_role(quire_loader *loader, json_t *json, const quire_json_place *place,
                      quire_manifest_pass *pass) {
  const char *role = quire_loader_string(loader, json, "role", place);
  pass->schedule = role != NULL;
  if (role != NULL && strcmp(role, "schedule") != 0) {
    quire_json_place member = quire_json_member(place, "role");
    quire_loader_fault(loader, &member, "must be \"schedule\"");
  }
}

static void load_pass(quire_scope *scope, json_t *json, const quire_json_place *place, size_t index,
                      quire_manifest_variant *variant, quire_manifest_pass *pass,
                      const uint8_t **depths) {
  static const char *const members[] = {"id",       "shader",    "native",         "role",
                                        "bindings", "name",      "derive",         "dispatch",
                                        "grid",     "workgroup", "workgroupBytes", NULL};
  quire_loader *loader = scope->loader;
  quire_json_place derive_place = quire_json_member(place, "derive");
  quire_json_place bindings_place = quire_json_member(place, "bindings");
  quire_json_place dispatch_place = quire_json_member(place, "dispatch");
  pass->id = "";
  pass->name = "";
  pass->grid = -1;
  if (!quire_loader_object(loader, json, place, members)) {
    return;
  }
  load_pass_names(loader, json, place, index, pass);
  load_code(loader, json, place, variant, pass);
  load_role(loader, json, place, pass);
  json_t *derive = json_object_get(json, "derive");
  quire_load_layer_names(loader, derive, &derive_place, &pass->derive);
  scope->layers[QUIRE_LAYER_PASS] = &pass->derive;
  quire_load_layer_texts(scope, derive, &derive_place, QUIRE_LAYER_PASS, depths);
  json_t *bindings = json_object_get(json, "bindings");
  if (bindings == NULL) {
    quire_loader_fault(loader, place, "`bindings` is missing");
  }
  quire_load_bindings(scope, bindings, &bindings_place, variant, pass);
  json_t *dispatch = json_object_get(json, "dispatch");
  if (dispatch == NULL && !pass->schedule) {
    quire_loader_fault(loader, place, "`dispatch` is missing");
  } else if (dispatch != NULL) {
    load_dispatch(scope, dispatch, &dispatch_place, pass);
  }
  load_workgroup(scope, json, place, pass);
  load_grid(loader, json, place, variant, pass);
  if (pass->schedule) {
    check_schedule(loader, place, index, variant, pass);
  }
  if (pass->native != NULL) {
    check_native(loader, place, pass);
  }
}

static void check_pass_ids(quire_loader *loader, const quire_json_place *place,
                           const quire_manifest_pass *passes, size_t index) {
  for (size_t i = 0; i < index; ++i) {
    if (strcmp(passes[i].id, passes[index].id) == 0 && passes[index].id[0] != '\0') {
      quire_json_place element = quire_json_element(place, index);
      quire_loader_fault(loader, &element, "the id `%.60s` is there twice", passes[index].id);
      return;
    }
  }
}

void quire_load_passes(quire_scope *scope, json_t *json, const quire_json_place *place,
                       quire_manifest_variant *variant, const uint8_t **depths) {
  quire_loader *loader = scope->loader;
  size_t count = quire_loader_list(loader, json, place);
  if (count == 0 && json_is_array(json)) {
    quire_loader_fault(loader, place, "must have at least one pass");
  }
  quire_manifest_pass *passes = quire_loader_array(loader, count, sizeof *passes);
  if (passes == NULL || count == 0) {
    return;
  }
  variant->passes = passes;
  scope->symbols = true;
  for (size_t i = 0; i < count; ++i) {
    quire_json_place element = quire_json_element(place, i);
    variant->pass_count = i + 1;
    load_pass(scope, json_array_get(json, i), &element, i, variant, &passes[i], depths);
    check_pass_ids(loader, place, passes, i);
  }
  check_grids(loader, place, variant);
}
