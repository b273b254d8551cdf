/* Native kernels by name, and whether a manifest binds them as they expect. */
#include "registry.h"

#include <string.h>

#include "error.h"

const quire_implementation *quire_registry_find(const quire_registry *registry,
                                                const char *kernel) {
  for (size_t list = 0; registry != NULL && list < registry->count; list++) {
    for (size_t i = 0; i < registry->lists[list].count; i++) {
      const quire_implementation *item = &registry->lists[list].items[i];
      if (strcmp(item->kernel, kernel) == 0) {
        return item;
      }
    }
  }
  return NULL;
}

/* Where a finding is: "variant attend, pass merge". */
typedef struct place {
  const quire_manifest_variant *variant;
  const quire_manifest_pass *pass;
  const quire_implementation *kernel;
  quire_error *error;
} place;

#define MISMATCH(at, format, ...)                                                          \
  quire_fail((at)->error, QUIRE_BAD_MANIFEST, NULL, (at)->variant->id, "pass %s: " format, \
             (at)->pass->id, __VA_ARGS__)

static const char *field_type_name(quire_field_type type) {
  return type == QUIRE_FIELD_U32 ? "u32" : type == QUIRE_FIELD_I32 ? "i32" : "f32";
}

/* Compares a struct's fields with a layout string "num_heads:u32 scale:f32". */
static quire_status check_uniforms(const place *at, const quire_manifest_binding *binding) {
  const char *layout = at->kernel->uniforms != NULL ? at->kernel->uniforms : "";
  const char *next = layout;
  size_t count = binding != NULL ? binding->field_count : 0;
  for (size_t i = 0; i < count; i++) {
    const quire_manifest_field *field = &binding->fields[i];
    const char *type = field_type_name(field->type);
    size_t name_length = strlen(field->name);
    size_t type_length = strlen(type);
    if (strncmp(next, field->name, name_length) != 0 || next[name_length] != ':' ||
        strncmp(next + name_length + 1, type, type_length) != 0) {
      return MISMATCH(at, "uniform %zu is %s:%s, kernel %s has \"%s\"", i, field->name, type,
                      at->kernel->kernel, layout);
    }
    next += name_length + 1 + type_length;
    next += *next == ' ';
  }
  if (*next != '\0') {
    return MISMATCH(at, "%zu uniforms, kernel %s has \"%s\"", count, at->kernel->kernel, layout);
  }
  return QUIRE_OK;
}

static quire_status check_pass(const place *at) {
  const quire_manifest_binding *uniforms = NULL;
  size_t view = 0;
  for (size_t i = 0; i < at->pass->binding_count; i++) {
    const quire_manifest_binding *binding = &at->pass->bindings[i];
    if (binding->kind == QUIRE_BINDING_UNIFORM) {
      uniforms = binding; /* load allows one */
      continue;
    }
    if (view >= at->kernel->binding_count) {
      return MISMATCH(at, "binding %s is one too many, kernel %s takes %zu", binding->name,
                      at->kernel->kernel, at->kernel->binding_count);
    }
    if (strcmp(binding->name, at->kernel->bindings[view].name) != 0) {
      return MISMATCH(at, "binding %zu is %s, kernel %s has %s", view, binding->name,
                      at->kernel->kernel, at->kernel->bindings[view].name);
    }
    view++;
  }
  if (view != at->kernel->binding_count) {
    return MISMATCH(at, "binding %s of kernel %s is missing", at->kernel->bindings[view].name,
                    at->kernel->kernel);
  }
  if (view > QUIRE_PASS_MAX_BINDINGS) {
    return MISMATCH(at, "%zu bindings, at most %d are possible", view,
                    (int)QUIRE_PASS_MAX_BINDINGS);
  }
  return check_uniforms(at, uniforms);
}

quire_status quire_registry_check(const quire_registry *registry, const quire_manifest *manifest,
                                  quire_error *error) {
  for (size_t v = 0; v < manifest->variant_count; v++) {
    const quire_manifest_variant *variant = &manifest->variants[v];
    for (size_t i = 0; i < variant->pass_count; i++) {
      const quire_manifest_pass *pass = &variant->passes[i];
      if (pass->native == NULL) {
        continue;
      }
      place at = {variant, pass, quire_registry_find(registry, pass->native), error};
      if (at.kernel == NULL) {
        /* Kernels of other devices are not in a registry of host functions. */
        if (strcmp(variant->backend, "cpu") != 0) {
          continue;
        }
        return MISMATCH(&at, "kernel %s does not exist", pass->native);
      }
      QUIRE_TRY(check_pass(&at));
    }
  }
  return QUIRE_OK;
}
