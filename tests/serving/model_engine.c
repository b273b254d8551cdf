#include "model_engine.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cache_object.h"

static uint64_t no_hash(void *user, const void *bytes, size_t size, uint64_t seed) {
  (void)user;
  (void)bytes;
  (void)size;
  (void)seed;
  return 0;
}

/* ---- opening and closing ---- */

static void choose_options(model_engine *engine) {
  randomness *source = &engine->source;
  quire_cache_options_init(&engine->options);
  const int64_t size = (int64_t)1 << random_between(source, 0, 3);
  const bool is_other_larger = random_between(source, 0, 3) == 0;
  const int64_t other = size >> random_between(source, 0, 1);
  engine->groups[0] = (quire_cache_group){random_between(source, 16, ENGINE_BLOCKS), size, 0};
  engine->groups[1] =
      (quire_cache_group){random_between(source, 16, ENGINE_BLOCKS), other > 0 ? other : 1,
                          random_between(source, 0, 1) * random_between(source, 1, 9)};
  if (is_other_larger && size * 2 <= ENGINE_BLOCK_SIZE) {
    engine->groups[1].block_size = size * 2;
  }
  engine->options.groups = engine->groups;
  engine->options.group_count = (size_t)random_between(source, 1, NAIVE_GROUPS);
  engine->options.sequence_limit = random_between(source, 4, NAIVE_SEQUENCES);
  engine->options.length_limit = NAIVE_LENGTH - random_between(source, 0, 8);
  engine->options.rollback_tokens = random_between(source, 0, 4);
  engine->unit = engine->groups[0].block_size;
  if (engine->options.group_count == 2 && engine->groups[1].block_size > engine->unit) {
    engine->unit = engine->groups[1].block_size;
  }
  if (random_between(source, 0, 1) == 1) {
    engine->options.state_slots = random_between(source, 6, ENGINE_SLOTS);
    engine->options.state_window = random_between(source, 0, 4);
    engine->options.checkpoint_tokens = engine->unit * random_between(source, 0, 2);
  }
  if (random_between(source, 0, 3) == 0) {
    engine->options.hash = no_hash;
  }
  engine->options.hash_seed = random_bits(source);
}

static void add_tensor(model_engine *engine, const char *name, quire_tensor tensor, int32_t group,
                       int32_t block_axis, int32_t row_axis) {
  engine->tensors[engine->tensor_count++] =
      (quire_cache_tensor){name, tensor, group, block_axis, row_axis};
}

/* [NB, P, H, D] in both layouts; the second is made of pages [H, NB, P, D] by strides. */
static void make_tensors(model_engine *engine) {
  static const char *const names[NAIVE_GROUPS][2] = {{"0.key", "0.value"}, {"1.key", "1.value"}};
  engine->tensor_count = 0;
  for (int group = 0; group < (int)engine->options.group_count; ++group) {
    const int64_t size = engine->groups[group].block_size;
    int64_t *shape = engine->cache_shape[group];
    int64_t *strides = engine->cache_strides[group];
    shape[0] = engine->groups[group].block_count;
    shape[1] = size;
    shape[2] = NAIVE_HEADS;
    shape[3] = NAIVE_SIZE;
    strides[0] = group == 0 ? size * NAIVE_ROW : size * NAIVE_SIZE;
    strides[1] = group == 0 ? NAIVE_ROW : NAIVE_SIZE;
    strides[2] = group == 0 ? NAIVE_SIZE : ENGINE_BLOCKS * size * NAIVE_SIZE;
    strides[3] = 1;
    for (int i = 0; i < 2; ++i) {
      float *data = i == 0 ? engine->key_cache[group] : engine->value_cache[group];
      add_tensor(engine, names[group][i], (quire_tensor){data, 0, QUIRE_FLOAT32, 4, shape, strides},
                 group, 0, 1);
    }
  }
  if (engine->options.state_slots > 0) {
    engine->state_shape[0] = engine->options.state_slots;
    engine->state_shape[1] = NAIVE_STATE;
    add_tensor(engine, "state",
               (quire_tensor){engine->states, 0, QUIRE_FLOAT32, 2, engine->state_shape, NULL}, -1,
               0, -1);
  }
}

void engine_open(model_engine *engine) {
  choose_options(engine);
  engine->cache = make_cache_with(&engine->options);
  make_tensors(engine);
  memset(engine->sequences, 0, sizeof engine->sequences);
  engine->member_count = 0;
  engine_poison(engine);
}

