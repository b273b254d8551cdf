/* Case files: one call of an operator with its expected results. docs/command-line.md has the
 * format. */
#ifndef QUIRE_TOOL_CASE_FILE_H
#define QUIRE_TOOL_CASE_FILE_H

#include <jansson.h>

#include "compare.h"
#include "quire/status.h"
#include "safetensors.h"

/* Prefix of the expected outputs. */
#define QUIRE_CASE_EXPECT "expect."

typedef struct quire_case {
  quire_safetensors tensors;
  const char *op;              /* qualified name; NULL if the file does not say */
  json_t *attributes;          /* object of numbers, texts and truth values; never NULL */
  json_t *output_dtypes;       /* object: output -> name of a type; never NULL */
  json_t *tolerance;           /* object: output -> {"atol", "rtol"}; never NULL */
  json_t *outputs;             /* list of names, or NULL */
  const char *error;           /* the status that is wanted, "invalid_argument" or exact; or NULL */
  const char *note;            /* "" if there is none */
  quire_error attribute_fault; /* status OK if the attributes can be read */
} quire_case;

/*
 * Opens a case. All of its metadata is checked: a bad tolerance is a fault of the file, not of a
 * result. Attributes that cannot be read (NaN, a list) are a fault of the call, which a case may
 * want to be refused: it is kept in attribute_fault (BAD_ATTRIBUTE), for quire_request_build(). On
 * failure nothing is held. Statuses: those of quire_safetensors_open().
 */
quire_status quire_case_open(const char *path, quire_case *opened, quire_error *error);
void quire_case_release(quire_case *opened);

/* The expected tensor of an output, or NULL. */
const quire_stored_tensor *quire_case_expected(const quire_case *opened, const char *output);

/* 1 if the tensor is an expected output; then *output is its name without the prefix. */
int quire_case_is_expected(const quire_stored_tensor *tensor, const char **output);

/* The tolerance of an output; {0, 0} (the very bits) if the file gives none. */
quire_tolerance quire_case_tolerance(const quire_case *opened, const char *output);

/* 1 if `status` is what the case's `error` asks for. */
int quire_case_wants_status(const quire_case *opened, quire_status status);

#endif
