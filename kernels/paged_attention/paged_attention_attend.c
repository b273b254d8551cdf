/* Attend: every query head of every new token to the keys that it sees. */
#include <math.h>
#include <string.h>

#include "paged_attention_call.h"
#include "paged_attention_passes.h"

const quire_pass_binding quire_paged_attention_attend_bindings[QUIRE_ATTEND_BINDING_COUNT] = {
    QUIRE_ATTEND_BINDINGS(QUIRE_FLOAT_BITS, QUIRE_FLOAT_BITS | QUIRE_DTYPE_BIT(QUIRE_INT8))};

/* What all rows of an item share. */
typedef struct attend_item {
  const quire_pass *pass;
  const quire_paged_item *item;
  quire_attend_call call;
  quire_attend_target target;
} attend_item;

/* The three levels of a row: a piece, the group that it belongs to, and the row. */
typedef struct row_walk {
  quire_attend_query query;
  int64_t first, end; /* visible keys */
  int64_t state;      /* index of the row and head's first stored state */
  int64_t first_column;
  size_t columns;
  quire_attend_state piece, group, whole;
  float accumulators[3][QUIRE_ATTEND_COLUMNS];
} row_walk;

/* Stores state `index`; l = -1 says that there is none. */
static void store_state(const attend_item *work, const row_walk *walk, int64_t index,
                        const quire_attend_state *state) {
  const int64_t slot = walk->state + index;
  float *stats = (float *)work->pass->views[QUIRE_ATTEND_PARTIAL_STATS].data + 2 * slot;
  stats[0] = state->seen ? state->softmax.maximum : -INFINITY;
  stats[1] = state->seen ? state->softmax.sum : -1.0f;
  if (state->seen) {
    float *values = (float *)work->pass->views[QUIRE_ATTEND_PARTIAL_VALUES].data +
                    slot * work->target.value_size + walk->first_column;
    memcpy(values, state->accumulator, walk->columns * sizeof(float));
  }
}

static void walk_piece(const attend_item *work, row_walk *walk, int64_t piece) {
  const quire_paged_item *item = work->item;
  const int64_t piece_first = item->piece_origin + piece * item->piece_length;
  const int64_t piece_end = piece_first + item->piece_length;
  const int64_t first = walk->first > piece_first ? walk->first : piece_first;
  const int64_t end = walk->end < piece_end ? walk->end : piece_end;
  walk->piece.seen = false;
  if (first < end) {
    quire_attend_keys(&walk->query, first, end, walk->first_column, walk->columns, &walk->piece);
  }
}

static void walk_row(const attend_item *work, row_walk *walk) {
  const quire_paged_item *item = work->item;
  const int64_t end_piece = item->first_piece + item->piece_count;
  walk->whole.seen = false;
  walk->group.seen = false;
  for (int64_t piece = item->first_piece; piece < end_piece; ++piece) {
    walk_piece(work, walk, piece);
    if (item->level == QUIRE_PAGED_PIECES) {
      store_state(work, walk, piece - item->first_state, &walk->piece);
      continue;
    }
    quire_attend_fold(&walk->group, &walk->piece, walk->columns);
    if ((piece + 1) % item->group_size != 0 && piece + 1 != end_piece) {
      continue;
    }
    if (item->level == QUIRE_PAGED_GROUPS) {
      store_state(work, walk, piece / item->group_size - item->first_state, &walk->group);
    } else {
      quire_attend_fold(&walk->whole, &walk->group, walk->columns);
    }
    walk->group.seen = false;
  }
  if (item->level == QUIRE_PAGED_ROWS) {
    quire_attend_finish(&work->target, walk->query.row, walk->query.head, walk->first_column,
                        walk->columns, &walk->whole);
  }
}

/* One row and head, in blocks of value columns so that the stack holds the accumulators. */
static void attend_head(const attend_item *work, row_walk *walk) {
  walk->piece.accumulator = walk->accumulators[0];
  walk->group.accumulator = walk->accumulators[1];
  walk->whole.accumulator = walk->accumulators[2];
  for (int64_t first = 0; first < work->target.value_size; first += QUIRE_ATTEND_COLUMNS) {
    const int64_t left = work->target.value_size - first;
    walk->first_column = first;
    walk->columns = left < QUIRE_ATTEND_COLUMNS ? (size_t)left : QUIRE_ATTEND_COLUMNS;
    walk_row(work, walk);
  }
}

