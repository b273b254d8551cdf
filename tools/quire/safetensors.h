/*
 * Files of named tensors in the safetensors layout: eight bytes with the little-endian length of a
 * JSON header, the header, then the elements of all tensors without gaps, each
 * little-endian.
 */
#ifndef QUIRE_TOOL_SAFETENSORS_H
#define QUIRE_TOOL_SAFETENSORS_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "files.h"
#include "quire/status.h"
#include "quire/tensor.h"

/* One tensor of a file. Dense, row-major, aligned to its element size. Read-only memory. */
typedef struct quire_stored_tensor {
  const char *name;
  quire_dtype dtype;
  int32_t ndim;
  int64_t shape[QUIRE_MAX_RANK];
  size_t bytes;
  const void *data; /* never NULL */
  size_t begin;     /* offset within the elements of the file; readers need not care */
  void *copy;       /* a copy, where the file is not aligned or in another byte order; else NULL */
} quire_stored_tensor;

typedef struct quire_safetensors {
  quire_file_bytes file;
  json_t *header;               /* owns the names */
  json_t *metadata;             /* borrowed: object of strings, or NULL */
  quire_stored_tensor *tensors; /* in the order of the header */
  size_t count;
} quire_safetensors;

/*
 * Opens a file. Everything in the header is checked before any element can be reached: lengths,
 * JSON, names, types, products of dimensions, and that the tensors cover the elements exactly once.
 * On failure nothing is held. Statuses: NOT_FOUND, IO (the message says what and where), LIMIT
 * (a size of more than 63 bits, a header of more than 100 MB), OUT_OF_MEMORY.
 */
quire_status quire_safetensors_open(const char *path, quire_safetensors *tensors,
                                    quire_error *error);

/* The same for bytes in memory, which must stay as they are until the release. */
quire_status quire_safetensors_parse(const unsigned char *data, size_t size,
                                     quire_safetensors *tensors, quire_error *error);

void quire_safetensors_release(quire_safetensors *tensors);

/* The tensor of that name, or NULL. */
const quire_stored_tensor *quire_safetensors_find(const quire_safetensors *tensors,
                                                  const char *name);

/* Element type by the name the format uses ("F16"), or by ONNX's ("float16"); NONE if unknown. */
quire_dtype quire_safetensors_dtype(const char *name);
/* Name that the format uses. */
const char *quire_safetensors_dtype_name(quire_dtype dtype);

/* 1 if memory has the elements' byte order, 0 if it has the other one. */
int quire_safetensors_is_native(void);
/* Copies elements from memory's byte order to the files', or back. */
void quire_safetensors_copy(void *to, const void *from, size_t bytes, quire_dtype dtype);

/* Bytes of a dense tensor; LIMIT with `subject` in the message if they exceed 63 bits. */
quire_status quire_safetensors_bytes(const char *subject, quire_dtype dtype, int32_t ndim,
                                     const int64_t *shape, size_t *bytes, quire_error *error);

/*
 * Writes a file whole or not at all (quire_file_write): tensors by falling element size, then by
 * name, so that each is aligned; the header is padded with blanks to a multiple of eight.
 * `metadata` is an object of strings, or NULL. `tensors` is sorted in place.
 */
quire_status quire_safetensors_write(const char *path, const json_t *metadata,
                                     quire_stored_tensor *tensors, size_t count,
                                     quire_error *error);

#endif
