/* The index arrays of a step. */
#include <string.h>

#include "cache_object.h"

void quire_batch_init(quire_batch *batch) {
  if (batch != NULL) {
    memset(batch, 0, sizeof *batch);
    batch->struct_size = sizeof *batch;
  }
}

/* One call of quire_batch_build(). */
typedef struct builder {
  quire_cache *cache;
  const quire_batch_entry *entries;
  size_t entry_count;
  quire_batch *batch;
  int64_t real_rows, rows, sequences;
  quire_error *error;
} builder;

static quire_record *record_of(const builder *build, size_t entry) {
  return &build->cache->records[build->entries[entry].sequence & UINT32_MAX];
}

static quire_status refuse(const builder *build, size_t entry, const char *what, int64_t got,
                           int64_t limit) {
  return quire_serving_fail(build->error, QUIRE_BAD_VALUE, "SV-8", "entries",
                            "entry %zu: %s is %lld, at most %lld fit", entry, what, (long long)got,
                            (long long)limit);
}

static quire_status check_entry(const builder *build, size_t at) {
  const quire_cache *cache = build->cache;
  const quire_batch_entry *entry = &build->entries[at];
  quire_record *record = NULL;
  QUIRE_SERVING_TRY(quire_record_find(cache, entry->sequence, &record, build->error));
  if (record->step_mark == cache->build_mark) {
    return quire_serving_fail(build->error, QUIRE_BAD_VALUE, "SV-8", "entries",
                              "entry %zu: the sequence is in the batch already", at);
  }
  record->step_mark = cache->build_mark;
  const int64_t pending = record->length - record->committed;
  if (entry->new_tokens < 0 || entry->new_tokens > pending) {
    return refuse(build, at, "new_tokens", entry->new_tokens, pending);
  }
  const int64_t window = cache->state_window > 1 ? cache->state_window - 1 : 0;
  int64_t drafts = entry->new_tokens;
  if (cache->states != NULL && (entry->flags & QUIRE_STEP_REPLAY) == 0) {
    const int64_t certain = entry->new_tokens > 0 ? entry->new_tokens - 1 : 0;
    drafts = certain < window ? certain : window;
  }
  if (entry->draft_tokens < 0 || entry->draft_tokens > drafts) {
    return refuse(build, at, "draft_tokens", entry->draft_tokens, drafts);
  }
  if ((entry->flags & ~(uint32_t)(QUIRE_STEP_KEEP_STATE | QUIRE_STEP_REPLAY)) != 0) {
    return refuse(build, at, "flags", entry->flags, QUIRE_STEP_KEEP_STATE | QUIRE_STEP_REPLAY);
  }
  if (build->batch->prefix_tokens > record->committed) {
    return refuse(build, at, "prefix_tokens", build->batch->prefix_tokens, record->committed);
  }
  return QUIRE_OK;
}

static quire_status too_small(const builder *build, const char *what, int64_t have, int64_t need) {
  return quire_serving_fail(build->error, QUIRE_LIMIT, "SV-8", what, "%lld, %lld are needed",
                            (long long)have, (long long)need);
}

/* Blocks of the prefix that all tables leave out. */
static int32_t prefix_blocks(const builder *build, int32_t group) {
  return (int32_t)(build->batch->prefix_tokens / build->cache->pools[group].block_size);
}

static quire_status check_group(const builder *build, int32_t group) {
  const quire_cache *cache = build->cache;
  const quire_pool *pool = &cache->pools[group];
  const quire_batch_group *arrays = &build->batch->groups[group];
  const int32_t skipped = prefix_blocks(build, group);
  const int32_t *first = NULL;
  for (size_t i = 0; i < build->entry_count; ++i) {
    const quire_record *record = record_of(build, i);
    const int32_t *table = quire_record_table(cache, record, group);
    const int64_t end = record->committed + build->entries[i].new_tokens;
    const int64_t blocks = quire_pool_blocks(pool, (int32_t)end) - skipped;
    if (arrays->block_table != NULL && blocks > arrays->columns) {
      return too_small(build, "columns", arrays->columns, blocks);
    }
    first = first == NULL ? table : first;
    if (skipped > 0 && memcmp(first, table, (size_t)skipped * sizeof *table) != 0) {
      return quire_serving_fail(build->error, QUIRE_BAD_VALUE, "SV-8", "prefix_tokens",
                                "entry %zu does not share the first %ld blocks of group %ld", i,
                                (long)skipped, (long)group);
    }
  }
  const int64_t padding = build->rows - build->real_rows;
  const int64_t padding_blocks = padding / pool->block_size + (padding % pool->block_size != 0);
  if (arrays->block_table != NULL && padding_blocks > arrays->columns) {
    return too_small(build, "columns", arrays->columns, padding_blocks);
  }
  return QUIRE_OK;
}

