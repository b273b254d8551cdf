#include "json_text.h"

#include <stdio.h>
#include <string.h>

#include "text.h"

typedef struct reader {
  const quire_allocator *allocator;
  const char *text;
  size_t length;
  size_t at;
  int depth;
  quire_text string; /* the value that is read: all have its memory in turn */
  quire_json_fault *fault;
} reader;

/* ---- faults ---- */

static json_t *fail_memory(reader *in) {
  in->fault->out_of_memory = true;
  return NULL;
}

/* Bytes of the token at `at`, for a message: printable ones up to the next mark, at most 20. */
static int shown_length(const reader *in, size_t at) {
  size_t end = at;
  while (end < in->length && end - at < 20 && in->text[end] > ' ' && in->text[end] < 0x7f &&
         (end == at || strchr(",:[]{}", in->text[end]) == NULL)) {
    ++end;
  }
  return (int)(end - at);
}

/* Names the place `at` of a fault. */
static json_t *fail(reader *in, size_t at, const char *what) {
  quire_json_fault *fault = in->fault;
  fault->line = 1;
  fault->column = 1;
  for (size_t i = 0; i < at && i < in->length; ++i) {
    const unsigned char byte = (unsigned char)in->text[i];
    fault->column += (byte & 0xc0) != 0x80;
    if (byte == '\n') {
      ++fault->line;
      fault->column = 1;
    }
  }
  if (at >= in->length) {
    (void)snprintf(fault->message, sizeof fault->message, "%s at the end of the text", what);
  } else if (shown_length(in, at) == 0) {
    (void)snprintf(fault->message, sizeof fault->message, "%s at byte 0x%02x", what,
                   (unsigned)(unsigned char)in->text[at]);
  } else {
    (void)snprintf(fault->message, sizeof fault->message, "%s at '%.*s'", what,
                   shown_length(in, at), in->text + at);
  }
  return NULL;
}

/* ---- marks and words ---- */

static void skip_blanks(reader *in) {
  while (in->at < in->length && in->text[in->at] != '\0' &&
         strchr(" \t\r\n", in->text[in->at]) != NULL) {
    ++in->at;
  }
}

/* The next byte that is no blank; 0 at the end. */
static char peek(reader *in) {
  skip_blanks(in);
  if (in->at >= in->length) {
    return '\0';
  }
  return in->text[in->at];
}

static bool take(reader *in, char mark) {
  const bool found = peek(in) == mark;
  in->at += found ? 1 : 0;
  return found;
}

static bool take_word(reader *in, const char *word) {
  const size_t length = strlen(word);
  const bool found = in->length - in->at >= length && memcmp(in->text + in->at, word, length) == 0;
  in->at += found ? length : 0;
  return found;
}

/* ---- numbers ---- */

static bool is_digit(const reader *in) {
  return in->at < in->length && in->text[in->at] >= '0' && in->text[in->at] <= '9';
}

static bool skip_digits(reader *in) {
  const size_t begin = in->at;
  while (is_digit(in)) {
    ++in->at;
  }
  return in->at > begin;
}

/* Past a number; *whole: without fraction and exponent. */
static bool skip_number(reader *in, bool *whole) {
  in->at += in->text[in->at] == '-' ? 1 : 0;
  const size_t begin = in->at;
  if (!skip_digits(in) || (in->text[begin] == '0' && in->at > begin + 1)) {
    return false;
  }
  *whole = true;
  if (in->at < in->length && in->text[in->at] == '.') {
    ++in->at;
    *whole = false;
    if (!skip_digits(in)) {
      return false;
    }
  }
  if (in->at < in->length && (in->text[in->at] == 'e' || in->text[in->at] == 'E')) {
    ++in->at;
    *whole = false;
    in->at += in->at < in->length && (in->text[in->at] == '+' || in->text[in->at] == '-') ? 1 : 0;
    return skip_digits(in);
  }
  return true;
}

