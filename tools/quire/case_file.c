#include "case_file.h"

#include <math.h>
#include <string.h>

#include "failure.h"

static const char *metadata_text(const quire_case *opened, const char *key) {
  return json_string_value(json_object_get(opened->tensors.metadata, key));
}

/* Parses the JSON text under a key of the metadata; a missing key gives an empty object. */
static quire_status read_json(const quire_case *opened, const char *key, json_t **value,
                              quire_error *error) {
  const char *text = metadata_text(opened, key);
  json_error_t fault;
  *value = text ? json_loads(text, JSON_REJECT_DUPLICATES, &fault) : json_object();
  if (*value) {
    return QUIRE_OK;
  }
  const int is_fault = text && json_error_code(&fault) != json_error_out_of_memory;
  return is_fault ? quire_failure_set(error, QUIRE_IO, "%s: line %d, column %d: %s", key,
                                      fault.line, fault.column, fault.text)
                  : quire_failure_set(error, QUIRE_OUT_OF_MEMORY, "no memory for the metadata");
}

static quire_status check_attributes(const quire_case *opened, quire_error *error) {
  const char *name = NULL;
  json_t *value = NULL;
  if (!json_is_object(opened->attributes)) {
    return quire_failure_set(error, QUIRE_IO, "attributes: must be an object");
  }
  json_object_foreach(opened->attributes, name, value) {
    if (!json_is_number(value) && !json_is_string(value) && !json_is_boolean(value)) {
      return quire_failure_set(error, QUIRE_IO,
                               "attributes: \"%.64s\" is no number, text or truth value", name);
    }
  }
  return QUIRE_OK;
}

/* Keeps what is wrong with the attributes for the call; fails only without memory. */
static quire_status read_attributes(quire_case *opened, quire_error *error) {
  quire_error *fault = &opened->attribute_fault;
  quire_status status = read_json(opened, "attributes", &opened->attributes, fault);
  if (status == QUIRE_OK) {
    status = check_attributes(opened, fault);
  }
  if (status == QUIRE_IO) {
    fault->status = QUIRE_BAD_ATTRIBUTE;
    json_decref(opened->attributes);
    opened->attributes = json_object();
    status = opened->attributes ? QUIRE_OK : QUIRE_OUT_OF_MEMORY;
  }
  return status == QUIRE_OK ? status
                            : quire_failure_set(error, status, "no memory for the attributes");
}

static quire_status check_dtypes(const quire_case *opened, quire_error *error) {
  const char *name = NULL;
  json_t *value = NULL;
  if (!json_is_object(opened->output_dtypes)) {
    return quire_failure_set(error, QUIRE_IO, "output_dtypes: must be an object");
  }
  json_object_foreach(opened->output_dtypes, name, value) {
    if (!json_is_string(value) ||
        quire_safetensors_dtype(json_string_value(value)) == QUIRE_DTYPE_NONE) {
      return quire_failure_set(error, QUIRE_IO, "output_dtypes: \"%.64s\" is no element type",
                               name);
    }
  }
  return QUIRE_OK;
}

static int is_bound(const json_t *value) {
  const double number = json_number_value(value);
  return !value || (json_is_number(value) && isfinite(number) && number >= 0);
}

static quire_status check_tolerance(const quire_case *opened, quire_error *error) {
  const char *name = NULL;
  json_t *value = NULL;
  if (!json_is_object(opened->tolerance)) {
    return quire_failure_set(error, QUIRE_IO, "tolerance: must be an object");
  }
  json_object_foreach(opened->tolerance, name, value) {
    const json_t *absolute = json_object_get(value, "atol");
    const json_t *relative = json_object_get(value, "rtol");
    const size_t known = (absolute ? 1u : 0u) + (relative ? 1u : 0u);
    if (json_object_size(value) != known || !json_is_object(value) || !is_bound(absolute) ||
        !is_bound(relative)) {
      return quire_failure_set(
          error, QUIRE_IO, "tolerance: \"%.64s\" must hold atol and rtol, numbers from 0", name);
    }
  }
  return QUIRE_OK;
}

