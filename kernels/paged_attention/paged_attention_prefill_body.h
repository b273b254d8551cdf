/*
 * Attend for items in the GEMM-shaped order (NU-8), over the SIMD vocabulary: included once by a
 * file of each instruction set, which defines QUIRE_ATTEND_LONG.
 */
#include "paged_attention_call.h"

void QUIRE_ATTEND_LONG(const quire_pass *pass, const quire_paged_item *item, size_t x) {
  (void)x;
  quire_paged_attention_attend_item(pass, item);
}
