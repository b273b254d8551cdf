/* Bindings of passes, and the shared ones they use (docs/manifest-language.md 3.5, 15). */
#include <string.h>

#include "manifest_loader.h"

static const char *const binding_members[] = {"name",       "arg",    "scratch",     "struct",
                                              "structName", "buffer", "elementType", "axes",
                                              "optional",   NULL};

/* One binding while it is loaded. */
typedef struct quire_binding_load {
  quire_loader *loader;
  quire_scope *scope;
  json_t *json;                          /* the declaration */
  const quire_json_place *place;         /* of the declaration */
  const quire_json_place *use;           /* where the pass lists it */
  const quire_manifest_variant *variant; /* NULL: a shared binding by itself */
  bool native;                           /* the pass is */
  quire_manifest_binding *binding;
} quire_binding_load;

static int32_t find_intermediate(const quire_manifest_variant *variant, const char *id) {
  for (size_t i = 0; variant != NULL && i < variant->intermediate_count; ++i) {
    if (strcmp(variant->intermediates[i].id, id) == 0) {
      return (int32_t)i;
    }
  }
  return -1;
}

/* ---- element types ---- */

static bool is_element_type(const char *text) {
  static const char *const types[] = {"f32",         "f16",        "i32",       "u32",
                                      "vec2<f32>",   "vec2<f16>",  "vec2<i32>", "vec2<u32>",
                                      "vec4<f32>",   "vec4<f16>",  "vec4<i32>", "vec4<u32>",
                                      "atomic<u32>", "atomic<i32>"};
  for (size_t i = 0; i < sizeof types / sizeof *types; ++i) {
    if (strcmp(types[i], text) == 0) {
      return true;
    }
  }
  return false;
}

static void load_element_type(quire_binding_load *load) {
  const char *text = quire_loader_string(load->loader, load->json, "elementType", load->place);
  quire_json_place member = quire_json_member(load->place, "elementType");
  if (text == NULL) {
    return;
  }
  load->binding->element = quire_loader_copy(load->loader, text);
  if (text[0] != '$') {
    load->binding->element_source = QUIRE_ELEMENT_TEXT;
    if (!is_element_type(text)) {
      quire_loader_fault(load->loader, &member, "`%.60s` is not an element type of a binding",
                         text);
    }
    return;
  }
  quire_ref ref;
  load->binding->element_source = QUIRE_ELEMENT_EXPR;
  if (!quire_scope_find(load->scope, text + 1, strlen(text + 1), &ref)) {
    quire_loader_fault(load->loader, &member, "`%.60s` is neither a derived name nor a symbol%s",
                       text, load->scope->shared ? " that a shared binding can see" : "");
    return;
  }
  load->binding->element_expr = quire_loader_compile(load->scope, text + 1, &member);
}

/* ---- uniforms ---- */

static void load_field(quire_binding_load *load, json_t *json, const quire_json_place *place,
                       const quire_manifest_field *earlier, size_t earlier_count,
                       quire_manifest_field *field) {
  static const char *const members[] = {"name", "type", "value", NULL};
  static const char *const types[] = {"u32", "i32", "f32"}; /* in the order of quire_field_type */
  quire_loader *loader = load->loader;
  quire_json_place name_place = quire_json_member(place, "name");
  quire_json_place type_place = quire_json_member(place, "type");
  quire_json_place value_place = quire_json_member(place, "value");
  field->name = "";
  if (!quire_loader_object(loader, json, place, members)) {
    return;
  }
  for (size_t i = 0; members[i] != NULL; ++i) {
    if (json_object_get(json, members[i]) == NULL) {
      quire_loader_fault(loader, place, "`%s` is missing", members[i]);
      return;
    }
  }
  const char *name = quire_loader_string(loader, json, "name", place);
  if (name != NULL) {
    field->name = quire_loader_copy(loader, name);
    if (!quire_is_name(name) || strncmp(name, "_pad", 4) == 0) {
      quire_loader_fault(loader, &name_place, "`%.60s` is not a name for a field", name);
    }
    for (size_t i = 0; i < earlier_count; ++i) {
      if (strcmp(earlier[i].name, name) == 0) {
        quire_loader_fault(loader, &name_place, "`%.60s` is there twice", name);
        break;
      }
    }
  }
  const char *type = quire_loader_string(loader, json, "type", place);
  size_t index = 0;
  while (type != NULL && index < 3 && strcmp(types[index], type) != 0) {
    ++index;
  }
  if (type != NULL && index == 3) {
    quire_loader_fault(loader, &type_place, "must be \"u32\", \"i32\" or \"f32\"");
  } else {
    field->type = (quire_field_type)index;
  }
  field->value = quire_loader_expression(load->scope, json_object_get(json, "value"), &value_place);
}