void engine_close(model_engine *engine) {
  for (int i = 0; i < NAIVE_SEQUENCES; ++i) {
    if (engine->sequences[i].is_live) {
      MUST(quire_sequence_free(engine->cache, engine->sequences[i].handle, error));
    }
  }
  check_cache(engine->cache);
  quire_cache_forget(engine->cache);
  check_cache(engine->cache);
  for (size_t group = 0; group < engine->options.group_count; ++group) {
    assert_int_equal(group_of(engine->cache, group).free, engine->groups[group].block_count);
  }
  assert_int_equal(states_of(engine->cache).free, engine->options.state_slots);
  quire_cache_release(engine->cache);
  engine->cache = NULL;
}

/* ---- memory ---- */

static float *row_at(model_engine *engine, float *data, int group, int64_t slot, int head) {
  const int64_t size = engine->groups[group].block_size;
  const int64_t *strides = engine->cache_strides[group];
  return data + slot / size * strides[0] + slot % size * strides[1] + head * strides[2];
}

void engine_poison(model_engine *engine) {
  const quire_cache *cache = engine->cache;
  engine_copy(engine); /* whose sources may be free by now */
  for (int32_t i = 0; i < cache->pool_count; ++i) {
    const quire_pool *pool = &cache->pools[i];
    for (int32_t item = pool->first_free, n = 0; n < pool->free_count;
         item = (int32_t)pool->holders[item], ++n) {
      if (pool == cache->states) {
        for (int c = 0; c < NAIVE_STATE; ++c) {
          engine->states[item][c] = NAN;
        }
        continue;
      }
      for (int64_t row = 0; row < pool->block_size; ++row) {
        for (int head = 0; head < NAIVE_HEADS; ++head) {
          const int64_t slot = (int64_t)item * pool->block_size + row;
          for (int d = 0; d < NAIVE_SIZE; ++d) {
            row_at(engine, engine->key_cache[i], i, slot, head)[d] = NAN;
            row_at(engine, engine->value_cache[i], i, slot, head)[d] = NAN;
          }
        }
      }
    }
  }
}

void engine_copy(model_engine *engine) {
  size_t count = 0;
  const quire_block_copy *copies = quire_cache_copies(engine->cache, &count);
  if (count > 0) {
    MUST(quire_cache_copy_blocks(engine->device, engine->tensors, engine->tensor_count, copies,
                                 count, error));
    quire_cache_copies_done(engine->cache);
    engine->copies += count;
  }
}

/* ---- what the cache says against what it should ---- */

static void compare_row(model_engine *engine, const naive_sequence *sequence, int group, int64_t at,
                        int64_t slot) {
  for (int head = 0; head < NAIVE_HEADS; ++head) {
    const size_t bytes = NAIVE_SIZE * sizeof(float);
    const float *key = row_at(engine, engine->key_cache[group], group, slot, head);
    const float *value = row_at(engine, engine->value_cache[group], group, slot, head);
    if (memcmp(key, &sequence->key_rows[group][at][head * NAIVE_SIZE], bytes) != 0 ||
        memcmp(value, &sequence->value_rows[group][at][head * NAIVE_SIZE], bytes) != 0) {
      fail_msg("seed %llu: sequence %d, group %d: position %lld in slot %lld is not its own",
               (unsigned long long)engine->seed, (int)(sequence - engine->sequences), group,
               (long long)at, (long long)slot);
    }
  }
}

static int64_t first_visible(const model_engine *engine, int group, int64_t length) {
  const int64_t window = engine->groups[group].window;
  return window > 0 && length + 1 > window ? length + 1 - window : 0;
}

void engine_verify(model_engine *engine, const naive_sequence *sequence) {
  const quire_sequence_facts facts = facts_of(engine->cache, sequence->handle);
  assert_int_equal(facts.length, sequence->length);
  assert_int_equal(facts.committed, sequence->committed);
  for (int group = 0; group < (int)engine->options.group_count; ++group) {
    const int32_t *blocks = NULL;
    int64_t count = 0;
    MUST(quire_sequence_get_blocks(engine->cache, sequence->handle, (size_t)group, &blocks, &count,
                                   error));
    const int64_t size = engine->groups[group].block_size;
    assert_int_equal(count, (sequence->length + size - 1) / size);
    for (int64_t at = first_visible(engine, group, sequence->committed); at < sequence->committed;
         ++at) {
      assert_true(blocks[at / size] >= 0);
      compare_row(engine, sequence, group, at, blocks[at / size] * size + at % size);
    }
  }
  if (engine->options.state_slots > 0) {
    assert_int_equal(facts.state >= 0, sequence->committed > 0);
    assert_true(facts.state < 0 ||
                memcmp(engine->states[facts.state], sequence->states[sequence->committed],
                       sizeof engine->states[0]) == 0);
  }
}

