/*
 * What attention over a shared prefix refuses before it writes: all that only its later calls would
 * see, when the caches have changed already. The plain call of the suffixes checks the rest.
 */
#include "shared_prefix_check.h"

#include <string.h>

#include "serving_support.h"

static bool is_given(const quire_tensor *tensor) {
  return tensor->ndim > 0;
}

static char *data_of(const quire_tensor *tensor) {
  return (char *)tensor->data + tensor->byte_offset;
}

/* Bytes [first, end) of the address space. */
typedef struct memory_range {
  uintptr_t first, end;
} memory_range;

/* Bytes from a tensor's first element to its last. Empty where the plain call refuses the form. */
static memory_range range_of(const quire_tensor *tensor) {
  const memory_range empty = {0, 0};
  size_t reach = quire_dtype_size(tensor->dtype);
  if (tensor->data == NULL || reach == 0 || tensor->ndim < 1 || tensor->ndim > QUIRE_MAX_RANK ||
      tensor->shape == NULL) {
    return empty;
  }
  size_t next = reach;
  for (int32_t axis = tensor->ndim; axis-- > 0;) {
    const int64_t size = tensor->shape[axis];
    size_t stride = next;
    size_t step = 0;
    if (size < 1 || !quire_serving_multiply(next, (size_t)size, &next)) {
      return empty;
    }
    if (size > 1 && tensor->strides != NULL &&
        (tensor->strides[axis] < 0 ||
         !quire_serving_multiply((size_t)tensor->strides[axis], quire_dtype_size(tensor->dtype),
                                 &stride))) {
      return empty;
    }
    if (!quire_serving_multiply(stride, (size_t)size - 1, &step) || step > SIZE_MAX - reach) {
      return empty;
    }
    reach += step;
  }
  const uintptr_t data = (uintptr_t)tensor->data;
  if (tensor->byte_offset > UINTPTR_MAX - data ||
      reach > UINTPTR_MAX - data - (uintptr_t)tensor->byte_offset) {
    return empty;
  }
  const uintptr_t first = data + (uintptr_t)tensor->byte_offset;
  return (memory_range){first, first + reach};
}

static bool overlap(memory_range a, memory_range b) {
  return a.first < b.end && b.first < a.end;
}

/* What a tensor is to the plain calls: they see the overlaps of inputs and caches themselves. */
typedef enum tensor_role { INPUT, CACHE, OUTPUT, TABLE } tensor_role;

typedef struct named_tensor {
  const char *name;
  const quire_tensor *tensor;
  tensor_role role;
} named_tensor;

/* Nothing may share memory with an output, nor prefix_table with a cache. */
static bool are_separate(tensor_role a, tensor_role b) {
  return a == OUTPUT || b == OUTPUT || (a == CACHE && b == TABLE) || (a == TABLE && b == CACHE);
}

static quire_status check_overlaps_of(const named_tensor *all, size_t count, memory_range scratch,
                                      quire_error *error) {
  for (size_t i = 0; i < count; ++i) {
    const memory_range range = range_of(all[i].tensor);
    if (overlap(range, scratch)) {
      return quire_serving_fail(error, QUIRE_BAD_ALIAS, "PA-V12", all[i].name, "overlaps scratch");
    }
    for (size_t j = 0; j < i; ++j) {
      if (are_separate(all[i].role, all[j].role) && overlap(range, range_of(all[j].tensor))) {
        const bool is_first = all[i].role == OUTPUT || all[i].role == CACHE;
        return quire_serving_fail(error, QUIRE_BAD_ALIAS, "PA-V12", all[is_first ? i : j].name,
                                  "is written and overlaps %s", all[is_first ? j : i].name);
      }
    }
  }
  return QUIRE_OK;
}

