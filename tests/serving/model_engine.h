/* A small engine for the property test: a cache, its tensors, and what a step does to them. */
#ifndef QUIRE_TESTS_MODEL_ENGINE_H
#define QUIRE_TESTS_MODEL_ENGINE_H

#include "naive_cache.h"
#include "quire/quire.h"

enum {
  ENGINE_BLOCKS = 48,
  ENGINE_BLOCK_SIZE = 8,
  ENGINE_SLOTS = 40,
  ENGINE_COLUMNS = NAIVE_LENGTH,
  ENGINE_QUERY_HEADS = 4,
  ENGINE_QUERY = ENGINE_QUERY_HEADS * NAIVE_SIZE,
  ENGINE_ROWS = NAIVE_SEQUENCES * NAIVE_LENGTH,
  ENGINE_BATCH = NAIVE_SEQUENCES + 2,
  ENGINE_CACHE = ENGINE_BLOCKS * ENGINE_BLOCK_SIZE * NAIVE_ROW
};

typedef struct model_engine {
  uint64_t seed;
  randomness source;
  quire_device *device;
  quire_cache *cache;
  quire_cache_group groups[NAIVE_GROUPS];
  quire_cache_options options;
  int64_t unit;
  naive_sequence sequences[NAIVE_SEQUENCES];
  uint64_t owners;
  /* Tensors: group 0 as [NB, P, H, D], group 1 as pages [H, NB, P, D]. */
  float key_cache[NAIVE_GROUPS][ENGINE_CACHE], value_cache[NAIVE_GROUPS][ENGINE_CACHE];
  float states[ENGINE_SLOTS][NAIVE_STATE];
  int64_t cache_shape[NAIVE_GROUPS][4], cache_strides[NAIVE_GROUPS][4], state_shape[2];
  quire_cache_tensor tensors[2 * NAIVE_GROUPS + 1];
  size_t tensor_count;
  /* The step's arrays. */
  quire_batch batch;
  quire_batch_group batch_groups[NAIVE_GROUPS];
  quire_batch_entry entries[NAIVE_SEQUENCES];
  naive_sequence *members[NAIVE_SEQUENCES];
  size_t member_count;
  int32_t cumulative[ENGINE_BATCH + 1], past[ENGINE_BATCH], contexts[ENGINE_BATCH];
  int32_t positions[ENGINE_ROWS], slots[NAIVE_GROUPS][ENGINE_ROWS];
  int32_t tables[NAIVE_GROUPS][ENGINE_BATCH][ENGINE_COLUMNS];
  int32_t reads[ENGINE_BATCH], replays[ENGINE_BATCH],
      writes[ENGINE_BATCH * QUIRE_CACHE_MAX_STATE_WINDOW];
  float query[ENGINE_ROWS][ENGINE_QUERY], output[ENGINE_ROWS][ENGINE_QUERY];
  float new_keys[ENGINE_ROWS][NAIVE_ROW], new_values[ENGINE_ROWS][NAIVE_ROW];
  /* Counters that show what was exercised. */
  uint64_t steps, attentions, matched, refused, copies, restored;
} model_engine;

/* Another cache, of random options. */
void engine_open(model_engine *engine);
/* Ends every sequence; all must be free again. */
void engine_close(model_engine *engine);
/* What free blocks and slots hold is of no use to anybody. */
void engine_poison(model_engine *engine);
void engine_copy(model_engine *engine);
/* Everything that is visible of a sequence's committed tokens, and its state. */
void engine_verify(model_engine *engine, const naive_sequence *sequence);
/* Checks the arrays of a step that was built against the members. */
void engine_check_batch(model_engine *engine);
/* Stores the step's keys, values and states; by PagedAttention, whose result is compared, if asked.
 */
void engine_run(model_engine *engine, bool is_attention);

#endif
