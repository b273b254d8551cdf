/*
 * Attend over the SIMD vocabulary: included once by a file of each instruction set, which defines
 * QUIRE_ATTEND, the name of the pass function.
 */
#include "paged_attention_passes.h"
#include "paged_work.h"
#include "simd.h"

enum { ATTEND_VIEW_ITEMS = 9 };

/* Items in the GEMM-shaped order (NU-8). */
static quire_status attend_long(const quire_pass *pass, const size_t item[3]) {
  return quire_paged_attention_attend(pass, item);
}

quire_status QUIRE_ATTEND(const quire_pass *pass, const size_t item[3]) {
  const quire_paged_item *work =
      (const quire_paged_item *)pass->views[ATTEND_VIEW_ITEMS].data + item[0];
  if (work->gemm_order != 0) {
    return attend_long(pass, item);
  }
  return quire_paged_attention_attend(pass, item);
}
