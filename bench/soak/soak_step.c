#include "soak_step.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct step {
  soak_worker *worker;
  soak_world *world;
  soak_sequence *members[SOAK_BATCH];
  quire_batch_entry entries[SOAK_BATCH];
  int32_t accepted[SOAK_BATCH];
  size_t count;
  bool has_replay;
} step;

/* ---- scheduling, under the mutex ---- */

/* Somebody idle gives up everything: the way out when blocks are short. */
static void preempt(soak_world *world, soak_random *random) {
  const int64_t first = soak_between(random, 0, SOAK_SEQUENCES - 1);
  for (int64_t i = 0; i < SOAK_SEQUENCES; ++i) {
    soak_sequence *sequence = &world->sequences[(first + i) % SOAK_SEQUENCES];
    if (sequence->is_live && !sequence->is_busy) {
      quire_error error;
      if (quire_sequence_free(world->cache, sequence->handle, &error) != QUIRE_OK) {
        soak_world_fail(world, "preempting", &error);
      }
      sequence->is_live = false;
      world->counters->preempted += 1;
      return;
    }
  }
}

/* How many tokens the next step of a sequence takes, and how many of them are drafts. */
static quire_batch_entry plan_entry(step *s, const soak_sequence *sequence) {
  soak_world *world = s->world;
  soak_random *random = &s->worker->random;
  quire_batch_entry entry = {sequence->handle, 0, 0, 0};
  const int64_t left = sequence->target - sequence->committed;
  if (sequence->committed < world->zone) {
    entry.new_tokens = SOAK_STEP;
    return entry;
  }
  const int64_t most = left < 8 ? left : 8;
  entry.new_tokens = soak_between(random, 1, most);
  const bool has_states = world->options.state_slots > 0;
  const int64_t kind = soak_between(random, 0, 5);
  if (kind == 0) {
    entry.flags = QUIRE_STEP_KEEP_STATE;
  } else if (kind == 1 && has_states) {
    entry.flags = QUIRE_STEP_REPLAY;
  } else if (kind > 2) {
    int64_t chunk = entry.new_tokens;
    if (quire_sequence_get_chunk(world->cache, sequence->handle, chunk, &chunk, NULL) == QUIRE_OK) {
      entry.new_tokens = chunk > 0 ? chunk : 1;
    }
    return entry;
  }
  int64_t drafts = entry.new_tokens - 1;
  if (has_states && (entry.flags & QUIRE_STEP_REPLAY) == 0) {
    const int64_t window = world->model.state_window > 0 ? world->model.state_window - 1 : 0;
    drafts = drafts < window ? drafts : window;
  }
  entry.draft_tokens = drafts > 0 ? soak_between(random, 0, drafts) : 0;
  return entry;
}

static void choose_accepted(step *s, size_t i) {
  const quire_batch_entry *entry = &s->entries[i];
  soak_random *random = &s->worker->random;
  int64_t accepted =
      soak_between(random, entry->new_tokens - entry->draft_tokens, entry->new_tokens);
  if (entry->flags != 0 && soak_once_in(random, 4)) {
    accepted = 0;
  } else if ((entry->flags & QUIRE_STEP_REPLAY) != 0) {
    accepted = soak_between(random, 0, entry->new_tokens);
  }
  s->accepted[i] = (int32_t)accepted;
}

static void add_member(step *s, soak_sequence *sequence) {
  soak_world *world = s->world;
  quire_error error;
  const quire_batch_entry entry = plan_entry(s, sequence);
  const quire_status status =
      quire_sequence_append(world->cache, sequence->handle, entry.new_tokens, &error);
  if (status == QUIRE_OUT_OF_MEMORY) {
    world->counters->out_of_memory += 1;
    sequence->is_busy = true; /* another one */
    preempt(world, &s->worker->random);
    sequence->is_busy = false;
    return;
  }
  if (status == QUIRE_LIMIT) { /* copies wait */
    return;
  }
  if (status != QUIRE_OK) {
    soak_world_fail(world, "append", &error);
    return;
  }
  s->entries[s->count] = entry;
  s->members[s->count] = sequence;
  sequence->is_busy = true;
  sequence->is_cancelled = false;
  choose_accepted(s, s->count);
  s->has_replay = s->has_replay || (entry.flags & QUIRE_STEP_REPLAY) != 0;
  s->count += 1;
}

static void schedule(step *s) {
  soak_world *world = s->world;
  soak_random *random = &s->worker->random;
  const int64_t first = soak_between(random, 0, SOAK_SEQUENCES - 1);
  const int64_t most = soak_between(random, 1, SOAK_BATCH);
  for (int64_t i = 0; i < SOAK_SEQUENCES && (int64_t)s->count < most; ++i) {
    soak_sequence *sequence = &world->sequences[(first + i) % SOAK_SEQUENCES];
    if (sequence->is_live && !sequence->is_busy && sequence->committed < sequence->target) {
      add_member(s, sequence);
    }
  }
}

