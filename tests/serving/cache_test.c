/* Pools and sequences: what each operation does, and that what is refused changes nothing. */
#include <string.h>

#include "serving_fixture.h"

static const int32_t text[64] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16,
                                 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32};
static const quire_prefix_key alice = {{1, 0, 0, 0}};

typedef struct bad_options {
  const char *what;
  quire_status status;
  int64_t count, size, window, second_size, sequences, length, rollback, slots, states, every;
} bad_options;

static void options_are_checked(void **state) {
  (void)state;
  static const bad_options table[] = {
      {"no blocks", QUIRE_BAD_VALUE, 0, 4, 0, 0, 8, 0, 0, 0, 0, 0},
      {"no rows", QUIRE_BAD_VALUE, 4, 0, 0, 0, 8, 0, 0, 0, 0, 0},
      {"negative window", QUIRE_BAD_VALUE, 4, 4, -1, 0, 8, 0, 0, 0, 0, 0},
      {"slots beyond 32 bits", QUIRE_LIMIT, 1 << 30, 2, 0, 0, 8, 8, 0, 0, 0, 0},
      {"sizes that do not divide", QUIRE_BAD_VALUE, 4, 4, 0, 3, 8, 0, 0, 0, 0, 0},
      {"no sequences", QUIRE_BAD_VALUE, 4, 4, 0, 0, 0, 0, 0, 0, 0, 0},
      {"negative length", QUIRE_BAD_VALUE, 4, 4, 0, 0, 8, -1, 0, 0, 0, 0},
      {"no length with windows only", QUIRE_BAD_VALUE, 4, 4, 8, 0, 8, 0, 0, 0, 0, 0},
      {"negative rollback", QUIRE_BAD_VALUE, 4, 4, 0, 0, 8, 0, -1, 0, 0, 0},
      {"negative slots", QUIRE_BAD_VALUE, 4, 4, 0, 0, 8, 0, 0, -1, 0, 0},
      {"window of 9 states", QUIRE_BAD_VALUE, 4, 4, 0, 0, 8, 0, 0, 4, 9, 0},
      {"window without states", QUIRE_BAD_VALUE, 4, 4, 0, 0, 8, 0, 0, 0, 1, 0},
      {"checkpoints between blocks", QUIRE_BAD_VALUE, 4, 4, 0, 0, 8, 0, 0, 4, 0, 6},
      {"memory beyond 64 bits", QUIRE_OUT_OF_MEMORY, 1, 1, 0, 0, INT32_MAX, INT32_MAX, 0, 0, 0, 0},
  };
  for (size_t i = 0; i < sizeof table / sizeof table[0]; ++i) {
    const bad_options *bad = &table[i];
    const quire_cache_group groups[2] = {{bad->count, bad->size, bad->window},
                                         {4, bad->second_size, 0}};
    quire_cache_options options;
    quire_cache_options_init(&options);
    options.groups = groups;
    options.group_count = bad->second_size > 0 ? 2 : 1;
    options.sequence_limit = bad->sequences;
    options.length_limit = bad->length;
    options.rollback_tokens = bad->rollback;
    options.state_slots = bad->slots;
    options.state_window = bad->states;
    options.checkpoint_tokens = bad->every;
    quire_cache *cache = (quire_cache *)&options;
    quire_error error;
    const quire_status status = quire_cache_create(&options, &cache, &error);
    if (status != bad->status || cache != NULL) {
      fail_msg("%s: %s", bad->what, quire_status_name(status));
    }
  }
  quire_cache *cache = NULL;
  assert_int_equal(quire_cache_create(NULL, &cache, NULL), QUIRE_BAD_REQUEST);
  quire_cache_options options;
  quire_cache_options_init(&options);
  assert_int_equal(quire_cache_create(&options, &cache, NULL), QUIRE_BAD_VALUE);
  options.struct_size = 1;
  assert_int_equal(quire_cache_create(&options, &cache, NULL), QUIRE_BAD_REQUEST);
  assert_int_equal(quire_cache_create(&options, NULL, NULL), QUIRE_BAD_REQUEST);
  quire_cache_release(NULL);
}

