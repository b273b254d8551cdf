/*
 * Attention over a prefix that all sequences of a batch share. With A the prefix and B a row's
 * suffix, softmax over A and B is the merge of softmax over each by their log-sum-exps
 * (MergeAttentionStates). Over A, rows of all sequences are rows of one sequence that sees it
 * whole (is_causal = 0), so that a key is read once for all of them and not once for each sequence.
 * The idea: "Hydragen" (Juravsky et al., 2024) and FlashInfer's cascade attention.
 */
#include <string.h>

#include "quire/serving.h"
#include "serving_support.h"
#include "shared_prefix_check.h"

void quire_shared_prefix_args_init(quire_shared_prefix_args *args) {
  if (args != NULL) {
    memset(args, 0, sizeof *args);
    args->struct_size = sizeof *args;
    quire_paged_attention_args_init(&args->attention);
  }
}

static bool place(size_t *next, size_t bytes, size_t *at) {
  const size_t rounded = (bytes + 63) / 64 * 64;
  *at = *next;
  *next += rounded;
  return rounded >= bytes && *next >= rounded;
}

static quire_status find_parts(const quire_shared_prefix_args *args,
                               quire_shared_prefix_parts *part, quire_error *error) {
  const quire_paged_attention_args *attention = &args->attention;
  const quire_tensor *query = &attention->query;
  if (query->ndim != 2 || query->shape == NULL) {
    return quire_serving_fail(error, QUIRE_BAD_RANK, "PA-V5", "query", "has rank %ld, not 2",
                              (long)query->ndim);
  }
  const size_t size = quire_dtype_size(query->dtype);
  if (size == 0 || attention->num_heads < 1 || query->shape[0] < 0 || query->shape[1] < 0 ||
      query->shape[1] % attention->num_heads != 0) {
    return quire_serving_fail(error, size == 0 ? QUIRE_BAD_TYPE : QUIRE_BAD_SHAPE, "PA-V8", "query",
                              "[%lld, %lld] with num_heads %lld", (long long)query->shape[0],
                              (long long)query->shape[1], (long long)attention->num_heads);
  }
  *part = (quire_shared_prefix_parts){.rows = query->shape[0],
                                      .heads = attention->num_heads,
                                      .head_size = query->shape[1] / attention->num_heads};
  size_t slots;
  bool is_small =
      part->rows <= INT32_MAX &&
      quire_serving_multiply((size_t)part->rows, (size_t)query->shape[1], &part->output_bytes) &&
      quire_serving_multiply(part->output_bytes, size, &part->output_bytes) &&
      quire_serving_multiply((size_t)part->rows, (size_t)part->heads, &part->lse_bytes) &&
      quire_serving_multiply(part->lse_bytes, sizeof(float), &part->lse_bytes) &&
      quire_serving_multiply((size_t)part->rows, sizeof(int32_t), &slots);
  is_small = is_small && place(&part->bytes, part->output_bytes, &part->prefix_output) &&
             place(&part->bytes, part->output_bytes, &part->suffix_output) &&
             place(&part->bytes, part->lse_bytes, &part->prefix_lse) &&
             place(&part->bytes, part->lse_bytes, &part->suffix_lse) &&
             place(&part->bytes, part->lse_bytes, &part->merged_lse) &&
             place(&part->bytes, slots, &part->slots);
  return is_small
             ? QUIRE_OK
             : quire_serving_fail(error, QUIRE_LIMIT, "PA-V11", "query",
                                  "scratch for %lld rows exceeds 64 bits", (long long)part->rows);
}

quire_status quire_shared_prefix_scratch(const quire_shared_prefix_args *args, size_t *bytes,
                                         quire_error *error) {
  if (args == NULL || bytes == NULL || args->struct_size != sizeof *args) {
    return quire_serving_fail(error, QUIRE_BAD_REQUEST, NULL, "args",
                              "args or bytes is NULL, or struct_size is wrong");
  }
  quire_shared_prefix_parts part = {.rows = 0};
  QUIRE_SERVING_TRY(find_parts(args, &part, error));
  *bytes = part.bytes;
  return QUIRE_OK;
}

/* ---- the calls ---- */

static quire_tensor dense(void *data, quire_dtype dtype, int32_t ndim, const int64_t *shape) {
  return (quire_tensor){data, 0, dtype, ndim, shape, NULL};
}

/* Rows [first, first + count) of a matrix. shape is filled in and must live as long as the result.
 */
static quire_tensor rows_of(const quire_tensor *matrix, int64_t first, int64_t count,
                            int64_t shape[2]) {
  quire_tensor rows = *matrix;
  const int64_t stride = matrix->strides != NULL ? matrix->strides[0] : matrix->shape[1];
  rows.byte_offset += (uint64_t)(first * stride) * quire_dtype_size(matrix->dtype);
  shape[0] = count;
  shape[1] = matrix->shape[1];
  rows.shape = shape;
  return rows;
}