/* Takes the step back. */
static void drop(step *s) {
  soak_world *world = s->world;
  quire_error error;
  for (size_t i = 0; i < s->count; ++i) {
    soak_sequence *sequence = s->members[i];
    if (quire_sequence_truncate(world->cache, sequence->handle, sequence->committed,
                                QUIRE_TRUNCATE_COPY, &error) != QUIRE_OK) {
      soak_world_fail(world, "dropping a step", &error);
    }
    sequence->is_busy = false;
  }
  (void)soak_world_copy(world);
}

static quire_status build(step *s, quire_error *error) {
  soak_world *world = s->world;
  soak_arrays *arrays = &s->worker->arrays;
  quire_batch batch;
  quire_batch_group groups[SOAK_GROUPS];
  quire_batch_init(&batch);
  for (int g = 0; g < SOAK_GROUPS; ++g) {
    arrays->columns[g] =
        (SOAK_LENGTH + world->groups[g].block_size - 1) / world->groups[g].block_size;
    groups[g] = (quire_batch_group){&arrays->tables[g][0][0], arrays->columns[g], arrays->slots[g],
                                    NULL, -1};
  }
  batch.row_capacity = SOAK_ROWS;
  batch.sequence_capacity = SOAK_BATCH;
  batch.groups = groups;
  batch.group_count = SOAK_GROUPS;
  batch.cumulative_sequence_length = arrays->cumulative;
  batch.past_seqlens = arrays->past;
  batch.positions = arrays->positions;
  if (world->options.state_slots > 0) {
    batch.state_read = arrays->reads;
    batch.state_write = arrays->writes;
    batch.state_replay = arrays->replays;
  }
  const quire_status status = quire_batch_build(world->cache, s->entries, s->count, &batch, error);
  arrays->rows = batch.rows;
  arrays->sequences = batch.sequences;
  return status;
}

/* Tokens of the step: those of the text, and what the draft had wrong. */
static void set_tokens(step *s) {
  soak_arrays *arrays = &s->worker->arrays;
  for (size_t i = 0; i < s->count; ++i) {
    arrays->owners[i] = s->members[i]->owner;
    for (int64_t j = 0; j < s->entries[i].new_tokens; ++j) {
      int32_t token = s->members[i]->tokens[s->members[i]->committed + j];
      if (j >= s->accepted[i]) {
        token = (int32_t)soak_between(&s->worker->random, 64, 127);
      }
      arrays->tokens[arrays->cumulative[i] + j] = token;
    }
  }
}

/* ---- running, beside other threads ---- */

static void run_here(void *user, quire_task_function *task, void *task_user, size_t count) {
  (void)user;
  for (size_t i = 0; i < count; ++i) {
    task(task_user, i);
  }
}

static bool same(const soak_world *world, const float *got, const float *want) {
  if (!world->may_switch) {
    return memcmp((const unsigned char *)got, (const unsigned char *)want,
                  SOAK_HIDDEN * sizeof *got) == 0;
  }
  for (int i = 0; i < SOAK_HIDDEN; ++i) {
    if (!(fabsf(got[i] - want[i]) <= world->tolerance)) {
      return false;
    }
  }
  return true;
}

static void report_row(const step *s, size_t member, int64_t position, const float *got,
                       const float *want) {
  int worst = 0;
  for (int i = 1; i < SOAK_HIDDEN; ++i) {
    if (!(fabsf(got[i] - want[i]) <= fabsf(got[worst] - want[worst]))) {
      worst = i;
    }
  }
  (void)fprintf(
      stderr, "\nsoak: seed %llu: sequence %d, position %lld, %s: channel %d is %.9g, alone %.9g\n",
      (unsigned long long)s->world->seed, (int)(s->members[member] - s->world->sequences),
      (long long)position, s->world->is_on_gpu ? "WebGPU" : "CPU", worst, (double)got[worst],
      (double)want[worst]);
}

/* Every row against the sequence alone. Returns rows that differ. */
static uint64_t verify(step *s, uint64_t *reference_rows) {
  soak_world *world = s->world;
  soak_worker *worker = s->worker;
  const soak_arrays *arrays = &worker->arrays;
  const quire_executor here = {run_here, NULL, 1};
  const soak_place place = {world->devices->reference, &here, NULL};
  uint64_t mismatches = 0;
  for (size_t i = 0; i < s->count; ++i) {
    soak_sequence *sequence = s->members[i];
    const int64_t start = sequence->committed, count = s->entries[i].new_tokens;
    int32_t tokens[SOAK_LENGTH + SOAK_STEP];
    quire_error error;
    memcpy(tokens, sequence->tokens, (size_t)start * sizeof *tokens);
    memcpy(tokens + start, arrays->tokens + arrays->cumulative[i], (size_t)count * sizeof *tokens);
    const int64_t before = sequence->reference.length < start ? sequence->reference.length : start;
    *reference_rows += (uint64_t)(start + count - before);
    if (soak_reference_run(&sequence->reference, &world->model, &place, &worker->random,
                           world->zone, sequence->owner, tokens, start, count,
                           &worker->reference_rows, &error) != QUIRE_OK) {
      soak_world_fail(world, "the reference", &error);
      return mismatches + 1;
    }
    for (int64_t j = 0; j < count; ++j) {
      const float *got = worker->rows.hidden[arrays->cumulative[i] + j];
      const float *want = worker->reference_rows.hidden[j];
      if (!same(world, got, want)) {
        mismatches += 1;
        report_row(s, i, start + j, got, want);
      }
    }
  }
  return mismatches;
}

