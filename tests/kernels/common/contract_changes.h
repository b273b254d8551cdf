/*
 * Contracts through the public headers: one change of a legal request at a time, and what planning
 * must say of it.
 */
#ifndef QUIRE_TEST_CONTRACT_CHANGES_H
#define QUIRE_TEST_CONTRACT_CHANGES_H

/* cmocka wants these first. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "quire/quire.h"

typedef struct contract_form {
  const char *name;
  quire_dtype dtype;
  int32_t ndim;
  int64_t shape[4];
} contract_form;

typedef struct contract_change {
  /* "drop", "type", "dim", "rank", "stride", "add", "int", "float", "text", "without", "out" */
  const char *what;
  const char *name;
  int64_t axis; /* dim, stride: the axis; type: the type; add, out: a row of `extras` */
  int64_t value;
  double number;
  const char *text;
  quire_status status;
  const char *rule;
  const char *subject; /* NULL: name */
} contract_change;

/* What a change is that the next row completes. */
#define WITH QUIRE_OK, "", NULL

typedef struct contract_legal {
  const char *op;
  const contract_form *inputs;
  size_t input_count;
  const quire_named_value *attributes;
  size_t attribute_count;
  const contract_form *extras;
} contract_legal;

/* Fails the test at the first row of which planning says something else. */
void contract_check(const contract_legal *legal, const contract_change *changes, size_t count);

#define F16 QUIRE_FLOAT16
#define F32 QUIRE_FLOAT32
#define I32 QUIRE_INT32
#define I8 QUIRE_INT8
#define COUNT(list) (sizeof(list) / sizeof *(list))

#endif