/* Digits with a sign, as a negative number: there is one more of those. */
static bool read_whole(const char *digits, size_t length, json_int_t *value) {
  const bool negative = digits[0] == '-';
  *value = 0;
  for (size_t i = negative ? 1 : 0; i < length; ++i) {
    const json_int_t digit = digits[i] - '0';
    if (*value < (INT64_MIN + digit) / 10) {
      return false;
    }
    *value = *value * 10 - digit;
  }
  if (!negative && *value == INT64_MIN) {
    return false;
  }
  *value = negative ? *value : -*value;
  return true;
}

static json_t *read_number(reader *in) {
  const size_t begin = in->at;
  bool whole = false;
  if (!skip_number(in, &whole)) {
    return fail(in, begin, "no number");
  }
  const char *digits = in->text + begin;
  const size_t length = in->at - begin;
  json_int_t integer = 0;
  double real = 0;
  if (whole && !read_whole(digits, length, &integer)) {
    return fail(in, begin, "an integer outside 64 bits");
  }
  if (!whole && !quire_text_read_double(digits, length, &real)) {
    return fail(in, begin, "a number outside the range of a double");
  }
  json_t *made = whole ? json_integer(integer) : json_real(real);
  return made != NULL ? made : fail_memory(in);
}

/* ---- strings ---- */

static bool read_hexadecimal(const reader *in, size_t at, uint32_t *value) {
  *value = 0;
  for (size_t i = at; i < at + 4; ++i) {
    static const char digits[] = "0123456789abcdef0123456789ABCDEF";
    const char *found = i < in->length && in->text[i] != '\0' ? strchr(digits, in->text[i]) : NULL;
    if (found == NULL) {
      return false;
    }
    *value = *value * 16 + (uint32_t)(found - digits) % 16;
  }
  return true;
}

static void append_character(quire_text *out, uint32_t code) {
  char bytes[4];
  size_t count = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
  static const unsigned char first[] = {0, 0, 0xc0, 0xe0, 0xf0};
  for (size_t i = count; i-- > 1;) {
    bytes[i] = (char)(0x80 | (code & 0x3f));
    code >>= 6;
  }
  bytes[0] = (char)(first[count] | code);
  quire_text_append(out, bytes, count);
}

/* `\uXXXX`, or two of them for one character: `at` is behind the first backslash. */
static bool read_escaped_code(reader *in, quire_text *out) {
  uint32_t code = 0;
  uint32_t low = 0;
  if (!read_hexadecimal(in, in->at + 1, &code)) {
    return false;
  }
  in->at += 5;
  if (code >= 0xd800 && code <= 0xdbff) {
    if (!take_word(in, "\\u") || !read_hexadecimal(in, in->at, &low) || low < 0xdc00 ||
        low > 0xdfff) {
      return false;
    }
    in->at += 4;
    code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
  }
  if (code == 0 || (code >= 0xdc00 && code <= 0xdfff)) {
    return false;
  }
  append_character(out, code);
  return true;
}

static bool read_escape(reader *in, quire_text *out) {
  static const char letters[] = "\"\\/bfnrt";
  static const char meanings[] = "\"\\/\b\f\n\r\t";
  if (++in->at >= in->length || in->text[in->at] == '\0') {
    return false;
  }
  if (in->text[in->at] == 'u') {
    return read_escaped_code(in, out);
  }
  const char *found = strchr(letters, in->text[in->at]);
  if (found != NULL) {
    quire_text_append(out, &meanings[found - letters], 1);
    ++in->at;
  }
  return found != NULL;
}

/* The text between the quotes, of which the first is here. */
static bool read_string(reader *in, quire_text *out) {
  ++in->at;
  out->length = 0;
  quire_text_append(out, "", 0);
  while (in->at < in->length && in->text[in->at] != '"') {
    const size_t at = in->at;
    const size_t step = quire_utf8_length(in->text + at, in->length - at);
    if (in->text[at] == '\\') {
      if (!read_escape(in, out)) {
        (void)fail(in, at, "an escape that is none, or \\u0000,");
        return false;
      }
      continue;
    }
    if (step == 0 || (unsigned char)in->text[at] < 0x20) {
      (void)fail(in, at, step == 0 ? "no UTF-8" : "a control character in a string");
      return false;
    }
    quire_text_append(out, in->text + at, step);
    in->at += step;
  }
  if (in->at >= in->length) {
    (void)fail(in, in->length, "a string without an end");
    return false;
  }
  ++in->at;
  if (out->failed) {
    (void)fail_memory(in);
  }
  return !out->failed;
}

