#include "expr_build.h"

#include <stdarg.h>
#include <stdio.h>

/* ---- faults ---- */

int32_t quire_parser_fail(quire_parser *parser, size_t offset, const char *format, ...) {
  if (!parser->failed) {
    parser->failed = true;
    parser->error->offset = offset;
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(parser->error->message, sizeof parser->error->message, format, arguments);
    va_end(arguments);
  }
  return QUIRE_NO_NODE;
}

/* "expected X, found Y" at the current token. */
int32_t quire_parser_fail_expected(quire_parser *parser, const char *expected) {
  const quire_token *token = &parser->token;
  if (token->kind == QUIRE_TOKEN_END) {
    return quire_parser_fail(parser, token->begin, "expected %s, found the end of the text",
                             expected);
  }
  int shown = token->length > 40 ? 40 : (int)token->length;
  return quire_parser_fail(parser, token->begin, "expected %s, found `%.*s`", expected, shown,
                           parser->expr->text + token->begin);
}

bool quire_parser_advance(quire_parser *parser) {
  size_t end = parser->token.begin + parser->token.length;
  parser->previous_end = end;
  const char *fault = quire_token_read(parser->expr->text, parser->expr->length, end,
                                       parser->surround != NULL, &parser->token);
  if (fault != NULL) {
    quire_parser_fail(parser, parser->token.begin, "%s", fault);
  }
  return fault == NULL;
}

bool quire_parser_accept(quire_parser *parser, quire_token_kind kind) {
  return parser->token.kind == kind && quire_parser_advance(parser);
}

bool quire_parser_expect(quire_parser *parser, quire_token_kind kind, const char *what) {
  if (parser->token.kind != kind) {
    quire_parser_fail_expected(parser, what);
    return false;
  }
  return quire_parser_advance(parser);
}

bool quire_parser_enter(quire_parser *parser) {
  if (parser->nesting >= QUIRE_EXPR_MAX_NESTING) {
    quire_parser_fail(parser, parser->token.begin, "nested more than %d deep",
                      QUIRE_EXPR_MAX_NESTING);
    return false;
  }
  ++parser->nesting;
  return true;
}

/* ---- tree and code ---- */

/* Every node and instruction belongs to a token of its own, so the arrays, one entry a token,
 * suffice. */
void quire_parser_emit(quire_parser *parser, quire_op op, size_t count, size_t begin,
                       int32_t operand) {
  quire_instruction *instruction = &parser->expr->code[parser->expr->code_count++];
  instruction->op = (uint8_t)op;
  instruction->count = (uint8_t)count;
  instruction->begin = (uint16_t)begin;
  instruction->length = (uint16_t)(parser->previous_end - begin);
  instruction->operand = operand;
}

void quire_parser_push(quire_parser *parser) {
  ++parser->stack;
  if (parser->stack > parser->expr->stack_depth) {
    parser->expr->stack_depth = parser->stack;
  }
}

int32_t quire_parser_add_node(quire_parser *parser, quire_op op, size_t begin, int32_t code_begin,
                              int32_t operand, int32_t first) {
  quire_expr *expr = parser->expr;
  quire_node *node = &expr->nodes[expr->node_count];
  node->op = (uint8_t)op;
  node->begin = (uint16_t)begin;
  node->length = (uint16_t)(parser->previous_end - begin);
  node->code_begin = (uint16_t)code_begin;
  node->code_end = (uint16_t)expr->code_count;
  node->operand = operand;
  node->first = first;
  node->next = QUIRE_NO_NODE;
  return expr->node_count++;
}
