/* Sizes and memory of a cache: everything is taken here. */
#include <string.h>

#include "cache_object.h"
#include "serving_hash.h"

void quire_cache_options_init(quire_cache_options *options) {
  if (options != NULL) {
    memset(options, 0, sizeof *options);
    options->struct_size = sizeof *options;
    options->sequence_limit = 256;
  }
}

static quire_status bad_option(quire_error *error, const char *name, int64_t value,
                               const char *rule) {
  return quire_serving_fail(error, QUIRE_BAD_VALUE, "SV-1", name, "is %lld, it must be %s",
                            (long long)value, rule);
}

static quire_status check_group(const quire_cache_group *group, size_t number, quire_error *error) {
  if (group->block_count < 1 || group->block_size < 1 || group->window < 0) {
    return quire_serving_fail(
        error, QUIRE_BAD_VALUE, "SV-1", "groups",
        "group %zu: block_count %lld and block_size %lld must be positive, window %lld not "
        "negative",
        number, (long long)group->block_count, (long long)group->block_size,
        (long long)group->window);
  }
  /* Slots and positions are int32 in the operators' inputs. */
  if (group->block_size > INT32_MAX || group->block_count > INT32_MAX / group->block_size) {
    return quire_serving_fail(error, QUIRE_LIMIT, "SV-1", "groups",
                              "group %zu: %lld blocks of %lld, slots are 32-bit numbers", number,
                              (long long)group->block_count, (long long)group->block_size);
  }
  return QUIRE_OK;
}

/* The largest block size, of which every other must be a divisor; without groups, the distance of
 * checkpoints. */
static quire_status find_unit(const quire_cache_options *options, int64_t *unit,
                              quire_error *error) {
  *unit = 1;
  for (size_t i = 0; i < options->group_count; ++i) {
    QUIRE_SERVING_TRY(check_group(&options->groups[i], i, error));
    const int64_t size = options->groups[i].block_size;
    *unit = size > *unit ? size : *unit;
  }
  for (size_t i = 0; i < options->group_count; ++i) {
    if (*unit % options->groups[i].block_size != 0) {
      return quire_serving_fail(error, QUIRE_BAD_VALUE, "SV-1", "groups",
                                "group %zu: block_size %lld does not divide %lld, the largest", i,
                                (long long)options->groups[i].block_size, (long long)*unit);
    }
  }
  if (options->group_count == 0 && options->checkpoint_tokens > 0) {
    *unit = options->checkpoint_tokens;
  }
  return QUIRE_OK;
}

static quire_status check_states(const quire_cache_options *options, int64_t unit,
                                 quire_error *error) {
  if (options->state_slots < 0 || options->state_slots > INT32_MAX) {
    return bad_option(error, "state_slots", options->state_slots, "0 or a 32-bit number");
  }
  if (options->state_window < 0 || options->state_window > QUIRE_CACHE_MAX_STATE_WINDOW) {
    return bad_option(error, "state_window", options->state_window, "from 0 to 8");
  }
  if (options->checkpoint_tokens < 0 || options->checkpoint_tokens > INT32_MAX ||
      options->checkpoint_tokens % unit != 0) {
    return bad_option(error, "checkpoint_tokens", options->checkpoint_tokens,
                      "a multiple of the largest block size");
  }
  if (options->state_slots == 0 && (options->state_window > 0 || options->checkpoint_tokens > 0)) {
    return bad_option(error, "state_slots", 0, "positive where there is a window or a checkpoint");
  }
  return QUIRE_OK;
}

/* By default a sequence may be as long as the smallest group without window. */
static quire_status find_length(const quire_cache_options *options, int64_t *length,
                                quire_error *error) {
  int64_t most = INT32_MAX;
  bool is_bounded = options->group_count == 0;
  for (size_t i = 0; i < options->group_count; ++i) {
    const quire_cache_group *group = &options->groups[i];
    if (group->window == 0) {
      const int64_t tokens = group->block_count * group->block_size;
      most = tokens < most ? tokens : most;
      is_bounded = true;
    }
  }
  *length = options->length_limit == 0 ? most : options->length_limit;
  if (*length < 0 || *length > INT32_MAX || (options->length_limit == 0 && !is_bounded)) {
    return bad_option(error, "length_limit", options->length_limit,
                      "a 32-bit number, and given where every group has a window");
  }
  return QUIRE_OK;
}

