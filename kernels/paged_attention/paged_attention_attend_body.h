/*
 * Attend over the SIMD vocabulary: included once by a file of each instruction set, which defines
 * QUIRE_ATTEND, the name of the pass function, and QUIRE_ATTEND_SHORT and QUIRE_ATTEND_LONG, those
 * of its halves. The longer half is in a file of its own.
 */
#include "paged_attention_call.h"
#include "paged_attention_decode_body.h"
#include "paged_attention_passes.h"
#include "paged_work.h"

void QUIRE_ATTEND_SHORT(const quire_pass *pass, const quire_paged_item *item, size_t x) {
  (void)x;
  attend_short(pass, item);
}

quire_status QUIRE_ATTEND(const quire_pass *pass, const size_t item[3]) {
  return quire_attend_items(pass, item[0], QUIRE_ATTEND_SHORT, QUIRE_ATTEND_LONG);
}
