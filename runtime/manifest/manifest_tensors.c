/* Type symbols, tensors (docs/manifest-language.md 3.2, 3.4). */
#include <string.h>

#include "manifest_loader.h"

void quire_load_symbols(quire_loader *loader) {
  quire_json_place root = quire_json_root();
  quire_json_place place = quire_json_member(&root, "typeConstraints");
  json_t *map = json_object_get(loader->root, "typeConstraints");
  size_t count = quire_loader_map(loader, map, &place);
  quire_manifest_symbol *symbols = quire_loader_array(loader, count, sizeof *symbols);
  if (symbols == NULL || count == 0) {
    return;
  }
  loader->manifest->symbols = symbols;
  const char *key = NULL;
  json_t *list = NULL;
  json_object_foreach(map, key, list) {
    if (quire_is_comment(key)) {
      continue;
    }
    quire_manifest_symbol *symbol = &symbols[loader->manifest->symbol_count++];
    quire_json_place member = quire_json_member(&place, key);
    symbol->name = quire_loader_copy(loader, key);
    size_t length = quire_loader_list(loader, list, &member);
    if (length == 0 && json_is_array(list)) {
      quire_loader_fault(loader, &member, "must list at least one element type");
    }
    quire_dtype *dtypes = quire_loader_array(loader, length, sizeof *dtypes);
    if (dtypes == NULL) {
      return;
    }
    for (size_t i = 0; i < length; ++i) {
      const char *text = json_string_value(json_array_get(list, i));
      dtypes[i] = text == NULL ? QUIRE_DTYPE_NONE : quire_dtype_from_name(text);
      if (dtypes[i] == QUIRE_DTYPE_NONE) {
        quire_json_place element = quire_json_element(&member, i);
        quire_loader_fault(loader, &element, "must be an element type such as \"float16\"");
      }
    }
    symbol->dtypes = dtypes;
    symbol->dtype_count = length;
  }
}

/* ---- names and types ---- */

static void load_dtype(quire_loader *loader, json_t *json, const quire_json_place *place,
                       quire_manifest_tensor *tensor) {
  quire_json_place member = quire_json_member(place, "dtype");
  tensor->symbol = -1;
  if (json_object_get(json, "dtype") == NULL) {
    quire_loader_fault(loader, place, "`dtype` is missing");
    return;
  }
  const char *text = quire_loader_string(loader, json, "dtype", place);
  if (text == NULL) {
    return;
  }
  tensor->symbol = quire_manifest_find_symbol(loader->manifest, text);
  if (tensor->symbol >= 0) {
    return;
  }
  tensor->dtype = quire_dtype_from_name(text);
  if (tensor->dtype == QUIRE_DTYPE_NONE) {
    quire_loader_fault(loader, &member, "`%.60s` is neither a type symbol nor an element type",
                       text);
  }
}

static void load_storage(quire_loader *loader, json_t *json, const quire_json_place *place,
                         quire_manifest_tensor *tensor) {
  const char *text = quire_loader_string(loader, json, "storage", place);
  if (text == NULL) {
    return;
  }
  tensor->packed8 = strcmp(text, "packed8") == 0;
  tensor->storage = tensor->packed8 ? QUIRE_DTYPE_NONE : quire_dtype_from_name(text);
  if (!tensor->packed8 && tensor->storage == QUIRE_DTYPE_NONE) {
    quire_json_place member = quire_json_member(place, "storage");
    quire_loader_fault(loader, &member, "`%.60s` is neither an element type nor \"packed8\"", text);
  }
}

