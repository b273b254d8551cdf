/* The prefix index: what is found under which key, what is evicted, and what is kept twice. */
#include <string.h>

#include "serving_fixture.h"

static const int32_t text[64] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16,
                                 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32};
static const quire_prefix_key alice = {{1, 0, 0, 0}};
static const quire_prefix_key bob = {{1, 0, 0, 1}};

static void keys_and_ids_decide_what_is_shared(void **state) {
  (void)state;
  quire_cache *cache = make_cache(16, 4);
  const quire_sequence a = begin(cache, &alice, text, 0, 0);
  grow(cache, a, text, 9);
  const quire_sequence b = begin(cache, &bob, text, 9, 0);
  const quire_sequence c = begin(cache, &alice, text, 9, 8);
  const quire_sequence d = begin(cache, &alice, text, 7, 4);
  const quire_sequence e = begin(cache, NULL, text, 9, 0);
  int32_t other[8];
  memcpy(other, text, sizeof other);
  other[5] = 0;
  (void)begin(cache, &alice, other, 8, 4);
  assert_int_equal(group_of(cache, 0).used, 3);
  grow(cache, d, NULL, 4); /* ids unknown: never found, nor is what follows */
  grow(cache, d, text, 8);
  assert_int_equal(facts_of(cache, d).findable, 4);
  MUST(quire_sequence_free(cache, a, error));
  MUST(quire_sequence_free(cache, c, error));
  (void)begin(cache, &alice, text, 9, 8); /* kept after their sequences have gone */
  (void)b;
  (void)e;
  quire_cache_release(cache);
}

static uint64_t no_hash(void *user, const void *bytes, size_t size, uint64_t seed) {
  (void)bytes;
  (void)size;
  (void)seed;
  ++*(size_t *)user;
  return 0;
}

static void collisions_share_nothing(void **state) {
  (void)state;
  quire_cache_group group;
  quire_cache_options options = options_of(&group, 32, 4);
  size_t calls = 0;
  options.hash = no_hash;
  options.hash_user = &calls;
  quire_cache *cache = make_cache_with(&options);
  const quire_sequence a = begin(cache, &alice, text, 0, 0);
  grow(cache, a, text, 16);
  assert_true(calls > 4);
  (void)begin(cache, &bob, text, 16, 0);
  (void)begin(cache, &alice, text + 1, 16, 0);
  (void)begin(cache, &alice, text + 4, 8, 0); /* the second block's ids, but not behind the first */
  int32_t repeated[12] = {1, 2, 3, 4, 5, 6, 7, 8, 5, 6, 7, 8};
  (void)begin(cache, &alice, repeated, 12, 8);
  (void)begin(cache, &alice, text, 16, 16);
  quire_cache_release(cache);
}

static void least_recently_used_goes_first(void **state) {
  (void)state;
  quire_cache *cache = make_cache(6, 4);
  quire_sequence s = begin(cache, &alice, text, 0, 0);
  grow(cache, s, text, 8);
  MUST(quire_sequence_free(cache, s, error));
  s = begin(cache, &bob, text, 0, 0);
  grow(cache, s, text, 8);
  MUST(quire_sequence_free(cache, s, error));
  s = begin(cache, &alice, text, 8, 8); /* used again: bob's are older now */
  MUST(quire_sequence_free(cache, s, error));
  assert_int_equal(group_of(cache, 0).cached, 4);
  s = begin(cache, NULL, NULL, 0, 0);
  MUST(quire_sequence_append(cache, s, 12, error)); /* two free, and bob's last block */
  int64_t matched = 0;
  MUST(quire_cache_match(cache, &bob, text, 8, &matched, error));
  assert_int_equal(matched, 4); /* the child went before its parent */
  MUST(quire_cache_match(cache, &alice, text, 8, &matched, error));
  assert_int_equal(matched, 8);
  MUST(quire_sequence_append(cache, s, 8, error));
  MUST(quire_cache_match(cache, &bob, text, 8, &matched, error));
  assert_int_equal(matched, 0);
  MUST(quire_cache_match(cache, &alice, text, 8, &matched, error));
  assert_int_equal(matched, 4);
  check_cache(cache);
  quire_cache_forget(cache);
  check_cache(cache);
  assert_int_equal(group_of(cache, 0).cached, 0);
  quire_cache_release(cache);
}

/* What one is promised another cannot take over from the index. */
static void a_match_respects_promises(void **state) {
  (void)state;
  quire_cache *cache = make_cache(4, 4);
  quire_sequence s = begin(cache, &alice, text, 0, 0);
  grow(cache, s, text, 12);
  MUST(quire_sequence_free(cache, s, error));
  s = begin(cache, NULL, NULL, 0, 0);
  MUST(quire_sequence_reserve(cache, s, 8, error)); /* the free one, and one of the cached */
  quire_sequence other = 0;
  MUST_FAIL(cache, QUIRE_OUT_OF_MEMORY, "SV-3",
            quire_sequence_create(cache, &alice, text, 12, &other, NULL, error));
  MUST(quire_sequence_create(cache, &alice, text, 11, &other, NULL, error));
  MUST(quire_sequence_append(cache, s, 8, error));
  check_cache(cache);
  quire_cache_release(cache);
}

