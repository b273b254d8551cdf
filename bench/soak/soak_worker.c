/* What a thread does all day. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "soak_step.h"

static const quire_prefix_key *key_of(int key) {
  static const quire_prefix_key keys[SOAK_KEYS] = {{{1, 0, 0, 0}}, {{1, 0, 0, 1}}, {{2, 7, 0, 1}}};
  return key < 0 ? NULL : &keys[key];
}

static soak_sequence *any_dead(soak_world *world) {
  for (int i = 0; i < SOAK_SEQUENCES; ++i) {
    if (!world->sequences[i].is_live) {
      return &world->sequences[i];
    }
  }
  return NULL;
}

/* A sequence that is busy, or one that is not; NULL: none. */
static soak_sequence *any_live(soak_world *world, soak_random *random, bool is_busy) {
  const int64_t first = soak_between(random, 0, SOAK_SEQUENCES - 1);
  for (int64_t i = 0; i < SOAK_SEQUENCES; ++i) {
    soak_sequence *sequence = &world->sequences[(first + i) % SOAK_SEQUENCES];
    if (sequence->is_live && sequence->is_busy == is_busy) {
      return sequence;
    }
  }
  return NULL;
}

static void expect(soak_world *world, quire_status status, const char *what,
                   const quire_error *error) {
  if (status == QUIRE_OUT_OF_MEMORY) {
    world->counters->out_of_memory += 1;
  } else if (status != QUIRE_OK) {
    soak_world_fail(world, what, error);
  }
}

/* ---- operations, under the mutex ---- */

/* A prompt that others have, and an end of its own. */
static void create(soak_worker *worker) {
  soak_world *world = worker->world;
  soak_random *random = &worker->random;
  soak_sequence *sequence = any_dead(world);
  quire_error error;
  int64_t matched = 0;
  if (sequence == NULL) {
    return;
  }
  const int32_t *prompt = world->prompts[soak_between(random, 0, SOAK_PROMPTS - 1)];
  const int64_t common = soak_between(random, 0, 80);
  sequence->target = soak_between(random, world->zone > 0 ? world->zone + 1 : 2, SOAK_LENGTH);
  for (int i = 0; i < SOAK_LENGTH + SOAK_STEP; ++i) {
    sequence->tokens[i] = i < common ? prompt[i] : (int32_t)soak_between(random, 0, 63);
  }
  sequence->key = (int)soak_between(random, -1, SOAK_KEYS - 1);
  sequence->owner = sequence->key >= 0 ? sequence->key : SOAK_KEYS + world->owners++;
  const quire_status status =
      quire_sequence_create(world->cache, key_of(sequence->key), sequence->tokens,
                            sequence->target - 1, &sequence->handle, &matched, &error);
  expect(world, status, "create", &error);
  if (status == QUIRE_OK) {
    sequence->is_live = true;
    sequence->is_busy = false;
    sequence->committed = matched;
    soak_reference_begin(&sequence->reference, &world->model);
    world->counters->created += 1;
    world->counters->prefix_tokens += (uint64_t)matched;
  }
}

/* A child takes the parent's text so far, and goes its own way. */
static void follow(soak_worker *worker, soak_sequence *child, const soak_sequence *parent) {
  memcpy(child->tokens, parent->tokens, sizeof child->tokens);
  child->committed = parent->committed;
  child->key = parent->key;
  child->owner = parent->owner;
  child->target = SOAK_LENGTH;
  child->is_live = true;
  child->is_busy = false;
  for (int64_t i = child->committed; i < SOAK_LENGTH + SOAK_STEP; ++i) {
    child->tokens[i] = (int32_t)soak_between(&worker->random, 0, 63);
  }
  soak_reference_begin(&child->reference, &worker->world->model);
}

static void fork_one(soak_worker *worker) {
  soak_world *world = worker->world;
  soak_sequence *parent = any_live(world, &worker->random, false), *child = any_dead(world);
  quire_error error;
  if (parent == NULL || child == NULL) {
    return;
  }
  const quire_status status =
      quire_sequence_fork(world->cache, parent->handle, &child->handle, &error);
  expect(world, status, "fork", &error);
  if (status == QUIRE_OK) {
    follow(worker, child, parent);
    world->counters->forks += 1;
  }
}

static void roll_back(soak_worker *worker) {
  soak_world *world = worker->world;
  soak_random *random = &worker->random;
  soak_sequence *sequence = any_live(world, random, false);
  quire_error error;
  int64_t point = 0;
  if (sequence == NULL) {
    return;
  }
  int64_t length = soak_between(random, 0, sequence->committed);
  for (int i = 0; i < 2; ++i) { /* in the zone, steps end at multiples */
    length = length < world->zone ? length / SOAK_STEP * SOAK_STEP : length;
    if (quire_sequence_rollback_point(world->cache, sequence->handle, length, &point, &error) !=
        QUIRE_OK) {
      soak_world_fail(world, "rollback point", &error);
      return;
    }
    length = point;
  }
  if (length < world->zone && length % SOAK_STEP != 0) {
    return;
  }
  const quire_status status =
      quire_sequence_truncate(world->cache, sequence->handle, length, QUIRE_TRUNCATE_COPY, &error);
  expect(world, status, "truncate", &error);
  if (status == QUIRE_OK) {
    world->counters->rollbacks += sequence->committed > length;
    sequence->committed = length;
    sequence->target = SOAK_LENGTH;
    for (int64_t i = length; i < SOAK_LENGTH + SOAK_STEP; ++i) {
      sequence->tokens[i] = (int32_t)soak_between(random, 0, 63);
    }
    (void)soak_world_copy(world);
  }
}

