/* Going back. */
#include <string.h>

#include "cache_object.h"

/* The entry after which the sequence has exactly `length` tokens, or NONE. */
static int32_t entry_at(const quire_cache *cache, const quire_record *record, int32_t length) {
  if (length > record->indexed || length % cache->unit != 0 || record->cursor == QUIRE_NONE) {
    return QUIRE_NONE;
  }
  int32_t entry = record->cursor;
  for (int32_t depth = record->indexed; depth > length; depth -= cache->unit) {
    entry = cache->index.entries[entry].parent;
  }
  return entry;
}

/* Slot of the state after `length` tokens, fewer than committed; NONE: zeros, at the beginning. */
static bool find_state(const quire_cache *cache, const quire_record *record, int32_t length,
                       int32_t *slot) {
  *slot = QUIRE_NONE;
  if (cache->states == NULL || length == 0) {
    return true;
  }
  const int32_t entry = entry_at(cache, record, length);
  if (entry != QUIRE_NONE) {
    *slot = quire_pool_items(cache->states, entry)[0];
  }
  return *slot != QUIRE_NONE;
}

/* A group whose window has given up rows that would be seen again; NONE: there is none. */
static int32_t slid_group(const quire_cache *cache, const quire_record *record, int32_t length) {
  for (int32_t group = 0; group < cache->group_count; ++group) {
    const quire_pool *pool = &cache->pools[group];
    if (length > 0 &&
        quire_record_first_row(cache, record, group) > quire_pool_first_visible(pool, length)) {
      return group;
    }
  }
  return QUIRE_NONE;
}

/* A group in which `length` ends inside a block with other holders. */
static int32_t shared_group(const quire_cache *cache, const quire_record *record, int32_t length) {
  for (int32_t group = 0; group < cache->group_count; ++group) {
    const quire_pool *pool = &cache->pools[group];
    const int32_t *table = quire_record_table(cache, record, group);
    if (length % pool->block_size != 0 && pool->holders[table[length / pool->block_size]] > 1) {
      return group;
    }
  }
  return QUIRE_NONE;
}

static quire_status check_truncate(const quire_cache *cache, const quire_record *record,
                                   int64_t length, uint32_t flags, quire_error *error) {
  if ((flags & ~(uint32_t)QUIRE_TRUNCATE_COPY) != 0) {
    return quire_serving_fail(error, QUIRE_BAD_REQUEST, "SV-5", "flags", "%lx are unknown",
                              (unsigned long)flags);
  }
  if (length < 0 || length > record->length) {
    return quire_serving_fail(error, QUIRE_BAD_VALUE, "SV-5", "length",
                              "is %lld, the sequence has %ld tokens", (long long)length,
                              (long)record->length);
  }
  if (length >= record->committed) {
    return QUIRE_OK;
  }
  const int32_t end = (int32_t)length;
  const int32_t slid = slid_group(cache, record, end);
  if (slid != QUIRE_NONE) {
    return quire_serving_fail(error, QUIRE_BAD_VALUE, "SV-5", "length",
                              "is %lld, group %ld has given up blocks before %ld",
                              (long long)length, (long)slid, (long)record->first_live[slid]);
  }
  int32_t slot;
  if (!find_state(cache, record, end, &slot)) {
    return quire_serving_fail(error, QUIRE_BAD_VALUE, "SV-5", "length",
                              "is %lld, no state is kept there", (long long)length);
  }
  const int32_t shared = shared_group(cache, record, end);
  if (shared != QUIRE_NONE && (flags & QUIRE_TRUNCATE_COPY) == 0) {
    return quire_serving_fail(error, QUIRE_BAD_VALUE, "SV-5", "length",
                              "%lld lies inside a shared block of group %ld", (long long)length,
                              (long)shared);
  }
  return QUIRE_OK;
}

/* The cursor climbs to the last whole unit; what is left of the next one becomes the tail. */
static void climb(quire_cache *cache, quire_record *record, int32_t length) {
  while (record->indexed > length) {
    const int32_t entry = record->cursor;
    record->indexed -= cache->unit;
    record->is_indexing = true;
    if (record->indexed < length) {
      memcpy(quire_record_tail(cache, record), quire_index_tokens(cache, entry),
             (size_t)(length - record->indexed) * sizeof(int32_t));
    }
    record->cursor = cache->index.entries[entry].parent;
    quire_index_unpin(cache, entry);
  }
  record->is_indexing =
      record->is_indexing || (record->indexed == length && record->cursor != QUIRE_NONE);
}

quire_status quire_sequence_truncate(quire_cache *cache, quire_sequence sequence, int64_t length,
                                     uint32_t flags, quire_error *error) {
  quire_record *record = NULL;
  QUIRE_SERVING_TRY(quire_record_find(cache, sequence, &record, error));
  QUIRE_SERVING_TRY(check_truncate(cache, record, length, flags, error));
  const int32_t end = (int32_t)length;
  quire_record_drop_step(cache, record);
  if (end < record->committed) {
    int32_t slot;
    (void)find_state(cache, record, end, &slot);
    if (cache->states != NULL && slot != record->state) {
      if (slot != QUIRE_NONE) {
        quire_pool_hold(cache, cache->states, slot);
      }
      if (record->state != QUIRE_NONE) {
        quire_pool_drop(cache, cache->states, record->state);
      }
      record->state = slot;
    }
    quire_record_cut(cache, record, end);
    climb(cache, record, end);
    record->committed = end;
    record->matched = record->matched < end ? record->matched : end;
  } else {
    quire_record_cut(cache, record, end);
  }
  return QUIRE_OK;
}

quire_status quire_sequence_rollback_point(const quire_cache *cache, quire_sequence sequence,
                                           int64_t length, int64_t *point, quire_error *error) {
  quire_record *record = NULL;
  QUIRE_SERVING_TRY(quire_record_find(cache, sequence, &record, error));
  if (point == NULL || length < 0) {
    return quire_serving_fail(error, QUIRE_BAD_REQUEST, "SV-5", "length", "is %lld%s",
                              (long long)length, point == NULL ? ", point is NULL" : "");
  }
  int32_t at = length < record->length ? (int32_t)length : record->length;
  int32_t slot;
  if (at < record->committed) {
    if (cache->states != NULL) {
      at = at < record->indexed ? at / cache->unit * cache->unit : record->indexed;
    }
    while (at > 0 && !find_state(cache, record, at, &slot)) {
      at -= cache->unit;
    }
    if (slid_group(cache, record, at) != QUIRE_NONE) {
      at = 0;
    }
  }
  *point = at;
  return QUIRE_OK;
}
