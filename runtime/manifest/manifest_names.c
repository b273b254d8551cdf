/* What names and paths mean, by the place where they stand (docs/manifest-language.md 4, 5, 15). */
#include <string.h>

#include "manifest_loader.h"

static bool same(const char *name, const char *text, size_t length) {
  return strlen(name) == length && memcmp(name, text, length) == 0;
}

static const char *const reserved[] = {
    /* keywords */
    "and", "or", "not", "if", "else", "is", "defined", "true", "false",
    /* functions */
    "dim", "min", "max", "floor", "ceil", "ceilDiv", "pow2ceil", "log2ceil", "pow", "numel",
    "sameShape", "has", "f16Ok",
    /* spaces */
    "attrs", "tunables", "shapes", "ranks", "present", "tensorDtypes", "dtypes", "device",
    "strides", "bound", "dense", "aliased", "DISPATCH_FOLD_WIDTH",
    /* of templates */
    "args", "logicalDtypes", "repeat", "env", "constants", "source", "range", "loop", "namespace",
    "dict", "True", "False", "None", "none",
    /* functions of the public engine that are not supported yet */
    "rows", "outer", "inner", "prefix", "suffix", "fill", "moveAxis", "permuteShape",
    "reversedAxes", "broadcastShape", "matmulShape", "broadcastable", "hasAxis", "axisValue",
    "isUniqueIntList", "dtypeBytes", "onnxDtypeCode", "pick"};

bool quire_is_reserved(const quire_manifest *manifest, const char *name) {
  for (size_t i = 0; i < sizeof reserved / sizeof *reserved; ++i) {
    if (strcmp(reserved[i], name) == 0) {
      return true;
    }
  }
  return quire_manifest_find_symbol(manifest, name) >= 0;
}

static int32_t find_symbol(const quire_manifest *manifest, const char *name, size_t length) {
  for (size_t i = 0; i < manifest->symbol_count; ++i) {
    if (same(manifest->symbols[i].name, name, length)) {
      return (int32_t)i;
    }
  }
  return -1;
}

int32_t quire_name_list_add(quire_loader *loader, quire_name_list *list, const char *name,
                            size_t length) {
  for (size_t i = 0; i < list->count; ++i) {
    if (same(list->names[i], name, length)) {
      return (int32_t)i;
    }
  }
  if (list->count == QUIRE_MANIFEST_MAX_ITEMS) {
    return -1;
  }
  if (list->names == NULL) {
    list->names = quire_loader_array(loader, QUIRE_MANIFEST_MAX_ITEMS, sizeof *list->names);
  }
  const char *copy = quire_arena_copy(loader->arena, name, length);
  if (list->names == NULL || copy == NULL) {
    loader->out_of_memory = true;
    return -1;
  }
  list->names[list->count] = copy;
  return (int32_t)list->count++;
}

quire_scope quire_scope_kernel(quire_loader *loader) {
  quire_scope scope = {.manifest = loader->manifest, .loader = loader, .own_layer = -1};
  scope.layers[QUIRE_LAYER_KERNEL] = &loader->manifest->derive;
  return scope;
}

/* ---- bare names ---- */

static int32_t find_in_layer(const quire_manifest_layer *layer, const char *name, size_t length) {
  for (size_t i = 0; layer != NULL && i < layer->count; ++i) {
    if (same(layer->names[i].name, name, length)) {
      return (int32_t)i;
    }
  }
  return -1;
}

static bool set_derived(quire_ref *ref, int32_t layer, int32_t index) {
  ref->kind = QUIRE_REF_DERIVED;
  ref->layer = layer;
  ref->index = index;
  return true;
}

/*
 * From the inside out. In the text of a derived name, its own layer counts as far as it stands
 * before; later names, and the name itself, mean their own layer only if no outer one has them.
 */
static bool find_derived(const quire_scope *scope, const char *name, size_t length,
                         quire_ref *ref) {
  int32_t later = -1;
  for (int32_t layer = QUIRE_LAYER_COUNT - 1; layer >= 0; --layer) {
    int32_t index = find_in_layer(scope->layers[layer], name, length);
    if (index < 0) {
      continue;
    }
    if (layer == scope->own_layer && (size_t)index >= scope->own_position) {
      later = index;
      continue;
    }
    return set_derived(ref, layer, index);
  }
  return later >= 0 && set_derived(ref, scope->own_layer, later);
}

