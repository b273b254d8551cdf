/* Every form of linear_attention_step_tmpl.h, and the table of them. */
#ifndef QUIRE_LINEAR_ATTENTION_STEP_BODY_H
#define QUIRE_LINEAR_ATTENTION_STEP_BODY_H

#include "linear_attention_item.h"
#include "simd.h"
#include "simd_repeat.h"

/* Some columns of a state and one token. Pitches count elements. */
typedef struct step {
  const void *past;
  void *present;
  int64_t past_pitch;
  int64_t present_pitch;
  size_t channels;
  const float *key;
  const float *query;
  const float *next_key;
  const float *factors; /* of the token to retrieve for, by key channel */
  float factor;         /* the same for all channels */
  float *tile;          /* [channels][vectors * VEC_LANES] */
  const float *update;
  float *retrieved;
  float *read;
} step;

#define STEP_TYPE f32
#define STEP_ELEMENT float
#define STEP_LOAD(p) vec_load(p)
#define STEP_STORE(p, x) vec_store(p, x)
#include "linear_attention_step_set_tmpl.h"

#define STEP_TYPE f16
#define STEP_ELEMENT uint16_t
#define STEP_LOAD(p) vec_load_f16(p)
#define STEP_STORE(p, x) vec_store_first_f16(p, VEC_LANES, x)
#include "linear_attention_step_set_tmpl.h"

#define STEP_TYPE bf16
#define STEP_ELEMENT uint16_t
#define STEP_LOAD(p) vec_load_bf16(p)
#define STEP_STORE(p, x) vec_store_first_bf16(p, VEC_LANES, x)
#include "linear_attention_step_set_tmpl.h"

typedef void step_function(const step *s);

typedef struct step_set {
  step_function *retrieve[2]; /* [by channel] */
  step_function *update[2];
  step_function *begin[2];
  step_function *keep[2];
  step_function *end;
} step_set;

#define STEP_PAIR(name, type, vectors) \
  { name##_##type##_##vectors##_0, name##_##type##_##vectors##_1 }
#define STEP_SET(type, vectors)                                                     \
  {                                                                                 \
    STEP_PAIR(step_retrieve, type, vectors), STEP_PAIR(step_update, type, vectors), \
        STEP_PAIR(step_begin, type, vectors), STEP_PAIR(step_keep, type, vectors),  \
        step_end_##type##_##vectors##_0                                             \
  }
#if STEP_MOST == 8
enum { STEP_WIDTHS = 4 };
#define STEP_WIDTH_SETS(type) \
  { STEP_SET(type, 1), STEP_SET(type, 2), STEP_SET(type, 4), STEP_SET(type, 8) }
#else
enum { STEP_WIDTHS = 3 };
#define STEP_WIDTH_SETS(type) \
  { STEP_SET(type, 1), STEP_SET(type, 2), STEP_SET(type, 4) }
#endif
/* [type][log2 of vectors] */
static const step_set step_sets[3][STEP_WIDTHS] = {STEP_WIDTH_SETS(f32), STEP_WIDTH_SETS(f16),
                                                   STEP_WIDTH_SETS(bf16)};
#undef STEP_PAIR
#undef STEP_SET
#undef STEP_WIDTH_SETS

static size_t step_type(quire_dtype dtype) {
  return dtype == QUIRE_FLOAT32 ? 0 : dtype == QUIRE_FLOAT16 ? 1 : 2;
}

#endif
