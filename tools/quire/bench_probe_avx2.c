#include <immintrin.h>

#define VECTOR __m256
#define WIDTH 8
#define LOAD(p) _mm256_loadu_ps(p)
#define STORE(p, v) _mm256_storeu_ps(p, v)
#define ADD(a, b) _mm256_add_ps(a, b)
#define MULTIPLY(a, b) _mm256_mul_ps(a, b)
#define MULTIPLY_ADD(a, b, c) _mm256_fmadd_ps(a, b, c)
#define SPREAD(x) _mm256_set1_ps(x)
#define KERNELS quire_bench_kernels_avx2
#define ISA "avx2"

#include "bench_probe_body.h"
