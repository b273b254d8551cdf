#include <arm_neon.h>

#define VECTOR float32x4_t
#define WIDTH 4
#define LOAD(p) vld1q_f32(p)
#define STORE(p, v) vst1q_f32(p, v)
#define ADD(a, b) vaddq_f32(a, b)
#define MULTIPLY(a, b) vmulq_f32(a, b)
#define MULTIPLY_ADD(a, b, c) vfmaq_f32(c, a, b)
#define SPREAD(x) vdupq_n_f32(x)
#define KERNELS quire_bench_kernels_neon
#define ISA "neon"

#include "bench_probe_body.h"
