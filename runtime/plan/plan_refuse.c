/* Refusals: recorded once, then told as an error's text or as an explanation. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "error.h"
#include "planning.h"

const char *quire_planning_format(quire_planning *p, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(NULL, 0, format, arguments);
  va_end(arguments);
  if (length < 0) {
    return NULL;
  }
  size_t size = (size_t)length + 1;
  char *text = quire_arena_alloc(p->scratch, size);
  if (text == NULL) {
    return NULL;
  }
  va_start(arguments, format);
  (void)vsnprintf(text, size, format, arguments);
  va_end(arguments);
  return text;
}

const char *quire_planning_keep(quire_planning *p, quire_text *text) {
  const char *kept = NULL;
  if (!text->failed) {
    kept = quire_arena_copy(p->scratch, quire_text_view(text), text->length);
  }
  quire_text_release(text);
  return kept;
}

const char *quire_planning_shape_text(quire_planning *p, const int64_t *shape, int32_t ndim) {
  quire_text text;
  quire_text_init(&text, p->scratch->allocator);
  quire_text_int_list(&text, shape, ndim);
  return quire_planning_keep(p, &text);
}

quire_status quire_refuse(quire_planning *p, const quire_refusal *refusal) {
  p->refusal = *refusal;
  if (refusal->failing == NULL || refusal->detail == NULL) {
    p->refusal.status = QUIRE_OUT_OF_MEMORY;
  }
  if (p->refusal.rule == NULL) {
    p->refusal.rule = "";
  }
  if (p->refusal.subject == NULL) {
    p->refusal.subject = "";
  }
  return p->refusal.status;
}

quire_status quire_refuse_by(quire_planning *p, const char *stage, const char *failing,
                             const char *reason, quire_status status, quire_rule_kind rule,
                             const char *subject, const char *detail) {
  return quire_refuse(p, &(quire_refusal){.stage = stage,
                                          .failing = failing,
                                          .reason = reason,
                                          .status = status,
                                          .rule = p->manifest->rules[rule],
                                          .subject = subject,
                                          .detail = detail,
                                          .variant = -1});
}

quire_status quire_refuse_malformed(quire_planning *p, const char *subject, const char *detail) {
  return quire_refuse(p, &(quire_refusal){.status = QUIRE_BAD_REQUEST,
                                          .failing = "",
                                          .subject = subject,
                                          .detail = detail,
                                          .variant = -1});
}

quire_status quire_refuse_fault(quire_planning *p, const char *failing, const char *subject,
                                quire_expr_code code, const quire_expr_fault *fault) {
  if (code == QUIRE_EXPR_MEMORY || failing == NULL) {
    return quire_refuse(p, &(quire_refusal){.status = QUIRE_OUT_OF_MEMORY});
  }
  bool size = code == QUIRE_EXPR_OVERFLOW || code == QUIRE_EXPR_LIMIT;
  const char *name = quire_expr_code_name(code);
  const char *at = fault->at != NULL ? fault->at : "";
  int length = fault->at != NULL ? (int)fault->at_length : 0;
  return quire_refuse(
      p, &(quire_refusal){.stage = "error",
                          .failing = failing,
                          .reason = name,
                          .status = size ? QUIRE_LIMIT : QUIRE_BAD_SHAPE,
                          .rule = p->manifest->rules[size ? QUIRE_RULE_LIMIT : QUIRE_RULE_SHAPE],
                          .subject = subject,
                          .detail = quire_planning_format(p, "%s: error \"%s\" in %.*s", failing,
                                                          name, length, at),
                          .variant = -1,
                          .code = code,
                          .at = {at, (size_t)length}});
}

/* 1 for what a name, path or string goes on with. */
static bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.' || c == '"';
}

/* The operand of the chain's last link whose text stands at `at`, or NULL. A text that is there
   more than once is one operand: its value goes to every place. */
static const quire_operand *operand_at(const quire_because *because, quire_span link,
                                       const char *at) {
  const char *end = link.text + link.length;
  const quire_operand *longest = NULL;
  for (size_t i = 0; i < because->operand_count; i++) {
    const quire_span *text = &because->operands[i].text;
    uintptr_t place = (uintptr_t)text->text;
    if (place < (uintptr_t)link.text || place + text->length > (uintptr_t)end ||
        text->length == 0 || text->length > (size_t)(end - at) ||
        memcmp(text->text, at, text->length) != 0) {
      continue;
    }
    const char *after = at + text->length;
    if ((at == link.text || !is_word(at[-1]) || !is_word(at[0])) &&
        (after == end || !is_word(after[0]) || !is_word(after[-1])) &&
        (longest == NULL || text->length > longest->text.length)) {
      longest = &because->operands[i];
    }
  }
  return longest;
}

/* The last link of the chain with the operands' values in place of their texts. */
static void write_substituted(quire_text *text, const quire_because *because) {
  quire_span last = because->chain[because->chain_length - 1];
  const char *next = last.text;
  const char *end = last.text + last.length;
  while (next < end) {
    const quire_operand *operand = operand_at(because, last, next);
    if (operand == NULL) {
      quire_text_append(text, next, 1);
      next += 1;
      continue;
    }
    if (operand->error != QUIRE_EXPR_OK) {
      quire_text_format(text, "<%s>", quire_expr_code_name(operand->error));
    } else if (operand->value.kind == QUIRE_VALUE_UNDEFINED) {
      quire_text_put(text, "undefined");
    } else {
      quire_value_write_json(text, &operand->value);
    }
    next += operand->text.length;
  }
}

const char *quire_because_sentence(quire_planning *p, const quire_because *because,
                                   const quire_value *value) {
  quire_text text;
  quire_text_init(&text, p->scratch->allocator);
  for (size_t i = 0; i < because->chain_length; i++) {
    quire_text_put(&text, i > 0 ? " > " : "");
    quire_text_append(&text, because->chain[i].text, because->chain[i].length);
  }
  if (because->operand_count > 0) {
    quire_text_put(&text, ": ");
    write_substituted(&text, because);
  }
  if (value->kind == QUIRE_VALUE_BOOLEAN) {
    quire_text_put(&text, " is false");
  } else {
    quire_text_put(&text, " is ");
    quire_value_write_json(&text, value);
    quire_text_put(&text, ", not true");
  }
  return quire_planning_keep(p, &text);
}

quire_status quire_refusal_report(const quire_planning *p, quire_error *error) {
  const quire_refusal *refusal = &p->refusal;
  if (refusal->status == QUIRE_OUT_OF_MEMORY || refusal->detail == NULL) {
    return quire_fail_memory(error);
  }
  return quire_fail(error, refusal->status, refusal->rule, refusal->subject, "%s", refusal->detail);
}
