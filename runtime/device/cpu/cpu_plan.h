/* A plan as the CPU runs it: everything that a run would otherwise look up. */
#ifndef QUIRE_DEVICE_CPU_PLAN_H
#define QUIRE_DEVICE_CPU_PLAN_H

#include "backend.h"
#include "strided_copy.h"

/* Where the data of a view comes from; all -1 for an absent tensor. */
typedef struct quire_cpu_source {
  int32_t input;   /* slot */
  int32_t output;  /* slot; with `input`: an in-place tensor */
  int32_t scratch; /* intermediate */
  int32_t binding; /* of the manifest's pass: its axes */
} quire_cpu_source;

typedef struct quire_cpu_pass {
  const char *id;
  quire_pass_function *function;
  const quire_view *views; /* complete but for the data */
  const quire_cpu_source *sources;
  size_t view_count;
  const void *uniforms;
  const quire_manifest_pass *manifest;
  size_t dispatch[3]; /* item counts, or their bounds if grid_offset is given */
  bool has_grid;
  size_t grid_offset; /* of the three item counts in the workspace */
} quire_cpu_pass;

/*
 * One job of the leading pass: it copies an in-place tensor into its separate output, or clears a
 * scratch buffer. Jobs are cut into pieces of `piece` bytes; piece k of a job is item first_item +
 * k.
 */
typedef struct quire_cpu_job {
  int32_t output; /* slot of the output side; -1: clear */
  size_t offset;  /* clear: place in the workspace */
  int64_t bytes;
  int64_t piece;
  size_t first_item;
  quire_strided_copy copy;
} quire_cpu_job;

typedef struct quire_cpu_plan {
  const quire_cpu_pass *schedule; /* NULL: none */
  const quire_cpu_pass *passes;   /* after the schedule pass */
  size_t pass_count;
  const quire_cpu_job *jobs;
  size_t job_count;
  size_t job_items;
} quire_cpu_plan;

/* Fills a zeroed pass from its description. Devices use it for their schedule pass, which the host
   runs. INTERNAL, LIMIT, OUT_OF_MEMORY. */
quire_status quire_cpu_pass_fill(quire_plan *plan, const quire_plan_pass *planned,
                                 quire_cpu_pass *pass, quire_error *error);

#endif
