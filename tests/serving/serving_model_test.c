/*
 * Random operations against a reference that shares nothing. QUIRE_SERVING_OPERATIONS sets how many
 * (the slow run: 1000000), QUIRE_SEED where they begin.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache_object.h"
#include "model_engine.h"

enum { KEYS = 3, OPERATIONS = 100000, OPERATIONS_OF_A_CACHE = 2000 };

static const quire_prefix_key keys[KEYS] = {{{1, 0, 0, 0}}, {{1, 0, 0, 1}}, {{1, 0, 0, 2}}};

static const quire_prefix_key *key_of(int key) {
  return key >= 0 ? &keys[key] : NULL;
}

/* Texts are alike, so that there is much to share. */
static int32_t any_token(model_engine *engine) {
  return random_between(&engine->source, 0, 15) == 0;
}

static naive_sequence *any_live(model_engine *engine) {
  const int64_t first = random_between(&engine->source, 0, NAIVE_SEQUENCES - 1);
  for (int64_t i = 0; i < NAIVE_SEQUENCES; ++i) {
    naive_sequence *sequence = &engine->sequences[(first + i) % NAIVE_SEQUENCES];
    if (sequence->is_live) {
      return sequence;
    }
  }
  return NULL;
}

static naive_sequence *any_dead(model_engine *engine) {
  for (int i = 0; i < NAIVE_SEQUENCES; ++i) {
    if (!engine->sequences[i].is_live) {
      return &engine->sequences[i];
    }
  }
  return NULL;
}

static int64_t live_count(const model_engine *engine) {
  int64_t count = 0;
  for (int i = 0; i < NAIVE_SEQUENCES; ++i) {
    count += engine->sequences[i].is_live;
  }
  return count;
}

/* The step has run and has overwritten the state it read: only commit is left. */
static bool must_commit(const model_engine *engine, const naive_sequence *sequence) {
  return engine->options.state_slots > 0 && sequence->step > 0 && !sequence->keeps_state;
}

/* A refusal leaves everything as it is. */
static void expect_unchanged(model_engine *engine, quire_status status, uint64_t before) {
  if (status != QUIRE_OK) {
    ++engine->refused;
    assert_true(fingerprint(engine->cache) == before);
  }
}

static quire_record *record_of(const model_engine *engine, const naive_sequence *sequence) {
  return &engine->cache->records[sequence->handle & UINT32_MAX];
}

/* ---- creation ---- */

/* Often the beginning of a text that some sequence has or had, and mostly by the same key. */
static int64_t make_prompt(model_engine *engine, int32_t *prompt, int *key) {
  randomness *source = &engine->source;
  const naive_sequence *old = &engine->sequences[random_between(source, 0, NAIVE_SEQUENCES - 1)];
  const int64_t count = random_between(source, 0, engine->options.length_limit);
  int64_t common = 0;
  *key = random_between(source, 0, 3) == 0 ? (int)random_between(source, -1, KEYS - 1) : old->key;
  if (random_between(source, 0, 7) > 0) {
    common = old->length < count ? old->length : count;
    memcpy(prompt, old->tokens, (size_t)common * sizeof *prompt);
  }
  for (int64_t i = common; i < count; ++i) {
    prompt[i] = any_token(engine);
  }
  return count;
}

/* What live sequences can be seen to share must be found. */
static int64_t least_match(const model_engine *engine, int key, const int32_t *prompt,
                           int64_t count) {
  int64_t least = 0;
  for (int i = 0; i < NAIVE_SEQUENCES && key >= 0; ++i) {
    const naive_sequence *other = &engine->sequences[i];
    if (other->is_live && other->key == key) {
      const int64_t findable = facts_of(engine->cache, other->handle).findable;
      int64_t common = 0;
      while (common < count && common < findable && other->tokens[common] == prompt[common]) {
        ++common;
      }
      common = common / engine->unit * engine->unit;
      least = common > least ? common : least;
    }
  }
  const bool is_whole = engine->options.state_slots == 0 &&
                        (engine->options.group_count == 1 || engine->groups[1].window == 0);
  return is_whole ? least : 0;
}

