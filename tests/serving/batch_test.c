/* The arrays of a step, and the state slots that it takes. */
#include <stdio.h>
#include <string.h>

#include "serving_fixture.h"

static const int32_t text[64] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16,
                                 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32};
static const quire_prefix_key alice = {{1, 0, 0, 0}};

enum { ROWS = 16, SEQUENCES = 6, COLUMNS = 4, WINDOW = 4 };

typedef struct arrays {
  quire_batch batch;
  quire_batch_group group;
  int32_t table[SEQUENCES * COLUMNS], slots[ROWS], cumulative[SEQUENCES + 1], past[SEQUENCES];
  int32_t contexts[SEQUENCES], positions[ROWS], reads[SEQUENCES], writes[SEQUENCES * WINDOW];
  int32_t prefix[COLUMNS], replays[SEQUENCES];
} arrays;

static void arrays_init(arrays *to) {
  memset(to, 0x77, sizeof *to);
  quire_batch_init(&to->batch);
  to->group = (quire_batch_group){to->table, COLUMNS, to->slots, to->prefix, -1};
  to->batch.row_capacity = ROWS;
  to->batch.sequence_capacity = SEQUENCES;
  to->batch.groups = &to->group;
  to->batch.group_count = 1;
  to->batch.cumulative_sequence_length = to->cumulative;
  to->batch.past_seqlens = to->past;
  to->batch.context_lengths = to->contexts;
  to->batch.positions = to->positions;
  to->batch.state_read = to->reads;
  to->batch.state_write = to->writes;
  to->batch.state_replay = to->replays;
}

static void expect(const char *what, const int32_t *got, const int32_t *want, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (got[i] != want[i]) {
      fail_msg("%s: entry %zu is %d, expected %d", what, i, got[i], want[i]);
    }
  }
}

/* Blocks are handed out in ascending order at first: all numbers are known. */
static void arrays_are_written(void **state) {
  (void)state;
  quire_cache *cache = make_cache(12, 4);
  quire_batch_entry entries[3] = {{0, 0, 0, 0}, {0, 0, 0, 0}, {0, 0, 0, 0}};
  for (int i = 0; i < 3; ++i) {
    entries[i].sequence = begin(cache, NULL, NULL, 0, 0);
  }
  grow(cache, entries[0].sequence, text, 7);                         /* blocks 0, 1 */
  MUST(quire_sequence_append(cache, entries[0].sequence, 2, error)); /* and 2 */
  MUST(quire_sequence_append(cache, entries[1].sequence, 5, error)); /* 3, 4 */
  entries[0].new_tokens = 2;
  entries[1].new_tokens = 3; /* of five: a chunk */
  arrays a;
  arrays_init(&a);
  a.batch.padded_rows = 8;
  a.batch.padded_sequences = 5;
  a.group.padding_block = 0;
  MUST(quire_batch_build(cache, entries, 3, &a.batch, error));
  assert_int_equal(a.batch.rows, 8);
  assert_int_equal(a.batch.sequences, 5);
  expect("cumulative", a.cumulative, (int32_t[]){0, 2, 5, 5, 8, 8}, 6);
  expect("past", a.past, (int32_t[]){7, 0, 0, 0, 0}, 5);
  expect("contexts", a.contexts, (int32_t[]){9, 3, 0, 0, 0}, 5);
  expect("positions", a.positions, (int32_t[]){7, 8, 0, 1, 2, 0, 0, 0}, 8);
  expect("slots", a.slots, (int32_t[]){7, 8, 12, 13, 14, -1, -1, -1}, 8);
  expect("table", a.table,
         (int32_t[]){0, 1, 2, -1, 3, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0}, 20);
  expect("reads", a.reads, (int32_t[]){-1, -1, -1, -1, -1}, 5);
  expect("writes", a.writes, (int32_t[]){-1, -1, -1, -1, -1}, 5);
  assert_int_equal(a.table[20], 0x77777777); /* nothing behind */
  assert_int_equal(a.slots[8], 0x77777777);
  quire_cache_release(cache);
}

