/* Prefill: the states of a block's rows, begun, folded, stored, finished. */
#ifndef QUIRE_KERNELS_PAGED_ATTENTION_PREFILL_STATES_H
#define QUIRE_KERNELS_PAGED_ATTENTION_PREFILL_STATES_H

#include "paged_attention_prefill_walk_body.h"

/* m = -inf, l = 0, chains start at -0.0. */
static void begin_states(const prefill_walk *walk, prefill_states *states) {
  for (int64_t row = 0; row < walk->row_count; ++row) {
    states->maximum[row] = -INFINITY;
    states->sum[row] = 0.0f;
    states->seen[row] = 0;
  }
  const vec start = vec_set(-0.0f);
  const size_t floats = (size_t)walk->row_count * walk->value_stride;
  for (size_t i = 0; i < floats; i += VEC_LANES) {
    vec_store(states->accumulators + i, start);
  }
}

static quire_attend_state state_of(const prefill_walk *walk, const prefill_states *states,
                                   int64_t row) {
  return (quire_attend_state){
      .seen = states->seen[row] != 0,
      .softmax = {states->maximum[row], states->sum[row]},
      .accumulator = states->accumulators + (size_t)row * walk->value_stride,
  };
}

static void fold_states(const prefill_walk *walk, prefill_states *into,
                        const prefill_states *from) {
  for (int64_t row = 0; row < walk->row_count; ++row) {
    quire_attend_state a = state_of(walk, into, row);
    const quire_attend_state b = state_of(walk, from, row);
    fold_state(&a, &b, walk->value_size);
    into->seen[row] = a.seen;
    into->maximum[row] = a.softmax.maximum;
    into->sum[row] = a.softmax.sum;
  }
}

static int64_t head_of(const prefill_walk *walk, int64_t row) {
  return walk->kv_head * walk->group + (walk->first_row + row) % walk->group;
}

/* Stores the rows' states as number `index` of each; l = -1 says that there is none. */
static void store_states(const prefill_walk *walk, const prefill_states *states, int64_t index) {
  const quire_attend_uniforms *uniforms = walk->pass->uniforms;
  const quire_paged_item *item = walk->item;
  const quire_view *views = walk->pass->views;
  for (int64_t row = 0; row < walk->row_count; ++row) {
    const int64_t token = (walk->first_row + row) / walk->group;
    const int64_t slot =
        item->state_base +
        (token * (int64_t)uniforms->num_heads + head_of(walk, row)) * item->state_stride + index;
    const bool seen = states != NULL && states->seen[row] != 0;
    float *stats = (float *)views[QUIRE_ATTEND_PARTIAL_STATS].data + 2 * slot;
    stats[0] = seen ? states->maximum[row] : -INFINITY;
    stats[1] = seen ? states->sum[row] : -1.0f;
    if (seen) {
      memcpy((float *)views[QUIRE_ATTEND_PARTIAL_VALUES].data + slot * (int64_t)walk->value_size,
             states->accumulators + (size_t)row * walk->value_stride,
             walk->value_size * sizeof(float));
    }
  }
}

PREFILL_APART void finish_rows(const prefill_walk *walk, const prefill_states *states) {
  const quire_view *output = walk->target.output;
  const int64_t bytes = (int64_t)(walk->value_size * quire_dtype_size(output->dtype));
  for (int64_t row = 0; row < walk->row_count; ++row) {
    /* Another core may have written these lines in the call before. */
    const int64_t later = row + QUERIES_AHEAD;
    if (later < walk->row_count) {
      const int64_t token = walk->item->first_row + (walk->first_row + later) / walk->group;
      const char *ahead = (const char *)output->data +
                          token * output->stride[0] * (int64_t)quire_dtype_size(output->dtype) +
                          head_of(walk, later) * bytes;
      for (int64_t i = 0; i < bytes; i += PREFILL_LINE) {
        vec_prefetch_to_write(ahead + i);
      }
    }
    quire_attend_state state = state_of(walk, states, row);
    finish_row(&walk->target, walk->item->first_row + (walk->first_row + row) / walk->group,
               head_of(walk, row), &state);
  }
}

#endif
