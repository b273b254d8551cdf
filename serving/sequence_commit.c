/* The end of a step: tokens become part of the sequence, drafts are refused, windows slide. */
#include "cache_object.h"

/* The state after the first `tokens` >= 1 of the step, of which `accepted` are; NONE: not kept. */
static int32_t state_after(const quire_record *record, int32_t tokens, int32_t accepted) {
  if (record->is_replay) {
    return tokens == accepted ? record->writes[0] : QUIRE_NONE;
  }
  const int32_t first = record->step_tokens - record->write_count;
  return tokens > first && tokens <= record->step_tokens ? record->writes[tokens - 1 - first]
                                                         : QUIRE_NONE;
}

/* Whether the sequence can go on after so many tokens of the step. */
static bool is_kept(const quire_record *record, int32_t accepted) {
  if (accepted == 0) {
    return record->is_replay || record->write_count == 0 || record->writes[0] != record->state;
  }
  return state_after(record, accepted, accepted) != QUIRE_NONE;
}

static quire_status check_commit(const quire_cache *cache, const quire_record *record,
                                 int64_t count, quire_error *error) {
  const bool is_step = record->step_tokens > 0;
  const int32_t limit = is_step ? record->step_tokens : record->length - record->committed;
  if (count < 0 || count > limit) {
    return quire_serving_fail(error, QUIRE_BAD_VALUE, "SV-6", "count",
                              "is %lld, the step has %ld tokens", (long long)count, (long)limit);
  }
  if (cache->states == NULL) {
    return QUIRE_OK;
  }
  if (!is_step && count > 0) {
    return quire_serving_fail(error, QUIRE_BAD_REQUEST, "SV-6", "sequence",
                              "no step was built, so no state was written");
  }
  if (!is_kept(record, (int32_t)count)) {
    return quire_serving_fail(error, QUIRE_BAD_VALUE, "SV-6", "count",
                              "is %lld; of %ld tokens with %ld drafts, no state is kept there",
                              (long long)count, (long)record->step_tokens,
                              (long)record->step_drafts);
  }
  return QUIRE_OK;
}

/* The last checkpoint that the step passed and whose state was kept goes to the index. */
static void keep_checkpoint(quire_cache *cache, const quire_record *record, int32_t count) {
  const int32_t every = cache->checkpoint_tokens;
  const int32_t end = record->committed + count;
  const int32_t at = every > 0 ? end / every * every : 0;
  if (at <= record->committed || at > record->indexed) {
    return;
  }
  const int32_t slot = state_after(record, at - record->committed, count);
  int32_t entry = record->cursor;
  for (int32_t depth = record->indexed; depth > at; depth -= cache->unit) {
    entry = cache->index.entries[entry].parent;
  }
  if (slot != QUIRE_NONE && cache->states->owner[slot] == QUIRE_NONE &&
      quire_pool_items(cache->states, entry)[0] == QUIRE_NONE) {
    quire_pool_own(cache, cache->states, slot, entry, 0);
  }
}

/* The state after the accepted tokens is the one to read next; the others go back. */
static void settle_state(quire_cache *cache, quire_record *record, int32_t count) {
  const int32_t next = count > 0 ? state_after(record, count, count) : record->state;
  bool is_old_written = false;
  for (int32_t i = 0; i < record->write_count; ++i) {
    is_old_written = is_old_written || record->writes[i] == record->state;
    if (record->writes[i] != next) {
      quire_pool_drop(cache, cache->states, record->writes[i]);
    }
  }
  if (record->state != QUIRE_NONE && record->state != next && !is_old_written) {
    quire_pool_drop(cache, cache->states, record->state);
  }
  record->state = next;
  record->write_count = 0;
  record->is_replay = false;
}

/* Blocks that no layer of a window group can see any more, and no rollback may need. */
static void slide(quire_cache *cache, quire_record *record) {
  for (int32_t group = 0; group < cache->group_count; ++group) {
    quire_pool *pool = &cache->pools[group];
    const int64_t kept = (int64_t)record->committed - cache->rollback_tokens;
    const int32_t first = quire_pool_first_visible(pool, kept) / pool->block_size;
    int32_t *table = quire_record_table(cache, record, group);
    while (record->first_live[group] < first) {
      int32_t *block = &table[record->first_live[group]++];
      quire_pool_drop(cache, pool, *block);
      *block = QUIRE_NONE;
    }
  }
}

quire_status quire_sequence_commit(quire_cache *cache, quire_sequence sequence,
                                   const int32_t *tokens, int64_t count, quire_error *error) {
  quire_record *record = NULL;
  QUIRE_SERVING_TRY(quire_record_find(cache, sequence, &record, error));
  QUIRE_SERVING_TRY(check_commit(cache, record, count, error));
  const int32_t accepted = (int32_t)count;
  const bool is_refused = accepted < record->step_tokens;
  quire_record_index(cache, record, tokens, accepted);
  if (cache->states != NULL) {
    keep_checkpoint(cache, record, accepted);
    settle_state(cache, record, accepted);
  }
  record->committed += accepted;
  record->step_tokens = 0;
  record->step_drafts = 0;
  if (is_refused) {
    quire_record_cut(cache, record, record->committed);
  }
  slide(cache, record);
  return QUIRE_OK;
}
