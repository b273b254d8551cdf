/* Tokens of the expression language (docs/manifest-language.md 6.1). Private to runtime/expr. */
#ifndef QUIRE_EXPR_EXPR_LEXER_H
#define QUIRE_EXPR_EXPR_LEXER_H

#include "expr.h"

typedef enum quire_token_kind {
  QUIRE_TOKEN_END,
  QUIRE_TOKEN_NUMBER,
  QUIRE_TOKEN_STRING,
  QUIRE_TOKEN_NAME,
  QUIRE_TOKEN_AND,
  QUIRE_TOKEN_OR,
  QUIRE_TOKEN_NOT,
  QUIRE_TOKEN_IF,
  QUIRE_TOKEN_ELSE,
  QUIRE_TOKEN_IS,
  QUIRE_TOKEN_DEFINED,
  QUIRE_TOKEN_TRUE,
  QUIRE_TOKEN_FALSE,
  QUIRE_TOKEN_EQUAL,
  QUIRE_TOKEN_NOT_EQUAL,
  QUIRE_TOKEN_LESS,
  QUIRE_TOKEN_LESS_EQUAL,
  QUIRE_TOKEN_GREATER,
  QUIRE_TOKEN_GREATER_EQUAL,
  QUIRE_TOKEN_PLUS,
  QUIRE_TOKEN_MINUS,
  QUIRE_TOKEN_STAR,
  QUIRE_TOKEN_SLASH,
  QUIRE_TOKEN_SLASH_SLASH,
  QUIRE_TOKEN_PERCENT,
  QUIRE_TOKEN_OPEN,
  QUIRE_TOKEN_CLOSE,
  QUIRE_TOKEN_OPEN_LIST,
  QUIRE_TOKEN_CLOSE_LIST,
  QUIRE_TOKEN_COMMA,
  QUIRE_TOKEN_DOT,
  /* of templates only */
  QUIRE_TOKEN_IN,
  QUIRE_TOKEN_TILDE,
  QUIRE_TOKEN_BAR,
  QUIRE_TOKEN_ASSIGN
} quire_token_kind;

typedef struct quire_token {
  quire_token_kind kind;
  size_t begin;
  size_t length;
  quire_value number; /* NUMBER */
  bool escapes;       /* STRING: the text between the quotes has escapes */
} quire_token;

/* Reads the token at or after `offset`, in a template those of templates too. NULL, or the message
   of a fault at token->begin. */
const char *quire_token_read(const char *text, size_t length, size_t offset, bool in_template,
                             quire_token *token);

/* Decodes the escapes of a STRING token into `out`, which has room for its length; returns the
 * bytes. */
size_t quire_token_decode(const char *text, const quire_token *token, char *out);

/* Copies a path without the blanks around its dots, cut to `capacity`; returns the bytes. */
size_t quire_path_squeeze(const char *text, size_t length, char *out, size_t capacity);

#endif