static json_t *read_string_value(reader *in) {
  if (!read_string(in, &in->string)) {
    return NULL;
  }
  json_t *made = json_stringn_nocheck(quire_text_view(&in->string), in->string.length);
  return made != NULL ? made : fail_memory(in);
}

/* ---- lists and objects ---- */

static json_t *read_value(reader *in);

static bool read_elements(reader *in, json_t *list) {
  if (take(in, ']')) {
    return true;
  }
  do {
    json_t *value = read_value(in);
    if (value == NULL) {
      return false;
    }
    if (json_array_append_new(list, value) != 0) {
      (void)fail_memory(in);
      return false;
    }
  } while (take(in, ','));
  return take(in, ']') || fail(in, in->at, "`,` or `]` is expected") != NULL;
}

static bool read_member(reader *in, json_t *object, quire_text *key) {
  if (peek(in) != '"') {
    (void)fail(in, in->at, "the name of a member is expected");
    return false;
  }
  const size_t begin = in->at;
  if (!read_string(in, key)) {
    return false;
  }
  if (json_object_get(object, quire_text_view(key)) != NULL) {
    (void)fail(in, begin, "a duplicate member");
    return false;
  }
  if (!take(in, ':')) {
    (void)fail(in, in->at, "`:` is expected");
    return false;
  }
  json_t *value = read_value(in);
  if (value == NULL) {
    return false;
  }
  if (json_object_set_new_nocheck(object, quire_text_view(key), value) != 0) {
    (void)fail_memory(in);
    return false;
  }
  return true;
}

static bool read_members(reader *in, json_t *object) {
  if (take(in, '}')) {
    return true;
  }
  quire_text key;
  quire_text_init(&key, in->allocator);
  bool good = false;
  do {
    good = read_member(in, object, &key);
  } while (good && take(in, ','));
  quire_text_release(&key);
  return good && (take(in, '}') || fail(in, in->at, "`,` or `}` is expected") != NULL);
}

static json_t *read_container(reader *in) {
  const bool is_object = in->text[in->at] == '{';
  if (in->depth == QUIRE_JSON_DEEPEST) {
    return fail(in, in->at, "nested too deep");
  }
  json_t *made = is_object ? json_object() : json_array();
  if (made == NULL) {
    return fail_memory(in);
  }
  ++in->at;
  ++in->depth;
  const bool good = is_object ? read_members(in, made) : read_elements(in, made);
  --in->depth;
  if (!good) {
    json_decref(made);
  }
  return good ? made : NULL;
}

/* Recursion is bounded by QUIRE_JSON_DEEPEST. */
static json_t *read_value(reader *in) {
  const char next = peek(in);
  if (next == '{' || next == '[') {
    return read_container(in);
  }
  if (next == '"') {
    return read_string_value(in);
  }
  if (next == '-' || (next >= '0' && next <= '9')) {
    return read_number(in);
  }
  if (take_word(in, "true")) {
    return json_true();
  }
  if (take_word(in, "false")) {
    return json_false();
  }
  if (take_word(in, "null")) {
    return json_null();
  }
  return fail(in, in->at, "a value is expected");
}

static json_t *read_root(reader *in) {
  const char first = peek(in);
  if (first != '{' && first != '[') {
    return fail(in, in->at, "an object or a list is expected");
  }
  json_t *root = read_container(in);
  skip_blanks(in);
  if (root != NULL && in->at < in->length) {
    json_decref(root);
    return fail(in, in->at, "the end of the text is expected");
  }
  return root;
}

json_t *quire_json_read(const quire_allocator *allocator, const char *text, size_t length,
                        quire_json_fault *fault) {
  reader in = {.allocator = allocator, .text = text, .length = length, .fault = fault};
  memset(fault, 0, sizeof *fault);
  quire_text_init(&in.string, allocator);
  json_t *root = read_root(&in);
  quire_text_release(&in.string);
  return root;
}
