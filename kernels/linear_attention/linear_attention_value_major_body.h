/*
 * One token on a V-major state that exists, where it lies: a row of the state is a value column,
 * lanes lie over key channels, reductions follow NU-3. Rows are taken VEC_LANES at a time, so that
 * their sums are added up jointly.
 */
#ifndef QUIRE_LINEAR_ATTENTION_VALUE_MAJOR_BODY_H
#define QUIRE_LINEAR_ATTENTION_VALUE_MAJOR_BODY_H

#include "linear_attention_key_major_body.h"

/* Up to VEC_LANES rows of a state and one token. Pitches count elements. */
typedef struct value_rows {
  const void *past;
  void *present;
  quire_dtype dtype;
  int64_t past_pitch;
  int64_t present_pitch;
  size_t count;
  size_t channels;
  const float *key;
  const float *query;
  const float *factors; /* by key channel */
  float factor;         /* for all channels */
  bool by_channel;
  const float *update;
  size_t ahead; /* elements from a row to one that will be wanted soon; 0: none */
} value_rows;

#define ROWS_TYPE f32
#define ROWS_ELEMENT float
#define ROWS_LOAD(p) vec_load(p)
#define ROWS_STORE(p, x) vec_store(p, x)
#include "linear_attention_value_rows_set_tmpl.h"

#define ROWS_TYPE f16
#define ROWS_ELEMENT uint16_t
#define ROWS_LOAD(p) vec_load_f16(p)
#define ROWS_STORE(p, x) vec_store_first_f16(p, VEC_LANES, x)
#include "linear_attention_value_rows_set_tmpl.h"

#define ROWS_TYPE bf16
#define ROWS_ELEMENT uint16_t
#define ROWS_LOAD(p) vec_load_bf16(p)
#define ROWS_STORE(p, x) vec_store_first_bf16(p, VEC_LANES, x)
#include "linear_attention_value_rows_set_tmpl.h"

typedef void rows_function(const value_rows *s, size_t row, lanes16 *sums);

/* [type][some rows, one row][by channel] */
#define ROWS_TABLE(name, type) ROWS_TABLE_EXPAND(name, type, ROWS_JOINT)
#define ROWS_TABLE_EXPAND(name, type, rows) ROWS_TABLE_PASTE(name, type, rows)
#define ROWS_TABLE_PASTE(name, type, rows)                      \
  {                                                             \
    {name##_##type##_##rows##_0, name##_##type##_##rows##_1}, { \
      name##_##type##_1_0, name##_##type##_1_1                  \
    }                                                           \
  }
static rows_function *const rows_retrieves[3][2][2] = {ROWS_TABLE(rows_retrieve, f32),
                                                       ROWS_TABLE(rows_retrieve, f16),
                                                       ROWS_TABLE(rows_retrieve, bf16)};
static rows_function *const rows_updates[3][2][2] = {
    ROWS_TABLE(rows_update, f32), ROWS_TABLE(rows_update, f16), ROWS_TABLE(rows_update, bf16)};
#undef ROWS_TABLE
#undef ROWS_TABLE_EXPAND
#undef ROWS_TABLE_PASTE

static size_t rows_type(quire_dtype dtype) {
  return dtype == QUIRE_FLOAT32 ? 0 : dtype == QUIRE_FLOAT16 ? 1 : 2;
}

/* ---- the channels behind the last whole group of 16 ---- */

/* acc + a*b in the first n lanes; the others keep their sums (NU-3: missing elements add nothing).
 */
static vec fma_first(size_t n, vec a, vec b, vec acc) {
  return vec_select(vec_mask_of_bits(((uint64_t)1 << n) - 1), vec_fma(a, b, acc), acc);
}

static vec rows_decayed(const value_rows *s, size_t row, size_t at, size_t n) {
  const size_t element = (size_t)((int64_t)row * s->past_pitch) + at;
  const vec x = vec_load_elements(s->dtype, element_at(s->dtype, s->past, element), n);
  return vec_mul(x, s->by_channel ? vec_load(s->factors + at) : vec_set(s->factor));
}

static void rows_retrieve_tail(const value_rows *s, size_t row, lanes16 *sum) {
  const size_t whole = s->channels / 16 * 16;
  for (size_t part = 0; part < LANES16_PARTS; part++) {
    const size_t n = lanes_of(s->channels - whole, part);
    const size_t at = whole + part * VEC_LANES;
    if (n > 0) {
      sum->part[part] =
          fma_first(n, rows_decayed(s, row, at, n), vec_load(s->key + at), sum->part[part]);
    }
  }
}

static void rows_update_tail(const value_rows *s, size_t row, lanes16 *sum) {
  const size_t whole = s->channels / 16 * 16;
  const size_t size = element_size(s->dtype);
  for (size_t part = 0; part < LANES16_PARTS; part++) {
    const size_t n = lanes_of(s->channels - whole, part);
    const size_t at = whole + part * VEC_LANES;
    if (n > 0) {
      const vec x =
          vec_fma(vec_load(s->key + at), vec_set(s->update[row]), rows_decayed(s, row, at, n));
      const size_t element = (size_t)((int64_t)row * s->present_pitch) + at;
      sum->part[part] = fma_first(n, x, vec_load(s->query + at), sum->part[part]);
      vec_store_elements(s->dtype, (unsigned char *)s->present + element * size, n, x);
    }
  }
}

