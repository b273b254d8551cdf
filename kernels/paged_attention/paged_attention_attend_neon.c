/* Attend on NEON. */
#define QUIRE_ATTEND quire_paged_attention_attend_neon
#define QUIRE_ATTEND_SHORT quire_paged_attention_attend_short_neon
#define QUIRE_ATTEND_LONG quire_paged_attention_attend_long_neon
#include "paged_attention_attend_body.h"
