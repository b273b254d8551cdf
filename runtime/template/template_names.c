/* What names and paths of a template mean: variables first, then the plan's names (section 11). */
#include <string.h>

#include "template_parts.h"

quire_template_variable *quire_template_find_variable(const quire_template_rendering *rendering,
                                                      int32_t name) {
  for (int32_t i = rendering->variable_count - 1; i >= rendering->macro_frame; --i) {
    if (rendering->variables[i].name == name) {
      return &rendering->variables[i];
    }
  }
  /* A macro sees the template's own variables, not those of loops around its call. */
  int32_t globals = rendering->macro_frame > 0 ? rendering->global_count : 0;
  for (int32_t i = globals - 1; i >= 0; --i) {
    if (rendering->variables[i].name == name) {
      return &rendering->variables[i];
    }
  }
  return NULL;
}

static const quire_plan_pass *pass_of(const quire_template_rendering *rendering) {
  return &rendering->description->passes[rendering->pass];
}

/* ---- spaces of templates; false: there is no such member ---- */

static bool load_loop(const quire_template_loop *loop, quire_span member, quire_value *value) {
  if (loop == NULL) {
    return false;
  }
  if (quire_span_is(member, "index0")) {
    *value = quire_value_integer(loop->index);
  } else if (quire_span_is(member, "index")) {
    *value = quire_value_integer(loop->index + 1);
  } else if (quire_span_is(member, "first")) {
    *value = quire_value_boolean(loop->index == 0);
  } else if (quire_span_is(member, "last")) {
    *value = quire_value_boolean(loop->index + 1 == loop->count);
  } else if (quire_span_is(member, "length")) {
    *value = quire_value_integer(loop->count);
  } else {
    return false;
  }
  return true;
}

static bool load_pass(const quire_template_rendering *rendering, quire_span member,
                      quire_value *value) {
  const quire_manifest_pass *pass = pass_of(rendering)->manifest;
  bool is_id = quire_span_is(member, "id");
  *value = quire_value_text(is_id ? pass->id : pass->name);
  return is_id || quire_span_is(member, "name");
}

static bool load_workgroup(const quire_template_rendering *rendering, quire_span member,
                           quire_value *value) {
  const quire_plan_pass *pass = pass_of(rendering);
  int axis = member.length == 1 ? member.text[0] - 'x' : -1;
  if (axis < 0 || axis > 2) {
    return false;
  }
  *value = pass->manifest->workgroup[0] != NULL ? quire_value_integer(pass->workgroup[axis])
                                                : quire_value_undefined();
  return true;
}

/* ---- bindings.NAME.member ---- */

static const quire_plan_binding *find_binding(const quire_template_rendering *rendering,
                                              quire_span name) {
  const quire_plan_pass *pass = pass_of(rendering);
  for (size_t i = 0; i < pass->manifest->binding_count; ++i) {
    if (quire_span_is(name, pass->bindings[i].manifest->name)) {
      return &pass->bindings[i];
    }
  }
  return NULL;
}

static quire_expr_code load_fields(const quire_template_rendering *rendering,
                                   const quire_manifest_binding *binding, quire_value *value) {
  if (binding->kind != QUIRE_BINDING_UNIFORM) {
    *value = quire_value_undefined();
    return QUIRE_EXPR_OK;
  }
  quire_value *fields =
      quire_arena_array(rendering->env.arena, binding->field_count, sizeof *fields);
  if (fields == NULL) {
    return QUIRE_EXPR_MEMORY;
  }
  for (size_t i = 0; i < binding->field_count; ++i) {
    fields[i] = quire_value_text(binding->fields[i].name);
  }
  *value = quire_value_list(fields, binding->field_count);
  return QUIRE_EXPR_OK;
}

/* UNKNOWN_NAME: no such binding or member. A binding that is left out has undefined members. */
static quire_expr_code load_binding(const quire_template_rendering *rendering, quire_span path,
                                    quire_value *value) {
  const char *dot = memchr(path.text, '.', path.length);
  if (dot == NULL) {
    return QUIRE_EXPR_UNKNOWN_NAME;
  }
  quire_span name = {path.text, (size_t)(dot - path.text)};
  quire_span member = {dot + 1, path.length - name.length - 1};
  const quire_plan_binding *binding = find_binding(rendering, name);
  if (binding == NULL) {
    return QUIRE_EXPR_UNKNOWN_NAME;
  }
  const quire_manifest_binding *manifest = binding->manifest;
  bool is_uniform = manifest->kind == QUIRE_BINDING_UNIFORM;
  *value = quire_value_undefined();
  if (binding->index < 0) {
    return QUIRE_EXPR_OK;
  }
  if (quire_span_is(member, "binding")) {
    *value = quire_value_integer(binding->index);
  } else if (quire_span_is(member, "type")) {
    *value = quire_value_text(is_uniform ? manifest->struct_name : binding->element);
  } else if (quire_span_is(member, "access")) {
    *value = quire_value_text(is_uniform ? "uniform" : manifest->writable ? "read_write" : "read");
  } else if (quire_span_is(member, "kind")) {
    *value = quire_value_text(is_uniform                                ? "uniform"
                              : manifest->kind == QUIRE_BINDING_SCRATCH ? "scratch"
                                                                        : "arg");
  } else if (quire_span_is(member, "source")) {
    *value = quire_value_text(quire_manifest_source(rendering->description->manifest,
                                                    quire_described_variant(rendering->description),
                                                    manifest));
  } else if (quire_span_is(member, "fields")) {
    return load_fields(rendering, manifest, value);
  } else {
    return QUIRE_EXPR_UNKNOWN_NAME;
  }
  return QUIRE_EXPR_OK;
}

