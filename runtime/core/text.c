#include "text.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void quire_text_init(quire_text *text, const quire_allocator *allocator) {
  *text = (quire_text){.allocator = allocator};
}

void quire_text_release(quire_text *text) {
  quire_dealloc(text->allocator, text->data, text->capacity, QUIRE_ALLOC_ALIGNMENT);
  text->data = NULL;
  text->length = 0;
  text->capacity = 0;
}

/* Makes room for `more` bytes and the zero byte. */
static bool text_reserve(quire_text *text, size_t more) {
  if (text->failed || more > SIZE_MAX / 4 - text->length ||
      (text->limit != 0 && text->length + more > text->limit)) {
    text->over_limit = text->over_limit || !text->failed;
    text->failed = true;
    return false;
  }
  size_t need = text->length + more + 1;
  if (need <= text->capacity) {
    return true;
  }
  size_t capacity = text->capacity < 128 ? 128 : text->capacity * 2;
  if (capacity < need) {
    capacity = need;
  }
  char *data = quire_alloc(text->allocator, capacity, QUIRE_ALLOC_ALIGNMENT);
  if (data == NULL) {
    text->failed = true;
    return false;
  }
  if (text->length != 0) {
    memcpy(data, text->data, text->length);
  }
  data[text->length] = '\0';
  quire_dealloc(text->allocator, text->data, text->capacity, QUIRE_ALLOC_ALIGNMENT);
  text->data = data;
  text->capacity = capacity;
  return true;
}

void quire_text_append(quire_text *text, const char *data, size_t length) {
  if (text_reserve(text, length)) {
    if (length != 0) {
      memcpy(text->data + text->length, data, length);
    }
    text->length += length;
    text->data[text->length] = '\0';
  }
}

void quire_text_put(quire_text *text, const char *zero_terminated) {
  quire_text_append(text, zero_terminated, strlen(zero_terminated));
}

void quire_text_format(quire_text *text, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  va_list again;
  va_copy(again, arguments);
  int length = vsnprintf(NULL, 0, format, arguments);
  va_end(arguments);
  if (length >= 0 && text_reserve(text, (size_t)length)) {
    (void)vsnprintf(text->data + text->length, (size_t)length + 1, format, again);
    text->length += (size_t)length;
  }
  va_end(again);
}

size_t quire_utf8_length(const char *text, size_t left) {
  const unsigned char *data = (const unsigned char *)text;
  unsigned char first = left > 0 ? data[0] : 0xff;
  if (first < 0x80) {
    return 1;
  }
  size_t length = first >= 0xc2 && first <= 0xdf   ? 2
                  : first >= 0xe0 && first <= 0xef ? 3
                  : first >= 0xf0 && first <= 0xf4 ? 4
                                                   : 0;
  if (length == 0 || length > left) {
    return 0;
  }
  for (size_t i = 1; i < length; i++) {
    if ((data[i] & 0xc0) != 0x80) {
      return 0;
    }
  }
  bool bad = (first == 0xe0 && data[1] < 0xa0) || (first == 0xed && data[1] > 0x9f) ||
             (first == 0xf0 && data[1] < 0x90) || (first == 0xf4 && data[1] > 0x8f);
  return bad ? 0 : length;
}

void quire_text_json_string(quire_text *text, const char *data, size_t length) {
  quire_text_append(text, "\"", 1);
  size_t i = 0;
  while (i < length) {
    unsigned char c = (unsigned char)data[i];
    size_t step = quire_utf8_length(data + i, length - i);
    if (step == 0) {
      quire_text_put(text, "\\ufffd");
      step = 1;
    } else if (c == '"' || c == '\\') {
      char escaped[2] = {'\\', (char)c};
      quire_text_append(text, escaped, 2);
    } else if (c == '\n') {
      quire_text_put(text, "\\n");
    } else if (c == '\t') {
      quire_text_put(text, "\\t");
    } else if (c < 0x20 || c == 0x7f) {
      quire_text_format(text, "\\u%04x", c);
    } else {
      quire_text_append(text, data + i, step);
    }
    i += step;
  }
  quire_text_append(text, "\"", 1);
}

