#include "webgpu_shader.h"

#include <inttypes.h>
#include <string.h>

#include "checked.h"
#include "error.h"

enum { MOST_NESTING = 64, MOST_NUMBERS = 64 };

/* A word, number or single character of the text; comments and blanks are skipped. */
typedef struct token {
  const char *text;
  size_t length; /* 0: the end */
  size_t line;
} token;

typedef struct reader {
  const char *next, *end;
  size_t line;
  token now; /* the current token */
} reader;

/* ---- tokens ---- */

static bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static void step(reader *r) {
  r->line += *r->next == '\n';
  r->next++;
}

/* Block comments nest. */
static void skip_block(reader *r) {
  size_t depth = 0;
  do {
    const bool pair = r->end - r->next >= 2;
    if (pair && r->next[0] == '/' && r->next[1] == '*') {
      depth++;
      step(r);
    } else if (pair && r->next[0] == '*' && r->next[1] == '/') {
      depth--;
      step(r);
    }
    step(r);
  } while (depth > 0 && r->next < r->end);
}

static void skip_blanks(reader *r) {
  while (r->next < r->end) {
    const bool pair = r->end - r->next >= 2 && r->next[0] == '/';
    if (pair && r->next[1] == '/') {
      while (r->next < r->end && *r->next != '\n') {
        step(r);
      }
    } else if (pair && r->next[1] == '*') {
      skip_block(r);
    } else if ((unsigned char)*r->next <= ' ') {
      step(r);
    } else {
      return;
    }
  }
}

static void advance(reader *r) {
  skip_blanks(r);
  r->now = (token){r->next, 0, r->line};
  if (r->next >= r->end) {
    return;
  }
  do {
    r->next++;
  } while (is_word(*r->now.text) && r->next < r->end && is_word(*r->next));
  r->now.length = (size_t)(r->next - r->now.text);
}

static bool is(const token *one, const char *word) {
  return one->length == strlen(word) && memcmp(one->text, word, one->length) == 0;
}

static bool begins(const token *one, const char *word) {
  return one->length >= strlen(word) && memcmp(one->text, word, strlen(word)) == 0;
}

static bool parse_number(const token *one, int64_t *value) {
  *value = 0;
  size_t i = 0;
  for (; i < one->length && one->text[i] >= '0' && one->text[i] <= '9'; i++) {
    if (*value > (INT64_MAX - 9) / 10) {
      return false;
    }
    *value = *value * 10 + (one->text[i] - '0');
  }
  const bool suffix = i + 1 == one->length && (one->text[i] == 'u' || one->text[i] == 'i');
  return i > 0 && (i == one->length || suffix);
}

/* ---- constants: `const NAME = 16u;` ---- */

typedef struct constant {
  token name;
  int64_t value;
} constant;

typedef struct constants {
  constant items[MOST_NUMBERS];
  size_t count;
} constants;

/* At `const`. Values that are no plain numbers are not kept. */
static void read_constant(reader *r, constants *known) {
  advance(r);
  const token name = r->now;
  advance(r);
  if (is(&r->now, ":")) {
    advance(r);
    advance(r);
  }
  if (!is(&r->now, "=")) {
    return;
  }
  advance(r);
  int64_t value = 0;
  const bool number = parse_number(&r->now, &value);
  advance(r);
  if (number && is(&r->now, ";") && known->count < MOST_NUMBERS) {
    known->items[known->count++] = (constant){name, value};
  }
}

/* The number or constant at the current token, which it leaves. */
static bool read_value(reader *r, const constants *known, int64_t *value) {
  bool found = parse_number(&r->now, value);
  for (size_t i = 0; !found && i < known->count; i++) {
    const token *name = &known->items[i].name;
    if (name->length == r->now.length && memcmp(name->text, r->now.text, name->length) == 0) {
      *value = known->items[i].value;
      found = true;
    }
  }
  advance(r);
  return found;
}

/* ---- types ---- */

/* Size and alignment of a type's values; size 0: unknown. */
typedef struct extent {
  int64_t size, alignment;
} extent;

static extent scalar_extent(const token *name) {
  if (is(name, "f32") || is(name, "i32") || is(name, "u32") || is(name, "bool")) {
    return (extent){4, 4};
  }
  return is(name, "f16") ? (extent){2, 2} : (extent){0, 1};
}

static extent read_type(reader *r, const constants *known, int depth);

/* "vec4<f32>", "vec4f", "vec4h": behind the name. */
static extent read_vector(reader *r, const token *name, const constants *known, int depth) {
  const int64_t count = name->text[3] - '0';
  extent element = {0, 1};
  if (name->length == 5) {
    const char letter = name->text[4];
    element = letter == 'h' ? (extent){2, 2} : (extent){4, 4};
  } else if (is(&r->now, "<")) {
    advance(r);
    element = read_type(r, known, depth + 1);
    advance(r); /* > */
  }
  if (element.size == 0 || count < 2 || count > 4) {
    return (extent){0, 1};
  }
  return (extent){element.size * count, element.size * (count == 3 ? 4 : count)};
}

static extent read_array(reader *r, const constants *known, int depth) {
  if (!is(&r->now, "<")) {
    return (extent){0, 1};
  }
  advance(r);
  const extent element = read_type(r, known, depth + 1);
  int64_t count = 0;
  if (!is(&r->now, ",")) {
    return (extent){0, 1};
  }
  advance(r);
  const bool counted = read_value(r, known, &count);
  if (is(&r->now, ",")) {
    advance(r);
  }
  const bool closed = is(&r->now, ">");
  advance(r);
  int64_t stride = 0;
  extent all = {0, element.alignment};
  if (element.size == 0 || !counted || !closed ||
      !quire_add_i64(element.size, element.alignment - 1, &stride) ||
      !quire_mul_i64(stride / element.alignment * element.alignment, count, &all.size)) {
    all.size = 0;
  }
  return all;
}

