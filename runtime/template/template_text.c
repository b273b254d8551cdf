/* Includes: a text with all of its files in place (docs/manifest-language.md 11). */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "error.h"
#include "template_parts.h"

/* ---- faults ---- */

static void set_fault(quire_template_fault *fault, quire_status status, const char *code,
                      const quire_template_file *file, size_t offset, const char *format,
                      va_list arguments) {
  if (fault->failed) {
    return;
  }
  fault->failed = true;
  fault->status = status;
  fault->code = code;
  fault->file = file;
  fault->offset = offset;
  (void)vsnprintf(fault->message, sizeof fault->message, format, arguments);
}

void quire_template_fault_set(quire_template_fault *fault, const char *code, size_t offset,
                              const char *format, ...) {
  bool is_limit = strcmp(code, "limit") == 0 || strcmp(code, "overflow") == 0;
  va_list arguments;
  va_start(arguments, format);
  set_fault(fault, is_limit ? QUIRE_LIMIT : QUIRE_BAD_MANIFEST, code, NULL, offset, format,
            arguments);
  va_end(arguments);
}

static void QUIRE_PRINTF(5, 6)
    fault_in_file(quire_template_fault *fault, quire_status status, const quire_template_file *file,
                  size_t offset, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  set_fault(fault, status, status == QUIRE_LIMIT ? "limit" : "include", file, offset, format,
            arguments);
  va_end(arguments);
}

void quire_template_fault_memory(quire_template_fault *fault) {
  if (!fault->failed) {
    fault->failed = true;
    fault->out_of_memory = true;
  }
}

/* The file that a byte of the whole text comes from, and its place there. */
static const quire_template_file *locate(const quire_template_text *text, size_t *offset) {
  const quire_template_piece *found = NULL;
  for (size_t i = 0; i < text->piece_count && text->pieces[i].offset <= *offset; ++i) {
    found = &text->pieces[i];
  }
  if (found == NULL) {
    return NULL;
  }
  *offset = *offset - found->offset + found->file_offset;
  return found->file;
}

quire_status quire_template_fault_report(const quire_template_text *text, quire_error *error) {
  const quire_template_fault *fault = text->fault;
  if (fault->out_of_memory) {
    return quire_fail_memory(error);
  }
  size_t offset = fault->offset;
  const quire_template_file *file = fault->file != NULL ? fault->file : locate(text, &offset);
  if (file == NULL) {
    return quire_fail(error, fault->status, NULL, "template", "%s", fault->message);
  }
  size_t line = 1;
  size_t column = 1;
  for (size_t i = 0; i < offset && i < file->length; ++i) {
    column = file->text[i] == '\n' ? 1 : column + 1;
    line += file->text[i] == '\n' ? 1 : 0;
  }
  char place[QUIRE_TEMPLATE_MAX_PATH + 64];
  (void)snprintf(place, sizeof place, "%s:%zu:%zu", file->path, line, column);
  return quire_fail(error, fault->status, NULL, place, "%s: %s", fault->code, fault->message);
}

/* ---- paths ---- */

/*
 * Joins a folder and a path, both relative to the package's root, and takes out "." and ".." parts.
 * NULL: no such path in the package.
 */
static const char *join_path(const char *folder, size_t folder_length, const char *path,
                             size_t length, char out[QUIRE_TEMPLATE_MAX_PATH]) {
  char joined[2 * QUIRE_TEMPLATE_MAX_PATH];
  size_t used = 0;
  if (length == 0 || path[0] == '/' || memchr(path, '\0', length) != NULL ||
      folder_length + length + 2 > sizeof joined) {
    return NULL;
  }
  int count =
      snprintf(joined, sizeof joined, "%.*s/%.*s", (int)folder_length, folder, (int)length, path);
  for (int begin = 0, end = 0; begin <= count; begin = end + 1) {
    for (end = begin; end < count && joined[end] != '/'; ++end) {
    }
    size_t part = (size_t)(end - begin);
    const char *text = joined + begin;
    if (part == 0 || (part == 1 && text[0] == '.')) {
      continue;
    }
    if (part == 2 && text[0] == '.' && text[1] == '.') {
      if (used == 0) {
        return NULL;
      }
      while (used > 0 && out[used - 1] != '/') {
        --used;
      }
      used -= used > 0 ? 1 : 0;
      continue;
    }
    if (used + part + 2 > QUIRE_TEMPLATE_MAX_PATH) {
      return NULL;
    }
    if (used > 0) {
      out[used++] = '/';
    }
    memcpy(out + used, text, part);
    used += part;
  }
  out[used] = '\0';
  return used > 0 ? out : NULL;
}

bool quire_template_path(const char *folder, const char *shader,
                         char out[QUIRE_TEMPLATE_MAX_PATH]) {
  return join_path(folder, strlen(folder), shader, strlen(shader), out) != NULL;
}

static size_t folder_length(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash != NULL ? (size_t)(slash - path) : 0;
}

/* ---- including ---- */

/* The file at a path of the package; NULL: there is none, or no memory. */
static const quire_template_file *open_file(quire_template_text *text, const char *path) {
  quire_template_file found = {0};
  if (text->source == NULL ||
      !text->source->find(text->source->user, path, &found.text, &found.length)) {
    return NULL;
  }
  quire_template_file *file = quire_arena_alloc(text->arena, sizeof *file);
  found.path = quire_arena_copy(text->arena, path, strlen(path));
  if (file == NULL || found.path == NULL) {
    quire_template_fault_memory(text->fault);
    return NULL;
  }
  *file = found;
  return file;
}

