/* Making committed tokens findable. */
#include <string.h>

#include "cache_object.h"

/* Pinning an entry that may go takes its idle blocks from those who were promised some. */
static bool may_pin(const quire_cache *cache, int32_t entry) {
  if (!quire_index_is_listed(cache, entry)) {
    return true;
  }
  for (int32_t i = 0; i < cache->pool_count; ++i) {
    const quire_pool *pool = &cache->pools[i];
    int32_t idle = 0;
    for (int32_t j = 0; j < pool->per_unit && !pool->is_loose; ++j) {
      const int32_t item = quire_pool_items(pool, entry)[j];
      idle += item != QUIRE_NONE && pool->holders[item] == 1;
    }
    if (idle > quire_pool_available(pool)) {
      return false;
    }
  }
  return true;
}

/* Blocks of a unit must be new to the index: after a fork within a unit some may be in it. */
static bool may_own(const quire_cache *cache, const quire_record *record) {
  for (int32_t group = 0; group < cache->group_count; ++group) {
    const quire_pool *pool = &cache->pools[group];
    if (!pool->is_loose) {
      const int32_t *table = quire_record_table(cache, record, group);
      const int32_t first = record->indexed / pool->block_size;
      for (int32_t i = 0; i < pool->per_unit; ++i) {
        if (pool->owner[table[first + i]] != QUIRE_NONE) {
          return false;
        }
      }
    }
  }
  return true;
}

/* The entry gets the sequence's whole blocks of the unit, in place of those that it has. */
static void own_blocks(quire_cache *cache, const quire_record *record, int32_t entry) {
  for (int32_t group = 0; group < cache->group_count; ++group) {
    quire_pool *pool = &cache->pools[group];
    const int32_t *table = quire_record_table(cache, record, group);
    const int32_t first = record->indexed / pool->block_size;
    for (int32_t i = 0; i < pool->per_unit; ++i) {
      const bool is_whole =
          (int64_t)(first + i) * pool->block_size >= quire_record_first_row(cache, record, group);
      if (is_whole && pool->owner[table[first + i]] == QUIRE_NONE) {
        const int32_t old = quire_pool_items(pool, entry)[i];
        if (old != QUIRE_NONE) {
          quire_pool_disown(cache, pool, old);
        }
        quire_pool_own(cache, pool, table[first + i], entry, i);
      }
    }
  }
}

/*
 * The unit is known. If nobody uses the entry's blocks, the sequence's own replace them, and theirs
 * are free: a text that is computed again takes no second place. If somebody does, both keep
 * theirs.
 */
static bool follow(quire_cache *cache, const quire_record *record, int32_t entry) {
  if (quire_index_is_listed(cache, entry) && may_own(cache, record)) {
    quire_index_pin(cache, entry);
    own_blocks(cache, record, entry);
    return true;
  }
  if (!may_pin(cache, entry)) {
    return false;
  }
  quire_index_pin(cache, entry);
  return true;
}

/* The tail is one unit: moves the cursor below it, to an entry that may be new. */
static void index_unit(quire_cache *cache, quire_record *record, const int32_t *tokens) {
  int32_t entry = quire_index_find_child(cache, record->cursor, tokens);
  bool is_there = entry != QUIRE_NONE;
  if (is_there) {
    is_there = follow(cache, record, entry);
  } else if (may_own(cache, record)) {
    entry = quire_index_add_child(cache, record->cursor, tokens);
    is_there = entry != QUIRE_NONE;
    if (is_there) {
      own_blocks(cache, record, entry);
    }
  }
  if (is_there) {
    record->cursor = entry;
    record->indexed += cache->unit;
  } else {
    record->is_indexing = false;
  }
}

void quire_record_index(quire_cache *cache, quire_record *record, const int32_t *tokens,
                        int32_t count) {
  if (count > 0 && tokens == NULL) {
    record->is_indexing = false;
  }
  if (tokens == NULL) {
    return;
  }
  int32_t *tail = quire_record_tail(cache, record);
  int32_t held = record->is_indexing ? record->committed - record->indexed : 0;
  for (int32_t done = 0; record->is_indexing && done < count;) {
    const int32_t wanted = cache->unit - held;
    const int32_t taken = wanted < count - done ? wanted : count - done;
    memcpy(tail + held, tokens + done, (size_t)taken * sizeof *tail);
    held += taken;
    done += taken;
    if (held == cache->unit) {
      index_unit(cache, record, tail);
      held = 0;
    }
  }
}
