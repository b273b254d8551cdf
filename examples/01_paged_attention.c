/* Attention over a paged cache: a prompt of three tokens, and a sequence that goes on after two. */
#include <stdio.h>

#include "quire/quire.h"

/* New tokens, sequences; query and key/value heads, their size; blocks, their rows; table columns.
 */
enum { T = 4, B = 2, HQ = 2, HKV = 1, D = 4, NB = 4, P = 2, MB = 2 };

static float query[T][HQ * D], key[T][HKV * D], value[T][HKV * D], output[T][HQ * D];
static float key_cache[NB][P][HKV][D], value_cache[NB][P][HKV][D];
static int32_t new_tokens_before[B + 1] = {0, 3,
                                           4}; /* sequence 0: rows 0 to 2, sequence 1: row 3 */
static int32_t past[B] = {0, 2};               /* tokens that the cache already holds */
static int32_t block_table[B][MB] = {{2, 0}, {3, 1}};

static void fill(float *data, int count, int step) {
  for (int i = 0; i < count; i++) {
    data[i] = (float)(i * step % 13 - 6) / 8;
  }
}

int main(void) {
  fill(&query[0][0], T * HQ * D, 5);
  fill(&key[0][0], T * HKV * D, 7);
  fill(&value[0][0], T * HKV * D, 3);
  fill(&key_cache[0][0][0][0], NB * P * HKV * D, 11);
  fill(&value_cache[0][0][0][0], NB * P * HKV * D, 2);

  const int64_t query_shape[] = {T, HQ * D}, key_shape[] = {T, HKV * D};
  const int64_t cache_shape[] = {NB, P, HKV, D}, table_shape[] = {B, MB};
  const int64_t sequences[] = {B}, offsets[] = {B + 1};

  quire_error error = {QUIRE_OK, "", "", ""};
  quire_context *context = NULL;
  quire_device *device = NULL;
  quire_status status = quire_context_create(NULL, &context, &error);
  if (status == QUIRE_OK) {
    status = quire_device_open(context, "cpu", NULL, &device, &error);
  }
  if (status == QUIRE_OK) {
    quire_paged_attention_args args;
    quire_paged_attention_args_init(&args);
    /* Data, byte offset, type, rank, shape, strides (NULL: dense). */
    args.query = (quire_tensor){query, 0, QUIRE_FLOAT32, 2, query_shape, NULL};
    args.key = (quire_tensor){key, 0, QUIRE_FLOAT32, 2, key_shape, NULL};
    args.value = (quire_tensor){value, 0, QUIRE_FLOAT32, 2, key_shape, NULL};
    args.key_cache = (quire_tensor){key_cache, 0, QUIRE_FLOAT32, 4, cache_shape, NULL};
    args.value_cache = (quire_tensor){value_cache, 0, QUIRE_FLOAT32, 4, cache_shape, NULL};
    args.cumulative_sequence_length =
        (quire_tensor){new_tokens_before, 0, QUIRE_INT32, 1, offsets, NULL};
    args.past_seqlens = (quire_tensor){past, 0, QUIRE_INT32, 1, sequences, NULL};
    args.block_table = (quire_tensor){block_table, 0, QUIRE_INT32, 2, table_shape, NULL};
    args.output = (quire_tensor){output, 0, QUIRE_FLOAT32, 2, query_shape, NULL};
    args.num_heads = HQ;
    args.kv_num_heads = HKV;
    status = quire_paged_attention(device, &args, &error); /* updates the caches in place */
  }
  quire_device_release(device);
  quire_context_release(context);
  if (status != QUIRE_OK) {
    fprintf(stderr, "%s: %s\n", quire_status_name(status), error.message);
    return 1;
  }

  for (int t = 0; t < T; t++) {
    printf("token %d, head 0: %9.6f %9.6f %9.6f %9.6f\n", t, (double)output[t][0],
           (double)output[t][1], (double)output[t][2], (double)output[t][3]);
  }
  /* A sequence's first token sees itself only: the result is its own value. */
  return output[0][0] == value[0][0] ? 0 : 1;
}