static quire_status check_overlaps(const quire_shared_prefix_args *args,
                                   const quire_shared_prefix_parts *part, quire_error *error) {
  const quire_paged_attention_args *attention = &args->attention;
  const named_tensor all[] = {
      {"query", &attention->query, INPUT},
      {"key", &attention->key, INPUT},
      {"value", &attention->value, INPUT},
      {"key_cache", &attention->key_cache, CACHE},
      {"value_cache", &attention->value_cache, CACHE},
      {"cumulative_sequence_length", &attention->cumulative_sequence_length, INPUT},
      {"past_seqlens", &attention->past_seqlens, INPUT},
      {"block_table", &attention->block_table, INPUT},
      {"slot_mapping", &attention->slot_mapping, INPUT},
      {"head_sink", &attention->head_sink, INPUT},
      {"k_scale", &attention->k_scale, INPUT},
      {"v_scale", &attention->v_scale, INPUT},
      {"k_scale_cache", &attention->k_scale_cache, CACHE},
      {"v_scale_cache", &attention->v_scale_cache, CACHE},
      {"attention_metadata", &attention->attention_metadata, INPUT},
      {"prefix_table", &args->prefix_table, TABLE},
      {"output", &attention->output, OUTPUT},
      {"softmax_lse", &attention->softmax_lse, OUTPUT},
  };
  const uintptr_t first = (uintptr_t)args->scratch;
  return check_overlaps_of(all, sizeof all / sizeof all[0],
                           (memory_range){first, first + part->bytes}, error);
}

/* A dense matrix in host memory. */
static quire_status check_matrix(const char *name, const quire_tensor *tensor, quire_dtype dtype,
                                 int64_t rows, int64_t columns, quire_error *error) {
  if (tensor->ndim != 2 || tensor->shape == NULL) {
    return quire_serving_fail(error, QUIRE_BAD_RANK, "PA-V5", name, "has rank %ld, not 2",
                              (long)tensor->ndim);
  }
  if (tensor->dtype != dtype) {
    return quire_serving_fail(error, QUIRE_BAD_TYPE, "PA-V6", name, "is %s, not %s",
                              quire_dtype_name(tensor->dtype), quire_dtype_name(dtype));
  }
  const int64_t *shape = tensor->shape;
  if (shape[0] != rows || shape[1] != columns) {
    return quire_serving_fail(error, QUIRE_BAD_SHAPE, "PA-V10", name,
                              "is [%lld, %lld], not [%lld, %lld]", (long long)shape[0],
                              (long long)shape[1], (long long)rows, (long long)columns);
  }
  if (rows == 0 || columns == 0) {
    return QUIRE_OK;
  }
  const int64_t *strides = tensor->strides;
  if (strides != NULL &&
      ((columns > 1 && strides[1] != 1) || (rows > 1 && strides[0] != columns))) {
    return quire_serving_fail(error, QUIRE_UNSUPPORTED, "PA-S1", name,
                              "has strides [%lld, %lld], it must be dense", (long long)strides[0],
                              (long long)strides[1]);
  }
  if (tensor->data == NULL) {
    return quire_serving_fail(error, QUIRE_BAD_PRESENCE, "PA-V4", name,
                              "is required, data is NULL");
  }
  const memory_range range = range_of(tensor);
  if (range.end == 0 || range.first % quire_dtype_size(dtype) != 0) {
    return quire_serving_fail(error, QUIRE_BAD_REQUEST, NULL, name,
                              "its address is no multiple of the %zu bytes of %s, or its elements "
                              "leave the address space",
                              quire_dtype_size(dtype), quire_dtype_name(dtype));
  }
  return QUIRE_OK;
}

/* What merge() writes when the caches have been written. */
static quire_status check_outputs(const quire_paged_attention_args *attention,
                                  const quire_shared_prefix_parts *part, quire_error *error) {
  const quire_tensor *query = &attention->query;
  const quire_tensor *output = &attention->output;
  if (output->data == NULL && output->dtype == QUIRE_DTYPE_NONE) {
    return quire_serving_fail(error, QUIRE_BAD_PRESENCE, "PA-V4", "output",
                              "is required, data is NULL");
  }
  QUIRE_SERVING_TRY(
      check_matrix("output", output, query->dtype, part->rows, query->shape[1], error));
  if (attention->softmax_lse.data == NULL) {
    return QUIRE_OK;
  }
  return check_matrix("softmax_lse", &attention->softmax_lse, QUIRE_FLOAT32, part->rows,
                      part->heads, error);
}

