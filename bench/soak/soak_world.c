#include "soak_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "soak_memory.h"

void soak_world_fail(soak_world *world, const char *what, const quire_error *error) {
  world->failed = true;
  (void)fprintf(stderr, "\nsoak: seed %llu: %s: %s\n", (unsigned long long)world->seed, what,
                error != NULL ? error->message : "");
}

/* ---- form ---- */

static void choose_layers(soak_world *world) {
  static const quire_dtype types[] = {QUIRE_FLOAT32, QUIRE_FLOAT16, QUIRE_BFLOAT16};
  static const float tolerances[] = {5e-3f, 0.15f, 0};
  soak_random *random = &world->random;
  soak_model *model = &world->model;
  const int64_t type = soak_between(random, 0, world->may_switch ? 1 : 2);
  const bool is_hybrid = !soak_once_in(random, 4), is_paged = !soak_once_in(random, 8);
  model->element = types[type];
  world->tolerance = tolerances[type];
  model->layer_count = (int)soak_between(random, 2, SOAK_LAYERS);
  for (int i = 0; i < model->layer_count; ++i) {
    soak_layer *layer = &model->layers[i];
    layer->is_linear = !is_paged || (is_hybrid && (i + (int)world->seed) % 2 == 0);
    layer->group = (int)soak_between(random, 0, SOAK_GROUPS - 1);
    layer->quantisation = soak_once_in(random, 3) && !world->may_switch
                              ? (soak_quantisation)soak_between(random, 1, SOAK_PER_TOKEN)
                              : SOAK_NONE;
  }
}

static bool has_states(const soak_model *model) {
  bool found = false;
  for (int i = 0; i < model->layer_count; ++i) {
    found = found || model->layers[i].is_linear;
  }
  return found;
}

/* Few blocks and slots, so that sequences must give way. */
static void choose_pools(soak_world *world) {
  soak_random *random = &world->random;
  quire_cache_options *options = &world->options;
  quire_cache_options_init(options);
  const int64_t unit = world->zone > 0 ? SOAK_STEP : (int64_t)4 << soak_between(random, 0, 2);
  world->groups[0] = (quire_cache_group){0, unit, 0};
  world->groups[1] = (quire_cache_group){0, unit >> soak_between(random, 0, 2), 0};
  if (soak_once_in(random, 2)) {
    world->groups[1].window = soak_between(random, 5, 40);
  }
  for (int i = 0; i < SOAK_GROUPS; ++i) {
    world->groups[i].block_count =
        SOAK_LENGTH * soak_between(random, 4, SOAK_SEQUENCES) / world->groups[i].block_size;
    world->model.windows[i] = world->groups[i].window;
  }
  options->allocator = &soak_allocator;
  options->groups = world->groups;
  options->group_count = SOAK_GROUPS;
  options->sequence_limit = SOAK_SEQUENCES;
  options->length_limit = SOAK_LENGTH;
  options->rollback_tokens = soak_between(random, 0, 12);
  options->hash_seed = soak_bits(random);
  world->model.state_window = 0;
  if (has_states(&world->model)) {
    world->model.state_window = soak_once_in(random, 2) ? soak_between(random, 2, 5) : 0;
    options->state_window = world->model.state_window;
    options->state_slots = soak_between(random, 30, 80);
    options->checkpoint_tokens = unit * soak_between(random, 0, 2);
  }
}

/* ---- tensors ---- */

static bool make_tensors(soak_world *world) {
  const int64_t blocks[SOAK_GROUPS] = {world->groups[0].block_count, world->groups[1].block_count};
  const int64_t sizes[SOAK_GROUPS] = {world->groups[0].block_size, world->groups[1].block_size};
  soak_memory *memory = &world->memory;
  quire_error error;
  bool is_good = true;
  soak_memory_form(&world->model, blocks, sizes, world->options.state_slots, memory);
  world->tensor_count = 0;
  for (int i = 0; i < world->model.layer_count; ++i) {
    const soak_layer *layer = &world->model.layers[i];
    for (int k = 0; k < memory->counts[i]; ++k) {
      const size_t bytes = (size_t)soak_tensor_bytes(&memory->tensors[i][k]);
      void *host = aligned_alloc(64, (bytes + 63) / 64 * 64);
      is_good = is_good && host != NULL;
      if (host != NULL) {
        memset(host, 0xff, bytes); /* NaN: what was never written must not be read */
      }
      world->host[i][k] = host;
      memory->tensors[i][k].data = host;
      if (world->may_switch) {
        is_good = is_good && quire_buffer_create(world->devices->gpu, (bytes + 3) / 4 * 4,
                                                 &world->buffers[i][k], &error) == QUIRE_OK;
      }
      const size_t at = world->tensor_count++;
      (void)snprintf(world->names[at], sizeof world->names[at], "%d.%d", i, k);
      world->tensors[at] =
          (quire_cache_tensor){world->names[at], memory->tensors[i][k],
                               layer->is_linear ? -1 : layer->group, 0, layer->is_linear ? -1 : 1};
    }
  }
  return is_good;
}

static void free_tensors(soak_world *world) {
  for (int i = 0; i < SOAK_LAYERS; ++i) {
    for (int k = 0; k < SOAK_LAYER_TENSORS; ++k) {
      free(world->host[i][k]);
      world->host[i][k] = NULL;
      if (world->buffers[i][k] != NULL) {
        quire_buffer_destroy(world->devices->gpu, world->buffers[i][k]);
      }
      world->buffers[i][k] = NULL;
    }
  }
}

