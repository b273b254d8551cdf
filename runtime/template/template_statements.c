/* Statements: if, for, set, macro and their ends (section 11). */
#include <string.h>

#include "template_parts.h"

static void fail(const quire_template_parser *parser, const char *at, const char *message) {
  const quire_template *made = parser->made;
  quire_template_fault_set(made->fault, "syntax", (size_t)(at - made->text), "%s", message);
}

/* ---- pieces of a statement's text ---- */

static void skip_blanks(quire_span *rest) {
  while (rest->length > 0 && quire_is_blank(rest->text[0])) {
    ++rest->text;
    --rest->length;
  }
}

/* Takes a name from the front of the rest; false with a fault. */
static bool take_name(const quire_template_parser *parser, quire_span *rest, quire_span *name) {
  static const char *const keywords[] = {"and",     "or",   "not",   "if", "else", "is",
                                         "defined", "true", "false", "in", "loop", "range"};
  enum { longest = 128 };
  skip_blanks(rest);
  *name = (quire_span){rest->text, 0};
  while (name->length < rest->length &&
         quire_is_name_byte(rest->text[name->length], name->length == 0)) {
    ++name->length;
  }
  bool ok = name->length > 0 && name->length <= longest;
  for (size_t i = 0; i < sizeof keywords / sizeof *keywords; ++i) {
    ok = ok && !quire_span_is(*name, keywords[i]);
  }
  if (!ok) {
    fail(parser, name->text, "expected a name that is no keyword");
    return false;
  }
  rest->text += name->length;
  rest->length -= name->length;
  skip_blanks(rest);
  return true;
}

/* Takes a byte that must come next. */
static bool take(const quire_template_parser *parser, quire_span *rest, char c,
                 const char *message) {
  skip_blanks(rest);
  if (rest->length == 0 || rest->text[0] != c) {
    fail(parser, rest->text, message);
    return false;
  }
  ++rest->text;
  --rest->length;
  skip_blanks(rest);
  return true;
}

static bool nothing_left(const quire_template_parser *parser, quire_span rest) {
  if (rest.length > 0) {
    fail(parser, rest.text, "nothing may follow here");
  }
  return rest.length == 0;
}

/* ---- blocks ---- */

static quire_template_block *innermost(quire_template_parser *parser) {
  return parser->block_count > 0 ? &parser->blocks[parser->block_count - 1] : NULL;
}

static quire_template_block *open_block(quire_template_parser *parser, const quire_mark *mark) {
  if (parser->block_count == QUIRE_TEMPLATE_MAX_BLOCKS) {
    quire_template_fault_set(parser->made->fault, "limit", mark->begin,
                             "more than %d blocks inside each other", QUIRE_TEMPLATE_MAX_BLOCKS);
    return NULL;
  }
  quire_template_block *block = &parser->blocks[parser->block_count++];
  *block = (quire_template_block){.tail = parser->tail, .begin = mark->begin};
  return block;
}

static void close_block(quire_template_parser *parser) {
  --parser->block_count;
  parser->tail = parser->blocks[parser->block_count].tail;
}

static bool is_if(const quire_template_block *block) {
  return block != NULL && block->node != NULL && block->node->kind == QUIRE_TEMPLATE_IF;
}

static void parse_if(quire_template_parser *parser, const quire_mark *mark, quire_span rest) {
  const quire_expr *expr = quire_template_compile(parser->made, rest, false);
  quire_template_node *node =
      expr != NULL ? quire_template_append(parser, QUIRE_TEMPLATE_IF) : NULL;
  quire_template_block *block = node != NULL ? open_block(parser, mark) : NULL;
  if (block != NULL) {
    node->expr = expr;
    block->node = node;
    parser->tail = &node->body;
  }
}

/* elif and else: one more branch. */
static void parse_branch(quire_template_parser *parser, const quire_mark *mark, quire_span rest,
                         bool has_condition) {
  quire_template *made = parser->made;
  quire_template_block *block = innermost(parser);
  const char *at = made->text + mark->begin;
  if (!is_if(block)) {
    fail(parser, at, has_condition ? "`elif` without `if`" : "`else` without `if`");
    return;
  }
  if (block->has_else) {
    fail(parser, at, "a branch behind `else`");
    return;
  }
  const quire_expr *expr = NULL;
  if (has_condition) {
    expr = quire_template_compile(made, rest, false);
  } else if (nothing_left(parser, rest)) {
    block->has_else = true;
  }
  quire_template_node *node = quire_arena_array(made->arena, 1, sizeof *node);
  if (made->fault->failed) {
    return;
  }
  if (node == NULL) {
    quire_template_fault_memory(made->fault);
    return;
  }
  node->kind = QUIRE_TEMPLATE_IF;
  node->expr = expr;
  block->node->other = node;
  block->node = node;
  parser->tail = &node->body;
}

