/* From text to tree: texts between the marks, white space, raw blocks (section 11). */
#include <string.h>

#include "template_parts.h"

/* ---- memory ---- */

void *quire_template_grow(quire_template *made, void *items, int32_t count, int32_t *capacity,
                          size_t size) {
  if (count < *capacity) {
    return items;
  }
  int32_t more = *capacity == 0 ? 16 : *capacity * 2;
  void *grown = quire_arena_array(made->arena, (size_t)more, size);
  if (grown == NULL) {
    quire_template_fault_memory(made->fault);
    return NULL;
  }
  if (count > 0) {
    memcpy(grown, items, (size_t)count * size);
  }
  *capacity = more;
  return grown;
}

quire_template_node *quire_template_append(quire_template_parser *parser,
                                           quire_template_kind kind) {
  quire_template_node *node = quire_arena_array(parser->made->arena, 1, sizeof *node);
  if (node == NULL) {
    quire_template_fault_memory(parser->made->fault);
    return NULL;
  }
  node->kind = kind;
  *parser->tail = node;
  parser->tail = &node->next;
  return node;
}

/* ---- names ---- */

/* FNV-1a. */
static uint32_t hash_name(const char *text, size_t length) {
  uint32_t hash = 2166136261u;
  for (size_t i = 0; i < length; ++i) {
    hash = (hash ^ (unsigned char)text[i]) * 16777619u;
  }
  return hash;
}

static int32_t find_name(const quire_template *made, uint32_t hash, const char *text,
                         size_t length) {
  for (int32_t i = 0; i < made->name_count; ++i) {
    const quire_template_name *name = &made->names[i];
    if (name->hash == hash && name->text.length == length &&
        memcmp(name->text.text, text, length) == 0) {
      return i;
    }
  }
  return -1;
}

int32_t quire_template_intern(quire_template *made, const char *text, size_t length) {
  uint32_t hash = hash_name(text, length);
  int32_t found = find_name(made, hash, text, length);
  if (found >= 0) {
    return found;
  }
  if (made->name_count >= QUIRE_TEMPLATE_MAX_NAMES) {
    quire_template_fault_set(made->fault, "limit", 0, "more than %d different names",
                             QUIRE_TEMPLATE_MAX_NAMES);
    return -1;
  }
  const char *dot = memchr(text, '.', length);
  int32_t first = dot != NULL ? quire_template_intern(made, text, (size_t)(dot - text)) : -1;
  const char *copy = quire_arena_copy(made->arena, text, length);
  quire_template_name *names =
      quire_template_grow(made, made->names, made->name_count, &made->name_capacity, sizeof *names);
  if (copy == NULL || names == NULL || (dot != NULL && first < 0)) {
    quire_template_fault_memory(made->fault);
    return -1;
  }
  made->names = names;
  names[made->name_count] = (quire_template_name){
      .text = {copy, length}, .hash = hash, .first = dot != NULL ? first : made->name_count};
  return made->name_count++;
}

/* ---- expressions ---- */

static const char *resolve_name(void *user, const char *path, size_t length, bool in_defined,
                                quire_ref *ref) {
  ref->kind = QUIRE_REF_OUTER;
  ref->layer = 0;
  ref->index = quire_template_intern(user, path, length);
  ref->second = in_defined;
  return ref->index < 0 ? "no room for a name" : NULL;
}

/* The last one of that name. */
static const quire_macro *find_macro(void *user, const char *name, size_t length) {
  const quire_template *made = user;
  for (int32_t i = made->macro_count - 1; i >= 0; --i) {
    const quire_template_macro *macro = &made->macros[i];
    if (macro->name.length == length && memcmp(macro->name.text, name, length) == 0) {
      return &macro->signature;
    }
  }
  return NULL;
}

const quire_expr *quire_template_compile(quire_template *made, quire_span text, bool allow_range) {
  quire_expr_template surround = {find_macro, made};
  quire_compile_error error;
  bool out_of_memory = false;
  size_t offset = (size_t)(text.text - made->text);
  const quire_expr *expr = quire_expr_compile_in_template(
      made->arena, text.text, text.length, &surround, resolve_name, made, &error, &out_of_memory);
  if (out_of_memory) {
    quire_template_fault_memory(made->fault);
  } else if (expr == NULL) {
    quire_template_fault_set(made->fault, "syntax", offset + error.offset, "%s", error.message);
  } else if (!allow_range && quire_expr_is_range(expr)) {
    quire_template_fault_set(made->fault, "syntax", offset, "range() is for `for` alone");
  }
  return made->fault->failed ? NULL : expr;
}

