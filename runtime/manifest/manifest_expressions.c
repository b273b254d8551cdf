/* Expressions, clauses and shapes as members of a manifest. */
#include <stdio.h>
#include <string.h>

#include "manifest_loader.h"

/* Shared bindings are compiled once a pass, so the sum is bounded apart from the text's length. */
static bool count_expression(quire_loader *loader, size_t length, const quire_json_place *place) {
  bool within = loader->expressions < QUIRE_MANIFEST_MAX_EXPRESSIONS &&
                loader->source_bytes + length <= QUIRE_MANIFEST_MAX_SOURCE;
  ++loader->expressions;
  loader->source_bytes += length;
  if (!within && loader->expressions <= QUIRE_MANIFEST_MAX_EXPRESSIONS + 1) {
    quire_loader_fault(loader, place, "too many expressions (shared bindings count once a pass)");
  }
  return within;
}

const quire_expr *quire_loader_compile(quire_scope *scope, const char *text,
                                       const quire_json_place *place) {
  quire_loader *loader = scope->loader;
  size_t length = strlen(text);
  if (!count_expression(loader, length, place)) {
    return NULL;
  }
  quire_compile_error error;
  bool out_of_memory = false;
  const char *copy = quire_loader_copy(loader, text);
  if (loader->out_of_memory) {
    return NULL;
  }
  const quire_expr *expr = quire_expr_compile(loader->arena, copy, length, quire_scope_resolve,
                                              scope, &error, &out_of_memory);
  if (out_of_memory) {
    loader->out_of_memory = true;
  } else if (expr == NULL) {
    size_t end = error.offset;
    while (end < length && end - error.offset < 40 && text[end] != ' ') {
      ++end;
    }
    const char *quote = end > error.offset ? "`" : "";
    quire_loader_fault(loader, place, "%s at character %zu%s%s%.*s%s", error.message,
                       error.offset + 1, end > error.offset ? ": " : "", quote,
                       (int)(end - error.offset), text + error.offset, quote);
  }
  return expr;
}

/* The JSON text of a number or boolean, as the plan prints it. */
static const quire_expr *compile_constant(quire_loader *loader, quire_value value,
                                          const quire_json_place *place) {
  quire_text text;
  quire_text_init(&text, loader->scratch.allocator);
  quire_value_write_json(&text, &value);
  const char *source = quire_loader_copy(loader, quire_text_view(&text));
  size_t length = text.length;
  loader->out_of_memory = loader->out_of_memory || text.failed;
  quire_text_release(&text);
  if (loader->out_of_memory || !count_expression(loader, length, place)) {
    return NULL;
  }
  const quire_expr *expr = quire_expr_constant(loader->arena, value, source, length);
  loader->out_of_memory = loader->out_of_memory || expr == NULL;
  return expr;
}

const quire_expr *quire_loader_expression(quire_scope *scope, json_t *json,
                                          const quire_json_place *place) {
  if (json_is_string(json)) {
    return quire_loader_compile(scope, json_string_value(json), place);
  }
  if (json_is_number(json)) {
    return compile_constant(scope->loader, quire_json_number(json), place);
  }
  if (json_is_boolean(json)) {
    return compile_constant(scope->loader, quire_value_boolean(json_is_true(json)), place);
  }
  quire_loader_fault(scope->loader, place,
                     "must be an expression (a string), a number or a boolean");
  return NULL;
}

const quire_expr *quire_loader_clause(quire_scope *scope, json_t *json,
                                      const quire_json_place *place) {
  if (!json_is_string(json) && !json_is_boolean(json)) {
    quire_loader_fault(scope->loader, place, "a condition must be a string or a boolean");
    return NULL;
  }
  return quire_loader_expression(scope, json, place);
}

const quire_expr *const *quire_loader_clauses(quire_scope *scope, json_t *json,
                                              const quire_json_place *place, size_t *count) {
  *count = 0;
  size_t length = quire_loader_list(scope->loader, json, place);
  const quire_expr **clauses =
      quire_loader_array(scope->loader, length, sizeof(const quire_expr *));
  if (clauses == NULL) {
    return NULL;
  }
  for (size_t i = 0; i < length; ++i) {
    quire_json_place element = quire_json_element(place, i);
    clauses[i] = quire_loader_clause(scope, json_array_get(json, i), &element);
  }
  *count = length;
  return clauses;
}

void quire_loader_shape(quire_scope *scope, json_t *json, const quire_json_place *place,
                        bool numbers, quire_shape_expr *shape) {
  memset(shape, 0, sizeof *shape);
  if (json == NULL) {
    return;
  }
  shape->given = true;
  if (json_is_string(json) || (numbers && json_is_number(json))) {
    shape->list = quire_loader_expression(scope, json, place);
    return;
  }
  if (!json_is_array(json)) {
    quire_loader_fault(scope->loader, place, "a shape must be a string or a list");
    return;
  }
  size_t count = quire_loader_list(scope->loader, json, place);
  const quire_expr **dims = quire_loader_array(scope->loader, count, sizeof(const quire_expr *));
  if (dims == NULL) {
    return;
  }
  for (size_t i = 0; i < count; ++i) {
    quire_json_place element = quire_json_element(place, i);
    dims[i] = quire_loader_expression(scope, json_array_get(json, i), &element);
  }
  shape->dims = dims;
  shape->count = count;
}
