/* Operators and choices (docs/manifest-language.md 6.2, 6.3). */
#include "expr_parser.h"

#include <string.h>

#include "expr_build.h"

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
    {QUIRE_TOKEN_IN, PRECEDENCE_COMPARE, QUIRE_OP_IN},
    {QUIRE_TOKEN_TILDE, PRECEDENCE_SUM, QUIRE_OP_CONCATENATE},
};

static const quire_binary not_binary = {QUIRE_TOKEN_END, PRECEDENCE_NONE, QUIRE_OP_LITERAL};

static int32_t parse_binary(quire_parser *parser, quire_precedence least);

/* "-" unary, and "not" not. */
static int32_t parse_prefix(quire_parser *parser, quire_op op) {
  size_t begin = parser->token.begin;
  int32_t code_begin = parser->expr->code_count;
  if (!quire_parser_enter(parser) || !quire_parser_advance(parser)) {
    return QUIRE_NO_NODE;
  }
  int32_t operand = QUIRE_NO_NODE;
  if (op == QUIRE_OP_NOT) {
    operand = parse_binary(parser, PRECEDENCE_NOT);
  } else if (parser->token.kind == QUIRE_TOKEN_MINUS) {
    operand = parse_prefix(parser, op);
  } else {
    operand = quire_parse_test(parser);
  }
  --parser->nesting;
  if (operand == QUIRE_NO_NODE) {
    return QUIRE_NO_NODE;
  }
  quire_parser_emit(parser, op, 1, begin, 0);
  return quire_parser_add_node(parser, op, begin, code_begin, 0, operand);
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
  /* Only in templates may one side of `+` be a string. */
  quire_op op =
      binary->op == QUIRE_OP_ADD && parser->surround != NULL ? QUIRE_OP_ADD_TEXT : binary->op;
  if (!quire_parser_enter(parser) || !quire_parser_advance(parser)) {
    return QUIRE_NO_NODE;
  }
  int32_t jump = parser->expr->code_count;
  if (lazy) {
    quire_parser_emit(parser, binary->op, 0, begin, 0);
    --parser->stack;
  }
  int32_t right = parse_binary(parser, (quire_precedence)(binary->precedence + 1));
  --parser->nesting;
  if (right == QUIRE_NO_NODE) {
    return QUIRE_NO_NODE;
  }
  if (lazy) {
    parser->expr->code[jump].operand = parser->expr->code_count - jump - 1;
    parser->expr->code[jump].length = (uint16_t)(parser->previous_end - begin);
  } else {
    quire_parser_emit(parser, op, 2, begin, 0);
    --parser->stack;
  }
  parser->expr->nodes[left].next = right;
  return quire_parser_add_node(parser, op, begin, code_begin, 0, left);
}

