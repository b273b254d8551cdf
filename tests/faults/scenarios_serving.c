/* The serving layer: all memory is taken when a cache is made, and for files. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fault_forms.h"
#include "quire/serving.h"

enum {
  BLOCKS = 12,
  SIZE = 4,
  HEADS = 2,
  DIM = 4,
  SLOTS = 6,
  TOKENS = 11,
  LAYERS = 3,
  MOST_FILE = 1 << 14
};

static const char path[] = "fault_sequence.safetensors";
static const int32_t ids[32] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3,
                                2, 3, 8, 4, 6, 2, 6, 4, 3, 3, 8, 3, 2, 7, 9, 5};
static const quire_prefix_key key = {{1, 2, 3, 4}};

/* An engine: its books, and tensors in host memory. */
typedef struct engine {
  quire_cache *cache;
  quire_sequence sequence, other;
  float keys[BLOCKS][SIZE][HEADS][DIM], values[BLOCKS][SIZE][HEADS][DIM], states[SLOTS][DIM];
  int64_t cache_shape[4], state_shape[2];
  quire_cache_tensor tensors[LAYERS];
} engine;

static const quire_cache_group groups[2] = {{BLOCKS, SIZE, 0}, {BLOCKS, SIZE, 6}};

static quire_status create(engine *made, quire_error *error) {
  quire_cache_options options;
  quire_cache_options_init(&options);
  options.allocator = &fault_allocator;
  options.groups = groups;
  options.group_count = 2;
  options.sequence_limit = 4;
  options.state_slots = SLOTS;
  return quire_cache_create(&options, &made->cache, error);
}

/* ---- what can be seen ---- */

static uint64_t hash_file(uint64_t hash) {
  static unsigned char bytes[MOST_FILE];
  FILE *file = fopen(path, "rb");
  const size_t size = file == NULL ? 0 : fread(bytes, 1, sizeof bytes, file);
  if (file != NULL) {
    assert_int_equal(fclose(file), 0);
  }
  return fault_hash(hash, bytes, size);
}

static uint64_t hash_sequence(uint64_t hash, const engine *own, quire_sequence sequence) {
  quire_sequence_facts facts;
  if (quire_sequence_get_facts(own->cache, sequence, &facts, NULL) != QUIRE_OK) {
    return hash;
  }
  const int64_t members[] = {facts.length, facts.committed, facts.matched, facts.findable,
                             facts.state}; /* the struct has padding */
  hash = fault_hash(hash, members, sizeof members);
  for (size_t group = 0; group < 2; group++) {
    const int32_t *blocks = NULL;
    int64_t count = 0;
    quire_error error;
    fault_must(quire_sequence_get_blocks(own->cache, sequence, group, &blocks, &count, &error),
               &error);
    hash = fault_hash(hash, blocks, (size_t)count * sizeof *blocks);
  }
  return hash;
}

/* Of what the cache keeps for later, a file that cannot be read a second time may cost some. */
static uint64_t hash_pool(uint64_t hash, const quire_pool_statistics *pool, bool rereads) {
  const int64_t held[] = {pool->count, pool->used, pool->cached + pool->free, pool->reserved,
                          pool->shared};
  return rereads ? fault_hash(hash, held, sizeof held) : fault_hash(hash, pool, sizeof *pool);
}

/* Rows of the sequence's blocks. */
static uint64_t hash_rows(uint64_t hash, const engine *own, quire_sequence sequence) {
  const int32_t *blocks = NULL;
  int64_t count = 0;
  if (quire_sequence_get_blocks(own->cache, sequence, 0, &blocks, &count, NULL) != QUIRE_OK) {
    return hash;
  }
  for (int64_t i = 0; i < count; i++) {
    hash = fault_hash(hash, own->keys[blocks[i]], sizeof own->keys[0]);
  }
  return hash;
}

