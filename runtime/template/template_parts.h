/* What the files of this folder share: a template's text, tree and rendering. Private to
 * runtime/template. */
#ifndef QUIRE_TEMPLATE_TEMPLATE_PARTS_H
#define QUIRE_TEMPLATE_TEMPLATE_PARTS_H

#include "template.h"

/* ---- template_text.c: a text with its includes in place, and where every byte comes from ---- */

typedef struct quire_template_file {
  const char *path; /* from the package's root */
  const char *text;
  size_t length;
} quire_template_file;

/* Bytes from `offset` on come from `file`, there from `file_offset` on. */
typedef struct quire_template_piece {
  size_t offset;
  const quire_template_file *file;
  size_t file_offset;
} quire_template_piece;

/*
 * The first fault is kept. `code` is "syntax", "include", "missing" or the name of an evaluation
 * error.
 */
typedef struct quire_template_fault {
  bool failed;
  bool out_of_memory;
  quire_status status;
  const char *code;
  const quire_template_file *file; /* NULL: `offset` is one of the text with its includes */
  size_t offset;
  char message[300];
} quire_template_fault;

typedef struct quire_template_text {
  quire_arena *arena;
  const quire_template_source *source;
  quire_template_fault *fault;
  quire_text bytes;
  quire_template_piece *pieces;
  size_t piece_count;
  size_t piece_capacity;
  size_t include_count;
  const quire_template_file *open[QUIRE_TEMPLATE_MAX_DEPTH + 1]; /* files being included */
  size_t depth;
} quire_template_text;

/* Fills text->bytes with the file `shader` of the source's folder; false: see the fault. */
bool quire_template_text_load(quire_template_text *text, const char *shader);
/* Notes a fault of the language at a place of the text, unless there is one already. */
void quire_template_fault_set(quire_template_fault *fault, const char *code, size_t offset,
                              const char *format, ...) QUIRE_PRINTF(4, 5);
void quire_template_fault_memory(quire_template_fault *fault);
/* Fills the caller's error; returns its status. */
quire_status quire_template_fault_report(const quire_template_text *text, quire_error *error);

/* ---- template_marks.c: {{ }}, {% %}, {# #} ---- */

typedef enum quire_mark_kind {
  QUIRE_MARK_OUTPUT,
  QUIRE_MARK_STATEMENT,
  QUIRE_MARK_COMMENT
} quire_mark_kind;

typedef struct quire_mark {
  quire_mark_kind kind;
  size_t begin, end;             /* of the whole mark */
  size_t inner_begin, inner_end; /* between the braces, blanks left out */
  bool strip_before, strip_after;
} quire_mark;

typedef enum quire_mark_result {
  QUIRE_MARK_FOUND,
  QUIRE_MARK_NONE,
  QUIRE_MARK_OPEN /* without an end: *mark has its kind and beginning */
} quire_mark_result;

/* The next mark at or after `from`. */
quire_mark_result quire_mark_find(const char *text, size_t length, size_t from, quire_mark *mark);
/*
 * The mark that ends a raw block: `endraw` alone in it. What looks like other marks is text there
 * and need not end, so the end of none is searched: the time is linear.
 */
bool quire_mark_find_endraw(const char *text, size_t length, size_t from, quire_mark *mark);
/* First word of a statement. */
quire_span quire_mark_word(const char *text, const quire_mark *mark);
bool quire_span_is(quire_span span, const char *word);
bool quire_is_blank(char c);
/* `first`: of the name. */
bool quire_is_name_byte(char c, bool first);

/* ---- template_parser.c, template_statements.c: the tree ---- */

typedef enum quire_template_kind {
  QUIRE_TEMPLATE_TEXT,
  QUIRE_TEMPLATE_OUTPUT,
  QUIRE_TEMPLATE_IF, /* a branch: expr (NULL: else), body, other: the next branch */
  QUIRE_TEMPLATE_FOR,
  QUIRE_TEMPLATE_SET,
  QUIRE_TEMPLATE_MACRO /* from here on the macro `name` may be called */
} quire_template_kind;

typedef struct quire_template_node quire_template_node;
struct quire_template_node {
  quire_template_kind kind;
  quire_span text; /* TEXT */
  const quire_expr *expr;
  int32_t name; /* FOR, SET: of the variable; MACRO: index of the macro */
  quire_template_node *body;
  quire_template_node *other;
  quire_template_node *next;
};

