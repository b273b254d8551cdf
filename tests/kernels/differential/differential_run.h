/* Runs a call on a subject. */
#ifndef QUIRE_TESTS_DIFFERENTIAL_RUN_H
#define QUIRE_TESTS_DIFFERENTIAL_RUN_H

#include "differential_call.h"
#include "differential_registry.h"

enum { DIFF_MOST_KERNELS = 64 };

/* Names of kernels that plans have used. */
typedef struct diff_kernels {
  const char *names[DIFF_MOST_KERNELS];
  size_t count;
} diff_kernels;

/*
 * Plans the call; if the subject is scalar or its implementation is in the plan, restores the
 * call's memory and runs it with that many threads. Returns true if it ran. Fails the test, with
 * the call's text, if it is refused or if memory around the workspace was written.
 */
bool diff_run(diff_subject *subject, diff_call *call, size_t threads, diff_kernels *kernels);

#endif
