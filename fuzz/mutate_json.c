#include "mutate_json.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PLACES = 4096, LONGEST_STRING = 256 };

/* A value, and where it hangs. */
typedef struct place {
  json_t *parent; /* NULL: the whole text */
  const char *key;
  size_t index;
  json_t *value;
} place;

typedef struct document {
  json_t *root;
  place places[MOST_PLACES];
  size_t count;
  unsigned random;
} document;

static unsigned next(document *in, size_t count) {
  in->random = in->random * 1664525U + 1013904223U;
  return (unsigned)((in->random >> 8) % count);
}

static void collect(document *in, json_t *parent, const char *key, size_t index, json_t *value) {
  const char *name = NULL;
  json_t *child = NULL;
  size_t i = 0;
  if (in->count == MOST_PLACES) {
    return;
  }
  in->places[in->count++] = (place){parent, key, index, value};
  json_object_foreach(value, name, child) {
    collect(in, value, name, 0, child);
  }
  json_array_foreach(value, i, child) {
    collect(in, value, NULL, i, child);
  }
}

static void put(document *in, const place *at, json_t *value) {
  if (value == NULL) {
    return; /* a string that is no UTF-8 */
  }
  if (at->parent == NULL) {
    json_decref(in->root);
    in->root = value;
  } else if (at->key != NULL) {
    json_object_set_new(at->parent, at->key, value);
  } else {
    json_array_set_new(at->parent, at->index, value);
  }
}

static json_t *mutated_text(const char *text, size_t length) {
  uint8_t bytes[LONGEST_STRING];
  length = length < sizeof bytes ? length : sizeof bytes;
  memcpy(bytes, text, length);
  length = LLVMFuzzerMutate(bytes, length, sizeof bytes);
  return json_stringn((const char *)bytes, length);
}

static json_t *corner(document *in) {
  static const json_int_t integers[] = {0,  1,         2,         3,         4,
                                        8,  64,        128,       65535,     65536,
                                        -1, INT32_MAX, INT64_MAX, INT64_MIN, (json_int_t)1 << 53};
  switch (next(in, 8)) {
    case 0:
      return json_string("");
    case 1:
      return json_boolean(next(in, 2));
    case 2:
      return json_null();
    case 3:
      return json_array();
    case 4:
      return json_object();
    case 5:
      return json_real(next(in, 2) ? 0.5 : -1e300);
    default:
      return json_integer(integers[next(in, sizeof integers / sizeof *integers)]);
  }
}

static json_t *changed(document *in, const json_t *value) {
  if (json_is_string(value)) {
    return mutated_text(json_string_value(value), json_string_length(value));
  }
  if (json_is_integer(value)) {
    static const json_int_t steps[] = {1, -1, 2, 64};
    const uint64_t sum = (uint64_t)json_integer_value(value) + (uint64_t)steps[next(in, 4)];
    return json_integer((json_int_t)sum);
  }
  return corner(in);
}

static void drop(const place *at) {
  if (at->key != NULL) {
    json_object_del(at->parent, at->key);
  } else if (at->parent != NULL) {
    json_array_remove(at->parent, at->index);
  }
}

/* A copy of a value beside another one, in a list or under some key of the document. */
static void insert(document *in, const place *at, const place *from) {
  if (json_is_array(at->value)) {
    json_array_append_new(at->value, json_deep_copy(from->value));
  } else if (json_is_object(at->value)) {
    json_object_set_new(at->value, from->key ? from->key : "x", json_deep_copy(from->value));
  } else {
    put(in, at, json_deep_copy(from->value));
  }
}

static void rename_member(document *in, const place *at, const place *from) {
  json_t *key = NULL;
  if (at->key == NULL) {
    return;
  }
  key = next(in, 2) && from->key ? json_string(from->key) : mutated_text(at->key, strlen(at->key));
  if (key != NULL && strlen(json_string_value(key)) == json_string_length(key)) {
    json_object_set(at->parent, json_string_value(key), at->value);
    json_object_del(at->parent, at->key);
  }
  json_decref(key);
}

static void mutate(document *in) {
  const place *at = &in->places[next(in, in->count)];
  const place *from = &in->places[next(in, in->count)];
  switch (next(in, 8)) {
    case 0:
      drop(at);
      break;
    case 1:
      put(in, at, json_deep_copy(from->value));
      break;
    case 2:
      insert(in, at, from);
      break;
    case 3:
      rename_member(in, at, from);
      break;
    case 4:
      put(in, at, corner(in));
      break;
    default:
      put(in, at, changed(in, at->value));
      break;
  }
}

size_t mutate_json(uint8_t *data, size_t size, size_t max_size, unsigned seed) {
  static document in; /* large */
  in.count = 0;
  in.random = seed;
  in.root = json_loadb((const char *)data, size, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
  if (in.root == NULL || next(&in, 8) == 0) {
    json_decref(in.root);
    return LLVMFuzzerMutate(data, size, max_size);
  }
  collect(&in, NULL, NULL, 0, in.root);
  mutate(&in);
  char *text = json_dumps(in.root, JSON_COMPACT | JSON_ENCODE_ANY);
  const size_t length = text != NULL ? strlen(text) : 0;
  json_decref(in.root);
  if (length == 0 || length > max_size) {
    size = LLVMFuzzerMutate(data, size, max_size);
  } else {
    memcpy(data, text, length);
    size = length;
  }
  free(text);
  return size;
}
