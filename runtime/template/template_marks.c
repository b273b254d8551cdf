/* Finding the marks of a template, with strings in them told apart from their ends. */
#include <string.h>

#include "template_parts.h"

bool quire_is_blank(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

bool quire_is_name_byte(char c, bool first) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         (!first && c >= '0' && c <= '9');
}

bool quire_span_is(quire_span span, const char *word) {
  return strlen(word) == span.length && memcmp(span.text, word, span.length) == 0;
}

/* Place of the two bytes, or `length`. */
static size_t find_pair(const char *text, size_t length, size_t from, const char *pair) {
  for (size_t i = from; i + 1 < length; ++i) {
    if (text[i] == pair[0] && text[i + 1] == pair[1]) {
      return i;
    }
  }
  return length;
}

/* The same outside of strings. */
static size_t find_end(const char *text, size_t length, size_t from, const char *pair) {
  char quote = '\0';
  for (size_t i = from; i < length; ++i) {
    char c = text[i];
    if (quote != '\0') {
      i += c == '\\' ? 1 : 0;
      if (c == quote) {
        quote = '\0';
      }
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == pair[0] && i + 1 < length && text[i + 1] == pair[1]) {
      return i;
    }
  }
  return length;
}

static size_t find_begin(const char *text, size_t length, size_t from) {
  for (size_t i = from; i + 1 < length; ++i) {
    if (text[i] == '{' && (text[i + 1] == '{' || text[i + 1] == '%' || text[i + 1] == '#')) {
      return i;
    }
  }
  return length;
}

static void trim(const char *text, quire_mark *mark) {
  mark->strip_before = mark->inner_begin < mark->inner_end && text[mark->inner_begin] == '-';
  mark->inner_begin += mark->strip_before ? 1 : 0;
  mark->strip_after = mark->inner_begin < mark->inner_end && text[mark->inner_end - 1] == '-';
  mark->inner_end -= mark->strip_after ? 1 : 0;
  while (mark->inner_begin < mark->inner_end && quire_is_blank(text[mark->inner_begin])) {
    ++mark->inner_begin;
  }
  while (mark->inner_begin < mark->inner_end && quire_is_blank(text[mark->inner_end - 1])) {
    --mark->inner_end;
  }
}

quire_mark_result quire_mark_find(const char *text, size_t length, size_t from, quire_mark *mark) {
  memset(mark, 0, sizeof *mark);
  mark->begin = find_begin(text, length, from);
  if (mark->begin == length) {
    return QUIRE_MARK_NONE;
  }
  char brace = text[mark->begin + 1];
  const char *end = brace == '{' ? "}}" : brace == '%' ? "%}" : "#}";
  mark->kind = brace == '{'   ? QUIRE_MARK_OUTPUT
               : brace == '%' ? QUIRE_MARK_STATEMENT
                              : QUIRE_MARK_COMMENT;
  mark->inner_begin = mark->begin + 2;
  mark->inner_end = brace == '#' ? find_pair(text, length, mark->inner_begin, end)
                                 : find_end(text, length, mark->inner_begin, end);
  if (mark->inner_end == length) {
    return QUIRE_MARK_OPEN;
  }
  mark->end = mark->inner_end + 2;
  trim(text, mark);
  return QUIRE_MARK_FOUND;
}

/* End of the `endraw` mark that begins at `from`; 0: none does. */
static size_t endraw_end(const char *text, size_t length, size_t from) {
  static const char word[] = "endraw";
  size_t at = from + 2;
  at += at < length && text[at] == '-' ? 1 : 0;
  while (at < length && quire_is_blank(text[at])) {
    ++at;
  }
  if (length - at < sizeof word - 1 || memcmp(text + at, word, sizeof word - 1) != 0) {
    return 0;
  }
  at += sizeof word - 1;
  while (at < length && quire_is_blank(text[at])) {
    ++at;
  }
  at += at < length && text[at] == '-' ? 1 : 0;
  return at + 1 < length && text[at] == '%' && text[at + 1] == '}' ? at + 2 : 0;
}

bool quire_mark_find_endraw(const char *text, size_t length, size_t from, quire_mark *mark) {
  for (size_t at = find_begin(text, length, from); at < length;
       at = find_begin(text, length, at + 2)) {
    size_t end = text[at + 1] == '%' ? endraw_end(text, length, at) : 0;
    if (end > 0) {
      *mark = (quire_mark){.kind = QUIRE_MARK_STATEMENT,
                           .begin = at,
                           .end = end,
                           .inner_begin = at + 2,
                           .inner_end = end - 2};
      trim(text, mark);
      return true;
    }
  }
  return false;
}

quire_span quire_mark_word(const char *text, const quire_mark *mark) {
  size_t end = mark->inner_begin;
  while (end < mark->inner_end && quire_is_name_byte(text[end], end == mark->inner_begin)) {
    ++end;
  }
  return (quire_span){text + mark->inner_begin, end - mark->inner_begin};
}