static void cancel(soak_worker *worker) {
  soak_world *world = worker->world;
  soak_sequence *busy = any_live(world, &worker->random, true);
  quire_error error;
  if (busy != NULL) {
    busy->is_cancelled = true; /* whoever runs it will see */
    return;
  }
  soak_sequence *idle = any_live(world, &worker->random, false);
  if (idle != NULL) {
    expect(world, quire_sequence_free(world->cache, idle->handle, &error), "free", &error);
    idle->is_live = false;
    world->counters->cancelled += 1;
    if (quire_sequence_free(world->cache, idle->handle, NULL) != QUIRE_NOT_FOUND) {
      soak_world_fail(world, "a handle works after free", NULL);
    }
  }
}

static void save_and_restore(soak_worker *worker) {
  soak_world *world = worker->world;
  soak_sequence *sequence = any_live(world, &worker->random, false), *copy = any_dead(world);
  quire_error error;
  char path[96];
  if (sequence == NULL || copy == NULL || world->is_on_gpu) {
    return;
  }
  (void)snprintf(path, sizeof path, "soak-%ld-%d.safetensors", (long)getpid(), worker->number);
  if (quire_sequence_save(world->cache, sequence->handle, world->tensors, world->tensor_count, path,
                          &error) != QUIRE_OK) {
    soak_world_fail(world, "save", &error);
    return;
  }
  world->counters->saved += 1;
  const quire_status status =
      quire_sequence_restore(world->cache, key_of(sequence->key), world->tensors,
                             world->tensor_count, path, &copy->handle, &error);
  (void)remove(path);
  expect(world, status, "restore", &error);
  if (status == QUIRE_OK) {
    follow(worker, copy, sequence);
    world->counters->restored += 1;
  }
}

static void reserve(soak_worker *worker) {
  soak_world *world = worker->world;
  soak_sequence *sequence = any_live(world, &worker->random, false);
  quire_error error;
  if (sequence != NULL) {
    const int64_t most = SOAK_LENGTH - sequence->committed;
    const quire_status status = quire_sequence_reserve(
        world->cache, sequence->handle, soak_between(&worker->random, 0, most / 4), &error);
    expect(world, status, "reserve", &error);
    world->counters->reserved += status == QUIRE_OK;
  }
}

static void audit(soak_worker *worker) {
  quire_error error;
  if (quire_cache_check(worker->world->cache, &error) != 1) {
    soak_world_fail(worker->world, "the books do not balance", &error);
  }
  worker->world->counters->audits += 1;
}

static void forget(soak_worker *worker) {
  quire_cache_forget(worker->world->cache);
  worker->world->counters->forgotten += 1;
}

typedef void operation(soak_worker *worker);

static operation *choose(soak_random *random) {
  static const struct {
    int64_t share; /* of a thousand */
    operation *run;
  } operations[] = {{150, create}, {60, fork_one},         {60, roll_back}, {40, cancel},
                    {20, reserve}, {20, save_and_restore}, {8, audit},      {2, forget}};
  int64_t at = soak_between(random, 0, 999);
  for (size_t i = 0; i < sizeof operations / sizeof *operations; ++i) {
    if (at < operations[i].share) {
      return operations[i].run;
    }
    at -= operations[i].share;
  }
  return NULL;
}

/* ---- a thread ---- */

/* Waits until nobody is in a step, and moves everything to the other device. */
static void move(soak_worker *worker) {
  soak_world *world = worker->world;
  (void)pthread_rwlock_wrlock(&world->moving);
  (void)soak_world_move(world);
  (void)pthread_rwlock_unlock(&world->moving);
}

void *soak_worker_run(void *argument) {
  soak_worker *worker = argument;
  soak_world *world = worker->world;
  bool failed = false;
  for (int64_t i = 0; i < worker->operations && !failed; ++i) {
    if (world->may_switch && soak_once_in(&worker->random, 60)) {
      move(worker);
    }
    (void)pthread_rwlock_rdlock(&world->moving);
    operation *other = choose(&worker->random);
    if (other == NULL) {
      soak_step(worker);
    }
    (void)pthread_mutex_lock(&world->mutex);
    if (other != NULL && soak_world_copy(world)) {
      other(worker);
      (void)soak_world_copy(world);
    }
    failed = world->failed;
    (void)pthread_mutex_unlock(&world->mutex);
    (void)pthread_rwlock_unlock(&world->moving);
  }
  return NULL;
}
