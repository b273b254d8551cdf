#include "cpu_features.h"

#include "cpu_host.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#endif

static const uint32_t avx2_bits = QUIRE_CPU_AVX2 | QUIRE_CPU_FMA | QUIRE_CPU_F16C;
static const uint32_t avx512_bits =
    QUIRE_CPU_AVX512F | QUIRE_CPU_AVX512BW | QUIRE_CPU_AVX512VL | QUIRE_CPU_AVX512DQ;

#if defined(__x86_64__) && defined(__GNUC__)

static bool has_f16c(void) {
  /* Leaf 1, ecx bit 29. Not every compiler's built-in knows it. Its registers are AVX's. */
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c >> 29 & 1u) != 0 &&
         __builtin_cpu_supports("avx");
}

static bool has_amx_bf16(void) {
  /* Leaf 7, edx bits 24 (tiles) and 22. Not every compiler's built-in knows them. */
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d >> 24 & d >> 22 & 1u) != 0 &&
         quire_host_offers_tiles();
}

/* The built-ins also ask (by xgetbv) whether the operating system saves the registers. */
uint32_t quire_cpu_detect(void) {
  __builtin_cpu_init();
  uint32_t bits = 0;
  bits |= __builtin_cpu_supports("avx2") ? QUIRE_CPU_AVX2 : 0;
  bits |= __builtin_cpu_supports("fma") ? QUIRE_CPU_FMA : 0;
  bits |= has_f16c() ? QUIRE_CPU_F16C : 0;
  bits |= __builtin_cpu_supports("avx512f") ? QUIRE_CPU_AVX512F : 0;
  bits |= __builtin_cpu_supports("avx512bw") ? QUIRE_CPU_AVX512BW : 0;
  bits |= __builtin_cpu_supports("avx512vl") ? QUIRE_CPU_AVX512VL : 0;
  bits |= __builtin_cpu_supports("avx512dq") ? QUIRE_CPU_AVX512DQ : 0;
  bits |= __builtin_cpu_supports("avx512bf16") ? QUIRE_CPU_AVX512BF16 : 0;
  bits |= has_amx_bf16() ? QUIRE_CPU_AMX_BF16 : 0;
  bits |= __builtin_cpu_supports("avx512vnni") ? QUIRE_CPU_AVX512VNNI : 0;
  return bits;
}

#elif defined(__aarch64__) || defined(_M_ARM64)

/* Part of the base architecture. */
uint32_t quire_cpu_detect(void) {
  return QUIRE_CPU_NEON;
}

#else

uint32_t quire_cpu_detect(void) {
  return 0;
}

#endif

uint32_t quire_cpu_cap(uint32_t available, quire_isa isa) {
  switch (isa) {
    case QUIRE_ISA_SCALAR:
      return 0;
    case QUIRE_ISA_AVX2:
      return available & avx2_bits;
    case QUIRE_ISA_AVX512:
      return available & ~(uint32_t)QUIRE_CPU_NEON;
    case QUIRE_ISA_NEON:
      return available & QUIRE_CPU_NEON;
    case QUIRE_ISA_BEST:
      break;
  }
  return available;
}

bool quire_cpu_has_level(uint32_t available, quire_isa isa) {
  uint32_t needed = 0;
  if (isa == QUIRE_ISA_AVX2) {
    needed = avx2_bits;
  } else if (isa == QUIRE_ISA_AVX512) {
    needed = avx2_bits | avx512_bits;
  } else if (isa == QUIRE_ISA_NEON) {
    needed = QUIRE_CPU_NEON;
  }
  return (available & needed) == needed;
}

const char *quire_cpu_level_name(uint32_t available) {
  if (quire_cpu_has_level(available, QUIRE_ISA_AVX512)) {
    return "avx512";
  }
  if (quire_cpu_has_level(available, QUIRE_ISA_AVX2)) {
    return "avx2";
  }
  return quire_cpu_has_level(available, QUIRE_ISA_NEON) ? "neon" : "scalar";
}
