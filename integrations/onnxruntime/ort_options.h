/* Options of a session, as applications give them. */
#ifndef QUIRE_ORT_OPTIONS_H
#define QUIRE_ORT_OPTIONS_H

#include "ort_provider.h"

/*
 * Reads what a session says about us:
 *   ops      operator types to take, separated by commas; absent: all
 *   threads  threads that share a run, a hint for cutting work; absent: unknown
 * INVALID_ARGUMENT: any other option, or a value that does not fit.
 */
OrtStatus *quire_ort_options_read(const quire_ort_runtime *runtime,
                                  const quire_ort_binding *bindings,
                                  const OrtSessionOptions *session, quire_ort_options *options);

#endif
