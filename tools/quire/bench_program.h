/* What a case runs: one operator call, or the layers of a stack one after the other. */
#ifndef QUIRE_TOOL_BENCH_PROGRAM_H
#define QUIRE_TOOL_BENCH_PROGRAM_H

#include "bench_case.h"
#include "bench_memory.h"
#include "bench_probe.h"
#include "call.h"
#include "quire/plan.h"

enum { BENCH_MOST_BLOCKS = 32 };

/* Memory that is given back together. */
typedef struct bench_pool {
  struct {
    void *memory;
    size_t bytes;
  } blocks[BENCH_MOST_BLOCKS];
  size_t count;
} bench_pool;

/* Layers of one kind: one plan, one workspace, one set of tensors for each layer. */
typedef struct bench_layers {
  const quire_operator *op;
  quire_plan *plan;
  quire_workspace *workspace;
  quire_tensor *tensors; /* set_count times slot_count */
  int64_t (*shapes)[QUIRE_MAX_RANK];
  size_t slot_count, set_count;
  size_t layer_count; /* sets that one iteration uses */
  size_t next_set;
  double bytes, flops;   /* of one layer: what must move, what must be computed */
  bench_traffic traffic; /* how they move */
  bench_pool pool;
} bench_layers;

typedef struct bench_program {
  bench_layers kinds[2]; /* linear attention, attention; layer_count 0: none */
  unsigned char *stream; /* other memory, read between layers */
  size_t stream_bytes;
  volatile uint64_t sum; /* of what was streamed */
} bench_program;

/*
 * Makes a program for one type of a case, with `sets` copies of what a call updates or reads in
 * bulk. Statuses: those of planning, OUT_OF_MEMORY.
 */
quire_status quire_bench_program_make(const quire_session *session, const bench_case *item,
                                      const char *dtype, size_t sets, bench_program *program,
                                      quire_error *error);
void quire_bench_program_release(bench_program *program);

/* Runs every layer once on the next set; *nanoseconds leaves out what is streamed. */
quire_status quire_bench_program_run(bench_program *program, uint64_t *nanoseconds,
                                     quire_error *error);

/* Bytes that one iteration must move, of all layers, and what it must compute. */
double quire_bench_program_bytes(const bench_program *program);
double quire_bench_program_flops(const bench_program *program);

/* Bytes of one set of a case: what sets are rotated for. */
double quire_bench_case_set_bytes(const bench_case *item, const char *dtype);

/* The element type of a name in a case. */
quire_dtype quire_bench_dtype(const char *name);

#endif
