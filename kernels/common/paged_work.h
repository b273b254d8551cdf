/*
 * The work list of paged attention: what the schedule pass writes, and what attend and merge read.
 *
 * Keys are cut at absolute positions into pieces, and pieces into groups (NU-6: ranges of 512 keys,
 * groups of 16). A row is one new token; its state for one query head is the merge of its groups.
 * An item may compute whole rows, or the states of some groups or pieces of its rows, which the
 * merge pass then folds in the same order: no choice made here can change a bit (NU-7).
 *
 * All records are int64 arrays, so that they are intermediates of a plan.
 */
#ifndef QUIRE_KERNELS_PAGED_WORK_H
#define QUIRE_KERNELS_PAGED_WORK_H

#include <stdbool.h>
#include <stdint.h>

#include "pass.h"

enum {
  QUIRE_PAGED_TILE = 64,
  QUIRE_PAGED_RANGE = 512,
  QUIRE_PAGED_GROUP = 16,
  QUIRE_PAGED_EXACT_TOKENS = 8, /* NU-8: more new tokens of a sequence take the GEMM-shaped order */
  QUIRE_PAGED_SPARE_ROWS = 6    /* of a runner's slice: for kernels that take whole tiles of rows */
};

/*
 * Items in the GEMM-shaped order come first in the list and form a queue. They need scratch that no
 * stack holds, and a pass does not know its thread: so the first grid indices of attend are
 * runners, each with a slice of scratch of its own, who take items from the queue until it is
 * empty. Every other grid index is one more item of the list.
 */
typedef struct quire_paged_queue {
  int64_t long_count;   /* items of the queue */
  int64_t runner_count; /* 0: there is no queue, a grid index is an item */
} quire_paged_queue;

/* What an item leaves behind. */
enum {
  QUIRE_PAGED_ROWS = 0,   /* finished rows in the output */
  QUIRE_PAGED_GROUPS = 1, /* one state a group */
  QUIRE_PAGED_PIECES = 2  /* one state a piece */
};

/* An item of the attend pass. */
typedef struct quire_paged_item {
  int64_t sequence;  /* row of the block table */
  int64_t first_row; /* row of query and output */
  int64_t row_count;
  int64_t first_position; /* key position of first_row's own token */
  int64_t end_position;   /* positions of the sequence after this call */
  int64_t first_head;     /* K/V heads */
  int64_t head_count;
  int64_t first_piece;
  int64_t piece_count;
  int64_t piece_origin; /* piece i holds keys origin + i*length and on */
  int64_t piece_length;
  int64_t group_size; /* pieces a group */
  int64_t level;
  int64_t state_base;   /* state of (first_row, head 0, first state of the row) */
  int64_t state_stride; /* states of a row and head */
  int64_t first_state;  /* index of the row's first state: a piece, or a group */
  int64_t gemm_order;   /* NU-8 */
  int64_t work_base;    /* first state under construction, see quire_paged_work_states() */
} quire_paged_item;

/*
 * States of a row and head that an item in the order of one-token calls holds while it walks, of
 * its piece, its group and its row: row i and head h have this many from work_base + (i * heads +
 * h) * count on. A piece that the merge pass reads is made where it will be read.
 */
int64_t quire_paged_work_states(const quire_paged_item *item);

/* A row whose states the merge pass folds. */
typedef struct quire_paged_merge_row {
  int64_t row;
  int64_t state_base; /* state of head 0 */
  int64_t state_count;
  int64_t first_state;
  int64_t group_size; /* states a group */
} quire_paged_merge_row;

enum {
  QUIRE_PAGED_ITEM_WORDS = sizeof(quire_paged_item) / sizeof(int64_t),
  QUIRE_PAGED_MERGE_WORDS = sizeof(quire_paged_merge_row) / sizeof(int64_t),
  QUIRE_PAGED_QUEUE_WORDS = sizeof(quire_paged_queue) / sizeof(int64_t)
};

/* A sequence as the schedule sees it. */
typedef struct quire_paged_sequence {
  int64_t index;
  int64_t first_row;
  int64_t row_count;      /* new tokens */
  int64_t first_position; /* of the first new token */
  int64_t partial_blocks; /* 0 or 1: ranges of 512; k >= 2: k equal pieces (PagedDecode 5.1) */
} quire_paged_sequence;

/* What is the same for all sequences of a call, and where the lists go. */
typedef struct quire_paged_schedule {
  int64_t num_heads, kv_num_heads;
  int64_t window; /* 0: none */
  bool causal;
  int64_t row_total;   /* rows of the call */
  int64_t state_limit; /* capacities */
  int64_t item_limit;
  int64_t merge_limit;
  int64_t threads;      /* a hint; 0: unknown */
  int64_t runner_limit; /* slices of scratch; 0: no queue */
  int64_t tile_rows;    /* rows times query heads that a slice holds at once */
  quire_paged_queue *queue;
  quire_paged_item *items;
  quire_paged_merge_row *merge_rows;
  int64_t item_count; /* filled so far */
  int64_t merge_count;
  int64_t state_count;
  int64_t work_count; /* states under construction */
  int64_t long_count; /* items of long sequences */
  int64_t quantum;    /* work of an item to aim at, in rows times pieces */
  int64_t few_parts;  /* parts into which K/V heads of short sequences are cut */
  int64_t block_rows; /* rows of an item of a long sequence */
  int64_t long_runs;  /* items that share the keys of such a block */
  int64_t rows_left;  /* rows of sequences not yet added: each may need an item */
} quire_paged_schedule;

/* Keys [*first, *end) that a token at `position` sees. */
void quire_paged_visible(int64_t position, int64_t end_position, bool causal, int64_t window,
                         int64_t *first, int64_t *end);

/*
 * Usage: count() every sequence, begin(), add() every sequence with quire_paged_is_long() and then
 * every other, finish(). The item limit is at least the number of rows; the lists never outgrow the
 * limits.
 */
typedef struct quire_paged_load {
  int64_t work;       /* rows times pieces */
  int64_t long_items; /* of sequences in the GEMM-shaped order, in the largest blocks */
  int64_t short_runs; /* rows' pieces of the others */
} quire_paged_load;
void quire_paged_count(const quire_paged_schedule *schedule, const quire_paged_sequence *sequence,
                       quire_paged_load *load);
void quire_paged_begin(quire_paged_schedule *schedule, const quire_paged_load *load);
bool quire_paged_is_long(const quire_paged_sequence *sequence);
void quire_paged_add(quire_paged_schedule *schedule, const quire_paged_sequence *sequence);
/* Writes the queue; returns the number of grid indices of attend. */
int64_t quire_paged_finish(quire_paged_schedule *schedule);

/*
 * For attend: the next item of grid index x, or -1. `previous` is -1 at first, then what was
 * returned last. `taken` holds the queue's counter, zero when a run begins.
 */
int64_t quire_paged_take(const quire_view *queue, const quire_view *taken, size_t x,
                         int64_t previous);

/* Writes item counts into a `grid` intermediate. */
void quire_paged_grid(const quire_view *grid, int64_t x, int64_t y);

#endif
