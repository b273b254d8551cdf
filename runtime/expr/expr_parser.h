/* From text to tree and code (docs/manifest-language.md 6.2). Private to runtime/expr. */
#ifndef QUIRE_EXPR_EXPR_PARSER_H
#define QUIRE_EXPR_EXPR_PARSER_H

#include "expr_code.h"

typedef enum quire_parse_result {
  QUIRE_PARSE_OK,
  QUIRE_PARSE_FAULT,
  QUIRE_PARSE_MEMORY
} quire_parse_result;

/*
 * Fills *expr, all but the meaning of its references: kind is UNKNOWN for operands of `is defined`,
 * DERIVED for all others. surround NULL: not in a template.
 */
quire_parse_result quire_expr_parse(quire_arena *arena, const char *text, size_t length,
                                    const quire_expr_template *surround, quire_expr *expr,
                                    quire_compile_error *error);

#endif
