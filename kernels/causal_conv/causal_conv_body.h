/*
 * The convolution over the SIMD vocabulary, with the bits of causal_conv.c (NU-11): a chain of fma
 * for each output, oldest tap first. Included by one file per instruction set, which defines
 * QUIRE_CAUSAL_CONV(name) to give the pass functions their names.
 *
 * Three ways to put outputs into lanes, by layout and length; none of them changes a bit:
 *   rows        channels last: lanes over channels, whose rows are contiguous
 *   lines       channels first, many tokens: lanes over tokens
 *   transposed  channels first, few tokens: lanes over channels, copied into rows
 * What needs more room than the stack should give (many taps, long states) runs in plain C.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "causal_conv_call.h"
#include "causal_conv_item.h"
#include "simd.h"
#include "simd_gates.h"

enum {
  CONV_TAPS = 63,
  CONV_CHANNELS = 256,      /* of a tile of weights */
  CONV_TILE = 8192,         /* floats of a tile of weights: 32 KiB */
  CONV_LINE_STATE = 1024,   /* longest state of lines */
  CONV_COLUMN_STATE = 128,  /* longest state of transposed */
  CONV_COLUMNS = VEC_LANES, /* channels of transposed */
  CONV_FEW_TOKENS = 16
};

static inline vec conv_load_f32(const unsigned char *from) {
  return vec_load((const float *)(const void *)from);
}
static inline vec conv_load_first_f32(const unsigned char *from, size_t n) {
  return vec_load_first((const float *)(const void *)from, n);
}
static inline void conv_store_first_f32(unsigned char *to, size_t n, vec x) {
  vec_store_first((float *)(void *)to, n, x);
}
static inline vec conv_load_f16(const unsigned char *from) {
  return vec_load_f16((const uint16_t *)(const void *)from);
}
static inline vec conv_load_first_f16(const unsigned char *from, size_t n) {
  return vec_load_first_f16((const uint16_t *)(const void *)from, n);
}
static inline void conv_store_first_f16(unsigned char *to, size_t n, vec x) {
  vec_store_first_f16((uint16_t *)(void *)to, n, x);
}
static inline vec conv_load_bf16(const unsigned char *from) {
  return vec_load_bf16((const uint16_t *)(const void *)from);
}
static inline vec conv_load_first_bf16(const unsigned char *from, size_t n) {
  return vec_load_first_bf16((const uint16_t *)(const void *)from, n);
}
static inline void conv_store_first_bf16(unsigned char *to, size_t n, vec x) {
  vec_store_first_bf16((uint16_t *)(void *)to, n, x);
}

static inline vec conv_activate(vec x, bool silu) {
  return silu ? vec_mul(x, vec_sigmoid(x)) : x;
}

static inline size_t conv_least(size_t a, size_t b) {
  return a < b ? a : b;
}

/* Row i of `to` (of `pitch` floats) gets element i of every run of `length` floats. */
static inline void conv_transpose(const float *from, size_t runs, size_t length, float *to,
                                  size_t pitch) {
  for (size_t run = 0; run < runs; ++run) {
    for (size_t i = 0; i < length; ++i) {
      to[i * pitch + run] = from[run * length + i];
    }
  }
}

#define QUIRE_ELEMENT f32
#define QUIRE_ELEMENT_BYTES 4
#include "causal_conv_element_body.h"
#undef QUIRE_ELEMENT
#undef QUIRE_ELEMENT_BYTES

#define QUIRE_ELEMENT f16
#define QUIRE_ELEMENT_BYTES 2
#include "causal_conv_element_body.h"
#undef QUIRE_ELEMENT
#undef QUIRE_ELEMENT_BYTES

#define QUIRE_ELEMENT bf16
#define QUIRE_ELEMENT_BYTES 2
#include "causal_conv_element_body.h"
#undef QUIRE_ELEMENT
#undef QUIRE_ELEMENT_BYTES

static bool conv_fits(const quire_causal_conv_item *item) {
  const int64_t longest = item->channels_last               ? INT64_MAX
                          : item->tokens >= CONV_FEW_TOKENS ? CONV_LINE_STATE
                                                            : CONV_COLUMN_STATE;
  return item->taps <= CONV_TAPS && item->state_length <= longest;
}

static void conv_item(const quire_pass *pass, const quire_view *views, const size_t index[3]) {
  quire_causal_conv_item item;
  quire_causal_conv_item_init(&item, pass, views, index);
  if (!conv_fits(&item)) {
    quire_causal_conv_channels(&item, 0, item.channels);
  } else if (item.dtype == QUIRE_FLOAT32) {
    conv_channels_f32(&item);
  } else if (item.dtype == QUIRE_FLOAT16) {
    conv_channels_f16(&item);
  } else {
    conv_channels_bf16(&item);
  }
  quire_causal_conv_store_states(&item);
}

quire_status QUIRE_CAUSAL_CONV(quire_causal_conv)(const quire_pass *pass, const size_t item[3]) {
  conv_item(pass, pass->views, item);
  return QUIRE_OK;
}

quire_status QUIRE_CAUSAL_CONV(quire_causal_conv_strict)(const quire_pass *pass,
                                                         const size_t item[3]) {
  quire_view views[CC_COUNT];
  quire_causal_conv_strict_views(pass, views);
  conv_item(pass, views, item);
  return QUIRE_OK;
}
