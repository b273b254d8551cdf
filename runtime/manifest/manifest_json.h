/* Places in a manifest's JSON: their paths, and where they are in the text. */
#ifndef QUIRE_MANIFEST_MANIFEST_JSON_H
#define QUIRE_MANIFEST_MANIFEST_JSON_H

#include <stddef.h>

#include "text.h"

/* A value inside its parent; a chain of these lives on the stack of the functions that walk down.
 */
typedef struct quire_json_place {
  const struct quire_json_place *parent; /* NULL: the whole text */
  const char *key;                       /* member; NULL: element */
  size_t index;
} quire_json_place;

quire_json_place quire_json_root(void);
quire_json_place quire_json_member(const quire_json_place *parent, const char *key);
quire_json_place quire_json_element(const quire_json_place *parent, size_t index);

/* "$.variants[2].when[0]". */
void quire_json_write_path(quire_text *text, const quire_json_place *place);

/*
 * Byte at which a place begins (a member at its key), in text that is known to be JSON and not to
 * nest deeply. A place that is not there (a missing member) is where its nearest parent begins.
 */
size_t quire_json_locate(const char *text, size_t length, const quire_json_place *place);
/* Line of a byte, from 1. */
size_t quire_json_line(const char *text, size_t offset);
/* Deepest nesting of arrays and objects, quotes respected; the text need not be JSON. */
size_t quire_json_nesting(const char *text, size_t length);

#endif