/* The table holds prefix_tokens, and every entry in use is a block of the cache. */
static quire_status check_table(const quire_shared_prefix_args *args, quire_error *error) {
  const quire_tensor *table = &args->prefix_table;
  const int64_t given = table->ndim == 2 && table->shape != NULL ? table->shape[1] : 0;
  QUIRE_SERVING_TRY(check_matrix("prefix_table", table, QUIRE_INT32, 1, given, error));
  const int64_t blocks = args->attention.key_cache.shape[0];
  const int64_t block_size = args->attention.key_cache.shape[1];
  const int64_t columns = args->prefix_tokens / block_size;
  if (columns > given) {
    return quire_serving_fail(error, QUIRE_BAD_VALUE, "PA-V13", "prefix_tokens",
                              "is %lld, prefix_table holds %lld blocks of %lld",
                              (long long)args->prefix_tokens, (long long)given,
                              (long long)block_size);
  }
  const int32_t *entries = (const int32_t *)(const void *)data_of(table);
  for (int64_t i = 0; i < columns; ++i) {
    if (entries[i] < 0 || entries[i] >= blocks) {
      return quire_serving_fail(error, QUIRE_BAD_VALUE, "PA-E9", "prefix_table",
                                "entry (0, %lld) is %ld, the cache has %lld blocks", (long long)i,
                                (long)entries[i], (long long)blocks);
    }
  }
  return QUIRE_OK;
}

static quire_status check_presence(const quire_shared_prefix_args *args,
                                   const quire_shared_prefix_parts *part, quire_error *error) {
  const quire_paged_attention_args *attention = &args->attention;
  if (!is_given(&attention->key) || !is_given(&attention->value) ||
      is_given(&attention->key_cache_out) || is_given(&attention->value_cache_out) ||
      attention->local_window_size > 0) {
    return quire_serving_fail(error, QUIRE_UNSUPPORTED, NULL, "attention",
                              "packed query, cache outputs and windows have no shared prefix");
  }
  const quire_tensor *slots = &attention->slot_mapping;
  const bool has_slots = is_given(slots) && (slots->data != NULL || part->rows == 0);
  if (!has_slots || !is_given(&args->prefix_table)) {
    return quire_serving_fail(error, QUIRE_BAD_PRESENCE, NULL,
                              has_slots ? "prefix_table" : "slot_mapping",
                              "slot_mapping and prefix_table are required");
  }
  return QUIRE_OK;
}

quire_status quire_shared_prefix_check(const quire_device *device,
                                       const quire_shared_prefix_args *args,
                                       const quire_shared_prefix_parts *part, quire_error *error) {
  if (strcmp(quire_device_describe(device)->backend, "cpu") != 0) {
    return quire_serving_fail(error, QUIRE_UNSUPPORTED, NULL, "device",
                              "is %s, scratch and prefix_table are read by the host",
                              quire_device_describe(device)->backend);
  }
  QUIRE_SERVING_TRY(check_presence(args, part, error));
  const quire_tensor *cache = &args->attention.key_cache;
  const bool is_paged = cache->ndim == 4 && cache->shape != NULL && cache->shape[1] > 0;
  if (!is_paged || args->prefix_tokens < 1 || args->prefix_tokens > INT32_MAX ||
      args->prefix_tokens % cache->shape[1] != 0) {
    return quire_serving_fail(error, QUIRE_BAD_VALUE, "SV-8", "prefix_tokens",
                              "is %lld, not a multiple of the block size",
                              (long long)args->prefix_tokens);
  }
  if (args->scratch == NULL || args->scratch_bytes < part->bytes ||
      part->bytes > UINTPTR_MAX - (uintptr_t)args->scratch || (uintptr_t)args->scratch % 64 != 0) {
    return quire_serving_fail(error, QUIRE_BAD_REQUEST, NULL, "scratch",
                              "%zu bytes at %p, %zu are needed, aligned to 64", args->scratch_bytes,
                              args->scratch, part->bytes);
  }
  QUIRE_SERVING_TRY(check_table(args, error));
  QUIRE_SERVING_TRY(check_outputs(&args->attention, part, error));
  return check_overlaps(args, part, error);
}
