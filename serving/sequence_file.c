#include "sequence_file.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Text that is only counted while data is NULL. */
typedef struct sink {
  char *data;
  size_t length;
} sink;

static void put(sink *text, const char *format, ...) QUIRE_SERVING_PRINTF(2, 3);

static void put(sink *text, const char *format, ...) {
  char piece[128];
  va_list arguments;
  va_start(arguments, format);
  const int length = vsnprintf(piece, sizeof piece, format, arguments);
  va_end(arguments);
  if (length > 0 && text->data != NULL) {
    memcpy(text->data + text->length, piece, (size_t)length);
  }
  text->length += length > 0 ? (size_t)length : 0;
}

static void put_name(sink *text, const char *name) {
  const size_t length = strlen(name);
  if (text->data != NULL) {
    memcpy(text->data + text->length, name, length);
  }
  text->length += length;
}

static const char *const type_names[QUIRE_DTYPE_COUNT] = {
    [QUIRE_FLOAT32] = "F32", [QUIRE_FLOAT16] = "F16", [QUIRE_BFLOAT16] = "BF16",
    [QUIRE_FLOAT64] = "F64", [QUIRE_INT8] = "I8",     [QUIRE_INT16] = "I16",
    [QUIRE_INT32] = "I32",   [QUIRE_INT64] = "I64",   [QUIRE_UINT8] = "U8",
    [QUIRE_UINT16] = "U16",  [QUIRE_UINT32] = "U32",  [QUIRE_UINT64] = "U64",
    [QUIRE_BOOL] = "BOOL",
};

static const char opening[] = "{\"__metadata__\":{\"format\":\"quire.sequence.1\",\"checksum\":\"";
static const char own_prefix[] = "quire.";

size_t quire_sequence_file_checksum_offset(void) {
  return 8 + sizeof opening - 1;
}

/* ---- checks ---- */

static quire_status check_name(const quire_sequence_file *file, size_t at, quire_error *error) {
  const char *name = file->tensors[at].name;
  bool is_good = name != NULL && name[0] != '\0' && name[0] != '_' &&
                 strncmp(name, own_prefix, sizeof own_prefix - 1) != 0;
  for (const char *c = name; is_good && *c != '\0'; ++c) {
    is_good = *c > ' ' && *c <= '~' && *c != '"' && *c != '\\';
  }
  for (size_t i = 0; is_good && i < at; ++i) {
    is_good = strcmp(name, file->tensors[i].name) != 0;
  }
  return is_good ? QUIRE_OK
                 : quire_serving_fail(error, QUIRE_BAD_VALUE, "SV-10", "tensors",
                                      "tensor %zu: its name is missing, used before, reserved "
                                      "(_..., quire....) or not plain ASCII",
                                      at);
}

static quire_status check_view(const quire_sequence_file *file, const quire_cache_view *view,
                               quire_error *error) {
  const quire_cache *cache = file->cache;
  const bool is_state = view->group == -1;
  if (view->group >= cache->group_count || (is_state && cache->states == NULL)) {
    return quire_serving_fail(error, QUIRE_BAD_VALUE, "SV-10", view->name,
                              "group %ld, the cache has %ld and %s states", (long)view->group,
                              (long)cache->group_count, cache->states != NULL ? "has" : "no");
  }
  const quire_pool *pool = is_state ? cache->states : &cache->pools[view->group];
  const int64_t size = is_state ? 1 : pool->block_size;
  if (view->block_count < pool->count || view->block_size != size) {
    return quire_serving_fail(error, QUIRE_BAD_SHAPE, "SV-10", view->name,
                              "%lld blocks of %lld rows, group %ld has %ld of %lld",
                              (long long)view->block_count, (long long)view->block_size,
                              (long)view->group, (long)pool->count, (long long)size);
  }
  return QUIRE_OK;
}

quire_status quire_sequence_file_check(const quire_sequence_file *file, quire_error *error) {
  const uint16_t one = 1;
  unsigned char first_byte = 0;
  memcpy(&first_byte, &one, 1);
  if (first_byte != 1) {
    return quire_serving_fail(error, QUIRE_UNSUPPORTED, "SV-10", "tensors",
                              "files are little-endian, this processor is not");
  }
  bool has_states = false;
  for (size_t i = 0; i < file->tensor_count; ++i) {
    quire_cache_view view;
    QUIRE_SERVING_TRY(check_name(file, i, error));
    QUIRE_SERVING_TRY(quire_cache_view_make(&file->tensors[i], i, &view, error));
    QUIRE_SERVING_TRY(check_view(file, &view, error));
    has_states = has_states || view.group == -1;
  }
  if (file->cache->states != NULL && !has_states) {
    return quire_serving_fail(error, QUIRE_BAD_VALUE, "SV-10", "tensors",
                              "the cache has states, none of the tensors holds them");
  }
  return QUIRE_OK;
}

/* ---- the header ---- */

int32_t quire_sequence_file_first(const quire_sequence_file *file, const quire_cache_view *view) {
  const int32_t first = quire_pool_first_visible(&file->cache->pools[view->group], file->tokens);
  return first < file->tokens ? first : file->tokens;
}

static int64_t rows_of(const quire_sequence_file *file, const quire_cache_view *view) {
  return view->group == -1 ? (int64_t)file->has_state
                           : (int64_t)file->tokens - quire_sequence_file_first(file, view);
}

static void put_entry(sink *text, const char *type, uint64_t begin, uint64_t end) {
  put(text, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "],\"dtype\":\"%s\"}", begin, end, type);
}

