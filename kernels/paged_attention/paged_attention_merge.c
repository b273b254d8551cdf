/* Merge: folds the states of rows that several items computed, in the order of NU-6. */
#include "paged_attention_call.h"
#include "paged_attention_passes.h"

typedef struct merge_uniforms {
  uint32_t num_heads;
  uint32_t kv_num_heads;
  uint32_t value_size;
} merge_uniforms;

enum {
  VIEW_V_SCALE,
  VIEW_HEAD_SINK,
  VIEW_OUTPUT,
  VIEW_SOFTMAX_LSE,
  VIEW_MERGE_ROWS,
  VIEW_PARTIAL_VALUES,
  VIEW_PARTIAL_STATS
};

const quire_pass_binding quire_paged_attention_merge_bindings[QUIRE_MERGE_BINDING_COUNT] = {
    {"v_scale", QUIRE_DTYPE_BIT(QUIRE_FLOAT32)},
    {"head_sink", QUIRE_FLOAT_BITS},
    {"output", QUIRE_FLOAT_BITS},
    {"softmax_lse", QUIRE_DTYPE_BIT(QUIRE_FLOAT32)},
    {"merge_rows", QUIRE_DTYPE_BIT(QUIRE_INT64)},
    {"partial_values", QUIRE_DTYPE_BIT(QUIRE_FLOAT32)},
    {"partial_stats", QUIRE_DTYPE_BIT(QUIRE_FLOAT32)},
};

const quire_paged_merge_row *quire_merge_open(const quire_pass *pass, size_t x,
                                              quire_attend_target *target) {
  const merge_uniforms *uniforms = pass->uniforms;
  const quire_view *views = pass->views;
  *target = (quire_attend_target){
      .output = &views[VIEW_OUTPUT],
      .softmax_lse = &views[VIEW_SOFTMAX_LSE],
      .head_sink = &views[VIEW_HEAD_SINK],
      .v_scale = &views[VIEW_V_SCALE],
      .heads_per_kv = uniforms->num_heads / uniforms->kv_num_heads,
      .value_size = uniforms->value_size,
  };
  return (const quire_paged_merge_row *)views[VIEW_MERGE_ROWS].data + x;
}

quire_attend_state quire_merge_state(const quire_pass *pass, const quire_paged_merge_row *row,
                                     int64_t head, int64_t i, int64_t value_size) {
  const int64_t slot = row->state_base + head * row->state_count + i;
  const float *stats = (const float *)pass->views[VIEW_PARTIAL_STATS].data + 2 * slot;
  return (quire_attend_state){
      .seen = stats[1] != -1.0f,
      .softmax = {stats[0], stats[1]},
      .accumulator = (float *)pass->views[VIEW_PARTIAL_VALUES].data + slot * value_size};
}

/* Channels [first_column, + n) of one row and head. */
static void merge_columns(const quire_pass *pass, const quire_attend_target *target,
                          const quire_paged_merge_row *row, int64_t head, int64_t first_column,
                          size_t n) {
  float accumulators[2][QUIRE_ATTEND_COLUMNS];
  quire_attend_state group = {.seen = false, .accumulator = accumulators[0]};
  quire_attend_state whole = {.seen = false, .accumulator = accumulators[1]};
  for (int64_t i = 0; i < row->state_count; ++i) {
    quire_attend_state state = quire_merge_state(pass, row, head, i, target->value_size);
    state.accumulator += first_column;
    quire_attend_fold(&group, &state, n);
    if ((row->first_state + i + 1) % row->group_size == 0 || i + 1 == row->state_count) {
      quire_attend_fold(&whole, &group, n);
      group.seen = false;
    }
  }
  quire_attend_finish(target, row->row, head, first_column, n, &whole);
}

quire_status quire_paged_attention_merge(const quire_pass *pass, const size_t item[3]) {
  quire_attend_target target;
  const quire_paged_merge_row *row = quire_merge_open(pass, item[0], &target);
  for (int64_t first = 0; first < target.value_size; first += QUIRE_ATTEND_COLUMNS) {
    const int64_t left = target.value_size - first;
    const size_t n = left < QUIRE_ATTEND_COLUMNS ? (size_t)left : QUIRE_ATTEND_COLUMNS;
    merge_columns(pass, &target, row, (int64_t)item[1], first, n);
  }
  return QUIRE_OK;
}