static void load_tensor(quire_loader *loader, const char *key, json_t *json,
                        const quire_json_place *place, bool output, quire_manifest_tensor *tensor) {
  static const char *const input_members[] = {"onnx",  "dtype",   "rank", "optional",
                                              "shape", "storage", NULL};
  static const char *const output_members[] = {"onnx",  "dtype",   "rank",     "optional",
                                               "shape", "storage", "mayAlias", NULL};
  tensor->key = quire_loader_copy(loader, key);
  tensor->onnx = tensor->key;
  tensor->symbol = -1;
  tensor->may_alias = -1;
  if (!quire_loader_object(loader, json, place, output ? output_members : input_members)) {
    return;
  }
  load_dtype(loader, json, place, tensor);
  load_storage(loader, json, place, tensor);
  const char *onnx = quire_loader_string(loader, json, "onnx", place);
  if (onnx != NULL) {
    quire_json_place member = quire_json_member(place, "onnx");
    tensor->onnx = quire_loader_copy(loader, onnx);
    if (onnx[0] == '\0') {
      quire_loader_fault(loader, &member, "must not be empty");
    }
  }
}

/* Two tensors of one side with one operator name could not be told apart. */
static void check_onnx_names(quire_loader *loader, const quire_manifest_tensor *tensors,
                             size_t count, const quire_json_place *place) {
  for (size_t i = 0; i < count; ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (strcmp(tensors[i].onnx, tensors[j].onnx) == 0) {
        quire_json_place member = quire_json_member(place, tensors[i].key);
        quire_loader_fault(loader, &member, "has the same operator name `%.60s` as `%.60s`",
                           tensors[i].onnx, tensors[j].key);
        break;
      }
    }
  }
}

static quire_manifest_tensor *load_side(quire_loader *loader, const char *side, bool output,
                                        size_t *count) {
  quire_json_place root = quire_json_root();
  quire_json_place place = quire_json_member(&root, side);
  json_t *map = json_object_get(loader->root, side);
  *count = 0;
  if (map == NULL) {
    quire_loader_fault(loader, &root, "`%s` is missing", side);
    return NULL;
  }
  size_t most = quire_loader_map(loader, map, &place);
  if (most == 0 && json_is_object(map)) {
    quire_loader_fault(loader, &place, "must have at least one tensor");
  }
  quire_manifest_tensor *tensors = quire_loader_array(loader, most, sizeof *tensors);
  if (tensors == NULL || most == 0) {
    return NULL;
  }
  const char *key = NULL;
  json_t *json = NULL;
  json_object_foreach(map, key, json) {
    if (!quire_is_comment(key)) {
      quire_json_place member = quire_json_member(&place, key);
      load_tensor(loader, key, json, &member, output, &tensors[(*count)++]);
    }
  }
  check_onnx_names(loader, tensors, *count, &place);
  return tensors;
}

static void check_in_place(quire_loader *loader, const quire_manifest_key *key) {
  const quire_manifest_tensor *input = &loader->manifest->inputs[key->input];
  const quire_manifest_tensor *output = &loader->manifest->outputs[key->output];
  if (input->symbol != output->symbol || input->dtype != output->dtype) {
    quire_json_place root = quire_json_root();
    quire_json_place side = quire_json_member(&root, "outputs");
    quire_json_place member = quire_json_member(&side, key->name);
    quire_json_place dtype = quire_json_member(&member, "dtype");
    quire_loader_fault(loader, &dtype, "differs from the input that is updated in place");
  }
}

void quire_load_tensor_names(quire_loader *loader) {
  quire_manifest *manifest = loader->manifest;
  quire_manifest_tensor *inputs = load_side(loader, "inputs", false, &manifest->input_count);
  quire_manifest_tensor *outputs = load_side(loader, "outputs", true, &manifest->output_count);
  manifest->inputs = inputs;
  manifest->outputs = outputs;
  quire_manifest_key *keys =
      quire_loader_array(loader, manifest->input_count + manifest->output_count, sizeof *keys);
  loader->asked = quire_loader_scratch(loader, manifest->input_count + manifest->output_count,
                                       sizeof *loader->asked);
  if (keys == NULL || loader->asked == NULL) {
    manifest->input_count = 0;
    manifest->output_count = 0;
    return;
  }
  manifest->keys = keys;
  for (size_t i = 0; i < manifest->input_count; ++i) {
    inputs[i].key_index = (int32_t)i;
    keys[manifest->key_count++] = (quire_manifest_key){inputs[i].key, (int32_t)i, -1};
  }
  for (size_t i = 0; i < manifest->output_count; ++i) {
    int32_t key = quire_manifest_find_key(manifest, outputs[i].key);
    if (key < 0) {
      key = (int32_t)manifest->key_count;
      keys[manifest->key_count++] = (quire_manifest_key){outputs[i].key, -1, (int32_t)i};
    } else {
      keys[key].output = (int32_t)i;
      check_in_place(loader, &keys[key]);
    }
    outputs[i].key_index = key;
  }
}