static void load_struct(quire_binding_load *load, json_t *list) {
  quire_loader *loader = load->loader;
  quire_json_place place = quire_json_member(load->place, "struct");
  quire_manifest_binding *binding = load->binding;
  size_t count = quire_loader_list(loader, list, &place);
  quire_manifest_field *fields = quire_loader_array(loader, count, sizeof *fields);
  if (fields == NULL) {
    return;
  }
  if (count == 0 && json_is_array(list)) {
    quire_loader_fault(loader, &place, "must have at least one field");
  }
  for (size_t i = 0; i < count; ++i) {
    quire_json_place element = quire_json_element(&place, i);
    load_field(load, json_array_get(list, i), &element, fields, i, &fields[i]);
  }
  binding->kind = QUIRE_BINDING_UNIFORM;
  binding->fields = fields;
  binding->field_count = count;
  static const char *const excluded[] = {"buffer", "elementType", "axes", "optional"};
  for (size_t i = 0; i < sizeof excluded / sizeof *excluded; ++i) {
    if (json_object_get(load->json, excluded[i]) != NULL) {
      quire_json_place member = quire_json_member(load->place, excluded[i]);
      quire_loader_fault(loader, &member, "a struct has no `%s`", excluded[i]);
    }
  }
}

static void load_struct_name(quire_binding_load *load, bool is_struct) {
  const char *name = quire_loader_string(load->loader, load->json, "structName", load->place);
  quire_json_place member = quire_json_member(load->place, "structName");
  load->binding->struct_name = is_struct ? "Params" : NULL;
  if (name == NULL) {
    return;
  }
  if (!is_struct) {
    quire_loader_fault(load->loader, &member, "only a struct has a `structName`");
  } else if (!quire_is_name(name)) {
    quire_loader_fault(load->loader, &member, "`%.60s` is not a name", name);
  } else {
    load->binding->struct_name = quire_loader_copy(load->loader, name);
  }
}

/* ---- buffers ---- */

static void load_arg(quire_binding_load *load, const char *key, const quire_json_place *place) {
  quire_manifest_binding *binding = load->binding;
  binding->kind = QUIRE_BINDING_ARG;
  binding->source = quire_manifest_find_key(load->loader->manifest, key);
  if (binding->source < 0) {
    quire_loader_fault(load->loader, place, "unknown tensor `%.60s`", key);
    binding->source = 0;
  } else if (find_intermediate(load->variant, binding->name) >= 0) {
    quire_loader_fault(load->loader, load->use,
                       "tensor `%.60s` is bound under the id of an "
                       "intermediate, `%.60s`",
                       key, binding->name);
  }
}

static void load_scratch(quire_binding_load *load, const char *id, const quire_json_place *place) {
  quire_manifest_binding *binding = load->binding;
  binding->kind = QUIRE_BINDING_SCRATCH;
  binding->source = find_intermediate(load->variant, id);
  if (binding->source < 0 && load->variant != NULL) {
    quire_loader_fault(load->loader, place, "unknown intermediate `%.60s`", id);
    binding->source = 0;
  }
}

/* What the buffer is: said, or found by the WGSL name. False: not known yet (a shared binding). */
static bool load_source(quire_binding_load *load, const char *arg, const char *scratch) {
  quire_json_place arg_place = quire_json_member(load->place, "arg");
  quire_json_place scratch_place = quire_json_member(load->place, "scratch");
  const char *name = load->binding->name;
  if (arg != NULL) {
    load_arg(load, arg, &arg_place);
  } else if (scratch != NULL) {
    load_scratch(load, scratch, &scratch_place);
    return load->variant != NULL;
  } else if (find_intermediate(load->variant, name) >= 0) {
    load_scratch(load, name, load->use);
  } else if (quire_manifest_find_key(load->loader->manifest, name) >= 0) {
    load_arg(load, name, load->use);
    return load->variant != NULL;
  } else if (load->variant != NULL) {
    quire_loader_fault(load->loader, load->use, "there is no intermediate and no tensor `%.60s`",
                       name);
  }
  return arg != NULL || load->variant != NULL;
}

static bool is_pure_input(const quire_loader *loader, const quire_manifest_binding *binding) {
  return binding->kind == QUIRE_BINDING_ARG && loader->manifest->key_count > 0 &&
         loader->manifest->keys[binding->source].output < 0;
}

