/* Attend on AVX-512. */
#define QUIRE_ATTEND quire_paged_attention_attend_avx512
#define QUIRE_ATTEND_SHORT quire_paged_attention_attend_short_avx512
#define QUIRE_ATTEND_LONG quire_paged_attention_attend_long_avx512
#include "paged_attention_attend_body.h"