/* A slot that one sequence writes no other may read or write (LA-X4). */
static void check_state_slots(const model_engine *engine) {
  const int64_t window = engine->options.state_window;
  const int64_t width = window > 0 ? window : 1;
  for (int64_t i = 0; i < engine->batch.sequences; ++i) {
    for (int64_t other = 0; engine->replays[i] >= 0 && other < engine->batch.sequences; ++other) {
      assert_true(other == i || (engine->reads[other] != engine->replays[i] &&
                                 engine->replays[other] != engine->replays[i]));
      for (int64_t k = 0; k < width; ++k) {
        assert_true(engine->writes[other * width + k] != engine->replays[i]);
        assert_int_equal(engine->writes[i * width + k], -1);
      }
    }
    for (int64_t j = 0; j < width; ++j) {
      const int32_t slot = engine->writes[i * width + j];
      for (int64_t other = 0; slot >= 0 && other < engine->batch.sequences; ++other) {
        assert_true(other == i || engine->reads[other] != slot);
        for (int64_t k = 0; k < width; ++k) {
          assert_true((other == i && k == j) || engine->writes[other * width + k] != slot);
        }
      }
    }
  }
}

static void check_group_arrays(model_engine *engine, int group) {
  const int64_t size = engine->groups[group].block_size;
  int64_t row = 0;
  for (size_t i = 0; i < engine->member_count; ++i) {
    const naive_sequence *member = engine->members[i];
    const int32_t *table = engine->tables[group][i];
    for (int64_t at = first_visible(engine, group, member->committed); at < member->committed;
         ++at) {
      assert_true(table[at / size] >= 0 && table[at / size] < engine->groups[group].block_count);
    }
    for (int64_t j = 0; j < engine->entries[i].new_tokens; ++j, ++row) {
      const int64_t at = member->committed + j;
      assert_int_equal(engine->slots[group][row], table[at / size] * size + at % size);
    }
    for (int64_t c = (member->committed + engine->entries[i].new_tokens + size - 1) / size;
         c < ENGINE_COLUMNS; ++c) {
      assert_int_equal(table[c], -1);
    }
  }
  for (; row < engine->batch.rows; ++row) {
    assert_int_equal(engine->slots[group][row], -1);
  }
}

void engine_check_batch(model_engine *engine) {
  int64_t row = 0;
  for (int64_t i = 0; i < engine->batch.sequences; ++i) {
    const bool is_real = i < (int64_t)engine->member_count;
    const naive_sequence *member = is_real ? engine->members[i] : NULL;
    assert_int_equal(engine->cumulative[i], row);
    assert_int_equal(engine->past[i], is_real ? member->committed : 0);
    const int64_t count = engine->cumulative[i + 1] - row;
    if (is_real) {
      assert_int_equal(count, engine->entries[i].new_tokens);
      assert_int_equal(engine->contexts[i], member->committed + count);
    } else {
      assert_int_equal(engine->contexts[i], 0);
    }
    for (int64_t j = 0; j < count; ++j) {
      assert_int_equal(engine->positions[row + j], is_real ? member->committed + j : 0);
    }
    row += count;
    if (engine->options.state_slots > 0) {
      const int32_t slot = engine->reads[i];
      assert_int_equal(slot >= 0, is_real && member->committed > 0);
      assert_true(slot < 0 || memcmp(engine->states[slot], member->states[member->committed],
                                     sizeof engine->states[0]) == 0);
    }
  }
  assert_int_equal(row, engine->batch.rows);
  for (int group = 0; group < (int)engine->options.group_count; ++group) {
    check_group_arrays(engine, group);
  }
  if (engine->options.state_slots > 0) {
    check_state_slots(engine);
  }
}

/* ---- running a step ---- */

static void store_rows(model_engine *engine, int group) {
  int64_t row = 0;
  for (size_t i = 0; i < engine->member_count; ++i) {
    const naive_sequence *member = engine->members[i];
    for (int64_t j = 0; j < engine->entries[i].new_tokens; ++j, ++row) {
      const int64_t slot = engine->slots[group][row];
      for (int head = 0; head < NAIVE_HEADS; ++head) {
        const size_t bytes = NAIVE_SIZE * sizeof(float);
        const int64_t at = member->committed + j;
        memcpy(row_at(engine, engine->key_cache[group], group, slot, head),
               &member->key_rows[group][at][head * NAIVE_SIZE], bytes);
        memcpy(row_at(engine, engine->value_cache[group], group, slot, head),
               &member->value_rows[group][at][head * NAIVE_SIZE], bytes);
      }
    }
  }
}

