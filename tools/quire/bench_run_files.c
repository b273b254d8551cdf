/* Rows of `quire bench` for case files. */
#include <stdio.h>

#include "bench_run.h"
#include "bench_stored.h"
#include "failure.h"

static quire_status measure_stored(bench_state *state, const char *path,
                                   const quire_call_options *options, quire_error *error) {
  bench_times times;
  const char *op = NULL;
  const quire_status status =
      quire_bench_stored(&state->session, path, options, &state->budget, &op, &times, error);
  if (status != QUIRE_OK || !state->results) {
    if (status == QUIRE_OK) {
      printf("%-32s %10.1f %10.1f .. %-10.1f %10.1f  %s\n", op, times.median, times.low, times.high,
             times.least, path);
      (void)fflush(stdout);
    }
    return status;
  }
  json_t *row =
      json_pack("{s:s, s:s, s:s, s:I, s:f, s:f, s:f, s:f, s:I, s:f}", "case", path, "operator", op,
                "isa", state->facts.isa, "threads", (json_int_t)state->facts.threads, "median_us",
                times.median, "p10_us", times.low, "p90_us", times.high, "min_us", times.least,
                "samples", (json_int_t)times.samples, "other_cpu", times.others);
  return row && json_array_append_new(state->results, row) == 0
             ? QUIRE_OK
             : quire_failure_set(error, QUIRE_OUT_OF_MEMORY, "no memory for the results");
}

int quire_bench_has_files(const quire_text_list *words) {
  for (size_t i = 0; i < words->count; ++i) {
    if (quire_bench_is_stored(words->items[i])) {
      return 1;
    }
  }
  return 0;
}

/* All words are such files, or none is. */
static quire_status check_files(const quire_text_list *words, quire_error *error) {
  for (size_t i = 0; i < words->count; ++i) {
    if (!quire_bench_is_stored(words->items[i])) {
      return quire_failure_set(error, QUIRE_BAD_REQUEST,
                               "\"%.64s\" is no case file, and there are such beside it",
                               words->items[i]);
    }
  }
  return QUIRE_OK;
}

quire_status quire_bench_files(bench_state *state, const quire_text_list *words,
                               const quire_call_options *options, const char **where,
                               quire_error *error) {
  quire_status status = check_files(words, error);
  if (status == QUIRE_OK && !state->results) {
    printf("quire %s, %s, %s, %zu threads\n\n%-32s %10s %10s .. %-10s %10s  %s\n", quire_version(),
           state->facts.model, state->facts.isa, state->facts.threads, "operator", "median us",
           "p10", "p90", "min", "case");
  }
  for (size_t i = 0; i < words->count && status == QUIRE_OK; ++i) {
    *where = words->items[i];
    status = measure_stored(state, words->items[i], options, error);
  }
  return status;
}
