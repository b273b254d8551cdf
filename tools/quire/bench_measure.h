/* Times a program: many runs, their order statistics, a progress line on a terminal. */
#ifndef QUIRE_TOOL_BENCH_MEASURE_H
#define QUIRE_TOOL_BENCH_MEASURE_H

#include <stddef.h>
#include <stdint.h>

#include "quire/status.h"

/* Microseconds. */
typedef struct bench_times {
  double median, low, high, least; /* low and high: 10th and 90th percentile */
  double others;                   /* processors' worth of work that other programs did meanwhile */
  size_t samples;
} bench_times;

typedef struct bench_budget {
  double seconds;  /* of timed runs */
  double patience; /* seconds to wait for a moment when no other program works */
} bench_budget;

/* One run of what is measured; *nanoseconds is what counts of it. */
typedef quire_status bench_run_function(void *user, uint64_t *nanoseconds, quire_error *error);

/*
 * Warms up (three runs and 50 ms at least), then runs for `seconds`, seven times at least. With
 * patience it waits for a quiet moment first, and measures again as long as it was not one; the
 * quietest attempt counts. `label` is shown on standard error while it is a terminal.
 */
quire_status quire_bench_measure(bench_run_function *run, void *user, const bench_budget *budget,
                                 const char *label, bench_times *times, quire_error *error);

/* Sorts the samples (of any unit) and sets all but `others`. There must be one. */
void quire_bench_summarise(double *samples, size_t count, bench_times *times);

/* Shows what is being done, or (NULL) clears the line; nothing unless standard error is a terminal.
 */
void quire_bench_progress(const char *label, double share);

#endif