/* ---- for and set ---- */

/* Loop variables and parameters keep their values: only names of their own may be set. */
static bool is_fixed(const quire_template_parser *parser, int32_t name) {
  for (size_t i = 0; i < parser->block_count; ++i) {
    const quire_template_block *block = &parser->blocks[i];
    if (block->node != NULL && block->node->kind == QUIRE_TEMPLATE_FOR &&
        block->node->name == name) {
      return true;
    }
    for (int32_t p = 0; block->macro != NULL && p < block->macro->signature.parameter_count; ++p) {
      if (block->macro->parameters[p] == name) {
        return true;
      }
    }
  }
  return false;
}

static void parse_for(quire_template_parser *parser, const quire_mark *mark, quire_span rest) {
  quire_template *made = parser->made;
  quire_span name;
  if (!take_name(parser, &rest, &name)) {
    return;
  }
  if (rest.length < 3 || memcmp(rest.text, "in", 2) != 0 ||
      quire_is_name_byte(rest.text[2], false)) {
    fail(parser, rest.text, "expected `in`");
    return;
  }
  rest = (quire_span){rest.text + 2, rest.length - 2};
  skip_blanks(&rest);
  const quire_expr *expr = quire_template_compile(made, rest, true);
  int32_t index = expr != NULL ? quire_template_intern(made, name.text, name.length) : -1;
  quire_template_node *node = index >= 0 ? quire_template_append(parser, QUIRE_TEMPLATE_FOR) : NULL;
  quire_template_block *block = node != NULL ? open_block(parser, mark) : NULL;
  if (block != NULL) {
    node->expr = expr;
    node->name = index;
    block->node = node;
    parser->tail = &node->body;
  }
}

static void parse_set(quire_template_parser *parser, quire_span rest) {
  quire_template *made = parser->made;
  quire_span name;
  if (!take_name(parser, &rest, &name) || !take(parser, &rest, '=', "expected `=`")) {
    return;
  }
  int32_t index = quire_template_intern(made, name.text, name.length);
  if (index >= 0 && is_fixed(parser, index)) {
    fail(parser, name.text, "a loop variable or parameter cannot be set");
  }
  const quire_expr *expr = quire_template_compile(made, rest, false);
  quire_template_node *node =
      expr != NULL && index >= 0 ? quire_template_append(parser, QUIRE_TEMPLATE_SET) : NULL;
  if (node != NULL) {
    node->expr = expr;
    node->name = index;
  }
}

/* ---- macros ---- */

/* Length of the expression at the front: up to a comma or parenthesis of the list around it. */
static size_t expression_length(quire_span rest) {
  char quote = '\0';
  int depth = 0;
  size_t i = 0;
  for (; i < rest.length; ++i) {
    char c = rest.text[i];
    if (quote != '\0') {
      i += c == '\\' ? 1 : 0;
      if (c == quote) {
        quote = '\0';
      }
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '(' || c == '[') {
      ++depth;
    } else if (depth == 0 && (c == ',' || c == ')')) {
      return i;
    } else if (c == ')' || c == ']') {
      --depth;
    }
  }
  return rest.length;
}

/* NAME [ "=" expression ] */
static bool parse_parameter(quire_template_parser *parser, quire_template_macro *macro,
                            quire_span *rest) {
  quire_template *made = parser->made;
  quire_span name;
  int32_t count = macro->signature.parameter_count;
  if (!take_name(parser, rest, &name)) {
    return false;
  }
  int32_t index = quire_template_intern(made, name.text, name.length);
  if (index < 0) {
    return false;
  }
  for (int32_t i = 0; i < count; ++i) {
    if (macro->parameters[i] == index) {
      fail(parser, name.text, "two parameters of one name");
      return false;
    }
  }
  if (count == QUIRE_MACRO_PARAMETERS) {
    fail(parser, name.text, "more than 16 parameters");
    return false;
  }
  if (rest->length > 0 && rest->text[0] == '=') {
    (void)take(parser, rest, '=', "");
    size_t length = expression_length(*rest);
    macro->defaults[count] = quire_template_compile(made, (quire_span){rest->text, length}, false);
    *rest = (quire_span){rest->text + length, rest->length - length};
  }
  macro->parameters[count] = index;
  macro->signature.parameters[count] = made->names[index].text;
  macro->signature.parameter_count = count + 1;
  return !made->fault->failed;
}

static bool parse_parameters(quire_template_parser *parser, quire_template_macro *macro,
                             quire_span rest) {
  if (!take(parser, &rest, '(', "expected `(`")) {
    return false;
  }
  bool more = rest.length == 0 || rest.text[0] != ')';
  while (more) {
    if (!parse_parameter(parser, macro, &rest)) {
      return false;
    }
    skip_blanks(&rest);
    more = rest.length > 0 && rest.text[0] == ',';
    if (more && !take(parser, &rest, ',', "")) {
      return false;
    }
  }
  return take(parser, &rest, ')', "expected `,` or `)`") && nothing_left(parser, rest);
}