static extent read_type(reader *r, const constants *known, int depth) {
  if (depth > MOST_NESTING) {
    return (extent){0, 1};
  }
  const token name = r->now;
  advance(r);
  if (is(&name, "array")) {
    return read_array(r, known, depth);
  }
  if (begins(&name, "vec") && name.length >= 4 && name.length <= 5) {
    return read_vector(r, &name, known, depth);
  }
  if (is(&name, "atomic") && is(&r->now, "<")) {
    advance(r);
    advance(r);
    advance(r);
    return (extent){4, 4};
  }
  return scalar_extent(&name);
}

/* ---- the checks ---- */

/* Behind `var`: adds what a workgroup variable takes. */
static void add_variable(reader *r, const constants *known, int64_t *bytes) {
  if (!is(&r->now, "<")) {
    return;
  }
  advance(r);
  if (!is(&r->now, "workgroup")) {
    return;
  }
  advance(r);
  advance(r); /* > */
  advance(r); /* name */
  if (!is(&r->now, ":")) {
    return;
  }
  advance(r);
  const extent type = read_type(r, known, 0);
  const int64_t alignment = type.alignment < 16 ? 16 : type.alignment;
  int64_t sum = 0;
  if (quire_add_i64(*bytes, type.size, &sum) && quire_add_i64(sum, alignment - 1, &sum)) {
    *bytes = sum / alignment * alignment;
  } else {
    *bytes = INT64_MAX;
  }
}

/* Functions of the language that take pointers to parts. */
static bool takes_pointers(const token *function) {
  return begins(function, "atomic") || is(function, "arrayLength") ||
         is(function, "workgroupUniformLoad") || is(function, "if") || is(function, "while") ||
         is(function, "for") || is(function, "switch") || is(function, "return");
}

/* What the current bracket belongs to. */
typedef struct calls {
  token functions[MOST_NESTING];
  size_t depth;
} calls;

static bool is_name(const token *one) {
  return one->length > 0 && is_word(one->text[0]) && !(one->text[0] >= '0' && one->text[0] <= '9');
}

static quire_status refuse(const token *at, const char *label, quire_status status,
                           quire_error *error, const char *what) {
  return quire_fail(error, status, NULL, label, "line %zu: %s", at->line, what);
}

/* At `&` behind a bracket or comma. */
static quire_status check_pointer(reader *r, const calls *open, const char *label,
                                  quire_error *error) {
  const token function = open->functions[open->depth - 1];
  advance(r);
  const token name = r->now;
  if (!is_name(&name) || !is_name(&function) || takes_pointers(&function)) {
    return QUIRE_OK;
  }
  advance(r);
  if (is(&r->now, "[") || is(&r->now, ".")) {
    return refuse(
        &name, label, QUIRE_UNSUPPORTED, error,
        "a pointer to a part of a variable is passed to a function: pass a whole variable");
  }
  return QUIRE_OK;
}

/* At `workgroup_size`: its bracket must hold numbers and constants only. */
static quire_status check_size(reader *r, const constants *known, bool has_override,
                               const char *label, quire_error *error) {
  const token at = r->now;
  advance(r);
  advance(r); /* ( */
  while (r->now.length > 0 && !is(&r->now, ")")) {
    int64_t value = 0;
    if (has_override && is_name(&r->now) && !read_value(r, known, &value)) {
      return refuse(&at, label, QUIRE_UNSUPPORTED, error,
                    "the workgroup size is no number, and the text has an override");
    }
    advance(r);
  }
  return QUIRE_OK;
}

static quire_status check_token(reader *r, const token *before, calls *open, constants *known,
                                bool *has_override, int64_t *bytes, const char *label,
                                quire_error *error) {
  const token one = r->now;
  if (is(&one, "(") || is(&one, "[")) {
    const token none = {one.text, 0, one.line};
    if (open->depth < MOST_NESTING) {
      open->functions[open->depth] = is(&one, "(") ? *before : none;
    }
    open->depth++;
  } else if ((is(&one, ")") || is(&one, "]")) && open->depth > 0) {
    open->depth--;
  } else if (is(&one, "&") && open->depth > 0 && open->depth <= MOST_NESTING &&
             (is(before, "(") || is(before, ","))) {
    return check_pointer(r, open, label, error);
  } else if (is(&one, "override")) {
    *has_override = true;
  } else if (is(&one, "const") && open->depth == 0) {
    read_constant(r, known);
  } else if (is(&one, "workgroup_size")) {
    return check_size(r, known, *has_override, label, error);
  } else if (is(&one, "var")) {
    advance(r);
    add_variable(r, known, bytes);
    return QUIRE_OK;
  }
  advance(r);
  return QUIRE_OK;
}

quire_status quire_webgpu_check_shader(const quire_webgpu *gpu, const char *text, size_t length,
                                       const char *label, quire_error *error) {
  reader r = {.next = text, .end = text + length, .line = 1};
  constants known = {.count = 0};
  calls open = {.depth = 0};
  bool has_override = false;
  int64_t bytes = 0;
  token before = {text, 0, 1};
  advance(&r);
  while (r.now.length > 0) {
    const token one = r.now;
    QUIRE_TRY(check_token(&r, &before, &open, &known, &has_override, &bytes, label, error));
    before = one;
  }
  const int64_t most = gpu->limits.maxComputeWorkgroupStorageSize;
  if (bytes > most) {
    return quire_fail(error, QUIRE_LIMIT, NULL, label,
                      "its workgroup variables take %" PRId64 " bytes, at most %" PRId64
                      " (maxComputeWorkgroupStorageSize)",
                      bytes, most);
  }
  return QUIRE_OK;
}
