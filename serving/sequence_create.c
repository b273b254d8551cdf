/* Sequences begin, fork and end; what the index holds of a prompt is taken over. */
#include <string.h>

#include "cache_object.h"

/* The deepest entry from which a sequence can go on. */
typedef struct prefix_match {
  int32_t root;  /* NONE: the key is unknown */
  int32_t entry; /* NONE if root is */
  int32_t units;
} prefix_match;

/* First block of a pool that a match of `units` takes; of states, only the last. */
static int32_t first_block(const quire_cache *cache, const quire_pool *pool, int32_t units) {
  if (pool == cache->states) {
    return units > 0 ? units - 1 : 0;
  }
  return quire_pool_first_visible(pool, (int64_t)units * cache->unit) / pool->block_size;
}

/* Length of the run of blocks that are there, which ended before this entry, at its end. */
static int32_t extend_run(const quire_pool *pool, int32_t entry, int32_t run) {
  const int32_t *items = quire_pool_items(pool, entry);
  for (int32_t i = 0; i < pool->per_unit; ++i) {
    run = items[i] != QUIRE_NONE ? run + 1 : 0;
  }
  return run;
}

static prefix_match match(const quire_cache *cache, const quire_prefix_key *key,
                          const int32_t *tokens, int64_t count) {
  prefix_match found = {QUIRE_NONE, QUIRE_NONE, 0};
  found.root = key != NULL ? quire_index_find_root(cache, key) : QUIRE_NONE;
  found.entry = found.root;
  int32_t runs[QUIRE_POOL_LIMIT] = {0};
  int32_t at = found.root;
  for (int32_t depth = 1; at != QUIRE_NONE && (int64_t)depth * cache->unit <= count; ++depth) {
    at = quire_index_find_child(cache, at, tokens + (int64_t)(depth - 1) * cache->unit);
    if (at == QUIRE_NONE) {
      break;
    }
    bool is_usable = true;
    for (int32_t i = 0; i < cache->pool_count; ++i) {
      const quire_pool *pool = &cache->pools[i];
      if (pool->is_loose) {
        runs[i] = extend_run(pool, at, runs[i]);
        is_usable =
            is_usable && runs[i] >= depth * pool->per_unit - first_block(cache, pool, depth);
      }
    }
    if (is_usable) {
      found.entry = at;
      found.units = depth;
    }
  }
  return found;
}

/* Calls visit(user, block, item) for all that a match takes of a pool, from the last to the first.
 */
typedef void match_visit(void *user, int32_t block, int32_t entry, int32_t item);

static void visit_match(const quire_cache *cache, const quire_pool *pool, const prefix_match *found,
                        match_visit *visit, void *user) {
  const int32_t first = first_block(cache, pool, found->units);
  int32_t entry = found->entry;
  for (int32_t unit = found->units; unit > 0 && unit * pool->per_unit > first; --unit) {
    const int32_t begin = (unit - 1) * pool->per_unit;
    for (int32_t i = pool->per_unit; i-- > 0 && begin + i >= first;) {
      visit(user, begin + i, entry, quire_pool_items(pool, entry)[i]);
    }
    entry = cache->index.entries[entry].parent;
  }
}

typedef struct match_user {
  quire_cache *cache;
  quire_pool *pool;
  int32_t *table;
  int32_t cost;
} match_user;

static void count_idle(void *user, int32_t block, int32_t entry, int32_t item) {
  (void)block;
  match_user *of = user;
  const bool may_go = of->pool->is_loose || quire_index_is_listed(of->cache, entry);
  of->cost += may_go && of->pool->holders[item] == 1;
}

static void hold_item(void *user, int32_t block, int32_t entry, int32_t item) {
  (void)entry;
  match_user *of = user;
  quire_pool_hold(of->cache, of->pool, item);
  of->table[block] = item;
}

/* Taking over idle items must leave enough for those who were promised some. */
static quire_status check_cost(quire_cache *cache, const prefix_match *found, quire_error *error) {
  for (int32_t i = 0; i < cache->pool_count; ++i) {
    quire_pool *pool = &cache->pools[i];
    match_user of = {cache, pool, NULL, 0};
    visit_match(cache, pool, found, count_idle, &of);
    if (of.cost > 0 && of.cost > quire_pool_available(pool)) {
      return quire_fail_exhausted(cache, pool, of.cost, quire_pool_available(pool), error);
    }
  }
  return QUIRE_OK;
}

static void take_over(quire_cache *cache, quire_record *record, const prefix_match *found) {
  for (int32_t group = 0; group < cache->group_count; ++group) {
    match_user of = {cache, &cache->pools[group], quire_record_table(cache, record, group), 0};
    record->first_live[group] = first_block(cache, of.pool, found->units);
    for (int32_t i = 0; i < record->first_live[group]; ++i) {
      of.table[i] = QUIRE_NONE;
    }
    visit_match(cache, of.pool, found, hold_item, &of);
  }
  if (cache->states != NULL && found->units > 0) {
    record->state = quire_pool_items(cache->states, found->entry)[0];
    quire_pool_hold(cache, cache->states, record->state);
  }
  record->length = found->units * cache->unit;
  record->committed = record->length;
  record->matched = record->length;
  record->indexed = record->length;
}

static quire_status check_prefix(const quire_cache *cache, const int32_t *tokens, int64_t count,
                                 quire_error *error) {
  if (cache == NULL) {
    return quire_serving_fail(error, QUIRE_BAD_REQUEST, NULL, "cache", "is NULL");
  }
  if (count < 0 || (count > 0 && tokens == NULL)) {
    return quire_serving_fail(error, QUIRE_BAD_REQUEST, NULL, "tokens", "%lld tokens%s",
                              (long long)count, count < 0 ? "" : " at NULL");
  }
  if (count > cache->length_limit) {
    return quire_serving_fail(error, QUIRE_LIMIT, "SV-4", "tokens",
                              "a prefix of %lld tokens, a sequence has at most %ld",
                              (long long)count, (long)cache->length_limit);
  }
  return QUIRE_OK;
}