/* PagedDecode: a padding row has length 0 and a page that does not exist. */
static void decode_rows_are_padded(void **state) {
  (void)state;
  quire_cache *cache = make_cache(12, 4);
  quire_batch_entry entry = {begin(cache, NULL, NULL, 0, 0), 1, 0, 0};
  grow(cache, entry.sequence, text, 4);
  MUST(quire_sequence_append(cache, entry.sequence, 1, error));
  arrays a;
  arrays_init(&a);
  a.batch.padded_sequences = 2;
  MUST(quire_batch_build(cache, &entry, 1, &a.batch, error));
  expect("contexts", a.contexts, (int32_t[]){5, 0}, 2);
  expect("table", a.table, (int32_t[]){0, 1, -1, -1, -1, -1, -1, -1}, 8);
  assert_int_equal(a.batch.rows, 1);
  arrays_init(&a);
  MUST(quire_batch_build(cache, NULL, 0, &a.batch, error));
  assert_int_equal(a.cumulative[0], 0);
  quire_cache_release(cache);
}

static void bad_batches_change_nothing(void **state) {
  (void)state;
  quire_cache *cache = make_cache(12, 4);
  quire_batch_entry two[2] = {{begin(cache, NULL, NULL, 0, 0), 2, 0, 0},
                              {begin(cache, NULL, NULL, 0, 0), 1, 0, 0}};
  MUST(quire_sequence_append(cache, two[0].sequence, 9, error));
  MUST(quire_sequence_append(cache, two[1].sequence, 1, error));
  arrays a;
  arrays_init(&a);
  quire_batch *batch = &a.batch;
  two[0].new_tokens = 10;
  MUST_FAIL(cache, QUIRE_BAD_VALUE, "SV-8", quire_batch_build(cache, two, 2, batch, error));
  two[0].new_tokens = -1;
  MUST_FAIL(cache, QUIRE_BAD_VALUE, "SV-8", quire_batch_build(cache, two, 2, batch, error));
  two[0].new_tokens = 2;
  two[0].draft_tokens = 3;
  MUST_FAIL(cache, QUIRE_BAD_VALUE, "SV-8", quire_batch_build(cache, two, 2, batch, error));
  two[0].draft_tokens = 0;
  const quire_batch_entry twice[2] = {two[0], two[0]};
  MUST_FAIL(cache, QUIRE_BAD_VALUE, "SV-8", quire_batch_build(cache, twice, 2, batch, error));
  batch->row_capacity = 2;
  MUST_FAIL(cache, QUIRE_LIMIT, "SV-8", quire_batch_build(cache, two, 2, batch, error));
  batch->row_capacity = ROWS;
  batch->sequence_capacity = 1;
  MUST_FAIL(cache, QUIRE_LIMIT, "SV-8", quire_batch_build(cache, two, 2, batch, error));
  batch->sequence_capacity = SEQUENCES;
  batch->padded_rows = 2;
  MUST_FAIL(cache, QUIRE_LIMIT, "SV-8", quire_batch_build(cache, two, 2, batch, error));
  batch->padded_rows = 4; /* no padding sequence to have the fourth */
  MUST_FAIL(cache, QUIRE_LIMIT, "SV-8", quire_batch_build(cache, two, 2, batch, error));
  batch->padded_sequences = 1;
  MUST_FAIL(cache, QUIRE_LIMIT, "SV-8", quire_batch_build(cache, two, 2, batch, error));
  batch->padded_sequences = 0;
  batch->padded_rows = 0;
  a.group.columns = 2;
  two[0].new_tokens = 9;
  MUST_FAIL(cache, QUIRE_LIMIT, "SV-8", quire_batch_build(cache, two, 2, batch, error));
  a.group.columns = COLUMNS;
  batch->prefix_tokens = 4;
  MUST_FAIL(cache, QUIRE_BAD_VALUE, "SV-8", quire_batch_build(cache, two, 2, batch, error));
  batch->prefix_tokens = 0;
  batch->group_count = 2;
  MUST_FAIL(cache, QUIRE_BAD_VALUE, "SV-8", quire_batch_build(cache, two, 2, batch, error));
  batch->group_count = 1;
  batch->struct_size = 3;
  MUST_FAIL(cache, QUIRE_BAD_REQUEST, "", quire_batch_build(cache, two, 2, batch, error));
  assert_int_equal(a.cumulative[0], 0x77777777); /* no array was touched */
  assert_int_equal(a.slots[0], 0x77777777);
  quire_cache_release(cache);
}