bool quire_scope_find(const quire_scope *scope, const char *name, size_t length, quire_ref *ref) {
  if (scope->symbols) {
    int32_t symbol = find_symbol(scope->manifest, name, length);
    if (symbol >= 0) {
      ref->kind = QUIRE_REF_SYMBOL;
      ref->index = symbol;
      return true;
    }
  }
  if (scope->shared && find_in_layer(scope->layers[QUIRE_LAYER_KERNEL], name, length) < 0) {
    return false;
  }
  return find_derived(scope, name, length, ref);
}

static const char *resolve_bare(const quire_scope *scope, const char *name, size_t length,
                                bool in_defined, quire_ref *ref) {
  static const char *const spaces[] = {"attrs",        "tunables", "shapes", "ranks",
                                       "present",      "device",   "dtypes", "strides",
                                       "tensorDtypes", "bound",    "dense",  "aliased"};
  quire_scope any = *scope;
  any.shared = scope->shared && !in_defined;
  if (quire_scope_find(&any, name, length, ref)) {
    return NULL;
  }
  if (same("DISPATCH_FOLD_WIDTH", name, length)) {
    ref->kind = QUIRE_REF_FOLD_WIDTH;
    return NULL;
  }
  for (size_t i = 0; i < sizeof spaces / sizeof *spaces; ++i) {
    if (same(spaces[i], name, length)) {
      return "a space by itself is not a value";
    }
  }
  if (in_defined) {
    ref->kind = QUIRE_REF_UNKNOWN;
    return NULL;
  }
  return "unknown name";
}

/* ---- paths ---- */

typedef struct quire_path_part {
  const char *text;
  size_t length;
} quire_path_part;

static int32_t find_key(const quire_manifest *manifest, quire_path_part part) {
  for (size_t i = 0; i < manifest->key_count; ++i) {
    if (same(manifest->keys[i].name, part.text, part.length)) {
      return (int32_t)i;
    }
  }
  return -1;
}

static const char *resolve_tensor(const quire_scope *scope, quire_ref_kind kind,
                                  const quire_path_part *parts, size_t count, quire_ref *ref) {
  const quire_manifest *manifest = scope->manifest;
  ref->kind = kind;
  if (count != (kind == QUIRE_REF_ALIASED ? 3 : 2)) {
    return kind == QUIRE_REF_ALIASED ? "must be aliased.OUTPUT.INPUT" : "too many parts";
  }
  ref->index = find_key(manifest, parts[1]);
  if (ref->index < 0) {
    return "unknown tensor";
  }
  const quire_manifest_key *key = &manifest->keys[ref->index];
  if (scope->loader != NULL && kind == QUIRE_REF_PRESENT) {
    scope->loader->asked[ref->index] = true;
  }
  if (kind == QUIRE_REF_BOUND && (key->input < 0 || key->output < 0)) {
    return "`bound` is for tensors that are updated in place";
  }
  if (kind == QUIRE_REF_ALIASED) {
    ref->second = find_key(manifest, parts[2]);
    if (ref->second < 0) {
      return "unknown tensor";
    }
    if (key->output < 0 || manifest->keys[ref->second].input < 0) {
      return "must be aliased.OUTPUT.INPUT";
    }
  }
  return NULL;
}

/* Once a manifest is loaded, its lists of names are what they are. */
static const char *find_device_name(const quire_manifest *manifest, bool limits,
                                    const quire_path_part *part, quire_ref *ref) {
  const char *const *names = limits ? manifest->limits : manifest->adapter_keys;
  size_t count = limits ? manifest->limit_count : manifest->adapter_key_count;
  for (size_t i = 0; i < count; ++i) {
    if (same(names[i], part->text, part->length)) {
      ref->index = (int32_t)i;
      return NULL;
    }
  }
  return "the manifest does not name it";
}

static const char *resolve_device(const quire_scope *scope, const quire_path_part *parts,
                                  size_t count, quire_ref *ref) {
  const quire_path_part *what = &parts[1];
  if (count == 2 && same("backend", what->text, what->length)) {
    ref->kind = QUIRE_REF_BACKEND;
    return NULL;
  }
  if (count == 2 && same("precision", what->text, what->length)) {
    ref->kind = QUIRE_REF_PRECISION;
    return NULL;
  }
  if (same("features", what->text, what->length)) {
    return "features are asked for with device.features.has(...)";
  }
  bool limits = same("limits", what->text, what->length);
  if (!limits && !same("adapterInfo", what->text, what->length)) {
    return "unknown member of device";
  }
  if (count != 3) {
    return count < 3 ? "a space by itself is not a value" : "too many parts";
  }
  ref->kind = limits ? QUIRE_REF_LIMIT : QUIRE_REF_ADAPTER;
  if (scope->loader == NULL) {
    return find_device_name(scope->manifest, limits, &parts[2], ref);
  }
  ref->index = quire_name_list_add(scope->loader,
                                   limits ? &scope->loader->limits : &scope->loader->adapter_keys,
                                   parts[2].text, parts[2].length);
  return ref->index < 0 ? "too many different limits or adapter properties" : NULL;
}

