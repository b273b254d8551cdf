/*
 * Attend over the SIMD vocabulary: included once by a file of each instruction set, which defines
 * QUIRE_ATTEND, the name of the pass function, and QUIRE_ATTEND_LONG, that of its other half.
 */
#include "paged_attention_call.h"
#include "paged_attention_decode_body.h"
#include "paged_attention_passes.h"
#include "paged_work.h"
#include "simd.h"

quire_status QUIRE_ATTEND(const quire_pass *pass, const size_t item[3]) {
  const quire_view *views = pass->views;
  const quire_view *queue = &views[QUIRE_ATTEND_QUEUE];
  const quire_paged_item *items = views[QUIRE_ATTEND_ITEMS].data;
  int64_t i = -1;
  while ((i = quire_paged_take(queue, &views[QUIRE_ATTEND_QUEUE_TAKEN], item[0], i)) >= 0) {
    if (items[i].gemm_order != 0) {
      QUIRE_ATTEND_LONG(pass, &items[i], item[0]);
    } else {
      attend_short(pass, &items[i]);
    }
  }
  return QUIRE_OK;
}
