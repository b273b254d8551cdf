/* What the expressions of templates have besides: indices, filters, calls of macros (section 11).
 */
#include <string.h>

#include "expr_build.h"

int32_t quire_parse_indices(quire_parser *parser, int32_t value, size_t begin, int32_t code_begin) {
  while (value != QUIRE_NO_NODE && parser->token.kind == QUIRE_TOKEN_OPEN_LIST) {
    if (!quire_parser_enter(parser) || !quire_parser_advance(parser)) {
      return QUIRE_NO_NODE;
    }
    int32_t index = quire_parse_choice(parser);
    --parser->nesting;
    if (index == QUIRE_NO_NODE || !quire_parser_expect(parser, QUIRE_TOKEN_CLOSE_LIST, "`]`")) {
      return QUIRE_NO_NODE;
    }
    quire_parser_emit(parser, QUIRE_OP_INDEX, 2, begin, 0);
    --parser->stack;
    parser->expr->nodes[value].next = index;
    value = quire_parser_add_node(parser, QUIRE_OP_INDEX, begin, code_begin, 0, value);
  }
  return value;
}

/* Arguments in parentheses, if there are any; returns their number, or -1. */
static int parse_filter_arguments(quire_parser *parser, int32_t *first) {
  *first = QUIRE_NO_NODE;
  if (!quire_parser_accept(parser, QUIRE_TOKEN_OPEN)) {
    return parser->failed ? -1 : 0;
  }
  return quire_parse_items(parser, QUIRE_TOKEN_CLOSE, "`,` or `)`", first);
}

int32_t quire_parse_filters(quire_parser *parser, int32_t value, size_t begin, int32_t code_begin) {
  while (value != QUIRE_NO_NODE && quire_parser_accept(parser, QUIRE_TOKEN_BAR)) {
    size_t at = parser->token.begin;
    size_t length = parser->token.length;
    int32_t first = QUIRE_NO_NODE;
    if (!quire_parser_expect(parser, QUIRE_TOKEN_NAME, "the name of a filter")) {
      return QUIRE_NO_NODE;
    }
    const quire_filter_info *info = quire_filter_find(parser->expr->text + at, length);
    if (info == NULL) {
      return quire_parser_fail(parser, at, "unknown filter `%.*s`", (int)length,
                               parser->expr->text + at);
    }
    int count = parse_filter_arguments(parser, &first);
    if (count < 0) {
      return QUIRE_NO_NODE;
    }
    if (count != info->arguments) {
      return quire_parser_fail(parser, at, "%s takes %d argument%s, not %d", info->name,
                               info->arguments, info->arguments == 1 ? "" : "s", count);
    }
    quire_parser_emit(parser, QUIRE_OP_FILTER, (size_t)count + 1, begin, (int32_t)info->filter);
    parser->stack -= count;
    parser->expr->nodes[value].next = first;
    value = quire_parser_add_node(parser, QUIRE_OP_FILTER, begin, code_begin, (int32_t)info->filter,
                                  value);
  }
  return parser->failed ? QUIRE_NO_NODE : value;
}

/* ---- macros ---- */

static int find_parameter(const quire_macro *macro, const char *name, size_t length) {
  for (int i = 0; i < macro->parameter_count; ++i) {
    if (macro->parameters[i].length == length &&
        memcmp(macro->parameters[i].text, name, length) == 0) {
      return i;
    }
  }
  return -1;
}

/* NAME = at the current token: whether an argument is given by name. */
static bool is_named(const quire_parser *parser) {
  quire_token next;
  size_t end = parser->token.begin + parser->token.length;
  return parser->token.kind == QUIRE_TOKEN_NAME &&
         quire_token_read(parser->expr->text, parser->expr->length, end, true, &next) == NULL &&
         next.kind == QUIRE_TOKEN_ASSIGN;
}

/* Which parameter the argument at the current token is for; -1 with a fault. */
static int choose_parameter(quire_parser *parser, const quire_macro *macro,
                            const quire_macro_call *call, bool *named) {
  size_t at = parser->token.begin;
  int parameter = call->argument_count;
  if (is_named(parser)) {
    size_t length = parser->token.length;
    *named = true;
    parameter = find_parameter(macro, parser->expr->text + at, length);
    if (parameter < 0) {
      return quire_parser_fail(parser, at, "the macro has no parameter `%.*s`", (int)length,
                               parser->expr->text + at);
    }
    bool passed = quire_parser_advance(parser); /* the name */
    passed = passed && quire_parser_expect(parser, QUIRE_TOKEN_ASSIGN, "`=`");
    if (!passed) {
      return -1;
    }
  } else if (*named) {
    return quire_parser_fail(parser, at, "an argument without a name after one with a name");
  } else if (parameter >= macro->parameter_count) {
    return quire_parser_fail(parser, at, "the macro takes %d argument%s", macro->parameter_count,
                             macro->parameter_count == 1 ? "" : "s");
  }
  for (int i = 0; i < call->argument_count; ++i) {
    if (call->parameters[i] == parameter) {
      return quire_parser_fail(parser, at, "`%.*s` is given twice",
                               (int)macro->parameters[parameter].length,
                               macro->parameters[parameter].text);
    }
  }
  return parameter;
}

/* Arguments up to the closing parenthesis. */
static bool parse_macro_arguments(quire_parser *parser, const quire_macro *macro,
                                  quire_macro_call *call, int32_t *first) {
  bool named = false;
  int32_t last = QUIRE_NO_NODE;
  if (parser->token.kind == QUIRE_TOKEN_CLOSE) {
    return quire_parser_advance(parser);
  }
  if (!quire_parser_enter(parser)) {
    return false;
  }
  do {
    int parameter = choose_parameter(parser, macro, call, &named);
    int32_t item = parameter < 0 ? QUIRE_NO_NODE : quire_parse_choice(parser);
    if (item == QUIRE_NO_NODE) {
      return false;
    }
    call->parameters[call->argument_count++] = (uint8_t)parameter;
    if (last == QUIRE_NO_NODE) {
      *first = item;
    } else {
      parser->expr->nodes[last].next = item;
    }
    last = item;
  } while (quire_parser_accept(parser, QUIRE_TOKEN_COMMA));
  --parser->nesting;
  return !parser->failed && quire_parser_expect(parser, QUIRE_TOKEN_CLOSE, "`,` or `)`");
}

int32_t quire_parse_macro_call(quire_parser *parser, const quire_macro *macro, size_t begin) {
  int32_t code_begin = parser->expr->code_count;
  int32_t first = QUIRE_NO_NODE;
  int32_t index = parser->expr->macro_call_count++;
  quire_macro_call *call = &parser->expr->macro_calls[index];
  call->macro = macro->index;
  if (!quire_parser_advance(parser) || !parse_macro_arguments(parser, macro, call, &first)) {
    return QUIRE_NO_NODE;
  }
  quire_parser_emit(parser, QUIRE_OP_MACRO, (size_t)call->argument_count, begin, index);
  parser->stack -= call->argument_count;
  quire_parser_push(parser);
  return quire_parser_add_node(parser, QUIRE_OP_MACRO, begin, code_begin, index, first);
}
