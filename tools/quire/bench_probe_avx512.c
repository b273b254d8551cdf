#include <immintrin.h>

#define VECTOR __m512
#define WIDTH 16
#define LOAD(p) _mm512_loadu_ps(p)
#define STORE(p, v) _mm512_storeu_ps(p, v)
#define ADD(a, b) _mm512_add_ps(a, b)
#define MULTIPLY(a, b) _mm512_mul_ps(a, b)
#define MULTIPLY_ADD(a, b, c) _mm512_fmadd_ps(a, b, c)
#define SPREAD(x) _mm512_set1_ps(x)
#define KERNELS quire_bench_kernels_avx512
#define ISA "avx512"

#include "bench_probe_body.h"
