#include "expr_parser.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

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
  quire_compile_error *error;
  bool failed;
  bool out_of_memory;
} quire_parser;

enum { no_node = -1 };

typedef enum quire_precedence {
  PRECEDENCE_OR,
  PRECEDENCE_AND,
  PRECEDENCE_NOT,
  PRECEDENCE_COMPARE,
  PRECEDENCE_SUM,
  PRECEDENCE_PRODUCT,
  PRECEDENCE_NONE /* not a binary operator */
} quire_precedence;

typedef struct quire_binary {
  quire_token_kind token;
  quire_precedence precedence;
  quire_op op;
} quire_binary;

static const quire_binary binaries[] = {
    {QUIRE_TOKEN_OR, PRECEDENCE_OR, QUIRE_OP_OR},
    {QUIRE_TOKEN_AND, PRECEDENCE_AND, QUIRE_OP_AND},
    {QUIRE_TOKEN_EQUAL, PRECEDENCE_COMPARE, QUIRE_OP_EQUAL},
    {QUIRE_TOKEN_NOT_EQUAL, PRECEDENCE_COMPARE, QUIRE_OP_NOT_EQUAL},
    {QUIRE_TOKEN_LESS, PRECEDENCE_COMPARE, QUIRE_OP_LESS},
    {QUIRE_TOKEN_LESS_EQUAL, PRECEDENCE_COMPARE, QUIRE_OP_LESS_EQUAL},
    {QUIRE_TOKEN_GREATER, PRECEDENCE_COMPARE, QUIRE_OP_GREATER},
    {QUIRE_TOKEN_GREATER_EQUAL, PRECEDENCE_COMPARE, QUIRE_OP_GREATER_EQUAL},
    {QUIRE_TOKEN_PLUS, PRECEDENCE_SUM, QUIRE_OP_ADD},
    {QUIRE_TOKEN_MINUS, PRECEDENCE_SUM, QUIRE_OP_SUBTRACT},
    {QUIRE_TOKEN_STAR, PRECEDENCE_PRODUCT, QUIRE_OP_MULTIPLY},
    {QUIRE_TOKEN_SLASH, PRECEDENCE_PRODUCT, QUIRE_OP_DIVIDE},
    {QUIRE_TOKEN_SLASH_SLASH, PRECEDENCE_PRODUCT, QUIRE_OP_FLOOR_DIVIDE},
    {QUIRE_TOKEN_PERCENT, PRECEDENCE_PRODUCT, QUIRE_OP_REMAINDER},
};

static const quire_binary not_binary = {QUIRE_TOKEN_END, PRECEDENCE_NONE, QUIRE_OP_LITERAL};

static int32_t parse_choice(quire_parser *parser);
static int32_t parse_binary(quire_parser *parser, quire_precedence least);

/* ---- faults ---- */

static int32_t fail_at(quire_parser *parser, size_t offset, const char *format, ...)
    QUIRE_PRINTF(3, 4);

static int32_t fail_at(quire_parser *parser, size_t offset, const char *format, ...) {
  if (!parser->failed) {
    parser->failed = true;
    parser->error->offset = offset;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(parser->error->message, sizeof parser->error->message, format, arguments);
    va_end(arguments);
  }
  return no_node;
}

/* "expected X, found Y" at the current token. */
static int32_t fail_expected(quire_parser *parser, const char *expected) {
  const quire_token *token = &parser->token;
  if (token->kind == QUIRE_TOKEN_END) {
    return fail_at(parser, token->begin, "expected %s, found the end of the text", expected);
  }
  int shown = token->length > 40 ? 40 : (int)token->length;
  return fail_at(parser, token->begin, "expected %s, found `%.*s`", expected, shown,
                 parser->expr->text + token->begin);
}

static bool advance(quire_parser *parser) {
  size_t end = parser->token.begin + parser->token.length;
  parser->previous_end = end;
  const char *fault =
      quire_token_read(parser->expr->text, parser->expr->length, end, &parser->token);
  if (fault != NULL) {
    fail_at(parser, parser->token.begin, "%s", fault);
  }
  return fault == NULL;
}

