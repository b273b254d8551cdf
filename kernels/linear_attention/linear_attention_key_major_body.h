/*
 * One token on a K-major state that exists: two sweeps over it where it lies.
 */
#ifndef QUIRE_LINEAR_ATTENTION_KEY_MAJOR_BODY_H
#define QUIRE_LINEAR_ATTENTION_KEY_MAJOR_BODY_H

#include "linear_attention_tile_body.h"

/* Runs whole vectors of columns of a one-token sequence; returns how many columns are done. */
static size_t key_step_run(const quire_linear_attention_item *item, segment *rows) {
  const quire_linear_attention_state past = quire_linear_attention_past(item);
  if (item->tokens != 1 || item->group != 1 || !past.data) {
    return 0;
  }
  const quire_linear_attention_state present =
      quire_linear_attention_present(item, quire_linear_attention_slot_of(item, 0));
  if (!present.data) {
    return 0;
  }
  _Alignas(64) float update[STEP_MOST * VEC_LANES];
  _Alignas(64) float retrieved[STEP_MOST * VEC_LANES];
  _Alignas(64) float read[STEP_MOST * VEC_LANES];
  const size_t type = step_type(past.dtype);
  segment_load(rows, item, 0);
  size_t vectors = STEP_MOST;
  size_t width = STEP_WIDTHS - 1;
  size_t done = 0;
  while (item->columns - done >= VEC_LANES) {
    while (vectors * VEC_LANES > item->columns - done) {
      vectors /= 2;
      width--;
    }
    const size_t first = item->first + done;
    const step s = {.past = state_element(&past, 0, first),
                    .present = state_element(&present, 0, first),
                    .past_pitch = past.row_stride,
                    .present_pitch = present.row_stride,
                    .channels = item->dk,
                    .key = rows->keys,
                    .query = rows->queries,
                    .factors = segment_factors(rows, 0),
                    .factor = rows->factors[0],
                    .update = update,
                    .retrieved = retrieved,
                    .read = read};
    const step_set *steps = &step_sets[type][width];
    if (item->uniforms->uses_delta) {
      steps->retrieve[rows->by_channel](&s);
    }
    load_update(item, 0, rows->betas[0], first, vectors * VEC_LANES, retrieved, update);
    steps->update[rows->by_channel](&s);
    store_output(item, 0, 0, first, vectors * VEC_LANES, read);
    done += vectors * VEC_LANES;
  }
  return done;
}

#endif
