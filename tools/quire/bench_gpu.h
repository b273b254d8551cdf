/* Times cases on a WebGPU device by its own clock. */
#ifndef QUIRE_TOOL_BENCH_GPU_H
#define QUIRE_TOOL_BENCH_GPU_H

#include "bench_case.h"
#include "bench_measure.h"
#include "call.h"

typedef struct bench_gpu {
  const quire_session *session;
  double seconds;        /* of samples, for each figure */
  double read_gigabytes; /* a second, of a kernel that only reads; 0: not measured yet */
} bench_gpu;

/* One figure. Times are of one call, in microseconds. */
typedef struct bench_gpu_figure {
  const bench_case *item;
  const char *dtype;
  char variant[64];
  size_t sets, repeat; /* buffers in rotation; calls of each in one pass */
  bench_times times;   /* of the device */
  double record;       /* of the host: recording the call, median */
  double bytes, flops; /* what must move, what must be computed */
  double memory_limit; /* bytes over read_gigabytes */
} bench_gpu_figure;

/* Statuses: those of planning and measuring. */
quire_status quire_bench_gpu_measure(bench_gpu *gpu, const bench_case *item, const char *dtype,
                                     bench_gpu_figure *figure, quire_error *error);

#endif
