/* Attend on AVX2. */
#define QUIRE_ATTEND quire_paged_attention_attend_avx2
#define QUIRE_ATTEND_SHORT quire_paged_attention_attend_short_avx2
#define QUIRE_ATTEND_LONG quire_paged_attention_attend_long_avx2
#include "paged_attention_attend_body.h"
