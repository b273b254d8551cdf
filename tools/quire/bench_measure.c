#include "bench_measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "failure.h"
#include "files.h"

enum { MOST_SAMPLES = 20000, LEAST_SAMPLES = 7 };
#define WARM_NANOSECONDS 50000000u
#define SHOW_NANOSECONDS 200000000u
#define QUIET_NANOSECONDS 100000000
#define QUIET_LOAD 0.1

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

void quire_bench_summarise(double *samples, size_t count, bench_times *times) {
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

/* What all processors and what this program did so far, in seconds; `busy` is 0 where unknown. */
typedef struct load {
  double busy, own, at;
} load;

static load load_now(void) {
  char line[256] = "";
  struct timespec own = {0};
  load result = {.at = (double)quire_clock_nanoseconds() * 1e-9};
  FILE *file = fopen("/proc/stat", "r");
  const long rate = sysconf(_SC_CLK_TCK);
  if (file) {
    char *rest = fgets(line, sizeof line, file) && !strncmp(line, "cpu ", 4) ? line + 4 : NULL;
    for (int column = 0; rest && rate > 0 && column < 8; ++column) {
      const double ticks = (double)strtoull(rest, &rest, 10);
      /* The third and fourth are idle, or wait for a disk. */
      result.busy += column == 3 || column == 4 ? 0 : ticks / (double)rate;
    }
    (void)fclose(file);
  }
  if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &own) == 0) {
    result.own = (double)own.tv_sec + (double)own.tv_nsec * 1e-9;
  }
  return result;
}

/* Processors' worth of other programs' work since then. */
static double load_of_others(const load *before) {
  const load now = load_now();
  const double seconds = now.at - before->at;
  const double work = (now.busy - before->busy) - (now.own - before->own);
  return before->busy > 0 && seconds > 0 && work > 0 ? work / seconds : 0;
}

static void wait_for_quiet(double deadline, const char *label) {
  const struct timespec moment = {.tv_nsec = QUIET_NANOSECONDS};
  for (;;) {
    const load before = load_now();
    if (before.at >= deadline) {
      return;
    }
    quire_bench_progress(label, 0);
    (void)nanosleep(&moment, NULL);
    if (load_of_others(&before) <= QUIET_LOAD) {
      return;
    }
  }
}

/* Samples that fit the budget. */
static quire_status sample(bench_run_function *run, void *user, double seconds, const char *label,
                           double *samples, size_t *count, quire_error *error) {
  quire_status status = warm_up(run, user, error);
  const uint64_t begin = quire_clock_nanoseconds();
  const double budget = seconds * 1e9;
  uint64_t shown = begin;
  *count = 0;
  while (status == QUIRE_OK && *count < MOST_SAMPLES) {
    const uint64_t now = quire_clock_nanoseconds();
    if (*count >= LEAST_SAMPLES && (double)(now - begin) >= budget) {
      break;
    }
    if (now - shown > SHOW_NANOSECONDS) {
      shown = now;
      quire_bench_progress(label, (double)(now - begin) / budget);
    }
    uint64_t nanoseconds = 0;
    status = run(user, &nanoseconds, error);
    samples[(*count)++] = (double)nanoseconds / 1000;
  }
  return status;
}

quire_status quire_bench_measure(bench_run_function *run, void *user, const bench_budget *budget,
                                 const char *label, bench_times *times, quire_error *error) {
  double *samples = malloc(MOST_SAMPLES * sizeof *samples);
  if (!samples) {
    return quire_failure_set(error, QUIRE_OUT_OF_MEMORY, "no memory for samples");
  }
  const double deadline = load_now().at + budget->patience;
  quire_status status = QUIRE_OK;
  for (int attempt = 0; status == QUIRE_OK; ++attempt) {
    size_t count = 0;
    wait_for_quiet(deadline, label);
    const load before = load_now();
    status = sample(run, user, budget->seconds, label, samples, &count, error);
    const double others = load_of_others(&before);
    if (status == QUIRE_OK && (attempt == 0 || others < times->others)) {
      quire_bench_summarise(samples, count, times);
      times->others = others;
    }
    if (others <= QUIET_LOAD || load_now().at >= deadline) {
      break;
    }
  }
  quire_bench_progress(NULL, 0);
  free(samples);
  return status;
}
