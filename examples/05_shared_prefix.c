/*
 * One document, many questions: every sequence begins with the same blocks. Their keys and values
 * are read once for all rows instead of once for each, and the parts are merged.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "quire/quire.h"

enum {
  ROWS = 32,     /* sequences, one new token each */
  PREFIX = 4096, /* tokens that all share */
  SUFFIX = 16,   /* tokens of each alone */
  P = 16,
  HQ = 4,
  HKV = 4,
  D = 64,
  NB = PREFIX / P + ROWS * 2,
  COLUMNS = PREFIX / P + 2
};

static float query[ROWS][HQ * D], key[ROWS][HKV * D], value[ROWS][HKV * D];
static float plain[ROWS][HQ * D], shared[ROWS][HQ * D];
static float key_cache[NB][P][HKV][D], value_cache[NB][P][HKV][D];
static int32_t cumulative[ROWS + 1], past[ROWS], table[ROWS * COLUMNS], slots[ROWS];
static int32_t prefix[PREFIX / P], ids[PREFIX + SUFFIX];

static void fill(float *data, int count, unsigned seed) {
  for (int i = 0; i < count; i++) {
    seed = seed * 1664525u + 1013904223u;
    data[i] = (float)(int)(seed >> 16 & 1023) / 512 - 1;
  }
}

