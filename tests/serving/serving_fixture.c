#include "serving_fixture.h"

#include <stdlib.h>
#include <string.h>

#include "cache_object.h"

quire_cache_options options_of(quire_cache_group *group, int64_t block_count, int64_t block_size) {
  *group = (quire_cache_group){block_count, block_size, 0};
  quire_cache_options options;
  quire_cache_options_init(&options);
  options.groups = group;
  options.group_count = 1;
  options.sequence_limit = 8;
  return options;
}

quire_cache *make_cache_with(const quire_cache_options *options) {
  static counting_allocator filling; /* a fingerprint is one of bytes that were written */
  if (filling.allocator.allocate == NULL) {
    counting_allocator_init(&filling);
  }
  quire_cache_options filled = *options;
  filled.allocator = options->allocator != NULL ? options->allocator : &filling.allocator;
  quire_cache *cache = NULL;
  MUST(quire_cache_create(&filled, &cache, error));
  return cache;
}

quire_cache *make_cache(int64_t block_count, int64_t block_size) {
  quire_cache_group group;
  const quire_cache_options options = options_of(&group, block_count, block_size);
  return make_cache_with(&options);
}

static uint64_t mix(uint64_t hash, const void *bytes, size_t size) {
  const unsigned char *at = bytes;
  for (; size > 0; at += 8) {
    const size_t count = size < 8 ? size : 8;
    uint64_t word = 0;
    memcpy(&word, at, count);
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
    size -= count;
  }
  return hash;
}

/* Whole records, but for the mark by which a batch notices a sequence that is in it twice. */
static uint64_t mix_records(uint64_t hash, const quire_cache *cache) {
  for (int32_t i = 0; i < cache->sequence_limit; ++i) {
    quire_record record;
    memcpy(&record, &cache->records[i], sizeof record);
    record.step_mark = 0;
    hash = mix(hash, &record, sizeof record);
  }
  return hash;
}

uint64_t fingerprint(const quire_cache *cache) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (size_t i = 0; i < cache->array_count; ++i) {
    const quire_owned_array *array = &cache->arrays[i];
    if (array->memory != cache->records) {
      hash = mix(hash, array->memory, array->count * array->size);
    }
  }
  quire_cache copy;
  memcpy(&copy, cache, sizeof copy);
  copy.build_mark = 0;
  return mix_records(mix(hash, &copy, sizeof copy), cache);
}

void check_cache(const quire_cache *cache) {
  quire_error error = {QUIRE_OK, "", "", ""};
  if (!quire_cache_check(cache, &error)) {
    fail_msg("the books do not balance: %s", error.message);
  }
}

quire_sequence begin(quire_cache *cache, const quire_prefix_key *key, const int32_t *tokens,
                     int64_t count, int64_t expected_match) {
  quire_sequence sequence = 0;
  int64_t matched = -1;
  int64_t foretold = -1;
  MUST(quire_cache_match(cache, key, tokens, count, &foretold, error));
  MUST(quire_sequence_create(cache, key, tokens, count, &sequence, &matched, error));
  assert_int_equal(matched, expected_match);
  assert_int_equal(matched, foretold);
  check_cache(cache);
  return sequence;
}

quire_status build_one(quire_cache *cache, quire_sequence sequence, int64_t new_tokens,
                       int64_t drafts, uint32_t flags, quire_error *error) {
  quire_batch batch;
  quire_batch_init(&batch);
  batch.row_capacity = INT32_MAX;
  batch.sequence_capacity = 1;
  const quire_batch_entry entry = {sequence, new_tokens, drafts, flags};
  return quire_batch_build(cache, &entry, 1, &batch, error);
}

void grow(quire_cache *cache, quire_sequence sequence, const int32_t *tokens, int64_t count) {
  MUST(quire_sequence_append(cache, sequence, count, error));
  quire_cache_copies_done(cache);
  MUST(build_one(cache, sequence, count, 0, 0, error));
  MUST(quire_sequence_commit(cache, sequence, tokens, count, error));
  check_cache(cache);
}

quire_pool_statistics group_of(const quire_cache *cache, size_t group) {
  quire_pool_statistics statistics;
  MUST(quire_cache_get_group(cache, group, &statistics, error));
  assert_int_equal(statistics.used + statistics.cached + statistics.free, statistics.count);
  return statistics;
}

quire_pool_statistics states_of(const quire_cache *cache) {
  quire_cache_statistics statistics;
  quire_cache_get_statistics(cache, &statistics);
  return statistics.states;
}

quire_sequence_facts facts_of(const quire_cache *cache, quire_sequence sequence) {
  quire_sequence_facts facts;
  MUST(quire_sequence_get_facts(cache, sequence, &facts, error));
  return facts;
}

/* splitmix64, by Sebastiano Vigna (public domain algorithm). */
uint64_t random_bits(randomness *source) {
  uint64_t z = source->state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

int64_t random_between(randomness *source, int64_t low, int64_t high) {
  return low + (int64_t)(random_bits(source) % (uint64_t)(high - low + 1));
}

float random_float(randomness *source) {
  return (float)((double)(random_bits(source) >> 40) / (1 << 23) - 1);
}