static quire_status check_prefix(const builder *build) {
  const quire_cache *cache = build->cache;
  const int64_t prefix = build->batch->prefix_tokens;
  if (prefix < 0 || prefix % cache->unit != 0) {
    return quire_serving_fail(build->error, QUIRE_BAD_VALUE, "SV-8", "prefix_tokens",
                              "is %lld, not a multiple of %ld", (long long)prefix,
                              (long)cache->unit);
  }
  for (int32_t group = 0; group < cache->group_count && prefix > 0; ++group) {
    if (cache->pools[group].is_loose) {
      return quire_serving_fail(build->error, QUIRE_BAD_VALUE, "SV-8", "prefix_tokens",
                                "group %ld has a window", (long)group);
    }
  }
  return QUIRE_OK;
}

static quire_status check_sizes(builder *build) {
  const quire_batch *batch = build->batch;
  build->real_rows = 0;
  for (size_t i = 0; i < build->entry_count; ++i) {
    build->real_rows += build->entries[i].new_tokens;
  }
  build->rows = batch->padded_rows == 0 ? build->real_rows : batch->padded_rows;
  build->sequences =
      batch->padded_sequences == 0 ? (int64_t)build->entry_count : batch->padded_sequences;
  if (build->rows < build->real_rows) {
    return too_small(build, "padded_rows", build->rows, build->real_rows);
  }
  const int64_t needed = (int64_t)build->entry_count + (build->rows > build->real_rows);
  if (build->sequences < needed) {
    return too_small(build, batch->padded_sequences == 0 ? "sequences" : "padded_sequences",
                     build->sequences, needed);
  }
  if (build->rows > batch->row_capacity) {
    return too_small(build, "row_capacity", batch->row_capacity, build->rows);
  }
  if (build->rows > INT32_MAX) {
    return too_small(build, "rows", INT32_MAX, build->rows);
  }
  if (build->sequences > batch->sequence_capacity) {
    return too_small(build, "sequence_capacity", batch->sequence_capacity, build->sequences);
  }
  return QUIRE_OK;
}

static quire_status check(builder *build) {
  quire_cache *cache = build->cache;
  const quire_batch *batch = build->batch;
  if (cache->copy_count > 0) {
    return quire_serving_fail(build->error, QUIRE_BAD_REQUEST, "SV-9", "copies",
                              "%ld wait to be carried out", (long)cache->copy_count);
  }
  if (batch->group_count > (size_t)cache->group_count) {
    return quire_serving_fail(build->error, QUIRE_BAD_VALUE, "SV-8", "group_count",
                              "is %zu, the cache has %ld", batch->group_count,
                              (long)cache->group_count);
  }
  QUIRE_SERVING_TRY(check_prefix(build));
  ++cache->build_mark;
  for (size_t i = 0; i < build->entry_count; ++i) {
    QUIRE_SERVING_TRY(check_entry(build, i));
  }
  QUIRE_SERVING_TRY(check_sizes(build));
  for (int32_t group = 0; (size_t)group < batch->group_count; ++group) {
    QUIRE_SERVING_TRY(check_group(build, group));
  }
  return QUIRE_OK;
}

/* ---- states ---- */

/* Slots that an entry's step writes, apart from the one that it may overwrite. */
static int32_t slots_needed(const builder *build, size_t at, bool may_steal, bool *is_in_place) {
  const quire_batch_entry *entry = &build->entries[at];
  const quire_record *record = record_of(build, at);
  const quire_pool *pool = build->cache->states;
  *is_in_place = false;
  if (entry->new_tokens == 0) {
    return 0;
  }
  if (record->state != QUIRE_NONE && (entry->flags & QUIRE_STEP_KEEP_STATE) == 0) {
    const uint32_t holders = pool->holders[record->state];
    const bool is_checkpoint = pool->owner[record->state] != QUIRE_NONE;
    *is_in_place = holders == 1 || (holders == 2 && is_checkpoint && may_steal);
  }
  const int32_t kept =
      (entry->flags & QUIRE_STEP_REPLAY) != 0 ? 1 : (int32_t)entry->draft_tokens + 1;
  return kept - (*is_in_place ? 1 : 0);
}

/*
 * A state that the index shares is left alone, and the step writes to another slot. If slots do not
 * suffice, steps take such checkpoints back instead.
 */
