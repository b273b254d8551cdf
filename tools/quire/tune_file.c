#include "tune_file.h"

#include <stdlib.h>
#include <string.h>

#include "failure.h"
#include "option_value.h"

quire_status tune_file_read(const char *path, quire_file_bytes *bytes, quire_error *error) {
  *bytes = (quire_file_bytes){0};
  if (!path) {
    return QUIRE_OK;
  }
  quire_error own;
  const quire_status status = quire_file_read(path, QUIRE_LONGEST_TUNING, bytes, &own);
  return status == QUIRE_OK
             ? QUIRE_OK
             : quire_failure_set(error, status == QUIRE_NOT_FOUND ? QUIRE_IO : status, "%.256s: %s",
                                 path, own.message);
}

quire_status tune_file_open(const quire_file_bytes *bytes, json_t **root, quire_error *error) {
  *root = bytes->data
              ? json_loadb((const char *)bytes->data, bytes->size, JSON_REJECT_DUPLICATES, NULL)
              : json_pack("{s:s, s:i, s:[]}", "format", "quire-tuning", "version", 1, "entries");
  return *root ? QUIRE_OK
               : quire_failure_set(error, QUIRE_OUT_OF_MEMORY, "no memory for the tuned values");
}

/* 1 if an entry has all members of the key. */
static int has_key(const json_t *entry, const json_t *key) {
  const char *name = NULL;
  json_t *value = NULL;
  json_object_foreach((json_t *)(uintptr_t)key, name, value) {
    if (!json_equal(json_object_get(entry, name), value)) {
      return 0;
    }
  }
  return 1;
}

static json_t *entry_json(const tune_result *result) {
  json_t *entry = json_deep_copy(result->key);
  json_t *tunables = json_object();
  int is_bad = !entry || !tunables;
  for (size_t i = 0; i < result->values.count && !is_bad; ++i) {
    const quire_named_value *value = &result->values.items[i];
    is_bad |= value->type != QUIRE_VALUE_TYPE_NONE &&
              json_object_set_new(tunables, value->name, quire_value_json(value)) != 0;
  }
  is_bad |= json_object_set(entry, "tunables", tunables) != 0;
  is_bad |= json_object_set_new(entry, "measured",
                                json_pack("{s:f, s:f}", "default_us", result->default_time,
                                          "tuned_us", result->time)) != 0;
  json_decref(tunables);
  if (is_bad) {
    json_decref(entry);
    return NULL;
  }
  return entry;
}

quire_status tune_file_put(json_t *root, const tune_result *result, quire_error *error) {
  json_t *entries = json_object_get(root, "entries");
  for (size_t i = json_array_size(entries); i-- > 0;) {
    if (has_key(json_array_get(entries, i), result->key)) {
      (void)json_array_remove(entries, i);
    }
  }
  json_t *entry = entry_json(result);
  return entry && json_array_append_new(entries, entry) == 0
             ? QUIRE_OK
             : quire_failure_set(error, QUIRE_OUT_OF_MEMORY, "no memory for the tuned values");
}

quire_status tune_file_write(const char *path, const json_t *root, quire_error *error) {
  char *text = json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
  if (!text) {
    return quire_failure_set(error, QUIRE_OUT_OF_MEMORY, "no memory for the tuned values");
  }
  const quire_file_piece pieces[] = {{text, strlen(text)}, {"\n", 1}};
  const quire_status status = quire_file_write(path, pieces, 2, error);
  free(text);
  return status;
}
