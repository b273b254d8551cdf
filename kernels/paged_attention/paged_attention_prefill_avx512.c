/* Attend for items in the GEMM-shaped order, on AVX-512. */
#define QUIRE_ATTEND_LONG quire_paged_attention_attend_long_avx512
#include "paged_attention_prefill_body.h"