/* A name or path that expressions mention. */
typedef struct quire_template_name {
  quire_span text;
  uint32_t hash;
  int32_t first;       /* name of its first part; a bare name: itself */
  bool resolved;       /* what the manifest says it means is known */
  const char *unknown; /* the manifest's complaint, or NULL */
  quire_ref ref;
} quire_template_name;

typedef struct quire_template_macro {
  quire_span name;
  quire_macro signature;
  int32_t parameters[QUIRE_MACRO_PARAMETERS]; /* names */
  const quire_expr *defaults[QUIRE_MACRO_PARAMETERS];
  quire_template_node *body;
  bool is_conditional; /* stands in an `if` */
  bool is_defined;     /* the rendering has come past it */
} quire_template_macro;

typedef struct quire_template {
  quire_arena *arena;
  quire_template_fault *fault;
  const char *text;
  size_t length;
  quire_template_node *body;
  quire_template_name *names;
  int32_t name_count, name_capacity;
  quire_template_macro *macros;
  int32_t macro_count, macro_capacity;
} quire_template;

/* An open if, for or macro. */
typedef struct quire_template_block {
  quire_template_node *node;   /* FOR, MACRO, IF: the current branch */
  quire_template_macro *macro; /* or NULL */
  quire_template_node **tail;  /* where the surrounding list goes on */
  size_t begin;
  bool has_else;
} quire_template_block;

typedef struct quire_template_parser {
  quire_template *made;
  quire_template_block blocks[QUIRE_TEMPLATE_MAX_BLOCKS];
  size_t block_count;
  quire_template_node **tail; /* where the next node goes */
} quire_template_parser;

/* Makes the tree of made->text. False: see the fault. */
bool quire_template_parse(quire_template *made);
/* One statement; the mark is no comment and not `raw`. */
void quire_template_parse_statement(quire_template_parser *parser, const quire_mark *mark);
/* Number of a name or path, or -1 without memory. */
int32_t quire_template_intern(quire_template *made, const char *text, size_t length);
/* NULL with a fault. `text` is part of the template's text. */
const quire_expr *quire_template_compile(quire_template *made, quire_span text, bool allow_range);
/* Appends a node where the next one goes; NULL without memory. */
quire_template_node *quire_template_append(quire_template_parser *parser, quire_template_kind kind);
void *quire_template_grow(quire_template *made, void *items, int32_t count, int32_t *capacity,
                          size_t size);

/* ---- template_render.c, template_names.c: rendering ---- */

typedef struct quire_template_variable {
  int32_t name;
  quire_value value;
} quire_template_variable;

typedef struct quire_template_loop {
  int64_t index, count;
  const struct quire_template_loop *outer;
} quire_template_loop;

typedef struct quire_template_rendering {
  quire_template *made;
  quire_template_fault *fault;
  const quire_plan_description *description;
  size_t pass;
  quire_plan_names *names;
  quire_expr_env env;
  quire_text *out;          /* where statements write now */
  quire_value declarations; /* env.wgsl.resourceDeclarations */
  bool declarations_were_asked;
  quire_template_variable *variables;
  int32_t variable_count, variable_capacity;
  int32_t frame;        /* first variable of the innermost for, macro or template */
  int32_t macro_frame;  /* first variable of the innermost macro; 0: none */
  int32_t global_count; /* variables of the template itself, which macros see */
  const quire_template_loop *loop;
  int64_t rounds;
  int macro_depth;
} quire_template_rendering;

/* Renders the tree into rendering->out. */
bool quire_template_write(quire_template_rendering *rendering);
/* Value of a name or path; quire_expr_env's load. */
quire_expr_code quire_template_load(quire_expr_env *env, const quire_ref *ref, quire_value *value,
                                    quire_expr_fault *fault);
/* The variable in force of a name, or NULL. */
quire_template_variable *quire_template_find_variable(const quire_template_rendering *rendering,
                                                      int32_t name);

/* ---- template_declarations.c, template_finish.c ---- */

/* Structs and bindings of a pass, without a final line end. */
void quire_template_declare(const quire_plan_pass *pass, quire_text *out);
/*
 * Puts the declarations where they belong, unless they were printed, and `enable f16;` where it is
 * needed.
 */
void quire_template_finish(const quire_text *body, const quire_value *declarations, bool printed,
                           quire_text *out);

#endif
