/*
 * Plans by form and sizes, and workspaces that no run uses at the moment: what the nodes of a
 * session share. Thread-safe: concurrent runs of a session take what they need under one lock, and
 * compute outside it.
 */
#ifndef QUIRE_ORT_PLANS_H
#define QUIRE_ORT_PLANS_H

#include "ort_form.h"

enum { QUIRE_ORT_KEY_WORDS = 1 + QUIRE_ORT_MOST_INPUTS * (1 + QUIRE_MAX_RANK) };

/* Form and sizes of a call, as numbers. */
typedef struct quire_ort_key {
  uint64_t hash;
  size_t count;
  int64_t words[QUIRE_ORT_KEY_WORDS];
} quire_ort_key;

typedef struct quire_ort_plans quire_ort_plans;

/* What one run holds. A zeroed one holds nothing. */
typedef struct quire_ort_lease {
  quire_plan *plan;
  quire_workspace *workspace;
  size_t entry; /* 0: the plan is not kept, else its place + 1 */
} quire_ort_lease;

/* Takes the caller's reference to the device over. NULL without memory: then it stays the caller's.
 */
quire_ort_plans *quire_ort_plans_create(quire_device *device);
void quire_ort_plans_destroy(quire_ort_plans *plans);

/*
 * Gives *lease the plan of a call, in place of the one that it holds, and a workspace if it has
 * none. `inputs` by position in ONNX, as quire_ort_form_plan() has them. On failure the lease keeps
 * what it had. Statuses: those of quire_plan_create() and quire_workspace_create().
 */
quire_status quire_ort_plans_take(quire_ort_plans *plans, const quire_ort_form *form,
                                  const quire_tensor inputs[QUIRE_ORT_MOST_INPUTS], bool aliased,
                                  quire_ort_lease *lease, quire_error *error);

/* Takes everything back. */
void quire_ort_plans_give_back(quire_ort_plans *plans, quire_ort_lease *lease);

#endif
