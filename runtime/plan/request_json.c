/* Requests in JSON (LANGUAGE.md sections 7 and 15): strict, every fault named by its JSON path. */
#include <string.h>

#include "error.h"
#include "json_reader.h"
#include "planner.h"

/* Members of a map, elements of a list: a manifest has no more names that could be meant. */
enum { MOST_ITEMS = 1024 };

/* About the value at hand, a map or list of `count`. */
static quire_status check_count(quire_reader *in, size_t count) {
  return count <= MOST_ITEMS
             ? QUIRE_OK
             : quire_fail(in->error, QUIRE_BAD_REQUEST, NULL, in->path,
                          "has %zu entries, at most %d are possible", count, (int)MOST_ITEMS);
}

/* Like quire_reader_map(), of no more than MOST_ITEMS. */
static quire_status read_map(quire_reader *in, const json_t *owner, const char *key,
                             quire_reader_function *read, const quire_named_value **out,
                             size_t *count) {
  size_t outer = quire_reader_enter_key(in, key);
  QUIRE_TRY(check_count(in, json_object_size(json_object_get(owner, key))));
  quire_reader_leave(in, outer);
  return quire_reader_map(in, owner, key, read, out, count);
}

static quire_status read_limit(quire_reader *in, const json_t *json, quire_named_value *out) {
  out->type = QUIRE_VALUE_TYPE_INT;
  return quire_reader_size(in, json, &out->i);
}

static quire_status read_dtype_name(quire_reader *in, const json_t *json, quire_named_value *out) {
  out->type = QUIRE_VALUE_TYPE_STRING;
  return quire_reader_string(in, json, &out->s);
}

/* ---- tensors ---- */

static quire_status read_integers(quire_reader *in, const json_t *json, const char *key, bool sizes,
                                  const int64_t **out, size_t *count) {
  size_t outer = quire_reader_enter_key(in, key);
  if (!json_is_array(json)) {
    return quire_reader_expected(in, "a list", json);
  }
  *count = json_array_size(json);
  if (*count > QUIRE_MAX_RANK) {
    return quire_fail(in->error, QUIRE_BAD_REQUEST, NULL, in->path,
                      "has %zu entries, at most %d are possible", *count, (int)QUIRE_MAX_RANK);
  }
  int64_t *items = quire_arena_array(in->arena, *count, sizeof *items);
  if (items == NULL) {
    return quire_fail_memory(in->error);
  }
  for (size_t i = 0; i < *count; i++) {
    size_t inner = quire_reader_enter_index(in, i);
    const json_t *item = json_array_get(json, i);
    QUIRE_TRY(sizes ? quire_reader_size(in, item, &items[i])
                    : quire_reader_integer(in, item, &items[i]));
    quire_reader_leave(in, inner);
  }
  *out = items;
  quire_reader_leave(in, outer);
  return QUIRE_OK;
}

static quire_status read_dtype(quire_reader *in, const json_t *json, quire_dtype *out) {
  size_t outer = quire_reader_enter_key(in, "dtype");
  if (!json_is_string(json)) {
    return quire_reader_expected(in, "a string", json);
  }
  *out = quire_dtype_from_name(json_string_value(json));
  if (*out == QUIRE_DTYPE_NONE) {
    return quire_reader_malformed(in, "is no element type");
  }
  quire_reader_leave(in, outer);
  return QUIRE_OK;
}

static quire_status read_tensor(quire_reader *in, const json_t *json, bool is_output,
                                quire_request_tensor *out) {
  static const char *const allowed[] = {"dtype", "shape", "strides"};
  QUIRE_TRY(quire_reader_members(in, json, allowed, 3));
  const json_t *dtype = json_object_get(json, "dtype");
  const json_t *shape = json_object_get(json, "shape");
  const json_t *strides = json_object_get(json, "strides");
  size_t count = 0;
  if (!is_output && (dtype == NULL || shape == NULL)) {
    return quire_reader_malformed(in, dtype == NULL ? "has no \"dtype\"" : "has no \"shape\"");
  }
  if (dtype != NULL) {
    QUIRE_TRY(read_dtype(in, dtype, &out->dtype));
  }
  out->ndim = -1;
  if (shape != NULL) {
    QUIRE_TRY(read_integers(in, shape, "shape", true, &out->shape, &count));
    out->ndim = (int32_t)count;
  }
  if (strides != NULL) {
    QUIRE_TRY(read_integers(in, strides, "strides", false, &out->strides, &count));
    if (out->ndim < 0 || count != (size_t)out->ndim) {
      (void)quire_reader_enter_key(in, "strides");
      return quire_reader_malformed(in, "has another length than \"shape\"");
    }
  }
  return QUIRE_OK;
}