static bool accept(quire_parser *parser, quire_token_kind kind) {
  return parser->token.kind == kind && advance(parser);
}

static bool expect(quire_parser *parser, quire_token_kind kind, const char *what) {
  if (parser->token.kind != kind) {
    fail_expected(parser, what);
    return false;
  }
  return advance(parser);
}

static bool enter(quire_parser *parser) {
  if (parser->nesting >= QUIRE_EXPR_MAX_NESTING) {
    fail_at(parser, parser->token.begin, "nested more than %d deep", QUIRE_EXPR_MAX_NESTING);
    return false;
  }
  ++parser->nesting;
  return true;
}

/* ---- tree and code ---- */

/* Every node and instruction belongs to a token of its own, so the arrays, one entry a token,
 * suffice. */
static void emit(quire_parser *parser, quire_op op, size_t count, size_t begin, int32_t operand) {
  quire_instruction *instruction = &parser->expr->code[parser->expr->code_count++];
  instruction->op = (uint8_t)op;
  instruction->count = (uint8_t)count;
  instruction->begin = (uint16_t)begin;
  instruction->length = (uint16_t)(parser->previous_end - begin);
  instruction->operand = operand;
}

static void push(quire_parser *parser) {
  ++parser->stack;
  if (parser->stack > parser->expr->stack_depth) {
    parser->expr->stack_depth = parser->stack;
  }
}

static int32_t add_node(quire_parser *parser, quire_op op, size_t begin, int32_t code_begin,
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
  node->next = no_node;
  return expr->node_count++;
}

static int32_t parse_literal(quire_parser *parser, quire_value value, size_t begin) {
  int32_t index = parser->literal_count++;
  int32_t code_begin = parser->expr->code_count;
  parser->expr->literals[index] = value;
  emit(parser, QUIRE_OP_LITERAL, 0, begin, index);
  push(parser);
  return add_node(parser, QUIRE_OP_LITERAL, begin, code_begin, index, no_node);
}

static int32_t parse_string(quire_parser *parser) {
  quire_token token = parser->token;
  const char *content = parser->expr->text + token.begin + 1;
  size_t length = token.length - 2;
  if (token.escapes) {
    char *copy = quire_arena_alloc(parser->arena, token.length);
    if (copy == NULL) {
      parser->out_of_memory = true;
      return fail_at(parser, token.begin, "out of memory");
    }
    length = quire_token_decode(parser->expr->text, &token, copy);
    content = copy;
  }
  return advance(parser) ? parse_literal(parser, quire_value_string(content, length), token.begin)
                         : no_node;
}

/* { expr "," } up to the closing mark; returns the number of items, or -1. */
static int parse_items(quire_parser *parser, quire_token_kind close, const char *close_text,
                       int32_t *first) {
  int count = 0;
  int32_t last = no_node;
  *first = no_node;
  if (accept(parser, close)) {
    return 0;
  }
  if (parser->failed || !enter(parser)) {
    return -1;
  }
  do {
    if (count == QUIRE_EXPR_MAX_ITEMS) {
      fail_at(parser, parser->token.begin, "more than %d items", QUIRE_EXPR_MAX_ITEMS);
      return -1;
    }
    int32_t item = parse_choice(parser);
    if (item == no_node) {
      return -1;
    }
    if (last == no_node) {
      *first = item;
    } else {
      parser->expr->nodes[last].next = item;
    }
    last = item;
    ++count;
  } while (accept(parser, QUIRE_TOKEN_COMMA));
  --parser->nesting;
  return !parser->failed && expect(parser, close, close_text) ? count : -1;
}