/* Rows [first, first + count) see the whole prefix; nothing is stored. */
static quire_status attend_prefix(quire_device *device, const quire_shared_prefix_args *args,
                                  const quire_shared_prefix_parts *part, int64_t first,
                                  int64_t count, quire_error *error) {
  char *scratch = args->scratch;
  quire_paged_attention_args call = args->attention;
  int64_t query_shape[2];
  int64_t key_shape[2];
  int64_t value_shape[2];
  int64_t output_shape[2];
  const int64_t lse_shape[2] = {count, part->heads};
  const int64_t one[1] = {1};
  const int64_t two[1] = {2};
  const int64_t slot_shape[1] = {count};
  const int64_t table_shape[2] = {1, args->prefix_tokens / args->attention.key_cache.shape[1]};
  int32_t cumulative[2] = {0, (int32_t)count};
  int32_t past[1] = {(int32_t)(args->prefix_tokens - count)};
  call.query = rows_of(&args->attention.query, first, count, query_shape);
  call.key = rows_of(&args->attention.key, first, count, key_shape);
  call.value = rows_of(&args->attention.value, first, count, value_shape);
  const quire_tensor output =
      dense(scratch + part->prefix_output, call.query.dtype, 2, args->attention.query.shape);
  call.output = rows_of(&output, first, count, output_shape);
  call.softmax_lse = dense((float *)(void *)(scratch + part->prefix_lse) + first * part->heads,
                           QUIRE_FLOAT32, 2, lse_shape);
  call.cumulative_sequence_length = dense(cumulative, QUIRE_INT32, 1, two);
  call.past_seqlens = dense(past, QUIRE_INT32, 1, one);
  call.block_table = dense((char *)args->prefix_table.data + args->prefix_table.byte_offset,
                           QUIRE_INT32, 2, table_shape);
  call.slot_mapping = dense(scratch + part->slots, QUIRE_INT32, 1, slot_shape);
  call.head_sink = (quire_tensor){.data = NULL}; /* the suffix has it: it counts once */
  call.attention_metadata = (quire_tensor){.data = NULL};
  call.is_causal = 0;
  return quire_paged_attention(device, &call, error);
}

static quire_status attend_suffixes(quire_device *device, const quire_shared_prefix_args *args,
                                    const quire_shared_prefix_parts *part, quire_error *error) {
  char *scratch = args->scratch;
  const int64_t lse_shape[2] = {part->rows, part->heads};
  quire_paged_attention_args call = args->attention;
  call.output = dense(scratch + part->suffix_output, call.query.dtype, 2, call.query.shape);
  call.softmax_lse = dense(scratch + part->suffix_lse, QUIRE_FLOAT32, 2, lse_shape);
  return quire_paged_attention(device, &call, error);
}

static quire_status merge(quire_device *device, const quire_shared_prefix_args *args,
                          const quire_shared_prefix_parts *part, quire_error *error) {
  char *scratch = args->scratch;
  const quire_dtype type = args->attention.query.dtype;
  const int64_t shape[3] = {part->rows, part->heads, part->head_size};
  const quire_tensor *lse = &args->attention.softmax_lse;
  quire_merge_attention_states_args call;
  quire_merge_attention_states_args_init(&call);
  call.output_a = dense(scratch + part->prefix_output, type, 3, shape);
  call.softmax_lse_a = dense(scratch + part->prefix_lse, QUIRE_FLOAT32, 2, shape);
  call.output_b = dense(scratch + part->suffix_output, type, 3, shape);
  call.softmax_lse_b = dense(scratch + part->suffix_lse, QUIRE_FLOAT32, 2, shape);
  call.output = args->attention.output;
  call.output.ndim = 3;
  call.output.shape = shape;
  call.output.strides = NULL; /* it is dense */
  call.softmax_lse =
      lse->data != NULL ? *lse : dense(scratch + part->merged_lse, QUIRE_FLOAT32, 2, shape);
  call.workspace = args->attention.workspace;
  call.executor = args->attention.executor;
  return quire_merge_attention_states(device, &call, error);
}

quire_status quire_shared_prefix_attention(quire_device *device,
                                           const quire_shared_prefix_args *args,
                                           quire_error *error) {
  if (device == NULL || args == NULL || args->struct_size != sizeof *args) {
    return quire_serving_fail(error, QUIRE_BAD_REQUEST, NULL, "args",
                              "device or args is NULL, or struct_size is wrong");
  }
  quire_shared_prefix_parts part = {.rows = 0};
  QUIRE_SERVING_TRY(find_parts(args, &part, error));
  QUIRE_SERVING_TRY(quire_shared_prefix_check(device, args, &part, error));
  int32_t *slots = (int32_t *)(void *)((char *)args->scratch + part.slots);
  for (int64_t i = 0; i < part.rows; ++i) {
    slots[i] = -1;
  }
  /* First what may refuse the call and stores the new keys: nothing is lost if it does. */
  QUIRE_SERVING_TRY(attend_suffixes(device, args, &part, error));
  for (int64_t first = 0; first < part.rows; first += args->prefix_tokens) {
    const int64_t left = part.rows - first;
    const int64_t count = left < args->prefix_tokens ? left : args->prefix_tokens;
    QUIRE_SERVING_TRY(attend_prefix(device, args, &part, first, count, error));
  }
  return merge(device, args, &part, error);
}