/* ---- the plan's names ---- */

static bool begins(quire_span path, const char *prefix, quire_span *rest) {
  size_t length = strlen(prefix);
  if (path.length <= length || memcmp(path.text, prefix, length) != 0) {
    return false;
  }
  *rest = (quire_span){path.text + length, path.length - length};
  return true;
}

/* What the manifest says a name means; remembered, for it says the same everywhere in a pass. */
static const char *resolve(const quire_template_rendering *rendering, quire_template_name *name,
                           quire_span path) {
  if (!name->resolved) {
    const quire_plan_description *description = rendering->description;
    name->unknown =
        quire_manifest_resolve(description->manifest, description->variant, rendering->pass,
                               path.text, path.length, false, &name->ref);
    name->resolved = true;
  }
  return name->unknown;
}

static bool is_derived(const quire_template_rendering *rendering, int32_t name) {
  quire_template_name *first = &rendering->made->names[name];
  return resolve(rendering, first, first->text) == NULL && first->ref.kind == QUIRE_REF_DERIVED;
}

static quire_expr_code load_from_plan(const quire_template_rendering *rendering,
                                      quire_template_name *name, quire_span path,
                                      quire_value *value, quire_expr_fault *fault) {
  quire_span rest;
  if (begins(path, "device.limits.", &rest)) {
    *value = quire_plan_names_limit(rendering->names, rest.text, rest.length);
    return QUIRE_EXPR_OK;
  }
  if (begins(path, "device.adapterInfo.", &rest)) {
    *value = quire_plan_names_adapter(rendering->names, rest.text, rest.length);
    return QUIRE_EXPR_OK;
  }
  if (resolve(rendering, name, path) == NULL) {
    quire_expr_env *env = quire_plan_names_env(rendering->names);
    if (name->ref.kind == QUIRE_REF_FOLD_WIDTH) {
      *value = quire_value_integer(65535);
      return QUIRE_EXPR_OK;
    }
    return env->load(env, &name->ref, value, fault);
  }
  return QUIRE_EXPR_UNKNOWN_NAME;
}

static quire_expr_code load_bare(const quire_template_rendering *rendering, int32_t index,
                                 quire_value *value, quire_expr_fault *fault) {
  quire_template_name *name = &rendering->made->names[index];
  const quire_template_variable *variable = quire_template_find_variable(rendering, index);
  if (variable != NULL) {
    *value = variable->value;
    return QUIRE_EXPR_OK;
  }
  quire_expr_code code = load_from_plan(rendering, name, name->text, value, fault);
  if (code != QUIRE_EXPR_UNKNOWN_NAME || fault->at != NULL) {
    return code;
  }
  if (quire_span_is(name->text, "variant")) {
    *value = quire_value_text(quire_described_variant(rendering->description)->id);
    return QUIRE_EXPR_OK;
  }
  /* A space is no value; any other name that nobody knows is undefined. */
  if (strcmp(name->unknown, "unknown name") != 0) {
    return QUIRE_EXPR_UNKNOWN_NAME;
  }
  *value = quire_value_undefined();
  return QUIRE_EXPR_OK;
}

static quire_expr_code load_path(quire_template_rendering *rendering, int32_t index,
                                 quire_value *value, quire_expr_fault *fault) {
  quire_template_name *name = &rendering->made->names[index];
  quire_span rest;
  bool hidden = quire_template_find_variable(rendering, name->first) != NULL ||
                is_derived(rendering, name->first);
  if (hidden) {
    return QUIRE_EXPR_UNKNOWN_NAME;
  }
  if (begins(name->text, "loop.", &rest)) {
    return load_loop(rendering->loop, rest, value) ? QUIRE_EXPR_OK : QUIRE_EXPR_UNKNOWN_NAME;
  }
  if (begins(name->text, "pass.", &rest)) {
    return load_pass(rendering, rest, value) ? QUIRE_EXPR_OK : QUIRE_EXPR_UNKNOWN_NAME;
  }
  if (begins(name->text, "workgroup.", &rest)) {
    return load_workgroup(rendering, rest, value) ? QUIRE_EXPR_OK : QUIRE_EXPR_UNKNOWN_NAME;
  }
  if (begins(name->text, "bindings.", &rest)) {
    return load_binding(rendering, rest, value);
  }
  if (quire_span_is(name->text, "env.wgsl.resourceDeclarations")) {
    rendering->declarations_were_asked = true;
    *value = rendering->declarations;
    return QUIRE_EXPR_OK;
  }
  if (begins(name->text, "env.", &rest)) {
    quire_span device;
    return begins(rest, "device.", &device) ? load_from_plan(rendering, name, rest, value, fault)
                                            : QUIRE_EXPR_UNKNOWN_NAME;
  }
  return load_from_plan(rendering, name, name->text, value, fault);
}

quire_expr_code quire_template_load(quire_expr_env *env, const quire_ref *ref, quire_value *value,
                                    quire_expr_fault *fault) {
  quire_template_rendering *rendering = env->user;
  const quire_template_name *name = &rendering->made->names[ref->index];
  fault->at = NULL;
  *value = quire_value_undefined();
  quire_expr_code code = name->first == ref->index ? load_bare(rendering, ref->index, value, fault)
                                                   : load_path(rendering, ref->index, value, fault);
  /* `is defined` may ask for anything. */
  if (code == QUIRE_EXPR_UNKNOWN_NAME && ref->second != 0 && fault->at == NULL) {
    *value = quire_value_undefined();
    code = QUIRE_EXPR_OK;
  }
  return code;
}
