#include "linear_attention_tile.h"

#include <math.h>

#include "numeric.h"

/* Rows of the tile, and the elements of one: the two layouts differ in nothing else when copied. */
static size_t row_count(const quire_linear_attention_tile *tile) {
  return tile->v_major ? tile->columns : tile->dk;
}

static size_t row_length(const quire_linear_attention_tile *tile) {
  return tile->v_major ? tile->dk : tile->columns;
}

/* Where row `row` of the tile lies in the state. */
static unsigned char *state_row(const quire_linear_attention_tile *tile,
                                const quire_linear_attention_state *state, size_t row) {
  size_t matrix_row = tile->v_major ? tile->first + row : row;
  size_t column = tile->v_major ? 0 : tile->first;
  int64_t element = (int64_t)matrix_row * state->row_stride + (int64_t)column;
  return state->data + element * (int64_t)quire_dtype_size(state->dtype);
}

void quire_linear_attention_tile_clear(const quire_linear_attention_tile *tile) {
  for (size_t i = 0; i < tile->dk * tile->columns; i++) {
    tile->data[i] = 0.0f;
  }
}

void quire_linear_attention_tile_load(const quire_linear_attention_tile *tile,
                                      const quire_linear_attention_state *state) {
  size_t length = row_length(tile);
  for (size_t row = 0; row < row_count(tile); row++) {
    quire_widen_row(state->dtype, state_row(tile, state, row), length, tile->data + row * length);
  }
}

void quire_linear_attention_tile_store(const quire_linear_attention_tile *tile,
                                       const quire_linear_attention_state *state) {
  size_t length = row_length(tile);
  for (size_t row = 0; row < row_count(tile); row++) {
    quire_narrow_row(state->dtype, tile->data + row * length, length, state_row(tile, state, row));
  }
}

void quire_linear_attention_tile_decay(const quire_linear_attention_tile *tile,
                                       const float *factors) {
  for (size_t i = 0; i < tile->dk; i++) {
    for (size_t j = 0; j < tile->columns; j++) {
      size_t element = tile->v_major ? j * tile->dk + i : i * tile->columns + j;
      tile->data[element] *= factors[i];
    }
  }
}

static void reduce_k_major(const quire_linear_attention_tile *tile, const float *x, float *out) {
  float odd[LA_MAX_COLUMNS];
  for (size_t j = 0; j < tile->columns; j++) {
    out[j] = 0.0f;
    odd[j] = 0.0f;
  }
  for (size_t i = 0; i < tile->dk; i++) {
    const float *row = tile->data + i * tile->columns;
    float *chain = i % 2 == 0 ? out : odd;
    for (size_t j = 0; j < tile->columns; j++) {
      chain[j] = fmaf(row[j], x[i], chain[j]);
    }
  }
  for (size_t j = 0; j < tile->columns; j++) {
    out[j] += odd[j];
  }
}

void quire_linear_attention_tile_reduce(const quire_linear_attention_tile *tile, const float *x,
                                        float *out) {
  if (!tile->v_major) {
    reduce_k_major(tile, x, out);
    return;
  }
  for (size_t j = 0; j < tile->columns; j++) {
    out[j] = quire_dot(tile->data + j * tile->dk, x, tile->dk);
  }
}

void quire_linear_attention_tile_write(const quire_linear_attention_tile *tile, const float *k,
                                       const float *u) {
  for (size_t i = 0; i < tile->dk; i++) {
    for (size_t j = 0; j < tile->columns; j++) {
      size_t element = tile->v_major ? j * tile->dk + i : i * tile->columns + j;
      tile->data[element] = fmaf(k[i], u[j], tile->data[element]);
    }
  }
}
