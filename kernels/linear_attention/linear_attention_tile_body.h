/*
 * The recurrence on a tile: the item's columns of the state, copied to f32, a row for each key
 * channel whatever the state's layout. One sweep per token does the update and read-out of that
 * token and the decay and retrieval of the next.
 */
#ifndef QUIRE_LINEAR_ATTENTION_TILE_BODY_H
#define QUIRE_LINEAR_ATTENTION_TILE_BODY_H

#include "linear_attention_rows_body.h"
#include "linear_attention_step_body.h"
#include "linear_attention_sweeps_body.h"

enum { TILE_COLUMNS_MOST = 128, TILE_BLOCKS_MOST = TILE_COLUMNS_MOST / VEC_LANES };

/* Columns of a tile that one sweep takes: [dk][vectors * VEC_LANES]. Lanes behind the last column
   hold whatever the sweeps make of zeros; nobody reads them. */
typedef struct tile_block {
  float *data;
  size_t first; /* value column */
  size_t columns;
  size_t vectors;
  size_t width; /* log2 of vectors */
  const sweep_set *sweeps;
  bool direct;      /* the step sweeps may load and store it */
  float *retrieved; /* [vectors * VEC_LANES]: of the next token, decayed already */
} tile_block;

typedef struct tile {
  const quire_linear_attention_item *item;
  segment *rows;
  size_t block_count;
  tile_block blocks[TILE_BLOCKS_MOST];
  _Alignas(64) float retrieved[TILE_COLUMNS_MOST];
} tile;

static size_t lanes_of(size_t columns, size_t vector) {
  const size_t before = vector * VEC_LANES;
  return columns <= before ? 0 : columns - before < VEC_LANES ? columns - before : VEC_LANES;
}

/* ---- value in, output out ---- */

/* Step 3 for one vector: u = v, or round(beta * round(v - r)). */
static vec update_of(const quire_linear_attention_item *item, vec value, float beta,
                     const float *retrieved) {
  return item->uniforms->uses_delta ? vec_mul(vec_set(beta), vec_sub(value, vec_load(retrieved)))
                                    : value;
}

/* Step 3: u for `columns` columns from `first` on. */
static void load_update(const quire_linear_attention_item *item, int64_t token, float beta,
                        size_t first, size_t columns, const float *retrieved, float *update) {
  const quire_view *view = &item->views[LA_VALUE];
  const unsigned char *row =
      quire_linear_attention_token_row(item, view, token, item->head * item->dv + first);
  for (size_t j = 0; j < columns; j += VEC_LANES) {
    const vec value =
        vec_load_elements(view->dtype, element_at(view->dtype, row, j), lanes_of(columns - j, 0));
    vec_store(update + j, update_of(item, value, beta, retrieved + j));
  }
  quire_linear_attention_log_update(item, token, first, columns, update);
}

/* Step 5's scale, and the one rounding. */
static void store_output(const quire_linear_attention_item *item, int64_t token, size_t member,
                         size_t first, size_t columns, const float *read) {
  const quire_view *view = &item->views[LA_OUTPUT];
  const size_t channel = quire_linear_attention_output_head(item, member) * item->dv + first;
  unsigned char *row = quire_linear_attention_token_row(item, view, token, channel);
  const vec scale = vec_set(item->scale);
  for (size_t j = 0; j < columns; j += VEC_LANES) {
    vec_store_elements(view->dtype, row + j * element_size(view->dtype), lanes_of(columns - j, 0),
                       vec_mul(vec_load(read + j), scale));
  }
}

/* ---- the tile and the state ---- */

static unsigned char *state_element(const quire_linear_attention_state *state, size_t row,
                                    size_t column) {
  const int64_t element = (int64_t)row * state->row_stride + (int64_t)column;
  return state->data + element * (int64_t)element_size(state->dtype);
}

/* A square of a V-major state, rows [column, column + n) and `count` channels from i on, becomes
   rows of the tile. */
static void square_load(const quire_linear_attention_state *state, size_t column, size_t n,
                        size_t i, size_t count, float *to, size_t pitch) {
  vec square[VEC_LANES];
  const unsigned char *row = state_element(state, column, i);
  const size_t row_bytes = (size_t)state->row_stride * element_size(state->dtype);
  if (state->dtype == QUIRE_FLOAT32 && n == VEC_LANES && count == VEC_LANES) {
    for (size_t j = 0; j < VEC_LANES; j++) {
      square[j] = vec_load((const float *)(const void *)(row + j * row_bytes));
    }
  } else {
    for (size_t j = 0; j < VEC_LANES; j++) {
      square[j] = j < n ? vec_load_elements(state->dtype, row + j * row_bytes, count) : vec_zero();
    }
  }
  vec_transpose(square);
  for (size_t c = 0; c < count; c++) {
    vec_store(to + c * pitch, square[c]);
  }
}

