/* What the recurrent operators share: pools of states, and offsets of packed sequences. */
#include "differential_call.h"

/* Slots of the pool: one each to read, others (or the same) to write. */
void diff_add_pool(diff_call *call, quire_dtype dtype, int32_t ndim, const int64_t *dims,
                   int64_t sequences, int64_t window) {
  const int64_t width = window > 0 ? window : 1;
  int64_t shape[QUIRE_MAX_RANK] = {sequences * (1 + width)};
  int64_t strides[QUIRE_MAX_RANK];
  int64_t state = 1;
  for (int32_t d = ndim; d > 0; --d) {
    shape[d] = dims[d - 1];
    strides[d] = state;
    state *= dims[d - 1];
  }
  strides[0] = state + (diff_once_in(&call->random, 3) ? 9 : 0);
  const diff_tensor *pool = diff_add(call, "state_pool", false, dtype, ndim + 1, shape, strides);
  for (int64_t i = 0; i < shape[0] * state; ++i) {
    diff_store(pool, i / state * strides[0] + i % state, diff_normal(&call->random) * 0.3f);
  }
  const int64_t indices[2] = {sequences, window};
  const diff_tensor *reads = diff_add(call, "read_indices", false, QUIRE_INT32, 1, indices, NULL);
  const diff_tensor *writes =
      diff_add(call, "write_indices", false, QUIRE_INT32, window > 0 ? 2 : 1, indices, NULL);
  for (int64_t s = 0; s < sequences; ++s) {
    const bool is_in_place = window == 0 && diff_once_in(&call->random, 2);
    diff_store(reads, s, diff_once_in(&call->random, 6) ? -1 : (float)s);
    for (int64_t w = 0; w < width; ++w) {
      const int64_t own = is_in_place ? s : sequences + s * width + w;
      diff_store(writes, s * width + w, diff_once_in(&call->random, 6) ? -1 : (float)own);
    }
  }
}

void diff_add_offsets(diff_call *call, int64_t sequences, int64_t tokens, int64_t *lengths) {
  const int64_t ends = sequences + 1;
  const diff_tensor *offsets = diff_add(call, "cu_seqlens", false, QUIRE_INT32, 1, &ends, NULL);
  int64_t at = 0;
  for (int64_t s = 0; s < sequences; ++s) {
    const int64_t length =
        s + 1 < sequences ? diff_between(&call->random, 0, tokens - at) : tokens - at;
    diff_store(offsets, s, (float)at);
    at += length;
    if (lengths) {
      lengths[s] = length;
    }
  }
  diff_store(offsets, sequences, (float)tokens);
}

diff_tensor *diff_add_rows(diff_call *call, const char *name, quire_dtype dtype,
                           const int64_t shape[3], float scale) {
  const int64_t gap = diff_once_in(&call->random, 4) ? 3 : 0;
  const int64_t strides[3] = {(shape[2] + gap) * shape[1] + gap, shape[2] + gap, 1};
  diff_tensor *rows = diff_add(call, name, false, dtype, 3, shape, gap ? strides : NULL);
  for (int64_t i = 0; i < shape[0] * shape[1]; ++i) {
    for (int64_t k = 0; k < shape[2]; ++k) {
      const int64_t at = i / shape[1] * rows->strides[0] + i % shape[1] * rows->strides[1] + k;
      diff_store(rows, at, diff_normal(&call->random) * scale);
    }
  }
  return rows;
}
