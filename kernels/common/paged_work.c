#include "paged_work.h"

#include <stdatomic.h>

/* Items to aim at: enough for many cores to share evenly, few enough to cost nothing. */
enum {
  TARGET_ITEMS = 256,
  FEW_ITEMS = 16, /* for an unknown number of threads */
  FEW_ITEMS_A_THREAD = 2,
  /* Items of long sequences pack keys and values for all their rows: the more rows the better. */
  LONG_ITEMS = 32, /* for an unknown number of threads */
  LONG_ITEMS_A_THREAD = 4,
  LEAST_BLOCK = 96, /* rows times query heads of a group */
  PLAIN_BLOCK = 64  /* rows of an item where there are no runners */
};

static int64_t min_i64(int64_t a, int64_t b) {
  return a < b ? a : b;
}

static int64_t max_i64(int64_t a, int64_t b) {
  return a > b ? a : b;
}

/* a >= 0, b > 0 */
static int64_t ceil_div(int64_t a, int64_t b) {
  return a / b + (a % b != 0 ? 1 : 0);
}

void quire_paged_visible(int64_t position, int64_t end_position, bool causal, int64_t window,
                         int64_t *first, int64_t *end) {
  *first = window > 0 ? max_i64(0, position + 1 - window) : 0;
  *end = causal ? position + 1 : end_position;
}

bool quire_paged_is_long(const quire_paged_sequence *sequence) {
  return sequence->row_count > QUIRE_PAGED_EXACT_TOKENS;
}

/* How the keys of a sequence are cut. */
typedef struct cut {
  int64_t origin, length, group_size;
  int64_t first_piece, piece_count; /* those that any of its rows sees */
} cut;

static cut cut_sequence(const quire_paged_schedule *schedule,
                        const quire_paged_sequence *sequence) {
  const int64_t end_position = sequence->first_position + sequence->row_count;
  int64_t first;
  int64_t end;
  int64_t unused;
  quire_paged_visible(sequence->first_position, end_position, schedule->causal, schedule->window,
                      &first, &unused);
  quire_paged_visible(end_position - 1, end_position, schedule->causal, schedule->window, &unused,
                      &end);
  cut result = {0, QUIRE_PAGED_RANGE, QUIRE_PAGED_GROUP, 0, 0};
  if (end <= first) {
    return result;
  }
  if (sequence->partial_blocks >= 2) {
    result.origin = first;
    result.length = ceil_div(end - first, sequence->partial_blocks);
    result.group_size = 1;
  }
  result.first_piece = (first - result.origin) / result.length;
  result.piece_count = ceil_div(end - result.origin, result.length) - result.first_piece;
  return result;
}

/* New tokens of an item of a long sequence, at most: a runner's slice holds them. */
static int64_t most_block_rows(const quire_paged_schedule *schedule) {
  if (schedule->runner_limit == 0) {
    return PLAIN_BLOCK;
  }
  return max_i64(1, schedule->tile_rows * schedule->kv_num_heads / schedule->num_heads);
}

void quire_paged_count(const quire_paged_schedule *schedule, const quire_paged_sequence *sequence,
                       quire_paged_load *load) {
  if (sequence->row_count == 0) {
    return;
  }
  const int64_t pieces = max_i64(1, cut_sequence(schedule, sequence).piece_count);
  load->work += sequence->row_count * pieces;
  if (quire_paged_is_long(sequence)) {
    load->long_items +=
        schedule->kv_num_heads * ceil_div(sequence->row_count, most_block_rows(schedule));
  } else {
    load->short_runs += pieces;
  }
}

void quire_paged_begin(quire_paged_schedule *schedule, const quire_paged_load *load) {
  schedule->item_count = 0;
  schedule->merge_count = 0;
  schedule->state_count = 0;
  schedule->work_count = 0;
  schedule->long_count = 0;
  schedule->rows_left = schedule->row_total;
  schedule->quantum = max_i64(1, load->work / TARGET_ITEMS);
  /* All K/V heads of a short sequence stay together, since its keys lie together, unless there is
     too little else to share. */
  const int64_t runs = min_i64(TARGET_ITEMS, load->short_runs) + load->long_items;
  schedule->few_parts = 1;
  const int64_t few = schedule->threads > 0 ? FEW_ITEMS_A_THREAD * schedule->threads : FEW_ITEMS;
  if (runs > 0 && runs < few && schedule->threads != 1) {
    schedule->few_parts = min_i64(schedule->kv_num_heads, ceil_div(few, runs));
  }
  /* Too few items of long sequences: smaller blocks, then parts of their keys. */
  const int64_t most = most_block_rows(schedule);
  schedule->block_rows = most;
  schedule->long_runs = 1;
  const int64_t wanted =
      schedule->threads > 0 ? LONG_ITEMS_A_THREAD * schedule->threads : LONG_ITEMS;
  if (load->long_items > 0 && load->long_items < wanted) {
    const int64_t least = ceil_div(LEAST_BLOCK * schedule->kv_num_heads, schedule->num_heads);
    schedule->block_rows = min_i64(most, max_i64(least, ceil_div(most * load->long_items, wanted)));
    schedule->long_runs = ceil_div(wanted * schedule->block_rows, load->long_items * most);
  }
}