static void store_states(model_engine *engine) {
  const int64_t window = engine->options.state_window;
  const int64_t width = window > 0 ? window : 1;
  for (size_t i = 0; i < engine->member_count; ++i) {
    const naive_sequence *member = engine->members[i];
    const int64_t tokens = engine->entries[i].new_tokens;
    for (int64_t j = 0; j < width; ++j) {
      const int32_t slot = engine->writes[(int64_t)i * width + j];
      const int64_t token = tokens - width + j; /* right-aligned: LinearAttention, 4.3 */
      if (slot >= 0) {
        assert_true(token >= 0);
        memcpy(engine->states[slot], member->states[member->committed + token + 1],
               sizeof engine->states[0]);
      }
    }
  }
}

static void call_attention(model_engine *engine, int group) {
  const int64_t rows = engine->batch.rows;
  const int64_t count = engine->batch.sequences;
  const int64_t query_shape[] = {rows, ENGINE_QUERY}, row_shape[] = {rows, NAIVE_ROW};
  const int64_t counts[] = {count}, offsets[] = {count + 1}, slots[] = {rows};
  const int64_t table_shape[] = {count, ENGINE_COLUMNS};
  quire_paged_attention_args args;
  quire_paged_attention_args_init(&args);
  args.query = (quire_tensor){engine->query, 0, QUIRE_FLOAT32, 2, query_shape, NULL};
  args.key = (quire_tensor){engine->new_keys, 0, QUIRE_FLOAT32, 2, row_shape, NULL};
  args.value = (quire_tensor){engine->new_values, 0, QUIRE_FLOAT32, 2, row_shape, NULL};
  args.key_cache = engine->tensors[2 * group].tensor;
  args.value_cache = engine->tensors[2 * group + 1].tensor;
  args.cumulative_sequence_length =
      (quire_tensor){engine->cumulative, 0, QUIRE_INT32, 1, offsets, NULL};
  args.past_seqlens = (quire_tensor){engine->past, 0, QUIRE_INT32, 1, counts, NULL};
  args.block_table = (quire_tensor){engine->tables[group], 0, QUIRE_INT32, 2, table_shape, NULL};
  args.slot_mapping = (quire_tensor){engine->slots[group], 0, QUIRE_INT32, 1, slots, NULL};
  args.output = (quire_tensor){engine->output, 0, QUIRE_FLOAT32, 2, query_shape, NULL};
  args.num_heads = ENGINE_QUERY_HEADS;
  args.kv_num_heads = NAIVE_HEADS;
  args.local_window_size = engine->groups[group].window > 0 ? engine->groups[group].window : -1;
  MUST(quire_paged_attention(engine->device, &args, error));
}

static void attend(model_engine *engine, int group) {
  for (int64_t row = 0; row < engine->batch.rows; ++row) {
    for (int c = 0; c < ENGINE_QUERY; ++c) {
      engine->query[row][c] = random_float(&engine->source);
    }
  }
  int64_t row = 0;
  for (size_t i = 0; i < engine->member_count; ++i) {
    const naive_sequence *member = engine->members[i];
    for (int64_t j = 0; j < engine->entries[i].new_tokens; ++j, ++row) {
      memcpy(engine->new_keys[row], member->key_rows[group][member->committed + j],
             sizeof engine->new_keys[row]);
      memcpy(engine->new_values[row], member->value_rows[group][member->committed + j],
             sizeof engine->new_values[row]);
    }
  }
  call_attention(engine, group);
  row = 0;
  for (size_t i = 0; i < engine->member_count; ++i) {
    const naive_sequence *member = engine->members[i];
    for (int64_t j = 0; j < engine->entries[i].new_tokens; ++j, ++row) {
      float want[ENGINE_QUERY];
      naive_attention(member, group, member->committed + j, engine->groups[group].window,
                      engine->query[row], ENGINE_QUERY_HEADS, want);
      for (int c = 0; c < ENGINE_QUERY; ++c) {
        if (!(fabsf(engine->output[row][c] - want[c]) <= 1e-5f * fabsf(want[c]) + 1e-6f)) {
          fail_msg("seed %llu: row %lld channel %d is %.9g, dense attention %.9g",
                   (unsigned long long)engine->seed, (long long)row, c,
                   (double)engine->output[row][c], (double)want[c]);
        }
      }
    }
  }
}

void engine_run(model_engine *engine, bool is_attention) {
  for (int group = 0; group < (int)engine->options.group_count; ++group) {
    if (is_attention) {
      attend(engine, group);
    } else {
      store_rows(engine, group);
    }
  }
  if (engine->options.state_slots > 0) {
    store_states(engine);
  }
  ++engine->steps;
  engine->attentions += is_attention;
}
