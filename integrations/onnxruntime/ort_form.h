/* What a node is, apart from the sizes and the memory that each run brings. */
#ifndef QUIRE_ORT_FORM_H
#define QUIRE_ORT_FORM_H

#include "ort_operators.h"

enum {
  QUIRE_ORT_MOST_ATTRIBUTES = 32,
  QUIRE_ORT_MOST_TEXTS = 8,
  QUIRE_ORT_TEXT_SIZE = 64 /* no attribute has a value as long as that */
};

/*
 * Operator, attributes, and the type of every tensor that is there. Nodes with equal forms (the
 * layers of a model) share their plans. Immutable once read; holds no memory of the runtime, whose
 * graphs are gone after Compile.
 */
typedef struct quire_ort_form {
  const quire_ort_binding *binding;
  uint64_t id; /* number among the forms of a provider */
  quire_named_value attributes[QUIRE_ORT_MOST_ATTRIBUTES];
  size_t attribute_count;
  char texts[QUIRE_ORT_MOST_TEXTS][QUIRE_ORT_TEXT_SIZE]; /* of text attributes */
  size_t text_count;
  quire_dtype inputs[QUIRE_ORT_MOST_INPUTS];   /* by position in ONNX; NONE: absent */
  quire_dtype outputs[QUIRE_ORT_MOST_OUTPUTS]; /* NONE: not asked for */
} quire_ort_form;

/* The values of a node, by position in ONNX; NULL: absent. They die with the graph. */
typedef struct quire_ort_values {
  const OrtValueInfo *inputs[QUIRE_ORT_MOST_INPUTS];
  const OrtValueInfo *outputs[QUIRE_ORT_MOST_OUTPUTS];
  /* Position of the first that came after this version of Quire; 0: none did. */
  size_t unknown_input, unknown_output;
} quire_ort_values;

/* NOT_IMPLEMENTED: there are more of them than any operator has. */
OrtStatus *quire_ort_read_values(const quire_ort_runtime *runtime, const quire_ort_label *label,
                                 const quire_ort_binding *binding, const OrtNode *node,
                                 quire_ort_values *values);

/* Fills *form, but for its id, and as far as it can on failure too. NOT_IMPLEMENTED: an attribute,
   tensor or type that Quire does not know. */
OrtStatus *quire_ort_form_read(const quire_ort_runtime *runtime, const quire_ort_label *label,
                               const quire_ort_binding *binding, const OrtNode *node,
                               const quire_ort_values *values, quire_ort_form *form);

/* True if plans of one are plans of the other. */
bool quire_ort_form_equal(const quire_ort_form *a, const quire_ort_form *b);

/*
 * Plans a call. `inputs` holds dtype, rank and shape by position in ONNX; aliased: outputs that may
 * share an input's buffer do.
 */
quire_status quire_ort_form_plan(const quire_ort_form *form, quire_device *device,
                                 const quire_tensor inputs[QUIRE_ORT_MOST_INPUTS], bool aliased,
                                 quire_plan **plan, quire_error *error);

/*
 * Looks for reasons to refuse the node that the graph shows already, by planning it once: exactly
 * if all sizes are known, else with 1 in place of each unknown one, which the rules on attributes,
 * presence, types and ranks do not mind. NULL: none was found.
 */
OrtStatus *quire_ort_form_check(const quire_ort_runtime *runtime, const quire_ort_label *label,
                                const quire_ort_form *form, const quire_ort_values *values,
                                quire_device *device);

#endif