static void blocks_come_and_go(void **state) {
  (void)state;
  quire_cache *cache = make_cache(6, 4);
  const quire_sequence a = begin(cache, NULL, NULL, 0, 0);
  grow(cache, a, text, 9);
  assert_int_equal(group_of(cache, 0).used, 3);
  const int32_t *blocks = NULL;
  int64_t count = 0;
  MUST(quire_sequence_get_blocks(cache, a, 0, &blocks, &count, error));
  assert_int_equal(count, 3);
  assert_true(blocks[0] != blocks[1] && blocks[1] != blocks[2] && blocks[0] != blocks[2]);
  MUST(quire_sequence_truncate(cache, a, 4, 0, error));
  assert_int_equal(group_of(cache, 0).used, 1);
  assert_int_equal(facts_of(cache, a).committed, 4);
  MUST(quire_sequence_free(cache, a, error));
  assert_int_equal(group_of(cache, 0).free, 6);
  check_cache(cache);
  quire_cache_release(cache);
}

static void exhaustion_changes_nothing(void **state) {
  (void)state;
  quire_cache *cache = make_cache(4, 4);
  const quire_sequence a = begin(cache, NULL, NULL, 0, 0);
  const quire_sequence b = begin(cache, NULL, NULL, 0, 0);
  MUST(quire_sequence_append(cache, a, 12, error));
  MUST_FAIL(cache, QUIRE_OUT_OF_MEMORY, "SV-3", quire_sequence_append(cache, b, 5, error));
  MUST_FAIL(cache, QUIRE_OUT_OF_MEMORY, "SV-3", quire_sequence_reserve(cache, b, 5, error));
  MUST(quire_sequence_append(cache, b, 4, error));
  MUST_FAIL(cache, QUIRE_LIMIT, "SV-4", quire_sequence_append(cache, a, 5, error));
  MUST_FAIL(cache, QUIRE_BAD_VALUE, "SV-4", quire_sequence_append(cache, a, -1, error));
  MUST_FAIL(cache, QUIRE_LIMIT, "SV-4", quire_sequence_append(cache, a, INT64_MAX, error));
  MUST(quire_sequence_free(cache, a, error));
  MUST(quire_sequence_append(cache, b, 12, error));
  check_cache(cache);
  quire_cache_release(cache);
}

static void handles_are_validated(void **state) {
  (void)state;
  quire_cache *cache = make_cache(4, 4);
  const quire_sequence a = begin(cache, NULL, NULL, 0, 0);
  MUST(quire_sequence_free(cache, a, error));
  const quire_sequence reused = begin(cache, NULL, NULL, 0, 0);
  assert_true(a != reused);
  const quire_sequence bad[] = {0, a, reused + 1, reused ^ (1ull << 32), UINT64_MAX};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; ++i) {
    const quire_sequence s = bad[i];
    quire_sequence child = 7;
    quire_sequence_facts facts;
    const int32_t *blocks;
    int64_t number;
    MUST_FAIL(cache, QUIRE_NOT_FOUND, "SV-2", quire_sequence_free(cache, s, error));
    MUST_FAIL(cache, QUIRE_NOT_FOUND, "SV-2", quire_sequence_append(cache, s, 1, error));
    MUST_FAIL(cache, QUIRE_NOT_FOUND, "SV-2", quire_sequence_reserve(cache, s, 1, error));
    MUST_FAIL(cache, QUIRE_NOT_FOUND, "SV-2", quire_sequence_commit(cache, s, NULL, 0, error));
    MUST_FAIL(cache, QUIRE_NOT_FOUND, "SV-2", quire_sequence_truncate(cache, s, 0, 0, error));
    MUST_FAIL(cache, QUIRE_NOT_FOUND, "SV-2", quire_sequence_fork(cache, s, &child, error));
    MUST_FAIL(cache, QUIRE_NOT_FOUND, "SV-2", quire_sequence_get_facts(cache, s, &facts, error));
    MUST_FAIL(cache, QUIRE_NOT_FOUND, "SV-2",
              quire_sequence_get_blocks(cache, s, 0, &blocks, &number, error));
    MUST_FAIL(cache, QUIRE_NOT_FOUND, "SV-2",
              quire_sequence_get_chunk(cache, s, 1, &number, error));
    MUST_FAIL(cache, QUIRE_NOT_FOUND, "SV-2",
              quire_sequence_rollback_point(cache, s, 1, &number, error));
    MUST_FAIL(cache, QUIRE_NOT_FOUND, "SV-2", build_one(cache, s, 0, 0, 0, error));
    assert_int_equal(child, 7);
  }
  assert_int_equal(quire_sequence_append(NULL, reused, 1, NULL), QUIRE_BAD_REQUEST);
  quire_cache_release(cache);
}