static void prefixes_are_left_out(void **state) {
  (void)state;
  quire_cache *cache = make_cache(16, 4);
  quire_batch_entry entries[3] = {{0, 1, 0, 0}, {0, 1, 0, 0}, {0, 1, 0, 0}};
  entries[0].sequence = begin(cache, &alice, NULL, 0, 0);
  grow(cache, entries[0].sequence, text, 10);
  entries[1].sequence = begin(cache, &alice, text, 9, 8);
  entries[2].sequence = begin(cache, &alice, text, 7, 4);
  int64_t tokens = 0;
  MUST(quire_cache_shared_prefix(cache, entries, 2, &tokens, error));
  assert_int_equal(tokens, 8);
  MUST(quire_cache_shared_prefix(cache, entries, 3, &tokens, error));
  assert_int_equal(tokens, 4);
  MUST(quire_cache_shared_prefix(cache, NULL, 0, &tokens, error));
  assert_int_equal(tokens, 0);
  for (int i = 0; i < 3; ++i) {
    MUST(quire_sequence_append(cache, entries[i].sequence, 1, error));
  }
  arrays a;
  arrays_init(&a);
  a.batch.prefix_tokens = 8;
  MUST_FAIL(cache, QUIRE_BAD_VALUE, "SV-8", quire_batch_build(cache, entries, 3, &a.batch, error));
  MUST(quire_batch_build(cache, entries, 2, &a.batch, error));
  expect("past", a.past, (int32_t[]){2, 0}, 2);
  expect("contexts", a.contexts, (int32_t[]){3, 1}, 2);
  expect("positions", a.positions, (int32_t[]){10, 8}, 2);
  expect("table", a.table, (int32_t[]){2, -1, -1, -1, 3, -1, -1, -1}, 8);
  expect("prefix", a.prefix, (int32_t[]){0, 1}, 2);
  expect("slots", a.slots, (int32_t[]){10, 12}, 2);
  quire_cache_release(cache);
}

static void prefixes_are_checked(void **state) {
  (void)state;
  quire_cache *cache = make_cache(16, 4);
  quire_batch_entry entries[2] = {{0, 1, 0, 0}, {0, 1, 0, 0}};
  for (int i = 0; i < 2; ++i) { /* the same tokens, but nothing is shared without a key */
    entries[i].sequence = begin(cache, NULL, NULL, 0, 0);
    grow(cache, entries[i].sequence, text, 8);
    MUST(quire_sequence_append(cache, entries[i].sequence, 1, error));
  }
  arrays a;
  arrays_init(&a);
  static const int64_t bad[] = {-4, 3, 6, 4, 8};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; ++i) {
    a.batch.prefix_tokens = bad[i];
    MUST_FAIL(cache, QUIRE_BAD_VALUE, "SV-8",
              quire_batch_build(cache, entries, 2, &a.batch, error));
  }
  a.batch.prefix_tokens = 8;
  MUST(quire_batch_build(cache, entries, 1, &a.batch, error));
  quire_cache_release(cache);

  quire_cache_group window = {16, 4, 8};
  quire_cache_options options = options_of(&window, 16, 4);
  window.window = 8;
  options.length_limit = 32;
  cache = make_cache_with(&options);
  entries[0].sequence = begin(cache, NULL, NULL, 0, 0);
  grow(cache, entries[0].sequence, text, 4);
  MUST(quire_sequence_append(cache, entries[0].sequence, 1, error));
  a.batch.prefix_tokens = 4; /* blocks of a window are given up: no table may count on them */
  MUST_FAIL(cache, QUIRE_BAD_VALUE, "SV-8", quire_batch_build(cache, entries, 1, &a.batch, error));
  assert_int_equal(a.slots[1], 0x77777777);
  quire_cache_release(cache);
}

static void padding_needs_columns(void **state) {
  (void)state;
  quire_cache *cache = make_cache(16, 4);
  const quire_batch_entry one = {begin(cache, NULL, NULL, 0, 0), 1, 0, 0};
  MUST(quire_sequence_append(cache, one.sequence, 1, error));
  arrays a;
  arrays_init(&a);
  a.group.columns = 2;
  a.batch.padded_sequences = 2;
  a.batch.padded_rows = 10; /* nine rows of padding: three blocks */
  MUST_FAIL(cache, QUIRE_LIMIT, "SV-8", quire_batch_build(cache, &one, 1, &a.batch, error));
  a.batch.padded_rows = 9;
  MUST(quire_batch_build(cache, &one, 1, &a.batch, error));
  quire_cache_release(cache);
}

/* ---- states ---- */

