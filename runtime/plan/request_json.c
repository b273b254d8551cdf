/* Requests in JSON (LANGUAGE.md sections 7 and 15): strict, every fault named by its JSON path. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "error.h"
#include "planner.h"

enum { PATH_SIZE = 120 };

typedef struct parser {
  quire_arena *arena;
  quire_error *error;
  char path[PATH_SIZE]; /* of the value at hand; cut if it is too long */
} parser;

/* ---- paths ---- */

/* Appends ".key" or "[index]"; returns the length before, for leave(). */
static size_t enter_key(parser *in, const char *key) {
  size_t length = strlen(in->path);
  (void)snprintf(in->path + length, sizeof in->path - length, ".%s", key);
  return length;
}

static size_t enter_index(parser *in, size_t index) {
  size_t length = strlen(in->path);
  (void)snprintf(in->path + length, sizeof in->path - length, "[%zu]", index);
  return length;
}

static void leave(parser *in, size_t length) {
  in->path[length] = '\0';
}

static quire_status malformed(parser *in, const char *what) {
  return quire_fail(in->error, QUIRE_BAD_REQUEST, NULL, in->path, "%s", what);
}

static quire_status expected(parser *in, const char *what, const json_t *got) {
  static const char *const kinds[] = {"an object", "a list",    "a string",  "an integer",
                                      "a number",  "a boolean", "a boolean", "null"};
  unsigned kind = (unsigned)json_typeof(got);
  return quire_fail(in->error, QUIRE_BAD_REQUEST, NULL, in->path, "%s is expected, not %s", what,
                    kind < sizeof kinds / sizeof *kinds ? kinds[kind] : "this");
}

/* ---- scalars ---- */

static quire_status copy_text(parser *in, const char *text, const char **out) {
  *out = quire_arena_copy(in->arena, text, strlen(text));
  return *out != NULL ? QUIRE_OK : quire_fail_memory(in->error);
}

static quire_status read_string(parser *in, const json_t *json, const char **out) {
  if (!json_is_string(json)) {
    return expected(in, "a string", json);
  }
  return copy_text(in, json_string_value(json), out);
}

/* An integer by value: 2.0 is the integer 2. */
static quire_status read_integer(parser *in, const json_t *json, int64_t *out) {
  if (json_is_integer(json)) {
    *out = (int64_t)json_integer_value(json);
    return QUIRE_OK;
  }
  const double largest = 9007199254740992.0; /* 2^53 */
  double number = json_is_real(json) ? json_real_value(json) : 0.5;
  if (number < -largest || number > largest || number != (double)(int64_t)number) {
    return expected(in, "an integer", json);
  }
  *out = (int64_t)number;
  return QUIRE_OK;
}

static quire_status read_size(parser *in, const json_t *json, int64_t *out) {
  QUIRE_TRY(read_integer(in, json, out));
  return *out >= 0 ? QUIRE_OK : malformed(in, "is negative, at least 0 is expected");
}

/* A number, string or boolean. */
static quire_status read_scalar(parser *in, const json_t *json, quire_named_value *out) {
  if (json_is_integer(json)) {
    out->type = QUIRE_VALUE_TYPE_INT;
    out->i = (int64_t)json_integer_value(json);
  } else if (json_is_real(json)) {
    out->type = QUIRE_VALUE_TYPE_FLOAT;
    out->f = json_real_value(json);
  } else if (json_is_boolean(json)) {
    out->type = QUIRE_VALUE_TYPE_BOOL;
    out->i = json_is_true(json);
  } else if (json_is_string(json)) {
    out->type = QUIRE_VALUE_TYPE_STRING;
    return copy_text(in, json_string_value(json), &out->s);
  } else {
    return expected(in, "a number, string or boolean", json);
  }
  return QUIRE_OK;
}

/* ---- objects ---- */

static quire_status check_members(parser *in, const json_t *object, const char *const *allowed,
                                  size_t count) {
  if (!json_is_object(object)) {
    return expected(in, "an object", object);
  }
  json_t *json = (json_t *)(uintptr_t)object; /* jansson's iterators are not const */
  for (void *at = json_object_iter(json); at != NULL; at = json_object_iter_next(json, at)) {
    const char *key = json_object_iter_key(at);
    size_t i = 0;
    while (i < count && strcmp(allowed[i], key) != 0) {
      i++;
    }
    if (i == count) {
      (void)enter_key(in, key);
      return malformed(in, "this member is unknown");
    }
  }
  return QUIRE_OK;
}

typedef quire_status read_named_function(parser *in, const json_t *json, quire_named_value *out);

static quire_status read_limit(parser *in, const json_t *json, quire_named_value *out) {
  out->type = QUIRE_VALUE_TYPE_INT;
  return read_size(in, json, &out->i);
}

static quire_status read_dtype_name(parser *in, const json_t *json, quire_named_value *out) {
  out->type = QUIRE_VALUE_TYPE_STRING;
  return read_string(in, json, &out->s);
}