static void sequences_are_limited(void **state) {
  (void)state;
  quire_cache *cache = make_cache(16, 4);
  quire_sequence s = 0;
  for (int i = 0; i < 8; ++i) {
    s = begin(cache, NULL, NULL, 0, 0);
  }
  quire_sequence more = 0;
  MUST_FAIL(cache, QUIRE_LIMIT, "SV-4",
            quire_sequence_create(cache, NULL, NULL, 0, &more, NULL, error));
  MUST_FAIL(cache, QUIRE_LIMIT, "SV-4", quire_sequence_fork(cache, s, &more, error));
  MUST_FAIL(cache, QUIRE_LIMIT, "SV-4",
            quire_sequence_create(cache, &alice, text, 65, &more, NULL, error));
  MUST_FAIL(cache, QUIRE_BAD_REQUEST, "",
            quire_sequence_create(cache, &alice, NULL, 1, &more, NULL, error));
  MUST_FAIL(cache, QUIRE_BAD_REQUEST, "",
            quire_sequence_create(cache, &alice, text, -1, &more, NULL, error));
  assert_int_equal(more, 0);
  quire_cache_release(cache);
}

static void promises_are_kept(void **state) {
  (void)state;
  quire_cache *cache = make_cache(6, 4);
  const quire_sequence a = begin(cache, NULL, NULL, 0, 0);
  const quire_sequence b = begin(cache, NULL, NULL, 0, 0);
  MUST(quire_sequence_reserve(cache, a, 13, error)); /* four blocks */
  MUST_FAIL(cache, QUIRE_OUT_OF_MEMORY, "SV-3", quire_sequence_append(cache, b, 9, error));
  MUST(quire_sequence_append(cache, b, 8, error));
  MUST(quire_sequence_append(cache, a, 5, error));
  assert_int_equal(group_of(cache, 0).reserved, 2);
  MUST(quire_sequence_append(cache, a, 8, error));
  assert_int_equal(group_of(cache, 0).reserved, 0);
  MUST(quire_sequence_truncate(cache, a, 0, 0, error));
  MUST(quire_sequence_reserve(cache, a, 4, error));
  MUST(quire_sequence_reserve(cache, a, 16, error)); /* replaces, does not add */
  assert_int_equal(group_of(cache, 0).reserved, 4);
  MUST(quire_sequence_reserve(cache, a, 0, error));
  MUST(quire_sequence_reserve(cache, b, 4, error));
  MUST(quire_sequence_free(cache, b, error));
  assert_int_equal(group_of(cache, 0).reserved, 0);
  check_cache(cache);
  quire_cache_release(cache);
}

/* A fork makes the parent's last block a shared one: its promise then needs one block more. */
static void promises_survive_a_fork(void **state) {
  (void)state;
  quire_cache *cache = make_cache(4, 4);
  const quire_sequence a = begin(cache, NULL, NULL, 0, 0);
  grow(cache, a, text, 5);
  MUST(quire_sequence_reserve(cache, a, 7, error)); /* one block */
  quire_sequence child = 0;
  MUST(quire_sequence_fork(cache, a, &child, error));
  assert_int_equal(group_of(cache, 0).reserved, 2);
  MUST_FAIL(cache, QUIRE_OUT_OF_MEMORY, "SV-3", quire_sequence_append(cache, child, 1, error));
  MUST(quire_sequence_append(cache, a, 7, error));
  check_cache(cache);
  quire_cache_release(cache);
  cache = make_cache(3, 4);
  const quire_sequence b = begin(cache, NULL, NULL, 0, 0);
  grow(cache, b, text, 5);
  MUST(quire_sequence_reserve(cache, b, 7, error));
  MUST_FAIL(cache, QUIRE_OUT_OF_MEMORY, "SV-3", quire_sequence_fork(cache, b, &child, error));
  quire_cache_release(cache);
}