static quire_status check_options(const quire_cache_options *options, int64_t *unit,
                                  int64_t *length, quire_error *error) {
  if (options == NULL || options->struct_size != sizeof *options ||
      (options->groups == NULL && options->group_count > 0)) {
    return quire_serving_fail(error, QUIRE_BAD_REQUEST, NULL, "options",
                              "NULL, groups are NULL, or struct_size is not %zu", sizeof *options);
  }
  if (options->group_count > QUIRE_CACHE_MAX_GROUPS) {
    return bad_option(error, "group_count", (int64_t)options->group_count, "at most 8");
  }
  if (options->group_count == 0 && options->state_slots == 0) {
    return bad_option(error, "group_count", 0, "positive, or state_slots");
  }
  if (options->sequence_limit < 1 || options->sequence_limit > INT32_MAX) {
    return bad_option(error, "sequence_limit", options->sequence_limit, "from 1 to 2^31-1");
  }
  if (options->rollback_tokens < 0 || options->rollback_tokens > INT32_MAX) {
    return bad_option(error, "rollback_tokens", options->rollback_tokens, "not negative");
  }
  QUIRE_SERVING_TRY(find_unit(options, unit, error));
  QUIRE_SERVING_TRY(check_states(options, *unit, error));
  return find_length(options, length, error);
}

/* An array that lives as long as the cache; *total grows by its bytes. */
static bool add_array(quire_cache *cache, size_t count, size_t size, void *array, uint64_t *total) {
  void *memory = quire_serving_allocate(&cache->allocator, count, size);
  if (memory == NULL) {
    return false;
  }
  cache->arrays[cache->array_count++] = (quire_owned_array){memory, count, size};
  memcpy(array, &memory, sizeof memory); /* whatever kind of pointer it is */
  *total += (uint64_t)count * size;
  return true;
}

static bool add_pool(quire_cache *cache, quire_pool *pool, size_t entries) {
  const size_t count = (size_t)pool->count;
  uint64_t *total = &cache->metadata_bytes;
  pool->per_unit = cache->unit / pool->block_size;
  size_t items;
  if (!quire_serving_multiply(entries, (size_t)pool->per_unit, &items) ||
      !add_array(cache, count, sizeof *pool->holders, &pool->holders, total) ||
      !add_array(cache, count, sizeof *pool->owner, &pool->owner, total) ||
      !add_array(cache, items, sizeof *pool->entry_items, &pool->entry_items, total) ||
      (pool->is_loose && !add_array(cache, count, sizeof *pool->links, &pool->links, total))) {
    return false;
  }
  for (int32_t i = 0; i < pool->count; ++i) {
    pool->holders[i] = (uint32_t)(i + 1 < pool->count ? i + 1 : QUIRE_NONE);
    pool->owner[i] = QUIRE_NONE;
  }
  pool->first_free = 0;
  pool->free_count = pool->count;
  pool->first_idle = QUIRE_NONE;
  pool->last_idle = QUIRE_NONE;
  return true;
}

/* Entries for as many units as any pool can hold, and some roots. */
static int32_t entries_for(const quire_cache *cache) {
  int64_t most = 0;
  for (int32_t i = 0; i < cache->pool_count; ++i) {
    const quire_pool *pool = &cache->pools[i];
    const int64_t units = (int64_t)pool->count * pool->block_size / cache->unit;
    most = units > most ? units : most;
  }
  most += most / 16 + 1;
  return (int32_t)(most < INT32_MAX ? most : INT32_MAX);
}

static bool add_index(quire_cache *cache) {
  quire_prefix_index *index = &cache->index;
  const size_t key = sizeof(quire_prefix_key);
  const size_t tokens = (size_t)cache->unit * sizeof(int32_t);
  const size_t count = (size_t)index->entry_count;
  index->token_stride = tokens > key ? tokens : key;
  if (!add_array(cache, count, sizeof *index->entries, &index->entries, &cache->metadata_bytes) ||
      !add_array(cache, count, sizeof *index->buckets, &index->buckets, &cache->metadata_bytes) ||
      !add_array(cache, count, index->token_stride, &index->tokens, &cache->token_bytes)) {
    return false;
  }
  for (int32_t i = 0; i < index->entry_count; ++i) {
    index->entries[i] =
        (quire_entry){.next_in_bucket = i + 1 < index->entry_count ? i + 1 : QUIRE_NONE,
                      .links = {QUIRE_UNLISTED, QUIRE_NONE}};
    index->buckets[i] = QUIRE_NONE;
  }
  index->first_listed = QUIRE_NONE;
  index->last_listed = QUIRE_NONE;
  return true;
}

