/* Beginning a sequence from a file. */
#include <string.h>

#include "sequence_file.h"
#include "serving_files.h"

static quire_status refuse(const quire_serving_file *in, const char *why, quire_error *error) {
  return quire_serving_fail(error, QUIRE_BAD_VALUE, "SV-11", in->path, "%s", why);
}

/* Makes the header that a file of this engine and these numbers has, checksum zero. */
static quire_status expect_header(quire_sequence_file *file, const char *fixed,
                                  const quire_serving_file *in, uint64_t *checksum,
                                  quire_error *error) {
  if (!quire_sequence_file_parse(file, fixed, quire_sequence_file_fixed_size())) {
    return refuse(in, "is not a saved sequence", error);
  }
  const quire_cache *cache = file->cache;
  if (file->tokens > cache->length_limit) {
    return quire_serving_fail(error, QUIRE_LIMIT, "SV-4", in->path,
                              "%ld tokens, a sequence has at most %ld", (long)file->tokens,
                              (long)cache->length_limit);
  }
  if (file->has_state != (cache->states != NULL && file->tokens > 0)) {
    return refuse(in, file->has_state ? "has a state, the cache has none" : "lacks the state",
                  error);
  }
  *checksum = file->checksum;
  file->checksum = 0;
  return quire_sequence_file_header(file, error);
}

/* Names the first difference of two headers of one size, from the beginning of the entry in it. */
static quire_status refuse_header(const quire_serving_file *in, const char *want, const char *have,
                                  size_t size, quire_error *error) {
  size_t at = 8;
  while (at < size && want[at] == have[at]) {
    ++at;
  }
  while (at > 8 && !(want[at - 1] == ',' && want[at] == '"')) {
    --at;
  }
  const size_t left = size - at;
  const int shown = (int)(left < 80 ? left : 80);
  char text[81];
  for (int i = 0; i < shown; ++i) {
    const char c = have[at + (size_t)i];
    text[i] = (char)(c >= ' ' && c <= '~' ? c : '?');
  }
  return quire_serving_fail(error, QUIRE_BAD_VALUE, "SV-11", in->path,
                            "is of something else: it has %.*s, expected was %.*s", shown, text,
                            shown, want + at);
}

static quire_status compare_header(quire_serving_file *in, quire_sequence_file *file,
                                   const char *fixed, quire_error *error) {
  const quire_allocator *allocator = &file->cache->allocator;
  char *have = quire_serving_allocate(allocator, file->header_size, 1);
  if (have == NULL) {
    return quire_serving_fail_memory(error, file->header_size);
  }
  const size_t begin = quire_sequence_file_fixed_size();
  memcpy(have, fixed, begin);
  quire_status status = quire_serving_file_read(in, have + begin, file->header_size - begin, error);
  memset(have + quire_sequence_file_checksum_offset(), '0', QUIRE_FILE_CHECKSUM_DIGITS);
  if (status == QUIRE_OK && memcmp(have, file->header, file->header_size) != 0) {
    status = refuse_header(in, file->header, have, file->header_size, error);
  }
  quire_serving_free(allocator, have, file->header_size, 1);
  return status;
}

/* Reads the header and stops before the data. The checksum so far is that of the expected header,
 * to which the one in the file is equal. */
static quire_status read_header(quire_serving_file *in, quire_sequence_file *file,
                                uint64_t *checksum, quire_error *error) {
  char fixed[256];
  QUIRE_SERVING_TRY(quire_serving_file_read(in, fixed, quire_sequence_file_fixed_size(), error));
  if (file->header == NULL) {
    QUIRE_SERVING_TRY(expect_header(file, fixed, in, checksum, error));
  }
  QUIRE_SERVING_TRY(compare_header(in, file, fixed, error));
  quire_serving_checksum_begin(&in->checksum);
  quire_serving_checksum_add(&in->checksum, file->header, file->header_size);
  return QUIRE_OK;
}

/* ---- first pass: is it whole? ---- */