static quire_status plan_states(const builder *build, bool *must_steal) {
  const quire_pool *pool = build->cache->states;
  int64_t need = 0;
  int64_t available = quire_pool_available(pool);
  for (size_t i = 0; i < build->entry_count; ++i) {
    const quire_record *record = record_of(build, i);
    for (int32_t j = 0; j < record->write_count; ++j) {
      available += record->writes[j] != record->state;
    }
  }
  for (int turn = 0; turn < 2; ++turn) {
    *must_steal = turn == 1;
    need = 0;
    for (size_t i = 0; i < build->entry_count; ++i) {
      bool is_in_place;
      need += slots_needed(build, i, *must_steal, &is_in_place);
    }
    if (need <= available) {
      return QUIRE_OK;
    }
  }
  return quire_fail_exhausted(build->cache, pool, need, available, build->error);
}

static void take_states(const builder *build, size_t at, bool may_steal) {
  quire_cache *cache = build->cache;
  quire_record *record = record_of(build, at);
  bool is_in_place;
  const int32_t fresh = slots_needed(build, at, may_steal, &is_in_place);
  if (is_in_place) {
    if (cache->states->holders[record->state] == 2) {
      quire_pool_disown(cache, cache->states, record->state);
    }
    record->writes[record->write_count++] = record->state;
  }
  for (int32_t i = 0; i < fresh; ++i) {
    record->writes[record->write_count++] = quire_pool_take(cache, cache->states);
  }
}

static quire_status begin_steps(const builder *build) {
  quire_cache *cache = build->cache;
  bool must_steal = false;
  if (cache->states != NULL) {
    QUIRE_SERVING_TRY(plan_states(build, &must_steal));
  }
  for (size_t i = 0; i < build->entry_count; ++i) {
    quire_record_drop_step(cache, record_of(build, i));
  }
  for (size_t i = 0; i < build->entry_count; ++i) {
    if (cache->states != NULL) {
      take_states(build, i, must_steal);
    }
    record_of(build, i)->step_tokens = (int32_t)build->entries[i].new_tokens;
    record_of(build, i)->step_drafts = (int32_t)build->entries[i].draft_tokens;
    record_of(build, i)->is_replay =
        record_of(build, i)->write_count > 0 && (build->entries[i].flags & QUIRE_STEP_REPLAY) != 0;
  }
  return QUIRE_OK;
}

/* ---- arrays ---- */

static void fill(int32_t *values, int64_t count, int32_t value) {
  for (int64_t i = 0; i < count; ++i) {
    values[i] = value;
  }
}

static void write_states(const builder *build, int64_t at, const quire_record *record) {
  const quire_batch *batch = build->batch;
  const int32_t window = build->cache->state_window;
  if (batch->state_read != NULL) {
    batch->state_read[at] = record != NULL ? record->state : QUIRE_NONE;
  }
  if (batch->state_replay != NULL) {
    batch->state_replay[at] = record != NULL && record->is_replay ? record->writes[0] : QUIRE_NONE;
  }
  if (batch->state_write != NULL) {
    const int32_t width = window > 0 ? window : 1;
    int32_t *row = batch->state_write + at * width;
    fill(row, width, QUIRE_NONE);
    const int32_t count = record != NULL && !record->is_replay ? record->write_count : 0;
    for (int32_t i = 0; i < count; ++i) {
      row[width - count + i] = record->writes[i];
    }
  }
}

static void write_lengths(const builder *build) {
  const quire_batch *batch = build->batch;
  int64_t row = 0;
  for (int64_t i = 0; i < build->sequences; ++i) {
    const bool is_real = (size_t)i < build->entry_count;
    const quire_record *record = is_real ? record_of(build, (size_t)i) : NULL;
    const int64_t past = is_real ? record->committed - batch->prefix_tokens : 0;
    int64_t count = is_real ? record->step_tokens : 0;
    if ((size_t)i == build->entry_count) {
      count = build->rows - build->real_rows;
    }
    if (batch->cumulative_sequence_length != NULL) {
      batch->cumulative_sequence_length[i] = (int32_t)row;
      batch->cumulative_sequence_length[i + 1] = (int32_t)(row + count);
    }
    if (batch->past_seqlens != NULL) {
      batch->past_seqlens[i] = (int32_t)past;
    }
    if (batch->context_lengths != NULL) {
      batch->context_lengths[i] = is_real ? (int32_t)(past + count) : 0;
    }
    for (int64_t j = 0; j < count && batch->positions != NULL; ++j) {
      batch->positions[row + j] = is_real ? (int32_t)(record->committed + j) : 0;
    }
    write_states(build, i, record);
    row += count;
  }
  if (build->sequences == 0 && batch->cumulative_sequence_length != NULL) {
    batch->cumulative_sequence_length[0] = 0;
  }
}