static quire_cache *make_hybrid(int64_t slots, int64_t window, int64_t every) {
  quire_cache_group group;
  quire_cache_options options = options_of(&group, 16, 4);
  options.state_slots = slots;
  options.state_window = window;
  options.checkpoint_tokens = every;
  return make_cache_with(&options);
}

static void states_are_written_in_place(void **state) {
  (void)state;
  quire_cache *cache = make_hybrid(3, 0, 0);
  quire_batch_entry entry = {begin(cache, NULL, NULL, 0, 0), 3, 0, 0};
  MUST(quire_sequence_append(cache, entry.sequence, 6, error));
  MUST_FAIL(cache, QUIRE_BAD_REQUEST, "SV-6",
            quire_sequence_commit(cache, entry.sequence, NULL, 3, error));
  arrays a;
  arrays_init(&a);
  MUST(quire_batch_build(cache, &entry, 1, &a.batch, error));
  assert_int_equal(a.reads[0], -1);
  const int32_t slot = a.writes[0];
  assert_true(slot >= 0);
  MUST(quire_sequence_commit(cache, entry.sequence, text, 3, error));
  MUST(quire_batch_build(cache, &entry, 1, &a.batch, error));
  assert_int_equal(a.reads[0], slot);
  assert_int_equal(a.writes[0], slot);
  MUST_FAIL(cache, QUIRE_BAD_VALUE, "SV-6",
            quire_sequence_commit(cache, entry.sequence, NULL, 0, error));
  MUST_FAIL(cache, QUIRE_BAD_VALUE, "SV-6",
            quire_sequence_commit(cache, entry.sequence, NULL, 2, error));
  entry.flags = QUIRE_STEP_KEEP_STATE; /* the same step once more, now so that it may be refused */
  MUST(quire_batch_build(cache, &entry, 1, &a.batch, error));
  assert_int_equal(a.reads[0], slot);
  assert_true(a.writes[0] != slot && a.writes[0] >= 0);
  assert_int_equal(states_of(cache).used, 2);
  MUST(quire_sequence_commit(cache, entry.sequence, NULL, 0, error));
  assert_int_equal(facts_of(cache, entry.sequence).state, slot);
  assert_int_equal(states_of(cache).used, 1);
  check_cache(cache);
  MUST(quire_sequence_truncate(cache, entry.sequence, 0, 0, error));
  assert_int_equal(states_of(cache).used, 0);
  quire_cache_release(cache);
}

static void windows_of_states_serve_drafts(void **state) {
  (void)state;
  for (int64_t accepted = 1; accepted <= 4; ++accepted) {
    quire_cache *cache = make_hybrid(8, WINDOW, 0);
    const quire_sequence s = begin(cache, NULL, NULL, 0, 0);
    grow(cache, s, text, 5);
    const int32_t old = facts_of(cache, s).state;
    MUST(quire_sequence_append(cache, s, 4, error));
    quire_batch_entry entry = {s, 4, 3, 0};
    arrays a;
    arrays_init(&a);
    entry.draft_tokens = 4;
    MUST_FAIL(cache, QUIRE_BAD_VALUE, "SV-8", quire_batch_build(cache, &entry, 1, &a.batch, error));
    entry.draft_tokens = 3;
    MUST(quire_batch_build(cache, &entry, 1, &a.batch, error));
    assert_int_equal(a.reads[0], old);
    assert_int_equal(a.writes[0], old); /* the first token is certain: its state may replace */
    assert_int_equal(states_of(cache).used, 4);
    const int32_t kept = a.writes[accepted - 1];
    MUST(quire_sequence_commit(cache, s, text, accepted, error));
    assert_int_equal(facts_of(cache, s).state, kept);
    assert_int_equal(facts_of(cache, s).length, 5 + accepted);
    assert_int_equal(states_of(cache).used, 1);
    check_cache(cache);
    MUST(quire_sequence_append(cache, s, 6, error)); /* more tokens than the window has states */
    entry = (quire_batch_entry){s, 6, 1, 0};
    MUST(quire_batch_build(cache, &entry, 1, &a.batch, error));
    assert_int_equal(a.writes[0], -1);
    assert_int_equal(a.writes[1], -1);
    assert_true(a.writes[2] >= 0 && a.writes[3] >= 0 && a.writes[2] != a.writes[3]);
    MUST_FAIL(cache, QUIRE_BAD_VALUE, "SV-6", quire_sequence_commit(cache, s, text, 4, error));
    MUST(quire_sequence_commit(cache, s, text, 5, error));
    quire_cache_release(cache);
  }
}

