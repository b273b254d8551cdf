#include "manifest.h"

#include <string.h>

#include "error.h"
#include "json_text.h"
#include "manifest_loader.h"

/* ---- the top level ---- */

static void load_identity(quire_loader *loader) {
  quire_manifest *manifest = loader->manifest;
  quire_json_place root = quire_json_root();
  quire_json_place name_place = quire_json_member(&root, "name");
  quire_json_place version_place = quire_json_member(&root, "sinceVersion");
  static const char *const required[] = {"domain", "name", "sinceVersion"};
  for (size_t i = 0; i < sizeof required / sizeof *required; ++i) {
    if (json_object_get(loader->root, required[i]) == NULL) {
      quire_loader_fault(loader, &root, "`%s` is missing", required[i]);
    }
  }
  const char *domain = quire_loader_string(loader, loader->root, "domain", &root);
  const char *name = quire_loader_string(loader, loader->root, "name", &root);
  manifest->domain = quire_loader_copy(loader, domain == NULL ? "" : domain);
  manifest->name = quire_loader_copy(loader, name == NULL ? "" : name);
  if (name != NULL && !quire_is_name(name)) {
    quire_loader_fault(loader, &name_place, "`%.60s` is not a name", name);
  }
  quire_loader_string(loader, loader->root, "$schema", &root);
  json_t *version = json_object_get(loader->root, "sinceVersion");
  quire_value number =
      json_is_number(version) ? quire_json_number(version) : quire_value_undefined();
  if (number.kind == QUIRE_VALUE_INTEGER) {
    manifest->since_version = number.as.integer;
  } else if (version != NULL) {
    quire_loader_fault(loader, &version_place, "must be an integer");
  }
  quire_text text;
  quire_text_init(&text, loader->scratch.allocator);
  quire_text_format(&text, "%s.%s", manifest->domain[0] == '\0' ? "ai.onnx" : manifest->domain,
                    manifest->name);
  loader->out_of_memory = loader->out_of_memory || text.failed;
  manifest->qualified = quire_loader_copy(loader, quire_text_view(&text));
  quire_text_release(&text);
}

/* Names before texts: a text may mention what stands behind it. */
static void load_top(quire_loader *loader) {
  static const char *const members[] = {
      "$schema",         "domain",   "name",       "sinceVersion",
      "inputs",          "outputs",  "attributes", "attributeConstraints",
      "typeConstraints", "tunables", "derive",     "when",
      "requires",        "bindings", "variants",   "contract",
      "rules",           NULL};
  quire_manifest *manifest = loader->manifest;
  quire_json_place root = quire_json_root();
  quire_json_place derive = quire_json_member(&root, "derive");
  quire_json_place when = quire_json_member(&root, "when");
  quire_json_place requires = quire_json_member(&root, "requires");
  quire_loader_object(loader, loader->root, &root, members);
  if (!json_is_object(loader->root)) {
    return;
  }
  load_identity(loader);
  quire_load_symbols(loader);
  quire_load_tensor_names(loader);
  quire_load_attributes(loader);
  quire_load_tunables(loader);
  quire_load_rules(loader);
  quire_load_layer_names(loader, json_object_get(loader->root, "derive"), &derive,
                         &manifest->derive);
  if (loader->out_of_memory) {
    return;
  }
  quire_scope kernel = quire_scope_kernel(loader);
  quire_load_tensor_texts(loader);
  quire_load_contract(loader);
  quire_load_requires(loader, json_object_get(loader->root, "requires"), &requires,
                      &manifest->requires, NULL);
  manifest->when = quire_loader_clauses(&kernel, json_object_get(loader->root, "when"), &when,
                                        &manifest->when_count);
  quire_load_shared_bindings(loader);
  quire_load_variants(loader);
}

/* ---- JSON ---- */

static quire_status refuse_text(quire_finding_function *report, void *user, quire_error *error,
                                size_t line, size_t column, const char *message) {
  if (report != NULL) {
    quire_finding finding = {QUIRE_SEVERITY_ERROR, "$", line, message};
    report(user, &finding);
  }
  if (column > 0) {
    return quire_fail(error, QUIRE_BAD_MANIFEST, NULL, "$", "%s (line %zu, column %zu)", message,
                      line, column);
  }
  return quire_fail(error, QUIRE_BAD_MANIFEST, NULL, "$", "%s", message);
}

static quire_status parse_text(quire_loader *loader, quire_finding_function *report, void *user,
                               quire_error *error) {
  if (loader->length > QUIRE_MANIFEST_MAX_BYTES) {
    return refuse_text(report, user, error, 0, 0, "the text is larger than 1 MiB");
  }
  if (quire_json_nesting(loader->text, loader->length) > QUIRE_MANIFEST_MAX_NESTING) {
    return refuse_text(report, user, error, 0, 0, "nested more than 32 deep");
  }
  quire_json_fault fault;
  loader->root = quire_json_read(loader->scratch.allocator, loader->text, loader->length, &fault);
  if (loader->root != NULL) {
    return QUIRE_OK;
  }
  return fault.out_of_memory
             ? quire_fail_memory(error)
             : refuse_text(report, user, error, fault.line, fault.column, fault.message);
}