static int32_t parse_list(quire_parser *parser) {
  size_t begin = parser->token.begin;
  int32_t code_begin = parser->expr->code_count;
  int32_t first = no_node;
  if (!advance(parser)) {
    return no_node;
  }
  int count = parse_items(parser, QUIRE_TOKEN_CLOSE_LIST, "`,` or `]`", &first);
  if (count < 0) {
    return no_node;
  }
  emit(parser, QUIRE_OP_LIST, (size_t)count, begin, 0);
  parser->stack -= count;
  push(parser);
  return add_node(parser, QUIRE_OP_LIST, begin, code_begin, 0, first);
}

/* A path without the blanks around its dots; cut to the buffer, which no known path fills. */
typedef struct quire_path {
  char text[64];
  size_t length;
} quire_path;

/* name { "." name } */
static bool parse_path(quire_parser *parser, quire_path *path) {
  size_t begin = parser->token.begin;
  if (!advance(parser)) {
    return false;
  }
  while (accept(parser, QUIRE_TOKEN_DOT)) {
    if (!expect(parser, QUIRE_TOKEN_NAME, "a name after `.`")) {
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
    return no_node;
  }
  for (size_t i = 0; i < sizeof spaces / sizeof *spaces; ++i) {
    if (!same_text(&path, spaces[i].space)) {
      continue;
    }
    int32_t key = no_node;
    if (!expect(parser, QUIRE_TOKEN_COMMA, "`,` and the key") || !enter(parser) ||
        (key = parse_choice(parser)) == no_node ||
        !expect(parser, QUIRE_TOKEN_CLOSE, "`)` after the key")) {
      return no_node;
    }
    --parser->nesting;
    emit(parser, QUIRE_OP_CALL, 1, begin, (int32_t)spaces[i].function);
    return add_node(parser, QUIRE_OP_CALL, begin, code_begin, (int32_t)spaces[i].function, key);
  }
  return fail_at(parser, at,
                 "has() looks into `attrs`, `device.limits` or `device.adapterInfo` only");
}

static int32_t parse_call(quire_parser *parser, const quire_path *path, size_t begin) {
  int32_t code_begin = parser->expr->code_count;
  int32_t first = no_node;
  const quire_function_info *info = quire_function_find(path->text, path->length);
  bool has = same_text(path, "has");
  if (info == NULL && !has) {
    return fail_at(parser, begin, "unknown function `%.*s`", (int)path->length, path->text);
  }
  if (!advance(parser)) { /* the parenthesis */
    return no_node;
  }
  if (has) {
    return parse_has(parser, begin, code_begin);
  }
  int count = parse_items(parser, QUIRE_TOKEN_CLOSE, "`,` or `)`", &first);
  if (count < 0) {
    return no_node;
  }
  if (count < info->least || count > info->most) {
    return fail_at(parser, begin, "%s takes %d%s argument%s, not %d", info->name, info->least,
                   info->most > info->least ? " or more" : "",
                   info->least == 1 && info->most == 1 ? "" : "s", count);
  }
  emit(parser, QUIRE_OP_CALL, (size_t)count, begin, (int32_t)info->function);
  parser->stack -= count;
  push(parser);
  return add_node(parser, QUIRE_OP_CALL, begin, code_begin, (int32_t)info->function, first);
}

/* References are kept as text in order; what they mean is found out when all is parsed. */
static int32_t parse_name(quire_parser *parser) {
  quire_path path;
  size_t begin = parser->token.begin;
  if (!parse_path(parser, &path)) {
    return no_node;
  }
  if (parser->token.kind == QUIRE_TOKEN_OPEN) {
    return parse_call(parser, &path, begin);
  }
  int32_t code_begin = parser->expr->code_count;
  int32_t index = parser->expr->ref_count++;
  emit(parser, QUIRE_OP_LOAD, 0, begin, index);
  push(parser);
  return add_node(parser, QUIRE_OP_LOAD, begin, code_begin, index, no_node);
}

static int32_t parse_parentheses(quire_parser *parser) {
  if (!enter(parser) || !advance(parser)) {
    return no_node;
  }
  int32_t node = parse_choice(parser);
  --parser->nesting;
  return node != no_node && expect(parser, QUIRE_TOKEN_CLOSE, "`)`") ? node : no_node;
}

static int32_t parse_primary(quire_parser *parser) {
  size_t begin = parser->token.begin;
  quire_value value = parser->token.number;
  switch (parser->token.kind) {
    case QUIRE_TOKEN_TRUE:
    case QUIRE_TOKEN_FALSE:
      value = quire_value_boolean(parser->token.kind == QUIRE_TOKEN_TRUE);
      return advance(parser) ? parse_literal(parser, value, begin) : no_node;
    case QUIRE_TOKEN_NUMBER:
      return advance(parser) ? parse_literal(parser, value, begin) : no_node;
    case QUIRE_TOKEN_STRING:
      return parse_string(parser);
    case QUIRE_TOKEN_NAME:
      return parse_name(parser);
    case QUIRE_TOKEN_OPEN:
      return parse_parentheses(parser);
    case QUIRE_TOKEN_OPEN_LIST:
      return parse_list(parser);
    default:
      return fail_expected(parser, "a value");
  }
}

/* primary [ "is" [ "not" ] "defined" ] */
static int32_t parse_test(quire_parser *parser) {
  size_t begin = parser->token.begin;
  int32_t code_begin = parser->expr->code_count;
  int32_t operand = parse_primary(parser);
  if (operand == no_node || parser->token.kind != QUIRE_TOKEN_IS) {
    return operand;
  }
  const quire_node *node = &parser->expr->nodes[operand];
  if (node->op != QUIRE_OP_LOAD) {
    return fail_at(parser, node->begin, "`is defined` takes a name");
  }
  parser->expr->refs[node->operand].kind = QUIRE_REF_UNKNOWN;
  if (!advance(parser)) {
    return no_node;
  }
  quire_op op = accept(parser, QUIRE_TOKEN_NOT) ? QUIRE_OP_UNDEFINED : QUIRE_OP_DEFINED;
  if (parser->failed || !expect(parser, QUIRE_TOKEN_DEFINED, "`defined`")) {
    return no_node;
  }
  emit(parser, op, 1, begin, 0);
  return add_node(parser, op, begin, code_begin, 0, operand);
}

/* "-" unary, and "not" not: the operand is parsed with `parse_operand`. */
static int32_t parse_prefix(quire_parser *parser, quire_op op) {
  size_t begin = parser->token.begin;
  int32_t code_begin = parser->expr->code_count;
  if (!enter(parser) || !advance(parser)) {
    return no_node;
  }
  int32_t operand = no_node;
  if (op == QUIRE_OP_NOT) {
    operand = parse_binary(parser, PRECEDENCE_NOT);
  } else if (parser->token.kind == QUIRE_TOKEN_MINUS) {
    operand = parse_prefix(parser, op);
  } else {
    operand = parse_test(parser);
  }
  --parser->nesting;
  if (operand == no_node) {
    return no_node;
  }
  emit(parser, op, 1, begin, 0);
  return add_node(parser, op, begin, code_begin, 0, operand);
}

static const quire_binary *find_binary(quire_token_kind kind) {
  for (size_t i = 0; i < sizeof binaries / sizeof *binaries; ++i) {
    if (binaries[i].token == kind) {
      return &binaries[i];
    }
  }
  return &not_binary;
}

/* Operator and right operand of the chain whose left part is `left`. */
static int32_t parse_right(quire_parser *parser, const quire_binary *binary, int32_t left,
                           size_t begin, int32_t code_begin) {
  bool lazy = binary->op == QUIRE_OP_AND || binary->op == QUIRE_OP_OR;
  if (!enter(parser) || !advance(parser)) {
    return no_node;
  }
  int32_t jump = parser->expr->code_count;
  if (lazy) {
    emit(parser, binary->op, 0, begin, 0);
    --parser->stack;
  }
  int32_t right = parse_binary(parser, (quire_precedence)(binary->precedence + 1));
  --parser->nesting;
  if (right == no_node) {
    return no_node;
  }
  if (lazy) {
    parser->expr->code[jump].operand = parser->expr->code_count - jump - 1;
    parser->expr->code[jump].length = (uint16_t)(parser->previous_end - begin);
  } else {
    emit(parser, binary->op, 2, begin, 0);
    --parser->stack;
  }
  parser->expr->nodes[left].next = right;
  return add_node(parser, binary->op, begin, code_begin, 0, left);
}

static int32_t parse_binary(quire_parser *parser, quire_precedence least) {
  size_t begin = parser->token.begin;
  int32_t code_begin = parser->expr->code_count;
  int32_t left = no_node;
  if (parser->token.kind == QUIRE_TOKEN_NOT && least <= PRECEDENCE_NOT) {
    left = parse_prefix(parser, QUIRE_OP_NOT);
  } else if (parser->token.kind == QUIRE_TOKEN_MINUS) {
    left = parse_prefix(parser, QUIRE_OP_NEGATE);
  } else {
    left = parse_test(parser);
  }
  bool compared = false;
  while (left != no_node) {
    const quire_binary *binary = find_binary(parser->token.kind);
    if (binary->precedence == PRECEDENCE_NONE || binary->precedence < least) {
      break;
    }
    if (binary->precedence == PRECEDENCE_COMPARE && compared) {
      return fail_at(parser, parser->token.begin, "comparisons do not chain");
    }
    compared = binary->precedence == PRECEDENCE_COMPARE;
    left = parse_right(parser, binary, left, begin, code_begin);
  }
  return left;
}

/* ---- choices ---- */

static void reverse(quire_instruction *code, int32_t first, int32_t last) {
  for (; first < last - 1; ++first, --last) {
    quire_instruction swap = code[first];
    code[first] = code[last - 1];
    code[last - 1] = swap;
  }
}

/* Where a choice keeps its parts while it is parsed. */
typedef struct quire_choice {
  size_t begin;
  int32_t code_begin, value_code_end;
  int32_t node_begin, value_node_end;
} quire_choice;

/*
 * The text has the value first, but the condition is evaluated first: turns [value][condition] into
 * [condition] CHOICE [value] JUMP. Jumps are relative, so code can be moved.
 */
static void arrange_choice(quire_parser *parser, const quire_choice *choice) {
  quire_expr *expr = parser->expr;
  int32_t value_count = choice->value_code_end - choice->code_begin;
  int32_t condition_count = expr->code_count - choice->value_code_end;
  reverse(expr->code, choice->code_begin, choice->value_code_end);
  reverse(expr->code, choice->value_code_end, expr->code_count);
  reverse(expr->code, choice->code_begin, expr->code_count);
  int32_t choice_at = choice->code_begin + condition_count;
  memmove(&expr->code[choice_at + 1], &expr->code[choice_at],
          (size_t)value_count * sizeof *expr->code);
  quire_instruction *instruction = &expr->code[choice_at];
  memset(instruction, 0, sizeof *instruction);
  instruction->op = QUIRE_OP_CHOICE;
  instruction->begin = (uint16_t)choice->begin;
  instruction->operand = value_count + 1;
  ++expr->code_count;
  for (int32_t i = choice->node_begin; i < expr->node_count; ++i) {
    quire_node *node = &expr->nodes[i];
    int32_t shift = i < choice->value_node_end ? condition_count + 1 : -value_count;
    node->code_begin = (uint16_t)(node->code_begin + shift);
    node->code_end = (uint16_t)(node->code_end + shift);
  }
  emit(parser, QUIRE_OP_JUMP, 0, choice->begin, 0);
}

/* or [ "if" or "else" expr ] */
static int32_t parse_choice(quire_parser *parser) {
  quire_expr *expr = parser->expr;
  quire_choice choice = {
      .begin = parser->token.begin, .code_begin = expr->code_count, .node_begin = expr->node_count};
  int32_t value = parse_binary(parser, PRECEDENCE_OR);
  if (value == no_node || parser->token.kind != QUIRE_TOKEN_IF) {
    return value;
  }
  choice.value_code_end = expr->code_count;
  choice.value_node_end = expr->node_count;
  --parser->stack;
  if (!enter(parser) || !advance(parser)) {
    return no_node;
  }
  int32_t condition = parse_binary(parser, PRECEDENCE_OR);
  if (condition == no_node ||
      !expect(parser, QUIRE_TOKEN_ELSE, "`else` (a choice has two branches)")) {
    return no_node;
  }
  --parser->stack;
  arrange_choice(parser, &choice);
  int32_t jump = expr->code_count - 1;
  int32_t choice_at = jump - (choice.value_code_end - choice.code_begin) - 1;
  int32_t other = parse_choice(parser);
  --parser->nesting;
  if (other == no_node) {
    return no_node;
  }
  expr->code[jump].operand = expr->code_count - jump - 1;
  expr->code[choice_at].length = (uint16_t)(parser->previous_end - choice.begin);
  expr->nodes[condition].next = value;
  expr->nodes[value].next = other;
  return add_node(parser, QUIRE_OP_CHOICE, choice.begin, choice.code_begin, 0, condition);
}

/* ---- all of it ---- */

/* Finds faults of the tokens, and how many entries the arrays need. */
static quire_parse_result prepare(quire_parser *parser) {
  quire_expr *expr = parser->expr;
  size_t tokens = 0;
  size_t literals = 0;
  size_t names = 0;
  size_t offset = 0;
  for (;;) {
    quire_token token;
    const char *fault = quire_token_read(expr->text, expr->length, offset, &token);
    if (fault != NULL) {
      fail_at(parser, token.begin, "%s", fault);
      return QUIRE_PARSE_FAULT;
    }
    if (token.kind == QUIRE_TOKEN_END) {
      break;
    }
    offset = token.begin + token.length;
    ++tokens;
    names += token.kind == QUIRE_TOKEN_NAME ? 1 : 0;
    literals += token.kind == QUIRE_TOKEN_NUMBER || token.kind == QUIRE_TOKEN_STRING ||
                        token.kind == QUIRE_TOKEN_TRUE || token.kind == QUIRE_TOKEN_FALSE
                    ? 1
                    : 0;
  }
  expr->nodes = quire_arena_array(parser->arena, tokens, sizeof *expr->nodes);
  expr->code = quire_arena_array(parser->arena, tokens, sizeof *expr->code);
  expr->literals = quire_arena_array(parser->arena, literals, sizeof *expr->literals);
  expr->refs = quire_arena_array(parser->arena, names, sizeof *expr->refs);
  bool complete =
      expr->nodes != NULL && expr->code != NULL && expr->literals != NULL && expr->refs != NULL;
  return complete ? QUIRE_PARSE_OK : QUIRE_PARSE_MEMORY;
}

quire_parse_result quire_expr_parse(quire_arena *arena, const char *text, size_t length,
                                    quire_expr *expr, quire_compile_error *error) {
  memset(expr, 0, sizeof *expr);
  expr->text = text;
  expr->length = length;
  quire_parser parser = {.expr = expr, .arena = arena, .error = error};
  if (length > QUIRE_EXPR_MAX_LENGTH) {
    fail_at(&parser, QUIRE_EXPR_MAX_LENGTH, "text longer than %d bytes", QUIRE_EXPR_MAX_LENGTH);
    return QUIRE_PARSE_FAULT;
  }
  quire_parse_result prepared = prepare(&parser);
  if (prepared != QUIRE_PARSE_OK) {
    return prepared;
  }
  if (advance(&parser) && parse_choice(&parser) != no_node &&
      parser.token.kind != QUIRE_TOKEN_END) {
    fail_expected(&parser, "the end of the text");
  }
  if (parser.out_of_memory) {
    return QUIRE_PARSE_MEMORY;
  }
  return parser.failed ? QUIRE_PARSE_FAULT : QUIRE_PARSE_OK;
}