/* Reads member `key` of `owner`, a map of scalars; absent: empty. */
static quire_status read_map(parser *in, const json_t *owner, const char *key,
                             read_named_function *read, const quire_named_value **out,
                             size_t *count) {
  json_t *map = json_object_get(owner, key);
  *out = NULL;
  *count = 0;
  if (map == NULL) {
    return QUIRE_OK;
  }
  size_t outer = enter_key(in, key);
  if (!json_is_object(map)) {
    return expected(in, "an object", map);
  }
  quire_named_value *items = quire_arena_array(in->arena, json_object_size(map), sizeof *items);
  if (items == NULL) {
    return quire_fail_memory(in->error);
  }
  for (void *at = json_object_iter(map); at != NULL; at = json_object_iter_next(map, at)) {
    quire_named_value *item = &items[(*count)++];
    size_t inner = enter_key(in, json_object_iter_key(at));
    QUIRE_TRY(copy_text(in, json_object_iter_key(at), &item->name));
    QUIRE_TRY(read(in, json_object_iter_value(at), item));
    leave(in, inner);
  }
  *out = items;
  leave(in, outer);
  return QUIRE_OK;
}

/* ---- tensors ---- */

static quire_status read_integers(parser *in, const json_t *json, const char *key, bool sizes,
                                  const int64_t **out, size_t *count) {
  size_t outer = enter_key(in, key);
  if (!json_is_array(json)) {
    return expected(in, "a list", json);
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
    size_t inner = enter_index(in, i);
    const json_t *item = json_array_get(json, i);
    QUIRE_TRY(sizes ? read_size(in, item, &items[i]) : read_integer(in, item, &items[i]));
    leave(in, inner);
  }
  *out = items;
  leave(in, outer);
  return QUIRE_OK;
}

static quire_status read_dtype(parser *in, const json_t *json, quire_dtype *out) {
  size_t outer = enter_key(in, "dtype");
  if (!json_is_string(json)) {
    return expected(in, "a string", json);
  }
  *out = quire_dtype_from_name(json_string_value(json));
  if (*out == QUIRE_DTYPE_NONE) {
    return malformed(in, "is no element type");
  }
  leave(in, outer);
  return QUIRE_OK;
}

static quire_status read_tensor(parser *in, const json_t *json, bool is_output,
                                quire_request_tensor *out) {
  static const char *const allowed[] = {"dtype", "shape", "strides"};
  QUIRE_TRY(check_members(in, json, allowed, 3));
  const json_t *dtype = json_object_get(json, "dtype");
  const json_t *shape = json_object_get(json, "shape");
  const json_t *strides = json_object_get(json, "strides");
  size_t count = 0;
  if (!is_output && (dtype == NULL || shape == NULL)) {
    return malformed(in, dtype == NULL ? "has no \"dtype\"" : "has no \"shape\"");
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
      (void)enter_key(in, "strides");
      return malformed(in, "has another length than \"shape\"");
    }
  }
  return QUIRE_OK;
}

/* Reads a map of tensors; `spare` more places are left behind its *count entries. */
static quire_status read_tensors(parser *in, const json_t *root, const char *key, bool is_output,
                                 size_t spare, quire_request_tensor **out, size_t *count) {
  json_t *map = json_object_get(root, key);
  size_t outer = enter_key(in, key);
  *count = 0;
  if (map != NULL && !json_is_object(map)) {
    return expected(in, "an object", map);
  }
  *out = quire_arena_array(in->arena, json_object_size(map) + spare, sizeof **out);
  if (*out == NULL) {
    return quire_fail_memory(in->error);
  }
  for (void *at = json_object_iter(map); at != NULL; at = json_object_iter_next(map, at)) {
    quire_request_tensor *tensor = &(*out)[(*count)++];
    size_t inner = enter_key(in, json_object_iter_key(at));
    QUIRE_TRY(copy_text(in, json_object_iter_key(at), &tensor->name));
    QUIRE_TRY(read_tensor(in, json_object_iter_value(at), is_output, tensor));
    leave(in, inner);
  }
  leave(in, outer);
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

static quire_status read_outputs(parser *in, const json_t *root, quire_request *request) {
  json_t *alias = json_object_get(root, "alias");
  quire_request_tensor *outputs = NULL;
  QUIRE_TRY(read_tensors(in, root, "outputs", true, json_object_size(alias), &outputs,
                         &request->output_count));
  request->outputs = outputs;
  if (alias == NULL || outputs == NULL) {
    return QUIRE_OK;
  }
  size_t outer = enter_key(in, "alias");
  if (!json_is_object(alias)) {
    return expected(in, "an object", alias);
  }
  for (void *at = json_object_iter(alias); at != NULL; at = json_object_iter_next(alias, at)) {
    const char *key = json_object_iter_key(at);
    size_t inner = enter_key(in, key);
    quire_request_tensor *output = find_output(outputs, &request->output_count, key);
    QUIRE_TRY(copy_text(in, key, &output->name));
    QUIRE_TRY(read_string(in, json_object_iter_value(at), &output->alias));
    leave(in, inner);
  }
  leave(in, outer);
  return QUIRE_OK;
}

/* ---- the device ---- */

static quire_status read_features(parser *in, const json_t *json,
                                  quire_device_description *device) {
  if (json == NULL) {
    return QUIRE_OK;
  }
  size_t outer = enter_key(in, "features");
  if (!json_is_array(json)) {
    return expected(in, "a list", json);
  }
  size_t count = json_array_size(json);
  const char **features = quire_arena_array(in->arena, count, sizeof *features);
  if (features == NULL) {
    return quire_fail_memory(in->error);
  }
  for (size_t i = 0; i < count; i++) {
    size_t inner = enter_index(in, i);
    QUIRE_TRY(read_string(in, json_array_get(json, i), &features[i]));
    leave(in, inner);
  }
  device->features = features;
  device->feature_count = count;
  leave(in, outer);
  return QUIRE_OK;
}

static quire_status read_backend(parser *in, const json_t *json, const char **backend) {
  static const char *const known[] = {"webgpu", "cpu", "cuda"};
  if (json == NULL) {
    return QUIRE_OK;
  }
  size_t outer = enter_key(in, "backend");
  QUIRE_TRY(read_string(in, json, backend));
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    if (strcmp(known[i], *backend) == 0) {
      leave(in, outer);
      return QUIRE_OK;
    }
  }
  return malformed(in, "must be \"webgpu\", \"cpu\" or \"cuda\"");
}