/*
 * A later macro of one name replaces the earlier, which a reader can follow only if both are always
 * defined: one that stands in an `if` is the only one of its name.
 */
static bool check_redefinition(const quire_template_parser *parser, quire_span name,
                               bool is_conditional) {
  const quire_template *made = parser->made;
  for (int32_t i = 0; i < made->macro_count; ++i) {
    const quire_template_macro *other = &made->macros[i];
    bool same =
        other->name.length == name.length && memcmp(other->name.text, name.text, name.length) == 0;
    if (same && (is_conditional || other->is_conditional)) {
      fail(parser, name.text, "another macro has this name, and one of them is in an `if`");
      return false;
    }
  }
  return true;
}

static void parse_macro(quire_template_parser *parser, const quire_mark *mark, quire_span rest) {
  quire_template *made = parser->made;
  quire_span name;
  for (size_t i = 0; i < parser->block_count; ++i) {
    if (!is_if(&parser->blocks[i])) {
      fail(parser, made->text + mark->begin, "a macro inside a loop or another macro");
      return;
    }
  }
  if (!take_name(parser, &rest, &name) ||
      !check_redefinition(parser, name, parser->block_count > 0)) {
    return;
  }
  quire_template_macro *macro = quire_arena_array(made->arena, 1, sizeof *macro);
  quire_template_node *node =
      macro != NULL ? quire_template_append(parser, QUIRE_TEMPLATE_MACRO) : NULL;
  bool is_conditional = parser->block_count > 0;
  quire_template_block *block = node != NULL ? open_block(parser, mark) : NULL;
  if (macro == NULL) {
    quire_template_fault_memory(made->fault);
  }
  if (block != NULL && parse_parameters(parser, macro, rest)) {
    macro->name = name;
    macro->is_conditional = is_conditional;
    block->node = node;
    block->macro = macro;
    parser->tail = &macro->body;
  }
}

/* Only now may it be called: a macro sees the earlier ones, never itself. */
static void finish_macro(quire_template_parser *parser, const quire_template_block *block) {
  quire_template *made = parser->made;
  quire_template_macro *macro = block->macro;
  quire_template_macro *macros = quire_template_grow(made, made->macros, made->macro_count,
                                                     &made->macro_capacity, sizeof *macros);
  if (macros == NULL) {
    return;
  }
  made->macros = macros;
  macro->signature.index = made->macro_count;
  block->node->name = made->macro_count;
  macros[made->macro_count++] = *macro;
  close_block(parser);
}

/* ---- all of them ---- */

static void parse_end(quire_template_parser *parser, const quire_mark *mark, quire_span word,
                      quire_span rest) {
  quire_template_block *block = innermost(parser);
  bool fits = false;
  if (quire_span_is(word, "endif")) {
    fits = is_if(block);
  } else if (quire_span_is(word, "endfor")) {
    fits = block != NULL && block->node != NULL && block->node->kind == QUIRE_TEMPLATE_FOR;
  } else {
    fits = block != NULL && block->macro != NULL;
  }
  if (!fits) {
    quire_template_fault_set(parser->made->fault, "syntax", mark->begin,
                             "`%.*s` ends nothing that is open here", (int)word.length, word.text);
  } else if (nothing_left(parser, rest)) {
    if (block->macro != NULL) {
      finish_macro(parser, block);
    } else {
      close_block(parser);
    }
  }
}

void quire_template_parse_statement(quire_template_parser *parser, const quire_mark *mark) {
  const quire_template *made = parser->made;
  quire_span word = quire_mark_word(made->text, mark);
  quire_span rest = {word.text + word.length, mark->inner_end - mark->inner_begin - word.length};
  skip_blanks(&rest);
  if (quire_span_is(word, "if")) {
    parse_if(parser, mark, rest);
  } else if (quire_span_is(word, "elif")) {
    parse_branch(parser, mark, rest, true);
  } else if (quire_span_is(word, "else")) {
    parse_branch(parser, mark, rest, false);
  } else if (quire_span_is(word, "for")) {
    parse_for(parser, mark, rest);
  } else if (quire_span_is(word, "set")) {
    parse_set(parser, rest);
  } else if (quire_span_is(word, "macro")) {
    parse_macro(parser, mark, rest);
  } else if (quire_span_is(word, "endif") || quire_span_is(word, "endfor") ||
             quire_span_is(word, "endmacro")) {
    parse_end(parser, mark, word, rest);
  } else {
    quire_template_fault_set(made->fault, "syntax", mark->begin, "unknown statement `%.*s`",
                             (int)(word.length > 40 ? 40 : word.length), word.text);
  }
}
