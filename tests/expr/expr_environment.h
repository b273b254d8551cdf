/* A small world for expressions: a few names with values, derived names, one feature. */
#ifndef QUIRE_TESTS_EXPR_ENVIRONMENT_H
#define QUIRE_TESTS_EXPR_ENVIRONMENT_H

#include "expr.h"

enum { MAX_DERIVED = 80 };

typedef struct environment {
  quire_arena arena;
  quire_expr_env env;
  size_t derived_count;
  const char *derived_name[MAX_DERIVED];
  const quire_expr *derived[MAX_DERIVED];
} environment;

void environment_create(environment *world);
void environment_destroy(environment *world);
/* Adds a derived name; its text may use the earlier ones. */
void environment_derive(environment *world, const char *name, const char *text);
/* NULL with *error filled if it does not compile. */
const quire_expr *environment_compile(environment *world, const char *text, size_t length,
                                      quire_compile_error *error);
/* The value in JSON, "error CODE at TEXT", or "does not compile at OFFSET: MESSAGE". */
const char *environment_evaluate(environment *world, const char *text);

#endif
