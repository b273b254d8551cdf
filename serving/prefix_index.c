/* The tree of cached prefixes, its hash table, and the list of entries that may go. */
#include <string.h>

#include "cache_object.h"

/* Hashes are chained: a child's seed is its parent's hash. */
static uint32_t hash_bytes(const quire_cache *cache, const void *bytes, size_t size,
                           uint32_t parent_hash) {
  const uint64_t seed = cache->hash_seed ^ ((uint64_t)parent_hash << 32 | parent_hash);
  const uint64_t hash = cache->hash(cache->hash_user, bytes, size, seed);
  return (uint32_t)(hash ^ hash >> 32);
}

/* Multiplication instead of division; any number of buckets. */
static int32_t *bucket_of(const quire_prefix_index *index, uint32_t hash) {
  return &index->buckets[(uint64_t)hash * (uint32_t)index->entry_count >> 32];
}

static unsigned char *bytes_of(const quire_prefix_index *index, int32_t entry) {
  return index->tokens + (size_t)entry * index->token_stride;
}

const int32_t *quire_index_tokens(const quire_cache *cache, int32_t entry) {
  return (const int32_t *)(const void *)bytes_of(&cache->index, entry);
}

static int32_t find(const quire_cache *cache, int32_t parent, uint32_t hash, const void *bytes,
                    size_t size) {
  const quire_prefix_index *index = &cache->index;
  int32_t at = *bucket_of(index, hash);
  while (at != QUIRE_NONE) {
    const quire_entry *entry = &index->entries[at];
    if (entry->hash == hash && entry->parent == parent &&
        memcmp(bytes_of(index, at), bytes, size) == 0) {
      break;
    }
    at = entry->next_in_bucket;
  }
  return at;
}

static size_t unit_bytes(const quire_cache *cache) {
  return (size_t)cache->unit * sizeof(int32_t);
}

int32_t quire_index_find_root(const quire_cache *cache, const quire_prefix_key *key) {
  const uint32_t hash = hash_bytes(cache, key->words, sizeof key->words, 0);
  return find(cache, QUIRE_NONE, hash, key->words, sizeof key->words);
}

int32_t quire_index_find_child(const quire_cache *cache, int32_t parent, const int32_t *tokens) {
  const uint32_t hash =
      hash_bytes(cache, tokens, unit_bytes(cache), cache->index.entries[parent].hash);
  return find(cache, parent, hash, tokens, unit_bytes(cache));
}

static int32_t add(quire_cache *cache, int32_t parent, uint32_t hash, const void *bytes,
                   size_t size) {
  quire_prefix_index *index = &cache->index;
  if (index->first_free == QUIRE_NONE && index->first_listed != QUIRE_NONE) {
    quire_index_evict(cache); /* never the parent, which is pinned */
  }
  const int32_t at = index->first_free;
  if (at == QUIRE_NONE) {
    return QUIRE_NONE;
  }
  quire_entry *entry = &index->entries[at];
  index->first_free = entry->next_in_bucket;
  ++index->used_count;
  int32_t *bucket = bucket_of(index, hash);
  *entry = (quire_entry){.hash = hash,
                         .parent = parent,
                         .next_in_bucket = *bucket,
                         .pins = 1,
                         .links = {QUIRE_UNLISTED, QUIRE_NONE}};
  *bucket = at;
  memcpy(bytes_of(index, at), bytes, size);
  for (int32_t i = 0; i < cache->pool_count; ++i) {
    for (int32_t j = 0; j < cache->pools[i].per_unit; ++j) {
      quire_pool_items(&cache->pools[i], at)[j] = QUIRE_NONE;
    }
  }
  return at;
}

int32_t quire_index_add_root(quire_cache *cache, const quire_prefix_key *key) {
  const uint32_t hash = hash_bytes(cache, key->words, sizeof key->words, 0);
  return add(cache, QUIRE_NONE, hash, key->words, sizeof key->words);
}

int32_t quire_index_add_child(quire_cache *cache, int32_t parent, const int32_t *tokens) {
  const uint32_t hash =
      hash_bytes(cache, tokens, unit_bytes(cache), cache->index.entries[parent].hash);
  return add(cache, parent, hash, tokens, unit_bytes(cache));
}

/* What firm pools can get back changes as entries come into the list and leave it. */
static void count_entry(quire_cache *cache, int32_t at, int32_t sign) {
  for (int32_t i = 0; i < cache->pool_count; ++i) {
    if (!cache->pools[i].is_loose) {
      quire_pool_count_entry(&cache->pools[i], at, sign);
    }
  }
}

static void unlist(quire_cache *cache, int32_t at) {
  quire_prefix_index *index = &cache->index;
  const quire_links links = index->entries[at].links;
  count_entry(cache, at, -1);
  if (links.previous == QUIRE_NONE) {
    index->first_listed = links.next;
  } else {
    index->entries[links.previous].links.next = links.next;
  }
  if (links.next == QUIRE_NONE) {
    index->last_listed = links.previous;
  } else {
    index->entries[links.next].links.previous = links.previous;
  }
  index->entries[at].links.previous = QUIRE_UNLISTED;
}

void quire_index_pin(quire_cache *cache, int32_t entry) {
  if (cache->index.entries[entry].pins++ == 0) {
    unlist(cache, entry);
  }
}

void quire_index_unpin(quire_cache *cache, int32_t entry) {
  quire_prefix_index *index = &cache->index;
  if (--index->entries[entry].pins > 0) {
    return;
  }
  index->entries[entry].links = (quire_links){index->last_listed, QUIRE_NONE};
  if (index->last_listed == QUIRE_NONE) {
    index->first_listed = entry;
  } else {
    index->entries[index->last_listed].links.next = entry;
  }
  index->last_listed = entry;
  count_entry(cache, entry, 1);
}

void quire_index_pin_path(quire_cache *cache, int32_t entry) {
  for (; entry != QUIRE_NONE; entry = cache->index.entries[entry].parent) {
    quire_index_pin(cache, entry);
  }
}

void quire_index_unpin_path(quire_cache *cache, int32_t entry) {
  while (entry != QUIRE_NONE) {
    const int32_t parent = cache->index.entries[entry].parent;
    quire_index_unpin(cache, entry);
    entry = parent;
  }
}

void quire_index_evict(quire_cache *cache) {
  quire_prefix_index *index = &cache->index;
  const int32_t at = index->first_listed;
  quire_entry *entry = &index->entries[at];
  for (int32_t i = 0; i < cache->pool_count; ++i) {
    quire_pool *pool = &cache->pools[i];
    for (int32_t j = 0; j < pool->per_unit; ++j) {
      const int32_t item = quire_pool_items(pool, at)[j];
      if (item != QUIRE_NONE) {
        quire_pool_disown(cache, pool, item);
        ++pool->evicted;
      }
    }
  }
  unlist(cache, at);
  int32_t *link = bucket_of(index, entry->hash);
  while (*link != at) {
    link = &index->entries[*link].next_in_bucket;
  }
  *link = entry->next_in_bucket;
  entry->next_in_bucket = index->first_free;
  index->first_free = at;
  --index->used_count;
}
