#include "limits_file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "failure.h"
#include "files.h"

enum { LONGEST_FILE = 16 * 1024 * 1024 };

quire_status quire_limits_parse(const char *text, size_t length, json_t **value,
                                quire_error *error) {
  json_error_t fault;
  *value = json_loadb(text, length, JSON_REJECT_DUPLICATES, &fault);
  if (!*value && json_error_code(&fault) == json_error_out_of_memory) {
    return quire_failure_set(error, QUIRE_OUT_OF_MEMORY, "no memory for the text");
  }
  return *value ? QUIRE_OK
                : quire_failure_set(error, QUIRE_BAD_REQUEST, "line %d, column %d: %s", fault.line,
                                    fault.column, fault.text);
}

/* As in requests, a double that is whole and within 2^53 is an integer: 1e3 is a limit. */
static int is_whole(const json_t *value) {
  const double number = json_number_value(value);
  return json_is_integer(value) ||
         (json_is_real(value) && fabs(number) <= 9007199254740992.0 && trunc(number) == number);
}

/* Numbers, texts and truth values of an object; count from json_object_size(). */
static quire_status fill_values(json_t *object, const char *member, int only_counts,
                                quire_named_value *values, quire_error *error) {
  const char *name = NULL;
  json_t *value = NULL;
  size_t i = 0;
  json_object_foreach(object, name, value) {
    quire_named_value *filled = &values[i++];
    *filled = (quire_named_value){.name = name};
    if (is_whole(value) && (!only_counts || json_number_value(value) >= 0)) {
      filled->type = QUIRE_VALUE_TYPE_INT;
      filled->i =
          json_is_integer(value) ? json_integer_value(value) : (int64_t)json_real_value(value);
    } else if (json_is_real(value) && !only_counts) {
      filled->type = QUIRE_VALUE_TYPE_FLOAT;
      filled->f = json_real_value(value);
    } else if (json_is_string(value) && !only_counts) {
      filled->type = QUIRE_VALUE_TYPE_STRING;
      filled->s = json_string_value(value);
    } else if (json_is_boolean(value) && !only_counts) {
      filled->type = QUIRE_VALUE_TYPE_BOOL;
      filled->i = json_is_true(value) ? 1 : 0;
    } else {
      return quire_failure_set(error, QUIRE_BAD_REQUEST, "%s: \"%.64s\" must be a %s", member, name,
                               only_counts ? "whole number from 0" : "number, text or truth value");
    }
  }
  return QUIRE_OK;
}

static quire_status fill_features(const json_t *list, const char **features, quire_error *error) {
  for (size_t i = 0; i < json_array_size(list); ++i) {
    features[i] = json_string_value(json_array_get(list, i));
    if (!features[i]) {
      return quire_failure_set(error, QUIRE_BAD_REQUEST, "features: item %zu is no text", i);
    }
  }
  return QUIRE_OK;
}

static quire_status check_members(const json_t *device, quire_error *error) {
  static const char *const members[] = {"backend", "limits", "features", "adapterInfo"};
  const char *name = NULL;
  json_t *value = NULL;
  if (!json_is_object(device)) {
    return quire_failure_set(error, QUIRE_BAD_REQUEST, "must be an object");
  }
  json_object_foreach((json_t *)(uintptr_t)device, name, value) {
    const int is_text = !strcmp(name, members[0]) && json_is_string(value);
    const int is_list = !strcmp(name, members[2]) && json_is_array(value);
    const int is_object =
        (!strcmp(name, members[1]) || !strcmp(name, members[3])) && json_is_object(value);
    if (!is_text && !is_list && !is_object) {
      return quire_failure_set(
          error, QUIRE_BAD_REQUEST,
          "\"%.64s\" is none of backend (text), limits (object), features (list), "
          "adapterInfo (object)",
          name);
    }
  }
  return QUIRE_OK;
}

static quire_status describe(quire_limits_file *limits, quire_error *error) {
  json_t *values = json_object_get(limits->device, "limits");
  json_t *adapter = json_object_get(limits->device, "adapterInfo");
  const json_t *features = json_object_get(limits->device, "features");
  limits->limits = calloc(json_object_size(values) + 1, sizeof *limits->limits);
  limits->adapter = calloc(json_object_size(adapter) + 1, sizeof *limits->adapter);
  limits->features = (const char **)calloc(json_array_size(features) + 1, sizeof *limits->features);
  if (!limits->limits || !limits->adapter || !limits->features) {
    return quire_failure_set(error, QUIRE_OUT_OF_MEMORY, "no memory for the limits");
  }
  quire_status status = fill_values(values, "limits", 1, limits->limits, error);
  if (status == QUIRE_OK) {
    status = fill_values(adapter, "adapterInfo", 0, limits->adapter, error);
  }
  if (status == QUIRE_OK) {
    status = fill_features(features, limits->features, error);
  }
  limits->description = (quire_device_description){
      .struct_size = sizeof limits->description,
      .backend = json_string_value(json_object_get(limits->device, "backend")),
      .features = features ? limits->features : NULL,
      .feature_count = json_array_size(features),
      .limits = limits->limits,
      .limit_count = json_object_size(values),
      .adapter = limits->adapter,
      .adapter_count = json_object_size(adapter)};
  return status;
}

quire_status quire_limits_open(const char *path, quire_limits_file *limits, quire_error *error) {
  *limits = (quire_limits_file){0};
  quire_file_bytes bytes;
  quire_status status = quire_file_read(path, LONGEST_FILE, &bytes, error);
  if (status != QUIRE_OK) {
    return status;
  }
  status = quire_limits_parse((const char *)bytes.data, bytes.size, &limits->device, error);
  quire_file_release(&bytes);
  if (status == QUIRE_OK) {
    status = check_members(limits->device, error);
  }
  if (status == QUIRE_OK) {
    status = describe(limits, error);
  }
  if (status != QUIRE_OK) {
    quire_limits_release(limits);
  }
  return status;
}

void quire_limits_release(quire_limits_file *limits) {
  free((void *)limits->features);
  free(limits->limits);
  free(limits->adapter);
  json_decref(limits->device);
  *limits = (quire_limits_file){0};
}

quire_status quire_limits_lay_over(const quire_limits_file *limits, json_t *request,
                                   quire_error *error) {
  json_t *device = json_object_get(request, "device");
  if (!json_is_object(request) || (device && !json_is_object(device))) {
    return quire_failure_set(error, QUIRE_BAD_REQUEST,
                             "the request is no object that limits can be laid over");
  }
  int is_bad = 0;
  if (!device) {
    device = json_object();
    is_bad |= json_object_set_new(request, "device", device);
  }
  const char *name = NULL;
  json_t *value = NULL;
  json_object_foreach(limits->device, name, value) {
    json_t *below = json_object_get(device, name);
    is_bad |= json_is_object(below) && json_is_object(value) ? json_object_update(below, value)
                                                             : json_object_set(device, name, value);
  }
  return is_bad ? quire_failure_set(error, QUIRE_OUT_OF_MEMORY, "no memory for the limits")
                : QUIRE_OK;
}
