/*
 * Attend for rows in the order of one-token calls (decode, and the verification of a draft) over
 * the SIMD vocabulary: the bits of paged_attention_attend.c.
 *
 * An item walks its tiles of 64 keys. In a tile it goes through sub-blocks of 8 keys, and in a
 * sub-block through its K/V heads, so that memory is read nearly in the order in which it lies;
 * every head's rows meet all queries that share them: heads of the group, rows of the sequence.
 *
 *   scores   sub-block by sub-block, head by head
 *   weights  of the whole tile, for all queries at once
 *   values   sub-block by sub-block, head by head
 *
 * Each step prefetches the rows of the next one. States under construction lie in the call's
 * scratch; queries and scores on the stack, for as many heads as fit (a chunk).
 */
#ifndef QUIRE_KERNELS_PAGED_ATTENTION_DECODE_BODY_H
#define QUIRE_KERNELS_PAGED_ATTENTION_DECODE_BODY_H

#include "paged_attention_decode_tile_body.h"

static void walk_tiles(decode_walk *walk) {
  const quire_paged_item *item = walk->item;
  const int64_t end_piece_index = item->first_piece + item->piece_count;
  decode_tile *t = &walk->tiles[0];
  decode_tile *following = &walk->tiles[1];
  next_tile(walk, t);
  for (int64_t piece = item->first_piece; piece < end_piece_index; ++piece) {
    begin_piece(walk, piece);
    while (t->piece == piece) {
      next_tile(walk, following);
      attend_tile(walk, t, following);
      for (int64_t row = 0; row < item->row_count; ++row) {
        walk->piece_seen[row] = walk->piece_seen[row] || t->masks[row] != 0;
      }
      decode_tile *swap = t;
      t = following;
      following = swap;
    }
    store_states(walk);
    end_piece(walk, piece);
  }
}

/* Whether the states under construction have their place. */
static bool has_room(const quire_pass *pass, const quire_paged_item *item, int64_t num_heads) {
  const int64_t need = item->row_count * num_heads * quire_paged_work_states(item);
  return need == 0 || item->work_base + need <= pass->views[QUIRE_ATTEND_WORK_VALUES].shape[0];
}

static void attend_short(const quire_pass *pass, const quire_paged_item *item) {
  const quire_attend_uniforms *uniforms = pass->uniforms;
  if (uniforms->head_size > DECODE_HEAD_SIZE || item->piece_count == 0 ||
      !has_room(pass, item, uniforms->num_heads)) {
    quire_paged_attention_attend_item(pass, item);
    return;
  }
  decode_walk walk;
  walk.pass = pass;
  walk.item = item;
  quire_attend_open(pass, &walk.call, &walk.target);
  walk.num_heads = uniforms->num_heads;
  walk.work_states = quire_paged_work_states(item);
  walk.loops = loops_of(walk.call.key_cache->dtype);
  walk.loaded = (decode_chunk){.first_head = -1};
  walk.state_count = 0;
  for (int64_t i = 0; i < item->row_count; ++i) {
    quire_paged_visible(item->first_position + i, item->end_position, uniforms->is_causal != 0,
                        uniforms->window, &walk.row_first[i], &walk.row_end[i]);
    walk.group_seen[i] = false;
    walk.whole_seen[i] = false;
  }
  walk.first = walk.row_first[0];
  walk.end = walk.row_end[item->row_count - 1];
  walk.piece = item->first_piece;
  walk.position = walk.first;
  limit_chunks(&walk);
  walk_tiles(&walk);
}

#endif
