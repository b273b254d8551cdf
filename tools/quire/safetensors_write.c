#include <stdlib.h>
#include <string.h>

#include "failure.h"
#include "safetensors.h"

static int by_element_size(const void *left, const void *right) {
  const quire_stored_tensor *a = left;
  const quire_stored_tensor *b = right;
  const size_t a_size = quire_dtype_size(a->dtype);
  const size_t b_size = quire_dtype_size(b->dtype);
  return a_size != b_size ? (a_size > b_size ? -1 : 1) : strcmp(a->name, b->name);
}

/* NULL: no memory. */
static json_t *entry_of(const quire_stored_tensor *tensor, size_t begin) {
  const size_t end = begin + tensor->bytes;
  json_t *shape = json_array();
  for (int32_t i = 0; i < tensor->ndim; ++i) {
    if (json_array_append_new(shape, json_integer(tensor->shape[i])) != 0) {
      json_decref(shape);
      return NULL;
    }
  }
  return json_pack("{s:s, s:o, s:[I, I]}", "dtype", quire_safetensors_dtype_name(tensor->dtype),
                   "shape", shape, "data_offsets", (json_int_t)begin, (json_int_t)end);
}

/* The header's text, padded; NULL if there is no memory. */
static char *make_header(const json_t *metadata, const quire_stored_tensor *tensors, size_t count,
                         size_t *size) {
  json_t *header = json_object();
  size_t begin = 0;
  int is_bad = !header;
  if (metadata) {
    is_bad |= json_object_set_new(header, "__metadata__", json_deep_copy(metadata));
  }
  for (size_t i = 0; i < count; ++i) {
    is_bad |= json_object_set_new(header, tensors[i].name, entry_of(&tensors[i], begin));
    begin += tensors[i].bytes;
  }
  const size_t length = is_bad ? 0 : json_dumpb(header, NULL, 0, JSON_COMPACT);
  *size = (length + 7) / 8 * 8;
  char *padded = length > 0 ? malloc(*size) : NULL;
  if (padded) {
    memset(padded, ' ', *size);
    if (json_dumpb(header, padded, *size, JSON_COMPACT) != length) {
      free(padded);
      padded = NULL;
    }
  }
  json_decref(header);
  return padded;
}

/* Bytes as they go into the file; *copy is the caller's to free. NULL: no memory. */
static const void *file_bytes(const quire_stored_tensor *tensor, void **copy) {
  if (quire_safetensors_is_native()) {
    return tensor->data;
  }
  *copy = malloc(tensor->bytes + 1);
  if (*copy) {
    quire_safetensors_copy(*copy, tensor->data, tensor->bytes, tensor->dtype);
  }
  return *copy;
}

quire_status quire_safetensors_write(const char *path, const json_t *metadata,
                                     quire_stored_tensor *tensors, size_t count,
                                     quire_error *error) {
  if (count > 0) {
    qsort(tensors, count, sizeof *tensors, by_element_size);
  }
  size_t header_size = 0;
  char *header = make_header(metadata, tensors, count, &header_size);
  quire_file_piece *pieces = calloc(count + 2, sizeof *pieces);
  void **copies = calloc(count + 1, sizeof *copies);
  int is_complete = header && pieces && copies;
  for (size_t i = 0; is_complete && i < count; ++i) {
    pieces[i + 2] = (quire_file_piece){file_bytes(&tensors[i], &copies[i]), tensors[i].bytes};
    is_complete = tensors[i].bytes == 0 || pieces[i + 2].data;
  }
  quire_status status = QUIRE_OUT_OF_MEMORY;
  if (is_complete) {
    unsigned char length[8];
    for (int i = 0; i < 8; ++i) {
      length[i] = (unsigned char)((uint64_t)header_size >> (8 * i) & 0xff);
    }
    pieces[0] = (quire_file_piece){length, sizeof length};
    pieces[1] = (quire_file_piece){header, header_size};
    status = quire_file_write(path, pieces, count + 2, error);
  } else {
    quire_failure_set(error, status, "no memory for the file's header and elements");
  }
  for (size_t i = 0; copies && i < count; ++i) {
    free(copies[i]);
  }
  free(copies);
  free(header);
  free(pieces);
  return status;
}