static void create(model_engine *engine) {
  int32_t prompt[NAIVE_LENGTH];
  int key;
  const int64_t count = make_prompt(engine, prompt, &key);
  naive_sequence *sequence = any_dead(engine);
  const bool has_room = live_count(engine) < engine->options.sequence_limit;
  const uint64_t before = fingerprint(engine->cache);
  const int64_t least = least_match(engine, key, prompt, count);
  quire_sequence handle = 0;
  int64_t matched = 0;
  const quire_status status =
      quire_sequence_create(engine->cache, key_of(key), prompt, count, &handle, &matched, NULL);
  expect_unchanged(engine, status, before);
  if (!has_room || status != QUIRE_OK) {
    assert_int_equal(status, has_room ? QUIRE_OUT_OF_MEMORY : QUIRE_LIMIT);
    return;
  }
  assert_true(matched >= least && matched <= count && matched % engine->unit == 0);
  assert_true(key >= 0 || matched == 0);
  naive_begin(sequence, key, key >= 0 ? (uint64_t)key : 1000 + engine->owners++);
  sequence->handle = handle;
  for (int64_t i = 0; i < matched; ++i) {
    naive_set(sequence, i, prompt[i]);
  }
  sequence->length = matched;
  sequence->committed = matched;
  engine->matched += (uint64_t)matched;
  engine_verify(engine, sequence);
}

static void fork_one(model_engine *engine) {
  naive_sequence *parent = any_live(engine);
  naive_sequence *child = any_dead(engine);
  for (int i = 0; i < 8 && parent != NULL && parent->length != parent->committed; ++i) {
    parent = any_live(engine);
  }
  if (parent == NULL) {
    return;
  }
  quire_sequence handle = 0;
  const bool is_possible = child != NULL && parent->length == parent->committed &&
                           live_count(engine) < engine->options.sequence_limit;
  const uint64_t before = fingerprint(engine->cache);
  const quire_status status = quire_sequence_fork(engine->cache, parent->handle, &handle, NULL);
  expect_unchanged(engine, status, before);
  if (status == QUIRE_OK) {
    assert_true(is_possible);
    *child = *parent;
    child->handle = handle;
    child->step = 0;
    engine_copy(engine);
    engine_verify(engine, child);
  } else {
    assert_true(!is_possible || status == QUIRE_OUT_OF_MEMORY);
  }
}

static void free_one(model_engine *engine) {
  naive_sequence *sequence = any_live(engine);
  if (sequence != NULL) {
    MUST(quire_sequence_free(engine->cache, sequence->handle, error));
    sequence->is_live = false;
    const uint64_t before = fingerprint(engine->cache);
    assert_int_equal(quire_sequence_free(engine->cache, sequence->handle, NULL), QUIRE_NOT_FOUND);
    assert_true(fingerprint(engine->cache) == before);
  }
}

/* ---- growth ---- */

/* Whether the pools could give what is needed, a copy of the last block left aside. */
static bool would_fit(const model_engine *engine, const naive_sequence *sequence, int64_t count,
                      int64_t spare) {
  for (size_t group = 0; group < engine->options.group_count; ++group) {
    const int64_t size = engine->groups[group].block_size;
    const int64_t need =
        (sequence->length + count + size - 1) / size - (sequence->length + size - 1) / size;
    const quire_pool_statistics pool = group_of(engine->cache, group);
    const int64_t own = record_of(engine, sequence)->reserved[group];
    if (need + spare > pool.free + pool.cached - pool.reserved + own) {
      return false;
    }
  }
  return true;
}