static quire_status check_outputs(const quire_case *opened, quire_error *error) {
  size_t index = 0;
  json_t *value = NULL;
  if (opened->outputs && !json_is_array(opened->outputs)) {
    return quire_failure_set(error, QUIRE_IO, "outputs: must be a list of names");
  }
  json_array_foreach(opened->outputs, index, value) {
    if (!json_is_string(value)) {
      return quire_failure_set(error, QUIRE_IO, "outputs: item %zu is no name", index);
    }
  }
  return QUIRE_OK;
}

static quire_status check_error(const quire_case *opened, quire_error *error) {
  if (!opened->error) {
    return QUIRE_OK;
  }
  int is_known = !strcmp(opened->error, "invalid_argument");
  for (int i = QUIRE_BAD_ATTRIBUTE; i <= QUIRE_INTERNAL; ++i) {
    is_known |= !strcmp(opened->error, quire_status_name((quire_status)i));
  }
  if (!is_known) {
    return quire_failure_set(error, QUIRE_IO, "error: \"%.64s\" is no status", opened->error);
  }
  const char *output = NULL;
  for (size_t i = 0; i < opened->tensors.count; ++i) {
    if (quire_case_is_expected(&opened->tensors.tensors[i], &output)) {
      return quire_failure_set(error, QUIRE_IO, "error: a refused call has no expected %.64s",
                               output);
    }
  }
  return QUIRE_OK;
}

static quire_status read_metadata(quire_case *opened, quire_error *error) {
  static const char *const keys[] = {"output_dtypes", "tolerance", "outputs"};
  json_t **const values[] = {&opened->output_dtypes, &opened->tolerance, &opened->outputs};
  static quire_status (*const checks[])(const quire_case *, quire_error *) = {
      check_dtypes, check_tolerance, check_outputs, check_error};
  opened->op = metadata_text(opened, "op");
  opened->error = metadata_text(opened, "error");
  opened->note = metadata_text(opened, "note") ? metadata_text(opened, "note") : "";
  const int has_outputs = metadata_text(opened, "outputs") != NULL;
  quire_status status = read_attributes(opened, error);
  for (size_t i = 0; i < 2u + (has_outputs ? 1u : 0u) && status == QUIRE_OK; ++i) {
    status = read_json(opened, keys[i], values[i], error);
  }
  for (size_t i = 0; i < sizeof checks / sizeof *checks && status == QUIRE_OK; ++i) {
    status = checks[i](opened, error);
  }
  return status;
}

quire_status quire_case_open(const char *path, quire_case *opened, quire_error *error) {
  *opened = (quire_case){0};
  quire_status status = quire_safetensors_open(path, &opened->tensors, error);
  if (status == QUIRE_OK) {
    status = read_metadata(opened, error);
  }
  if (status != QUIRE_OK) {
    quire_case_release(opened);
  }
  return status;
}

void quire_case_release(quire_case *opened) {
  json_decref(opened->attributes);
  json_decref(opened->output_dtypes);
  json_decref(opened->tolerance);
  json_decref(opened->outputs);
  quire_safetensors_release(&opened->tensors);
  *opened = (quire_case){0};
}

int quire_case_is_expected(const quire_stored_tensor *tensor, const char **output) {
  const size_t length = strlen(QUIRE_CASE_EXPECT);
  if (strncmp(tensor->name, QUIRE_CASE_EXPECT, length) != 0) {
    return 0;
  }
  *output = tensor->name + length;
  return 1;
}

const quire_stored_tensor *quire_case_expected(const quire_case *opened, const char *output) {
  const char *name = NULL;
  for (size_t i = 0; i < opened->tensors.count; ++i) {
    const quire_stored_tensor *tensor = &opened->tensors.tensors[i];
    if (quire_case_is_expected(tensor, &name) && !strcmp(name, output)) {
      return tensor;
    }
  }
  return NULL;
}

quire_tolerance quire_case_tolerance(const quire_case *opened, const char *output) {
  const json_t *entry = json_object_get(opened->tolerance, output);
  return (quire_tolerance){json_number_value(json_object_get(entry, "atol")),
                           json_number_value(json_object_get(entry, "rtol"))};
}

int quire_case_wants_status(const quire_case *opened, quire_status status) {
  return !strcmp(opened->error, "invalid_argument")
             ? quire_status_is_invalid_argument(status)
             : !strcmp(opened->error, quire_status_name(status));
}
