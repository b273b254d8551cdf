/* What the tests of the serving layer share. */
#ifndef QUIRE_TESTS_SERVING_FIXTURE_H
#define QUIRE_TESTS_SERVING_FIXTURE_H

/* cmocka wants these first. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>

#include "counting_allocator.h"
#include "cpu_device.h"
#include "quire/serving.h"

/* A cache of one group; fails the test if it cannot be made. */
quire_cache *make_cache(int64_t block_count, int64_t block_size);
quire_cache *make_cache_with(const quire_cache_options *options);
/* Options of one group; `group` must outlive them. */
quire_cache_options options_of(quire_cache_group *group, int64_t block_count, int64_t block_size);

#define MUST(expression)                                                                   \
  do {                                                                                     \
    quire_error must_error = {QUIRE_OK, "", "", ""};                                       \
    quire_error *error = &must_error;                                                      \
    const quire_status must_status = (expression);                                         \
    if (must_status != QUIRE_OK) {                                                         \
      fail_msg("%s: %s: %s", #expression, quire_status_name(must_status), error->message); \
    }                                                                                      \
  } while (0)

/* Expects a refusal with this status and rule, and that nothing has changed. */
#define MUST_FAIL(cache, expected, named, expression)                                        \
  do {                                                                                       \
    quire_error must_error = {QUIRE_OK, "", "", ""};                                         \
    quire_error *error = &must_error;                                                        \
    const uint64_t must_before = fingerprint(cache);                                         \
    const quire_status must_status = (expression);                                           \
    if (must_status != (expected) || strcmp(error->rule, (named)) != 0) {                    \
      fail_msg("%s: %s by %s: %s", #expression, quire_status_name(must_status), error->rule, \
               error->message);                                                              \
    }                                                                                        \
    assert_true(error->status == (expected));                                                \
    if (fingerprint(cache) != must_before) {                                                 \
      fail_msg("%s has changed the cache", #expression);                                     \
    }                                                                                        \
  } while (0)

/* A number of everything that a cache remembers: a refused call must not change it. */
uint64_t fingerprint(const quire_cache *cache);
/* Fails the test unless the books balance. */
void check_cache(const quire_cache *cache);

quire_sequence begin(quire_cache *cache, const quire_prefix_key *key, const int32_t *tokens,
                     int64_t count, int64_t expected_match);
/* Appends, builds a step (of arrays that nobody wants) and commits. */
void grow(quire_cache *cache, quire_sequence sequence, const int32_t *tokens, int64_t count);
/* Builds a step of one sequence without arrays. */
quire_status build_one(quire_cache *cache, quire_sequence sequence, int64_t new_tokens,
                       int64_t drafts, uint32_t flags, quire_error *error);
quire_pool_statistics group_of(const quire_cache *cache, size_t group);
quire_pool_statistics states_of(const quire_cache *cache);
quire_sequence_facts facts_of(const quire_cache *cache, quire_sequence sequence);

/* A generator of random numbers, the same everywhere. */
typedef struct randomness {
  uint64_t state;
} randomness;
uint64_t random_bits(randomness *source);
/* From [low, high]. */
int64_t random_between(randomness *source, int64_t low, int64_t high);
float random_float(randomness *source);

#endif