/* Statistics, sequences, copies that wait, the tensors and the file. */
static uint64_t look(const fault_world *world) {
  const engine *own = world->own;
  quire_error error = {QUIRE_OK, "", "", ""};
  uint64_t hash = hash_file(7);
  if (own->cache == NULL) {
    return hash;
  }
  if (quire_cache_check(own->cache, &error) != 1) {
    fail_msg("the books do not balance: %s", error.message);
  }
  quire_cache_statistics statistics;
  quire_cache_get_statistics(own->cache, &statistics);
  hash = fault_hash(hash, &statistics.sequences, sizeof statistics.sequences);
  hash = hash_pool(hash, &statistics.states, world->rereads);
  for (size_t group = 0; group < 2; group++) {
    quire_pool_statistics pool;
    fault_must(quire_cache_get_group(own->cache, group, &pool, &error), &error);
    hash = hash_pool(hash, &pool, world->rereads);
  }
  size_t copies = 0;
  (void)quire_cache_copies(own->cache, &copies);
  hash = hash_sequence(hash_sequence(hash, own, own->sequence), own, own->other);
  hash = hash_rows(hash_rows(hash, own, own->sequence), own, own->other);
  if (!world->rereads) {
    hash = fault_hash(hash, &statistics, sizeof statistics);
    hash = fault_hash(hash, own->keys, sizeof own->keys);
    hash = fault_hash(hash, own->values, sizeof own->values);
    hash = fault_hash(hash, own->states, sizeof own->states);
  }
  return fault_hash(hash, &copies, sizeof copies);
}

/* ---- an engine with one sequence ---- */

static void make_engine(fault_world *world) {
  engine *made = calloc(1, sizeof *made);
  assert_non_null(made);
  world->own = made;
  world->look = look;
}

static void drop_engine(fault_world *world) {
  engine *own = world->own;
  quire_cache_release(own->cache);
  free(own);
  (void)remove(path);
}

static void fill(float *data, size_t count) {
  for (size_t i = 0; i < count; i++) {
    data[i] = (float)(i % 97);
  }
}

static quire_status step(engine *own, int64_t tokens, quire_error *error) {
  int32_t offsets[3], past[2], lengths[2], positions[8], reads[2], writes[2], table[2][4];
  quire_batch_group arrays[2] = {{&table[0][0], 4, positions, NULL, -1}, {NULL, 0, NULL, NULL, -1}};
  quire_batch batch;
  quire_batch_init(&batch);
  batch.row_capacity = 8;
  batch.sequence_capacity = 2;
  batch.groups = arrays;
  batch.group_count = 2;
  batch.cumulative_sequence_length = offsets;
  batch.past_seqlens = past;
  batch.context_lengths = lengths;
  batch.state_read = reads;
  batch.state_write = writes;
  const quire_batch_entry entry = {own->sequence, tokens, 0, 0};
  quire_status status = quire_sequence_append(own->cache, own->sequence, tokens, error);
  if (status == QUIRE_OK) {
    quire_cache_copies_done(own->cache);
    status = quire_batch_build(own->cache, &entry, 1, &batch, error);
  }
  return status;
}

static quire_status grow(engine *own, int64_t tokens, quire_error *error) {
  quire_sequence_facts facts;
  quire_status status = quire_sequence_get_facts(own->cache, own->sequence, &facts, error);
  if (status == QUIRE_OK) {
    status = step(own, tokens, error);
  }
  return status != QUIRE_OK
             ? status
             : quire_sequence_commit(own->cache, own->sequence, ids + facts.length, tokens, error);
}

static void make_filled(fault_world *world) {
  quire_error error;
  make_engine(world);
  engine *own = world->own;
  fault_must(create(own, &error), &error);
  fault_must(quire_sequence_create(own->cache, &key, ids, 8, &own->sequence, NULL, &error), &error);
  for (int i = 0; i < TOKENS; i++) {
    fault_must(grow(own, 1, &error), &error);
  }
  fill(&own->keys[0][0][0][0], sizeof own->keys / sizeof(float));
  fill(&own->values[0][0][0][0], sizeof own->values / sizeof(float));
  fill(&own->states[0][0], sizeof own->states / sizeof(float));
  memcpy(own->cache_shape, (int64_t[]){BLOCKS, SIZE, HEADS, DIM}, sizeof own->cache_shape);
  memcpy(own->state_shape, (int64_t[]){SLOTS, DIM}, sizeof own->state_shape);
  const quire_cache_tensor tensors[LAYERS] = {
      {"key", {own->keys, 0, QUIRE_FLOAT32, 4, own->cache_shape, NULL}, 0, 0, 1},
      {"value", {own->values, 0, QUIRE_FLOAT32, 4, own->cache_shape, NULL}, 1, 0, 1},
      {"state", {own->states, 0, QUIRE_FLOAT32, 2, own->state_shape, NULL}, -1, 0, -1}};
  memcpy(own->tensors, tensors, sizeof own->tensors);
}

