/*
 * The serving layer under arbitrary operations with arbitrary arguments. After each one the books
 * must balance, and what was refused must have changed nothing that the statistics show.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "quire/quire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { HANDLES = 8, LONGEST = 40, COLUMNS = 10, ROWS = 64, WINDOW = 3 };

typedef struct machine {
  const uint8_t *data;
  size_t left;
  quire_cache *cache;
  quire_sequence handles[HANDLES]; /* live, freed and made up ones */
  int32_t tokens[LONGEST];
} machine;

static int take(machine *m, int count) {
  if (m->left == 0) {
    return 0;
  }
  m->left--;
  return *m->data++ % count;
}

static int64_t take_length(machine *m) {
  static const int64_t corners[] = {INT64_MIN, INT64_MAX, -1, 1 << 30, (int64_t)1 << 40};
  const int kind = take(m, 64);
  return kind < 58 ? kind % 13 : corners[kind % 5];
}

/* All zeros: every look-up is a collision. */
static uint64_t collide(void *user, const void *bytes, size_t size, uint64_t seed) {
  (void)user;
  (void)bytes;
  (void)size;
  (void)seed;
  return 0;
}

static quire_cache *create(machine *m) {
  const quire_cache_group groups[] = {{6 + take(m, 8), 4, 0}, {8 + take(m, 8), 2, 5}};
  quire_cache_options options;
  quire_cache_options_init(&options);
  options.groups = groups;
  options.group_count = (size_t)take(m, 3);
  options.sequence_limit = 5;
  options.length_limit = LONGEST;
  options.rollback_tokens = take(m, 4);
  options.state_slots = options.group_count == 0 ? 8 : take(m, 12);
  options.state_window = options.state_slots > 0 ? take(m, WINDOW + 1) : 0;
  options.checkpoint_tokens = options.state_slots > 0 ? 4 * take(m, 3) : 0;
  options.hash = take(m, 3) == 1 ? collide : NULL;
  quire_cache *cache = NULL;
  quire_cache_create(&options, &cache, NULL);
  return cache;
}

static quire_status build(machine *m) {
  static int32_t table[2][HANDLES * COLUMNS * 2], slots[2][ROWS], sums[HANDLES + 1], past[HANDLES];
  static int32_t positions[ROWS], reads[HANDLES], writes[HANDLES * WINDOW], replays[HANDLES];
  quire_batch_entry entries[3];
  const size_t count = (size_t)take(m, 4);
  for (size_t i = 0; i < count; i++) {
    entries[i] = (quire_batch_entry){m->handles[take(m, HANDLES)], take_length(m), take(m, 4),
                                     (uint32_t)take(m, 4)};
  }
  quire_batch_group groups[] = {{table[0], (int64_t)COLUMNS * 2, slots[0], NULL, -1},
                                {table[1], (int64_t)COLUMNS * 2, slots[1], NULL, -1}};
  quire_batch batch;
  quire_batch_init(&batch);
  batch.row_capacity = ROWS;
  batch.sequence_capacity = HANDLES;
  batch.padded_rows = take(m, 4) == 1 ? take_length(m) : 0;
  batch.padded_sequences = take(m, 4) == 1 ? take_length(m) : 0;
  batch.groups = groups;
  batch.group_count = (size_t)take(m, 3);
  batch.cumulative_sequence_length = sums;
  batch.past_seqlens = past;
  batch.positions = positions;
  batch.state_read = reads;
  batch.state_write = writes;
  batch.state_replay = replays;
  return quire_batch_build(m->cache, entries, count, &batch, NULL);
}

static quire_status operate(machine *m) {
  quire_sequence *handle = &m->handles[take(m, HANDLES)];
  const quire_prefix_key key = {{(uint64_t)take(m, 2), 0, 0, 0}};
  int64_t number = 0;
  size_t copies = 0;
  switch (take(m, 12)) {
    case 0:
      return quire_sequence_create(m->cache, take(m, 4) ? &key : NULL, m->tokens,
                                   take(m, LONGEST + 1), handle, &number, NULL);
    case 1:
      return quire_sequence_append(m->cache, *handle, take_length(m), NULL);
    case 2:
      return build(m);
    case 3:
      number = take_length(m);
      return number > LONGEST ? QUIRE_OK
                              : quire_sequence_commit(m->cache, *handle,
                                                      take(m, 4) ? m->tokens : NULL, number, NULL);
    case 4:
      return quire_sequence_truncate(m->cache, *handle, take_length(m), (uint32_t)take(m, 2), NULL);
    case 5:
      return quire_sequence_fork(m->cache, *handle, &m->handles[take(m, HANDLES)], NULL);
    case 6:
      return quire_sequence_free(m->cache, *handle, NULL);
    case 7:
      return quire_sequence_reserve(m->cache, *handle, take_length(m), NULL);
    case 8:
      quire_cache_copies(m->cache, &copies);
      quire_cache_copies_done(m->cache);
      return QUIRE_OK;
    case 9:
      return quire_cache_match(m->cache, &key, m->tokens, take(m, LONGEST + 1), &number, NULL);
    case 10:
      return quire_sequence_rollback_point(m->cache, *handle, take_length(m), &number, NULL);
    default:
      *handle ^= (uint64_t)take(m, 256) << (8 * take(m, 8));
      m->tokens[take(m, LONGEST)] = take(m, 3);
      return QUIRE_OK;
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  machine m = {data, size, NULL, {0}, {0}};
  m.cache = create(&m);
  while (m.cache != NULL && m.left > 0) {
    quire_cache_statistics before, after;
    quire_cache_get_statistics(m.cache, &before);
    const quire_status status = operate(&m);
    quire_cache_get_statistics(m.cache, &after);
    if (status != QUIRE_OK && memcmp(&before, &after, sizeof before) != 0) {
      abort();
    }
    if (!quire_cache_check(m.cache, NULL)) {
      abort();
    }
  }
  quire_cache_release(m.cache);
  return 0;
}
