/* Every form of linear_attention_sweeps_tmpl.h, and the table of them. */
#ifndef QUIRE_LINEAR_ATTENTION_SWEEPS_BODY_H
#define QUIRE_LINEAR_ATTENTION_SWEEPS_BODY_H

#include "simd.h"
#include "simd_repeat.h"

/* One token on one block of columns of a tile, [channels][vectors * VEC_LANES]. */
typedef struct sweep {
  float *tile;
  size_t channels;
  const float *key;
  const float *query;
  const float *next_key;
  const float *factors; /* of the next token, by key channel */
  float factor;         /* of the next token, for all channels */
  const float *update;
  float *retrieved;
  float *read;
} sweep;

#define SWEEP_VECTORS 1
#include "linear_attention_sweeps_forms_tmpl.h"
#define SWEEP_VECTORS 2
#include "linear_attention_sweeps_forms_tmpl.h"
#if SWEEP_MOST == 4
#define SWEEP_VECTORS 4
#include "linear_attention_sweeps_forms_tmpl.h"
#endif

typedef void sweep_function(const sweep *s);

typedef struct sweep_set {
  sweep_function *fused[2]; /* [by channel] */
  sweep_function *decay[2];
  sweep_function *retrieve[2];
  sweep_function *update;
  sweep_function *read;
} sweep_set;

#define SWEEP_ROW(vectors)                                                                        \
  {                                                                                               \
    {sweep_fused_##vectors##_0, sweep_fused_##vectors##_1},                                       \
        {sweep_decay_##vectors##_0, sweep_decay_##vectors##_1},                                   \
        {sweep_retrieve_##vectors##_0, sweep_retrieve_##vectors##_1}, sweep_update_##vectors##_0, \
        sweep_read_##vectors##_0                                                                  \
  }
/* [log2 of vectors] */
static const sweep_set sweep_sets[] = {
    SWEEP_ROW(1),
    SWEEP_ROW(2),
#if SWEEP_MOST == 4
    SWEEP_ROW(4),
#endif
};
#undef SWEEP_ROW

#endif