/* ---- calls ---- */

static quire_status create_cache(fault_world *world, quire_error *error) {
  engine *own = world->own;
  const quire_status status = create(own, error);
  assert_true((status == QUIRE_OK) == (own->cache != NULL));
  return status;
}

static quire_status save(fault_world *world, quire_error *error) {
  const engine *own = world->own;
  return quire_sequence_save(own->cache, own->sequence, own->tensors, LAYERS, path, error);
}

/* An older file is at the place. */
static void make_saved(fault_world *world) {
  quire_error error;
  make_filled(world);
  fault_must(save(world, &error), &error);
}

/* The pools are full of what nobody holds any more, some of which has to go. */
static void make_crowded(fault_world *world) {
  quire_error error;
  make_saved(world);
  engine *own = world->own;
  fault_must(quire_sequence_free(own->cache, own->sequence, &error), &error);
  for (uint64_t i = 0; i < 2; i++) {
    const quire_prefix_key other = {{9, 9, 9, i}};
    fault_must(quire_sequence_create(own->cache, &other, NULL, 0, &own->sequence, NULL, &error),
               &error);
    for (int k = 0; k < TOKENS + (int)i; k++) {
      fault_must(grow(own, 1, &error), &error);
    }
    fault_must(quire_sequence_free(own->cache, own->sequence, &error), &error);
  }
  own->sequence = 0;
}

static void make_longer(fault_world *world) {
  quire_error error;
  make_saved(world);
  fault_must(grow(world->own, 3, &error), &error);
}

static quire_status restore(fault_world *world, quire_error *error) {
  engine *own = world->own;
  const quire_sequence before = own->other;
  const quire_status status =
      quire_sequence_restore(own->cache, &key, own->tensors, LAYERS, path, &own->other, error);
  assert_true(status == QUIRE_OK || own->other == before);
  return status;
}

static quire_status copy_blocks(fault_world *world, quire_error *error) {
  const int64_t shape[] = {8, 4, 2, 16};
  const quire_cache_tensor tensors[2] = {
      {NULL, {world->buffers[0].buffer, 0, QUIRE_FLOAT32, 4, shape, NULL}, 0, 0, 1},
      {NULL, {world->buffers[1].buffer, 0, QUIRE_FLOAT32, 4, shape, NULL}, 0, 1, 0}};
  const quire_block_copy copies[] = {{0, 1, 3}, {0, 2, 0}};
  return quire_cache_copy_blocks(world->device, tensors, 2, copies, 2, error);
}

static void make_tensors(fault_world *world) {
  static const int64_t shape[] = {8, 4, 2, 16};
  (void)fault_floats(world, 4, shape);
  (void)fault_floats(world, 4, shape);
}

/* Everything that a server does with sequences. */
static quire_status serve(fault_world *world, quire_error *error) {
  engine *own = world->own;
  int64_t number = 0;
  quire_sequence child = 0;
  const quire_batch_entry entry = {own->sequence, 0, 0, 0};
  quire_cache *cache = own->cache;
  fault_must(quire_cache_match(cache, &key, ids, 8, &number, error), error);
  fault_must(quire_sequence_create(cache, NULL, NULL, 0, &child, NULL, error), error);
  fault_must(quire_sequence_free(cache, child, error), error);
  fault_must(quire_sequence_fork(cache, own->sequence, &own->other, error), error);
  fault_must(quire_sequence_reserve(cache, own->sequence, 5, error), error);
  fault_must(quire_sequence_get_chunk(cache, own->sequence, 3, &number, error), error);
  fault_must(quire_cache_shared_prefix(cache, &entry, 1, &number, error), error);
  fault_must(grow(own, 2, error), error);
  fault_must(quire_sequence_rollback_point(cache, own->sequence, 12, &number, error), error);
  fault_must(quire_sequence_truncate(cache, own->sequence, number, QUIRE_TRUNCATE_COPY, error),
             error);
  quire_cache_forget(cache);
  return QUIRE_OK;
}

/* ---- the shared prefix ---- */

static quire_status call_shared(fault_world *world, quire_error *error) {
  if (strcmp(world->device_name, "cpu") != 0) { /* its scratch is host memory */
    return QUIRE_OK;
  }
  return quire_shared_prefix_attention(world->device, &world->args.shared, error);
}

