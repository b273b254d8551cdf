/* Times the call of a case file (safetensors), as `run` and `check` make it. */
#ifndef QUIRE_TOOL_BENCH_STORED_H
#define QUIRE_TOOL_BENCH_STORED_H

#include "bench_measure.h"
#include "call.h"

/*
 * Measures one file; *name becomes the operator's, which lives as long as the session. The operator
 * and the attributes are the case's. In-place tensors have outputs of their own, so that the file
 * stays as it is: a figure includes their copy. Statuses: those of the file, of planning, of
 * running.
 */
quire_status quire_bench_stored(const quire_session *session, const char *path,
                                const quire_call_options *options, const bench_budget *budget,
                                const char **name, bench_times *times, quire_error *error);

/* 1 if a word of the command line is such a file. */
int quire_bench_is_stored(const char *word);

#endif