static void load_access(quire_binding_load *load, bool source_known) {
  const char *buffer = quire_loader_string(load->loader, load->json, "buffer", load->place);
  quire_json_place member = quire_json_member(load->place, "buffer");
  bool input = source_known && is_pure_input(load->loader, load->binding);
  load->binding->writable = !input;
  if (buffer == NULL) {
    return;
  }
  bool storage = strcmp(buffer, "storage") == 0;
  if (!storage && strcmp(buffer, "read-only-storage") != 0) {
    quire_loader_fault(load->loader, &member, "must be \"storage\" or \"read-only-storage\"");
  } else if (storage && input) {
    quire_loader_fault(load->loader, &member, "a pass may not write to the input `%.60s`",
                       load->loader->manifest->keys[load->binding->source].name);
  } else {
    load->binding->writable = storage;
  }
}

static void load_axes(quire_binding_load *load) {
  quire_loader *loader = load->loader;
  quire_manifest_binding *binding = load->binding;
  quire_json_place place = quire_json_member(load->place, "axes");
  json_t *list = json_object_get(load->json, "axes");
  if (list == NULL) {
    return;
  }
  size_t count = quire_loader_list(loader, list, &place);
  bool seen[QUIRE_MAX_RANK] = {false};
  bool permutation = count > 0 && count <= QUIRE_MAX_RANK;
  for (size_t i = 0; permutation && i < count; ++i) {
    json_t *json = json_array_get(list, i);
    quire_value axis = json_is_number(json) ? quire_json_number(json) : quire_value_undefined();
    permutation = axis.kind == QUIRE_VALUE_INTEGER && axis.as.integer >= 0 &&
                  axis.as.integer < (int64_t)count && !seen[axis.as.integer];
    if (permutation) {
      seen[axis.as.integer] = true;
      binding->axes[i] = (int8_t)axis.as.integer;
    }
  }
  if (!permutation) {
    quire_loader_fault(loader, &place, "must be a permutation of the axes 0, 1, ...");
  } else if (load->variant != NULL && !load->native) {
    quire_loader_fault(loader, &place, "only a native pass sees permuted axes");
  } else if (load->variant != NULL && binding->kind != QUIRE_BINDING_ARG) {
    quire_loader_fault(loader, &place, "only a tensor has axes to permute");
  } else {
    binding->axis_count = (int32_t)count;
  }
}

static void load_optional(quire_binding_load *load) {
  quire_json_place place = quire_json_member(load->place, "optional");
  load->binding->optional =
      quire_loader_boolean(load->loader, load->json, "optional", load->place, false);
  if (load->binding->optional && load->variant != NULL &&
      load->binding->kind != QUIRE_BINDING_ARG) {
    quire_loader_fault(load->loader, &place, "only a tensor can be absent");
  }
}

/* `key`: of the map of shared bindings, or NULL. */
static void load_binding(quire_binding_load *load, const char *key) {
  quire_loader *loader = load->loader;
  quire_manifest_binding *binding = load->binding;
  binding->name = "";
  if (!quire_loader_object(loader, load->json, load->place, binding_members)) {
    return;
  }
  const char *name = quire_loader_string(loader, load->json, "name", load->place);
  const char *arg = quire_loader_string(loader, load->json, "arg", load->place);
  const char *scratch = quire_loader_string(loader, load->json, "scratch", load->place);
  json_t *fields = json_object_get(load->json, "struct");
  if ((arg != NULL) + (scratch != NULL) + (fields != NULL) > 1) {
    quire_loader_fault(loader, load->place, "has more than one of `arg`, `scratch`, `struct`");
    return;
  }
  const char *wgsl = name != NULL ? name : key != NULL ? key : arg != NULL ? arg : scratch;
  if (wgsl == NULL || !quire_is_name(wgsl)) {
    quire_loader_fault(loader, load->place,
                       wgsl == NULL ? "`name` is missing" : "its name is not a name");
    return;
  }
  binding->name = quire_loader_copy(loader, wgsl);
  load_struct_name(load, fields != NULL);
  if (fields != NULL) {
    load_struct(load, fields);
    return;
  }
  bool known = load_source(load, arg, scratch);
  load_access(load, known);
  load_element_type(load);
  load_axes(load);
  load_optional(load);
}

void quire_load_shared_bindings(quire_loader *loader) {
  quire_scope scope = quire_scope_kernel(loader);
  quire_json_place root = quire_json_root();
  quire_json_place place = quire_json_member(&root, "bindings");
  json_t *map = json_object_get(loader->root, "bindings");
  size_t count = quire_loader_map(loader, map, &place);
  scope.symbols = true;
  scope.shared = true;
  if (count == 0) {
    return;
  }
  loader->shared = map;
  const char *key = NULL;
  json_t *json = NULL;
  json_object_foreach(map, key, json) {
    if (quire_is_comment(key)) {
      continue;
    }
    quire_json_place member = quire_json_member(&place, key);
    quire_manifest_binding binding = {.name = ""};
    quire_binding_load load = {.loader = loader,
                               .scope = &scope,
                               .json = json,
                               .place = &member,
                               .use = &member,
                               .binding = &binding};
    load_binding(&load, key);
  }
}

