#include "call_cache.h"

#include <pthread.h>
#include <string.h>

#include "alloc.h"
#include "context_object.h"
#include "error.h"

enum {
  DEFAULT_PLANS = 256,
  MOST_PLANS = 1 << 20,
  IDLE_WORKSPACES = 64, /* more than that come back only after a burst of as many threads */
  NONE = -1
};

/* A plan that is kept. Entries are linked by index: in their bucket, and by time of use. */
typedef struct cache_entry {
  uint64_t hash;
  uint64_t *words;
  size_t word_count;
  quire_plan *plan;
  int32_t in_bucket;
  int32_t newer;
  int32_t older;
} cache_entry;

struct quire_call_cache {
  quire_device *device;
  const quire_allocator *allocator;
  quire_call_binding bindings[QUIRE_CALL_KIND_COUNT];
  pthread_mutex_t mutex; /* guards everything below */
  cache_entry *entries;
  size_t capacity;
  size_t count;
  int32_t *buckets;
  size_t bucket_count; /* a power of two */
  int32_t newest;
  int32_t oldest;
  quire_workspace *idle[IDLE_WORKSPACES];
  size_t idle_count;
};

/* ---- the links between entries; the mutex is held ---- */

static int32_t *bucket_of(quire_call_cache *cache, uint64_t hash) {
  return &cache->buckets[hash & (cache->bucket_count - 1)];
}

static void unlink_use(quire_call_cache *cache, int32_t index) {
  cache_entry *entry = &cache->entries[index];
  if (entry->newer == NONE) {
    cache->newest = entry->older;
  } else {
    cache->entries[entry->newer].older = entry->older;
  }
  if (entry->older == NONE) {
    cache->oldest = entry->newer;
  } else {
    cache->entries[entry->older].newer = entry->newer;
  }
}

static void link_newest(quire_call_cache *cache, int32_t index) {
  cache_entry *entry = &cache->entries[index];
  entry->newer = NONE;
  entry->older = cache->newest;
  if (cache->newest == NONE) {
    cache->oldest = index;
  } else {
    cache->entries[cache->newest].newer = index;
  }
  cache->newest = index;
}

static void unlink_bucket(quire_call_cache *cache, int32_t index) {
  int32_t *link = bucket_of(cache, cache->entries[index].hash);
  while (*link != index) {
    link = &cache->entries[*link].in_bucket;
  }
  *link = cache->entries[index].in_bucket;
}

static cache_entry *look_up(quire_call_cache *cache, const quire_call_key *key) {
  for (int32_t i = *bucket_of(cache, key->hash); i != NONE; i = cache->entries[i].in_bucket) {
    cache_entry *entry = &cache->entries[i];
    if (entry->hash == key->hash && entry->word_count == key->count &&
        memcmp(entry->words, key->words, key->count * sizeof key->words[0]) == 0) {
      if (cache->newest != i) {
        unlink_use(cache, i);
        link_newest(cache, i);
      }
      return entry;
    }
  }
  return NULL;
}

static quire_plan *share(quire_plan *plan) {
  atomic_fetch_add_explicit(&plan->references, 1, memory_order_relaxed);
  return plan;
}

static quire_workspace *take_idle(quire_call_cache *cache, const quire_plan *plan) {
  if (cache->idle_count == 0) {
    return NULL;
  }
  size_t chosen = cache->idle_count - 1; /* the one used last is the likeliest in the caches */
  for (size_t i = cache->idle_count; plan != NULL && i-- > 0;) {
    if (cache->idle[i]->plan_serial == plan->serial) {
      chosen = i;
      break;
    }
  }
  quire_workspace *workspace = cache->idle[chosen];
  cache->idle[chosen] = cache->idle[--cache->idle_count];
  return workspace;
}

/* ---- plans ---- */

const quire_call_binding *quire_call_cache_binding(const quire_call_cache *cache,
                                                   quire_call_kind kind) {
  return &cache->bindings[kind];
}

quire_plan *quire_call_cache_find(quire_call_cache *cache, const quire_call_key *key,
                                  quire_workspace **workspace) {
  quire_plan *plan = NULL;
  pthread_mutex_lock(&cache->mutex);
  cache_entry *entry = look_up(cache, key);
  if (entry != NULL) {
    plan = share(entry->plan);
    if (*workspace == NULL) {
      *workspace = take_idle(cache, plan);
    }
  }
  pthread_mutex_unlock(&cache->mutex);
  return plan;
}

/* Makes room for an entry at its place by time; *evicted gets what had it before. Mutex held. */
static int32_t claim_entry(quire_call_cache *cache, cache_entry *evicted) {
  if (cache->count < cache->capacity) {
    return (int32_t)cache->count++;
  }
  int32_t index = cache->oldest;
  unlink_bucket(cache, index);
  unlink_use(cache, index);
  *evicted = cache->entries[index];
  return index;
}

quire_plan *quire_call_cache_insert(quire_call_cache *cache, const quire_call_key *key,
                                    quire_plan *plan) {
  size_t bytes = key->count * sizeof key->words[0];
  uint64_t *words = quire_alloc(cache->allocator, bytes, QUIRE_ALLOC_ALIGNMENT);
  if (words == NULL) {
    return plan;
  }
  memcpy(words, key->words, bytes);
  quire_plan_disown(plan); /* before another thread can see it */
  cache_entry evicted = {0};
  quire_plan *other = NULL;
  pthread_mutex_lock(&cache->mutex);
  cache_entry *entry = look_up(cache, key);
  if (entry != NULL) {
    other = share(entry->plan);
  } else {
    int32_t index = claim_entry(cache, &evicted);
    entry = &cache->entries[index];
    entry->hash = key->hash;
    entry->words = words;
    entry->word_count = key->count;
    entry->plan = share(plan);
    int32_t *bucket = bucket_of(cache, key->hash);
    entry->in_bucket = *bucket;
    *bucket = index;
    link_newest(cache, index);
  }
  pthread_mutex_unlock(&cache->mutex);
  if (other != NULL) {
    quire_dealloc(cache->allocator, words, bytes, QUIRE_ALLOC_ALIGNMENT);
    quire_plan_release(plan);
    return other;
  }
  quire_dealloc(cache->allocator, evicted.words, evicted.word_count * sizeof evicted.words[0],
                QUIRE_ALLOC_ALIGNMENT);
  quire_plan_release(evicted.plan);
  return plan;
}

