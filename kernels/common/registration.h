/* What entries of the kernels' registries have in common, for the files that list them. */
#ifndef QUIRE_REGISTRATION_H
#define QUIRE_REGISTRATION_H

#include "pass.h"

/* Element types that a binding takes. */
#define FLOAT32 QUIRE_DTYPE_BIT(QUIRE_FLOAT32)
#define INT32 QUIRE_DTYPE_BIT(QUIRE_INT32)
#define INT64 QUIRE_DTYPE_BIT(QUIRE_INT64)
#define FLOATS (FLOAT32 | QUIRE_DTYPE_BIT(QUIRE_FLOAT16) | QUIRE_DTYPE_BIT(QUIRE_BFLOAT16))

/* Initialisers of an implementation, by instruction set: wider ones first. */
#define AVX2_FEATURES (QUIRE_CPU_AVX2 | QUIRE_CPU_FMA | QUIRE_CPU_F16C)
#define AVX512_FEATURES \
  (AVX2_FEATURES | QUIRE_CPU_AVX512F | QUIRE_CPU_AVX512BW | QUIRE_CPU_AVX512VL | QUIRE_CPU_AVX512DQ)
#define SCALAR .isa = QUIRE_ISA_SCALAR, .priority = 0
#define AVX2 .isa = QUIRE_ISA_AVX2, .features = AVX2_FEATURES, .priority = 10
#define AVX512 .isa = QUIRE_ISA_AVX512, .features = AVX512_FEATURES, .priority = 20
#define NEON .isa = QUIRE_ISA_NEON, .features = QUIRE_CPU_NEON, .priority = 10

#endif