static quire_status check_room(const quire_cache *cache, quire_error *error) {
  if (cache->live_count == cache->sequence_limit) {
    return quire_serving_fail(error, QUIRE_LIMIT, "SV-4", "sequence", "%ld are live, the limit",
                              (long)cache->live_count);
  }
  return QUIRE_OK;
}

quire_status quire_cache_match(const quire_cache *cache, const quire_prefix_key *key,
                               const int32_t *tokens, int64_t count, int64_t *matched,
                               quire_error *error) {
  QUIRE_SERVING_TRY(check_prefix(cache, tokens, count, error));
  if (matched == NULL) {
    return quire_serving_fail(error, QUIRE_BAD_REQUEST, NULL, "matched", "is NULL");
  }
  *matched = (int64_t)match(cache, key, tokens, count).units * cache->unit;
  return QUIRE_OK;
}

quire_status quire_sequence_create(quire_cache *cache, const quire_prefix_key *key,
                                   const int32_t *tokens, int64_t count, quire_sequence *sequence,
                                   int64_t *matched, quire_error *error) {
  QUIRE_SERVING_TRY(check_prefix(cache, tokens, count, error));
  if (sequence == NULL) {
    return quire_serving_fail(error, QUIRE_BAD_REQUEST, NULL, "sequence", "is NULL");
  }
  QUIRE_SERVING_TRY(check_room(cache, error));
  const prefix_match found = match(cache, key, tokens, count);
  QUIRE_SERVING_TRY(check_cost(cache, &found, error));

  quire_record *record = quire_record_take(cache);
  take_over(cache, record, &found);
  if (key != NULL) {
    if (found.root != QUIRE_NONE) {
      record->cursor = found.entry;
      quire_index_pin_path(cache, found.entry);
    } else {
      record->cursor = quire_index_add_root(cache, key);
    }
    record->is_indexing = record->cursor != QUIRE_NONE;
    cache->asked_tokens += (uint64_t)count;
    cache->matched_tokens += (uint64_t)record->matched;
  }
  *sequence = quire_record_handle(cache, record);
  if (matched != NULL) {
    *matched = record->matched;
  }
  return QUIRE_OK;
}

/* A promise holds although the last block now has to be copied before the next token. */
static bool needs_more(const quire_cache *cache, const quire_record *parent, int32_t group) {
  const quire_pool *pool = &cache->pools[group];
  const int32_t *table = quire_record_table(cache, parent, group);
  return parent->reserved[group] > 0 && parent->length % pool->block_size != 0 &&
         pool->holders[table[parent->length / pool->block_size]] == 1;
}

static quire_status check_fork(const quire_cache *cache, const quire_record *parent,
                               quire_error *error) {
  if (parent->length != parent->committed) {
    return quire_serving_fail(error, QUIRE_BAD_REQUEST, "SV-7", "parent",
                              "%ld tokens, of which %ld are committed", (long)parent->length,
                              (long)parent->committed);
  }
  QUIRE_SERVING_TRY(check_room(cache, error));
  for (int32_t group = 0; group < cache->group_count; ++group) {
    const quire_pool *pool = &cache->pools[group];
    if (needs_more(cache, parent, group) && quire_pool_available(pool) < 1) {
      return quire_fail_exhausted(cache, pool, 1, quire_pool_available(pool), error);
    }
  }
  return QUIRE_OK;
}

quire_status quire_sequence_fork(quire_cache *cache, quire_sequence parent, quire_sequence *child,
                                 quire_error *error) {
  quire_record *from = NULL;
  QUIRE_SERVING_TRY(quire_record_find(cache, parent, &from, error));
  if (child == NULL) {
    return quire_serving_fail(error, QUIRE_BAD_REQUEST, NULL, "child", "is NULL");
  }
  QUIRE_SERVING_TRY(check_fork(cache, from, error));
  quire_record *to = quire_record_take(cache);
  const uint32_t generation = to->generation;
  *to = *from;
  to->generation = generation;
  to->step_tokens = 0;
  to->step_drafts = 0;
  to->write_count = 0;
  to->is_replay = false;
  for (int32_t group = 0; group < cache->group_count; ++group) {
    quire_pool *pool = &cache->pools[group];
    if (needs_more(cache, from, group)) {
      quire_record_set_reserved(cache, from, group, from->reserved[group] + 1);
    }
    to->reserved[group] = 0;
    const int32_t *source = quire_record_table(cache, from, group);
    int32_t *table = quire_record_table(cache, to, group);
    const int32_t blocks = quire_pool_blocks(pool, from->length);
    memcpy(table, source, (size_t)blocks * sizeof *table);
    for (int32_t i = from->first_live[group]; i < blocks; ++i) {
      quire_pool_hold(cache, pool, table[i]);
    }
  }
  if (to->state != QUIRE_NONE) {
    quire_pool_hold(cache, cache->states, to->state);
  }
  quire_index_pin_path(cache, to->cursor);
  memcpy(quire_record_tail(cache, to), quire_record_tail(cache, from),
         (size_t)cache->unit * sizeof(int32_t));
  *child = quire_record_handle(cache, to);
  return QUIRE_OK;
}

quire_status quire_sequence_free(quire_cache *cache, quire_sequence sequence, quire_error *error) {
  quire_record *record = NULL;
  QUIRE_SERVING_TRY(quire_record_find(cache, sequence, &record, error));
  quire_record_release(cache, record);
  return QUIRE_OK;
}
