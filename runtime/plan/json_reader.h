/* Reads JSON strictly: every fault is named by the path of its value. */
#ifndef QUIRE_PLAN_JSON_READER_H
#define QUIRE_PLAN_JSON_READER_H

#include <jansson.h>
#include <stdint.h>

#include "alloc.h"
#include "quire/context.h"
#include "quire/status.h"

enum { QUIRE_READER_PATH = 120 };

typedef struct quire_reader {
  quire_arena *arena; /* of all that is read */
  quire_error *error;
  char path[QUIRE_READER_PATH]; /* of the value at hand, from "$"; cut if it is too long */
} quire_reader;

/* Parses a text; faults are BAD_REQUEST about `subject`. The root is to be released. */
quire_status quire_reader_parse(quire_reader *in, const char *text, size_t length,
                                const char *subject, json_t **root);

/* Appends ".key" or "[index]"; returns the length before, for quire_reader_leave(). */
size_t quire_reader_enter_key(quire_reader *in, const char *key);
size_t quire_reader_enter_index(quire_reader *in, size_t index);
void quire_reader_leave(quire_reader *in, size_t length);

/* BAD_REQUEST about the value at hand. */
quire_status quire_reader_malformed(quire_reader *in, const char *what);
quire_status quire_reader_expected(quire_reader *in, const char *what, const json_t *got);

quire_status quire_reader_copy(quire_reader *in, const char *text, const char **out);
quire_status quire_reader_string(quire_reader *in, const json_t *json, const char **out);
/* An integer by value: 2.0 is the integer 2. */
quire_status quire_reader_integer(quire_reader *in, const json_t *json, int64_t *out);
/* The same, not negative. */
quire_status quire_reader_size(quire_reader *in, const json_t *json, int64_t *out);
/* A number, string or boolean. */
quire_status quire_reader_scalar(quire_reader *in, const json_t *json, quire_named_value *out);
/* It is an object with no other members. */
quire_status quire_reader_members(quire_reader *in, const json_t *object,
                                  const char *const *allowed, size_t count);

typedef quire_status quire_reader_function(quire_reader *in, const json_t *json,
                                           quire_named_value *out);

/* Reads member `key` of `owner`, a map of scalars; absent: empty. */
quire_status quire_reader_map(quire_reader *in, const json_t *owner, const char *key,
                              quire_reader_function *read, const quire_named_value **out,
                              size_t *count);

#endif