/* Reads a map of tensors; `spare` more places are left behind its *count entries. */
static quire_status read_tensors(quire_reader *in, const json_t *root, const char *key,
                                 bool is_output, size_t spare, quire_request_tensor **out,
                                 size_t *count) {
  json_t *map = json_object_get(root, key);
  size_t outer = quire_reader_enter_key(in, key);
  *count = 0;
  if (map != NULL && !json_is_object(map)) {
    return quire_reader_expected(in, "an object", map);
  }
  QUIRE_TRY(check_count(in, json_object_size(map)));
  *out = quire_arena_array(in->arena, json_object_size(map) + spare, sizeof **out);
  if (*out == NULL) {
    return quire_fail_memory(in->error);
  }
  for (void *at = json_object_iter(map); at != NULL; at = json_object_iter_next(map, at)) {
    quire_request_tensor *tensor = &(*out)[(*count)++];
    size_t inner = quire_reader_enter_key(in, json_object_iter_key(at));
    QUIRE_TRY(quire_reader_copy(in, json_object_iter_key(at), &tensor->name));
    QUIRE_TRY(read_tensor(in, json_object_iter_value(at), is_output, tensor));
    quire_reader_leave(in, inner);
  }
  quire_reader_leave(in, outer);
  return QUIRE_OK;
}

static quire_request_tensor *find_output(quire_request_tensor *outputs, size_t *count,
                                         const char *name) {
  for (size_t i = 0; i < *count; i++) {
    if (strcmp(outputs[i].name, name) == 0) {
      return &outputs[i];
    }
  }
  quire_request_tensor *added = &outputs[(*count)++];
  *added = (quire_request_tensor){.ndim = -1};
  return added;
}

static quire_status read_outputs(quire_reader *in, const json_t *root, quire_request *request) {
  json_t *alias = json_object_get(root, "alias");
  quire_request_tensor *outputs = NULL;
  QUIRE_TRY(read_tensors(in, root, "outputs", true, json_object_size(alias), &outputs,
                         &request->output_count));
  request->outputs = outputs;
  if (alias == NULL || outputs == NULL) {
    return QUIRE_OK;
  }
  size_t outer = quire_reader_enter_key(in, "alias");
  if (!json_is_object(alias)) {
    return quire_reader_expected(in, "an object", alias);
  }
  QUIRE_TRY(check_count(in, json_object_size(alias)));
  for (void *at = json_object_iter(alias); at != NULL; at = json_object_iter_next(alias, at)) {
    const char *key = json_object_iter_key(at);
    size_t inner = quire_reader_enter_key(in, key);
    quire_request_tensor *output = find_output(outputs, &request->output_count, key);
    QUIRE_TRY(quire_reader_copy(in, key, &output->name));
    QUIRE_TRY(quire_reader_string(in, json_object_iter_value(at), &output->alias));
    quire_reader_leave(in, inner);
  }
  quire_reader_leave(in, outer);
  return QUIRE_OK;
}

/* ---- the device ---- */

static quire_status read_features(quire_reader *in, const json_t *json,
                                  quire_device_description *device) {
  if (json == NULL) {
    return QUIRE_OK;
  }
  size_t outer = quire_reader_enter_key(in, "features");
  if (!json_is_array(json)) {
    return quire_reader_expected(in, "a list", json);
  }
  size_t count = json_array_size(json);
  QUIRE_TRY(check_count(in, count));
  const char **features = quire_arena_array(in->arena, count, sizeof *features);
  if (features == NULL) {
    return quire_fail_memory(in->error);
  }
  for (size_t i = 0; i < count; i++) {
    size_t inner = quire_reader_enter_index(in, i);
    QUIRE_TRY(quire_reader_string(in, json_array_get(json, i), &features[i]));
    quire_reader_leave(in, inner);
  }
  device->features = features;
  device->feature_count = count;
  quire_reader_leave(in, outer);
  return QUIRE_OK;
}

