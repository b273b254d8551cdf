/* Where declarations and `enable f16;` go in a rendered text (docs/manifest-language.md 10). */
#include <string.h>

#include "template_parts.h"

/* A word, number or other byte of WGSL, comments and white space skipped. */
typedef struct token {
  const char *text;
  size_t length;
  bool is_name, is_number;
} token;

/* Skips white space and comments; block comments nest. */
static size_t skip_space(const char *text, size_t length, size_t at) {
  while (at < length) {
    bool comment = text[at] == '/' && at + 1 < length;
    if (quire_is_blank(text[at])) {
      ++at;
    } else if (comment && text[at + 1] == '/') {
      const char *end = memchr(text + at, '\n', length - at);
      at = end != NULL ? (size_t)(end - text) : length;
    } else if (comment && text[at + 1] == '*') {
      size_t depth = 1;
      for (at += 2; at < length && depth > 0;) {
        bool pair = at + 1 < length;
        if (pair && text[at] == '*' && text[at + 1] == '/') {
          --depth;
          at += 2;
        } else if (pair && text[at] == '/' && text[at + 1] == '*') {
          ++depth;
          at += 2;
        } else {
          ++at;
        }
      }
    } else {
      break;
    }
  }
  return at;
}

static bool is_word(char c, bool first) {
  return quire_is_name_byte(c, first) || (unsigned char)c >= 0x80;
}

static bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/* The token at or after `at`; false at the end. */
static bool next_token(const char *text, size_t length, size_t *at, token *found) {
  size_t begin = skip_space(text, length, *at);
  size_t end = begin;
  if (begin == length) {
    return false;
  }
  *found = (token){.text = text + begin};
  if (is_word(text[end], true)) {
    found->is_name = true;
    while (end < length && is_word(text[end], false)) {
      ++end;
    }
  } else if (is_digit(text[end]) ||
             (text[end] == '.' && end + 1 < length && is_digit(text[end + 1]))) {
    found->is_number = true;
    while (end < length &&
           (is_word(text[end], false) || text[end] == '.' ||
            ((text[end] == '+' || text[end] == '-') && strchr("eEpP", text[end - 1]) != NULL))) {
      ++end;
    }
  } else {
    ++end;
  }
  found->length = end - begin;
  *at = end;
  return true;
}

static bool is_text(const token *t, const char *text) {
  return strlen(text) == t->length && memcmp(t->text, text, t->length) == 0;
}

/* f16 and the types that are made of it. */
static bool names_half(const token *t) {
  if (is_text(t, "f16")) {
    return true;
  }
  bool vector = t->length == 5 && memcmp(t->text, "vec", 3) == 0;
  bool matrix = t->length == 7 && memcmp(t->text, "mat", 3) == 0 && t->text[4] == 'x';
  return (vector || matrix) && t->text[t->length - 1] == 'h' && is_digit(t->text[3]);
}

/* What a text says about itself. */
typedef struct facts {
  bool uses_half, enables_half, has_group;
  size_t head; /* end of its leading directives, with the rest of the last one's line */
} facts;

static bool is_directive(const token *t) {
  return is_text(t, "enable") || is_text(t, "requires") || is_text(t, "diagnostic");
}

/* Reads a text from front to back. */
static void look_at(const char *text, size_t length, facts *found) {
  token t;
  size_t at = 0;
  bool leading = true;
  bool group_may_follow = false;
  enum { no_directive, any_directive, enable } inside = no_directive;
  while (next_token(text, length, &at, &t)) {
    if (inside == no_directive && leading && t.is_name && is_directive(&t)) {
      inside = is_text(&t, "enable") ? enable : any_directive;
    } else if (inside != no_directive) {
      found->enables_half = found->enables_half || (inside == enable && is_text(&t, "f16"));
      if (t.text[0] == ';') {
        inside = no_directive;
        found->head = at;
      }
    } else {
      leading = false;
      bool half = t.is_name ? names_half(&t) : t.is_number && t.text[t.length - 1] == 'h';
      found->uses_half = found->uses_half || half;
      found->has_group = found->has_group || (group_may_follow && is_text(&t, "group"));
    }
    group_may_follow = t.text[0] == '@';
  }
  if (found->head > 0 && found->head < length && text[found->head] == '\n') {
    ++found->head;
  }
}

void quire_template_finish(const quire_text *body, const quire_value *declarations, bool printed,
                           quire_text *out) {
  const char *text = quire_text_view(body);
  size_t length = body->length;
  facts own = {0};
  facts declared = {0};
  look_at(text, length, &own);
  bool place = !printed && !own.has_group && declarations->length > 0;
  if (place) {
    look_at(declarations->as.string, declarations->length, &declared);
  }
  if ((own.uses_half || declared.uses_half) && !own.enables_half) {
    quire_text_put(out, "enable f16;\n");
  }
  if (!place) {
    quire_text_append(out, text, length);
    return;
  }
  quire_text_append(out, text, own.head);
  if (own.head > 0 && text[own.head - 1] != '\n') {
    quire_text_put(out, "\n");
  }
  quire_text_append(out, declarations->as.string, declarations->length);
  quire_text_put(out, "\n");
  quire_text_append(out, text + own.head, length - own.head);
}
