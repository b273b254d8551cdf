/* Which ONNX operators are served, by which operator of Quire. */
#ifndef QUIRE_ORT_OPERATORS_H
#define QUIRE_ORT_OPERATORS_H

#include <stdbool.h>

#include "ort_runtime.h"

enum {
  QUIRE_ORT_MOST_INPUTS = 17,
  QUIRE_ORT_MOST_OUTPUTS = 3,
  QUIRE_ORT_MOST_SLOTS = 32, /* of an operator of Quire */
  QUIRE_ORT_KINDS = 5
};

/* What the runtime itself can do with a node that we leave. */
typedef enum quire_ort_fallback {
  QUIRE_ORT_FALLBACK_NONE,    /* nothing: a refusal has to explain itself */
  QUIRE_ORT_FALLBACK_FLOAT32, /* float32 without a window of states */
  QUIRE_ORT_FALLBACK_ALWAYS   /* the operator is defined as a function of others */
} quire_ort_fallback;

/* An attribute that is there for other devices, and the value with which it says nothing. */
typedef struct quire_ort_neutral {
  const char *name;
  int64_t value;
} quire_ort_neutral;

/* An operator as models name it. */
typedef struct quire_ort_kind {
  const char *domain;
  const char *type;
  int least_version, most_version;
  const char *name; /* Quire's operator */
  /* Tensors by position in ONNX, under the names that both sides use. */
  const char *inputs[QUIRE_ORT_MOST_INPUTS];
  const char *outputs[QUIRE_ORT_MOST_OUTPUTS];
  /* An output that may be the very buffer of an input, although the operator writes it as a whole;
     NULL: none. */
  const char *alias_output, *alias_input;
  quire_ort_neutral neutral; /* of the attributes that Quire's operator lacks; others: at zero */
  quire_ort_fallback fallback;
} quire_ort_kind;

/* The same with everything looked up. */
typedef struct quire_ort_binding {
  const quire_ort_kind *kind;
  const quire_operator *op;
  size_t slot_count;
  size_t input_count, output_count;
  int32_t input_slots[QUIRE_ORT_MOST_INPUTS];
  int32_t output_slots[QUIRE_ORT_MOST_OUTPUTS];
  bool in_place[QUIRE_ORT_MOST_OUTPUTS]; /* without a buffer of its own the input's is updated */
  int32_t alias[QUIRE_ORT_MOST_OUTPUTS]; /* position of the input that it may share, or -1 */
} quire_ort_binding;

/* Looks up every operator. FAIL: the library lacks one, which would be our own fault. */
OrtStatus *quire_ort_bind(const quire_ort_runtime *runtime, const quire_context *context,
                          quire_ort_binding bindings[QUIRE_ORT_KINDS]);

/* The binding of a node's operator, or NULL. */
const quire_ort_binding *quire_ort_find(const quire_ort_binding bindings[QUIRE_ORT_KINDS],
                                        const char *domain, const char *type, int since_version);

#endif