/* Without a window: the step writes no state, any number of its tokens may be accepted. */
static void drafts_can_be_replayed(void **state) {
  (void)state;
  for (int64_t accepted = 0; accepted <= 4; ++accepted) {
    quire_cache *cache = make_hybrid(3, 0, 4);
    const quire_sequence s = begin(cache, &alice, NULL, 0, 0);
    grow(cache, s, text, 5);
    const int32_t old = facts_of(cache, s).state;
    quire_sequence fork = 0;
    MUST(quire_sequence_append(cache, s, 4, error));
    quire_batch_entry entry = {s, 4, 4, QUIRE_STEP_REPLAY};
    arrays a;
    arrays_init(&a);
    MUST(quire_batch_build(cache, &entry, 1, &a.batch, error));
    assert_int_equal(a.reads[0], old);
    assert_int_equal(a.writes[0], -1);
    assert_int_equal(a.replays[0], old);
    MUST(quire_sequence_commit(cache, s, text + 5, accepted, error));
    assert_int_equal(facts_of(cache, s).state, old);
    assert_int_equal(facts_of(cache, s).length, 5 + accepted);
    check_cache(cache);
    /* A state that others read is replayed into another slot. */
    MUST(quire_sequence_fork(cache, s, &fork, error));
    MUST(quire_sequence_append(cache, s, 3, error));
    quire_cache_copies_done(cache);
    entry.new_tokens = 3;
    entry.draft_tokens = 3;
    MUST(quire_batch_build(cache, &entry, 1, &a.batch, error));
    assert_true(a.replays[0] >= 0 && a.replays[0] != old);
    const int32_t other = a.replays[0];
    MUST(quire_sequence_commit(cache, s, text + 5 + accepted, accepted % 4, error));
    assert_int_equal(facts_of(cache, s).state, accepted % 4 > 0 ? other : old);
    check_cache(cache);
    entry = (quire_batch_entry){s, 0, 0, 4};
    MUST_FAIL(cache, QUIRE_BAD_VALUE, "SV-8", quire_batch_build(cache, &entry, 1, &a.batch, error));
    quire_cache_release(cache);
  }
}

static void forks_share_the_state(void **state) {
  (void)state;
  quire_cache *cache = make_hybrid(3, 0, 0);
  const quire_sequence a = begin(cache, NULL, NULL, 0, 0);
  grow(cache, a, text, 4);
  quire_sequence b = 0;
  MUST(quire_sequence_fork(cache, a, &b, error));
  assert_int_equal(states_of(cache).used, 1);
  MUST(quire_sequence_append(cache, a, 1, error));
  MUST(quire_sequence_append(cache, b, 1, error));
  const quire_batch_entry entries[2] = {{a, 1, 0, 0}, {b, 1, 0, 0}};
  arrays all;
  arrays_init(&all);
  MUST(quire_batch_build(cache, entries, 2, &all.batch, error));
  assert_int_equal(all.reads[0], all.reads[1]);
  assert_true(all.writes[0] != all.writes[1] && all.writes[0] != all.reads[0] &&
              all.writes[1] != all.reads[0]);
  MUST(quire_sequence_commit(cache, a, text, 1, error));
  MUST(quire_sequence_commit(cache, b, text + 1, 1, error));
  assert_int_equal(states_of(cache).used, 2);
  const quire_sequence c = begin(cache, NULL, NULL, 0, 0);
  grow(cache, c, text, 1);
  MUST(quire_sequence_append(cache, a, 1, error));
  quire_batch_entry kept = {a, 1, 0, 1};
  MUST_FAIL(cache, QUIRE_OUT_OF_MEMORY, "SV-3",
            quire_batch_build(cache, &kept, 1, &all.batch, error));
  check_cache(cache);
  quire_cache_release(cache);
}

