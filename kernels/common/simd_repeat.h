/*
 * SIMD_REPEAT(count, M, x): M(x, 0) M(x, 1) ... M(x, count - 1) for count 1 to 4 or 8. Keeps
 * arrays of vectors in registers where compilers would rather loop over memory.
 */
#ifndef QUIRE_KERNELS_SIMD_REPEAT_H
#define QUIRE_KERNELS_SIMD_REPEAT_H

#define SIMD_REPEAT_1(M, x) M(x, 0)
#define SIMD_REPEAT_2(M, x) SIMD_REPEAT_1(M, x) M(x, 1)
#define SIMD_REPEAT_3(M, x) SIMD_REPEAT_2(M, x) M(x, 2)
#define SIMD_REPEAT_4(M, x) SIMD_REPEAT_3(M, x) M(x, 3)
#define SIMD_REPEAT_8(M, x) SIMD_REPEAT_4(M, x) M(x, 4) M(x, 5) M(x, 6) M(x, 7)
#define SIMD_REPEAT_EXPAND(count, M, x) SIMD_REPEAT_##count(M, x)
#define SIMD_REPEAT(count, M, x) SIMD_REPEAT_EXPAND(count, M, x)

#endif
