#include "safetensors.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "failure.h"

enum { LENGTH_BYTES = 8, LONGEST_HEADER = 100 * 1000 * 1000 };

/* Indexed by quire_dtype. */
static const char *const format_names[QUIRE_DTYPE_COUNT] = {
    "none", "F32", "F16", "BF16", "F64", "I8",  "I16",
    "I32",  "I64", "U8",  "U16",  "U32", "U64", "BOOL",
};

quire_dtype quire_safetensors_dtype(const char *name) {
  for (int i = 1; i < QUIRE_DTYPE_COUNT; ++i) {
    if (!strcmp(name, format_names[i])) {
      return (quire_dtype)i;
    }
  }
  return quire_dtype_from_name(name);
}

const char *quire_safetensors_dtype_name(quire_dtype dtype) {
  return dtype > QUIRE_DTYPE_NONE && dtype < QUIRE_DTYPE_COUNT ? format_names[dtype] : "none";
}

quire_status quire_safetensors_bytes(const char *subject, quire_dtype dtype, int32_t ndim,
                                     const int64_t *shape, size_t *bytes, quire_error *error) {
  /* A dimension of 0 must not hide that the others overflow: strides are made of them. */
  uint64_t product = quire_dtype_size(dtype);
  int is_empty = 0;
  for (int32_t i = 0; i < ndim; ++i) {
    const uint64_t size = (uint64_t)shape[i];
    if (size == 0) {
      is_empty = 1;
    } else if (product > (uint64_t)INT64_MAX / size || product * size > SIZE_MAX / 2) {
      return quire_failure_set(error, QUIRE_LIMIT, "%.64s: the product of the dimensions overflows",
                               subject);
    } else {
      product *= size;
    }
  }
  *bytes = is_empty ? 0 : (size_t)product;
  return QUIRE_OK;
}

static quire_status read_shape(const json_t *list, quire_stored_tensor *tensor,
                               quire_error *error) {
  const size_t count = json_array_size(list);
  if (!json_is_array(list)) {
    return quire_failure_set(error, QUIRE_IO, "%.64s: \"shape\" must be a list", tensor->name);
  }
  if (count > QUIRE_MAX_RANK) {
    return quire_failure_set(error, QUIRE_IO, "%.64s: %zu dimensions, the most are %d",
                             tensor->name, count, QUIRE_MAX_RANK);
  }
  for (size_t i = 0; i < count; ++i) {
    const json_t *size = json_array_get(list, i);
    if (!json_is_integer(size) || json_integer_value(size) < 0) {
      return quire_failure_set(error, QUIRE_IO,
                               "%.64s: dim %zu of \"shape\" is no whole number from 0",
                               tensor->name, i);
    }
    tensor->shape[i] = json_integer_value(size);
  }
  tensor->ndim = (int32_t)count;
  return QUIRE_OK;
}

/* Reads "data_offsets" and compares them with the shape and the size of the file. */
static quire_status read_offsets(const json_t *list, size_t data_size, quire_stored_tensor *tensor,
                                 quire_error *error) {
  const json_t *first = json_array_get(list, 0);
  const json_t *last = json_array_get(list, 1);
  if (json_array_size(list) != 2 || !json_is_integer(first) || !json_is_integer(last) ||
      json_integer_value(first) < 0) {
    return quire_failure_set(
        error, QUIRE_IO, "%.64s: \"data_offsets\" must be two whole numbers from 0", tensor->name);
  }
  const int64_t begin = json_integer_value(first);
  const int64_t end = json_integer_value(last);
  if (end < begin || (uint64_t)end > data_size) {
    return quire_failure_set(error, QUIRE_IO,
                             "%.64s: data_offsets [%lld, %lld] do not lie in the %zu bytes of data",
                             tensor->name, (long long)begin, (long long)end, data_size);
  }
  if ((uint64_t)(end - begin) != tensor->bytes) {
    return quire_failure_set(
        error, QUIRE_IO,
        "%.64s: data_offsets [%lld, %lld] hold %lld bytes, dtype and shape need %zu", tensor->name,
        (long long)begin, (long long)end, (long long)(end - begin), tensor->bytes);
  }
  tensor->begin = (size_t)begin;
  return QUIRE_OK;
}