static void write_table(const builder *build, int32_t group) {
  const quire_cache *cache = build->cache;
  const quire_batch_group *arrays = &build->batch->groups[group];
  const int32_t skipped = prefix_blocks(build, group);
  for (size_t i = 0; i < build->entry_count; ++i) {
    const quire_record *record = record_of(build, i);
    const int32_t *table = quire_record_table(cache, record, group) + skipped;
    const int64_t blocks =
        quire_pool_blocks(&cache->pools[group], record->committed + record->step_tokens) - skipped;
    int32_t *row = arrays->block_table + (int64_t)i * arrays->columns;
    memcpy(row, table, (size_t)blocks * sizeof *row);
    fill(row + blocks, arrays->columns - blocks, QUIRE_NONE);
  }
  const int64_t padding = build->sequences - (int64_t)build->entry_count;
  fill(arrays->block_table + (int64_t)build->entry_count * arrays->columns,
       padding * arrays->columns, arrays->padding_block);
}

static void write_slots(const builder *build, int32_t group) {
  const quire_cache *cache = build->cache;
  const int32_t size = cache->pools[group].block_size;
  int32_t *slots = build->batch->groups[group].slot_mapping;
  int64_t row = 0;
  for (size_t i = 0; i < build->entry_count; ++i) {
    const quire_record *record = record_of(build, i);
    const int32_t *table = quire_record_table(cache, record, group);
    int32_t column = record->committed / size;
    int32_t offset = record->committed % size;
    for (int32_t j = 0; j < record->step_tokens; ++j) {
      slots[row++] = table[column] * size + offset;
      if (++offset == size) {
        offset = 0;
        ++column;
      }
    }
  }
  fill(slots + row, build->rows - row, QUIRE_NONE);
}

static void write_prefix(const builder *build, int32_t group) {
  if (build->entry_count > 0) {
    memcpy(build->batch->groups[group].prefix_table,
           quire_record_table(build->cache, record_of(build, 0), group),
           (size_t)prefix_blocks(build, group) * sizeof(int32_t));
  }
}

quire_status quire_batch_build(quire_cache *cache, const quire_batch_entry *entries,
                               size_t entry_count, quire_batch *batch, quire_error *error) {
  if (cache == NULL || batch == NULL || batch->struct_size != sizeof *batch ||
      (entries == NULL && entry_count > 0) || (batch->groups == NULL && batch->group_count > 0)) {
    return quire_serving_fail(error, QUIRE_BAD_REQUEST, NULL, "batch",
                              "cache, batch, entries or groups is NULL, or struct_size is wrong");
  }
  builder build = {.cache = cache,
                   .entries = entries,
                   .entry_count = entry_count,
                   .batch = batch,
                   .error = error};
  QUIRE_SERVING_TRY(check(&build));
  QUIRE_SERVING_TRY(begin_steps(&build));
  write_lengths(&build);
  for (int32_t group = 0; (size_t)group < batch->group_count; ++group) {
    if (batch->groups[group].block_table != NULL) {
      write_table(&build, group);
    }
    if (batch->groups[group].slot_mapping != NULL) {
      write_slots(&build, group);
    }
    if (batch->groups[group].prefix_table != NULL) {
      write_prefix(&build, group);
    }
  }
  batch->rows = build.rows;
  batch->sequences = build.sequences;
  return QUIRE_OK;
}

quire_status quire_cache_shared_prefix(const quire_cache *cache, const quire_batch_entry *entries,
                                       size_t entry_count, int64_t *tokens, quire_error *error) {
  if (cache == NULL || tokens == NULL || (entries == NULL && entry_count > 0)) {
    return quire_serving_fail(error, QUIRE_BAD_REQUEST, NULL, "entries",
                              "cache, tokens or entries is NULL");
  }
  int32_t shared = entry_count > 0 ? INT32_MAX : 0;
  const quire_record *first = NULL;
  for (size_t i = 0; i < entry_count; ++i) {
    quire_record *record = NULL;
    QUIRE_SERVING_TRY(quire_record_find(cache, entries[i].sequence, &record, error));
    first = first == NULL ? record : first;
    shared = record->committed < shared ? record->committed : shared;
    for (int32_t group = 0; group < cache->group_count; ++group) {
      const quire_pool *pool = &cache->pools[group];
      const int32_t *a = quire_record_table(cache, first, group);
      const int32_t *b = quire_record_table(cache, record, group);
      int32_t blocks = 0;
      while (blocks < shared / pool->block_size && a[blocks] == b[blocks]) {
        ++blocks;
      }
      const int32_t run = blocks * pool->block_size;
      shared = pool->is_loose ? 0 : run < shared ? run : shared;
    }
  }
  *tokens = cache->group_count > 0 ? shared / cache->unit * cache->unit : 0;
  return QUIRE_OK;
}
