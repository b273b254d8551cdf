/* Every form of linear_attention_step_tmpl.h, and the table of them. */
#ifndef QUIRE_LINEAR_ATTENTION_STEP_BODY_H
#define QUIRE_LINEAR_ATTENTION_STEP_BODY_H

#include "linear_attention_item.h"
#include "simd.h"

/* Some columns of a state and one token. Pitches count elements. */
typedef struct step {
  const void *past;
  void *present;
  int64_t past_pitch;
  int64_t present_pitch;
  size_t channels;
  const float *key;
  const float *query;
  const float *factors; /* by key channel */
  float factor;         /* for all channels */
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

/* [dtype][log2 of vectors][by channel] */
enum { STEP_TYPES = 3 };
#define STEP_ROW(name, type, vectors) \
  { name##_##type##_##vectors##_0, name##_##type##_##vectors##_1 }
#if STEP_MOST == 8
enum { STEP_WIDTHS = 4 };
#define STEP_TABLE(name, type)                                                 \
  {                                                                            \
    STEP_ROW(name, type, 1), STEP_ROW(name, type, 2), STEP_ROW(name, type, 4), \
        STEP_ROW(name, type, 8)                                                \
  }
#else
enum { STEP_WIDTHS = 3 };
#define STEP_TABLE(name, type) \
  { STEP_ROW(name, type, 1), STEP_ROW(name, type, 2), STEP_ROW(name, type, 4) }
#endif
static step_function *const step_retrieves[STEP_TYPES][STEP_WIDTHS][2] = {
    STEP_TABLE(step_retrieve, f32), STEP_TABLE(step_retrieve, f16),
    STEP_TABLE(step_retrieve, bf16)};
static step_function *const step_updates[STEP_TYPES][STEP_WIDTHS][2] = {
    STEP_TABLE(step_update, f32), STEP_TABLE(step_update, f16), STEP_TABLE(step_update, bf16)};
#undef STEP_ROW
#undef STEP_TABLE

static size_t step_type(quire_dtype dtype) {
  return dtype == QUIRE_FLOAT32 ? 0 : dtype == QUIRE_FLOAT16 ? 1 : 2;
}

#endif
