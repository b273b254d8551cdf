/* Attend for items in the GEMM-shaped order, on NEON. */
#define QUIRE_ATTEND_LONG quire_paged_attention_attend_long_neon
#include "paged_attention_prefill_body.h"
