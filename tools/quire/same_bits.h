/* The same sequences computed in many ways: what may not change a bit of any row. */
#ifndef QUIRE_TOOL_SAME_BITS_H
#define QUIRE_TOOL_SAME_BITS_H

#include <stddef.h>
#include <stdint.h>

#include "quire/device.h"
#include "quire/status.h"
#include "quire/tensor.h"

enum { BITS_MOST_SEQUENCES = 8, BITS_MOST_ROWS = 256 };

/* How the work is laid out and cut. Zero is the plain way: one call, sequences in order. */
typedef struct bits_variation {
  const char *name;
  quire_isa isa;
  size_t threads;       /* 0: one */
  uint64_t shuffle;     /* of sequences, and of blocks or slots; 0: in order */
  int64_t block_size;   /* 0: 16 */
  int64_t more_columns; /* of the block table */
  int is_head_major;    /* caches [heads, blocks, rows, size] */
  int is_apart;         /* gaps between rows (attention) or states (linear attention) */
  int is_packed;        /* queries, keys and values in one tensor */
  int is_alone;         /* each sequence in a call of its own */
  int is_cut;           /* each sequence in several calls */
} bits_variation;

/* Results: one hash for each row (a token of a sequence), in the order of the plain way. */
typedef struct bits_rows {
  uint64_t hashes[BITS_MOST_ROWS];
  size_t count;
  uint64_t nanoseconds; /* of all calls; the best of three */
} bits_rows;

/* Computes all rows in one way. */
typedef quire_status bits_run_function(quire_device *device, quire_dtype dtype,
                                       const bits_variation *variation, bits_rows *rows,
                                       quire_error *error);
bits_run_function quire_bits_run_attention;
bits_run_function quire_bits_run_linear;

/* Some new tokens of a sequence. */
typedef struct bits_part {
  size_t sequence;
  int64_t first, count;
} bits_part;

/* The work of one operator, which all ways share. */
typedef struct bits_work {
  const bits_variation *variation;
  size_t sequences;     /* at most BITS_MOST_SEQUENCES */
  const int64_t *fresh; /* new tokens of each */
  /* How many tokens come next of a sequence that is cut, `done` of them computed in `calls` calls;
     what is left bounds it. */
  int64_t (*piece)(size_t sequence, int64_t done, size_t calls);
  /* Computes the parts in one call, adds its time, and sets the hashes of its rows. */
  quire_status (*call)(void *user, const bits_part *parts, size_t count, bits_rows *rows,
                       quire_error *error);
  void *user;
} bits_work;

size_t quire_bits_row_count(const bits_work *work);
/* Where the hash of a part's first row goes. */
size_t quire_bits_place(const bits_work *work, const bits_part *part);
/* Computes all rows, three times; the best time counts. */
quire_status quire_bits_run(const bits_work *work, bits_rows *rows, quire_error *error);
/* Row `index` of a sequence's tensor `kind`: always the same numbers, whoever asks. */
void quire_bits_fill_row(quire_dtype dtype, size_t sequence, int64_t index, int kind, int64_t width,
                         void *row);

/* FNV-1a; begin with 0. */
uint64_t quire_bits_hash(uint64_t hash, const void *data, size_t bytes);

/* A random order of [0, count); shuffle 0: ascending. */
void quire_bits_order(uint64_t shuffle, size_t count, int32_t *order);

#endif