static void append(model_engine *engine, bool is_promise) {
  naive_sequence *sequence = any_live(engine);
  if (sequence == NULL) {
    return;
  }
  const int64_t count = random_between(&engine->source, 0, random_between(&engine->source, 1, 24));
  const bool fits = would_fit(engine, sequence, count, 0);
  const bool fits_well = would_fit(engine, sequence, count, 1);
  const bool is_long = sequence->length + count > engine->options.length_limit;
  const uint64_t before = fingerprint(engine->cache);
  const quire_status status =
      is_promise ? quire_sequence_reserve(engine->cache, sequence->handle, count, NULL)
                 : quire_sequence_append(engine->cache, sequence->handle, count, NULL);
  expect_unchanged(engine, status, before);
  if (is_long) {
    assert_int_equal(status, QUIRE_LIMIT);
  } else if (status == QUIRE_LIMIT) { /* too many copies wait */
    engine_copy(engine);
  } else {
    assert_true(status == QUIRE_OK ? fits : !fits_well);
    assert_true(status == QUIRE_OK || status == QUIRE_OUT_OF_MEMORY);
  }
  if (status == QUIRE_OK && !is_promise) {
    for (int64_t i = 0; i < count; ++i) {
      naive_set(sequence, sequence->length + i, any_token(engine));
    }
    sequence->length += count;
  }
}

static void truncate_one(model_engine *engine) {
  naive_sequence *sequence = any_live(engine);
  if (sequence == NULL || must_commit(engine, sequence)) {
    return;
  }
  int64_t length = random_between(&engine->source, 0, sequence->length + 1);
  if (random_between(&engine->source, 0, 1) == 0 && length < sequence->committed) {
    length = sequence->committed; /* most often, only a step is dropped */
  }
  const uint32_t flags = (uint32_t)random_between(&engine->source, 0, 1);
  int64_t point = 0;
  MUST(quire_sequence_rollback_point(engine->cache, sequence->handle, length, &point, error));
  const uint64_t before = fingerprint(engine->cache);
  const quire_status status =
      quire_sequence_truncate(engine->cache, sequence->handle, length, flags, NULL);
  expect_unchanged(engine, status, before);
  assert_true(status == QUIRE_OK || status == QUIRE_BAD_VALUE);
  assert_true(status != QUIRE_OK || point == length);
  assert_true(status == QUIRE_OK || point < length || flags == 0);
  if (status == QUIRE_OK) {
    sequence->length = length;
    sequence->committed = length < sequence->committed ? length : sequence->committed;
    sequence->step = 0;
    engine_copy(engine);
    engine_verify(engine, sequence);
  }
}

/* ---- steps ---- */

static void choose_members(model_engine *engine) {
  randomness *source = &engine->source;
  engine->member_count = 0;
  for (int i = 0; i < NAIVE_SEQUENCES; ++i) {
    naive_sequence *sequence = &engine->sequences[i];
    const int64_t waiting = sequence->length - sequence->committed;
    if (!sequence->is_live || must_commit(engine, sequence) || random_between(source, 0, 2) == 0) {
      continue;
    }
    quire_batch_entry *entry = &engine->entries[engine->member_count];
    const int64_t tokens = waiting > 0 ? random_between(source, 1, waiting) : 0;
    int64_t most = tokens;
    const uint32_t flags = (uint32_t)random_between(source, 0, 3);
    if (engine->options.state_slots > 0 && (flags & QUIRE_STEP_REPLAY) == 0) {
      most = engine->options.state_window > 1 ? engine->options.state_window - 1 : 0;
      most = tokens - 1 < most ? tokens - 1 : most;
    }
    const int64_t drafts = most > 0 ? random_between(source, 0, most) : 0;
    *entry = (quire_batch_entry){sequence->handle, tokens, drafts, flags};
    engine->members[engine->member_count++] = sequence;
  }
}

