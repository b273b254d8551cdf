/*
 * Attend for items in the GEMM-shaped order (NU-8), over the SIMD vocabulary: included once by a
 * file of each instruction set, which defines QUIRE_ATTEND_LONG. The bits are those of
 * paged_attention_attend.c.
 *
 * A K/V head's queries (new tokens times the heads of its group) are taken in blocks of rows that
 * fit the runner's slice of scratch. A block walks the keys tile by tile:
 *
 *   pack     keys transposed, values copied, both widened to f32, for all rows of the block
 *   scores   6 rows times a panel of keys in registers
 *   softmax  VEC_LANES rows at a time
 *   values   6 rows times a panel of columns in registers
 *
 * while the next tile's rows are prefetched. Rows of a block that see nothing of a tile are left
 * out; of a tile that is visible in part, every row takes part with just the keys that it sees.
 *
 * With QUIRE_PREFILL_BF16 defined this is the implementation for precision `fast` (NU-10), with
 * QUIRE_PREFILL_TILES as well the one for matrix tiles.
 */
#include "paged_attention_prefill_states_body.h"
#include "paged_attention_prefill_tile_body.h"
#include "paged_attention_prefill_walk_body.h"

/* States of the pieces, the group and the whole rows: each is built in the place of the first free
   one above it, which is then a copy of it. */
typedef struct prefill_fold {
  bool group_begun, whole_begun;
} prefill_fold;

static prefill_states *group_states(prefill_walk *walk, const prefill_fold *fold) {
  return &walk->levels[fold->whole_begun ? 1 : 0];
}

/* The keys of one piece; false if the block sees none. */
static bool attend_piece(prefill_walk *walk, int64_t piece, prefill_states *states) {
  const quire_paged_item *item = walk->item;
  const int64_t piece_first = item->piece_origin + piece * item->piece_length;
  const int64_t first = greater(piece_first, walk->first);
  const int64_t end = lesser(piece_first + item->piece_length, walk->end);
  if (first >= end) {
    return false;
  }
  begin_states(walk, states);
  for (int64_t at = first - first % QUIRE_PAGED_TILE; at < end; at += QUIRE_PAGED_TILE) {
    attend_tile(walk, at, states);
  }
  return true;
}

static void attend_pieces(prefill_walk *walk) {
  const quire_paged_item *item = walk->item;
  const int64_t end_piece = item->first_piece + item->piece_count;
  prefill_fold fold = {false, false};
  for (int64_t piece = item->first_piece; piece < end_piece; ++piece) {
    prefill_states *group = group_states(walk, &fold);
    prefill_states *states = fold.group_begun ? group + 1 : group;
    const bool any = attend_piece(walk, piece, states);
    if (item->level == QUIRE_PAGED_PIECES) {
      store_states(walk, any ? states : NULL, piece - item->first_state);
      continue;
    }
    if (any && fold.group_begun) {
      fold_states(walk, group, states);
    }
    fold.group_begun = fold.group_begun || any;
    if ((piece + 1) % item->group_size != 0 && piece + 1 != end_piece) {
      continue;
    }
    if (item->level == QUIRE_PAGED_GROUPS) {
      store_states(walk, fold.group_begun ? group : NULL,
                   piece / item->group_size - item->first_state);
    } else if (fold.group_begun && fold.whole_begun) {
      fold_states(walk, walk->levels, group);
    } else {
      fold.whole_begun = fold.group_begun;
    }
    fold.group_begun = false;
  }
  if (item->level == QUIRE_PAGED_ROWS) {
    if (!fold.whole_begun) {
      begin_states(walk, walk->levels);
    }
    finish_rows(walk, walk->levels);
  }
}