static quire_status read_device(parser *in, const json_t *root, quire_device_description *device) {
  static const char *const allowed[] = {"backend", "limits", "features", "adapterInfo"};
  const json_t *json = json_object_get(root, "device");
  device->struct_size = sizeof *device;
  if (json == NULL) {
    return QUIRE_OK;
  }
  size_t outer = enter_key(in, "device");
  QUIRE_TRY(check_members(in, json, allowed, 4));
  QUIRE_TRY(read_backend(in, json_object_get(json, "backend"), &device->backend));
  QUIRE_TRY(read_features(in, json_object_get(json, "features"), device));
  QUIRE_TRY(read_map(in, json, "limits", read_limit, &device->limits, &device->limit_count));
  QUIRE_TRY(
      read_map(in, json, "adapterInfo", read_scalar, &device->adapter, &device->adapter_count));
  leave(in, outer);
  return QUIRE_OK;
}

/* ---- the whole ---- */

static quire_status read_precision(parser *in, const json_t *root, quire_precision *precision) {
  const json_t *json = json_object_get(root, "precision");
  if (json == NULL) {
    return QUIRE_OK;
  }
  const char *text = json_is_string(json) ? json_string_value(json) : "";
  *precision = strcmp(text, "fast") == 0 ? QUIRE_PRECISION_FAST : QUIRE_PRECISION_EXACT;
  if (*precision == QUIRE_PRECISION_EXACT && strcmp(text, "exact") != 0) {
    (void)enter_key(in, "precision");
    return malformed(in, "must be \"exact\" or \"fast\"");
  }
  return QUIRE_OK;
}

static quire_status read_root(parser *in, const json_t *root, quire_json_request *out) {
  static const char *const allowed[] = {"inputs", "outputs", "attributes", "tunables",
                                        "dtypes", "device",  "precision",  "alias"};
  quire_request *request = &out->request;
  quire_request_tensor *inputs = NULL;
  QUIRE_TRY(check_members(in, root, allowed, sizeof allowed / sizeof *allowed));
  if (json_object_get(root, "inputs") == NULL) {
    return malformed(in, "has no \"inputs\"");
  }
  if (json_object_get(root, "attributes") == NULL) {
    return malformed(in, "has no \"attributes\"");
  }
  QUIRE_TRY(read_tensors(in, root, "inputs", false, 0, &inputs, &request->input_count));
  request->inputs = inputs;
  QUIRE_TRY(read_outputs(in, root, request));
  QUIRE_TRY(read_map(in, root, "attributes", read_scalar, &request->attributes,
                     &request->attribute_count));
  QUIRE_TRY(
      read_map(in, root, "tunables", read_scalar, &request->tunables, &request->tunable_count));
  QUIRE_TRY(read_map(in, root, "dtypes", read_dtype_name, &request->dtypes, &request->dtype_count));
  QUIRE_TRY(read_precision(in, root, &request->precision));
  return read_device(in, root, &out->device);
}

quire_status quire_request_parse(const char *text, size_t length, quire_arena *arena,
                                 quire_json_request *out, quire_error *error) {
  parser in = {.arena = arena, .error = error, .path = "$"};
  json_error_t json_error;
  json_t *root = json_loadb(text, length, JSON_REJECT_DUPLICATES, &json_error);
  *out = (quire_json_request){
      .request = {.struct_size = sizeof out->request, .naming = QUIRE_NAMES_MANIFEST}};
  if (root == NULL) {
    if (json_error_code(&json_error) == json_error_out_of_memory) {
      return quire_fail_memory(error);
    }
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, "request", "line %d, column %d: %s",
                      json_error.line, json_error.column, json_error.text);
  }
  quire_status status = read_root(&in, root, out);
  json_decref(root);
  return status;
}