/* ---- public ---- */

static void finish_lists(quire_loader *loader) {
  loader->manifest->limits = loader->limits.names;
  loader->manifest->limit_count = loader->limits.count;
  loader->manifest->adapter_keys = loader->adapter_keys.names;
  loader->manifest->adapter_key_count = loader->adapter_keys.count;
}

/* FNV-1a (Fowler, Noll, Vo), 64 bits: tells versions of a manifest apart, no more. */
static uint64_t digest_of(const char *text, size_t length) {
  uint64_t digest = UINT64_C(0xcbf29ce484222325);
  for (size_t i = 0; i < length; ++i) {
    digest = (digest ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
  }
  return digest;
}

static quire_status load(quire_loader *loader, quire_finding_function *report, void *user,
                         quire_error *error) {
  QUIRE_TRY(parse_text(loader, report, user, error));
  loader->manifest->digest = digest_of(loader->text, loader->length);
  load_top(loader);
  finish_lists(loader);
  if (loader->lint && !loader->failed && !loader->out_of_memory) {
    quire_lint(loader);
  }
  return quire_loader_finish(loader, report, user, error);
}

quire_status quire_manifest_load(const quire_allocator *allocator, const char *text, size_t length,
                                 quire_finding_function *report, void *report_user,
                                 quire_manifest **manifest, quire_error *error) {
  *manifest = NULL;
  quire_loader *loader = quire_alloc_array(allocator, 1, sizeof *loader);
  quire_manifest *loaded = quire_alloc_array(allocator, 1, sizeof *loaded);
  quire_status status = QUIRE_OUT_OF_MEMORY;
  if (loader != NULL && loaded != NULL) {
    quire_arena_init(&loaded->arena, allocator);
    quire_arena_init(&loader->scratch, allocator);
    loader->manifest = loaded;
    loader->arena = &loaded->arena;
    loader->text = text;
    loader->length = length;
    loader->lint = report != NULL;
    status = load(loader, report, report_user, error);
    json_decref(loader->root);
    quire_arena_release(&loader->scratch);
  } else {
    quire_fail_memory(error);
  }
  quire_dealloc(allocator, loader, sizeof *loader, QUIRE_ALLOC_ALIGNMENT);
  if (status == QUIRE_OK) {
    *manifest = loaded;
  } else if (loader != NULL) {
    quire_manifest_destroy(loaded);
  } else {
    quire_dealloc(allocator, loaded, sizeof *loaded, QUIRE_ALLOC_ALIGNMENT);
  }
  return status;
}

void quire_manifest_destroy(quire_manifest *manifest) {
  if (manifest != NULL) {
    const quire_allocator *allocator = manifest->arena.allocator;
    quire_arena_release(&manifest->arena);
    quire_dealloc(allocator, manifest, sizeof *manifest, QUIRE_ALLOC_ALIGNMENT);
  }
}

int32_t quire_manifest_find_key(const quire_manifest *manifest, const char *name) {
  for (size_t i = 0; i < manifest->key_count; ++i) {
    if (strcmp(manifest->keys[i].name, name) == 0) {
      return (int32_t)i;
    }
  }
  return -1;
}

static int32_t find_onnx(const quire_manifest_tensor *tensors, size_t count, const char *onnx) {
  for (size_t i = 0; i < count; ++i) {
    if (strcmp(tensors[i].onnx, onnx) == 0) {
      return (int32_t)i;
    }
  }
  return -1;
}

int32_t quire_manifest_find_input(const quire_manifest *manifest, const char *onnx) {
  return find_onnx(manifest->inputs, manifest->input_count, onnx);
}

int32_t quire_manifest_find_output(const quire_manifest *manifest, const char *onnx) {
  return find_onnx(manifest->outputs, manifest->output_count, onnx);
}

int32_t quire_manifest_find_attribute(const quire_manifest *manifest, const char *name) {
  for (size_t i = 0; i < manifest->attribute_count; ++i) {
    if (strcmp(manifest->attributes[i].name, name) == 0) {
      return (int32_t)i;
    }
  }
  return -1;
}

int32_t quire_manifest_find_tunable(const quire_manifest *manifest, const char *name) {
  for (size_t i = 0; i < manifest->tunable_count; ++i) {
    if (strcmp(manifest->tunables[i].name, name) == 0) {
      return (int32_t)i;
    }
  }
  return -1;
}

int32_t quire_manifest_find_symbol(const quire_manifest *manifest, const char *name) {
  for (size_t i = 0; i < manifest->symbol_count; ++i) {
    if (strcmp(manifest->symbols[i].name, name) == 0) {
      return (int32_t)i;
    }
  }
  return -1;
}

const char *quire_manifest_source(const quire_manifest *manifest,
                                  const quire_manifest_variant *variant,
                                  const quire_manifest_binding *binding) {
  switch (binding->kind) {
    case QUIRE_BINDING_ARG:
      return manifest->keys[binding->source].name;
    case QUIRE_BINDING_SCRATCH:
      return variant->intermediates[binding->source].id;
    case QUIRE_BINDING_UNIFORM:
      break;
  }
  return NULL;
}
