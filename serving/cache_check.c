/* Whether the books balance: everything that is counted as it changes is counted again. */
#include "cache_object.h"

typedef struct auditor {
  const quire_cache *cache;
  quire_error *error;
} auditor;

static quire_status wrong(const auditor *audit, const char *what, int64_t where, int64_t is,
                          int64_t should_be) {
  return quire_serving_fail(audit->error, QUIRE_INTERNAL, NULL, what, "%lld is %lld, counted %lld",
                            (long long)where, (long long)is, (long long)should_be);
}

#define EXPECT(what, where, is, should_be)                                     \
  do {                                                                         \
    if ((int64_t)(is) != (int64_t)(should_be)) {                               \
      return wrong(audit, what, (where), (int64_t)(is), (int64_t)(should_be)); \
    }                                                                          \
  } while (0)

static bool is_free_entry(const quire_cache *cache, int32_t entry) {
  /* A free entry has no pins and is in no list. */
  return cache->index.entries[entry].pins == 0 && !quire_index_is_listed(cache, entry);
}

/* Holders of an item among live sequences: tables of its group, or states. */
static int64_t count_sequence_holders(const quire_cache *cache, int32_t pool_number, int32_t item) {
  int64_t count = 0;
  for (int32_t i = 0; i < cache->sequence_limit; ++i) {
    const quire_record *record = &cache->records[i];
    if (!record->is_live) {
      continue;
    }
    if (pool_number < cache->group_count) {
      const int32_t *table = quire_record_table(cache, record, pool_number);
      const int32_t blocks = quire_pool_blocks(&cache->pools[pool_number], record->length);
      for (int32_t j = 0; j < blocks; ++j) {
        count += table[j] == item;
      }
    } else {
      count += record->state == item;
      for (int32_t j = 0; j < record->write_count; ++j) {
        count += record->writes[j] == item && record->writes[j] != record->state;
      }
    }
  }
  return count;
}

static quire_status check_item(const auditor *audit, int32_t pool_number, int32_t item,
                               bool is_free) {
  const quire_cache *cache = audit->cache;
  const quire_pool *pool = &cache->pools[pool_number];
  const int32_t owner = pool->owner[item];
  int64_t holders = count_sequence_holders(cache, pool_number, item);
  EXPECT("free item's owner", item, is_free && owner != QUIRE_NONE, 0);
  if (owner != QUIRE_NONE) {
    int64_t found = 0;
    for (int32_t i = 0; i < pool->per_unit; ++i) {
      found += quire_pool_items(pool, owner)[i] == item;
    }
    EXPECT("places of item in its entry", item, found, 1);
    EXPECT("item's entry is free", item, is_free_entry(cache, owner), 0);
    ++holders;
  }
  EXPECT("holders of item", item, is_free ? 0 : (int64_t)pool->holders[item], holders);
  return QUIRE_OK;
}

static bool is_idle(const quire_cache *cache, const quire_pool *pool, int32_t item) {
  return pool->owner[item] != QUIRE_NONE && pool->holders[item] == 1 &&
         (pool->is_loose || quire_index_is_listed(cache, pool->owner[item]));
}

/* Slow, but an auditor needs no memory of its own. */
static bool is_in_free_list(const quire_pool *pool, int32_t item) {
  int32_t at = pool->first_free;
  for (int32_t i = 0; i < pool->free_count && at != QUIRE_NONE; ++i) {
    if (at == item) {
      return true;
    }
    at = (int32_t)pool->holders[at];
  }
  return false;
}

static quire_status check_pool(const auditor *audit, int32_t pool_number) {
  const quire_cache *cache = audit->cache;
  const quire_pool *pool = &cache->pools[pool_number];
  int64_t free_count = 0;
  int64_t idle = 0;
  int64_t shared = 0;
  for (int32_t item = 0; item < pool->count; ++item) {
    const bool is_free = is_in_free_list(pool, item);
    QUIRE_SERVING_TRY(check_item(audit, pool_number, item, is_free));
    free_count += is_free;
    idle += !is_free && is_idle(cache, pool, item);
    shared += !is_free && pool->holders[item] > 1;
  }
  EXPECT("free items of pool", pool_number, pool->free_count, free_count);
  EXPECT("idle items of pool", pool_number, pool->idle_count, idle);
  EXPECT("shared items of pool", pool_number, pool->shared_count, shared);
  int64_t listed = 0;
  for (int32_t at = pool->first_idle; pool->is_loose && at != QUIRE_NONE && listed <= idle;
       at = pool->links[at].next) {
    ++listed;
  }
  EXPECT("listed idle items of pool", pool_number, listed, pool->is_loose ? idle : 0);
  int64_t reserved = 0;
  for (int32_t i = 0; i < cache->sequence_limit && pool_number < cache->group_count; ++i) {
    reserved += cache->records[i].is_live ? cache->records[i].reserved[pool_number] : 0;
  }
  EXPECT("reserved items of pool", pool_number, pool->reserved, reserved);
  EXPECT("broken promises of pool", pool_number, quire_pool_available(pool) < 0, 0);
  return QUIRE_OK;
}

