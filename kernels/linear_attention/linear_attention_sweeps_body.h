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
#define SWEEP_VECTORS 4
#include "linear_attention_sweeps_forms_tmpl.h"

typedef void sweep_function(const sweep *s);

typedef struct sweep_set {
  sweep_function *fused[2]; /* [by channel] */
  sweep_function *decay[2];
  sweep_function *retrieve[2];
  sweep_function *update;
  sweep_function *read;
} sweep_set;

#define SWEEP_PAIR(name, vectors, by_lanes) \
  { name##_##vectors##_##by_lanes##_0, name##_##vectors##_##by_lanes##_1 }
#define SWEEP_SET(vectors, by_lanes)                                                            \
  {                                                                                             \
    SWEEP_PAIR(sweep_fused, vectors, by_lanes), SWEEP_PAIR(sweep_decay, vectors, by_lanes),     \
        SWEEP_PAIR(sweep_retrieve, vectors, by_lanes), sweep_update_##vectors##_##by_lanes##_0, \
        sweep_read_##vectors##_##by_lanes##_0                                                   \
  }
/* [by lanes][log2 of vectors] */
static const sweep_set sweep_sets[2][3] = {
    {SWEEP_SET(1, 0), SWEEP_SET(2, 0),
#if SWEEP_MOST == 4
     SWEEP_SET(4, 0)
#endif
    },
    {SWEEP_SET(1, 1),
#if SWEEP_LANES_MOST == 2
     SWEEP_SET(2, 1)
#endif
    },
};
#undef SWEEP_PAIR
#undef SWEEP_SET

#endif