static int32_t parse_binary(quire_parser *parser, quire_precedence least) {
  size_t begin = parser->token.begin;
  int32_t code_begin = parser->expr->code_count;
  int32_t left = QUIRE_NO_NODE;
  if (parser->token.kind == QUIRE_TOKEN_NOT && least <= PRECEDENCE_NOT) {
    left = parse_prefix(parser, QUIRE_OP_NOT);
  } else if (parser->token.kind == QUIRE_TOKEN_MINUS) {
    left = parse_prefix(parser, QUIRE_OP_NEGATE);
  } else {
    left = quire_parse_test(parser);
  }
  if (left != QUIRE_NO_NODE && parser->token.kind == QUIRE_TOKEN_BAR) {
    left = quire_parse_filters(parser, left, begin, code_begin);
  }
  bool compared = false;
  while (left != QUIRE_NO_NODE) {
    const quire_binary *binary = find_binary(parser->token.kind);
    if (binary->precedence == PRECEDENCE_NONE || binary->precedence < least) {
      break;
    }
    if (binary->precedence == PRECEDENCE_COMPARE && compared) {
      return quire_parser_fail(parser, parser->token.begin, "comparisons do not chain");
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
 * [condition] CHOICE [value]. Jumps are relative, so code can be moved. Returns the place of
 * CHOICE, which skips the value.
 */
static int32_t arrange_choice(quire_parser *parser, const quire_choice *choice) {
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
  instruction->operand = value_count;
  ++expr->code_count;
  for (int32_t i = choice->node_begin; i < expr->node_count; ++i) {
    quire_node *node = &expr->nodes[i];
    int32_t shift = i < choice->value_node_end ? condition_count + 1 : -value_count;
    node->code_begin = (uint16_t)(node->code_begin + shift);
    node->code_end = (uint16_t)(node->code_end + shift);
  }
  return choice_at;
}

/* VALUE if CONDITION: undefined if the condition does not hold. */
static int32_t finish_half_choice(quire_parser *parser, const quire_choice *choice,
                                  int32_t condition, int32_t value) {
  quire_expr *expr = parser->expr;
  --parser->nesting;
  quire_instruction *instruction = &expr->code[arrange_choice(parser, choice)];
  instruction->op = QUIRE_OP_CHOICE_OR_NOTHING;
  instruction->length = (uint16_t)(parser->previous_end - choice->begin);
  expr->nodes[condition].next = value;
  return quire_parser_add_node(parser, QUIRE_OP_CHOICE, choice->begin, choice->code_begin, 0,
                               condition);
}

/* or [ "if" or "else" expr ]; in a template the last part may be left out. */
int32_t quire_parse_choice(quire_parser *parser) {
  quire_expr *expr = parser->expr;
  quire_choice choice = {
      .begin = parser->token.begin, .code_begin = expr->code_count, .node_begin = expr->node_count};
  int32_t value = parse_binary(parser, PRECEDENCE_OR);
  if (value == QUIRE_NO_NODE || parser->token.kind != QUIRE_TOKEN_IF) {
    return value;
  }
  choice.value_code_end = expr->code_count;
  choice.value_node_end = expr->node_count;
  --parser->stack;
  if (!quire_parser_enter(parser) || !quire_parser_advance(parser)) {
    return QUIRE_NO_NODE;
  }
  int32_t condition = parse_binary(parser, PRECEDENCE_OR);
  if (condition != QUIRE_NO_NODE && parser->surround != NULL &&
      parser->token.kind != QUIRE_TOKEN_ELSE) {
    return finish_half_choice(parser, &choice, condition, value);
  }
  if (condition == QUIRE_NO_NODE ||
      !quire_parser_expect(parser, QUIRE_TOKEN_ELSE, "`else` (a choice has two branches)")) {
    return QUIRE_NO_NODE;
  }
  --parser->stack;
  int32_t choice_at = arrange_choice(parser, &choice);
  int32_t jump = expr->code_count;
  ++expr->code[choice_at].operand; /* the jump behind the value, too */
  quire_parser_emit(parser, QUIRE_OP_JUMP, 0, choice.begin, 0);
  int32_t other = quire_parse_choice(parser);
  --parser->nesting;
  if (other == QUIRE_NO_NODE) {
    return QUIRE_NO_NODE;
  }
  expr->code[jump].operand = expr->code_count - jump - 1;
  expr->code[choice_at].length = (uint16_t)(parser->previous_end - choice.begin);
  expr->nodes[condition].next = value;
  expr->nodes[value].next = other;
  return quire_parser_add_node(parser, QUIRE_OP_CHOICE, choice.begin, choice.code_begin, 0,
                               condition);
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
    const char *fault =
        quire_token_read(expr->text, expr->length, offset, parser->surround != NULL, &token);
    if (fault != NULL) {
      quire_parser_fail(parser, token.begin, "%s", fault);
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
  expr->macro_calls = quire_arena_array(parser->arena, parser->surround != NULL ? names : 0,
                                        sizeof *expr->macro_calls);
  bool complete = expr->nodes != NULL && expr->code != NULL && expr->literals != NULL &&
                  expr->refs != NULL && expr->macro_calls != NULL;
  return complete ? QUIRE_PARSE_OK : QUIRE_PARSE_MEMORY;
}

quire_parse_result quire_expr_parse(quire_arena *arena, const char *text, size_t length,
                                    const quire_expr_template *surround, quire_expr *expr,
                                    quire_compile_error *error) {
  memset(expr, 0, sizeof *expr);
  expr->text = text;
  expr->length = length;
  quire_parser parser = {.expr = expr, .arena = arena, .surround = surround, .error = error};
  if (length > QUIRE_EXPR_MAX_LENGTH) {
    quire_parser_fail(&parser, QUIRE_EXPR_MAX_LENGTH, "text longer than %d bytes",
                      QUIRE_EXPR_MAX_LENGTH);
    return QUIRE_PARSE_FAULT;
  }
  quire_parse_result prepared = prepare(&parser);
  if (prepared != QUIRE_PARSE_OK) {
    return prepared;
  }
  if (quire_parser_advance(&parser) && quire_parse_choice(&parser) != QUIRE_NO_NODE &&
      parser.token.kind != QUIRE_TOKEN_END) {
    quire_parser_fail_expected(&parser, "the end of the text");
  }
  if (parser.out_of_memory) {
    return QUIRE_PARSE_MEMORY;
  }
  return parser.failed ? QUIRE_PARSE_FAULT : QUIRE_PARSE_OK;
}