/* ---- workspaces ---- */

quire_status quire_call_cache_workspace(quire_call_cache *cache, quire_workspace **workspace,
                                        quire_error *error) {
  pthread_mutex_lock(&cache->mutex);
  *workspace = take_idle(cache, NULL);
  pthread_mutex_unlock(&cache->mutex);
  if (*workspace == NULL) {
    QUIRE_TRY(quire_workspace_create(cache->device, NULL, workspace, error));
    quire_workspace_disown(*workspace);
  }
  return QUIRE_OK;
}

void quire_call_cache_give_back(quire_call_cache *cache, quire_workspace *workspace) {
  if (workspace == NULL) {
    return;
  }
  pthread_mutex_lock(&cache->mutex);
  bool kept = cache->idle_count < IDLE_WORKSPACES;
  if (kept) {
    cache->idle[cache->idle_count++] = workspace;
  }
  pthread_mutex_unlock(&cache->mutex);
  if (!kept) {
    quire_workspace_release(workspace);
  }
}

/* ---- life ---- */

static void free_arrays(quire_call_cache *cache) {
  const quire_allocator *allocator = cache->allocator;
  quire_dealloc(allocator, cache->entries, cache->capacity * sizeof cache->entries[0],
                QUIRE_ALLOC_ALIGNMENT);
  quire_dealloc(allocator, cache->buckets, cache->bucket_count * sizeof cache->buckets[0],
                QUIRE_ALLOC_ALIGNMENT);
  quire_dealloc(allocator, cache, sizeof *cache, QUIRE_ALLOC_ALIGNMENT);
}

/* Called when the device's last reference is gone. */
static void destroy(quire_device *device) {
  quire_call_cache *cache = device->calls;
  device->calls = NULL;
  for (size_t i = 0; i < cache->count; i++) {
    cache_entry *entry = &cache->entries[i];
    quire_dealloc(cache->allocator, entry->words, entry->word_count * sizeof entry->words[0],
                  QUIRE_ALLOC_ALIGNMENT);
    quire_plan_release(entry->plan);
  }
  for (size_t i = 0; i < cache->idle_count; i++) {
    quire_workspace_release(cache->idle[i]);
  }
  pthread_mutex_destroy(&cache->mutex);
  free_arrays(cache);
}

static quire_status bind_operators(quire_call_cache *cache, const quire_context *context,
                                   quire_error *error) {
  for (int kind = 0; kind < QUIRE_CALL_KIND_COUNT; kind++) {
    const char *name = quire_call_describe((quire_call_kind)kind)->op;
    const quire_operator *op = quire_context_find_operator(context, name);
    if (!quire_call_bind((quire_call_kind)kind, op, &cache->bindings[kind])) {
      return quire_fail(error, QUIRE_INTERNAL, NULL, name, "%zu slots, more than a typed call has",
                        quire_operator_slot_count(op));
    }
  }
  return QUIRE_OK;
}

static quire_status allocate_arrays(quire_call_cache *cache, quire_error *error) {
  cache->bucket_count = 1;
  while (cache->bucket_count < 2 * cache->capacity) {
    cache->bucket_count *= 2;
  }
  cache->entries = quire_alloc_array(cache->allocator, cache->capacity, sizeof cache->entries[0]);
  cache->buckets =
      quire_alloc_array(cache->allocator, cache->bucket_count, sizeof cache->buckets[0]);
  if (cache->entries == NULL || cache->buckets == NULL) {
    return quire_fail_memory(error);
  }
  for (size_t i = 0; i < cache->bucket_count; i++) {
    cache->buckets[i] = NONE;
  }
  cache->newest = NONE;
  cache->oldest = NONE;
  return QUIRE_OK;
}

quire_status quire_call_cache_attach(quire_context *context, quire_device *device,
                                     quire_error *error) {
  size_t capacity = device->plan_cache_size == 0 ? DEFAULT_PLANS : device->plan_cache_size;
  if (capacity > MOST_PLANS) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, "plan_cache_size", "is %zu, at most %d",
                      capacity, (int)MOST_PLANS);
  }
  quire_call_cache *cache = quire_alloc_array(&context->allocator, 1, sizeof *cache);
  if (cache == NULL) {
    return quire_fail_memory(error);
  }
  cache->device = device;
  cache->allocator = &context->allocator;
  cache->capacity = capacity;
  quire_status status = bind_operators(cache, context, error);
  if (status == QUIRE_OK) {
    status = allocate_arrays(cache, error);
  }
  if (status == QUIRE_OK && pthread_mutex_init(&cache->mutex, NULL) != 0) {
    status = quire_fail(error, QUIRE_DEVICE, NULL, NULL, "a mutex could not be made");
  }
  if (status != QUIRE_OK) {
    free_arrays(cache);
    return status;
  }
  device->calls = cache;
  device->calls_destroy = destroy;
  return QUIRE_OK;
}