static double seconds(void) {
  struct timespec now;
  timespec_get(&now, TIME_UTC);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* A document, and sequences that take it over and go on differently. */
static quire_status begin(quire_cache *cache, quire_batch_entry *entries, quire_error *error) {
  static const quire_prefix_key tenant = {{1, 0, 0, 42}};
  quire_sequence document = 0;
  quire_status status = quire_sequence_create(cache, &tenant, NULL, 0, &document, NULL, error);
  if (status == QUIRE_OK) {
    status = quire_sequence_append(cache, document, PREFIX, error);
  }
  if (status == QUIRE_OK) {
    status = quire_sequence_commit(cache, document, ids, PREFIX, error);
  }
  for (int i = 0; i < ROWS && status == QUIRE_OK; i++) {
    entries[i] = (quire_batch_entry){0, 1, 0, 0};
    status = quire_sequence_create(cache, &tenant, ids, PREFIX, &entries[i].sequence, NULL, error);
    if (status == QUIRE_OK) {
      status = quire_sequence_append(cache, entries[i].sequence, SUFFIX, error);
    }
    ids[PREFIX] = i;
    if (status == QUIRE_OK) {
      status = quire_sequence_commit(cache, entries[i].sequence, ids + PREFIX, SUFFIX, error);
    }
    if (status == QUIRE_OK) {
      status = quire_sequence_append(cache, entries[i].sequence, 1, error);
    }
  }
  return status;
}

static quire_status attend(quire_device *device, quire_cache *cache,
                           const quire_batch_entry *entries, int is_shared, double *time,
                           quire_error *error) {
  quire_batch_group group = {table, COLUMNS, slots, is_shared ? prefix : NULL, -1};
  quire_batch batch;
  quire_batch_init(&batch);
  batch.row_capacity = ROWS;
  batch.sequence_capacity = ROWS;
  batch.prefix_tokens = is_shared ? PREFIX : 0;
  batch.groups = &group;
  batch.group_count = 1;
  batch.cumulative_sequence_length = cumulative;
  batch.past_seqlens = past;
  quire_status status = quire_batch_build(cache, entries, ROWS, &batch, error);

  const int64_t query_shape[] = {ROWS, HQ * D}, key_shape[] = {ROWS, HKV * D};
  const int64_t cache_shape[] = {NB, P, HKV, D}, table_shape[] = {ROWS, COLUMNS};
  const int64_t rows[] = {ROWS}, offsets[] = {ROWS + 1}, prefix_shape[] = {1, PREFIX / P};
  quire_shared_prefix_args args;
  quire_shared_prefix_args_init(&args);
  args.attention.query = (quire_tensor){query, 0, QUIRE_FLOAT32, 2, query_shape, NULL};
  args.attention.key = (quire_tensor){key, 0, QUIRE_FLOAT32, 2, key_shape, NULL};
  args.attention.value = (quire_tensor){value, 0, QUIRE_FLOAT32, 2, key_shape, NULL};
  args.attention.key_cache = (quire_tensor){key_cache, 0, QUIRE_FLOAT32, 4, cache_shape, NULL};
  args.attention.value_cache = (quire_tensor){value_cache, 0, QUIRE_FLOAT32, 4, cache_shape, NULL};
  args.attention.cumulative_sequence_length =
      (quire_tensor){cumulative, 0, QUIRE_INT32, 1, offsets, NULL};
  args.attention.past_seqlens = (quire_tensor){past, 0, QUIRE_INT32, 1, rows, NULL};
  args.attention.block_table = (quire_tensor){table, 0, QUIRE_INT32, 2, table_shape, NULL};
  args.attention.slot_mapping = (quire_tensor){slots, 0, QUIRE_INT32, 1, rows, NULL};
  args.attention.output =
      (quire_tensor){is_shared ? shared : plain, 0, QUIRE_FLOAT32, 2, query_shape, NULL};
  args.attention.num_heads = HQ;
  args.attention.kv_num_heads = HKV;
  args.prefix_table = (quire_tensor){prefix, 0, QUIRE_INT32, 2, prefix_shape, NULL};
  args.prefix_tokens = PREFIX;
  size_t bytes = 0;
  if (status == QUIRE_OK) {
    status = quire_shared_prefix_scratch(&args, &bytes, error);
  }
  char *memory = malloc(bytes + 64); /* scratch is aligned to 64 */
  if (memory == NULL) {
    return QUIRE_OUT_OF_MEMORY;
  }
  args.scratch = memory + (64 - (uintptr_t)memory % 64);
  args.scratch_bytes = bytes;
  *time = 1e9;
  for (int turn = 0; turn < 4 && status == QUIRE_OK; turn++) { /* the best counts */
    const double begin_time = seconds();
    status = is_shared ? quire_shared_prefix_attention(device, &args, error)
                       : quire_paged_attention(device, &args.attention, error);
    const double taken = seconds() - begin_time;
    *time = taken < *time ? taken : *time;
  }
  free(memory);
  return status;
}

int main(void) {
  fill(&query[0][0], ROWS * HQ * D, 1);
  fill(&key[0][0], ROWS * HKV * D, 2);
  fill(&value[0][0], ROWS * HKV * D, 3);
  fill(&key_cache[0][0][0][0], NB * P * HKV * D, 4);
  fill(&value_cache[0][0][0][0], NB * P * HKV * D, 5);
  const quire_cache_group group = {NB, P, 0};
  quire_cache_options options;
  quire_cache_options_init(&options);
  options.groups = &group;
  options.group_count = 1;
  options.sequence_limit = ROWS + 1;

  quire_error error = {QUIRE_OK, "", "", ""};
  quire_context *context = NULL;
  quire_device *device = NULL;
  quire_cache *cache = NULL;
  quire_batch_entry entries[ROWS];
  double plain_time = 0, shared_time = 0;
  int64_t tokens = 0;
  quire_status status = quire_context_create(NULL, &context, &error);
  if (status == QUIRE_OK) {
    status = quire_device_open(context, "cpu", NULL, &device, &error);
  }
  if (status == QUIRE_OK) {
    status = quire_cache_create(&options, &cache, &error);
  }
  if (status == QUIRE_OK) {
    status = begin(cache, entries, &error);
  }
  if (status == QUIRE_OK) {
    status = quire_cache_shared_prefix(cache, entries, ROWS, &tokens, &error);
  }
  if (status == QUIRE_OK) {
    status = attend(device, cache, entries, 0, &plain_time, &error);
  }
  if (status == QUIRE_OK) {
    status = attend(device, cache, entries, 1, &shared_time, &error);
  }
  quire_cache_release(cache);
  quire_device_release(device);
  quire_context_release(context);
  if (status != QUIRE_OK) {
    fprintf(stderr, "%s: %s\n", quire_status_name(status), error.message);
    return 1;
  }

  float largest = 0;
  for (int i = 0; i < ROWS * HQ * D; i++) {
    const float difference = fabsf((&plain[0][0])[i] - (&shared[0][0])[i]);
    largest = difference <= largest ? largest : difference; /* NaN counts as large */
  }
  const double row_bytes = 2.0 * HKV * D * sizeof(float);
  printf("%d rows share %lld tokens\n", ROWS, (long long)tokens);
  printf("keys and values read: %.1f MB each for itself, %.1f MB shared\n",
         ROWS * (PREFIX + SUFFIX) * row_bytes / 1e6, (PREFIX + ROWS * SUFFIX) * row_bytes / 1e6);
  printf("%.0f us and %.0f us: %.1f times as fast; largest difference %.1e\n", plain_time * 1e6,
         shared_time * 1e6, plain_time / shared_time, (double)largest);
  return tokens >= PREFIX && largest < 1e-5f ? 0 : 1;
}
