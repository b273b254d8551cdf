/* The parser's state, and what its parts share. Private to runtime/expr. */
#ifndef QUIRE_EXPR_EXPR_BUILD_H
#define QUIRE_EXPR_EXPR_BUILD_H

#include "expr_code.h"
#include "expr_lexer.h"

/*
 * Operator precedence parsing. Every level of nesting costs a few C frames, and nesting is bounded,
 * so the recursion is; chains such as 1 + 1 + ... are loops. Code is written while parsing.
 */
typedef struct quire_parser {
  quire_expr *expr;
  quire_arena *arena;
  quire_token token;
  size_t previous_end; /* of the token before */
  int32_t literal_count;
  int32_t stack;
  int nesting;
  const quire_expr_template *surround; /* NULL: the text is not in a template */
  quire_compile_error *error;
  bool failed;
  bool out_of_memory;
} quire_parser;

enum { QUIRE_NO_NODE = -1 };

/* ---- expr_build.c ---- */

/* Notes the first fault; returns QUIRE_NO_NODE. */
int32_t quire_parser_fail(quire_parser *parser, size_t offset, const char *format, ...)
    QUIRE_PRINTF(3, 4);
/* "expected X, found Y" at the current token. */
int32_t quire_parser_fail_expected(quire_parser *parser, const char *expected);
/* Goes to the next token; false with a fault if there is none. */
bool quire_parser_advance(quire_parser *parser);
/* Passes a token of that kind, if it is the current one. */
bool quire_parser_accept(quire_parser *parser, quire_token_kind kind);
/* Passes a token of that kind, or notes a fault that says what was expected. */
bool quire_parser_expect(quire_parser *parser, quire_token_kind kind, const char *what);
/* Goes one level deeper; the caller takes it back from parser->nesting. */
bool quire_parser_enter(quire_parser *parser);

/* Appends an instruction whose text ends with the token before the current one. */
void quire_parser_emit(quire_parser *parser, quire_op op, size_t count, size_t begin,
                       int32_t operand);
/* Notes that the code so far leaves one more value. */
void quire_parser_push(quire_parser *parser);
/* Adds a node for the text and code from the given places on. */
int32_t quire_parser_add_node(quire_parser *parser, quire_op op, size_t begin, int32_t code_begin,
                              int32_t operand, int32_t first);

/* ---- expr_primary.c: values, names, calls, `is defined`; expr_parser.c: all else ---- */

/* A path without the blanks around its dots; cut to the buffer, which no known path fills. */
typedef struct quire_path {
  char text[QUIRE_EXPR_MAX_NAME + 1];
  size_t length;
} quire_path;

int32_t quire_parse_test(quire_parser *parser);
int32_t quire_parse_choice(quire_parser *parser);
/* { expr "," } up to the closing mark; returns the number of items, or -1. */
int quire_parse_items(quire_parser *parser, quire_token_kind close, const char *close_text,
                      int32_t *first);

/* ---- expr_template.c: what only templates have ---- */

/* { "[" expr "]" } behind a value. */
int32_t quire_parse_indices(quire_parser *parser, int32_t value, size_t begin, int32_t code_begin);
/* { "|" name [ "(" arguments ")" ] } behind an operand. */
int32_t quire_parse_filters(quire_parser *parser, int32_t value, size_t begin, int32_t code_begin);
/* A macro's call, at its parenthesis. */
int32_t quire_parse_macro_call(quire_parser *parser, const quire_macro *macro, size_t begin);

#endif
