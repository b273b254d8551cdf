#include "serving_hash.h"

#include <string.h>

/* The functions are compiled into this file: users of the static library need no libxxhash. */
#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t quire_serving_hash(void *user, const void *bytes, size_t size, uint64_t seed) {
  (void)user;
  return XXH3_64bits_withSeed(bytes, size, seed);
}

_Static_assert(sizeof(XXH64_state_t) <= sizeof(quire_serving_checksum), "the state must fit");

void quire_serving_checksum_begin(quire_serving_checksum *checksum) {
  XXH64_state_t state;
  XXH64_reset(&state, 0);
  memcpy(checksum, &state, sizeof state);
}

void quire_serving_checksum_add(quire_serving_checksum *checksum, const void *bytes, size_t size) {
  XXH64_state_t state;
  memcpy(&state, checksum, sizeof state);
  XXH64_update(&state, bytes, size);
  memcpy(checksum, &state, sizeof state);
}

uint64_t quire_serving_checksum_end(const quire_serving_checksum *checksum) {
  XXH64_state_t state;
  memcpy(&state, checksum, sizeof state);
  return XXH64_digest(&state);
}