static void forks_copy_the_last_block_only(void **state) {
  (void)state;
  quire_cache *cache = make_cache(8, 4);
  const quire_sequence a = begin(cache, NULL, NULL, 0, 0);
  quire_sequence b = 0;
  MUST(quire_sequence_append(cache, a, 2, error));
  MUST_FAIL(cache, QUIRE_BAD_REQUEST, "SV-7", quire_sequence_fork(cache, a, &b, error));
  grow(cache, a, text, 2);
  MUST(quire_sequence_append(cache, a, 2, error));
  MUST(build_one(cache, a, 4, 0, 0, error));
  MUST(quire_sequence_commit(cache, a, text, 4, error));
  MUST(quire_sequence_fork(cache, a, &b, error));
  assert_int_equal(group_of(cache, 0).used, 2);
  assert_int_equal(group_of(cache, 0).shared, 2);
  MUST(quire_sequence_append(cache, b, 1, error));
  size_t count = 0;
  const quire_block_copy *copies = quire_cache_copies(cache, &count);
  assert_int_equal(count, 1);
  const int32_t *of_a = NULL;
  const int32_t *of_b = NULL;
  int64_t blocks = 0;
  MUST(quire_sequence_get_blocks(cache, a, 0, &of_a, &blocks, error));
  MUST(quire_sequence_get_blocks(cache, b, 0, &of_b, &blocks, error));
  assert_int_equal(of_a[0], of_b[0]);
  assert_int_equal(copies[0].source, of_a[1]);
  assert_int_equal(copies[0].destination, of_b[1]);
  MUST_FAIL(cache, QUIRE_BAD_REQUEST, "SV-9", build_one(cache, b, 1, 0, 0, error));
  quire_cache_copies_done(cache);
  MUST(quire_sequence_append(cache, a, 1, error)); /* alone again: no copy */
  (void)quire_cache_copies(cache, &count);
  assert_int_equal(count, 0);
  MUST(quire_sequence_free(cache, a, error));
  assert_int_equal(group_of(cache, 0).used, 2);
  MUST(quire_sequence_free(cache, b, error));
  assert_int_equal(group_of(cache, 0).free, 8);
  check_cache(cache);
  quire_cache_release(cache);
}

static void waiting_copies_are_limited(void **state) {
  (void)state;
  quire_cache_group group;
  quire_cache_options options = options_of(&group, 8, 4);
  options.sequence_limit = 2;
  quire_cache *cache = make_cache_with(&options);
  const quire_sequence a = begin(cache, NULL, NULL, 0, 0);
  grow(cache, a, text, 2);
  quire_sequence b = 0;
  for (int i = 0; i < 2; ++i) {
    MUST(quire_sequence_fork(cache, a, &b, error));
    MUST(quire_sequence_append(cache, b, 1, error));
    MUST(quire_sequence_free(cache, b, error));
  }
  MUST(quire_sequence_fork(cache, a, &b, error));
  MUST_FAIL(cache, QUIRE_LIMIT, "SV-9", quire_sequence_append(cache, b, 1, error));
  quire_cache_copies_done(cache);
  MUST(quire_sequence_append(cache, b, 1, error));
  quire_cache_release(cache);
}

static void truncation_respects_shared_blocks(void **state) {
  (void)state;
  quire_cache *cache = make_cache(8, 4);
  const quire_sequence a = begin(cache, &alice, text, 0, 0);
  grow(cache, a, text, 10);
  MUST_FAIL(cache, QUIRE_BAD_VALUE, "SV-5", quire_sequence_truncate(cache, a, 11, 0, error));
  MUST_FAIL(cache, QUIRE_BAD_VALUE, "SV-5", quire_sequence_truncate(cache, a, -1, 0, error));
  MUST_FAIL(cache, QUIRE_BAD_REQUEST, "SV-5", quire_sequence_truncate(cache, a, 9, 2, error));
  MUST(quire_sequence_truncate(cache, a, 9, 0, error)); /* its own block */
  MUST_FAIL(cache, QUIRE_BAD_VALUE, "SV-5", quire_sequence_truncate(cache, a, 6, 0, error));
  int64_t point = 0;
  MUST(quire_sequence_rollback_point(cache, a, 6, &point, error));
  assert_int_equal(point, 6);
  MUST(quire_sequence_truncate(cache, a, 6, QUIRE_TRUNCATE_COPY, error));
  check_cache(cache);
  assert_int_equal(facts_of(cache, a).findable, 4);
  MUST(quire_sequence_append(cache, a, 1, error));
  size_t count = 0;
  (void)quire_cache_copies(cache, &count);
  assert_int_equal(count, 1); /* tokens 4 to 7 stay as they are in the index */
  quire_cache_copies_done(cache);
  MUST(build_one(cache, a, 1, 0, 0, error));
  MUST(quire_sequence_commit(cache, a, text + 6, 1, error));
  check_cache(cache);
  const quire_sequence b = begin(cache, &alice, text, 10, 8);
  MUST(quire_sequence_truncate(cache, b, 4, 0, error)); /* between blocks */
  MUST(quire_sequence_truncate(cache, b, 0, 0, error));
  check_cache(cache);
  quire_cache_release(cache);
}

