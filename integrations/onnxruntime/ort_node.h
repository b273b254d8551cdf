/* A node that is ours: made by Compile from a fused node, computed in every run. */
#ifndef QUIRE_ORT_NODE_H
#define QUIRE_ORT_NODE_H

#include "ort_plans.h"

/*
 * Serves as the runtime's compute info and as its state. Immutable, so that concurrent runs share
 * it. Borrows the form and the plans of its provider, which outlives it.
 */
typedef struct quire_ort_node {
  OrtNodeComputeInfo info; /* first: the runtime knows its address only */
  const quire_ort_runtime *runtime;
  const quire_ort_form *form;
  quire_ort_plans *plans;
  size_t thread_limit;
  char *name; /* of the model's node */
  /* Where each tensor is among those of the fused node; -1: absent, or used by nobody. The runtime
     removes duplicates and reorders. */
  int32_t inputs[QUIRE_ORT_MOST_INPUTS];
  int32_t outputs[QUIRE_ORT_MOST_OUTPUTS];
} quire_ort_node;

/* Sets the functions that the runtime calls. */
void quire_ort_node_init(quire_ort_node *node);

/* Finds the values of the model's node among those of the fused node, by name. */
OrtStatus *quire_ort_node_map(quire_ort_node *node, const quire_ort_values *values,
                              const OrtNode *fused);

void quire_ort_node_destroy(quire_ort_node *node);

#endif
