/* What the machine can do at best: bandwidth by working set and arithmetic, with N threads. */
#ifndef QUIRE_TOOL_BENCH_PROBE_H
#define QUIRE_TOOL_BENCH_PROBE_H

#include <stddef.h>
#include <stdint.h>

#include "quire/status.h"

enum { BENCH_PROBE_SIZES = 32 };

typedef enum bench_traffic {
  BENCH_READ = 0,   /* every byte is read */
  BENCH_UPDATE = 1, /* every byte is read and written back; both directions count */
  BENCH_COPY = 2    /* one half is copied to the other; both directions count */
} bench_traffic;

/* What a thread does for a probe, compiled per instruction set. */
typedef struct bench_probe_kernels {
  const char *isa;
  float (*read)(const float *data, size_t count); /* count: a multiple of 128 */
  void (*update)(float *data, size_t count);
  float (*multiply)(float factor, size_t rounds);
  double flops_per_round;
} bench_probe_kernels;

extern const bench_probe_kernels quire_bench_kernels_plain;
extern const bench_probe_kernels quire_bench_kernels_avx2;
extern const bench_probe_kernels quire_bench_kernels_avx512;
extern const bench_probe_kernels quire_bench_kernels_neon;

typedef struct bench_probe {
  const bench_probe_kernels *kernels;
  size_t threads;
  unsigned char *memory;
  size_t bytes;
  struct {
    bench_traffic traffic;
    size_t bytes;
    double gigabytes; /* a second */
    int attempts;
  } known[BENCH_PROBE_SIZES];
  size_t known_count;
  double gigaflops; /* 0: not measured yet */
} bench_probe;

/* isa: as quire_device_facts names it. Nothing is measured yet. */
void quire_bench_probe_open(const char *isa, size_t threads, bench_probe *probe);
void quire_bench_probe_close(bench_probe *probe);

/*
 * Gigabytes a second over a working set, rounded up to a power of two from 1 MiB to 1 GiB; the best
 * of a tenth of a second. A size that is asked for again is measured again, three times at most,
 * and the best counts: other programs take from it. 0 if it cannot be measured (no memory, no
 * threads).
 */
double quire_bench_probe_bandwidth(bench_probe *probe, bench_traffic traffic, double bytes);

/* Gigaflops a second of float32 multiply-adds in registers. */
double quire_bench_probe_arithmetic(bench_probe *probe);

#endif