static void square_store(const quire_linear_attention_state *state, size_t column, size_t n,
                         size_t i, size_t count, const float *from, size_t pitch) {
  vec square[VEC_LANES];
  unsigned char *row = state_element(state, column, i);
  const size_t row_bytes = (size_t)state->row_stride * element_size(state->dtype);
  for (size_t c = 0; c < VEC_LANES; c++) {
    square[c] = c < count ? vec_load(from + c * pitch) : vec_zero();
  }
  vec_transpose(square);
  if (state->dtype == QUIRE_FLOAT32 && n == VEC_LANES && count == VEC_LANES) {
    for (size_t j = 0; j < VEC_LANES; j++) {
      vec_store((float *)(void *)(row + j * row_bytes), square[j]);
    }
  } else {
    for (size_t j = 0; j < n; j++) {
      vec_store_elements(state->dtype, row + j * row_bytes, count, square[j]);
    }
  }
}

static void block_load_row(const tile_block *block, const quire_linear_attention_state *state,
                           size_t i, size_t v) {
  const size_t n = lanes_of(block->columns, v);
  float *to = block->data + (i * block->vectors + v) * VEC_LANES;
  vec_store(to, n > 0 ? vec_load_elements(state->dtype,
                                          state_element(state, i, block->first + v * VEC_LANES), n)
                      : vec_zero());
}

/* Columns of the state into the tile; zeros without a state and behind the last column. */
static void block_load(const tile_block *block, const quire_linear_attention_state *state,
                       size_t dk, bool v_major) {
  const size_t pitch = block->vectors * VEC_LANES;
  if (!state->data) {
    for (size_t i = 0; i < dk * pitch; i += VEC_LANES) {
      vec_store(block->data + i, vec_zero());
    }
    return;
  }
  for (size_t v = 0; v < block->vectors; v++) {
    for (size_t i = 0; !v_major && i < dk; i++) {
      block_load_row(block, state, i, v);
    }
    for (size_t i = 0; v_major && i < dk; i += VEC_LANES) {
      square_load(state, block->first + v * VEC_LANES, lanes_of(block->columns, v), i,
                  lanes_of(dk - i, 0), block->data + i * pitch + v * VEC_LANES, pitch);
    }
  }
}

static void block_store_row(const tile_block *block, const quire_linear_attention_state *state,
                            size_t i, size_t v) {
  const size_t n = lanes_of(block->columns, v);
  if (n > 0) {
    vec_store_elements(state->dtype, state_element(state, i, block->first + v * VEC_LANES), n,
                       vec_load(block->data + (i * block->vectors + v) * VEC_LANES));
  }
}

static void block_store(const tile_block *block, const quire_linear_attention_state *state,
                        size_t dk, bool v_major) {
  const size_t pitch = block->vectors * VEC_LANES;
  for (size_t v = 0; state->data && v < block->vectors; v++) {
    for (size_t i = 0; !v_major && i < dk; i++) {
      block_store_row(block, state, i, v);
    }
    for (size_t i = 0; v_major && i < dk; i += VEC_LANES) {
      square_store(state, block->first + v * VEC_LANES, lanes_of(block->columns, v), i,
                   lanes_of(dk - i, 0), block->data + i * pitch + v * VEC_LANES, pitch);
    }
  }
}

/* Columns of a tile for whole sweeps of the widest form that the work memory holds. */
static size_t tile_columns_most(size_t dk, size_t vectors) {
  const size_t held = dk > LA_STACK_CHANNELS ? LA_SCRATCH_COLUMNS : LA_TILE_FLOATS / dk;
  size_t unit = vectors * VEC_LANES;
  while (unit > held) {
    unit /= 2;
  }
  const size_t columns = held / unit * unit;
  return columns < TILE_COLUMNS_MOST ? columns : TILE_COLUMNS_MOST;
}

