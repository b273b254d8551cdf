#include "pass.h"

const char *const quire_cpu_features[QUIRE_CPU_FEATURE_COUNT] = {
    "avx2",     "fma",        "f16c",       "avx512f",  "avx512bw", "avx512vl",
    "avx512dq", "avx512bf16", "avx512vnni", "amx-bf16", "amx-int8", "neon",
};
