/* A run of `quire bench`: what its parts share, and what each of them measures and prints. */
#ifndef QUIRE_TOOL_BENCH_RUN_H
#define QUIRE_TOOL_BENCH_RUN_H

#include <jansson.h>

#include "arguments.h"
#include "bench_case.h"
#include "bench_gpu.h"
#include "bench_measure.h"
#include "bench_probe.h"
#include "call.h"

typedef struct bench_options {
  int is_json, is_list;
  int no_subgroups, default_limits, trusted_shaders;
  int64_t threads;
  const char *isa, *cases, *mode, *seconds, *precision, *device, *adapter, *variant, *tuning;
  int64_t patience;
  quire_text_list dtypes;
} bench_options;

typedef struct bench_state {
  quire_session session;
  const bench_options *options;
  quire_device_facts facts;
  bench_case_list cases;
  bench_probe probe;
  bench_gpu gpu;
  int is_gpu;
  bench_budget budget;
  json_t *results; /* with --json */
} bench_state;

/* What precedes the rows, a case's rows in each of `dtypes` that is wanted, and what follows; rows
   go to state->results if there is such a list. */
void quire_bench_cpu_head(const bench_state *state);
quire_status quire_bench_cpu_rows(bench_state *state, const bench_case *item, const char *dtype,
                                  quire_error *error);
quire_status quire_bench_cpu_end(bench_state *state, quire_error *error);

/* The same for a WebGPU device. */
void quire_bench_gpu_head(const bench_state *state);
quire_status quire_bench_gpu_row(bench_state *state, const bench_case *item, const char *dtype,
                                 quire_error *error);
quire_status quire_bench_gpu_end(const bench_state *state, quire_error *error);
/* Prints a report, which it takes over; NULL, or one that cannot be printed, is want of memory. */
quire_status quire_bench_print_json(json_t *report, quire_error *error);

/* Case files in place of shapes: 1 if there is one among the words. */
int quire_bench_has_files(const quire_text_list *words);
/* *where becomes the file that a failure is about. */
quire_status quire_bench_files(bench_state *state, const quire_text_list *words,
                               const quire_call_options *options, const char **where,
                               quire_error *error);

#endif
