/* Arguments that are NULL or out of range, for every call that takes some: refused, and nothing
 * changes. */
#include <string.h>

#include "serving_fixture.h"

static const int32_t text[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
static const quire_prefix_key alice = {{1, 0, 0, 0}};

static void results_need_a_place(void **state) {
  (void)state;
  quire_cache *cache = make_cache(8, 4);
  const quire_sequence s = begin(cache, NULL, NULL, 0, 0);
  grow(cache, s, text, 5);
  const int32_t *blocks = NULL;
  int64_t number = 7;
  MUST_FAIL(cache, QUIRE_BAD_REQUEST, "",
            quire_sequence_create(cache, NULL, NULL, 0, NULL, NULL, error));
  MUST_FAIL(cache, QUIRE_BAD_REQUEST, "", quire_sequence_fork(cache, s, NULL, error));
  MUST_FAIL(cache, QUIRE_BAD_REQUEST, "", quire_sequence_get_facts(cache, s, NULL, error));
  MUST_FAIL(cache, QUIRE_BAD_REQUEST, "", quire_cache_match(cache, &alice, text, 5, NULL, error));
  MUST_FAIL(cache, QUIRE_BAD_REQUEST, "", quire_cache_get_group(cache, 0, NULL, error));
  MUST_FAIL(cache, QUIRE_BAD_REQUEST, "",
            quire_sequence_get_blocks(cache, s, 0, NULL, &number, error));
  MUST_FAIL(cache, QUIRE_BAD_REQUEST, "",
            quire_sequence_get_blocks(cache, s, 0, &blocks, NULL, error));
  MUST_FAIL(cache, QUIRE_BAD_REQUEST, "", quire_sequence_get_chunk(cache, s, 4, NULL, error));
  MUST_FAIL(cache, QUIRE_BAD_REQUEST, "SV-5",
            quire_sequence_rollback_point(cache, s, 1, NULL, error));
  MUST_FAIL(cache, QUIRE_BAD_REQUEST, "", quire_cache_shared_prefix(cache, NULL, 0, NULL, error));
  MUST_FAIL(cache, QUIRE_BAD_REQUEST, "",
            quire_cache_shared_prefix(cache, NULL, 1, &number, error));
  assert_null(blocks);
  assert_int_equal(number, 7);
  quire_cache_release(cache);
}

static void numbers_have_ranges(void **state) {
  (void)state;
  quire_cache *cache = make_cache(8, 4);
  const quire_sequence s = begin(cache, NULL, NULL, 0, 0);
  grow(cache, s, text, 5);
  const int32_t *blocks = NULL;
  int64_t number = 7;
  quire_pool_statistics pool = {0};
  MUST_FAIL(cache, QUIRE_BAD_VALUE, "", quire_cache_get_group(cache, 1, &pool, error));
  MUST_FAIL(cache, QUIRE_BAD_REQUEST, "",
            quire_sequence_get_blocks(cache, s, 1, &blocks, &number, error));
  MUST_FAIL(cache, QUIRE_BAD_REQUEST, "", quire_sequence_get_chunk(cache, s, -1, &number, error));
  MUST_FAIL(cache, QUIRE_BAD_REQUEST, "SV-5",
            quire_sequence_rollback_point(cache, s, -1, &number, error));
  assert_null(blocks);
  assert_int_equal(number, 7);
  /* What is committed already can be kept without going back. */
  MUST(quire_sequence_rollback_point(cache, s, 5, &number, error));
  assert_int_equal(number, 5);
  quire_cache_release(cache);
}

static void no_cache_is_refused(void **state) {
  (void)state;
  quire_sequence s = 7;
  int64_t number = 7;
  quire_pool_statistics pool;
  quire_error error;
  memset(&pool, 0x55, sizeof pool);
  quire_cache_statistics statistics, before;
  memset(&statistics, 0x55, sizeof statistics);
  before = statistics;
  assert_int_equal(quire_sequence_create(NULL, NULL, NULL, 0, &s, NULL, &error), QUIRE_BAD_REQUEST);
  assert_string_equal(error.subject, "cache");
  assert_int_equal(quire_cache_match(NULL, &alice, text, 4, &number, &error), QUIRE_BAD_REQUEST);
  assert_int_equal(quire_cache_get_group(NULL, 0, &pool, &error), QUIRE_BAD_REQUEST);
  assert_int_equal(quire_cache_shared_prefix(NULL, NULL, 0, &number, &error), QUIRE_BAD_REQUEST);
  assert_int_equal(quire_sequence_restore(NULL, NULL, NULL, 0, "file", &s, &error),
                   QUIRE_BAD_REQUEST);
  assert_int_equal(quire_cache_check(NULL, &error), 0);
  assert_string_equal(error.message, "cache: is NULL");
  quire_cache_get_statistics(NULL, &statistics);
  assert_memory_equal(&statistics, &before, sizeof before);
  assert_int_equal(s, 7);
  assert_int_equal(number, 7);
}

static void groups_are_limited(void **state) {
  (void)state;
  enum { COUNT = 9 };
  quire_cache_group groups[COUNT];
  for (size_t i = 0; i < COUNT; ++i) {
    groups[i] = (quire_cache_group){4, 4, 0};
  }
  quire_cache_options options = options_of(groups, 4, 4);
  options.group_count = COUNT;
  quire_cache *cache = (quire_cache *)&options;
  quire_error error;
  assert_int_equal(quire_cache_create(&options, &cache, &error), QUIRE_BAD_VALUE);
  assert_null(cache);
  assert_non_null(strstr(error.message, "group_count"));
  assert_non_null(strstr(error.message, "9"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(results_need_a_place),
      cmocka_unit_test(numbers_have_ranges),
      cmocka_unit_test(no_cache_is_refused),
      cmocka_unit_test(groups_are_limited),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
