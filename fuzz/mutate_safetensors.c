/* The mutator of files of tensors: the header by its structure, its length and offsets mended. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "mutate_json.h"
#include "safetensors.h"

enum { LENGTH_BYTES = 8, LARGEST = 1 << 14 };

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);

/* The bytes that the entry's type and shape need; 0 where they are out of order. */
static size_t needed(const json_t *entry) {
  const char *dtype = json_string_value(json_object_get(entry, "dtype"));
  json_t *size = NULL;
  size_t index = 0;
  size_t bytes = dtype ? quire_dtype_size(quire_safetensors_dtype(dtype)) : 0;
  json_array_foreach(json_object_get(entry, "shape"), index, size) {
    const json_int_t value = json_integer_value(size);
    bytes = value < 0 || value > LARGEST ? 0 : bytes * (size_t)value;
    bytes = bytes > LARGEST ? 0 : bytes;
  }
  return bytes;
}

/* Lays the tensors one behind the other; returns the bytes of all. */
static size_t settle(json_t *header) {
  const char *key = NULL;
  json_t *entry = NULL;
  size_t end = 0;
  json_object_foreach(header, key, entry) {
    if (json_object_get(entry, "data_offsets") != NULL) {
      const size_t begin = end;
      end += needed(entry);
      json_object_set_new(entry, "data_offsets",
                          json_pack("[I, I]", (json_int_t)begin, (json_int_t)end));
    }
  }
  return end;
}

/* Makes header and elements fit each other, where that is to be had; returns the size of all. */
static size_t mend(uint8_t *data, size_t size, size_t *header_size, size_t max_size) {
  json_t *header = json_loadb((const char *)data + LENGTH_BYTES, *header_size, 0, NULL);
  const size_t bytes = settle(header);
  char *text = header ? json_dumps(header, JSON_COMPACT) : NULL;
  const size_t length = text ? strlen(text) : 0;
  json_decref(header);
  if (length > 0 && LENGTH_BYTES + length + bytes <= max_size) {
    memcpy(data + LENGTH_BYTES, text, length);
    memset(data + LENGTH_BYTES + length, (int)length, bytes);
    *header_size = length;
    size = LENGTH_BYTES + length + bytes;
  }
  free(text);
  return size;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed) {
  uint64_t length = 0;
  for (size_t i = 0; i < LENGTH_BYTES && size > LENGTH_BYTES; i++) {
    length |= (uint64_t)data[i] << (8 * i);
  }
  if (length == 0 || length > size - LENGTH_BYTES || seed % 8 == 0) {
    return LLVMFuzzerMutate(data, size, max_size);
  }
  const size_t rest = size - LENGTH_BYTES - (size_t)length;
  uint8_t *header = malloc(max_size);
  if (header == NULL) {
    return size;
  }
  memcpy(header, data + LENGTH_BYTES, (size_t)length);
  size_t header_size =
      mutate_json(header, (size_t)length, max_size - LENGTH_BYTES - rest, seed / 8);
  memmove(data + LENGTH_BYTES + header_size, data + LENGTH_BYTES + length, rest);
  memcpy(data + LENGTH_BYTES, header, header_size);
  free(header);
  size = LENGTH_BYTES + header_size + rest;
  if (seed % 8 > 2) {
    size = mend(data, size, &header_size, max_size);
  }
  for (size_t i = 0; i < LENGTH_BYTES; i++) {
    data[i] = (uint8_t)((uint64_t)header_size >> (8 * i));
  }
  return size;
}
