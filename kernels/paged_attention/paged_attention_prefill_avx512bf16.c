/* Attend for items in the GEMM-shaped order, on AVX-512 with BF16: precision `fast`. */
#define QUIRE_PREFILL_BF16
#define QUIRE_ATTEND_LONG quire_paged_attention_attend_long_avx512bf16
#include "paged_attention_prefill_body.h"

#include "paged_attention_passes.h"

const quire_pass_binding quire_paged_attention_attend_bf16_bindings[QUIRE_ATTEND_BINDING_COUNT] = {
    QUIRE_ATTEND_BINDINGS(QUIRE_DTYPE_BIT(QUIRE_BFLOAT16), QUIRE_DTYPE_BIT(QUIRE_BFLOAT16))};

quire_status quire_paged_attention_attend_avx512bf16(const quire_pass *pass, const size_t item[3]) {
  return quire_attend_items(pass, item[0], quire_paged_attention_attend_short_avx512,
                            quire_paged_attention_attend_long_avx512bf16);
}
