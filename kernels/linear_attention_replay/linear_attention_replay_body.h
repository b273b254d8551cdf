/*
 * The replay over the SIMD vocabulary, with the bits of linear_attention_replay.c: a vector of the
 * state is loaded, takes all tokens, and is stored. Included by one file per instruction set, which
 * defines QUIRE_REPLAY, the name of the pass function.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "linear_attention_replay_call.h"
#include "linear_attention_replay_item.h"
#include "simd.h"
#include "simd_elements.h"

/* The tokens on `n` columns of a row. What differs between the layouts is which of key and update
   is one number for the row, and whether the factors lie along it. */
static inline vec replay_vector(const quire_linear_attention_replay_item *item, size_t row,
                                size_t column, size_t n, vec state) {
  for (int64_t token = 0; token < item->tokens; ++token) {
    const float *key = item->key.first + token * item->key.stride;
    const float *update = item->update.first + token * item->update.stride;
    vec k, u;
    if (item->v_major) {
      k = vec_load_first(key + column, n);
      u = vec_set(update[row]);
    } else {
      k = vec_set(key[row]);
      u = vec_load_first(update + column, n);
    }
    if (item->factor.first) {
      const float *factor = item->factor.first + token * item->factor.stride;
      const vec f = !item->factor_by_channel ? vec_set(*factor)
                    : item->v_major          ? vec_load_first(factor + column, n)
                                             : vec_set(factor[row]);
      state = vec_mul(state, f);
    }
    state = vec_fma(k, u, state);
  }
  return state;
}

static void replay_row(const quire_linear_attention_replay_item *item, size_t row) {
  const size_t offset = row * item->columns * item->size;
  size_t column = 0;
  for (; column + VEC_LANES <= item->columns; column += VEC_LANES) {
    const size_t at = offset + column * item->size;
    const vec past =
        item->past ? vec_load_elements(item->dtype, item->past + at, VEC_LANES) : vec_zero();
    vec_store_elements(item->dtype, item->present + at, VEC_LANES,
                       replay_vector(item, row, column, VEC_LANES, past));
  }
  if (column < item->columns) {
    const size_t n = item->columns - column;
    const size_t at = offset + column * item->size;
    const vec past = item->past ? vec_load_elements(item->dtype, item->past + at, n) : vec_zero();
    vec_store_elements(item->dtype, item->present + at, n,
                       replay_vector(item, row, column, n, past));
  }
}

quire_status QUIRE_REPLAY(const quire_pass *pass, const size_t index[3]) {
  quire_linear_attention_replay_item item;
  if (quire_linear_attention_replay_item_init(&item, pass, index)) {
    for (size_t row = 0; row < item.rows; ++row) {
      replay_row(&item, item.first + row);
    }
  }
  return QUIRE_OK;
}