static const char *resolve_declared(const quire_scope *scope, const quire_path_part *parts,
                                    quire_ref *ref) {
  const quire_manifest *manifest = scope->manifest;
  const quire_path_part *name = &parts[1];
  if (same("attrs", parts[0].text, parts[0].length)) {
    ref->kind = QUIRE_REF_ATTRIBUTE;
    for (size_t i = 0; i < manifest->attribute_count; ++i) {
      if (same(manifest->attributes[i].name, name->text, name->length)) {
        ref->index = (int32_t)i;
        return NULL;
      }
    }
    return "undeclared attribute";
  }
  if (same("tunables", parts[0].text, parts[0].length)) {
    ref->kind = QUIRE_REF_TUNABLE;
    ref->layer = scope->variant_tunables ? 1 : 0;
    for (size_t i = 0; i < manifest->tunable_count; ++i) {
      if (same(manifest->tunables[i].name, name->text, name->length)) {
        ref->index = (int32_t)i;
        return NULL;
      }
    }
    return "undeclared tunable";
  }
  ref->kind = QUIRE_REF_SYMBOL;
  ref->index = find_symbol(manifest, name->text, name->length);
  return ref->index < 0 ? "unknown type symbol" : NULL;
}

static const char *resolve_path(const quire_scope *scope, const quire_path_part *parts,
                                size_t count, quire_ref *ref) {
  static const struct {
    const char *space;
    quire_ref_kind kind;
  } tensors[] = {{"shapes", QUIRE_REF_SHAPE},    {"ranks", QUIRE_REF_RANK},
                 {"present", QUIRE_REF_PRESENT}, {"tensorDtypes", QUIRE_REF_TENSOR_DTYPE},
                 {"strides", QUIRE_REF_STRIDES}, {"bound", QUIRE_REF_BOUND},
                 {"dense", QUIRE_REF_DENSE},     {"aliased", QUIRE_REF_ALIASED}};
  static const char *const declared[] = {"attrs", "tunables", "dtypes"};
  const quire_path_part *space = &parts[0];
  for (size_t i = 0; i < sizeof tensors / sizeof *tensors; ++i) {
    if (same(tensors[i].space, space->text, space->length)) {
      return resolve_tensor(scope, tensors[i].kind, parts, count, ref);
    }
  }
  for (size_t i = 0; i < sizeof declared / sizeof *declared; ++i) {
    if (same(declared[i], space->text, space->length)) {
      return count == 2 ? resolve_declared(scope, parts, ref) : "too many parts";
    }
  }
  if (same("device", space->text, space->length)) {
    return resolve_device(scope, parts, count, ref);
  }
  return "unknown space";
}

const char *quire_scope_resolve(void *user, const char *path, size_t length, bool in_defined,
                                quire_ref *ref) {
  enum { most_parts = 4 };
  const quire_scope *scope = user;
  quire_path_part parts[most_parts];
  size_t count = 0;
  size_t begin = 0;
  memset(ref, 0, sizeof *ref);
  for (size_t i = 0; i <= length; ++i) {
    if (i < length && path[i] != '.') {
      continue;
    }
    if (count == most_parts) {
      return "too many parts";
    }
    parts[count].text = path + begin;
    parts[count++].length = i - begin;
    begin = i + 1;
  }
  return count == 1 ? resolve_bare(scope, path, length, in_defined, ref)
                    : resolve_path(scope, parts, count, ref);
}

const char *quire_manifest_resolve(const quire_manifest *manifest, int32_t variant, size_t pass,
                                   const char *path, size_t length, bool in_defined,
                                   quire_ref *ref) {
  const quire_manifest_variant *chosen = &manifest->variants[variant];
  quire_scope scope = {.manifest = manifest,
                       .layers = {&manifest->derive, &chosen->derive, &chosen->passes[pass].derive},
                       .own_layer = -1,
                       .symbols = true,
                       .variant_tunables = true};
  return quire_scope_resolve(&scope, path, length, in_defined, ref);
}
