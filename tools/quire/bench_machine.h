/* What the benchmarks of the machinery share: options, and how they end. */
#ifndef QUIRE_TOOL_BENCH_MACHINE_H
#define QUIRE_TOOL_BENCH_MACHINE_H

#include "arguments.h"

typedef struct bench_machine_options {
  int is_json;
  int64_t threads;
  const char *isa;
} bench_machine_options;

enum { BENCH_MACHINE_OPTIONS = 3 };
extern const quire_option quire_bench_machine_options[BENCH_MACHINE_OPTIONS];

#define BENCH_MACHINE_GROUP \
  { quire_bench_machine_options, BENCH_MACHINE_OPTIONS, sizeof(bench_machine_options) }

typedef quire_status bench_machine_function(const bench_machine_options *options,
                                            quire_error *error);

/* Runs it with a command's values, prints its error, and returns the command's exit status. */
int quire_bench_machine_run(bench_machine_function *bench, void *const *values);

#endif