/* f_d = scale, or scale * k_scale_d, rounded; then the block's queries times f. */
static void load_queries(prefill_walk *walk) {
  const quire_attend_call *call = &walk->call;
  const float *k_scale = call->k_scale->data;
  for (size_t d = 0; d < walk->query_stride; ++d) {
    walk->factors[d] = call->scale;
    if (k_scale != NULL && d < walk->head_size) {
      const size_t channel = (size_t)walk->kv_head * walk->head_size + d;
      walk->factors[d] = call->scale * k_scale[call->k_scale->ndim == 1 ? 0 : channel];
    }
  }
  const int64_t bytes = (int64_t)quire_dtype_size(call->query->dtype);
  for (int64_t row = 0; row < walk->row_count; ++row) {
    const int64_t token = (walk->first_row + row) / walk->group;
    const int64_t at = (walk->item->first_row + token) * call->query->stride[0] +
                       head_of(walk, row) * (int64_t)walk->head_size;
    const char *query = (const char *)call->query->data + at * bytes;
    /* Tokens lie too far apart for the hardware to see them coming. */
    if (row + QUERIES_AHEAD * walk->group < walk->row_count) {
      const char *ahead = query + QUERIES_AHEAD * call->query->stride[0] * bytes;
      for (int64_t i = 0; i < (int64_t)walk->head_size * bytes; i += PREFILL_LINE) {
        vec_prefetch(ahead + i);
      }
    }
    walk->scale_query(query, walk->factors, walk->head_size,
                      walk->queries + (size_t)row * walk->query_stride);
  }
}

static void attend_block(prefill_walk *walk) {
  int64_t unused;
  row_visible(walk, 0, &walk->first, &unused);
  row_visible(walk, walk->row_count - 1, &unused, &walk->end);
  walk->tiles[0].origin = -1;
  walk->tiles[1].origin = -1;
  load_queries(walk);
  attend_pieces(walk);
}

/* Blocks of nearly equal size, in whole tiles of rows. */
static void attend_head(prefill_walk *walk) {
  const int64_t rows = walk->item->row_count * walk->group;
  const int64_t blocks = (rows + walk->row_limit - 1) / walk->row_limit;
  const int64_t share = ((rows + blocks - 1) / blocks + ROW_TILE - 1) / ROW_TILE * ROW_TILE;
  for (int64_t row = 0; row < rows; row += share) {
    walk->first_row = row;
    walk->row_count = lesser(share, rows - row);
    attend_block(walk);
  }
}

void QUIRE_ATTEND_LONG(const quire_pass *pass, const quire_paged_item *item, size_t x) {
  const quire_paged_queue *queue = pass->views[QUIRE_ATTEND_QUEUE].data;
#ifdef QUIRE_PREFILL_BF16
  if (((const quire_attend_uniforms *)pass->uniforms)->head_size % WORD_ELEMENTS != 0) {
    quire_paged_attention_attend_long_avx512(pass, item, x);
    return;
  }
#endif
  if ((int64_t)x >= queue->runner_count || item->piece_length % QUIRE_PAGED_TILE != 0 ||
      item->piece_origin % QUIRE_PAGED_TILE != 0) {
    quire_paged_attention_attend_item(pass, item);
    return;
  }
  const quire_attend_uniforms *uniforms = pass->uniforms;
#ifdef QUIRE_PREFILL_TILES
  if (uniforms->head_size % (MATRIX_SIDE * WORD_ELEMENTS) != 0 || !matrix_begin()) {
    quire_paged_attention_attend_long_avx512bf16(pass, item, x);
    return;
  }
#endif
  prefill_walk walk;
  walk.pass = pass;
  walk.item = item;
  quire_attend_open(pass, &walk.call, &walk.target);
  walk.causal = uniforms->is_causal != 0;
  walk.window = uniforms->window;
  walk.head_size = (size_t)walk.call.head_size;
  walk.value_size = (size_t)walk.target.value_size;
  walk.query_stride = prefill_padded(walk.head_size / WORD_ELEMENTS);
  walk.value_stride = prefill_padded(walk.value_size);
  walk.group = walk.target.heads_per_kv;
  choose_packing(&walk);
  carve_slice(&walk, x);
  for (int64_t head = 0; head < item->head_count; ++head) {
    walk.kv_head = item->first_head + head;
    attend_head(&walk);
  }
#ifdef QUIRE_PREFILL_TILES
  matrix_end();
#endif
}
