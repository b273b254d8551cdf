/* Writing a sequence to a file. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "sequence_file.h"
#include "serving_files.h"

/* Ids of all committed tokens, as far as the index and the tail know them. */
static void collect_ids(const quire_cache *cache, const quire_record *record, int32_t *ids) {
  memcpy(ids + record->indexed, quire_record_tail(cache, record),
         (size_t)(record->committed - record->indexed) * sizeof *ids);
  int32_t entry = record->cursor;
  for (int32_t end = record->indexed; end > 0; end -= cache->unit) {
    memcpy(ids + end - cache->unit, quire_index_tokens(cache, entry),
           (size_t)cache->unit * sizeof *ids);
    entry = cache->index.entries[entry].parent;
  }
}

static void find_key(quire_sequence_file *file, const quire_record *record) {
  file->has_key = record->cursor != QUIRE_NONE;
  int32_t root = record->cursor;
  while (root != QUIRE_NONE && file->cache->index.entries[root].parent != QUIRE_NONE) {
    root = file->cache->index.entries[root].parent;
  }
  if (root != QUIRE_NONE) {
    memcpy(file->key.words, quire_index_tokens(file->cache, root), sizeof file->key.words);
  }
}

static quire_status write_tensor(quire_serving_file *out, const quire_sequence_file *file,
                                 const quire_record *record, const quire_cache_view *view,
                                 char *piece, quire_error *error) {
  if (view->group == -1) {
    if (record->state == QUIRE_NONE) {
      return QUIRE_OK;
    }
    quire_box_pack(&view->block, piece, quire_cache_view_block(view, record->state));
    return quire_serving_file_write(out, piece, view->block.bytes, error);
  }
  const int32_t *table = quire_record_table(file->cache, record, view->group);
  for (int64_t at = quire_sequence_file_first(file, view); at < file->tokens; ++at) {
    quire_box_pack(&view->row, piece,
                   quire_cache_view_row(view, table[at / view->block_size], at % view->block_size));
    QUIRE_SERVING_TRY(quire_serving_file_write(out, piece, view->row.bytes, error));
  }
  return QUIRE_OK;
}

static quire_status write_ids(quire_serving_file *out, const quire_sequence_file *file,
                              const quire_record *record, quire_error *error) {
  const size_t count = (size_t)file->tokens;
  int32_t *ids = quire_serving_allocate(&file->cache->allocator, count, sizeof *ids);
  if (ids == NULL) {
    return quire_serving_fail_memory(error, count * sizeof *ids);
  }
  collect_ids(file->cache, record, ids);
  const quire_status status = quire_serving_file_write(out, ids, count * sizeof *ids, error);
  quire_serving_free(&file->cache->allocator, ids, count, sizeof *ids);
  return status;
}

static quire_status write_all(quire_serving_file *out, const quire_sequence_file *file,
                              const quire_record *record, char *piece, quire_error *error) {
  QUIRE_SERVING_TRY(quire_serving_file_write(out, file->header, file->header_size, error));
  if (file->has_ids) {
    QUIRE_SERVING_TRY(write_ids(out, file, record, error));
  }
  for (size_t i = 0; i < file->tensor_count; ++i) {
    quire_cache_view view;
    QUIRE_SERVING_TRY(quire_cache_view_make(&file->tensors[i], i, &view, error));
    QUIRE_SERVING_TRY(write_tensor(out, file, record, &view, piece, error));
  }
  char digits[QUIRE_FILE_CHECKSUM_DIGITS + 1];
  (void)snprintf(digits, sizeof digits, "%0*" PRIx64, QUIRE_FILE_CHECKSUM_DIGITS,
                 quire_serving_checksum_end(&out->checksum));
  QUIRE_SERVING_TRY(quire_serving_file_patch(out, (long)quire_sequence_file_checksum_offset(),
                                             digits, QUIRE_FILE_CHECKSUM_DIGITS, error));
  return quire_serving_file_finish(out, error);
}

static quire_status save(quire_sequence_file *file, const quire_record *record, const char *path,
                         quire_error *error) {
  const quire_allocator *allocator = &file->cache->allocator;
  const size_t size = quire_sequence_file_piece(file);
  char *piece = quire_serving_allocate(allocator, size, 1);
  if (piece == NULL) {
    return quire_serving_fail_memory(error, size);
  }
  quire_serving_file out;
  quire_status status = quire_serving_file_create(&out, path, allocator, error);
  if (status == QUIRE_OK) {
    status = write_all(&out, file, record, piece, error);
    quire_serving_file_close(&out);
  }
  quire_serving_free(allocator, piece, size, 1);
  return status;
}

quire_status quire_sequence_save(const quire_cache *cache, quire_sequence sequence,
                                 const quire_cache_tensor *tensors, size_t tensor_count,
                                 const char *path, quire_error *error) {
  quire_record *record = NULL;
  QUIRE_SERVING_TRY(quire_record_find(cache, sequence, &record, error));
  if (path == NULL || (tensors == NULL && tensor_count > 0)) {
    return quire_serving_fail(error, QUIRE_BAD_REQUEST, NULL, "path", "or tensors is NULL");
  }
  if (record->length != record->committed || cache->copy_count > 0) {
    return quire_serving_fail(error, QUIRE_BAD_REQUEST, "SV-7", "sequence",
                              "%ld tokens, of which %ld are committed; %ld copies wait",
                              (long)record->length, (long)record->committed,
                              (long)cache->copy_count);
  }
  quire_sequence_file file = {.cache = cache,
                              .tensors = tensors,
                              .tensor_count = tensor_count,
                              .tokens = record->committed,
                              .has_ids = record->is_indexing,
                              .has_state = record->state != QUIRE_NONE};
  find_key(&file, record);
  QUIRE_SERVING_TRY(quire_sequence_file_check(&file, error));
  QUIRE_SERVING_TRY(quire_sequence_file_header(&file, error));
  const quire_status status = save(&file, record, path, error);
  quire_sequence_file_release(&file);
  return status;
}