/* A tensor without its block and row axes, which become one: the rows. */
static void put_tensor(sink *text, const quire_sequence_file *file, size_t at, uint64_t *offset) {
  const quire_cache_tensor *tensor = &file->tensors[at];
  quire_cache_view view;
  if (quire_cache_view_make(tensor, at, &view, NULL) != QUIRE_OK) {
    return; /* has been checked */
  }
  const int64_t rows = rows_of(file, &view);
  put(text, ",\"");
  put_name(text, tensor->name);
  put(text, "\":{\"shape\":[%lld", (long long)rows);
  for (int32_t axis = 0; axis < tensor->tensor.ndim; ++axis) {
    if (axis != tensor->block_axis && axis != tensor->row_axis) {
      put(text, ",%lld", (long long)tensor->tensor.shape[axis]);
    }
  }
  const uint64_t begin = *offset;
  *offset += (uint64_t)rows * view.row.bytes;
  put_entry(text, type_names[view.dtype], begin, *offset);
}

static void put_header(sink *text, const quire_sequence_file *file) {
  put(text, "%s%0*" PRIx64 "\",", opening, QUIRE_FILE_CHECKSUM_DIGITS, file->checksum);
  put(text, "\"tokens\":\"%0*" PRId32 "\",", QUIRE_FILE_TOKEN_DIGITS, file->tokens);
  put(text, "\"ids\":\"%d\",\"state\":\"%d\",\"key\":\"", file->has_ids, file->has_state);
  for (int i = 0; i < 4 && file->has_key; ++i) {
    put(text, "%016" PRIx64, file->key.words[i]);
  }
  put(text, "\"}");
  uint64_t offset = 0;
  if (file->has_ids) {
    put(text, ",\"quire.tokens\":{\"shape\":[%" PRId32, file->tokens);
    offset = (uint64_t)file->tokens * sizeof(int32_t);
    put_entry(text, "I32", 0, offset);
  }
  for (size_t i = 0; i < file->tensor_count; ++i) {
    put_tensor(text, file, i, &offset);
  }
  put(text, "}");
  while (text->length % 8 != 0) {
    put(text, " ");
  }
}

quire_status quire_sequence_file_header(quire_sequence_file *file, quire_error *error) {
  sink text = {NULL, 0};
  put_header(&text, file);
  const size_t length = text.length;
  file->header_size = length + 8;
  file->header = quire_serving_allocate(&file->cache->allocator, file->header_size, 1);
  if (file->header == NULL) {
    return quire_serving_fail_memory(error, file->header_size);
  }
  for (int i = 0; i < 8; ++i) {
    file->header[i] = (char)(unsigned char)((uint64_t)length >> (8 * i) & 0xff);
  }
  text = (sink){file->header + 8, 0};
  put_header(&text, file);
  return QUIRE_OK;
}

void quire_sequence_file_release(quire_sequence_file *file) {
  quire_serving_free(&file->cache->allocator, file->header, file->header_size, 1);
  file->header = NULL;
}

/* ---- reading ---- */

static const char after_checksum[] = "\",\"tokens\":\"";
static const char after_tokens[] = "\",\"ids\":\"";
static const char after_ids[] = "\",\"state\":\"";

size_t quire_sequence_file_fixed_size(void) {
  return quire_sequence_file_checksum_offset() + QUIRE_FILE_CHECKSUM_DIGITS +
         (sizeof after_checksum - 1) + QUIRE_FILE_TOKEN_DIGITS + (sizeof after_tokens - 1) + 1 +
         (sizeof after_ids - 1) + 1;
}

static bool take_text(const char **at, const char *text, size_t length) {
  const bool is_same = memcmp(*at, text, length) == 0;
  *at += length;
  return is_same;
}

static bool take_number(const char **at, int digits, unsigned base, uint64_t most,
                        uint64_t *number) {
  static const char all[] = "0123456789abcdef";
  *number = 0;
  for (int i = 0; i < digits; ++i, ++*at) {
    const char *digit = **at != '\0' ? memchr(all, **at, base) : NULL;
    if (digit == NULL) {
      return false;
    }
    *number = *number * base + (uint64_t)(digit - all);
  }
  return *number <= most;
}

bool quire_sequence_file_parse(quire_sequence_file *file, const char *header, size_t size) {
  const char *at = header + 8;
  uint64_t tokens;
  uint64_t ids;
  uint64_t state;
  const bool is_good =
      size >= quire_sequence_file_fixed_size() && take_text(&at, opening, sizeof opening - 1) &&
      take_number(&at, QUIRE_FILE_CHECKSUM_DIGITS, 16, UINT64_MAX, &file->checksum) &&
      take_text(&at, after_checksum, sizeof after_checksum - 1) &&
      take_number(&at, QUIRE_FILE_TOKEN_DIGITS, 10, INT32_MAX, &tokens) &&
      take_text(&at, after_tokens, sizeof after_tokens - 1) && take_number(&at, 1, 10, 1, &ids) &&
      take_text(&at, after_ids, sizeof after_ids - 1) && take_number(&at, 1, 10, 1, &state);
  if (is_good) {
    file->tokens = (int32_t)tokens;
    file->has_ids = ids != 0;
    file->has_state = state != 0;
  }
  return is_good;
}

size_t quire_sequence_file_piece(const quire_sequence_file *file) {
  size_t most = 4096;
  for (size_t i = 0; i < file->tensor_count; ++i) {
    quire_cache_view view;
    if (quire_cache_view_make(&file->tensors[i], i, &view, NULL) == QUIRE_OK) {
      most = view.row.bytes > most ? view.row.bytes : most;
    }
  }
  return most;
}
