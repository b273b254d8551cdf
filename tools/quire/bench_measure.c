#include "bench_measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "failure.h"
#include "files.h"

enum { MOST_SAMPLES = 20000, LEAST_SAMPLES = 7 };
#define WARM_NANOSECONDS 50000000u
#define SHOW_NANOSECONDS 200000000u

void quire_bench_progress(const char *label, double share) {
  if (!isatty(STDERR_FILENO)) {
    return;
  }
  if (label) {
    (void)fprintf(stderr, "\r%3.0f %%  %-60.60s", 100 * share, label);
  } else {
    (void)fprintf(stderr, "\r%-68s\r", "");
  }
  (void)fflush(stderr);
}

static int by_size(const void *left, const void *right) {
  const double a = *(const double *)left;
  const double b = *(const double *)right;
  return (a > b) - (a < b);
}

static void summarise(double *samples, size_t count, bench_times *times) {
  qsort(samples, count, sizeof *samples, by_size);
  times->samples = count;
  times->least = samples[0];
  times->low = samples[count / 10];
  times->median = samples[count / 2];
  times->high = samples[count - 1 - count / 10];
}

static quire_status warm_up(bench_run_function *run, void *user, quire_error *error) {
  const uint64_t begin = quire_clock_nanoseconds();
  quire_status status = QUIRE_OK;
  for (size_t i = 0; status == QUIRE_OK && i < 1000; ++i) {
    if (i >= 3 && quire_clock_nanoseconds() - begin > WARM_NANOSECONDS) {
      break;
    }
    uint64_t ignored = 0;
    status = run(user, &ignored, error);
  }
  return status;
}

quire_status quire_bench_measure(bench_run_function *run, void *user, double seconds,
                                 const char *label, bench_times *times, quire_error *error) {
  double *samples = malloc(MOST_SAMPLES * sizeof *samples);
  if (!samples) {
    return quire_failure_set(error, QUIRE_OUT_OF_MEMORY, "no memory for samples");
  }
  quire_bench_progress(label, 0);
  quire_status status = warm_up(run, user, error);
  const uint64_t begin = quire_clock_nanoseconds();
  const double budget = seconds * 1e9;
  uint64_t shown = begin;
  size_t count = 0;
  while (status == QUIRE_OK && count < MOST_SAMPLES) {
    const uint64_t now = quire_clock_nanoseconds();
    if (count >= LEAST_SAMPLES && (double)(now - begin) >= budget) {
      break;
    }
    if (now - shown > SHOW_NANOSECONDS) {
      shown = now;
      quire_bench_progress(label, (double)(now - begin) / budget);
    }
    uint64_t nanoseconds = 0;
    status = run(user, &nanoseconds, error);
    samples[count++] = (double)nanoseconds / 1000;
  }
  quire_bench_progress(NULL, 0);
  if (status == QUIRE_OK) {
    summarise(samples, count, times);
  }
  free(samples);
  return status;
}