/* Two sequences compute the same prompt at once: each keeps its own blocks. */
static void duplicates_are_kept_apart(void **state) {
  (void)state;
  quire_cache *cache = make_cache(8, 4);
  const quire_sequence a = begin(cache, &alice, text, 8, 0);
  const quire_sequence b = begin(cache, &alice, text, 8, 0);
  grow(cache, a, text, 8);
  grow(cache, b, text, 8);
  assert_int_equal(group_of(cache, 0).used, 4);
  grow(cache, b, text + 8, 4);
  MUST(quire_sequence_free(cache, a, error));
  check_cache(cache); /* a's blocks are held for b's sake, whose last block lies below them */
  assert_int_equal(group_of(cache, 0).used, 5);
  (void)begin(cache, &alice, text, 12, 12);
  MUST(quire_sequence_free(cache, b, error));
  check_cache(cache);
  assert_int_equal(group_of(cache, 0).free, 5);
  quire_cache_release(cache);
}

/* A text that is computed again, while nobody holds what the index has of it, replaces that. */
static void what_is_computed_again_takes_no_more_room(void **state) {
  (void)state;
  quire_cache *cache = make_cache(4, 4);
  const quire_sequence a = begin(cache, &alice, NULL, 0, 0);
  for (int i = 0; i < 5; ++i) {
    grow(cache, a, text, 16);
    assert_int_equal(facts_of(cache, a).findable, 16);
    MUST(quire_sequence_truncate(cache, a, 0, 0, error));
    check_cache(cache);
    assert_int_equal(group_of(cache, 0).cached, 4);
    grow(cache, a, text, 6); /* takes the two last, and replaces the first by one of them */
    assert_int_equal(facts_of(cache, a).findable, 4);
    MUST(quire_sequence_truncate(cache, a, 0, 0, error));
    check_cache(cache);
  }
  quire_cache_release(cache);
}

/*
 * Groups of different block sizes: a fork inside a unit shares whole small blocks of it, which are
 * in the index once only. What cannot be in it whole is not in it at all.
 */
static void forks_inside_a_unit(void **state) {
  (void)state;
  for (int is_promised = 0; is_promised < 2; ++is_promised) {
    const quire_cache_group groups[2] = {{8, 2, 0}, {8, 4, 0}};
    quire_cache_options options;
    quire_cache_options_init(&options);
    options.groups = groups;
    options.group_count = 2;
    quire_cache *cache = make_cache_with(&options);
    static const int32_t other[] = {1, 2, 7, 8};
    const quire_sequence a = begin(cache, &alice, NULL, 0, 0);
    grow(cache, a, text, 2);
    quire_sequence b = 0;
    MUST(quire_sequence_fork(cache, a, &b, error));
    grow(cache, a, text + 2, 2);
    if (is_promised) { /* the unit is known already, and somebody counts on its blocks */
      const quire_sequence c = begin(cache, &alice, NULL, 0, 0);
      grow(cache, c, other, 4);
      MUST(quire_sequence_free(cache, c, error));
      const quire_sequence d = begin(cache, NULL, NULL, 0, 0);
      MUST(quire_sequence_reserve(cache, d, 10, error));
    }
    grow(cache, b, other + 2, 2);
    assert_int_equal(facts_of(cache, a).findable, 4);
    assert_int_equal(facts_of(cache, b).findable, 0);
    (void)begin(cache, &alice, text, 4, 4);
    if (!is_promised) {
      (void)begin(cache, &alice, other, 4, 0);
    }
    check_cache(cache);
    quire_cache_release(cache);
  }
}

static void the_index_is_small(void **state) {
  (void)state;
  static const int64_t sizes[] = {1, 16, 64};
  for (size_t i = 0; i < 3; ++i) {
    for (int with_states = 0; with_states < 2; ++with_states) {
      quire_cache_group group;
      quire_cache_options options = options_of(&group, 4096, sizes[i]);
      options.sequence_limit = 1;
      options.state_slots = with_states ? 16 : 0;
      quire_cache *cache = make_cache_with(&options);
      quire_cache_statistics statistics;
      quire_cache_get_statistics(cache, &statistics);
      if (statistics.metadata_bytes > 48 * (4096 + (uint64_t)options.state_slots)) {
        fail_msg("%g bytes a block", (double)statistics.metadata_bytes / 4096);
      }
      quire_cache_release(cache);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(keys_and_ids_decide_what_is_shared),
      cmocka_unit_test(collisions_share_nothing),
      cmocka_unit_test(least_recently_used_goes_first),
      cmocka_unit_test(a_match_respects_promises),
      cmocka_unit_test(duplicates_are_kept_apart),
      cmocka_unit_test(what_is_computed_again_takes_no_more_room),
      cmocka_unit_test(forks_inside_a_unit),
      cmocka_unit_test(the_index_is_small),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