/* ---- texts ---- */

static void load_rank(quire_scope *scope, json_t *json, const quire_json_place *place,
                      quire_manifest_tensor *tensor) {
  json_t *rank = json_object_get(json, "rank");
  quire_json_place member = quire_json_member(place, "rank");
  if (rank == NULL) {
    return;
  }
  if (json_is_number(rank)) {
    quire_value value = quire_json_number(rank);
    if (value.kind == QUIRE_VALUE_INTEGER &&
        (value.as.integer < 0 || value.as.integer > QUIRE_MAX_RANK)) {
      quire_loader_fault(scope->loader, &member, "rank %lld is not in 0..%d",
                         (long long)value.as.integer, QUIRE_MAX_RANK);
      return;
    }
  }
  tensor->rank = quire_loader_expression(scope, rank, &member);
}

static void load_optional(quire_scope *scope, json_t *json, const quire_json_place *place,
                          quire_manifest_tensor *tensor) {
  json_t *optional = json_object_get(json, "optional");
  quire_json_place member = quire_json_member(place, "optional");
  if (json_is_string(optional)) {
    tensor->optional_when = quire_loader_clause(scope, optional, &member);
  } else {
    tensor->optional = quire_loader_boolean(scope->loader, json, "optional", place, false);
  }
}

static void load_may_alias(quire_loader *loader, json_t *json, const quire_json_place *place,
                           quire_manifest_tensor *tensor) {
  const quire_manifest *manifest = loader->manifest;
  quire_json_place member = quire_json_member(place, "mayAlias");
  const char *name = quire_loader_string(loader, json, "mayAlias", place);
  if (name == NULL) {
    return;
  }
  int32_t key = quire_manifest_find_key(manifest, name);
  if (key < 0 || manifest->keys[key].input < 0 || manifest->keys[key].output >= 0) {
    quire_loader_fault(loader, &member, "`%.60s` is not a pure input", name);
  } else if (manifest->keys[tensor->key_index].input >= 0) {
    quire_loader_fault(loader, &member, "`%.60s` is updated in place already", tensor->key);
  } else {
    tensor->may_alias = key;
  }
}

static void load_side_texts(quire_loader *loader, const char *side,
                            const quire_manifest_tensor *tensors, size_t count) {
  quire_scope scope = quire_scope_kernel(loader);
  quire_json_place root = quire_json_root();
  quire_json_place place = quire_json_member(&root, side);
  json_t *map = json_object_get(loader->root, side);
  for (size_t i = 0; i < count; ++i) {
    /* The records were made here; the manifest only shows them as constant. */
    quire_manifest_tensor *tensor = (quire_manifest_tensor *)&tensors[i];
    quire_json_place member = quire_json_member(&place, tensor->key);
    quire_json_place shape = quire_json_member(&member, "shape");
    json_t *json = json_object_get(map, tensor->key);
    if (json_is_object(json)) {
      load_rank(&scope, json, &member, tensor);
      load_optional(&scope, json, &member, tensor);
      quire_loader_shape(&scope, json_object_get(json, "shape"), &shape, false, &tensor->shape);
      load_may_alias(loader, json, &member, tensor);
    }
  }
}

void quire_load_tensor_texts(quire_loader *loader) {
  const quire_manifest *manifest = loader->manifest;
  load_side_texts(loader, "inputs", manifest->inputs, manifest->input_count);
  load_side_texts(loader, "outputs", manifest->outputs, manifest->output_count);
}