static void prepare_batch(model_engine *engine) {
  randomness *source = &engine->source;
  quire_batch *batch = &engine->batch;
  quire_batch_init(batch);
  batch->row_capacity = ENGINE_ROWS;
  batch->sequence_capacity = ENGINE_BATCH;
  batch->groups = engine->batch_groups;
  batch->group_count = engine->options.group_count;
  batch->cumulative_sequence_length = engine->cumulative;
  batch->past_seqlens = engine->past;
  batch->context_lengths = engine->contexts;
  batch->positions = engine->positions;
  batch->state_read = engine->reads;
  batch->state_write = engine->writes;
  batch->state_replay = engine->replays;
  for (int group = 0; group < NAIVE_GROUPS; ++group) {
    engine->batch_groups[group] = (quire_batch_group){&engine->tables[group][0][0], ENGINE_COLUMNS,
                                                      engine->slots[group], NULL, 0};
  }
  if (random_between(source, 0, 2) == 0) {
    int64_t rows = 0;
    for (size_t i = 0; i < engine->member_count; ++i) {
      rows += engine->entries[i].new_tokens;
    }
    batch->padded_sequences = (int64_t)engine->member_count + random_between(source, 1, 2);
    batch->padded_rows = rows + random_between(source, 0, 3);
  }
}

/* Every sequence that reads a state must find one; slots may be too few. */
static void step(model_engine *engine) {
  choose_members(engine);
  prepare_batch(engine);
  engine_copy(engine);
  const uint64_t before = fingerprint(engine->cache);
  const quire_status status =
      quire_batch_build(engine->cache, engine->entries, engine->member_count, &engine->batch, NULL);
  expect_unchanged(engine, status, before);
  if (status != QUIRE_OK) {
    assert_int_equal(status, QUIRE_OUT_OF_MEMORY);
    assert_true(engine->options.state_slots > 0);
    return;
  }
  engine_check_batch(engine);
  const bool is_run = random_between(&engine->source, 0, 9) > 0;
  if (is_run) {
    engine_run(engine, random_between(&engine->source, 0, 99) == 0 && engine->member_count > 0);
  }
  for (size_t i = 0; i < engine->member_count; ++i) {
    engine->members[i]->step = is_run ? engine->entries[i].new_tokens : 0;
    engine->members[i]->drafts = engine->entries[i].draft_tokens;
    const quire_record *record = record_of(engine, engine->members[i]);
    engine->members[i]->replay = engine->options.state_slots > 0 ? engine->replays[i] : -1;
    engine->members[i]->keeps_state = engine->members[i]->replay >= 0 || record->write_count == 0 ||
                                      record->writes[0] != record->state;
  }
}

static void commit(model_engine *engine) {
  naive_sequence *sequence = any_live(engine);
  if (sequence == NULL || sequence->step == 0) {
    return;
  }
  randomness *source = &engine->source;
  const int64_t count = random_between(source, 0, sequence->step);
  const bool is_kept =
      engine->options.state_slots == 0 || sequence->replay >= 0 ||
      (count == 0 ? sequence->keeps_state : count >= sequence->step - sequence->drafts);
  if (sequence->replay >= 0) { /* none accepted: the old state, which may be in this very slot */
    memcpy(engine->states[sequence->replay], sequence->states[sequence->committed + count],
           sizeof engine->states[0]);
  }
  const int32_t *tokens =
      random_between(source, 0, 31) == 0 ? NULL : sequence->tokens + sequence->committed;
  const uint64_t before = fingerprint(engine->cache);
  const quire_status status =
      quire_sequence_commit(engine->cache, sequence->handle, tokens, count, NULL);
  expect_unchanged(engine, status, before);
  assert_int_equal(status, is_kept ? QUIRE_OK : QUIRE_BAD_VALUE);
  if (status == QUIRE_OK) {
    sequence->committed += count;
    if (count < sequence->step) {
      sequence->length = sequence->committed;
    }
    sequence->step = 0;
    engine_verify(engine, sequence);
  }
}

/* ---- files ---- */