/* How a sequence becomes items. */
typedef struct division {
  cut keys;
  int64_t block_rows, blocks; /* rows of an item, and how many such */
  int64_t parts;              /* of the K/V heads */
  int64_t level;
  int64_t first_state, state_count; /* states of a row and head */
  int64_t runs, run_states;         /* items along the keys, and states of each */
} division;

/* Finest level of states that fits, unless whole rows do. */
static void choose_level(const quire_paged_schedule *schedule, division *d, int64_t rows) {
  const cut *keys = &d->keys;
  const int64_t row_heads = rows * schedule->num_heads;
  const int64_t states_left = schedule->state_limit - schedule->state_count;
  const int64_t rows_left = schedule->merge_limit - schedule->merge_count;
  const int64_t group_size = keys->group_size;
  const int64_t first_group = keys->first_piece / group_size;
  const int64_t groups = ceil_div(keys->first_piece + keys->piece_count, group_size) - first_group;
  d->level = QUIRE_PAGED_ROWS;
  d->first_state = 0;
  d->state_count = 0;
  if (d->runs <= 1 || rows > rows_left) {
    d->runs = 1;
    return;
  }
  if (keys->piece_count <= states_left / row_heads) {
    d->level = QUIRE_PAGED_PIECES;
    d->first_state = keys->first_piece;
    d->state_count = keys->piece_count;
  } else if (groups > 1 && groups <= states_left / row_heads) {
    d->level = QUIRE_PAGED_GROUPS;
    d->first_state = first_group;
    d->state_count = groups;
  } else {
    d->runs = 1;
    return;
  }
  d->runs = min_i64(d->runs, d->state_count);
  d->run_states = ceil_div(d->state_count, d->runs);
  d->runs = ceil_div(d->state_count, d->run_states);
}

/* The others still need an item for each of their rows at most. */
static int64_t items_left(const quire_paged_schedule *schedule,
                          const quire_paged_sequence *sequence) {
  return schedule->item_limit - schedule->item_count - (schedule->rows_left - sequence->row_count);
}

/* Blocks of rows for each K/V head, and parts of the keys where those are too few. */
static division divide_long(const quire_paged_schedule *schedule,
                            const quire_paged_sequence *sequence) {
  division result = {.keys = cut_sequence(schedule, sequence)};
  const int64_t rows = sequence->row_count;
  const int64_t left = items_left(schedule, sequence);
  result.parts = min_i64(schedule->kv_num_heads, left);
  result.block_rows = max_i64(schedule->block_rows, ceil_div(rows, left / result.parts));
  result.blocks = ceil_div(rows, result.block_rows);
  result.block_rows = ceil_div(rows, result.blocks);
  result.runs = min_i64(result.keys.piece_count, schedule->long_runs);
  result.runs = max_i64(1, min_i64(result.runs, left / (result.blocks * result.parts)));
  choose_level(schedule, &result, rows);
  return result;
}

static division divide(const quire_paged_schedule *schedule, const quire_paged_sequence *sequence) {
  if (quire_paged_is_long(sequence)) {
    return divide_long(schedule, sequence);
  }
  division result = {.keys = cut_sequence(schedule, sequence)};
  const int64_t rows = sequence->row_count;
  result.block_rows = rows;
  result.blocks = 1;
  result.parts = schedule->few_parts;
  /* Work of an item that walks all keys, and what to aim at, in rows times pieces times heads. */
  const int64_t work = rows * result.keys.piece_count * schedule->kv_num_heads;
  const int64_t quantum = max_i64(1, schedule->quantum * schedule->kv_num_heads);
  const int64_t left = items_left(schedule, sequence);
  result.runs = min_i64(result.keys.piece_count, ceil_div(work, quantum));
  result.runs = max_i64(1, min_i64(result.runs, left));
  choose_level(schedule, &result, rows);
  result.parts = max_i64(1, min_i64(result.parts, left / result.runs));
  return result;
}

static void add_merge_rows(quire_paged_schedule *schedule, const quire_paged_sequence *sequence,
                           const division *d) {
  const int64_t row_states = d->state_count * schedule->num_heads;
  for (int64_t i = 0; i < sequence->row_count; ++i) {
    quire_paged_merge_row *row = &schedule->merge_rows[schedule->merge_count++];
    row->row = sequence->first_row + i;
    row->state_base = schedule->state_count + i * row_states;
    row->state_count = d->state_count;
    row->first_state = d->first_state;
    row->group_size = d->level == QUIRE_PAGED_PIECES ? d->keys.group_size : 1;
  }
}