static quire_status read_entry(const json_t *entry, size_t data_size, quire_stored_tensor *tensor,
                               quire_error *error) {
  const json_t *dtype = json_object_get(entry, "dtype");
  if (!json_is_object(entry) || json_object_size(entry) != 3 || !json_is_string(dtype) ||
      !json_object_get(entry, "shape") || !json_object_get(entry, "data_offsets")) {
    return quire_failure_set(error, QUIRE_IO,
                             "%.64s: needs \"dtype\", \"shape\", \"data_offsets\" and nothing else",
                             tensor->name);
  }
  for (int i = 1; i < QUIRE_DTYPE_COUNT && tensor->dtype == QUIRE_DTYPE_NONE; ++i) {
    if (!strcmp(json_string_value(dtype), format_names[i])) {
      tensor->dtype = (quire_dtype)i;
    }
  }
  if (tensor->dtype == QUIRE_DTYPE_NONE) {
    return quire_failure_set(error, QUIRE_IO, "%.64s: unknown dtype \"%.64s\"", tensor->name,
                             json_string_value(dtype));
  }
  quire_status status = read_shape(json_object_get(entry, "shape"), tensor, error);
  if (status == QUIRE_OK) {
    status = quire_safetensors_bytes(tensor->name, tensor->dtype, tensor->ndim, tensor->shape,
                                     &tensor->bytes, error);
  }
  return status != QUIRE_OK
             ? status
             : read_offsets(json_object_get(entry, "data_offsets"), data_size, tensor, error);
}

static quire_status check_metadata(const json_t *metadata, quire_error *error) {
  if (!json_is_object(metadata)) {
    return quire_failure_set(error, QUIRE_IO, "__metadata__ must be an object");
  }
  const char *key = NULL;
  json_t *value = NULL;
  json_object_foreach((json_t *)(uintptr_t)metadata, key, value) {
    if (!json_is_string(value)) {
      return quire_failure_set(error, QUIRE_IO, "__metadata__: \"%.64s\" must be text", key);
    }
  }
  return QUIRE_OK;
}

static quire_status read_entries(quire_safetensors *tensors, size_t data_size, quire_error *error) {
  const size_t members = json_object_size(tensors->header);
  tensors->tensors = calloc(members + 1, sizeof *tensors->tensors);
  if (!tensors->tensors) {
    return quire_failure_set(error, QUIRE_OUT_OF_MEMORY, "no memory for %zu tensors", members);
  }
  const char *key = NULL;
  json_t *value = NULL;
  json_object_foreach(tensors->header, key, value) {
    quire_status status = QUIRE_OK;
    if (!strcmp(key, "__metadata__")) {
      tensors->metadata = value;
      status = check_metadata(value, error);
    } else {
      quire_stored_tensor *tensor = &tensors->tensors[tensors->count++];
      tensor->name = key;
      status = read_entry(value, data_size, tensor, error);
    }
    if (status != QUIRE_OK) {
      return status;
    }
  }
  return QUIRE_OK;
}

/* A tensor in the order of the offsets. */
typedef struct placed_tensor {
  const quire_stored_tensor *tensor;
} placed_tensor;