/* What was refused lies in the reference too, and is forgotten there. */
static soak_place choose_place(step *s, const quire_executor *here) {
  const soak_devices *devices = s->world->devices;
  if (s->world->is_on_gpu) {
    return (soak_place){devices->gpu, NULL, &s->worker->stage};
  }
  soak_random *random = &s->worker->random;
  quire_device *device = devices->cpus[soak_between(random, 0, devices->cpu_count - 1)];
  return (soak_place){device, soak_once_in(random, 3) ? NULL : here, NULL};
}

static bool run(step *s) {
  soak_world *world = s->world;
  soak_worker *worker = s->worker;
  const quire_executor here = {run_here, NULL, 1};
  const soak_place place = choose_place(s, &here);
  quire_error error;
  quire_status status = soak_forward(&world->model, &place, &world->memory, &worker->arrays,
                                     s->has_replay, &worker->rows, &error);
  uint64_t reference_rows = 0;
  const uint64_t mismatches = status == QUIRE_OK ? verify(s, &reference_rows) : 0;
  if (status == QUIRE_OK && s->has_replay) {
    int32_t accepted[SOAK_BATCH] = {0};
    for (size_t i = 0; i < s->count; ++i) {
      accepted[i] = worker->arrays.replays[i] >= 0 ? s->accepted[i] : 0;
    }
    status = soak_replay(&world->model, &place, &world->memory, &worker->arrays, accepted,
                         &worker->rows, &error);
  }
  (void)pthread_mutex_lock(&world->mutex);
  if (status != QUIRE_OK) {
    soak_world_fail(world, "a step", &error);
  }
  world->counters->steps += 1;
  world->counters->webgpu_steps += world->is_on_gpu;
  world->counters->rows += (uint64_t)worker->arrays.rows;
  world->counters->reference_rows += reference_rows;
  world->counters->mismatches += mismatches;
  world->failed = world->failed || mismatches > 0;
  return status == QUIRE_OK;
}

/* ---- committing, under the mutex ---- */

static void finish(soak_world *world, soak_sequence *sequence, uint64_t *counter) {
  quire_error error;
  if (quire_sequence_free(world->cache, sequence->handle, &error) != QUIRE_OK) {
    soak_world_fail(world, "free", &error);
  }
  sequence->is_live = false;
  *counter += 1;
}

static void commit(step *s, size_t i) {
  soak_world *world = s->world;
  soak_sequence *sequence = s->members[i];
  const quire_batch_entry *entry = &s->entries[i];
  quire_error error;
  sequence->is_busy = false;
  if (sequence->is_cancelled) {
    finish(world, sequence, &world->counters->cancelled);
    return;
  }
  if (quire_sequence_commit(world->cache, sequence->handle, sequence->tokens + sequence->committed,
                            s->accepted[i], &error) != QUIRE_OK) {
    soak_world_fail(world, "commit", &error);
    return;
  }
  world->counters->drafts += (uint64_t)entry->draft_tokens;
  world->counters->refused_tokens += (uint64_t)(entry->new_tokens - s->accepted[i]);
  world->counters->replays += (entry->flags & QUIRE_STEP_REPLAY) != 0;
  sequence->committed += s->accepted[i];
  if (sequence->committed == sequence->target &&
      soak_once_in(&s->worker->random, 3)) { /* others stay, for forks and rollbacks */
    finish(world, sequence, &world->counters->finished);
  }
}

void soak_step(soak_worker *worker) {
  soak_world *world = worker->world;
  step s = {.worker = worker, .world = world};
  quire_error error;
  (void)pthread_mutex_lock(&world->mutex);
  schedule(&s);
  if (s.count == 0 || !soak_world_copy(world)) {
    (void)pthread_mutex_unlock(&world->mutex);
    return;
  }
  const quire_status status = build(&s, &error);
  if (status != QUIRE_OK || soak_once_in(&worker->random, 20)) { /* cancelled before it ran */
    if (status == QUIRE_OUT_OF_MEMORY) {
      world->counters->out_of_memory += 1;
      drop(&s);
      preempt(world, &worker->random);
    } else if (status == QUIRE_OK) {
      world->counters->dropped_steps += 1;
      drop(&s);
    } else {
      soak_world_fail(world, "building a batch", &error);
    }
    (void)pthread_mutex_unlock(&world->mutex);
    return;
  }
  set_tokens(&s);
  (void)pthread_mutex_unlock(&world->mutex);
  const bool is_good = run(&s); /* takes the mutex again */
  for (size_t i = 0; i < s.count && is_good; ++i) {
    commit(&s, i);
  }
  (void)pthread_mutex_unlock(&world->mutex);
}