void quire_text_int(quire_text *text, int64_t value) {
  char digits[24];
  size_t at = sizeof digits;
  uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
  do {
    digits[--at] = (char)('0' + rest % 10);
    rest /= 10;
  } while (rest != 0);
  if (value < 0) {
    digits[--at] = '-';
  }
  quire_text_append(text, digits + at, sizeof digits - at);
}

void quire_text_int_list(quire_text *text, const int64_t *values, int32_t count) {
  quire_text_put(text, "[");
  for (int32_t i = 0; i < count; i++) {
    quire_text_put(text, i > 0 ? ", " : "");
    quire_text_int(text, values[i]);
  }
  quire_text_put(text, "]");
}

/*
 * printf and strtod use the locale's decimal separator, which may be any text. Digits, signs and
 * 'e' are the same everywhere, so whatever else stands in the number is the separator.
 */
static size_t normalise_separator(char *number) {
  size_t length = 0;
  bool separator = false;
  for (const char *c = number; *c != '\0'; c++) {
    bool plain = (*c >= '0' && *c <= '9') || *c == '-' || *c == '+' || *c == 'e';
    if (plain) {
      number[length++] = *c;
      separator = false;
    } else if (!separator) {
      number[length++] = '.';
      separator = true;
    }
  }
  number[length] = '\0';
  return length;
}

/* The fewest significant digits that read back as value: 17 always do. */
static void put_shortest(quire_text *text, double value) {
  char number[64];
  for (int precision = 1; precision <= 17; precision++) {
    (void)snprintf(number, sizeof number, "%.*g", precision, value);
    if (strtod(number, NULL) == value) {
      break;
    }
  }
  size_t length = normalise_separator(number);
  quire_text_append(text, number, length);
}

static bool put_special(quire_text *text, double value) {
  if (isnan(value)) {
    quire_text_put(text, "NaN");
    return true;
  }
  if (isinf(value)) {
    quire_text_put(text, value < 0 ? "-Infinity" : "Infinity");
    return true;
  }
  /* 2^53: below it every whole double is the integer of that value. */
  if (value == floor(value) && fabs(value) <= 9007199254740992.0) {
    quire_text_int(text, (int64_t)value);
    return true;
  }
  return false;
}

void quire_text_double(quire_text *text, double value) {
  if (!put_special(text, value)) {
    put_shortest(text, value);
  }
}

const char *quire_text_view(const quire_text *text) {
  return text->failed || text->data == NULL ? "" : text->data;
}

/* ---- reading ---- */

/* Least decimal exponent that matters: no double needs more digits than this below its first. */
static const long exponent_bound = 100000;

/* The exponent of a number that is written without its decimal point; *digits gets the rest. */
static long strip_point(const char *data, size_t length, char *digits, size_t *count) {
  long exponent = 0;
  size_t i = 0;
  for (bool fraction = false; i < length && data[i] != 'e' && data[i] != 'E'; ++i) {
    if (data[i] == '.') {
      fraction = true;
      continue;
    }
    digits[(*count)++] = data[i];
    exponent -= fraction ? 1 : 0;
  }
  if (i < length) {
    bool negative = data[i + 1] == '-';
    i += negative || data[i + 1] == '+' ? 2 : 1;
    long written = 0;
    for (; i < length; ++i) {
      written = written < exponent_bound ? written * 10 + (data[i] - '0') : written;
    }
    exponent += negative ? -written : written;
  }
  return exponent;
}

/*
 * strtod reads the decimal point of the locale, so the number is handed to it without one:
 * 12.5e3 as 125e2.
 */
bool quire_text_read_double(const char *data, size_t length, double *value) {
  char digits[QUIRE_TEXT_LONGEST_NUMBER + 32];
  size_t count = 0;
  if (length > QUIRE_TEXT_LONGEST_NUMBER) {
    return false;
  }
  const long exponent = strip_point(data, length, digits, &count);
  (void)snprintf(digits + count, sizeof digits - count, "e%ld", exponent);
  *value = strtod(digits, NULL);
  return !isinf(*value);
}
