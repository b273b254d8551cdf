/* Memory, and JSON values whose faults are noted. */
#include <math.h>
#include <string.h>

#include "manifest_loader.h"

void *quire_loader_array(quire_loader *loader, size_t count, size_t size) {
  void *memory = quire_arena_array(loader->arena, count, size);
  loader->out_of_memory = loader->out_of_memory || memory == NULL;
  return memory;
}

void *quire_loader_scratch(quire_loader *loader, size_t count, size_t size) {
  void *memory = quire_arena_array(&loader->scratch, count, size);
  loader->out_of_memory = loader->out_of_memory || memory == NULL;
  return memory;
}

const char *quire_loader_copy(quire_loader *loader, const char *text) {
  const char *copy = quire_arena_copy(loader->arena, text, strlen(text));
  loader->out_of_memory = loader->out_of_memory || copy == NULL;
  return copy == NULL ? "" : copy;
}

bool quire_is_identifier(const char *text) {
  size_t length = 0;
  for (; text[length] != '\0'; ++length) {
    char c = text[length];
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_')) {
      return false;
    }
  }
  return length > 0 && length <= QUIRE_MANIFEST_MAX_NAME;
}

bool quire_is_name(const char *text) {
  return quire_is_identifier(text) && !(text[0] >= '0' && text[0] <= '9');
}

bool quire_is_comment(const char *key) {
  return strcmp(key, "$comment") == 0;
}

/* Members of the public engine's format that are not supported: named, so that nobody wonders. */
static const char *const unsupported[] = {
    "args",
    "conformance",
    "onnx",
    "cases",
    "axes",
    "exclude",
    "variants",
    "repeat",
    "passes",
    "viewAlias",
    "profile",
    "submitAfter",
    "layout",
    "narrowing",
    "length",
    "required",
    "internal",
    "default",
    "use",
    "$use",
    "subgroupCollectivesWidth",
    "subgroupMatrixConfigs",
};

/* False for a member that is not supported: what else is missing is then no news. */
static bool check_member(quire_loader *loader, const char *key, json_t *value,
                         const quire_json_place *place, const char *const *allowed) {
  quire_json_place member = quire_json_member(place, key);
  if (quire_is_comment(key)) {
    if (!json_is_string(value)) {
      quire_loader_fault(loader, &member, "a comment must be a string");
    }
    return true;
  }
  if (strcmp(key, "description") == 0 || strncmp(key, "x-", 2) == 0) {
    return true;
  }
  for (size_t i = 0; allowed[i] != NULL; ++i) {
    if (strcmp(allowed[i], key) == 0) {
      return true;
    }
  }
  for (size_t i = 0; i < sizeof unsupported / sizeof *unsupported; ++i) {
    if (strcmp(unsupported[i], key) == 0) {
      quire_loader_fault(loader, &member, "`%s` is not supported here", key);
      return false;
    }
  }
  quire_loader_fault(loader, &member, "unknown member");
  return true;
}

bool quire_loader_object(quire_loader *loader, json_t *json, const quire_json_place *place,
                         const char *const *allowed) {
  if (!json_is_object(json)) {
    quire_loader_fault(loader, place, "must be an object");
    return false;
  }
  const char *key = NULL;
  json_t *value = NULL;
  bool supported = true;
  json_object_foreach(json, key, value) {
    supported = check_member(loader, key, value, place, allowed) && supported;
  }
  return supported;
}

size_t quire_loader_map(quire_loader *loader, json_t *json, const quire_json_place *place) {
  if (json == NULL) {
    return 0;
  }
  if (!json_is_object(json)) {
    quire_loader_fault(loader, place, "must be an object");
    return 0;
  }
  size_t count = 0;
  const char *key = NULL;
  json_t *value = NULL;
  json_object_foreach(json, key, value) {
    quire_json_place member = quire_json_member(place, key);
    if (quire_is_comment(key)) {
      if (!json_is_string(value)) {
        quire_loader_fault(loader, &member, "a comment must be a string");
      }
      continue;
    }
    ++count;
    if (!quire_is_name(key)) {
      quire_loader_fault(loader, &member,
                         "not a name (letters, digits and _, not beginning with a digit, at most "
                         "%d)",
                         QUIRE_MANIFEST_MAX_NAME);
    }
  }
  if (count > QUIRE_MANIFEST_MAX_ITEMS) {
    quire_loader_fault(loader, place, "%zu members, at most %d are allowed", count,
                       QUIRE_MANIFEST_MAX_ITEMS);
    return 0;
  }
  return count;
}

size_t quire_loader_list(quire_loader *loader, json_t *json, const quire_json_place *place) {
  if (json == NULL) {
    return 0;
  }
  if (!json_is_array(json)) {
    quire_loader_fault(loader, place, "must be a list");
    return 0;
  }
  size_t count = json_array_size(json);
  if (count > QUIRE_MANIFEST_MAX_ITEMS) {
    quire_loader_fault(loader, place, "%zu elements, at most %d are allowed", count,
                       QUIRE_MANIFEST_MAX_ITEMS);
    return 0;
  }
  return count;
}

const char *quire_loader_string(quire_loader *loader, json_t *object, const char *key,
                                const quire_json_place *place) {
  json_t *json = json_object_get(object, key);
  if (json != NULL && !json_is_string(json)) {
    quire_json_place member = quire_json_member(place, key);
    quire_loader_fault(loader, &member, "must be a string");
  }
  return json_string_value(json);
}

bool quire_loader_boolean(quire_loader *loader, json_t *object, const char *key,
                          const quire_json_place *place, bool fallback) {
  json_t *json = json_object_get(object, key);
  if (json == NULL) {
    return fallback;
  }
  if (!json_is_boolean(json)) {
    quire_json_place member = quire_json_member(place, key);
    quire_loader_fault(loader, &member, "must be true or false");
    return fallback;
  }
  return json_is_true(json);
}

quire_value quire_json_number(json_t *json) {
  return json_is_integer(json) ? quire_value_integer(json_integer_value(json))
                               : quire_value_number(json_real_value(json));
}

quire_value quire_loader_scalar(quire_loader *loader, json_t *json, const quire_json_place *place) {
  if (json_is_number(json)) {
    return quire_json_number(json);
  }
  if (json_is_boolean(json)) {
    return quire_value_boolean(json_is_true(json));
  }
  if (json_is_string(json)) {
    const char *copy = quire_loader_copy(loader, json_string_value(json));
    return quire_value_string(copy, strlen(copy));
  }
  quire_loader_fault(loader, place, "must be a number, a string or a boolean");
  return quire_value_undefined();
}
