/*
 * An engine's loop in small: requests come and go, share the beginning of their prompts, and run in
 * one batch with whatever blocks there are. A sequence that finds no block waits, or gives its own
 * back and starts again later; most of what it had is then still in the index.
 */
#include <stdio.h>
#include <string.h>

#include "quire/quire.h"

enum {
  REQUESTS = 24,
  RUNNING = 8,  /* sequences at once */
  SYSTEM = 40,  /* tokens that all prompts begin with */
  PROMPT = 56,  /* tokens of a prompt */
  LENGTH = 90,  /* and of prompt and answer */
  CHUNK = 16,   /* prompt tokens of a step, for each sequence */
  P = 8,        /* rows of a block */
  NB = 48,      /* blocks: fewer than eight whole sequences need */
  COLUMNS = 12, /* of the block table */
  HEADS = 2,
  D = 16,
  ROWS = RUNNING * CHUNK
};

typedef struct request {
  int32_t tokens[LENGTH + 1];
  int64_t known; /* tokens that exist: the prompt, then what was generated */
  quire_sequence sequence;
  int is_waiting, is_done;
} request;

static request requests[REQUESTS];
static float query[ROWS][HEADS * D], key[ROWS][HEADS * D], value[ROWS][HEADS * D];
static float output[ROWS][HEADS * D];
static float key_cache[NB][P][HEADS][D], value_cache[NB][P][HEADS][D];
static int32_t cumulative[RUNNING + 1], past[RUNNING], table[RUNNING][COLUMNS], slots[ROWS];
static int64_t computed, steps, preempted;

/* Stands for the layers of a model before attention. */
static void embed(int32_t token, int64_t position, float *to, int salt) {
  for (int c = 0; c < HEADS * D; c++) {
    to[c] = (float)((token * 31 + position * 7 + c * 13 + salt * 17) % 23 - 11) / 16;
  }
}

static quire_status attend(quire_device *device, int64_t rows, int64_t count, quire_error *error) {
  const int64_t row_shape[] = {rows, HEADS * D}, cache_shape[] = {NB, P, HEADS, D};
  const int64_t counts[] = {count}, offsets[] = {count + 1}, table_shape[] = {count, COLUMNS};
  const int64_t slot_shape[] = {rows};
  quire_paged_attention_args args;
  quire_paged_attention_args_init(&args);
  args.query = (quire_tensor){query, 0, QUIRE_FLOAT32, 2, row_shape, NULL};
  args.key = (quire_tensor){key, 0, QUIRE_FLOAT32, 2, row_shape, NULL};
  args.value = (quire_tensor){value, 0, QUIRE_FLOAT32, 2, row_shape, NULL};
  args.key_cache = (quire_tensor){key_cache, 0, QUIRE_FLOAT32, 4, cache_shape, NULL};
  args.value_cache = (quire_tensor){value_cache, 0, QUIRE_FLOAT32, 4, cache_shape, NULL};
  args.cumulative_sequence_length = (quire_tensor){cumulative, 0, QUIRE_INT32, 1, offsets, NULL};
  args.past_seqlens = (quire_tensor){past, 0, QUIRE_INT32, 1, counts, NULL};
  args.block_table = (quire_tensor){table, 0, QUIRE_INT32, 2, table_shape, NULL};
  args.slot_mapping = (quire_tensor){slots, 0, QUIRE_INT32, 1, slot_shape, NULL};
  args.output = (quire_tensor){output, 0, QUIRE_FLOAT32, 2, row_shape, NULL};
  args.num_heads = HEADS;
  args.kv_num_heads = HEADS;
  return quire_paged_attention(device, &args, error);
}

/* Starts what waits, as long as there is room. All but the last token may come from the cache. */
static quire_status admit(quire_cache *cache, quire_error *error) {
  static const quire_prefix_key tenant = {{1, 0, 0, 42}};
  quire_cache_statistics now;
  quire_cache_get_statistics(cache, &now);
  for (int i = 0; i < REQUESTS && now.sequences < RUNNING; i++) {
    request *r = &requests[i];
    if (r->is_waiting) {
      quire_status status =
          quire_sequence_create(cache, &tenant, r->tokens, r->known - 1, &r->sequence, NULL, error);
      if (status != QUIRE_OK) {
        return status;
      }
      r->is_waiting = 0;
      now.sequences++;
    }
  }
  return QUIRE_OK;
}

/* Chooses the step's sequences and gets their blocks. */
static quire_status schedule(quire_cache *cache, quire_batch_entry *entries, request **members,
                             size_t *count, quire_error *error) {
  *count = 0;
  for (int i = 0; i < REQUESTS; i++) {
    request *r = &requests[i];
    if (r->is_waiting || r->is_done) {
      continue;
    }
    quire_sequence_facts facts;
    quire_status status = quire_sequence_get_facts(cache, r->sequence, &facts, error);
    int64_t tokens = r->known - facts.committed;
    tokens = tokens < CHUNK ? tokens : CHUNK;
    if (status == QUIRE_OK) {
      status = quire_sequence_append(cache, r->sequence, tokens, error);
    }
    if (status == QUIRE_OUT_OF_MEMORY) { /* no block: later requests give way */
      status = quire_sequence_free(cache, r->sequence, error);
      r->is_waiting = 1;
      preempted++;
    } else if (status == QUIRE_OK) {
      entries[*count] = (quire_batch_entry){r->sequence, tokens, 0, 0};
      members[(*count)++] = r;
    }
    if (status != QUIRE_OK) {
      return status;
    }
  }
  return QUIRE_OK;
}