static void make_shared(fault_world *world) {
  static const int64_t query[] = {3, 64}, row[] = {3, 32}, caches[] = {8, 4, 2, 16}, four[] = {4},
                       three[] = {3}, table[] = {3, 1}, prefix[] = {1, 2};
  static const int32_t past[] = {1, 2, 0}, blocks[] = {4, 5, 6}, first[] = {1, 2},
                       slots[] = {17, 22, 24};
  quire_shared_prefix_args *args = &world->args.shared;
  quire_error error;
  quire_shared_prefix_args_init(args);
  args->attention.query = fault_floats(world, 2, query);
  args->attention.key = fault_floats(world, 2, row);
  args->attention.value = fault_floats(world, 2, row);
  args->attention.key_cache = fault_floats(world, 4, caches);
  args->attention.value_cache = fault_floats(world, 4, caches);
  args->attention.cumulative_sequence_length = fault_ints(world, 1, four, fault_offsets);
  args->attention.past_seqlens = fault_ints(world, 1, three, past);
  args->attention.block_table = fault_ints(world, 2, table, blocks);
  args->attention.slot_mapping = fault_ints(world, 1, three, slots);
  args->attention.output = fault_floats(world, 2, query);
  args->attention.num_heads = 4;
  args->attention.kv_num_heads = 2;
  args->prefix_table = fault_ints(world, 2, prefix, first);
  args->prefix_tokens = 8;
  fault_must(quire_shared_prefix_scratch(args, &args->scratch_bytes, &error), &error);
  args->scratch = aligned_alloc(64, (args->scratch_bytes + 63) / 64 * 64);
  assert_non_null(args->scratch);
  /* The new keys are in the cache before anything can fail: storing them again changes nothing. */
  fault_must(call_shared(world, &error), &error);
  const size_t output = world->buffer_count;
  args->attention.output = fault_floats(world, 2, query);
  assert_int_equal(world->buffer_count, output + 1);
  fault_forget_plan(world);
}

static void drop_shared(fault_world *world) {
  free(world->args.shared.scratch);
  fault_forget_plan(world);
}

/* Of a file that is read it does not matter how it closes, nor how its end is found. */
enum { RESTORE_SURVIVES = 3 };

static const fault_scenario items[] = {
    {.name = "cache",
     .functions = "quire_cache_create quire_cache_options_init quire_cache_release",
     .make = make_engine,
     .call = create_cache,
     .drop = drop_engine},
    {.name = "save a sequence",
     .functions = "quire_sequence_save",
     .make = make_filled,
     .call = save,
     .drop = drop_engine,
     .system = true},
    {.name = "save a sequence over an older file",
     .functions = "quire_sequence_save",
     .make = make_longer,
     .call = save,
     .drop = drop_engine,
     .system = true},
    {.name = "restore a sequence",
     .functions = "quire_sequence_restore",
     .make = make_saved,
     .call = restore,
     .drop = drop_engine,
     .system = true,
     .survived = RESTORE_SURVIVES,
     .rereads = true},
    {.name = "restore a sequence into full pools",
     .functions = "quire_sequence_restore",
     .make = make_crowded,
     .call = restore,
     .drop = drop_engine,
     .system = true,
     .survived = RESTORE_SURVIVES,
     .rereads = true},
    {.name = "copy blocks",
     .functions = "quire_cache_copy_blocks",
     .make = make_tensors,
     .call = copy_blocks,
     .silent_on_cpu = true},
    {.name = "serve",
     .functions =
         "quire_cache_match quire_sequence_create quire_sequence_free quire_sequence_fork "
         "quire_sequence_reserve quire_sequence_get_chunk quire_cache_shared_prefix "
         "quire_sequence_append quire_cache_copies_done quire_batch_init quire_batch_build "
         "quire_sequence_get_facts quire_sequence_commit quire_sequence_rollback_point "
         "quire_sequence_truncate quire_cache_forget quire_cache_check quire_cache_get_statistics "
         "quire_cache_get_group quire_cache_copies quire_sequence_get_blocks",
     .make = make_filled,
     .call = serve,
     .drop = drop_engine,
     .silent = true},
    {.name = "attention over a shared prefix",
     .functions = "quire_shared_prefix_attention quire_shared_prefix_args_init "
                  "quire_shared_prefix_scratch",
     .make = make_shared,
     .call = call_shared,
     .drop = drop_shared,
     .survived = 3},
};

const fault_scenarios fault_serving_scenarios = {items, sizeof items / sizeof *items};
