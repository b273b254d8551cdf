/* Values, names, calls, `is defined` (docs/manifest-language.md 6.2). */
#include <string.h>

#include "expr_build.h"

static int32_t parse_literal(quire_parser *parser, quire_value value, size_t begin) {
  int32_t index = parser->literal_count++;
  int32_t code_begin = parser->expr->code_count;
  parser->expr->literals[index] = value;
  quire_parser_emit(parser, QUIRE_OP_LITERAL, 0, begin, index);
  quire_parser_push(parser);
  return quire_parser_add_node(parser, QUIRE_OP_LITERAL, begin, code_begin, index, QUIRE_NO_NODE);
}

static int32_t parse_string(quire_parser *parser) {
  quire_token token = parser->token;
  const char *content = parser->expr->text + token.begin + 1;
  size_t length = token.length - 2;
  if (token.escapes) {
    char *copy = quire_arena_alloc(parser->arena, token.length);
    if (copy == NULL) {
      parser->out_of_memory = true;
      return quire_parser_fail(parser, token.begin, "out of memory");
    }
    length = quire_token_decode(parser->expr->text, &token, copy);
    content = copy;
  }
  return quire_parser_advance(parser)
             ? parse_literal(parser, quire_value_string(content, length), token.begin)
             : QUIRE_NO_NODE;
}

int quire_parse_items(quire_parser *parser, quire_token_kind close, const char *close_text,
                      int32_t *first) {
  int count = 0;
  int32_t last = QUIRE_NO_NODE;
  *first = QUIRE_NO_NODE;
  if (quire_parser_accept(parser, close)) {
    return 0;
  }
  if (parser->failed || !quire_parser_enter(parser)) {
    return -1;
  }
  do {
    if (count == QUIRE_EXPR_MAX_ITEMS) {
      quire_parser_fail(parser, parser->token.begin, "more than %d items", QUIRE_EXPR_MAX_ITEMS);
      return -1;
    }
    int32_t item = quire_parse_choice(parser);
    if (item == QUIRE_NO_NODE) {
      return -1;
    }
    if (last == QUIRE_NO_NODE) {
      *first = item;
    } else {
      parser->expr->nodes[last].next = item;
    }
    last = item;
    ++count;
  } while (quire_parser_accept(parser, QUIRE_TOKEN_COMMA));
  --parser->nesting;
  return !parser->failed && quire_parser_expect(parser, close, close_text) ? count : -1;
}

static int32_t parse_list(quire_parser *parser) {
  size_t begin = parser->token.begin;
  int32_t code_begin = parser->expr->code_count;
  int32_t first = QUIRE_NO_NODE;
  if (!quire_parser_advance(parser)) {
    return QUIRE_NO_NODE;
  }
  int count = quire_parse_items(parser, QUIRE_TOKEN_CLOSE_LIST, "`,` or `]`", &first);
  if (count < 0) {
    return QUIRE_NO_NODE;
  }
  quire_parser_emit(parser, QUIRE_OP_LIST, (size_t)count, begin, 0);
  parser->stack -= count;
  quire_parser_push(parser);
  return quire_parser_add_node(parser, QUIRE_OP_LIST, begin, code_begin, 0, first);
}

/* name { "." name } */
static bool parse_path(quire_parser *parser, quire_path *path) {
  size_t begin = parser->token.begin;
  if (!quire_parser_advance(parser)) {
    return false;
  }
  while (quire_parser_accept(parser, QUIRE_TOKEN_DOT)) {
    if (!quire_parser_expect(parser, QUIRE_TOKEN_NAME, "a name after `.`")) {
      return false;
    }
  }
  path->length = quire_path_squeeze(parser->expr->text + begin, parser->previous_end - begin,
                                    path->text, sizeof path->text);
  return !parser->failed;
}

static bool same_text(const quire_path *path, const char *other) {
  return strlen(other) == path->length && memcmp(path->text, other, path->length) == 0;
}