static bool add_sequences(quire_cache *cache) {
  const size_t count = (size_t)cache->sequence_limit;
  uint64_t *total = &cache->sequence_bytes;
  if (!add_array(cache, count, sizeof *cache->records, &cache->records, total) ||
      !add_array(cache, count, (size_t)cache->unit * sizeof(int32_t), &cache->tails, total) ||
      !add_array(cache, (size_t)cache->copy_limit, sizeof *cache->copies, &cache->copies, total)) {
    return false;
  }
  for (int32_t group = 0; group < cache->group_count; ++group) {
    const quire_pool *pool = &cache->pools[group];
    cache->columns[group] = quire_pool_blocks(pool, cache->length_limit);
    if (!add_array(cache, count, (size_t)cache->columns[group] * sizeof(int32_t),
                   &cache->tables[group], total)) {
      return false;
    }
  }
  memset(cache->records, 0, count * sizeof *cache->records);
  for (int32_t i = 0; i < cache->sequence_limit; ++i) {
    cache->records[i].next_free = i + 1 < cache->sequence_limit ? i + 1 : QUIRE_NONE;
  }
  return true;
}

static bool add_memory(quire_cache *cache) {
  cache->index.entry_count = entries_for(cache);
  for (int32_t i = 0; i < cache->pool_count; ++i) {
    if (!add_pool(cache, &cache->pools[i], (size_t)cache->index.entry_count)) {
      return false;
    }
  }
  return add_index(cache) && add_sequences(cache);
}

static void set_pools(quire_cache *cache, const quire_cache_options *options) {
  cache->group_count = (int32_t)options->group_count;
  cache->pool_count = cache->group_count;
  for (int32_t i = 0; i < cache->group_count; ++i) {
    const quire_cache_group *group = &options->groups[i];
    quire_pool *pool = &cache->pools[i];
    pool->count = (int32_t)group->block_count;
    pool->block_size = (int32_t)group->block_size;
    pool->window = (int32_t)(group->window < INT32_MAX ? group->window : INT32_MAX);
    pool->is_loose = group->window > 0;
  }
  if (options->state_slots > 0) {
    cache->states = &cache->pools[cache->pool_count++];
    cache->states->count = (int32_t)options->state_slots;
    cache->states->block_size = cache->unit;
    cache->states->is_loose = true;
  }
}

static void set_options(quire_cache *cache, const quire_cache_options *options) {
  cache->state_window = (int32_t)options->state_window;
  cache->checkpoint_tokens = (int32_t)options->checkpoint_tokens;
  cache->rollback_tokens = (int32_t)options->rollback_tokens;
  cache->sequence_limit = (int32_t)options->sequence_limit;
  const int64_t groups = options->group_count > 0 ? (int64_t)options->group_count : 1;
  const int64_t copies = options->sequence_limit * groups;
  cache->copy_limit = (int32_t)(copies < INT32_MAX ? copies : INT32_MAX);
  cache->hash_seed = options->hash_seed;
  cache->hash = options->hash != NULL ? options->hash : quire_serving_hash;
  cache->hash_user = options->hash_user;
}

quire_status quire_cache_create(const quire_cache_options *options, quire_cache **cache,
                                quire_error *error) {
  if (cache == NULL) {
    return quire_serving_fail(error, QUIRE_BAD_REQUEST, NULL, "cache", "is NULL");
  }
  *cache = NULL;
  int64_t unit = 1;
  int64_t length = 0;
  QUIRE_SERVING_TRY(check_options(options, &unit, &length, error));
  const quire_allocator *allocator =
      options->allocator != NULL ? options->allocator : &quire_serving_allocator;
  quire_cache *made = quire_serving_allocate(allocator, 1, sizeof *made);
  if (made == NULL) {
    return quire_serving_fail_memory(error, sizeof *made);
  }
  memset(made, 0, sizeof *made);
  made->allocator = *allocator;
  made->unit = (int32_t)unit;
  made->length_limit = (int32_t)length;
  set_options(made, options);
  set_pools(made, options);
  if (!add_memory(made)) {
    quire_cache_release(made);
    return quire_serving_fail(error, QUIRE_OUT_OF_MEMORY, NULL, NULL,
                              "no memory for %lld sequences of %lld tokens, or for the blocks",
                              (long long)options->sequence_limit, (long long)length);
  }
  *cache = made;
  return QUIRE_OK;
}

void quire_cache_release(quire_cache *cache) {
  if (cache != NULL) {
    const quire_allocator allocator = cache->allocator;
    for (size_t i = 0; i < cache->array_count; ++i) {
      const quire_owned_array *array = &cache->arrays[i];
      quire_serving_free(&allocator, array->memory, array->count, array->size);
    }
    quire_serving_free(&allocator, cache, 1, sizeof *cache);
  }
}