static quire_status verify(quire_serving_file *in, const quire_sequence_file *file,
                           uint64_t checksum, char *piece, size_t size, quire_error *error) {
  uint64_t left = file->has_ids ? (uint64_t)file->tokens * sizeof(int32_t) : 0;
  for (size_t i = 0; i < file->tensor_count; ++i) {
    quire_cache_view view;
    QUIRE_SERVING_TRY(quire_cache_view_make(&file->tensors[i], i, &view, error));
    const uint64_t rows = view.group == -1
                              ? file->has_state
                              : (uint64_t)(file->tokens - quire_sequence_file_first(file, &view));
    left += rows * view.row.bytes;
  }
  while (left > 0) {
    const size_t next = left < size ? (size_t)left : size;
    QUIRE_SERVING_TRY(quire_serving_file_read(in, piece, next, error));
    left -= next;
  }
  char more;
  if (fread(&more, 1, 1, in->stream) != 0) {
    return refuse(in, "has bytes behind its data", error);
  }
  return quire_serving_checksum_end(&in->checksum) == checksum
             ? QUIRE_OK
             : refuse(in, "is damaged: its checksum differs", error);
}

/* ---- second pass: into blocks ---- */

static quire_status check_room(const quire_sequence_file *file, quire_error *error) {
  const quire_cache *cache = file->cache;
  if (cache->live_count == cache->sequence_limit) {
    return quire_serving_fail(error, QUIRE_LIMIT, "SV-4", "sequence", "%ld are live, the limit",
                              (long)cache->live_count);
  }
  for (int32_t i = 0; i < cache->pool_count; ++i) {
    const quire_pool *pool = &cache->pools[i];
    int32_t need = file->has_state;
    if (pool != cache->states) {
      need = quire_pool_blocks(pool, file->tokens) -
             quire_pool_first_visible(pool, file->tokens) / pool->block_size;
    }
    if (need > quire_pool_available(pool)) {
      return quire_fail_exhausted(cache, pool, need, quire_pool_available(pool), error);
    }
  }
  return QUIRE_OK;
}

static void take_blocks(quire_cache *cache, quire_record *record, const quire_sequence_file *file) {
  for (int32_t group = 0; group < cache->group_count; ++group) {
    quire_pool *pool = &cache->pools[group];
    int32_t *table = quire_record_table(cache, record, group);
    const int32_t blocks = quire_pool_blocks(pool, file->tokens);
    record->first_row[group] = quire_pool_first_visible(pool, file->tokens);
    record->first_live[group] = record->first_row[group] / pool->block_size;
    for (int32_t i = 0; i < blocks; ++i) {
      table[i] = i < record->first_live[group] ? QUIRE_NONE : quire_pool_take(cache, pool);
    }
  }
  if (file->has_state) {
    record->state = quire_pool_take(cache, cache->states);
  }
  record->length = file->tokens;
}

static quire_status read_tensor(quire_serving_file *in, const quire_sequence_file *file,
                                const quire_record *record, const quire_cache_view *view,
                                char *piece, quire_error *error) {
  if (view->group == -1) {
    if (file->has_state) {
      QUIRE_SERVING_TRY(quire_serving_file_read(in, piece, view->block.bytes, error));
      quire_box_unpack(&view->block, quire_cache_view_block(view, record->state), piece);
    }
    return QUIRE_OK;
  }
  const int32_t *table = quire_record_table(file->cache, record, view->group);
  for (int64_t at = quire_sequence_file_first(file, view); at < file->tokens; ++at) {
    QUIRE_SERVING_TRY(quire_serving_file_read(in, piece, view->row.bytes, error));
    quire_box_unpack(
        &view->row, quire_cache_view_row(view, table[at / view->block_size], at % view->block_size),
        piece);
  }
  return QUIRE_OK;
}

static quire_status read_data(quire_serving_file *in, const quire_sequence_file *file,
                              const quire_record *record, uint64_t checksum, int32_t *ids,
                              char *piece, quire_error *error) {
  if (file->has_ids) {
    QUIRE_SERVING_TRY(quire_serving_file_read(in, ids, (size_t)file->tokens * sizeof *ids, error));
  }
  for (size_t i = 0; i < file->tensor_count; ++i) {
    quire_cache_view view;
    QUIRE_SERVING_TRY(quire_cache_view_make(&file->tensors[i], i, &view, error));
    QUIRE_SERVING_TRY(read_tensor(in, file, record, &view, piece, error));
  }
  return quire_serving_checksum_end(&in->checksum) == checksum
             ? QUIRE_OK
             : refuse(in, "changed while it was read", error);
}