static quire_status step(quire_device *device, quire_cache *cache, quire_error *error) {
  quire_batch_entry entries[RUNNING];
  request *members[RUNNING];
  size_t count = 0;
  quire_status status = admit(cache, error);
  if (status == QUIRE_OK || status == QUIRE_OUT_OF_MEMORY) {
    status = schedule(cache, entries, members, &count, error);
  }
  quire_batch_group group = {&table[0][0], COLUMNS, slots, NULL, -1};
  quire_batch batch;
  quire_batch_init(&batch);
  batch.row_capacity = ROWS;
  batch.sequence_capacity = RUNNING;
  batch.groups = &group;
  batch.group_count = 1;
  batch.cumulative_sequence_length = cumulative;
  batch.past_seqlens = past;
  if (status == QUIRE_OK) {
    status = quire_batch_build(cache, entries, count, &batch, error);
  }
  for (size_t i = 0; i < count && status == QUIRE_OK; i++) {
    for (int64_t j = 0; j < entries[i].new_tokens; j++) {
      const int64_t row = cumulative[i] + j, position = past[i] + j;
      embed(members[i]->tokens[position], position, query[row], 1);
      embed(members[i]->tokens[position], position, key[row], 2);
      embed(members[i]->tokens[position], position, value[row], 3);
    }
  }
  if (status == QUIRE_OK) {
    status = attend(device, batch.rows, batch.sequences, error);
  }
  for (size_t i = 0; i < count && status == QUIRE_OK; i++) {
    request *r = members[i];
    status = quire_sequence_commit(cache, r->sequence, r->tokens + past[i], entries[i].new_tokens,
                                   error);
    computed += entries[i].new_tokens;
    if (past[i] + entries[i].new_tokens == r->known) { /* the last row tells the next token */
      r->tokens[r->known++] = (int32_t)(output[cumulative[i + 1] - 1][0] * 1000) % 100;
    }
    if (r->known > LENGTH && status == QUIRE_OK) {
      r->is_done = 1;
      status = quire_sequence_free(cache, r->sequence, error);
    }
  }
  steps++;
  return status;
}

int main(void) {
  for (int i = 0; i < REQUESTS; i++) {
    requests[i].known = PROMPT;
    requests[i].is_waiting = 1;
    for (int j = 0; j < PROMPT; j++) {
      requests[i].tokens[j] = j < SYSTEM ? 500 + j : i * 3 + j;
    }
  }
  const quire_cache_group group = {NB, P, 0};
  quire_cache_options options;
  quire_cache_options_init(&options);
  options.groups = &group;
  options.group_count = 1;
  options.sequence_limit = RUNNING;
  options.length_limit = COLUMNS * P;

  quire_error error = {QUIRE_OK, "", "", ""};
  quire_context *context = NULL;
  quire_device *device = NULL;
  quire_cache *cache = NULL;
  quire_status status = quire_context_create(NULL, &context, &error);
  if (status == QUIRE_OK) {
    status = quire_device_open(context, "cpu", NULL, &device, &error);
  }
  if (status == QUIRE_OK) {
    status = quire_cache_create(&options, &cache, &error);
  }
  int done = 0;
  while (done < REQUESTS && status == QUIRE_OK) {
    status = step(device, cache, &error);
    done = 0;
    for (int i = 0; i < REQUESTS; i++) {
      done += requests[i].is_done;
    }
  }
  if (status == QUIRE_OK) {
    quire_cache_statistics all;
    quire_pool_statistics blocks;
    quire_cache_get_statistics(cache, &all);
    status = quire_cache_get_group(cache, 0, &blocks, &error);
    printf("%d requests of %d tokens in %lld steps with %d blocks of %d\n", REQUESTS, LENGTH,
           (long long)steps, NB, P);
    printf("computed %lld tokens for sequences of %d in all: the rest was found in the cache\n",
           (long long)computed, REQUESTS * LENGTH);
    printf("asked for %llu prompt tokens, new and returning, and found %llu\n",
           (unsigned long long)all.asked_tokens, (unsigned long long)all.matched_tokens);
    printf("preempted %lld times; %llu blocks handed out, %llu of them evicted from the cache\n",
           (long long)preempted, (unsigned long long)blocks.allocated,
           (unsigned long long)blocks.evicted);
    done = blocks.used == 0 && all.matched_tokens > 0;
  }
  quire_cache_release(cache);
  quire_device_release(device);
  quire_context_release(context);
  if (status != QUIRE_OK) {
    fprintf(stderr, "%s: %s\n", quire_status_name(status), error.message);
    return 1;
  }
  return done ? 0 : 1;
}
