/* Decode over the SIMD vocabulary: where states lie, and how pieces become rows. */
#ifndef QUIRE_KERNELS_PAGED_ATTENTION_DECODE_STATES_BODY_H
#define QUIRE_KERNELS_PAGED_ATTENTION_DECODE_STATES_BODY_H

#include "paged_attention_decode_walk_body.h"
#include "paged_attention_state_body.h"

/* Where a state lies: (m, l), and its accumulator. */
typedef struct decode_slot {
  float *stats;
  float *values;
} decode_slot;

static decode_slot slot_in(const decode_walk *walk, int stats, int values, int64_t index) {
  const quire_view *views = walk->pass->views;
  return (decode_slot){(float *)views[stats].data + 2 * index,
                       (float *)views[values].data + index * walk->target.value_size};
}

/* A state under construction: level 0 the piece, 1 the group, 2 the whole row. */
static decode_slot work_slot(const decode_walk *walk, int64_t row, int64_t head, int64_t level) {
  const int64_t index = (row * walk->num_heads + head) * walk->work_states + level;
  return slot_in(walk, QUIRE_ATTEND_WORK_STATS, QUIRE_ATTEND_WORK_VALUES,
                 walk->item->work_base + index);
}

/* A state that the merge pass reads. */
static decode_slot stored_slot(const decode_walk *walk, int64_t row, int64_t head, int64_t index) {
  const quire_paged_item *item = walk->item;
  const int64_t first = item->state_base + (row * walk->num_heads + head) * item->state_stride;
  return slot_in(walk, QUIRE_ATTEND_PARTIAL_STATS, QUIRE_ATTEND_PARTIAL_VALUES,
                 first + index - item->first_state);
}

static decode_slot piece_slot(const decode_walk *walk, int64_t row, int64_t head, int64_t piece) {
  return walk->item->level == QUIRE_PAGED_PIECES ? stored_slot(walk, row, head, piece)
                                                 : work_slot(walk, row, head, 0);
}

static quire_attend_state state_at(decode_slot slot, bool seen) {
  return (quire_attend_state){
      .seen = seen, .softmax = {slot.stats[0], slot.stats[1]}, .accumulator = slot.values};
}

/* No key yet: m = -inf, l = 0, and chains that start at -0.0 (NU-6). */
static void begin_piece(decode_walk *walk, int64_t piece) {
  const quire_paged_item *item = walk->item;
  const int64_t members = walk->target.heads_per_kv;
  const int64_t first_head = item->first_head * members;
  for (int64_t row = 0; row < item->row_count; ++row) {
    walk->piece_seen[row] = false;
    for (int64_t i = 0; i < item->head_count * members; ++i) {
      const decode_slot slot = piece_slot(walk, row, first_head + i, piece);
      slot.stats[0] = -INFINITY;
      slot.stats[1] = 0.0f;
      for (int64_t c = 0; c < walk->target.value_size; ++c) {
        slot.values[c] = -0.0f;
      }
    }
  }
}

static void fold_slots(const decode_walk *walk, decode_slot into, bool into_seen, decode_slot from,
                       bool from_seen) {
  quire_attend_state a = state_at(into, into_seen);
  const quire_attend_state b = state_at(from, from_seen);
  fold_state(&a, &b, (size_t)walk->target.value_size);
  into.stats[0] = a.softmax.maximum;
  into.stats[1] = a.softmax.sum;
}

/* l = -1 says that there is no state. */
static void mark_unseen(decode_slot slot) {
  slot.stats[0] = -INFINITY;
  slot.stats[1] = -1.0f;
}

/* A piece of one row and head is complete: folds it, and finishes what ends with it. */
static void place_piece(const decode_walk *walk, int64_t row, int64_t head, int64_t piece,
                        bool group_ends, bool item_ends) {
  const quire_paged_item *item = walk->item;
  const decode_slot slot = piece_slot(walk, row, head, piece);
  const bool seen = walk->piece_seen[row];
  if (item->level == QUIRE_PAGED_PIECES) {
    if (!seen) {
      mark_unseen(slot);
    }
    return;
  }
  decode_slot last = slot;
  bool last_seen = seen;
  if (item->level == QUIRE_PAGED_GROUPS || walk->work_states >= 2) {
    last = item->level == QUIRE_PAGED_GROUPS
               ? stored_slot(walk, row, head, piece / item->group_size)
               : work_slot(walk, row, head, 1);
    fold_slots(walk, last, walk->group_seen[row], slot, seen);
    last_seen = walk->group_seen[row] || seen;
  }
  if (item->level == QUIRE_PAGED_GROUPS) {
    if (group_ends && !last_seen) {
      mark_unseen(last);
    }
    return;
  }
  if (walk->work_states == 3 && group_ends) {
    const decode_slot whole = work_slot(walk, row, head, 2);
    fold_slots(walk, whole, walk->whole_seen[row], last, last_seen);
    last = whole;
    last_seen = walk->whole_seen[row] || last_seen;
  }
  if (item_ends) {
    quire_attend_state state = state_at(last, last_seen);
    finish_row(&walk->target, item->first_row + row, head, &state);
  }
}

static void end_piece(decode_walk *walk, int64_t piece) {
  const quire_paged_item *item = walk->item;
  const int64_t members = walk->target.heads_per_kv;
  const int64_t first_head = item->first_head * members;
  const bool item_ends = piece + 1 == item->first_piece + item->piece_count;
  const bool group_ends = item_ends || (piece + 1) % item->group_size == 0;
  for (int64_t row = 0; row < item->row_count; ++row) {
    for (int64_t i = 0; i < item->head_count * members; ++i) {
      place_piece(walk, row, first_head + i, piece, group_ends, item_ends);
    }
    walk->group_seen[row] = walk->group_seen[row] || walk->piece_seen[row];
    if (group_ends) {
      walk->whole_seen[row] = walk->whole_seen[row] || walk->group_seen[row];
      walk->group_seen[row] = false;
    }
  }
}

#endif
