/* Items of one kind: who holds them, which are free, which may be taken from the index. */
#include "cache_object.h"

int32_t quire_pool_available(const quire_pool *pool) {
  return pool->free_count + pool->idle_count - pool->reserved;
}

static void idle_append(quire_pool *pool, int32_t item) {
  pool->links[item] = (quire_links){pool->last_idle, QUIRE_NONE};
  if (pool->last_idle == QUIRE_NONE) {
    pool->first_idle = item;
  } else {
    pool->links[pool->last_idle].next = item;
  }
  pool->last_idle = item;
  ++pool->idle_count;
}

static void idle_remove(quire_pool *pool, int32_t item) {
  const quire_links links = pool->links[item];
  if (links.previous == QUIRE_NONE) {
    pool->first_idle = links.next;
  } else {
    pool->links[links.previous].next = links.next;
  }
  if (links.next == QUIRE_NONE) {
    pool->last_idle = links.previous;
  } else {
    pool->links[links.next].previous = links.previous;
  }
  pool->links[item].previous = QUIRE_UNLISTED;
  --pool->idle_count;
}

/* An owned item has just lost or is about to get its second holder. */
static void become_idle(const quire_cache *cache, quire_pool *pool, int32_t item) {
  if (pool->is_loose) {
    idle_append(pool, item);
  } else if (quire_index_is_listed(cache, pool->owner[item])) {
    ++pool->idle_count;
  }
}

static void cease_idle(const quire_cache *cache, quire_pool *pool, int32_t item) {
  if (pool->is_loose) {
    idle_remove(pool, item);
  } else if (quire_index_is_listed(cache, pool->owner[item])) {
    --pool->idle_count;
  }
}

void quire_pool_hold(quire_cache *cache, quire_pool *pool, int32_t item) {
  if (pool->holders[item]++ == 1) {
    ++pool->shared_count;
    if (pool->owner[item] != QUIRE_NONE) {
      cease_idle(cache, pool, item);
    }
  }
}

void quire_pool_drop(quire_cache *cache, quire_pool *pool, int32_t item) {
  const uint32_t holders = --pool->holders[item];
  if (holders == 1) {
    --pool->shared_count;
    if (pool->owner[item] != QUIRE_NONE) {
      become_idle(cache, pool, item);
    }
  } else if (holders == 0) {
    pool->holders[item] = (uint32_t)pool->first_free;
    pool->first_free = item;
    ++pool->free_count;
  }
}

void quire_pool_own(quire_cache *cache, quire_pool *pool, int32_t item, int32_t entry,
                    int32_t place) {
  quire_pool_hold(cache, pool, item); /* without an owner yet: never idle */
  pool->owner[item] = entry;
  quire_pool_items(pool, entry)[place] = item;
}

void quire_pool_disown(quire_cache *cache, quire_pool *pool, int32_t item) {
  if (pool->holders[item] == 1) {
    cease_idle(cache, pool, item);
  }
  int32_t *items = quire_pool_items(pool, pool->owner[item]);
  for (int32_t i = 0; i < pool->per_unit; ++i) {
    if (items[i] == item) {
      items[i] = QUIRE_NONE;
    }
  }
  pool->owner[item] = QUIRE_NONE;
  quire_pool_drop(cache, pool, item);
}

void quire_pool_count_entry(quire_pool *pool, int32_t entry, int32_t sign) {
  const int32_t *items = quire_pool_items(pool, entry);
  for (int32_t i = 0; i < pool->per_unit; ++i) {
    if (items[i] != QUIRE_NONE && pool->holders[items[i]] == 1) {
      pool->idle_count += sign;
    }
  }
}

int32_t quire_pool_take(quire_cache *cache, quire_pool *pool) {
  while (pool->free_count == 0) {
    if (pool->is_loose) {
      quire_pool_disown(cache, pool, pool->first_idle);
      ++pool->evicted;
    } else {
      quire_index_evict(cache);
    }
  }
  const int32_t item = pool->first_free;
  pool->first_free = (int32_t)pool->holders[item];
  --pool->free_count;
  pool->holders[item] = 1;
  ++pool->allocated;
  return item;
}
