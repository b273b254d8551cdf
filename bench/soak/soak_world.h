/* One world of a soak: a model, a cache, the tensors that it numbers, and who uses them. */
#ifndef QUIRE_SOAK_WORLD_H
#define QUIRE_SOAK_WORLD_H

#include <pthread.h>

#include "soak_model.h"
#include "soak_random.h"
#include "soak_reference.h"

enum { SOAK_SEQUENCES = 14, SOAK_KEYS = 3, SOAK_PROMPTS = 2, SOAK_DEVICES = 4 };
/* Forms of worlds that move between devices. */
enum { SOAK_FORMS = 2, SOAK_ALL_FORMS = (1 << SOAK_FORMS) - 1 };

/* What is counted. clang-format 14 never settles on a layout of this list. */
/* clang-format off */
#define SOAK_COUNTERS(X)                                                                  \
  X(steps) X(rows) X(reference_rows) X(mismatches) X(created) X(prefix_tokens)            \
  X(finished) X(cancelled) X(dropped_steps) X(preempted) X(forks) X(copied_blocks)        \
  X(rollbacks) X(drafts) X(refused_tokens) X(replays) X(evicted_blocks) X(evicted_states) \
  X(saved) X(restored) X(forgotten) X(reserved) X(out_of_memory) X(audits)                \
  X(device_switches) X(webgpu_steps) X(worlds)
/* clang-format on */

typedef struct soak_counters {
#define SOAK_COUNTER(name) uint64_t name;
  SOAK_COUNTERS(SOAK_COUNTER)
#undef SOAK_COUNTER
} soak_counters;

typedef struct soak_sequence {
  quire_sequence handle;
  bool is_live, is_busy, is_cancelled; /* busy: in a step; cancelled: to be freed after it */
  int key;                             /* -1: none */
  int32_t owner;                       /* enters every row: equal for equal keys, else unique */
  int32_t tokens[SOAK_LENGTH + SOAK_STEP];
  int64_t committed, target;
  soak_reference reference;
} soak_sequence;

/* All devices of a soak; they share one context. */
typedef struct soak_devices {
  quire_context *context;
  quire_device *reference;          /* scalar, one thread */
  quire_device *cpus[SOAK_DEVICES]; /* by instruction set */
  int cpu_count;
  quire_device *gpu; /* NULL: none */
} soak_devices;

typedef struct soak_world {
  const soak_devices *devices;
  soak_counters *counters;
  uint64_t seed;
  soak_random random; /* of the configuration */
  soak_model model;
  int64_t zone; /* first tokens, which run SOAK_STEP at a time: the other class of NU-8 */
  quire_cache_group groups[SOAK_GROUPS];
  quire_cache_options options;
  quire_cache *cache;
  soak_memory memory;
  void *host[SOAK_LAYERS][SOAK_LAYER_TENSORS], *buffers[SOAK_LAYERS][SOAK_LAYER_TENSORS];
  quire_cache_tensor tensors[SOAK_LAYERS * SOAK_LAYER_TENSORS];
  char names[SOAK_LAYERS * SOAK_LAYER_TENSORS][16];
  size_t tensor_count;
  bool may_switch, is_on_gpu; /* then results have a tolerance */
  unsigned form;              /* of a world that may */
  float tolerance;
  bool failed;
  int32_t owners;          /* without a key, so far */
  pthread_mutex_t mutex;   /* of everything but the tensors' contents */
  pthread_rwlock_t moving; /* readers use tensors; the writer moves them to another device */
  int32_t prompts[SOAK_PROMPTS][SOAK_LENGTH];
  soak_sequence sequences[SOAK_SEQUENCES];
} soak_world;

/* Opens a world of random form; the references of sequences are kept from world to world. */
bool soak_world_open(soak_world *world, uint64_t seed);
/* Ends every sequence, checks that everything is free again, and gives the memory back. */
void soak_world_close(soak_world *world);
/* Moves all tensors to the GPU, or back. Nobody may be using them. */
bool soak_world_move(soak_world *world);
/* Carries out waiting copies; under the mutex. */
bool soak_world_copy(soak_world *world);
/* Prints a failure, with what is needed to repeat it. */
void soak_world_fail(soak_world *world, const char *what, const quire_error *error);

/* What a thread does: `operations` operations on the world. */
typedef struct soak_worker {
  soak_world *world;
  soak_random random;
  int number;
  int64_t operations;
  soak_stage stage;
  soak_arrays arrays;
  soak_rows rows, reference_rows;
} soak_worker;
void *soak_worker_run(void *argument);

#endif