/* Cuts columns [first, first + columns) into blocks: the widest sweeps, a narrower last one. */
static void tile_init(tile *t, const quire_linear_attention_item *item, segment *rows, float *work,
                      size_t first, size_t columns) {
  t->item = item;
  t->rows = rows;
  t->block_count = 0;
  for (size_t done = 0; done < columns;) {
    const size_t rest = columns - done;
    const bool v_major = item->uniforms->v_major != 0;
    size_t vectors = v_major ? SWEEP_LANES_MOST : SWEEP_MOST;
    size_t width = vectors / 2; /* log2 of 1, 2, 4 */
    while (width > 0 && rest <= vectors / 2 * VEC_LANES) {
      vectors /= 2;
      width--;
    }
    tile_block *block = &t->blocks[t->block_count++];
    block->data = work + done * item->dk;
    block->first = first + done;
    block->columns = rest < vectors * VEC_LANES ? rest : vectors * VEC_LANES;
    block->vectors = vectors;
    block->sweeps = &sweep_sets[v_major][width];
    block->width = width;
    block->direct = !v_major && block->columns == vectors * VEC_LANES;
    block->retrieved = t->retrieved + done;
    done += vectors * VEC_LANES;
  }
}

/* ---- tokens ---- */

/* Steps 1 and 2 for the segment's token n. */
static void block_retrieve(const tile *t, const tile_block *block, size_t n) {
  const segment *rows = t->rows;
  if (!t->item->uniforms->uses_decay && !t->item->uniforms->uses_delta) {
    return;
  }
  const sweep s = {.tile = block->data,
                   .channels = t->item->dk,
                   .next_key = rows->keys + n * rows->pitch,
                   .factors = segment_factors(rows, n),
                   .factor = rows->factors[n],
                   .retrieved = block->retrieved};
  block->sweeps->retrieve[rows->by_channel](&s);
}

/* The past into the tile, and steps 1 and 2 of the first token. */
static void block_begin(const tile *t, const tile_block *block,
                        const quire_linear_attention_state *past) {
  const segment *rows = t->rows;
  if (!past->data || !block->direct) {
    block_load(block, past, t->item->dk, t->item->uniforms->v_major != 0);
    block_retrieve(t, block, 0);
    return;
  }
  const step s = {.past = state_element(past, 0, block->first),
                  .past_pitch = past->row_stride,
                  .channels = t->item->dk,
                  .key = rows->keys,
                  .factors = segment_factors(rows, 0),
                  .factor = rows->factors[0],
                  .retrieved = block->retrieved,
                  .tile = block->data};
  step_sets[step_type(past->dtype)][block->width].begin[rows->by_channel](&s);
}

/* Steps 4 and 5 of the segment's token n, which leaves its state in `present`, and steps 1 and 2 of
   the next token if there is one. */
static void block_keep(const tile *t, const tile_block *block, size_t n, bool more,
                       const quire_linear_attention_state *present, const float *update,
                       float *read) {
  const segment *rows = t->rows;
  const step_set *steps = &step_sets[step_type(present->dtype)][block->width];
  step s = {.present = state_element(present, 0, block->first),
            .present_pitch = present->row_stride,
            .channels = t->item->dk,
            .key = rows->keys + n * rows->pitch,
            .query = rows->queries + n * rows->pitch,
            .tile = block->data,
            .update = update,
            .retrieved = block->retrieved};
  s.read = read;
  if (more) {
    s.next_key = s.key + rows->pitch;
    s.factors = segment_factors(rows, n + 1);
    s.factor = rows->factors[n + 1];
    steps->keep[rows->by_channel](&s);
  } else {
    steps->end(&s);
  }
}

/* Read-outs of the other query heads of the group. */
static void block_read_others(const tile *t, const tile_block *block, int64_t token, float *read) {
  const quire_linear_attention_item *item = t->item;
  for (size_t member = 1; member < item->group; member++) {
    load_key_row(item, &item->views[LA_QUERY], token,
                 quire_linear_attention_query_head(item, member), t->rows->pitch, t->rows->extra);
    const sweep s = {
        .tile = block->data, .channels = item->dk, .query = t->rows->extra, .read = read};
    block->sweeps->read(&s);
    store_output(item, token, member, block->first, block->columns, read);
  }
}