static void attend_row(const attend_item *work, const quire_attend_uniforms *uniforms, int64_t i) {
  const quire_paged_item *item = work->item;
  row_walk walk;
  quire_paged_visible(item->first_position + i, item->end_position, uniforms->is_causal != 0,
                      uniforms->window, &walk.first, &walk.end);
  walk.query.call = &work->call;
  walk.query.sequence = item->sequence;
  walk.query.row = item->first_row + i;
  walk.query.gemm_order = item->gemm_order != 0;
  const int64_t group = work->target.heads_per_kv;
  const int64_t first_head = item->first_head * group;
  for (int64_t head = first_head; head < first_head + item->head_count * group; ++head) {
    walk.query.head = head;
    walk.query.kv_head = head / group;
    walk.state = item->state_base + (i * (int64_t)uniforms->num_heads + head) * item->state_stride;
    attend_head(work, &walk);
  }
}

void quire_attend_open(const quire_pass *pass, quire_attend_call *call,
                       quire_attend_target *target) {
  const quire_attend_uniforms *uniforms = pass->uniforms;
  const quire_view *views = pass->views;
  const float default_scale = (float)(1.0 / sqrt((double)uniforms->head_size));
  *call = (quire_attend_call){
      .query = &views[QUIRE_ATTEND_QUERY],
      .key_cache = &views[QUIRE_ATTEND_KEY_CACHE],
      .value_cache = &views[QUIRE_ATTEND_VALUE_CACHE],
      .block_table = &views[QUIRE_ATTEND_BLOCK_TABLE],
      .k_scale = &views[QUIRE_ATTEND_K_SCALE],
      .k_scale_cache = &views[QUIRE_ATTEND_K_SCALE_CACHE],
      .v_scale_cache = &views[QUIRE_ATTEND_V_SCALE_CACHE],
      .head_size = uniforms->head_size,
      .scale = uniforms->scale == 0.0f ? default_scale : uniforms->scale,
      .softcap = uniforms->softcap,
  };
  *target = (quire_attend_target){
      .output = &views[QUIRE_ATTEND_OUTPUT],
      .softmax_lse = &views[QUIRE_ATTEND_SOFTMAX_LSE],
      .head_sink = &views[QUIRE_ATTEND_HEAD_SINK],
      .v_scale = &views[QUIRE_ATTEND_V_SCALE],
      .heads_per_kv = uniforms->num_heads / views[QUIRE_ATTEND_KEY_CACHE].shape[2],
      .value_size = uniforms->value_size,
  };
}

void quire_paged_attention_attend_item(const quire_pass *pass, const quire_paged_item *item) {
  attend_item work = {.pass = pass, .item = item};
  quire_attend_open(pass, &work.call, &work.target);
  for (int64_t i = 0; i < item->row_count; ++i) {
    attend_row(&work, pass->uniforms, i);
  }
}

quire_status quire_attend_items(const quire_pass *pass, size_t x,
                                quire_attend_function *attend_short,
                                quire_attend_function *attend_long) {
  const quire_view *queue = &pass->views[QUIRE_ATTEND_QUEUE];
  const quire_view *taken = &pass->views[QUIRE_ATTEND_QUEUE_TAKEN];
  const quire_paged_item *items = pass->views[QUIRE_ATTEND_ITEMS].data;
  int64_t i = -1;
  while ((i = quire_paged_take(queue, taken, x, i)) >= 0) {
    quire_attend_function *attend = items[i].gemm_order != 0 ? attend_long : attend_short;
    attend(pass, &items[i], x);
  }
  return QUIRE_OK;
}

static void attend_plainly(const quire_pass *pass, const quire_paged_item *item, size_t x) {
  (void)x;
  quire_paged_attention_attend_item(pass, item);
}

quire_status quire_paged_attention_attend(const quire_pass *pass, const size_t item[3]) {
  return quire_attend_items(pass, item[0], attend_plainly, attend_plainly);
}
