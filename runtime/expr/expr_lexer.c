#include "expr_lexer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "expr_code.h"

typedef struct quire_word {
  const char *text;
  quire_token_kind kind;
} quire_word;

static const quire_word keywords[] = {
    {"and", QUIRE_TOKEN_AND},         {"or", QUIRE_TOKEN_OR},     {"not", QUIRE_TOKEN_NOT},
    {"if", QUIRE_TOKEN_IF},           {"else", QUIRE_TOKEN_ELSE}, {"is", QUIRE_TOKEN_IS},
    {"defined", QUIRE_TOKEN_DEFINED}, {"true", QUIRE_TOKEN_TRUE}, {"false", QUIRE_TOKEN_FALSE},
};

/* Longer ones first. */
static const quire_word marks[] = {
    {"==", QUIRE_TOKEN_EQUAL},       {"!=", QUIRE_TOKEN_NOT_EQUAL},
    {"<=", QUIRE_TOKEN_LESS_EQUAL},  {">=", QUIRE_TOKEN_GREATER_EQUAL},
    {"//", QUIRE_TOKEN_SLASH_SLASH}, {"<", QUIRE_TOKEN_LESS},
    {">", QUIRE_TOKEN_GREATER},      {"+", QUIRE_TOKEN_PLUS},
    {"-", QUIRE_TOKEN_MINUS},        {"*", QUIRE_TOKEN_STAR},
    {"/", QUIRE_TOKEN_SLASH},        {"%", QUIRE_TOKEN_PERCENT},
    {"(", QUIRE_TOKEN_OPEN},         {")", QUIRE_TOKEN_CLOSE},
    {"[", QUIRE_TOKEN_OPEN_LIST},    {"]", QUIRE_TOKEN_CLOSE_LIST},
    {",", QUIRE_TOKEN_COMMA},        {".", QUIRE_TOKEN_DOT},
};

static const quire_word template_marks[] = {
    {"~", QUIRE_TOKEN_TILDE},
    {"|", QUIRE_TOKEN_BAR},
    {"=", QUIRE_TOKEN_ASSIGN},
};

static bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

static bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || is_digit(c);
}

static size_t skip_digits(const char *text, size_t length, size_t at) {
  while (at < length && is_digit(text[at])) {
    ++at;
  }
  return at;
}

static const char *read_integer(const char *text, quire_token *token) {
  int64_t value = 0;
  for (size_t i = 0; i < token->length; ++i) {
    int digit = text[token->begin + i] - '0';
    if (value > (INT64_MAX - digit) / 10) {
      return "integer over 9223372036854775807";
    }
    value = value * 10 + digit;
  }
  token->number = quire_value_integer(value);
  return NULL;
}

static const char *read_double(const char *text, quire_token *token) {
  double value = 0;
  if (!quire_text_read_double(text + token->begin, token->length, &value)) {
    return "number too large";
  }
  token->number = quire_value_number(value);
  return NULL;
}

static const char *read_number(const char *text, size_t length, quire_token *token) {
  token->kind = QUIRE_TOKEN_NUMBER;
  size_t at = skip_digits(text, length, token->begin);
  bool integer = true;
  if (at + 1 < length && text[at] == '.' && is_digit(text[at + 1])) {
    at = skip_digits(text, length, at + 1);
    integer = false;
  }
  if (at < length && (text[at] == 'e' || text[at] == 'E')) {
    size_t digits = at + 1;
    if (digits < length && (text[digits] == '+' || text[digits] == '-')) {
      ++digits;
    }
    size_t end = skip_digits(text, length, digits);
    if (end > digits) {
      at = end;
      integer = false;
    }
  }
  token->length = at - token->begin;
  return integer ? read_integer(text, token) : read_double(text, token);
}

static const char *read_string(const char *text, size_t length, quire_token *token) {
  token->kind = QUIRE_TOKEN_STRING;
  char quote = text[token->begin];
  for (size_t at = token->begin + 1; at < length; ++at) {
    if (text[at] == quote) {
      token->length = at + 1 - token->begin;
      return NULL;
    }
    if (text[at] != '\\') {
      continue;
    }
    ++at;
    if (at >= length || text[at] == '\0' || strchr("nt\"'\\", text[at]) == NULL) {
      token->begin = at - 1;
      return "unknown escape in a string";
    }
    token->escapes = true;
  }
  return "string without an end";
}

static bool same_word(const char *word, const char *text, const quire_token *token) {
  return strlen(word) == token->length && memcmp(word, text + token->begin, token->length) == 0;
}

static void read_word(const char *text, size_t length, bool in_template, quire_token *token) {
  token->kind = QUIRE_TOKEN_NAME;
  size_t at = token->begin;
  while (at < length && is_name(text[at])) {
    ++at;
  }
  token->length = at - token->begin;
  for (size_t i = 0; i < sizeof keywords / sizeof *keywords; ++i) {
    if (same_word(keywords[i].text, text, token)) {
      token->kind = keywords[i].kind;
    }
  }
  if (in_template && same_word("in", text, token)) {
    token->kind = QUIRE_TOKEN_IN;
  }
}

static bool read_mark(const quire_word *words, size_t count, const char *text, size_t length,
                      quire_token *token) {
  for (size_t i = 0; i < count; ++i) {
    size_t size = strlen(words[i].text);
    if (size <= length - token->begin && memcmp(words[i].text, text + token->begin, size) == 0) {
      token->kind = words[i].kind;
      token->length = size;
      return true;
    }
  }
  return false;
}

const char *quire_token_read(const char *text, size_t length, size_t offset, bool in_template,
                             quire_token *token) {
  while (offset < length && is_blank(text[offset])) {
    ++offset;
  }
  memset(token, 0, sizeof *token);
  token->begin = offset;
  if (offset >= length) {
    token->kind = QUIRE_TOKEN_END;
    return NULL;
  }
  char c = text[offset];
  if (is_digit(c)) {
    return read_number(text, length, token);
  }
  if (c == '"' || c == '\'') {
    return read_string(text, length, token);
  }
  if (is_name(c)) {
    read_word(text, length, in_template, token);
    return token->length > QUIRE_EXPR_MAX_NAME ? "name longer than 128 characters" : NULL;
  }
  if (read_mark(marks, sizeof marks / sizeof *marks, text, length, token) ||
      (in_template && read_mark(template_marks, sizeof template_marks / sizeof *template_marks,
                                text, length, token))) {
    return NULL;
  }
  return "unexpected character";
}

size_t quire_token_decode(const char *text, const quire_token *token, char *out) {
  size_t count = 0;
  size_t end = token->begin + token->length - 1;
  for (size_t i = token->begin + 1; i < end; ++i) {
    char c = text[i];
    if (c == '\\') {
      c = text[++i];
      if (c == 'n') {
        c = '\n';
      } else if (c == 't') {
        c = '\t';
      }
    }
    out[count++] = c;
  }
  return count;
}

size_t quire_path_squeeze(const char *text, size_t length, char *out, size_t capacity) {
  size_t count = 0;
  for (size_t i = 0; i < length && count < capacity; ++i) {
    if (!is_blank(text[i])) {
      out[count++] = text[i];
    }
  }
  return count;
}
