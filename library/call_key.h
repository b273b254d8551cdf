/* The form of a typed call as a short row of numbers: what its plan depends on, and nothing else.
 */
#ifndef QUIRE_LIBRARY_CALL_KEY_H
#define QUIRE_LIBRARY_CALL_KEY_H

#include <stddef.h>
#include <stdint.h>

enum { QUIRE_CALL_KEY_WORDS = 384 };

typedef struct quire_call_key {
  uint64_t hash;
  size_t count; /* words in use; above QUIRE_CALL_KEY_WORDS: did not fit */
  uint64_t words[QUIRE_CALL_KEY_WORDS];
} quire_call_key;

/* Sets only the counts: the words are written as they come. */
void quire_call_key_begin(quire_call_key *key);
void quire_call_key_add(quire_call_key *key, uint64_t word);
void quire_call_key_add_many(quire_call_key *key, const int64_t *words, size_t count);
/* Length first, so that two texts in a row cannot be taken for two others. */
void quire_call_key_add_text(quire_call_key *key, const char *text, size_t length);
/* Computes the hash. */
void quire_call_key_end(quire_call_key *key);

#endif
