/* Calls as plans see them, and tensors for them. */
#ifndef QUIRE_TESTS_FAULT_FORMS_H
#define QUIRE_TESTS_FAULT_FORMS_H

#include "fault_world.h"

typedef struct fault_form {
  const char *op;
  quire_request_tensor inputs[10];
  size_t input_count;
  quire_request_tensor outputs[4];
  size_t output_count;
  quire_named_value attributes[4];
  size_t attribute_count;
} fault_form;

/* A batch of three rows with histories; the same with strided caches and separate outputs; with a
   head count that the contract refuses; a gated delta scan; pages. */
extern const fault_form fault_paged_form, fault_strided_form, fault_refused_form, fault_linear_form,
    fault_decode_form;

/* The form's request, which points into it. */
quire_request fault_request(const fault_form *form);
const quire_operator *fault_operator(const fault_world *world, const fault_form *form);
/* Makes the plan and the workspace, and a buffer for every tensor that the plan has. */
void fault_make_plan(fault_world *world, const fault_form *form);
void fault_bind(fault_world *world, const quire_operator *op);

/* The integers of these forms. */
enum { FAULT_ROWS = 3, FAULT_COLUMNS = 3 };
extern const int32_t fault_offsets[FAULT_ROWS + 1], fault_past[FAULT_ROWS],
    fault_lengths[FAULT_ROWS], fault_table[FAULT_ROWS * FAULT_COLUMNS];

#endif
