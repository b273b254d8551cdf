/* Attend on NEON. */
#define QUIRE_ATTEND quire_paged_attention_attend_neon
#include "paged_attention_attend_body.h"
