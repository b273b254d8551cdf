/* Whether a node is taken: what the graph tells, before anything runs. */
#ifndef QUIRE_ORT_CLAIM_H
#define QUIRE_ORT_CLAIM_H

#include "ort_form.h"

/*
 * Reads a node, and refuses it if it could never run: its form as the operator's contract has it,
 * and caches that would be updated in place although something else relies on them.
 */
OrtStatus *quire_ort_claim_check(const quire_ort_runtime *runtime, const quire_ort_label *label,
                                 const quire_ort_binding *binding, const OrtNode *node,
                                 quire_device *device, quire_ort_form *form);

/* True if the runtime can do without us: then a refused node is left to it. */
bool quire_ort_claim_has_fallback(const quire_ort_form *form);

#endif
