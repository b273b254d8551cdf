/*
 * Prefill in precision `fast` on matrix tiles (AMX, 16 rows of 64 bytes each): the rows of a block
 * that see a whole tile of keys, in blocks of 32 or 16. All other rows go through the register
 * kernels, whose packed keys, values and weights these products read as they are.
 */
#ifndef QUIRE_KERNELS_PAGED_ATTENTION_PREFILL_TILES_H
#define QUIRE_KERNELS_PAGED_ATTENTION_PREFILL_TILES_H

#include "paged_attention_prefill_walk_body.h"

#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

enum {
  MATRIX_SIDE = 16,      /* rows of a tile, and its columns in words */
  MATRIX_LINES_AHEAD = 8 /* lines to prefetch, for each step of a product */
};

/* Tile registers: sums 0 to 3 (row by row), factors 4 and 5, 6 and 7. */
typedef struct matrix_shapes {
  uint8_t palette, start_row, reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
} matrix_shapes;

/* Linux gives a process the registers when it first asks (arch_prctl(2)); it refuses if a signal
   stack is too small for them. */
static bool matrix_begin(void) {
#if defined(__linux__)
  enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };
  if (syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) != 0) {
    return false;
  }
  matrix_shapes shapes = {.palette = 1};
  for (int i = 0; i < 8; ++i) {
    shapes.row_bytes[i] = MATRIX_SIDE * sizeof(float);
    shapes.rows[i] = MATRIX_SIDE;
  }
  _tile_loadconfig(&shapes);
  return true;
#else
  return false;
#endif
}

static void matrix_end(void) {
  _tile_release();
}

/* c (+)= a * b, strides in words. */
typedef struct matrix_product {
  const float *a; /* [row][word] */
  const float *b; /* [word][column] */
  float *c;       /* [row][column] */
  size_t a_stride, b_stride, c_stride;
  size_t words; /* a multiple of MATRIX_SIDE */
  bool adds;
} matrix_product;

/* 16 or 32 rows, 16 or 32 columns. */
static void multiply_matrices(const matrix_product *p, bool tall, bool wide, prefill_ahead *ahead) {
  const size_t a_bytes = p->a_stride * sizeof(float);
  const size_t b_bytes = p->b_stride * sizeof(float);
  const size_t c_bytes = p->c_stride * sizeof(float);
  float *const below = p->c + MATRIX_SIDE * p->c_stride;
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  if (p->adds) {
    _tile_loadd(0, p->c, c_bytes);
    if (wide) {
      _tile_loadd(1, p->c + MATRIX_SIDE, c_bytes);
    }
    if (tall) {
      _tile_loadd(2, below, c_bytes);
    }
    if (tall && wide) {
      _tile_loadd(3, below + MATRIX_SIDE, c_bytes);
    }
  }
  for (size_t word = 0; word < p->words; word += MATRIX_SIDE) {
    const float *b = p->b + word * p->b_stride;
    for (int i = 0; i < MATRIX_LINES_AHEAD; ++i) {
      prefetch_lines(ahead);
    }
    _tile_loadd(4, p->a + word, a_bytes);
    _tile_loadd(6, b, b_bytes);
    _tile_dpbf16ps(0, 4, 6);
    if (wide) {
      _tile_loadd(7, b + MATRIX_SIDE, b_bytes);
      _tile_dpbf16ps(1, 4, 7);
    }
    if (tall) {
      _tile_loadd(5, p->a + MATRIX_SIDE * p->a_stride + word, a_bytes);
      _tile_dpbf16ps(2, 5, 6);
    }
    if (tall && wide) {
      _tile_dpbf16ps(3, 5, 7);
    }
  }
  _tile_stored(0, p->c, c_bytes);
  if (wide) {
    _tile_stored(1, p->c + MATRIX_SIDE, c_bytes);
  }
  if (tall) {
    _tile_stored(2, below, c_bytes);
  }
  if (tall && wide) {
    _tile_stored(3, below + MATRIX_SIDE, c_bytes);
  }
}

/* All `rows` (a multiple of 16) and `columns` (likewise). */
static void multiply_blocks(matrix_product p, int64_t rows, size_t columns, prefill_ahead *ahead) {
  const matrix_product whole = p;
  for (int64_t row = 0; row < rows; row += 2 * MATRIX_SIDE) {
    p.a = whole.a + (size_t)row * p.a_stride;
    for (size_t column = 0; column < columns; column += 2 * MATRIX_SIDE) {
      p.b = whole.b + column;
      p.c = whole.c + (size_t)row * p.c_stride + column;
      multiply_matrices(&p, row + MATRIX_SIDE < rows, column + MATRIX_SIDE < columns, ahead);
    }
  }
}

/* Rows from first_seen on whose products with a whole tile of keys are done here. */
static int64_t matrix_rows(const prefill_walk *walk) {
  return walk->whole ? (walk->end_seen - walk->first_seen) / MATRIX_SIDE * MATRIX_SIDE : 0;
}

/* Returns how many rows it has done, from the first that sees the tile on. */
static int64_t score_matrix_rows(prefill_walk *walk) {
  const int64_t rows = matrix_rows(walk);
  const matrix_product product = {
      .a = walk->queries + (size_t)walk->first_seen * walk->query_stride,
      .a_stride = walk->query_stride,
      .b = walk->keys,
      .b_stride = PANEL,
      .c = walk->weights + walk->first_seen * QUIRE_PAGED_TILE,
      .c_stride = QUIRE_PAGED_TILE,
      .words = walk->head_size / WORD_ELEMENTS,
      .adds = false,
  };
  multiply_blocks(product, rows, QUIRE_PAGED_TILE, &walk->value_ahead);
  return rows;
}

/* Likewise. */
static int64_t value_matrix_rows(prefill_walk *walk, prefill_states *states) {
  const int64_t rows = matrix_rows(walk);
  const size_t stride = walk->value_stride;
  float *accumulators = states->accumulators + (size_t)walk->first_seen * stride;
  for (int64_t row = 0; row < rows; ++row) {
    float *sums = accumulators + (size_t)row * stride;
    const vec factor = vec_set(walk->scales[walk->first_seen + row]);
    for (size_t column = 0; column < stride; column += VEC_LANES) {
      vec_store(sums + column, vec_mul(vec_load(sums + column), factor));
    }
  }
  for (size_t column = 0; column < stride; column += PANEL) {
    const size_t width = stride - column < PANEL ? stride - column : PANEL;
    const matrix_product product = {
        .a = walk->weights + walk->first_seen * QUIRE_PAGED_TILE,
        .a_stride = QUIRE_PAGED_TILE,
        .b = walk->values + column * QUIRE_PAGED_TILE / WORD_ELEMENTS,
        .b_stride = width,
        .c = accumulators + column,
        .c_stride = stride,
        .words = QUIRE_PAGED_TILE / WORD_ELEMENTS,
        .adds = true,
    };
    multiply_blocks(product, rows, width, &walk->key_ahead);
  }
  return rows;
}

#endif