bool soak_world_move(soak_world *world) {
  quire_device *gpu = world->devices->gpu;
  quire_status status = QUIRE_OK;
  quire_error error;
  size_t at = 0;
  for (int i = 0; i < world->model.layer_count; ++i) {
    for (int k = 0; k < world->memory.counts[i]; ++k) {
      quire_tensor *tensor = &world->memory.tensors[i][k];
      const uint64_t bytes = soak_tensor_bytes(tensor);
      void *host = world->host[i][k], *buffer = world->buffers[i][k];
      if (status == QUIRE_OK) {
        status = world->is_on_gpu ? quire_buffer_read(gpu, buffer, 0, host, bytes, &error)
                                  : quire_buffer_write(gpu, buffer, 0, host, bytes, &error);
      }
      tensor->data = world->is_on_gpu ? host : buffer;
      world->tensors[at++].tensor.data = tensor->data;
    }
  }
  if (status != QUIRE_OK) {
    soak_world_fail(world, "moving tensors", &error);
  }
  world->is_on_gpu = !world->is_on_gpu;
  world->counters->device_switches += 1;
  return status == QUIRE_OK;
}

bool soak_world_copy(soak_world *world) {
  quire_error error;
  size_t count = 0;
  const quire_block_copy *copies = quire_cache_copies(world->cache, &count);
  if (count == 0) {
    return true;
  }
  quire_device *device = world->is_on_gpu ? world->devices->gpu : world->devices->reference;
  if (quire_cache_copy_blocks(device, world->tensors, world->tensor_count, copies, count, &error) !=
      QUIRE_OK) {
    soak_world_fail(world, "copying blocks", &error);
    return false;
  }
  world->counters->copied_blocks += count;
  quire_cache_copies_done(world->cache);
  return true;
}

/* ---- opening and closing ---- */

bool soak_world_open(soak_world *world, uint64_t seed) {
  quire_error error;
  world->seed = seed;
  world->random.state = seed;
  world->is_on_gpu = world->failed = false;
  world->may_switch = world->devices->gpu != NULL && soak_once_in(&world->random, 3);
  if (world->may_switch) { /* few forms: each has shaders of its own, which are kept */
    world->form = (unsigned)(seed % SOAK_FORMS);
    world->random.state = 1000 + world->form;
  }
  world->owners = 0;
  world->zone = soak_once_in(&world->random, 3) ? (int64_t)2 * SOAK_STEP : 0;
  choose_layers(world);
  choose_pools(world);
  for (int p = 0; p < SOAK_PROMPTS; ++p) {
    for (int i = 0; i < SOAK_LENGTH; ++i) {
      world->prompts[p][i] = (int32_t)soak_between(&world->random, 0, 63);
    }
  }
  for (int i = 0; i < SOAK_SEQUENCES; ++i) {
    world->sequences[i].is_live = world->sequences[i].is_busy = false;
  }
  (void)pthread_mutex_init(&world->mutex, NULL);
  (void)pthread_rwlock_init(&world->moving, NULL);
  const quire_status status = quire_cache_create(&world->options, &world->cache, &error);
  if (status != QUIRE_OK || !make_tensors(world)) {
    soak_world_fail(world, "opening a world", status != QUIRE_OK ? &error : NULL);
    return false;
  }
  world->counters->worlds += 1;
  return true;
}

static bool is_free(const quire_pool_statistics *pool) {
  return pool->free == pool->count && pool->used == 0 && pool->cached == 0 && pool->shared == 0 &&
         pool->reserved == 0;
}

/* All counters of the cache: nobody holds anything. */
static void check_balance(soak_world *world) {
  quire_cache_statistics all;
  quire_cache_get_statistics(world->cache, &all);
  bool balances = is_free(&all.states) && all.sequences == 0 && all.prefixes == 0;
  world->counters->evicted_states += all.states.evicted;
  for (size_t group = 0; group < SOAK_GROUPS; ++group) {
    quire_pool_statistics pool;
    if (quire_cache_get_group(world->cache, group, &pool, NULL) != QUIRE_OK || !is_free(&pool)) {
      balances = false;
    }
    world->counters->evicted_blocks += pool.evicted;
  }
  if (!balances) {
    soak_world_fail(world, "blocks, slots or prefixes are left when every sequence is gone", NULL);
  }
}

void soak_world_close(soak_world *world) {
  quire_error error;
  for (int i = 0; i < SOAK_SEQUENCES; ++i) {
    soak_sequence *sequence = &world->sequences[i];
    if (sequence->is_live &&
        quire_sequence_free(world->cache, sequence->handle, &error) != QUIRE_OK) {
      soak_world_fail(world, "ending a sequence", &error);
    }
    sequence->is_live = false;
  }
  quire_cache_forget(world->cache);
  if (quire_cache_check(world->cache, &error) != 1) {
    soak_world_fail(world, "the books do not balance", &error);
  }
  check_balance(world);
  quire_cache_release(world->cache);
  world->cache = NULL;
  free_tensors(world);
  (void)pthread_mutex_destroy(&world->mutex);
  (void)pthread_rwlock_destroy(&world->moving);
}