/* has(space, key): the space is no value, so it has no code. */
static int32_t parse_has(quire_parser *parser, size_t begin, int32_t code_begin) {
  static const struct {
    const char *space;
    quire_function function;
  } spaces[] = {{"attrs", QUIRE_FUNCTION_HAS_ATTR},
                {"device.limits", QUIRE_FUNCTION_HAS_LIMIT},
                {"device.adapterInfo", QUIRE_FUNCTION_HAS_ADAPTER}};
  quire_path path = {.length = 0};
  size_t at = parser->token.begin;
  if (parser->token.kind == QUIRE_TOKEN_NAME && !parse_path(parser, &path)) {
    return QUIRE_NO_NODE;
  }
  for (size_t i = 0; i < sizeof spaces / sizeof *spaces; ++i) {
    if (!same_text(&path, spaces[i].space)) {
      continue;
    }
    int32_t key = QUIRE_NO_NODE;
    if (!quire_parser_expect(parser, QUIRE_TOKEN_COMMA, "`,` and the key") ||
        !quire_parser_enter(parser) || (key = quire_parse_choice(parser)) == QUIRE_NO_NODE ||
        !quire_parser_expect(parser, QUIRE_TOKEN_CLOSE, "`)` after the key")) {
      return QUIRE_NO_NODE;
    }
    --parser->nesting;
    quire_parser_emit(parser, QUIRE_OP_CALL, 1, begin, (int32_t)spaces[i].function);
    return quire_parser_add_node(parser, QUIRE_OP_CALL, begin, code_begin,
                                 (int32_t)spaces[i].function, key);
  }
  return quire_parser_fail(
      parser, at, "has() looks into `attrs`, `device.limits` or `device.adapterInfo` only");
}

/* In a template the functions of the device may be called by their longer name. */
static const quire_function_info *find_function(const quire_parser *parser,
                                                const quire_path *path) {
  static const char longer[] = "env.device.";
  const size_t skipped = sizeof "env." - 1;
  if (parser->surround != NULL && path->length >= sizeof longer - 1 &&
      memcmp(path->text, longer, sizeof longer - 1) == 0) {
    return quire_function_find(path->text + skipped, path->length - skipped);
  }
  const quire_function_info *info = quire_function_find(path->text, path->length);
  bool is_range = info != NULL && info->function == QUIRE_FUNCTION_RANGE;
  return is_range && parser->surround == NULL ? NULL : info;
}

static int32_t parse_call(quire_parser *parser, const quire_path *path, size_t begin) {
  int32_t code_begin = parser->expr->code_count;
  int32_t first = QUIRE_NO_NODE;
  const quire_function_info *info = find_function(parser, path);
  bool has = same_text(path, "has");
  if (info == NULL && !has && parser->surround != NULL) {
    const quire_macro *macro =
        parser->surround->find_macro(parser->surround->user, path->text, path->length);
    if (macro != NULL) {
      return quire_parse_macro_call(parser, macro, begin);
    }
  }
  if (info == NULL && !has) {
    return quire_parser_fail(parser, begin, "unknown function `%.*s`", (int)path->length,
                             path->text);
  }
  if (!quire_parser_advance(parser)) { /* the parenthesis */
    return QUIRE_NO_NODE;
  }
  if (has) {
    return parse_has(parser, begin, code_begin);
  }
  int count = quire_parse_items(parser, QUIRE_TOKEN_CLOSE, "`,` or `)`", &first);
  if (count < 0) {
    return QUIRE_NO_NODE;
  }
  if (count < info->least || count > info->most) {
    return quire_parser_fail(parser, begin, "%s takes %d%s argument%s, not %d", info->name,
                             info->least, info->most > info->least ? " or more" : "",
                             info->least == 1 && info->most == 1 ? "" : "s", count);
  }
  quire_parser_emit(parser, QUIRE_OP_CALL, (size_t)count, begin, (int32_t)info->function);
  parser->stack -= count;
  quire_parser_push(parser);
  return quire_parser_add_node(parser, QUIRE_OP_CALL, begin, code_begin, (int32_t)info->function,
                               first);
}

