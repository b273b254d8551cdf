/*
 * A saved sequence: a safetensors file whose header is a function of a few numbers and of the
 * engine's tensors. So reading needs no parser: the expected header is made again and compared.
 *
 * "__metadata__" comes first: format, checksum (XXH64 of header and data, computed with zeros in
 * its own place), tokens, whether ids and a state are there, key. Then "quire.tokens" (I32), and
 * the engine's tensors in its order: [rows, ...] without block axis, the rows being the committed
 * positions that a window still sees; states [1, ...], or [0, ...] without a state.
 */
#ifndef QUIRE_SERVING_SEQUENCE_FILE_H
#define QUIRE_SERVING_SEQUENCE_FILE_H

#include "cache_object.h"
#include "cache_view.h"

enum { QUIRE_FILE_CHECKSUM_DIGITS = 16, QUIRE_FILE_TOKEN_DIGITS = 10 };

typedef struct quire_sequence_file {
  const quire_cache *cache;
  const quire_cache_tensor *tensors;
  size_t tensor_count;
  uint64_t checksum;
  int32_t tokens;
  bool has_ids, has_state, has_key;
  quire_prefix_key key;
  /* Made by quire_sequence_file_header(). */
  char *header; /* with its eight bytes of length */
  size_t header_size;
} quire_sequence_file;

/* Offset of the checksum's digits in the header; the part before them is always the same. */
size_t quire_sequence_file_checksum_offset(void);
/* Checks names, groups, axes and sizes of the tensors. */
quire_status quire_sequence_file_check(const quire_sequence_file *file, quire_error *error);
/* Makes the header; to be given back with ..._release(). OUT_OF_MEMORY. */
quire_status quire_sequence_file_header(quire_sequence_file *file, quire_error *error);
void quire_sequence_file_release(quire_sequence_file *file);
/* Reads checksum, tokens, ids and state from the first bytes of a header; false if they are not. */
bool quire_sequence_file_parse(quire_sequence_file *file, const char *header, size_t size);
/* Bytes that quire_sequence_file_parse() wants. */
size_t quire_sequence_file_fixed_size(void);
/* First position of a tensor that is stored, and the largest piece that is. */
int32_t quire_sequence_file_first(const quire_sequence_file *file, const quire_cache_view *view);
size_t quire_sequence_file_piece(const quire_sequence_file *file);

#endif