static void make_findable(quire_cache *cache, quire_record *record, const quire_sequence_file *file,
                          const int32_t *ids) {
  if (file->has_key) {
    record->cursor = quire_index_find_root(cache, &file->key);
    if (record->cursor != QUIRE_NONE) {
      quire_index_pin(cache, record->cursor);
    } else {
      record->cursor = quire_index_add_root(cache, &file->key);
    }
    record->is_indexing = record->cursor != QUIRE_NONE;
    quire_record_index(cache, record, file->has_ids ? ids : NULL, file->tokens);
  }
  record->committed = file->tokens;
}

static quire_status fill(quire_cache *cache, quire_serving_file *in, quire_sequence_file *file,
                         uint64_t checksum, int32_t *ids, char *piece, quire_sequence *sequence,
                         quire_error *error) {
  uint64_t again = 0;
  QUIRE_SERVING_TRY(read_header(in, file, &again, error));
  quire_record *record = quire_record_take(cache);
  take_blocks(cache, record, file);
  const quire_status status = read_data(in, file, record, checksum, ids, piece, error);
  if (status != QUIRE_OK) {
    quire_record_release(cache, record);
    return status;
  }
  make_findable(cache, record, file, ids);
  *sequence = quire_record_handle(cache, record);
  return QUIRE_OK;
}

static quire_status restore(quire_cache *cache, quire_sequence_file *file, const char *path,
                            quire_sequence *sequence, quire_error *error) {
  const quire_allocator *allocator = &cache->allocator;
  quire_serving_file in;
  uint64_t checksum = 0;
  QUIRE_SERVING_TRY(quire_serving_file_open(&in, path, error));
  quire_status status = read_header(&in, file, &checksum, error);
  const size_t size = quire_sequence_file_piece(file);
  const size_t count = file->has_ids && status == QUIRE_OK ? (size_t)file->tokens : 0;
  char *piece = quire_serving_allocate(allocator, size, 1);
  int32_t *ids = quire_serving_allocate(allocator, count, sizeof *ids);
  if (status == QUIRE_OK && (piece == NULL || ids == NULL)) {
    status = quire_serving_fail_memory(error, size + count * sizeof *ids);
  }
  if (status == QUIRE_OK) {
    status = verify(&in, file, checksum, piece, size, error);
  }
  if (status == QUIRE_OK) {
    status = check_room(file, error);
  }
  quire_serving_file_close(&in);
  if (status == QUIRE_OK) {
    status = quire_serving_file_open(&in, path, error);
  }
  if (status == QUIRE_OK) {
    status = fill(cache, &in, file, checksum, ids, piece, sequence, error);
    quire_serving_file_close(&in);
  }
  quire_serving_free(allocator, ids, count, sizeof *ids);
  quire_serving_free(allocator, piece, size, 1);
  return status;
}

quire_status quire_sequence_restore(quire_cache *cache, const quire_prefix_key *key,
                                    const quire_cache_tensor *tensors, size_t tensor_count,
                                    const char *path, quire_sequence *sequence,
                                    quire_error *error) {
  if (cache == NULL || path == NULL || sequence == NULL || (tensors == NULL && tensor_count > 0)) {
    return quire_serving_fail(error, QUIRE_BAD_REQUEST, NULL, "cache",
                              "cache, tensors, path or sequence is NULL");
  }
  quire_sequence_file file = {
      .cache = cache, .tensors = tensors, .tensor_count = tensor_count, .has_key = key != NULL};
  if (key != NULL) {
    file.key = *key;
  }
  QUIRE_SERVING_TRY(quire_sequence_file_check(&file, error));
  quire_cache_view view;
  for (size_t i = 0; i < tensor_count; ++i) {
    QUIRE_SERVING_TRY(quire_cache_view_make_written(&tensors[i], i, &view, error));
  }
  const quire_status status = restore(cache, &file, path, sequence, error);
  quire_sequence_file_release(&file);
  return status;
}
