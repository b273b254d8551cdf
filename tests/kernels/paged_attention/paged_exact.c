#include "paged_exact.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "numeric.h"

/* m, l and acc; count 0: no state. */
typedef struct state {
  bool exists;
  float m, l;
  float *acc;
} state;

static float guarded_exp(float x, float m) {
  return x == -INFINITY ? 0.0f : quire_exp(x - m);
}

static float score(const exact_row *row, int64_t j) {
  const float *key = row->keys + j * row->size;
  float x = 0.0f;
  if (row->gemm_order) {
    for (int64_t piece = 0; piece < row->size; piece += 32) {
      float chain = 0.0f;
      for (int64_t d = piece; d < row->size && d < piece + 32; ++d) {
        chain = fmaf(row->query[d], key[d], chain);
      }
      x = piece == 0 ? chain : x + chain;
    }
  } else {
    float lane[16] = {0};
    for (int64_t d = 0; d < row->size; ++d) {
      lane[d % 16] = fmaf(row->query[d], key[d], lane[d % 16]);
    }
    for (int step = 8; step > 0; step /= 2) {
      for (int i = 0; i < step; ++i) {
        lane[i] = lane[i] + lane[i + step];
      }
    }
    x = lane[0];
  }
  x = row->key_scales != NULL ? x * row->key_scales[j] : x;
  return row->softcap > 0.0f ? row->softcap * quire_tanh(x / row->softcap) : x;
}

/* One tile: positions [first, end) of the row's keys that lie in the tile at tile_first. */
static void fold_tile(const exact_row *row, int64_t tile_first, int64_t first, int64_t end,
                      state *s) {
  float x[64];
  float w[64] = {0};
  bool seen[64] = {false};
  bool any = false;
  float mt = -INFINITY;
  for (int64_t i = 0; i < 64; ++i) {
    const int64_t position = tile_first + i;
    seen[i] = position >= first && position < end && row->visible[position - row->first];
    if (seen[i]) {
      any = true;
      x[i] = score(row, position - row->first);
      mt = x[i] > mt ? x[i] : mt;
    }
  }
  if (!any) {
    return;
  }
  const float m = mt > s->m ? mt : s->m;
  const float a = guarded_exp(s->m, m);
  float lane[16];
  for (int64_t i = 0; i < 64; ++i) {
    w[i] = seen[i] ? guarded_exp(x[i], m) : 0.0f;
  }
  for (int64_t i = 0; i < 16; ++i) {
    lane[i] = w[i] + w[i + 16] + w[i + 32] + w[i + 48];
  }
  s->l = fmaf(s->l, a, quire_lane_tree(lane));
  s->m = m;
  s->exists = true;
  for (int64_t i = 0; i < 64 && row->value_scales != NULL; ++i) {
    w[i] = seen[i] ? w[i] * row->value_scales[tile_first + i - row->first] : 0.0f;
  }
  for (int64_t d = 0; d < row->size; ++d) {
    float acc = s->acc[d] * a;
    for (int64_t i = 0; i < 64; ++i) {
      if (seen[i]) {
        acc = fmaf(w[i], row->values[(tile_first + i - row->first) * row->size + d], acc);
      }
    }
    s->acc[d] = acc;
  }
}

static void merge(state *a, const state *b, int64_t size) {
  if (!b->exists) {
    return;
  }
  if (!a->exists) {
    memcpy(a->acc, b->acc, (size_t)size * sizeof(float));
    a->m = b->m;
    a->l = b->l;
    a->exists = true;
    return;
  }
  const float m = a->m > b->m ? a->m : b->m;
  const float ea = guarded_exp(a->m, m);
  const float eb = guarded_exp(b->m, m);
  a->l = fmaf(b->l, eb, a->l * ea);
  for (int64_t d = 0; d < size; ++d) {
    a->acc[d] = fmaf(b->acc[d], eb, a->acc[d] * ea);
  }
  a->m = m;
}

static void clear(state *s, int64_t size) {
  s->exists = false;
  s->m = -INFINITY;
  s->l = 0.0f;
  for (int64_t d = 0; d < size; ++d) {
    s->acc[d] = -0.0f;
  }
}

static void walk(const exact_row *row, state *piece, state *group, state *whole) {
  const int64_t length = row->piece_length > 0 ? row->piece_length : 512;
  const int64_t origin = row->piece_length > 0 ? row->first : 0;
  const int64_t group_length = row->piece_length > 0 ? length : INT64_C(16) * 512;
  clear(whole, row->size);
  for (int64_t g = origin; g < row->end; g += group_length) {
    clear(group, row->size);
    for (int64_t p = g; p < g + group_length && p < row->end; p += length) {
      const int64_t first = p > row->first ? p : row->first;
      const int64_t end = p + length < row->end ? p + length : row->end;
      clear(piece, row->size);
      for (int64_t t = p / 64 * 64; t < end; t += 64) {
        fold_tile(row, t, first, end, piece);
      }
      merge(group, piece, row->size);
    }
    merge(whole, group, row->size);
  }
}

void exact_attend(const exact_row *row, float *output, float *lse) {
  float *memory = calloc((size_t)row->size * 4, sizeof(float));
  state states[4];
  for (int i = 0; i < 4; ++i) {
    states[i].acc = memory + i * row->size;
  }
  state *whole = &states[2];
  walk(row, &states[0], &states[1], whole);
  const bool keys = whole->exists;
  if (row->sink != NULL) {
    state *sink = &states[3];
    clear(sink, row->size);
    sink->exists = true;
    sink->m = *row->sink;
    sink->l = 1.0f;
    for (int64_t d = 0; d < row->size; ++d) {
      sink->acc[d] = 0.0f;
    }
    merge(whole, sink, row->size);
  }
  for (int64_t d = 0; d < row->size; ++d) {
    output[d] = !keys || whole->l == 0.0f ? 0.0f : whole->acc[d] / whole->l;
    if (keys && row->v_scale != NULL) {
      output[d] *= row->v_scale[d];
    }
  }
  *lse = whole->l == 0.0f ? -INFINITY : whole->m + quire_log(whole->l);
  free(memory);
}