/* Appends part of a file; false with a fault. */
static bool append(quire_template_text *text, const quire_template_file *file, size_t begin,
                   size_t end) {
  if (begin == end) {
    return true;
  }
  if (text->bytes.length + (end - begin) > QUIRE_TEMPLATE_MAX_TEXT) {
    fault_in_file(text->fault, QUIRE_LIMIT, file, begin,
                  "the text with its includes is longer than %d bytes", QUIRE_TEMPLATE_MAX_TEXT);
    return false;
  }
  if (text->piece_count == text->piece_capacity) {
    size_t capacity = text->piece_capacity == 0 ? 16 : text->piece_capacity * 2;
    quire_template_piece *pieces = quire_arena_array(text->arena, capacity, sizeof *pieces);
    if (pieces == NULL) {
      quire_template_fault_memory(text->fault);
      return false;
    }
    if (text->piece_count > 0) {
      memcpy(pieces, text->pieces, text->piece_count * sizeof *pieces);
    }
    text->pieces = pieces;
    text->piece_capacity = capacity;
  }
  text->pieces[text->piece_count++] = (quire_template_piece){text->bytes.length, file, begin};
  quire_text_append(&text->bytes, file->text + begin, end - begin);
  if (text->bytes.failed) {
    quire_template_fault_memory(text->fault);
  }
  return !text->bytes.failed;
}

static bool is_open(const quire_template_text *text, const char *path) {
  for (size_t i = 0; i < text->depth; ++i) {
    if (strcmp(text->open[i]->path, path) == 0) {
      return true;
    }
  }
  return false;
}

static bool expand(quire_template_text *text, const quire_template_file *file);

/* The quoted path of an include statement: the text between the quotes, or NULL. */
static quire_span quoted_path(const char *text, const quire_mark *mark) {
  size_t begin = mark->inner_begin + strlen("include");
  while (begin < mark->inner_end && quire_is_blank(text[begin])) {
    ++begin;
  }
  quire_span path = {NULL, 0};
  if (mark->inner_end - begin >= 2) {
    char quote = text[begin];
    size_t length = mark->inner_end - begin - 2;
    if ((quote == '"' || quote == '\'') && text[mark->inner_end - 1] == quote &&
        memchr(text + begin + 1, quote, length) == NULL) {
      path = (quire_span){text + begin + 1, length};
    }
  }
  return path;
}

static bool include(quire_template_text *text, const quire_template_file *file,
                    const quire_mark *mark) {
  char path[QUIRE_TEMPLATE_MAX_PATH];
  quire_template_fault *fault = text->fault;
  quire_span named = quoted_path(file->text, mark);
  if (named.text == NULL) {
    fault_in_file(fault, QUIRE_BAD_MANIFEST, file, mark->begin, "include takes one path in quotes");
    return false;
  }
  bool relative = named.length > 0 && named.text[0] == '.';
  size_t folder = relative ? folder_length(file->path) : 0;
  if (join_path(file->path, folder, named.text, named.length, path) == NULL) {
    fault_in_file(fault, QUIRE_BAD_MANIFEST, file, mark->begin, "`%.*s` is no path in the package",
                  (int)named.length, named.text);
    return false;
  }
  if (is_open(text, path)) {
    fault_in_file(fault, QUIRE_BAD_MANIFEST, file, mark->begin, "`%s` includes itself", path);
    return false;
  }
  if (text->depth > QUIRE_TEMPLATE_MAX_DEPTH ||
      text->include_count >= QUIRE_TEMPLATE_MAX_INCLUDES) {
    fault_in_file(fault, QUIRE_LIMIT, file, mark->begin, "more than %d includes%s",
                  text->depth > QUIRE_TEMPLATE_MAX_DEPTH ? QUIRE_TEMPLATE_MAX_DEPTH
                                                         : QUIRE_TEMPLATE_MAX_INCLUDES,
                  text->depth > QUIRE_TEMPLATE_MAX_DEPTH ? " inside each other" : "");
    return false;
  }
  ++text->include_count;
  const quire_template_file *included = open_file(text, path);
  if (included == NULL) {
    fault_in_file(fault, QUIRE_NOT_FOUND, file, mark->begin, "there is no file `%s`", path);
    return false;
  }
  return expand(text, included);
}

/* Appends a file with its includes in place. Marks that do not end are left to the parser. */
static bool expand(quire_template_text *text, const quire_template_file *file) {
  size_t copied = 0;
  size_t at = 0;
  quire_mark mark;
  text->open[text->depth++] = file;
  while (quire_mark_find(file->text, file->length, at, &mark) == QUIRE_MARK_FOUND) {
    quire_span word = quire_mark_word(file->text, &mark);
    at = mark.end;
    if (mark.kind == QUIRE_MARK_STATEMENT && quire_span_is(word, "raw")) {
      bool ends = quire_mark_find_endraw(file->text, file->length, mark.end, &mark);
      at = ends ? mark.end : file->length;
    } else if (mark.kind == QUIRE_MARK_STATEMENT && quire_span_is(word, "include")) {
      if (!append(text, file, copied, mark.begin) || !include(text, file, &mark)) {
        return false;
      }
      copied = mark.end;
    }
  }
  --text->depth;
  return append(text, file, copied, file->length);
}

bool quire_template_text_load(quire_template_text *text, const char *shader) {
  char path[QUIRE_TEMPLATE_MAX_PATH];
  const char *folder =
      text->source != NULL && text->source->folder != NULL ? text->source->folder : "";
  const quire_template_file *file = NULL;
  if (quire_template_path(folder, shader, path)) {
    file = open_file(text, path);
  }
  if (file == NULL) {
    fault_in_file(text->fault, QUIRE_NOT_FOUND, NULL, 0, "there is no file `%s%s%s`", folder,
                  folder[0] != '\0' ? "/" : "", shader);
    return false;
  }
  return expand(text, file);
}
