/* What a cache tells about itself. */
#include <string.h>

#include "cache_object.h"

static quire_pool_statistics describe(const quire_pool *pool) {
  return (quire_pool_statistics){
      .count = pool->count,
      .used = pool->count - pool->free_count - pool->idle_count,
      .cached = pool->idle_count,
      .free = pool->free_count,
      .reserved = pool->reserved,
      .shared = pool->shared_count,
      .allocated = pool->allocated,
      .evicted = pool->evicted,
  };
}

void quire_cache_get_statistics(const quire_cache *cache, quire_cache_statistics *statistics) {
  if (cache == NULL || statistics == NULL) {
    return;
  }
  *statistics = (quire_cache_statistics){
      .sequences = cache->live_count,
      .prefixes = cache->index.used_count,
      .matched_tokens = cache->matched_tokens,
      .asked_tokens = cache->asked_tokens,
      .copied_blocks = cache->copied_blocks,
      .metadata_bytes = cache->metadata_bytes,
      .token_bytes = cache->token_bytes,
      .sequence_bytes = cache->sequence_bytes,
  };
  if (cache->states != NULL) {
    statistics->states = describe(cache->states);
  }
}

quire_status quire_cache_get_group(const quire_cache *cache, size_t group,
                                   quire_pool_statistics *statistics, quire_error *error) {
  if (cache == NULL || statistics == NULL) {
    return quire_serving_fail(error, QUIRE_BAD_REQUEST, NULL, "cache", "or statistics is NULL");
  }
  if (group >= (size_t)cache->group_count) {
    return quire_serving_fail(error, QUIRE_BAD_VALUE, NULL, "group", "is %zu, the cache has %ld",
                              group, (long)cache->group_count);
  }
  *statistics = describe(&cache->pools[group]);
  return QUIRE_OK;
}

void quire_cache_forget(quire_cache *cache) {
  while (cache != NULL && cache->index.first_listed != QUIRE_NONE) {
    quire_index_evict(cache);
  }
}

quire_status quire_sequence_get_facts(const quire_cache *cache, quire_sequence sequence,
                                      quire_sequence_facts *facts, quire_error *error) {
  quire_record *record = NULL;
  QUIRE_SERVING_TRY(quire_record_find(cache, sequence, &record, error));
  if (facts == NULL) {
    return quire_serving_fail(error, QUIRE_BAD_REQUEST, NULL, "facts", "is NULL");
  }
  *facts = (quire_sequence_facts){.length = record->length,
                                  .committed = record->committed,
                                  .matched = record->matched,
                                  .findable = record->indexed,
                                  .state = record->state};
  return QUIRE_OK;
}

quire_status quire_sequence_get_blocks(const quire_cache *cache, quire_sequence sequence,
                                       size_t group, const int32_t **blocks, int64_t *count,
                                       quire_error *error) {
  quire_record *record = NULL;
  QUIRE_SERVING_TRY(quire_record_find(cache, sequence, &record, error));
  if (blocks == NULL || count == NULL || group >= (size_t)cache->group_count) {
    return quire_serving_fail(error, QUIRE_BAD_REQUEST, NULL, "group",
                              "is %zu, the cache has %ld; or blocks or count is NULL", group,
                              (long)cache->group_count);
  }
  *blocks = quire_record_table(cache, record, (int32_t)group);
  *count = quire_pool_blocks(&cache->pools[group], record->length);
  return QUIRE_OK;
}

quire_status quire_sequence_get_chunk(const quire_cache *cache, quire_sequence sequence,
                                      int64_t limit, int64_t *count, quire_error *error) {
  quire_record *record = NULL;
  QUIRE_SERVING_TRY(quire_record_find(cache, sequence, &record, error));
  if (count == NULL || limit < 0) {
    return quire_serving_fail(error, QUIRE_BAD_REQUEST, NULL, "limit", "is %lld%s",
                              (long long)limit, count == NULL ? ", count is NULL" : "");
  }
  const int64_t every = cache->checkpoint_tokens;
  const int64_t due = every > 0 ? every - record->committed % every : limit;
  *count = due < limit ? due : limit;
  return QUIRE_OK;
}
