#include "call_key.h"

#include <string.h>

void quire_call_key_begin(quire_call_key *key) {
  key->hash = 0;
  key->count = 0;
}

void quire_call_key_add(quire_call_key *key, uint64_t word) {
  if (key->count < QUIRE_CALL_KEY_WORDS) {
    key->words[key->count] = word;
  }
  key->count++;
}

void quire_call_key_add_many(quire_call_key *key, const int64_t *words, size_t count) {
  for (size_t i = 0; i < count; i++) {
    quire_call_key_add(key, (uint64_t)words[i]);
  }
}

void quire_call_key_add_text(quire_call_key *key, const char *text, size_t length) {
  quire_call_key_add(key, length);
  while (length != 0) {
    uint64_t word = 0;
    size_t part = length < sizeof word ? length : sizeof word;
    memcpy(&word, text, part);
    quire_call_key_add(key, word);
    text += part;
    length -= part;
  }
}

void quire_call_key_end(quire_call_key *key) {
  /* Multiplicative hashing (Knuth, The Art of Computer Programming, 6.4) by 2^64 / golden ratio;
     the shift brings the well-mixed upper half down, where the next word and the bucket index look.
   */
  uint64_t hash = key->count;
  for (size_t i = 0; i < key->count && i < QUIRE_CALL_KEY_WORDS; i++) {
    hash = (hash ^ key->words[i]) * UINT64_C(0x9E3779B97F4A7C15);
    hash ^= hash >> 32;
  }
  key->hash = hash;
}
