/*
 * Contexts whose registry holds the scalar implementations and one other, the subject, which the
 * planner prefers wherever it fits. What the subject is given is counted.
 */
#ifndef QUIRE_TESTS_DIFFERENTIAL_REGISTRY_H
#define QUIRE_TESTS_DIFFERENTIAL_REGISTRY_H

#include <stdatomic.h>

#include "builtin_kernels.h"
#include "quire/quire.h"

enum { DIFF_MOST_IMPLEMENTATIONS = 256 };

typedef struct diff_subject {
  const quire_implementation *real; /* NULL: scalar implementations only */
  quire_implementation items[QUIRE_BUILTIN_KERNEL_LISTS][DIFF_MOST_IMPLEMENTATIONS];
  quire_implementation_list lists[QUIRE_BUILTIN_KERNEL_LISTS];
  quire_context *context;
  quire_device *device;
  uint64_t items_run;
  uint32_t seen[QUIRE_PASS_MAX_BINDINGS]; /* element types, by binding */
} diff_subject;

/* Every implementation of this build; returns how many. */
size_t diff_implementations(const quire_implementation *all[], size_t capacity);

/* Opens a context with that registry, and its CPU. Fails the test if that fails. */
void diff_subject_open(diff_subject *subject, const quire_implementation *real);
void diff_subject_close(diff_subject *subject);

/* Before and after runs: what the subject's function is given is counted for it. */
void diff_subject_begin(diff_subject *subject);
void diff_subject_end(diff_subject *subject);

#endif
