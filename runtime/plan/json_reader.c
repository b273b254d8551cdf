#include "json_reader.h"

#include <stdio.h>
#include <string.h>

#include "error.h"
#include "json_text.h"

/* ---- paths ---- */

size_t quire_reader_enter_key(quire_reader *in, const char *key) {
  size_t length = strlen(in->path);
  (void)snprintf(in->path + length, sizeof in->path - length, ".%s", key);
  return length;
}

size_t quire_reader_enter_index(quire_reader *in, size_t index) {
  size_t length = strlen(in->path);
  (void)snprintf(in->path + length, sizeof in->path - length, "[%zu]", index);
  return length;
}

void quire_reader_leave(quire_reader *in, size_t length) {
  in->path[length] = '\0';
}

quire_status quire_reader_malformed(quire_reader *in, const char *what) {
  return quire_fail(in->error, QUIRE_BAD_REQUEST, NULL, in->path, "%s", what);
}

quire_status quire_reader_expected(quire_reader *in, const char *what, const json_t *got) {
  static const char *const kinds[] = {"an object", "a list",    "a string",  "an integer",
                                      "a number",  "a boolean", "a boolean", "null"};
  unsigned kind = (unsigned)json_typeof(got);
  return quire_fail(in->error, QUIRE_BAD_REQUEST, NULL, in->path, "%s is expected, not %s", what,
                    kind < sizeof kinds / sizeof *kinds ? kinds[kind] : "this");
}

/* ---- scalars ---- */

quire_status quire_reader_copy(quire_reader *in, const char *text, const char **out) {
  *out = quire_arena_copy(in->arena, text, strlen(text));
  return *out != NULL ? QUIRE_OK : quire_fail_memory(in->error);
}

quire_status quire_reader_string(quire_reader *in, const json_t *json, const char **out) {
  if (!json_is_string(json)) {
    return quire_reader_expected(in, "a string", json);
  }
  return quire_reader_copy(in, json_string_value(json), out);
}

quire_status quire_reader_integer(quire_reader *in, const json_t *json, int64_t *out) {
  if (json_is_integer(json)) {
    *out = (int64_t)json_integer_value(json);
    return QUIRE_OK;
  }
  const double largest = 9007199254740992.0; /* 2^53 */
  double number = json_is_real(json) ? json_real_value(json) : 0.5;
  if (number < -largest || number > largest || number != (double)(int64_t)number) {
    return quire_reader_expected(in, "an integer", json);
  }
  *out = (int64_t)number;
  return QUIRE_OK;
}

quire_status quire_reader_size(quire_reader *in, const json_t *json, int64_t *out) {
  QUIRE_TRY(quire_reader_integer(in, json, out));
  return *out >= 0 ? QUIRE_OK : quire_reader_malformed(in, "is negative, at least 0 is expected");
}

quire_status quire_reader_scalar(quire_reader *in, const json_t *json, quire_named_value *out) {
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
    return quire_reader_copy(in, json_string_value(json), &out->s);
  } else {
    return quire_reader_expected(in, "a number, string or boolean", json);
  }
  return QUIRE_OK;
}

/* ---- objects ---- */

quire_status quire_reader_members(quire_reader *in, const json_t *object,
                                  const char *const *allowed, size_t count) {
  if (!json_is_object(object)) {
    return quire_reader_expected(in, "an object", object);
  }
  json_t *json = (json_t *)(uintptr_t)object; /* jansson's iterators are not const */
  for (void *at = json_object_iter(json); at != NULL; at = json_object_iter_next(json, at)) {
    const char *key = json_object_iter_key(at);
    size_t i = 0;
    while (i < count && strcmp(allowed[i], key) != 0) {
      i++;
    }
    if (i == count) {
      (void)quire_reader_enter_key(in, key);
      return quire_reader_malformed(in, "this member is unknown");
    }
  }
  return QUIRE_OK;
}

quire_status quire_reader_map(quire_reader *in, const json_t *owner, const char *key,
                              quire_reader_function *read, const quire_named_value **out,
                              size_t *count) {
  json_t *map = json_object_get(owner, key);
  *out = NULL;
  *count = 0;
  if (map == NULL) {
    return QUIRE_OK;
  }
  size_t outer = quire_reader_enter_key(in, key);
  if (!json_is_object(map)) {
    return quire_reader_expected(in, "an object", map);
  }
  quire_named_value *items = quire_arena_array(in->arena, json_object_size(map), sizeof *items);
  if (items == NULL) {
    return quire_fail_memory(in->error);
  }
  for (void *at = json_object_iter(map); at != NULL; at = json_object_iter_next(map, at)) {
    quire_named_value *item = &items[(*count)++];
    size_t inner = quire_reader_enter_key(in, json_object_iter_key(at));
    QUIRE_TRY(quire_reader_copy(in, json_object_iter_key(at), &item->name));
    QUIRE_TRY(read(in, json_object_iter_value(at), item));
    quire_reader_leave(in, inner);
  }
  *out = items;
  quire_reader_leave(in, outer);
  return QUIRE_OK;
}

quire_status quire_reader_parse(quire_reader *in, const char *text, size_t length,
                                const char *subject, json_t **root) {
  quire_json_fault fault;
  *root = quire_json_read(in->arena->allocator, text, length, &fault);
  if (*root != NULL) {
    return QUIRE_OK;
  }
  return fault.out_of_memory
             ? quire_fail_memory(in->error)
             : quire_fail(in->error, QUIRE_BAD_REQUEST, NULL, subject, "line %zu, column %zu: %s",
                          fault.line, fault.column, fault.message);
}