/* Pieces that make the states [first, first + count) of a division. */
static void set_pieces(quire_paged_item *item, const division *d, int64_t run) {
  item->first_piece = d->keys.first_piece;
  item->piece_count = d->keys.piece_count;
  if (d->level == QUIRE_PAGED_ROWS) {
    return;
  }
  const int64_t scale = d->level == QUIRE_PAGED_GROUPS ? d->keys.group_size : 1;
  const int64_t first_state = d->first_state + run * d->run_states;
  const int64_t end_state = min_i64(first_state + d->run_states, d->first_state + d->state_count);
  const int64_t end_piece = d->keys.first_piece + d->keys.piece_count;
  item->first_piece = max_i64(d->keys.first_piece, first_state * scale);
  item->piece_count = min_i64(end_piece, end_state * scale) - item->first_piece;
}

int64_t quire_paged_work_states(const quire_paged_item *item) {
  if (item->gemm_order != 0 || item->level == QUIRE_PAGED_PIECES) {
    return 0;
  }
  if (item->level == QUIRE_PAGED_GROUPS || item->piece_count <= 1) {
    return 1;
  }
  const int64_t last_piece = item->first_piece + item->piece_count - 1;
  return item->first_piece / item->group_size == last_piece / item->group_size ? 2 : 3;
}

static void add_item(quire_paged_schedule *schedule, const quire_paged_sequence *sequence,
                     const division *d, int64_t part, int64_t block, int64_t run) {
  quire_paged_item *item = &schedule->items[schedule->item_count++];
  const int64_t skipped = block * d->block_rows;
  const int64_t heads = schedule->kv_num_heads;
  item->sequence = sequence->index;
  item->first_row = sequence->first_row + skipped;
  item->row_count = min_i64(d->block_rows, sequence->row_count - skipped);
  item->first_position = sequence->first_position + skipped;
  item->end_position = sequence->first_position + sequence->row_count;
  item->first_head = part * heads / d->parts;
  item->head_count = (part + 1) * heads / d->parts - item->first_head;
  item->piece_origin = d->keys.origin;
  item->piece_length = d->keys.length;
  item->group_size = d->keys.group_size;
  item->level = d->level;
  item->state_base = schedule->state_count + skipped * schedule->num_heads * d->state_count;
  item->state_stride = d->state_count;
  item->first_state = d->first_state;
  item->gemm_order = quire_paged_is_long(sequence);
  set_pieces(item, d, run);
  item->work_base = schedule->work_count +
                    run * sequence->row_count * schedule->num_heads * quire_paged_work_states(item);
}

void quire_paged_add(quire_paged_schedule *schedule, const quire_paged_sequence *sequence) {
  if (sequence->row_count == 0) {
    return;
  }
  const division d = divide(schedule, sequence);
  /* Head by head, the last block first: it sees the most keys. */
  for (int64_t part = 0; part < d.parts; ++part) {
    for (int64_t block = d.blocks; block-- > 0;) {
      for (int64_t run = 0; run < d.runs; ++run) {
        add_item(schedule, sequence, &d, part, block, run);
      }
    }
  }
  const quire_paged_item *last = &schedule->items[schedule->item_count - 1];
  schedule->work_count +=
      d.runs * sequence->row_count * schedule->num_heads * quire_paged_work_states(last);
  if (d.level != QUIRE_PAGED_ROWS) {
    add_merge_rows(schedule, sequence, &d);
    schedule->state_count += sequence->row_count * schedule->num_heads * d.state_count;
  }
  schedule->rows_left -= sequence->row_count;
  if (quire_paged_is_long(sequence)) {
    schedule->long_count = schedule->item_count;
  }
}

int64_t quire_paged_finish(quire_paged_schedule *schedule) {
  quire_paged_queue *queue = schedule->queue;
  queue->runner_count = min_i64(schedule->runner_limit, schedule->long_count);
  queue->long_count = queue->runner_count > 0 ? schedule->long_count : 0;
  return schedule->item_count - queue->long_count + queue->runner_count;
}

int64_t quire_paged_take(const quire_view *queue, const quire_view *taken, size_t x,
                         int64_t previous) {
  const quire_paged_queue *q = queue->data;
  const int64_t index = (int64_t)x;
  if (index >= q->runner_count) {
    return previous < 0 ? q->long_count - q->runner_count + index : -1;
  }
  atomic_uint_least32_t *counter = taken->data;
  const int64_t next = atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
  return next < q->long_count ? next : -1;
}

void quire_paged_grid(const quire_view *grid, int64_t x, int64_t y) {
  uint32_t *counts = grid->data;
  counts[0] = (uint32_t)x;
  counts[1] = (uint32_t)y;
  counts[2] = 1;
}