static int by_offset(const void *left, const void *right) {
  const quire_stored_tensor *a = ((const placed_tensor *)left)->tensor;
  const quire_stored_tensor *b = ((const placed_tensor *)right)->tensor;
  if (a->begin != b->begin) {
    return a->begin < b->begin ? -1 : 1;
  }
  return (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

/* Every byte of the data must belong to exactly one tensor. */
static quire_status check_cover(const placed_tensor *sorted, size_t count, size_t data_size,
                                quire_error *error) {
  size_t covered = 0;
  for (size_t i = 0; i < count; ++i) {
    const quire_stored_tensor *tensor = sorted[i].tensor;
    if (tensor->begin < covered) {
      return quire_failure_set(error, QUIRE_IO,
                               "%.64s: begins at byte %zu inside %.64s, which ends at %zu",
                               tensor->name, tensor->begin, sorted[i - 1].tensor->name, covered);
    }
    if (tensor->begin > covered) {
      return quire_failure_set(error, QUIRE_IO,
                               "%.64s: bytes %zu to %zu before it belong to no tensor",
                               tensor->name, covered, tensor->begin);
    }
    covered += tensor->bytes;
  }
  return covered == data_size
             ? QUIRE_OK
             : quire_failure_set(error, QUIRE_IO, "bytes %zu to %zu at the end belong to no tensor",
                                 covered, data_size);
}

static quire_status check_layout(const quire_safetensors *tensors, size_t data_size,
                                 quire_error *error) {
  placed_tensor *sorted = calloc(tensors->count + 1, sizeof *sorted);
  if (!sorted) {
    return quire_failure_set(error, QUIRE_OUT_OF_MEMORY, "no memory for %zu tensors",
                             tensors->count);
  }
  for (size_t i = 0; i < tensors->count; ++i) {
    sorted[i].tensor = &tensors->tensors[i];
  }
  qsort(sorted, tensors->count, sizeof *sorted, by_offset);
  const quire_status status = check_cover(sorted, tensors->count, data_size, error);
  free(sorted);
  return status;
}

int quire_safetensors_is_native(void) {
  const uint16_t one = 1;
  unsigned char first;
  memcpy(&first, &one, 1);
  return first == 1;
}

void quire_safetensors_copy(void *to, const void *from, size_t bytes, quire_dtype dtype) {
  if (quire_safetensors_is_native()) {
    memcpy(to, from, bytes);
    return;
  }
  const size_t size = quire_dtype_size(dtype);
  for (size_t i = 0; i < bytes; ++i) {
    ((unsigned char *)to)[i] = ((const unsigned char *)from)[i / size * size + size - 1 - i % size];
  }
}

/* Points at the elements; those that do not lie in the file as memory has them are copied. */
static quire_status place_data(quire_safetensors *tensors, const unsigned char *data,
                               quire_error *error) {
  for (size_t i = 0; i < tensors->count; ++i) {
    quire_stored_tensor *tensor = &tensors->tensors[i];
    tensor->data = data + tensor->begin;
    if (quire_safetensors_is_native() &&
        (uintptr_t)tensor->data % quire_dtype_size(tensor->dtype) == 0) {
      continue;
    }
    tensor->copy = malloc(tensor->bytes + 1);
    if (!tensor->copy) {
      return quire_failure_set(error, QUIRE_OUT_OF_MEMORY, "%.64s: no memory for %zu bytes",
                               tensor->name, tensor->bytes);
    }
    quire_safetensors_copy(tensor->copy, tensor->data, tensor->bytes, tensor->dtype);
    tensor->data = tensor->copy;
  }
  return QUIRE_OK;
}

static quire_status read_header(const unsigned char *data, size_t size, quire_safetensors *tensors,
                                size_t *header_size, quire_error *error) {
  uint64_t length = 0;
  if (size < LENGTH_BYTES) {
    return quire_failure_set(error, QUIRE_IO, "%zu bytes are too few for a safetensors file", size);
  }
  for (int i = LENGTH_BYTES - 1; i >= 0; --i) {
    length = length << 8 | data[i];
  }
  if (length > LONGEST_HEADER) {
    return quire_failure_set(error, QUIRE_LIMIT, "header length %llu, the most is %d",
                             (unsigned long long)length, LONGEST_HEADER);
  }
  if (length > size - LENGTH_BYTES) {
    return quire_failure_set(error, QUIRE_IO, "header length %llu, the file has %zu bytes after it",
                             (unsigned long long)length, size - LENGTH_BYTES);
  }
  json_error_t fault;
  tensors->header =
      json_loadb((const char *)data + LENGTH_BYTES, (size_t)length, JSON_REJECT_DUPLICATES, &fault);
  if (!tensors->header) {
    return quire_failure_set(error, QUIRE_IO, "header: line %d, column %d: %s", fault.line,
                             fault.column, fault.text);
  }
  if (!json_is_object(tensors->header)) {
    return quire_failure_set(error, QUIRE_IO, "header: line 1, column 1: must be an object");
  }
  *header_size = (size_t)length;
  return QUIRE_OK;
}

quire_status quire_safetensors_parse(const unsigned char *data, size_t size,
                                     quire_safetensors *tensors, quire_error *error) {
  size_t header_size = 0;
  *tensors = (quire_safetensors){0};
  quire_status status = read_header(data, size, tensors, &header_size, error);
  const size_t data_size = size - LENGTH_BYTES - header_size;
  if (status == QUIRE_OK) {
    status = read_entries(tensors, data_size, error);
  }
  if (status == QUIRE_OK) {
    status = check_layout(tensors, data_size, error);
  }
  if (status == QUIRE_OK) {
    status = place_data(tensors, data + LENGTH_BYTES + header_size, error);
  }
  if (status != QUIRE_OK) {
    quire_safetensors_release(tensors);
  }
  return status;
}

quire_status quire_safetensors_open(const char *path, quire_safetensors *tensors,
                                    quire_error *error) {
  *tensors = (quire_safetensors){0};
  quire_file_bytes file;
  quire_status status = quire_file_load(path, SIZE_MAX, &file, error);
  if (status != QUIRE_OK) {
    return status;
  }
  status = quire_safetensors_parse(file.data, file.size, tensors, error);
  if (status == QUIRE_OK) {
    tensors->file = file;
  } else {
    quire_file_release(&file);
  }
  return status;
}

void quire_safetensors_release(quire_safetensors *tensors) {
  for (size_t i = 0; i < tensors->count; ++i) {
    free(tensors->tensors[i].copy);
  }
  free(tensors->tensors);
  json_decref(tensors->header);
  quire_file_release(&tensors->file);
  *tensors = (quire_safetensors){0};
}

const quire_stored_tensor *quire_safetensors_find(const quire_safetensors *tensors,
                                                  const char *name) {
  for (size_t i = 0; i < tensors->count; ++i) {
    if (!strcmp(tensors->tensors[i].name, name)) {
      return &tensors->tensors[i];
    }
  }
  return NULL;
}