static void commit_takes_what_was_accepted(void **state) {
  (void)state;
  quire_cache *cache = make_cache(8, 4);
  const quire_sequence a = begin(cache, &alice, text, 0, 0);
  MUST(quire_sequence_append(cache, a, 10, error));
  MUST(build_one(cache, a, 6, 3, 0, error));
  MUST_FAIL(cache, QUIRE_BAD_VALUE, "SV-6", quire_sequence_commit(cache, a, text, 7, error));
  MUST_FAIL(cache, QUIRE_BAD_VALUE, "SV-6", quire_sequence_commit(cache, a, text, -1, error));
  MUST(quire_sequence_commit(cache, a, text, 6, error)); /* four more are waiting */
  assert_int_equal(facts_of(cache, a).length, 10);
  MUST(build_one(cache, a, 4, 3, 0, error));
  MUST(quire_sequence_commit(cache, a, text + 6, 2, error)); /* two are refused */
  assert_int_equal(facts_of(cache, a).length, 8);
  assert_int_equal(facts_of(cache, a).findable, 8);
  assert_int_equal(group_of(cache, 0).used, 2);
  MUST(quire_sequence_append(cache, a, 2, error));
  MUST(quire_sequence_commit(cache, a, text + 8, 1, error)); /* no step: nothing is refused */
  assert_int_equal(facts_of(cache, a).length, 10);
  check_cache(cache);
  quire_cache_release(cache);
}

static void windows_slide(void **state) {
  (void)state;
  const quire_cache_group groups[2] = {{16, 4, 0}, {8, 2, 5}};
  quire_cache_options options;
  quire_cache_options_init(&options);
  options.groups = groups;
  options.group_count = 2;
  options.rollback_tokens = 2;
  quire_cache *cache = make_cache_with(&options);
  const quire_sequence a = begin(cache, &alice, text, 0, 0);
  for (int i = 0; i < 24; i += 4) {
    grow(cache, a, text + i, 4);
  }
  const int32_t *blocks = NULL;
  int64_t count = 0;
  MUST(quire_sequence_get_blocks(cache, a, 1, &blocks, &count, error));
  assert_int_equal(count, 12);
  /* After 24 tokens less 2 the next sees positions 18 to 22: block 9 is the first. */
  for (int i = 0; i < 12; ++i) {
    assert_int_equal(blocks[i] >= 0, i >= 9);
  }
  int64_t point = 0;
  MUST(quire_sequence_rollback_point(cache, a, 22, &point, error));
  assert_int_equal(point, 22);
  MUST_FAIL(cache, QUIRE_BAD_VALUE, "SV-5",
            quire_sequence_truncate(cache, a, 20, QUIRE_TRUNCATE_COPY, error));
  MUST(quire_sequence_rollback_point(cache, a, 20, &point, error));
  assert_int_equal(point, 0);
  check_cache(cache);
  /* Slid blocks stay in the index until the group needs them: of 8, 3 are in use. */
  assert_int_equal(group_of(cache, 1).used, 3);
  assert_int_equal(group_of(cache, 1).cached, 5);
  const quire_sequence b = begin(cache, &alice, text, 24, 24);
  MUST(quire_sequence_get_blocks(cache, b, 1, &blocks, &count, error));
  for (int i = 0; i < 12; ++i) {
    assert_int_equal(blocks[i] >= 0, i >= 10); /* positions 20 to 24 */
  }
  /* A shorter match needs blocks 6 and 7 for positions 12 to 16; they are cached. */
  const quire_sequence c = begin(cache, &alice, text, 19, 16);
  MUST(quire_sequence_free(cache, b, error));
  MUST(quire_sequence_free(cache, c, error));
  /* Another sequence takes all that is cached in the small group: c's match is gone. */
  const quire_sequence d = begin(cache, NULL, NULL, 0, 0);
  MUST(quire_sequence_append(cache, d, 10, error));
  check_cache(cache);
  MUST(quire_cache_match(cache, &alice, text, 19, &point, error));
  assert_int_equal(point, 0);
  MUST(quire_cache_match(cache, &alice, text, 24, &point, error));
  assert_int_equal(point, 24);
  quire_cache_release(cache);
}