/* Pins: cursors at an entry or below it. */
static int64_t count_pins(const quire_cache *cache, int32_t entry) {
  int64_t pins = 0;
  for (int32_t i = 0; i < cache->sequence_limit; ++i) {
    int32_t at = cache->records[i].is_live ? cache->records[i].cursor : QUIRE_NONE;
    while (at != QUIRE_NONE && at != entry) {
      at = cache->index.entries[at].parent;
    }
    pins += at != QUIRE_NONE;
  }
  return pins;
}

static quire_status check_index(const auditor *audit) {
  const quire_cache *cache = audit->cache;
  const quire_prefix_index *index = &cache->index;
  int64_t used = 0;
  int64_t listed = 0;
  int64_t hashed = 0;
  for (int32_t at = 0; at < index->entry_count; ++at) {
    const quire_entry *entry = &index->entries[at];
    for (int32_t in = index->buckets[at]; in != QUIRE_NONE;
         in = index->entries[in].next_in_bucket) {
      ++hashed;
    }
    if (is_free_entry(cache, at)) {
      continue;
    }
    ++used;
    listed += quire_index_is_listed(cache, at);
    EXPECT("pins of entry", at, entry->pins, count_pins(cache, at));
    EXPECT("entry in the list", at, quire_index_is_listed(cache, at), entry->pins == 0);
    if (entry->parent != QUIRE_NONE) {
      EXPECT("parent is free of entry", at, is_free_entry(cache, entry->parent), 0);
    }
  }
  EXPECT("used entries", 0, index->used_count, used);
  EXPECT("hashed entries", 0, hashed, used);
  for (int32_t at = index->first_listed; at != QUIRE_NONE; at = index->entries[at].links.next) {
    --listed;
  }
  EXPECT("length of the list less", 0, listed, 0);
  return QUIRE_OK;
}

/* No entry is listed before one below it: the first never has children. */
static quire_status check_order(const auditor *audit) {
  const quire_prefix_index *index = &audit->cache->index;
  for (int32_t at = index->first_listed; at != QUIRE_NONE; at = index->entries[at].links.next) {
    for (int32_t later = index->entries[at].links.next; later != QUIRE_NONE;
         later = index->entries[later].links.next) {
      EXPECT("child listed after entry", at, index->entries[later].parent == at, 0);
    }
  }
  return QUIRE_OK;
}

static quire_status check_records(const auditor *audit) {
  const quire_cache *cache = audit->cache;
  int64_t live = 0;
  for (int32_t i = 0; i < cache->sequence_limit; ++i) {
    const quire_record *record = &cache->records[i];
    if (!record->is_live) {
      continue;
    }
    ++live;
    EXPECT("lengths of record", i,
           record->matched <= record->committed && record->indexed <= record->committed &&
               record->committed + record->step_tokens <= record->length,
           1);
    for (int32_t group = 0; group < cache->group_count; ++group) {
      const int32_t *table = quire_record_table(cache, record, group);
      const int32_t blocks = quire_pool_blocks(&cache->pools[group], record->length);
      for (int32_t j = 0; j < blocks; ++j) {
        EXPECT("slid blocks of record", i, table[j] == QUIRE_NONE, j < record->first_live[group]);
      }
    }
  }
  EXPECT("live sequences", 0, cache->live_count, live);
  return QUIRE_OK;
}

int quire_cache_check(const quire_cache *cache, quire_error *error) {
  if (cache == NULL) {
    (void)quire_serving_fail(error, QUIRE_BAD_REQUEST, NULL, "cache", "is NULL");
    return 0;
  }
  const auditor audit = {cache, error};
  for (int32_t i = 0; i < cache->pool_count; ++i) {
    if (check_pool(&audit, i) != QUIRE_OK) {
      return 0;
    }
  }
  return check_index(&audit) == QUIRE_OK && check_order(&audit) == QUIRE_OK &&
         check_records(&audit) == QUIRE_OK;
}