/* ---- texts and white space ---- */

/* What the mark before a text takes from it: one line end, or all white space. */
static size_t skip_after(const quire_template *made, const quire_mark *mark, size_t end) {
  size_t at = mark->end;
  if (mark->strip_after) {
    while (at < end && quire_is_blank(made->text[at])) {
      ++at;
    }
  } else if (mark->kind != QUIRE_MARK_OUTPUT && at < end && made->text[at] == '\n') {
    ++at;
  }
  return at;
}

/* What the mark behind a text takes from it: blanks from the start of the line, or all white space.
 */
static size_t cut_before(const quire_template *made, const quire_mark *mark, size_t begin) {
  size_t at = mark->begin;
  if (mark->strip_before) {
    while (at > begin && quire_is_blank(made->text[at - 1])) {
      --at;
    }
  } else if (mark->kind != QUIRE_MARK_OUTPUT) {
    while (at > begin && (made->text[at - 1] == ' ' || made->text[at - 1] == '\t')) {
      --at;
    }
    if (at > 0 && made->text[at - 1] != '\n') {
      at = mark->begin;
    }
  }
  return at;
}

static void add_text(quire_template_parser *parser, size_t begin, size_t end) {
  if (begin >= end) {
    return;
  }
  quire_template_node *node = quire_template_append(parser, QUIRE_TEMPLATE_TEXT);
  if (node != NULL) {
    node->text = (quire_span){parser->made->text + begin, end - begin};
  }
}

/* ---- marks ---- */

static void add_output(quire_template_parser *parser, const quire_mark *mark) {
  quire_template *made = parser->made;
  quire_span text = {made->text + mark->inner_begin, mark->inner_end - mark->inner_begin};
  const quire_expr *expr = quire_template_compile(made, text, false);
  quire_template_node *node =
      expr != NULL ? quire_template_append(parser, QUIRE_TEMPLATE_OUTPUT) : NULL;
  if (node != NULL) {
    node->expr = expr;
  }
}

/* The text up to `endraw` as it is; *mark becomes that mark. */
static void add_raw(quire_template_parser *parser, quire_mark *mark) {
  quire_template *made = parser->made;
  quire_mark raw = *mark;
  if (raw.inner_end - raw.inner_begin != strlen("raw")) {
    quire_template_fault_set(made->fault, "syntax", raw.begin, "`raw` stands alone");
    return;
  }
  if (!quire_mark_find_endraw(made->text, made->length, raw.end, mark)) {
    quire_template_fault_set(made->fault, "syntax", raw.begin, "`raw` without `endraw`");
    return;
  }
  size_t begin = skip_after(made, &raw, mark->begin);
  add_text(parser, begin, cut_before(made, mark, begin));
}

static void add_mark(quire_template_parser *parser, quire_mark *mark) {
  const quire_template *made = parser->made;
  switch (mark->kind) {
    case QUIRE_MARK_COMMENT:
      return;
    case QUIRE_MARK_OUTPUT:
      add_output(parser, mark);
      return;
    case QUIRE_MARK_STATEMENT:
      break;
  }
  if (quire_span_is(quire_mark_word(made->text, mark), "raw")) {
    add_raw(parser, mark);
  } else {
    quire_template_parse_statement(parser, mark);
  }
}

bool quire_template_parse(quire_template *made) {
  quire_template_parser parser = {.made = made, .tail = &made->body};
  size_t begin = 0; /* of the text before the next mark */
  size_t at = 0;    /* where the next mark is searched */
  size_t end = made->length;
  if (end > 0 && made->text[end - 1] == '\n') {
    --end; /* one final line end is dropped */
  }
  while (!made->fault->failed) {
    quire_mark mark;
    quire_mark_result result = quire_mark_find(made->text, made->length, at, &mark);
    if (result == QUIRE_MARK_NONE) {
      add_text(&parser, begin, end);
      break;
    }
    if (result == QUIRE_MARK_OPEN) {
      quire_template_fault_set(made->fault, "syntax", mark.begin, "`%.2s` without an end",
                               made->text + mark.begin);
      break;
    }
    add_text(&parser, begin, cut_before(made, &mark, begin));
    add_mark(&parser, &mark);
    begin = skip_after(made, &mark, made->length);
    at = mark.end;
  }
  if (!made->fault->failed && parser.block_count > 0) {
    quire_template_fault_set(made->fault, "syntax", parser.blocks[parser.block_count - 1].begin,
                             "this block has no end");
  }
  return !made->fault->failed;
}
