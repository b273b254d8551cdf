/* Structs and bindings of a pass in WGSL (docs/manifest-language.md 10). */
#include <string.h>

#include "template_parts.h"

enum { words_of_alignment = 4 };

static const char *field_type(quire_field_type type) {
  switch (type) {
    case QUIRE_FIELD_U32:
      return "u32";
    case QUIRE_FIELD_I32:
      return "i32";
    case QUIRE_FIELD_F32:
      break;
  }
  return "f32";
}

static void declare_struct(const quire_manifest_binding *binding, quire_text *out) {
  quire_text_format(out, "struct %s { ", binding->struct_name);
  for (size_t i = 0; i < binding->field_count; i++) {
    quire_text_format(out, "%s: %s, ", binding->fields[i].name,
                      field_type(binding->fields[i].type));
  }
  for (size_t i = 0; (binding->field_count + i) % words_of_alignment != 0; i++) {
    quire_text_format(out, "_pad%zu: u32, ", i);
  }
  quire_text_put(out, "}\n");
}

/* Two uniforms may share one struct. */
static bool is_declared(const quire_plan_pass *pass, size_t index) {
  const char *name = pass->bindings[index].manifest->struct_name;
  for (size_t i = 0; i < index; i++) {
    const quire_manifest_binding *other = pass->bindings[i].manifest;
    if (other->kind == QUIRE_BINDING_UNIFORM && strcmp(other->struct_name, name) == 0) {
      return true;
    }
  }
  return false;
}

void quire_template_declare(const quire_plan_pass *pass, quire_text *out) {
  size_t count = pass->manifest->binding_count;
  for (size_t i = 0; i < count; i++) {
    if (pass->bindings[i].manifest->kind == QUIRE_BINDING_UNIFORM && !is_declared(pass, i)) {
      declare_struct(pass->bindings[i].manifest, out);
    }
  }
  for (size_t i = 0; i < count; i++) {
    const quire_plan_binding *binding = &pass->bindings[i];
    const quire_manifest_binding *manifest = binding->manifest;
    if (binding->index < 0) {
      continue;
    }
    quire_text_format(out, "@group(0) @binding(%d) var<", (int)binding->index);
    if (manifest->kind == QUIRE_BINDING_UNIFORM) {
      quire_text_format(out, "uniform> %s: %s;\n", manifest->name, manifest->struct_name);
    } else {
      quire_text_format(out, "storage, %s> %s: array<%s>;\n",
                        manifest->writable ? "read_write" : "read", manifest->name,
                        binding->element);
    }
  }
  if (out->length > 0 && !out->failed) {
    out->data[--out->length] = '\0'; /* the line end after the last one is the template's */
  }
}