/* Every call that the other lines of memory_may_fail() have not made; saving and restoring, copying
   blocks and shared prefixes have tests of their own. */
static void use_every_call(quire_cache *cache, quire_sequence a, quire_sequence b) {
  int64_t number = 0;
  const int32_t *blocks = NULL;
  size_t copies = 0;
  quire_pool_statistics pool;
  quire_cache_statistics statistics;
  quire_sequence_facts facts;
  MUST(quire_sequence_reserve(cache, a, 16, error));
  MUST(quire_sequence_append(cache, a, 3, error));
  MUST(quire_sequence_truncate(cache, a, 13, 0, error));
  MUST(quire_cache_match(cache, &alice, text, 13, &number, error));
  const quire_batch_entry entries[2] = {{a, 1, 0, 0}, {b, 1, 0, 0}};
  MUST(quire_cache_shared_prefix(cache, entries, 2, &number, error));
  MUST(quire_sequence_get_blocks(cache, a, 0, &blocks, &number, error));
  MUST(quire_sequence_get_chunk(cache, a, 4, &number, error));
  MUST(quire_sequence_rollback_point(cache, a, 13, &number, error));
  MUST(quire_sequence_get_facts(cache, a, &facts, error));
  MUST(quire_cache_get_group(cache, 0, &pool, error));
  quire_cache_get_statistics(cache, &statistics);
  (void)quire_cache_copies(cache, &copies);
  quire_cache_copies_done(cache);
  check_cache(cache);
  MUST(quire_sequence_free(cache, b, error));
  quire_cache_forget(cache);
}

static void memory_may_fail(void **state) {
  (void)state;
  const quire_cache_group groups[2] = {{16, 4, 0}, {16, 2, 5}};
  counting_allocator counting;
  counting_allocator_init(&counting);
  quire_cache_options options;
  quire_cache_options_init(&options);
  options.groups = groups;
  options.group_count = 2;
  options.state_slots = 4;
  options.allocator = &counting.allocator;
  quire_cache *cache = make_cache_with(&options);
  const size_t sites = counting.requests;
  const quire_sequence a = begin(cache, &alice, text, 8, 0);
  grow(cache, a, text, 8);
  grow(cache, a, text + 8, 5);
  quire_sequence b = 0;
  MUST(quire_sequence_fork(cache, a, &b, error));
  grow(cache, b, text, 5);
  use_every_call(cache, a, b);
  assert_int_equal(counting.requests, sites); /* nothing is allocated but at the beginning */
  quire_cache_release(cache);
  assert_int_equal(counting.bytes, 0);
  assert_true(sites > 10);
  for (size_t site = 1; site <= sites; ++site) {
    counting_allocator_init(&counting);
    counting.fail_at = site;
    cache = (quire_cache *)&options;
    assert_int_equal(quire_cache_create(&options, &cache, NULL), QUIRE_OUT_OF_MEMORY);
    assert_null(cache);
    assert_int_equal(counting.bytes, 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(options_are_checked),
      cmocka_unit_test(blocks_come_and_go),
      cmocka_unit_test(exhaustion_changes_nothing),
      cmocka_unit_test(handles_are_validated),
      cmocka_unit_test(sequences_are_limited),
      cmocka_unit_test(promises_are_kept),
      cmocka_unit_test(promises_survive_a_fork),
      cmocka_unit_test(forks_copy_the_last_block_only),
      cmocka_unit_test(waiting_copies_are_limited),
      cmocka_unit_test(truncation_respects_shared_blocks),
      cmocka_unit_test(commit_takes_what_was_accepted),
      cmocka_unit_test(windows_slide),
      cmocka_unit_test(memory_may_fail),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
