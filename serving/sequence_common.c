/* What every operation on a sequence is made of. */
#include <string.h>

#include "cache_object.h"

quire_status quire_record_find(const quire_cache *cache, quire_sequence sequence,
                               quire_record **record, quire_error *error) {
  if (cache == NULL) {
    return quire_serving_fail(error, QUIRE_BAD_REQUEST, NULL, "cache", "is NULL");
  }
  const uint64_t number = sequence & UINT32_MAX;
  const uint32_t generation = (uint32_t)(sequence >> 32);
  if (number >= (uint64_t)cache->sequence_limit || !cache->records[number].is_live ||
      cache->records[number].generation != generation) {
    return quire_serving_fail(error, QUIRE_NOT_FOUND, "SV-2", "sequence",
                              "number %llu, generation %lu: freed, or never created",
                              (unsigned long long)number, (unsigned long)generation);
  }
  *record = &cache->records[number];
  return QUIRE_OK;
}

static size_t number_of(const quire_cache *cache, const quire_record *record) {
  return (size_t)(record - cache->records);
}

quire_sequence quire_record_handle(const quire_cache *cache, const quire_record *record) {
  return (quire_sequence)record->generation << 32 | number_of(cache, record);
}

int32_t *quire_record_table(const quire_cache *cache, const quire_record *record, int32_t group) {
  return cache->tables[group] + number_of(cache, record) * (size_t)cache->columns[group];
}

int32_t *quire_record_tail(const quire_cache *cache, const quire_record *record) {
  return cache->tails + number_of(cache, record) * (size_t)cache->unit;
}

quire_record *quire_record_take(quire_cache *cache) {
  quire_record *record = &cache->records[cache->first_free_record];
  cache->first_free_record = record->next_free;
  ++cache->live_count;
  /* Generations begin at 1, so that no handle is 0; after 2^32 lives they begin again. */
  const uint32_t generation = record->generation == UINT32_MAX ? 1 : record->generation + 1;
  memset(record, 0, sizeof *record);
  record->generation = generation;
  record->is_live = true;
  record->cursor = QUIRE_NONE;
  record->state = QUIRE_NONE;
  return record;
}

int32_t quire_pool_blocks(const quire_pool *pool, int32_t length) {
  return length / pool->block_size + (length % pool->block_size != 0);
}

int32_t quire_pool_first_visible(const quire_pool *pool, int64_t length) {
  const int64_t first = length + 1 - pool->window;
  return pool->window == 0 || first < 0 ? 0 : (int32_t)first;
}

int64_t quire_record_first_row(const quire_cache *cache, const quire_record *record,
                               int32_t group) {
  const int64_t live = (int64_t)record->first_live[group] * cache->pools[group].block_size;
  return live > record->first_row[group] ? live : record->first_row[group];
}

void quire_record_drop_step(quire_cache *cache, quire_record *record) {
  for (int32_t i = 0; i < record->write_count; ++i) {
    if (record->writes[i] != record->state) {
      quire_pool_drop(cache, cache->states, record->writes[i]);
    }
  }
  record->write_count = 0;
  record->step_tokens = 0;
  record->step_drafts = 0;
  record->is_replay = false;
}

void quire_record_cut(quire_cache *cache, quire_record *record, int32_t length) {
  for (int32_t group = 0; group < cache->group_count; ++group) {
    quire_pool *pool = &cache->pools[group];
    int32_t *table = quire_record_table(cache, record, group);
    const int32_t kept = quire_pool_blocks(pool, length);
    for (int32_t i = quire_pool_blocks(pool, record->length); i-- > kept;) {
      if (table[i] != QUIRE_NONE) {
        quire_pool_drop(cache, pool, table[i]);
      }
    }
    if (record->first_live[group] > kept) {
      record->first_live[group] = kept;
    }
    if (record->first_row[group] > length) {
      record->first_row[group] = length;
    }
  }
  record->length = length;
}

void quire_record_set_reserved(quire_cache *cache, quire_record *record, int32_t group,
                               int32_t count) {
  cache->pools[group].reserved += count - record->reserved[group];
  record->reserved[group] = count;
}

int32_t quire_record_need(const quire_cache *cache, const quire_record *record, int32_t group,
                          int32_t count, bool *is_copy) {
  const quire_pool *pool = &cache->pools[group];
  const int32_t blocks = quire_pool_blocks(pool, record->length);
  *is_copy = false;
  if (count > 0 && record->length % pool->block_size != 0) {
    const int32_t last = quire_record_table(cache, record, group)[blocks - 1];
    *is_copy = pool->holders[last] > 1;
  }
  return quire_pool_blocks(pool, record->length + count) - blocks + (*is_copy ? 1 : 0);
}

quire_status quire_fail_exhausted(const quire_cache *cache, const quire_pool *pool, int64_t need,
                                  int64_t available, quire_error *error) {
  const long long group = (long long)(pool - cache->pools);
  return quire_serving_fail(
      error, QUIRE_OUT_OF_MEMORY, "SV-3", pool == cache->states ? "states" : "blocks",
      "group %lld: %lld needed, %lld of %ld available (%ld free, %ld cached, %ld reserved)",
      pool == cache->states ? -1LL : group, (long long)need, (long long)available,
      (long)pool->count, (long)pool->free_count, (long)pool->idle_count, (long)pool->reserved);
}

void quire_record_extend(quire_cache *cache, quire_record *record, int32_t count) {
  for (int32_t group = 0; group < cache->group_count; ++group) {
    quire_pool *pool = &cache->pools[group];
    int32_t *table = quire_record_table(cache, record, group);
    const int32_t blocks = quire_pool_blocks(pool, record->length + count);
    for (int32_t i = quire_pool_blocks(pool, record->length); i < blocks; ++i) {
      table[i] = quire_pool_take(cache, pool);
    }
  }
  record->length += count;
}

void quire_record_release(quire_cache *cache, quire_record *record) {
  quire_record_drop_step(cache, record);
  if (record->state != QUIRE_NONE) {
    quire_pool_drop(cache, cache->states, record->state);
  }
  quire_record_cut(cache, record, 0);
  for (int32_t group = 0; group < cache->group_count; ++group) {
    quire_record_set_reserved(cache, record, group, 0);
  }
  quire_index_unpin_path(cache, record->cursor);
  record->is_live = false;
  record->next_free = cache->first_free_record;
  cache->first_free_record = (int32_t)number_of(cache, record);
  --cache->live_count;
}