static quire_status read_backend(quire_reader *in, const json_t *json, const char **backend) {
  static const char *const known[] = {"webgpu", "cpu", "cuda"};
  if (json == NULL) {
    return QUIRE_OK;
  }
  size_t outer = quire_reader_enter_key(in, "backend");
  QUIRE_TRY(quire_reader_string(in, json, backend));
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    if (strcmp(known[i], *backend) == 0) {
      quire_reader_leave(in, outer);
      return QUIRE_OK;
    }
  }
  return quire_reader_malformed(in, "must be \"webgpu\", \"cpu\" or \"cuda\"");
}

static quire_status read_device(quire_reader *in, const json_t *root,
                                quire_device_description *device) {
  static const char *const allowed[] = {"backend", "limits", "features", "adapterInfo"};
  const json_t *json = json_object_get(root, "device");
  device->struct_size = sizeof *device;
  if (json == NULL) {
    return QUIRE_OK;
  }
  size_t outer = quire_reader_enter_key(in, "device");
  QUIRE_TRY(quire_reader_members(in, json, allowed, 4));
  QUIRE_TRY(read_backend(in, json_object_get(json, "backend"), &device->backend));
  QUIRE_TRY(read_features(in, json_object_get(json, "features"), device));
  QUIRE_TRY(read_map(in, json, "limits", read_limit, &device->limits, &device->limit_count));
  QUIRE_TRY(read_map(in, json, "adapterInfo", quire_reader_scalar, &device->adapter,
                     &device->adapter_count));
  quire_reader_leave(in, outer);
  return QUIRE_OK;
}

/* ---- the whole ---- */

static quire_status read_precision(quire_reader *in, const json_t *root,
                                   quire_precision *precision) {
  const json_t *json = json_object_get(root, "precision");
  if (json == NULL) {
    return QUIRE_OK;
  }
  const char *text = json_is_string(json) ? json_string_value(json) : "";
  *precision = strcmp(text, "fast") == 0 ? QUIRE_PRECISION_FAST : QUIRE_PRECISION_EXACT;
  if (*precision == QUIRE_PRECISION_EXACT && strcmp(text, "exact") != 0) {
    (void)quire_reader_enter_key(in, "precision");
    return quire_reader_malformed(in, "must be \"exact\" or \"fast\"");
  }
  return QUIRE_OK;
}

static quire_status read_root(quire_reader *in, const json_t *root, quire_json_request *out) {
  static const char *const allowed[] = {"inputs", "outputs", "attributes", "tunables",
                                        "dtypes", "device",  "precision",  "alias"};
  quire_request *request = &out->request;
  quire_request_tensor *inputs = NULL;
  QUIRE_TRY(quire_reader_members(in, root, allowed, sizeof allowed / sizeof *allowed));
  if (json_object_get(root, "inputs") == NULL) {
    return quire_reader_malformed(in, "has no \"inputs\"");
  }
  if (json_object_get(root, "attributes") == NULL) {
    return quire_reader_malformed(in, "has no \"attributes\"");
  }
  QUIRE_TRY(read_tensors(in, root, "inputs", false, 0, &inputs, &request->input_count));
  request->inputs = inputs;
  QUIRE_TRY(read_outputs(in, root, request));
  QUIRE_TRY(read_map(in, root, "attributes", quire_reader_scalar, &request->attributes,
                     &request->attribute_count));
  QUIRE_TRY(read_map(in, root, "tunables", quire_reader_scalar, &request->tunables,
                     &request->tunable_count));
  QUIRE_TRY(read_map(in, root, "dtypes", read_dtype_name, &request->dtypes, &request->dtype_count));
  QUIRE_TRY(read_precision(in, root, &request->precision));
  return read_device(in, root, &out->device);
}

quire_status quire_request_parse(const char *text, size_t length, quire_arena *arena,
                                 quire_json_request *out, quire_error *error) {
  quire_reader in = {.arena = arena, .error = error, .path = "$"};
  json_t *root = NULL;
  *out = (quire_json_request){
      .request = {.struct_size = sizeof out->request, .naming = QUIRE_NAMES_MANIFEST}};
  QUIRE_TRY(quire_reader_parse(&in, text, length, "request", &root));
  quire_status status = read_root(&in, root, out);
  json_decref(root);
  return status;
}
