/* A growing text. */
#ifndef QUIRE_CORE_TEXT_H
#define QUIRE_CORE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc.h"
#include "portability.h"

/* `failed` is set by the first failure of memory or of the limit and makes all later calls do
 * nothing. */
typedef struct quire_text {
  const quire_allocator *allocator;
  char *data; /* NULL or ends with a zero byte */
  size_t length;
  size_t capacity;
  size_t limit; /* most bytes; 0: none */
  bool failed;
  bool over_limit; /* and that is why */
} quire_text;

void quire_text_init(quire_text *text, const quire_allocator *allocator);
void quire_text_release(quire_text *text);
void quire_text_append(quire_text *text, const char *data, size_t length);
void quire_text_put(quire_text *text, const char *zero_terminated);
void quire_text_format(quire_text *text, const char *format, ...) QUIRE_PRINTF(2, 3);
/* A JSON string with its quotes; bytes that are not UTF-8 become U+FFFD. */
void quire_text_json_string(quire_text *text, const char *data, size_t length);
/* Shortest decimal form that reads back as the same double; "Infinity", "NaN". Never
   uses the locale. Whole numbers within 2^53 are written without point and exponent. */
void quire_text_double(quire_text *text, double value);
/* Reads a number as JSON has it ("-12.5e3"). Never uses the locale. False: it is no finite double,
   or takes more than QUIRE_TEXT_LONGEST_NUMBER bytes. */
enum { QUIRE_TEXT_LONGEST_NUMBER = 4096 };
bool quire_text_read_double(const char *data, size_t length, double *value);
void quire_text_int(quire_text *text, int64_t value);
/* "[2, 3]" */
void quire_text_int_list(quire_text *text, const int64_t *values, int32_t count);

/* Bytes of the UTF-8 sequence at text, of which `left` are there; 0 if there is none (RFC 3629). */
size_t quire_utf8_length(const char *text, size_t left);

/* The text, never NULL; empty if failed. */
const char *quire_text_view(const quire_text *text);

#endif
