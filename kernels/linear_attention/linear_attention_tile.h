/*
 * The f32 working copy of some columns of one state, and the steps of the recurrence on it. The
 * copy is never rounded inside a call. Order of operations: NU-9 of docs/numerics.md.
 */
#ifndef QUIRE_LINEAR_ATTENTION_TILE_H
#define QUIRE_LINEAR_ATTENTION_TILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "linear_attention_item.h"

typedef struct quire_linear_attention_tile {
  float *data;    /* K-major: [dk, columns]; V-major: [columns, dk] */
  size_t dk;      /* key channels */
  size_t first;   /* first value column of the state */
  size_t columns; /* value columns in the tile */
  bool v_major;
} quire_linear_attention_tile;

void quire_linear_attention_tile_clear(const quire_linear_attention_tile *tile);
void quire_linear_attention_tile_load(const quire_linear_attention_tile *tile,
                                      const quire_linear_attention_state *state);
/* Rounds once to the state's type. */
void quire_linear_attention_tile_store(const quire_linear_attention_tile *tile,
                                       const quire_linear_attention_state *state);

/* Row i of the state times factors[i], rounded. */
void quire_linear_attention_tile_decay(const quire_linear_attention_tile *tile,
                                       const float *factors);
/* out[j] = sum over i of S[i, j] * x[i]. K-major: the even and the odd i are two ascending chains,
   added even + odd. V-major: NU-3. */
void quire_linear_attention_tile_reduce(const quire_linear_attention_tile *tile, const float *x,
                                        float *out);
/* S[i, j] = fma(k[i], u[j], S[i, j]). */
void quire_linear_attention_tile_write(const quire_linear_attention_tile *tile, const float *k,
                                       const float *u);

#endif