/* ---- the list of a pass ---- */

/* A bare name: a shared binding, a tensor, an intermediate. */
static void load_named_binding(quire_binding_load *load, const char *name) {
  quire_loader *loader = load->loader;
  quire_json_place root = quire_json_root();
  quire_json_place shared = quire_json_member(&root, "bindings");
  quire_json_place member = quire_json_member(&shared, name);
  json_t *declaration = loader->shared == NULL || quire_is_comment(name)
                            ? NULL
                            : json_object_get(loader->shared, name);
  load->binding->name = "";
  if (declaration != NULL) {
    quire_binding_load shared_load = *load;
    shared_load.json = declaration;
    shared_load.place = &member;
    load->scope->shared = true;
    load_binding(&shared_load, name);
    load->scope->shared = false;
    return;
  }
  load->binding->name = quire_loader_copy(loader, name);
  load->json = NULL;
  if (quire_manifest_find_key(loader->manifest, name) >= 0) {
    load_arg(load, name, load->use);
  } else if (find_intermediate(load->variant, name) >= 0) {
    load_scratch(load, name, load->use);
  } else {
    quire_loader_fault(loader, load->use,
                       "there is no shared binding, tensor or intermediate `%.60s`", name);
    return;
  }
  load->binding->writable = !is_pure_input(loader, load->binding);
}

static bool same_fields(const quire_manifest_binding *a, const quire_manifest_binding *b) {
  if (a->field_count != b->field_count) {
    return false;
  }
  for (size_t i = 0; i < a->field_count; ++i) {
    if (a->fields[i].type != b->fields[i].type ||
        strcmp(a->fields[i].name, b->fields[i].name) != 0) {
      return false;
    }
  }
  return true;
}

/* A binding against an earlier one of the same pass. */
static void check_pair(quire_loader *loader, const quire_manifest_binding *earlier,
                       const quire_manifest_binding *binding, const quire_json_place *place) {
  if (binding->name[0] == '\0' || earlier->name[0] == '\0') {
    return; /* at fault already */
  }
  bool uniform = binding->kind == QUIRE_BINDING_UNIFORM;
  if (strcmp(earlier->name, binding->name) == 0) {
    quire_loader_fault(loader, place, "the name `%.60s` is there twice", binding->name);
  } else if (earlier->kind != binding->kind) {
    return;
  } else if (uniform && strcmp(earlier->struct_name, binding->struct_name) == 0 &&
             !same_fields(earlier, binding)) {
    quire_loader_fault(loader, place, "struct `%.60s` has other fields than before",
                       binding->struct_name);
  } else if (!uniform && earlier->source == binding->source &&
             (earlier->writable || binding->writable)) {
    quire_loader_fault(loader, place,
                       "the buffer of `%.60s` is bound twice, and not read-only both times",
                       binding->name);
  }
}

void quire_load_bindings(quire_scope *scope, json_t *json, const quire_json_place *place,
                         const quire_manifest_variant *variant, quire_manifest_pass *pass) {
  quire_loader *loader = scope->loader;
  size_t count = quire_loader_list(loader, json, place);
  quire_manifest_binding *bindings = quire_loader_array(loader, count, sizeof *bindings);
  if (bindings == NULL) {
    return;
  }
  for (size_t i = 0; i < count; ++i) {
    quire_json_place element = quire_json_element(place, i);
    quire_binding_load load = {.loader = loader,
                               .scope = scope,
                               .json = json_array_get(json, i),
                               .place = &element,
                               .use = &element,
                               .variant = variant,
                               .native = pass->native != NULL,
                               .binding = &bindings[i]};
    if (json_is_string(load.json)) {
      load_named_binding(&load, json_string_value(load.json));
    } else {
      load_binding(&load, NULL);
    }
    for (size_t j = 0; j < i; ++j) {
      check_pair(loader, &bindings[j], &bindings[i], &element);
    }
    bool uniform = bindings[i].kind == QUIRE_BINDING_UNIFORM;
    pass->uniform_count += uniform ? 1 : 0;
    pass->storage_count += uniform ? 0 : 1;
  }
  pass->bindings = bindings;
  pass->binding_count = count;
}