static void checkpoints_make_prefixes_reusable(void **state) {
  (void)state;
  quire_cache *cache = make_hybrid(6, 2, 8);
  const quire_sequence a = begin(cache, &alice, NULL, 0, 0);
  for (int64_t at = 0; at < 20;) {
    int64_t chunk = 0;
    MUST(quire_sequence_get_chunk(cache, a, 20 - at, &chunk, error));
    assert_int_equal(chunk, at < 16 ? 8 : 4);
    grow(cache, a, text + at, chunk);
    at += chunk;
  }
  assert_int_equal(states_of(cache).used, 1); /* the one in use: the checkpoints only stay */
  assert_int_equal(states_of(cache).cached, 2);
  const quire_sequence b = begin(cache, &alice, text, 20, 16); /* not 20: no state there */
  const quire_sequence c = begin(cache, &alice, text, 12, 8);
  assert_true(facts_of(cache, b).state >= 0);
  assert_true(facts_of(cache, b).state != facts_of(cache, c).state);
  grow(cache, b, text + 16, 1); /* reads the checkpoint, writes its own */
  (void)begin(cache, &alice, text, 20, 16);
  int64_t point = 0;
  MUST(quire_sequence_rollback_point(cache, a, 19, &point, error));
  assert_int_equal(point, 16);
  MUST_FAIL(cache, QUIRE_BAD_VALUE, "SV-5", quire_sequence_truncate(cache, a, 12, 1, error));
  MUST(quire_sequence_truncate(cache, a, 8, 0, error));
  check_cache(cache);
  assert_int_equal(facts_of(cache, a).state, facts_of(cache, c).state);
  quire_cache_release(cache);
}

/* A draft that crosses a checkpoint leaves it behind if it was accepted up to there. */
static void drafts_leave_checkpoints(void **state) {
  (void)state;
  for (int64_t accepted = 1; accepted <= 4; ++accepted) {
    quire_cache *cache = make_hybrid(8, WINDOW, 4);
    const quire_sequence a = begin(cache, &alice, NULL, 0, 0);
    grow(cache, a, text, 2);
    MUST(quire_sequence_append(cache, a, 4, error));
    MUST(build_one(cache, a, 4, 3, 0, error));
    MUST(quire_sequence_commit(cache, a, text + 2, accepted, error));
    check_cache(cache);
    (void)begin(cache, &alice, text, 8, accepted >= 2 ? 4 : 0);
    quire_cache_release(cache);
  }
}

/* With one slot a sequence, a checkpoint must not starve its own sequence. */
static void checkpoints_give_way(void **state) {
  (void)state;
  quire_cache *cache = make_hybrid(1, 0, 4);
  const quire_sequence a = begin(cache, &alice, NULL, 0, 0);
  grow(cache, a, text, 4);
  assert_int_equal(states_of(cache).shared, 1);
  grow(cache, a, text + 4, 4);
  check_cache(cache);
  (void)begin(cache, &alice, text, 8, 8);
  quire_cache_release(cache);
  cache = make_hybrid(2, 0, 4); /* an idle checkpoint of another goes first */
  quire_sequence s = begin(cache, &alice, NULL, 0, 0);
  grow(cache, s, text, 4);
  MUST(quire_sequence_free(cache, s, error));
  s = begin(cache, NULL, NULL, 0, 0);
  grow(cache, s, text, 4);
  quire_sequence t = begin(cache, NULL, NULL, 0, 0);
  grow(cache, t, text, 4);
  (void)begin(cache, &alice, text, 4, 0);
  quire_cache_release(cache);
}

static void a_recurrent_model_needs_no_blocks(void **state) {
  (void)state;
  quire_cache_options options;
  quire_cache_options_init(&options);
  options.state_slots = 4;
  options.checkpoint_tokens = 4;
  quire_cache *cache = make_cache_with(&options);
  const quire_sequence a = begin(cache, &alice, NULL, 0, 0);
  grow(cache, a, text, 4);
  grow(cache, a, text + 4, 3);
  (void)begin(cache, &alice, text, 8, 4);
  quire_cache_release(cache);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(arrays_are_written),
      cmocka_unit_test(decode_rows_are_padded),
      cmocka_unit_test(bad_batches_change_nothing),
      cmocka_unit_test(prefixes_are_left_out),
      cmocka_unit_test(prefixes_are_checked),
      cmocka_unit_test(padding_needs_columns),
      cmocka_unit_test(states_are_written_in_place),
      cmocka_unit_test(windows_of_states_serve_drafts),
      cmocka_unit_test(drafts_can_be_replayed),
      cmocka_unit_test(forks_share_the_state),
      cmocka_unit_test(checkpoints_make_prefixes_reusable),
      cmocka_unit_test(drafts_leave_checkpoints),
      cmocka_unit_test(checkpoints_give_way),
      cmocka_unit_test(a_recurrent_model_needs_no_blocks),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