/* References are kept as text in order; what they mean is found out when all is parsed. */
static int32_t parse_name(quire_parser *parser) {
  quire_path path;
  size_t begin = parser->token.begin;
  if (!parse_path(parser, &path)) {
    return QUIRE_NO_NODE;
  }
  if (parser->token.kind == QUIRE_TOKEN_OPEN) {
    return parse_call(parser, &path, begin);
  }
  int32_t code_begin = parser->expr->code_count;
  int32_t index = parser->expr->ref_count++;
  quire_parser_emit(parser, QUIRE_OP_LOAD, 0, begin, index);
  quire_parser_push(parser);
  return quire_parser_add_node(parser, QUIRE_OP_LOAD, begin, code_begin, index, QUIRE_NO_NODE);
}

static int32_t parse_parentheses(quire_parser *parser) {
  if (!quire_parser_enter(parser) || !quire_parser_advance(parser)) {
    return QUIRE_NO_NODE;
  }
  int32_t node = quire_parse_choice(parser);
  --parser->nesting;
  return node != QUIRE_NO_NODE && quire_parser_expect(parser, QUIRE_TOKEN_CLOSE, "`)`")
             ? node
             : QUIRE_NO_NODE;
}

static int32_t parse_primary(quire_parser *parser) {
  size_t begin = parser->token.begin;
  quire_value value = parser->token.number;
  switch (parser->token.kind) {
    case QUIRE_TOKEN_TRUE:
    case QUIRE_TOKEN_FALSE:
      value = quire_value_boolean(parser->token.kind == QUIRE_TOKEN_TRUE);
      return quire_parser_advance(parser) ? parse_literal(parser, value, begin) : QUIRE_NO_NODE;
    case QUIRE_TOKEN_NUMBER:
      return quire_parser_advance(parser) ? parse_literal(parser, value, begin) : QUIRE_NO_NODE;
    case QUIRE_TOKEN_STRING:
      return parse_string(parser);
    case QUIRE_TOKEN_NAME:
      return parse_name(parser);
    case QUIRE_TOKEN_OPEN:
      return parse_parentheses(parser);
    case QUIRE_TOKEN_OPEN_LIST:
      return parse_list(parser);
    default:
      return quire_parser_fail_expected(parser, "a value");
  }
}

/* primary [ "is" [ "not" ] "defined" ] */
int32_t quire_parse_test(quire_parser *parser) {
  size_t begin = parser->token.begin;
  int32_t code_begin = parser->expr->code_count;
  int32_t operand = parse_primary(parser);
  if (operand != QUIRE_NO_NODE && parser->surround != NULL) {
    operand = quire_parse_indices(parser, operand, begin, code_begin);
  }
  if (operand == QUIRE_NO_NODE || parser->token.kind != QUIRE_TOKEN_IS) {
    return operand;
  }
  const quire_node *node = &parser->expr->nodes[operand];
  if (node->op != QUIRE_OP_LOAD) {
    return quire_parser_fail(parser, node->begin, "`is defined` takes a name");
  }
  parser->expr->refs[node->operand].kind = QUIRE_REF_UNKNOWN;
  if (!quire_parser_advance(parser)) {
    return QUIRE_NO_NODE;
  }
  quire_op op =
      quire_parser_accept(parser, QUIRE_TOKEN_NOT) ? QUIRE_OP_UNDEFINED : QUIRE_OP_DEFINED;
  if (parser->failed || !quire_parser_expect(parser, QUIRE_TOKEN_DEFINED, "`defined`")) {
    return QUIRE_NO_NODE;
  }
  quire_parser_emit(parser, op, 1, begin, 0);
  return quire_parser_add_node(parser, op, begin, code_begin, 0, operand);
}