static void save_and_restore(model_engine *engine) {
  naive_sequence *sequence = any_live(engine);
  naive_sequence *copy = any_dead(engine);
  if (sequence == NULL || copy == NULL || sequence->length != sequence->committed) {
    return;
  }
  engine_copy(engine);
  char path[64];
  (void)snprintf(path, sizeof path, "serving_model_%llx.safetensors",
                 (unsigned long long)random_bits(&engine->source));
  MUST(quire_sequence_save(engine->cache, sequence->handle, engine->tensors, engine->tensor_count,
                           path, error));
  const uint64_t before = fingerprint(engine->cache);
  quire_sequence handle = 0;
  const quire_status status =
      quire_sequence_restore(engine->cache, key_of(sequence->key), engine->tensors,
                             engine->tensor_count, path, &handle, NULL);
  assert_int_equal(remove(path), 0);
  expect_unchanged(engine, status, before);
  if (status == QUIRE_OK) {
    *copy = *sequence;
    copy->handle = handle;
    copy->step = 0;
    engine_verify(engine, copy);
    ++engine->restored;
  } else {
    assert_true(status == QUIRE_OUT_OF_MEMORY || status == QUIRE_LIMIT);
  }
}

/* ---- the test ---- */

static void operate(model_engine *engine) {
  const int64_t choice = random_between(&engine->source, 0, 99);
  if (choice < 12) {
    create(engine);
  } else if (choice < 32) {
    append(engine, false);
  } else if (choice < 52) {
    step(engine);
  } else if (choice < 78) {
    commit(engine);
  } else if (choice < 82) {
    fork_one(engine);
  } else if (choice < 85) {
    truncate_one(engine);
  } else if (choice < 95) {
    free_one(engine);
  } else if (choice < 98) {
    append(engine, true);
  } else if (choice < 99) {
    engine_copy(engine);
  } else if (random_between(&engine->source, 0, 9) == 0) {
    save_and_restore(engine);
  } else if (random_between(&engine->source, 0, 9) == 0) {
    quire_cache_forget(engine->cache);
  }
}

static void verify_all(model_engine *engine) {
  engine_copy(engine);
  for (int i = 0; i < NAIVE_SEQUENCES; ++i) {
    /* A step that wrote states in place is verified when it is committed. */
    if (engine->sequences[i].is_live && engine->sequences[i].step == 0) {
      engine_verify(engine, &engine->sequences[i]);
    }
  }
}

static int64_t number_from(const char *variable, int64_t otherwise) {
  const char *text = getenv(variable);
  return text != NULL ? (int64_t)strtoull(text, NULL, 0) : otherwise;
}

static void a_cache_does_what_a_naive_one_does(void **state) {
  (void)state;
  model_engine *engine = calloc(1, sizeof *engine);
  assert_non_null(engine);
  engine->seed = (uint64_t)number_from("QUIRE_SEED", 20240607);
  const int64_t operations = number_from("QUIRE_SERVING_OPERATIONS", OPERATIONS);
  engine->source.state = engine->seed;
  quire_device_options options;
  quire_device_options_init(&options);
  options.threads = 1;
  cpu_device cpu = cpu_open(NULL, &options);
  engine->device = cpu.device;
  for (int64_t i = 0; i < operations; ++i) {
    if (i % OPERATIONS_OF_A_CACHE == 0) {
      if (i > 0) {
        engine_close(engine);
      }
      engine->seed = engine->source.state; /* what to set QUIRE_SEED to */
      engine_open(engine);
    }
    operate(engine);
    if (i % 16 == 0) {
      engine_poison(engine);
    }
    if (i % 64 == 0) {
      check_cache(engine->cache);
      verify_all(engine);
    }
  }
  engine_close(engine);
  printf(
      "%lld operations: %llu steps, %llu attended, %llu tokens matched, %llu blocks copied, "
      "%llu restored, %llu refused\n",
      (long long)operations, (unsigned long long)engine->steps,
      (unsigned long long)engine->attentions, (unsigned long long)engine->matched,
      (unsigned long long)engine->copies, (unsigned long long)engine->restored,
      (unsigned long long)engine->refused);
  assert_true(operations < OPERATIONS || (engine->attentions > 0 && engine->matched > 0 &&
                                          engine->copies > 0 && engine->refused > 0));
  cpu_close(&cpu);
  free(engine);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_cache_does_what_a_naive_one_does)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
