/* Probes in plain C: what a build without vector instructions can do. */
#define VECTOR float
#define WIDTH 1
#define LOAD(p) (*(p))
#define STORE(p, v) (*(p) = (v))
#define ADD(a, b) ((a) + (b))
#define MULTIPLY(a, b) ((a) * (b))
#define MULTIPLY_ADD(a, b, c) ((a) * (b) + (c))
#define SPREAD(x) (x)
#define KERNELS quire_bench_kernels_plain
#define ISA "scalar"

#include "bench_probe_body.h"
