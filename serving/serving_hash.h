/* xxHash, seen by one file only. Hashes are aids: nothing is shared on a hash alone. */
#ifndef QUIRE_SERVING_HASH_H
#define QUIRE_SERVING_HASH_H

#include <stddef.h>
#include <stdint.h>

/* A quire_hash_function. */
uint64_t quire_serving_hash(void *user, const void *bytes, size_t size, uint64_t seed);

/* Checksum of bytes that come in pieces; does not depend on how they are cut. */
typedef struct quire_serving_checksum {
  uint64_t words[8]; /* XXH64's state needs 88 bytes */
  uint64_t rest[4];
} quire_serving_checksum;

void quire_serving_checksum_begin(quire_serving_checksum *checksum);
void quire_serving_checksum_add(quire_serving_checksum *checksum, const void *bytes, size_t size);
uint64_t quire_serving_checksum_end(const quire_serving_checksum *checksum);

#endif