/* ---- rows jointly ---- */

/* Sums over key channels of up to VEC_LANES rows, lane n from row n. */
static vec rows_reduce(const value_rows *s, rows_function *const functions[2][2],
                       void (*tail)(const value_rows *s, size_t row, lanes16 *sum)) {
  vec joined[VEC_LANES];
  for (size_t row = 0; row < s->count;) {
    lanes16 sums[ROWS_JOINT];
    const size_t rows = s->count - row >= ROWS_JOINT ? ROWS_JOINT : 1;
    functions[rows == 1][s->by_channel](s, row, sums);
    for (size_t r = 0; r < rows; r++) {
      if (s->channels % 16 != 0) {
        tail(s, row + r, &sums[r]);
      }
      joined[row + r] = lanes16_join(&sums[r]);
    }
    row += rows;
  }
  for (size_t row = s->count; row < VEC_LANES; row++) {
    joined[row] = vec_zero();
  }
  return vec_sum_rows(joined);
}

static void set_token(value_rows *s, const segment *rows, size_t n) {
  s->key = rows->keys + n * rows->pitch;
  s->query = rows->queries + n * rows->pitch;
  s->factors = segment_factors(rows, n);
  s->factor = rows->factors[n];
  s->by_channel = rows->by_channel;
}

enum { STEP_COLUMNS = 128, AHEAD_ROWS = 32 };

/* The rows of columns [j, j + VEC_LANES) of the item, as far as it has them. */
static value_rows step_rows(const quire_linear_attention_item *item,
                            const quire_linear_attention_state *past,
                            const quire_linear_attention_state *present, const segment *rows,
                            size_t j) {
  value_rows s = {.past = state_element(past, item->first + j, 0),
                  .present = state_element(present, item->first + j, 0),
                  .dtype = past->dtype,
                  .past_pitch = past->row_stride,
                  .present_pitch = present->row_stride,
                  .count = lanes_of(item->columns - j, 0),
                  .channels = item->dk};
  if (j + AHEAD_ROWS < item->columns) {
    s.ahead = AHEAD_ROWS * (size_t)past->row_stride;
  }
  set_token(&s, rows, 0);
  return s;
}

/* Retrieval runs one group of rows ahead of update and read-out: sums take long to add up. */
static void value_step_columns(const quire_linear_attention_item *item,
                               const quire_linear_attention_state *past,
                               const quire_linear_attention_state *present, const segment *rows,
                               size_t first, size_t columns) {
  _Alignas(64) float values[STEP_COLUMNS];
  _Alignas(64) float update[VEC_LANES];
  const size_t type = rows_type(past->dtype);
  const bool delta = item->uniforms->uses_delta != 0;
  const quire_view *view = &item->views[LA_VALUE];
  const vec beta = vec_set(rows->betas[0]);
  widen_row(
      view->dtype,
      quire_linear_attention_token_row(item, view, 0, item->head * item->dv + item->first + first),
      columns, values);
  value_rows next = step_rows(item, past, present, rows, first);
  vec retrieved = delta ? rows_reduce(&next, rows_retrieves[type], rows_retrieve_tail) : vec_zero();
  for (size_t j = 0; j < columns; j += VEC_LANES) {
    value_rows s = next;
    const vec value = vec_load(values + j);
    vec_store(update, delta ? vec_mul(beta, vec_sub(value, retrieved)) : value);
    s.update = update;
    if (j + VEC_LANES < columns) {
      next = step_rows(item, past, present, rows, first + j + VEC_LANES);
      if (delta) {
        retrieved = rows_reduce(&next, rows_retrieves[type], rows_retrieve_tail);
      }
    }
    vec_store(values + j, rows_reduce(&s, rows_updates[type], rows_update_tail));
  }
  store_output(item, 0, 0, item->first + first, columns, values);
}

/* Runs a one-token sequence; returns how many columns are done. */
static size_t value_step_run(const quire_linear_attention_item *item, segment *rows) {
  const quire_linear_attention_state past = quire_linear_attention_past(item);
  if (item->tokens != 1 || item->group != 1 || !past.data || quire_linear_attention_logs(item)) {
    return 0;
  }
  const quire_linear_attention_state present =
      quire_linear_attention_present(item, quire_linear_attention_slot_of(item, 0));
  if (!present.data) {
    return 0;
  }
  segment_load(rows, item, 0);
  for (size_t j = 0; j < item->columns; j += STEP_COLUMNS) {
    const size_t rest = item->columns - j;
    value_step_columns(item, &past, &present, rows, j, rest < STEP_COLUMNS ? rest : STEP_COLUMNS);
  }
  return item->columns;
}

#endif
