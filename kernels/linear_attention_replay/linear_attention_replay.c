/*
 * The replay, the scalar reference: steps 1 and 4 of the recurrence (docs/linear_attention.md, 4.1)
 * with the numbers that steps 2 and 3 came to when the tokens were verified. Elements of a state do
 * not know each other here, so rows are independent items. Order: NU-9 of docs/numerics.md.
 */
#include <math.h>

#include "linear_attention_replay_call.h"
#include "linear_attention_replay_item.h"
#include "numeric.h"

enum { CHUNK = 256 };

/* Token `token` on columns [column, column + n) of matrix row `row`. */
static void replay_token(const quire_linear_attention_replay_item *item, int64_t token, size_t row,
                         size_t column, size_t n, float *state) {
  const float *key = item->key.first + token * item->key.stride;
  const float *update = item->update.first + token * item->update.stride;
  const float *factor =
      item->factor.first ? item->factor.first + token * item->factor.stride : NULL;
  for (size_t j = 0; j < n; j++) {
    const size_t channel = item->v_major ? column + j : row;
    const size_t value = item->v_major ? row : column + j;
    if (factor) {
      state[j] *= factor[item->factor_by_channel ? channel : 0];
    }
    state[j] = fmaf(key[channel], update[value], state[j]);
  }
}

static void replay_row(const quire_linear_attention_replay_item *item, size_t row) {
  for (size_t column = 0; column < item->columns; column += CHUNK) {
    float state[CHUNK] = {0};
    const size_t n = item->columns - column < CHUNK ? item->columns - column : CHUNK;
    const size_t offset = (row * item->columns + column) * item->size;
    if (item->past) {
      quire_widen_row(item->dtype, item->past + offset, n, state);
    }
    for (int64_t token = 0; token < item->tokens; token++) {
      replay_token(item, token, row, column, n, state);
    }
    quire_narrow_row(item->dtype, state, n, item->present + offset);
  }
}

quire_status quire_linear_attention_replay_rows(const quire_pass *pass, const size_t index[3]) {
  quire_linear_attention_replay_item item;
  if (quire_linear_attention_replay_item_init(&item, pass, index)) {
    for (size_t row = 0; row < item.rows; row++) {
      replay_row(&item, item.first + row);
    }
  }
  return QUIRE_OK;
}
