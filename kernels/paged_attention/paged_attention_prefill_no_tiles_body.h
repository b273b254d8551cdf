/* Prefill without matrix tiles: the register kernels take every row. */
#ifndef QUIRE_KERNELS_PAGED_ATTENTION_PREFILL_NO_TILES_H
#define QUIRE_KERNELS_PAGED_ATTENTION_PREFILL_NO_TILES_H

#include "paged_attention_prefill_walk_body.h"

static int64_t score_matrix_rows(prefill_walk *walk) {
  (void)walk;
  return 0;
}

static int64_t value_matrix_rows(prefill_walk *walk, prefill_states *states) {
  (void)walk;
  (void)states;
  return 0;
}

#endif