/* Steps 4 and 5 of the segment's token n in the tile, then steps 1 and 2 of the next token. */
static void block_advance(const tile *t, const tile_block *block, size_t n, bool more,
                          const float *update, float *read) {
  const segment *rows = t->rows;
  const sweep_set *sweeps = block->sweeps;
  sweep s = {.tile = block->data,
             .channels = t->item->dk,
             .key = rows->keys + n * rows->pitch,
             .query = rows->queries + n * rows->pitch,
             .update = update,
             .retrieved = block->retrieved};
  s.read = read;
  if (more && t->item->group == 1) {
    s.next_key = s.key + rows->pitch;
    s.factors = segment_factors(rows, n + 1);
    s.factor = rows->factors[n + 1];
    (t->item->uniforms->uses_delta ? sweeps->fused : sweeps->decay)[rows->by_channel](&s);
  } else {
    sweeps->update(&s);
  }
}

/* The segment's token n, retrieved already: steps 3 to 5, then steps 1 and 2 of the next token. */
static void block_token(const tile *t, const tile_block *block, size_t n) {
  const quire_linear_attention_item *item = t->item;
  const int64_t token = t->rows->first + (int64_t)n;
  const int64_t slot = quire_linear_attention_slot_of(item, token);
  const bool more = token + 1 < item->tokens;
  const bool alone = item->group == 1;
  const quire_linear_attention_state present =
      slot >= 0 ? quire_linear_attention_present(item, slot)
                : (quire_linear_attention_state){NULL, QUIRE_DTYPE_NONE, 0};
  _Alignas(64) float update[SWEEP_MOST * VEC_LANES];
  _Alignas(64) float read[SWEEP_MOST * VEC_LANES];
  load_update(item, token, t->rows->betas[n], block->first, block->columns, block->retrieved,
              update);
  for (size_t j = (block->columns + VEC_LANES - 1) / VEC_LANES; j < block->vectors; j++) {
    vec_store(update + j * VEC_LANES, vec_zero());
  }
  if (present.data && block->direct && alone) {
    block_keep(t, block, n, more, &present, update, read);
    store_output(item, token, 0, block->first, block->columns, read);
    return;
  }
  /* A state is stored before it decays. */
  block_advance(t, block, n, more && !present.data, update, read);
  store_output(item, token, 0, block->first, block->columns, read);
  block_read_others(t, block, token, read);
  block_store(block, &present, item->dk, item->uniforms->v_major != 0);
  if (more && (present.data || !alone)) {
    block_retrieve(t, block, n + 1);
  }
}

/* Rows of other tokens lie pages apart, where no hardware prefetcher goes. */
static void block_prefetch(const quire_linear_attention_item *item, const tile_block *block,
                           int64_t token) {
  const size_t output = quire_linear_attention_output_head(item, 0);
  prefetch_row(item, &item->views[LA_VALUE], token, item->head * item->dv + block->first,
               block->columns);
  prefetch_row(item, &item->views[LA_OUTPUT], token, output * item->dv + block->first,
               block->columns);
}

static void tile_run(const tile *t) {
  const quire_linear_attention_item *item = t->item;
  const quire_linear_attention_state past = quire_linear_attention_past(item);
  for (int64_t first = 0; first < item->tokens; first += (int64_t)t->rows->count) {
    segment_load(t->rows, item, first);
    for (size_t b = 0; b < t->block_count; b++) {
      if (first == 0) {
        block_begin(t, &t->blocks[b], &past);
      }
      for (size_t n = 0; n < t->rows->count; n++) {
        if (b == 0) {
          segment_prefetch(t->rows, item, n);
        }
        block_prefetch(item, &t->blocks[b], first + (int64_t)n + 2);
        block_token(t, &t->blocks[b], n);
      }
    }
  }
  if (item->tokens == 0) { /* X3: an empty sequence keeps its state in the last slot */
    const quire_linear_attention_state state =
        quire_linear_attention_present(item, item->window > 0 ? item->window - 1 : 0);
    const bool v_major = item->uniforms->v_major != 0;
    for (size_t b = 0; b < t->block_count; b++) {
      block_load(&t->blocks[b], &past, item->dk, v_major);
      block_store(&t->blocks[b], &state, item->dk, v_major);
    }
  }
}

/* The item's columns from `done` on, tile by tile. `work`: room for a tile. */
static void tiles_run(const quire_linear_attention_item *item, segment *rows, float *work,
                      size_t done) {
  const size_t most =
      tile_columns_most(item->dk, item->uniforms->v_major ? SWEEP_LANES_MOST : SWEEP_MOST);
  while (done < item->columns) {
    const size_t rest = item->columns - done;
    const size_t columns = rest < most ? rest : most;
    tile t;
    tile_init(&t, item, rows, work, item->first + done, columns);
    tile_run(&t);
    done += columns;
  }
}

#endif
