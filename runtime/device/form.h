/* The forms of a plan's slots: what a run must bind, and where its bytes lie. */
#ifndef QUIRE_DEVICE_FORM_H
#define QUIRE_DEVICE_FORM_H

#include <stdbool.h>
#include <stdint.h>

#include "backend.h"

/*
 * Fills plan->forms and plan->slot_count from the description. LIMIT if the bytes of a tensor do
 * not fit 64 bits, BAD_REQUEST if elements of a written tensor share memory, OUT_OF_MEMORY.
 */
quire_status quire_forms_build(quire_plan *plan, quire_error *error);

/* Marks what another plan of the same call schedules. */
void quire_forms_mark_scheduled(quire_plan *plan, const quire_plan *other);

/* Sets elements, low and high from dtype, shape and strides; false if they exceed 64 bits. */
bool quire_form_measure(quire_form *form);

/* True if the strides may put two elements at one place. Conservative for strides that no nesting
   of the axes explains. The form is measured. */
bool quire_form_folds(const quire_form *form);

/*
 * True if tensors of these forms at these addresses (of element (0, 0, ...)) share a byte. Tensors
 * that interleave, such as the keys and values of [blocks, 2, rows, heads, channels], do not; other
 * strided tensors overlap if their byte ranges do. Nothing overlaps a tensor without elements.
 */
bool quire_forms_overlap(const quire_form *a, uintptr_t address_a, const quire_form *b,
                         uintptr_t address_b);

/* Equal dtype, shape and strides (where an axis has more than one element). */
bool quire_forms_equal(const quire_form *a, const quire_form *b);

#endif
