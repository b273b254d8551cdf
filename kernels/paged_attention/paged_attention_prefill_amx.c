/* Attend for items in the GEMM-shaped order, on matrix tiles (AMX) beside AVX-512 with BF16:
   precision `fast`. */
#define QUIRE_PREFILL_BF16
#define QUIRE_PREFILL_TILES
#define QUIRE_ATTEND_LONG quire_paged_attention_attend_long_amx
#include "paged_attention_prefill_body.h"

#include "paged_attention_passes.h"

quire_status quire_paged_attention_attend_amx(const quire_pass *pass, const size_t item[3]) {
  return quire_attend_items(pass, item[0], quire_paged_attention_attend_short_avx512,
                            quire_paged_attention_attend_long_amx);
}
