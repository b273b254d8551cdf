/* Blocks for tokens to come: promises, append, and the copies that it orders. */
#include "cache_object.h"

/* What `count` more tokens take, group by group. */
typedef struct growth {
  int32_t need[QUIRE_CACHE_MAX_GROUPS];
  bool is_copy[QUIRE_CACHE_MAX_GROUPS];
  int32_t copies;
} growth;

static quire_status plan_growth(const quire_cache *cache, const quire_record *record, int64_t count,
                                growth *plan, quire_error *error) {
  if (count < 0) {
    return quire_serving_fail(error, QUIRE_BAD_VALUE, "SV-4", "count", "is %lld", (long long)count);
  }
  if (count > cache->length_limit - record->length) {
    return quire_serving_fail(error, QUIRE_LIMIT, "SV-4", "count",
                              "%lld tokens more than %ld, a sequence has at most %ld",
                              (long long)count, (long)record->length, (long)cache->length_limit);
  }
  plan->copies = 0;
  for (int32_t group = 0; group < cache->group_count; ++group) {
    const quire_pool *pool = &cache->pools[group];
    plan->need[group] =
        quire_record_need(cache, record, group, (int32_t)count, &plan->is_copy[group]);
    plan->copies += plan->is_copy[group];
    const int32_t available = quire_pool_available(pool) + record->reserved[group];
    if (plan->need[group] > available) {
      return quire_fail_exhausted(cache, pool, plan->need[group], available, error);
    }
  }
  return QUIRE_OK;
}

quire_status quire_sequence_reserve(quire_cache *cache, quire_sequence sequence, int64_t count,
                                    quire_error *error) {
  quire_record *record = NULL;
  QUIRE_SERVING_TRY(quire_record_find(cache, sequence, &record, error));
  growth plan = {.copies = 0};
  QUIRE_SERVING_TRY(plan_growth(cache, record, count, &plan, error));
  for (int32_t group = 0; group < cache->group_count; ++group) {
    quire_record_set_reserved(cache, record, group, plan.need[group]);
  }
  return QUIRE_OK;
}

/* The last block, partly filled, has other holders: from now on the sequence has its own. */
static void copy_last(quire_cache *cache, quire_record *record, int32_t group) {
  quire_pool *pool = &cache->pools[group];
  int32_t *last = &quire_record_table(cache, record, group)[record->length / pool->block_size];
  const int32_t source = *last;
  *last = quire_pool_take(cache, pool);
  quire_pool_drop(cache, pool, source);
  cache->copies[cache->copy_count++] = (quire_block_copy){group, source, *last};
  ++cache->copied_blocks;
}

quire_status quire_sequence_append(quire_cache *cache, quire_sequence sequence, int64_t count,
                                   quire_error *error) {
  quire_record *record = NULL;
  QUIRE_SERVING_TRY(quire_record_find(cache, sequence, &record, error));
  growth plan = {.copies = 0};
  QUIRE_SERVING_TRY(plan_growth(cache, record, count, &plan, error));
  if (plan.copies > cache->copy_limit - cache->copy_count) {
    return quire_serving_fail(error, QUIRE_LIMIT, "SV-9", "copies",
                              "%ld wait, at most %ld can: carry them out first",
                              (long)cache->copy_count, (long)cache->copy_limit);
  }
  for (int32_t group = 0; group < cache->group_count; ++group) {
    const int32_t promised = record->reserved[group];
    const int32_t used = plan.need[group] < promised ? plan.need[group] : promised;
    quire_record_set_reserved(cache, record, group, promised - used);
    if (plan.is_copy[group]) {
      copy_last(cache, record, group);
    }
  }
  quire_record_extend(cache, record, (int32_t)count);
  return QUIRE_OK;
}

const quire_block_copy *quire_cache_copies(const quire_cache *cache, size_t *count) {
  if (count != NULL) {
    *count = cache != NULL ? (size_t)cache->copy_count : 0;
  }
  return cache != NULL ? cache->copies : NULL;
}

void quire_cache_copies_done(quire_cache *cache) {
  if (cache != NULL) {
    cache->copy_count = 0;
  }
}
