/*
 * Reads JSON (RFC 8259) into a tree of jansson's.
 *
 * jansson's own reader is not used: where memory for a token cannot be had it drops bytes of the
 * token, reads on past what it kept, and reports a fault of the text at best.
 */
#ifndef QUIRE_MANIFEST_JSON_TEXT_H
#define QUIRE_MANIFEST_JSON_TEXT_H

#include <jansson.h>

#include "alloc.h"

enum { QUIRE_JSON_DEEPEST = 64 };

typedef struct quire_json_fault {
  bool out_of_memory; /* and nothing else is set */
  size_t line;        /* from 1 */
  size_t column;      /* in characters, from 1 */
  char message[128];  /* one line */
} quire_json_fault;

/*
 * The object or list that the text holds, and nothing else; the caller's to json_decref(). NULL
 * with a fault: no JSON, a key twice, an integer outside 64 bits, a number outside a double, a zero
 * byte in a string, nested more than QUIRE_JSON_DEEPEST deep.
 */
json_t *quire_json_read(const quire_allocator *allocator, const char *text, size_t length,
                        quire_json_fault *fault);

#endif
