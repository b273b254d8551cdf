/*
 * The inputs of some tokens, made ready for a state head: key and query rows in f32 (normalised),
 * decay factors, betas. Part of the vector implementations; included once per instruction set.
 */
#ifndef QUIRE_LINEAR_ATTENTION_ROWS_BODY_H
#define QUIRE_LINEAR_ATTENTION_ROWS_BODY_H

#include "linear_attention_item.h"
#include "numeric.h"
#include "simd.h"
#include "simd_elements.h"
#include "simd_gates.h"

enum { SEGMENT_MAX = 63, SEGMENT_FLOATS = 4096, SEGMENT_VALUES = SEGMENT_MAX + 1 + 16 };

/*
 * A segment: `count` tokens from `first` on. Keys and factors reach one token further if the
 * sequence does, because a sweep retrieves for the next token already.
 */
typedef struct segment {
  int64_t first;
  size_t count;
  size_t capacity;
  size_t pitch; /* of rows, in floats: dk rounded up to 16 */
  bool by_channel;
  float *keys;        /* [capacity + 1][pitch] */
  float *queries;     /* [capacity][pitch]: the first query head of the group */
  float *factor_rows; /* [capacity + 1][pitch], if by_channel */
  float *extra;       /* [pitch]: a query row of another head */
  float factors[SEGMENT_VALUES];
  float betas[SEGMENT_VALUES];
} segment;

/* Of activations and states. */
static size_t element_size(quire_dtype dtype) {
  return dtype == QUIRE_FLOAT32 ? 4 : 2;
}

static const void *element_at(quire_dtype dtype, const void *row, size_t element) {
  return (const unsigned char *)row + element * element_size(dtype);
}

/* n elements to f32; `out` has room for whole vectors and is filled up with zeros. */
static void widen_row(quire_dtype dtype, const void *row, size_t n, float *out) {
  const size_t whole = n - n % VEC_LANES;
  if (dtype == QUIRE_FLOAT16) {
    for (size_t i = 0; i < whole; i += VEC_LANES) {
      vec_store(out + i, vec_load_f16((const uint16_t *)row + i));
    }
  } else if (dtype == QUIRE_BFLOAT16) {
    for (size_t i = 0; i < whole; i += VEC_LANES) {
      vec_store(out + i, vec_load_bf16((const uint16_t *)row + i));
    }
  } else {
    for (size_t i = 0; i < whole; i += VEC_LANES) {
      vec_store(out + i, vec_load((const float *)row + i));
    }
  }
  if (whole < n) {
    vec_store(out + whole, vec_load_elements(dtype, element_at(dtype, row, whole), n - whole));
  }
}

/* X5: x * round(1 / sqrt(sum x^2 + eps)), the sum by NU-3. Zeros behind the row add nothing. */
static void normalise_row(float *row, size_t pitch, float epsilon) {
  lanes16 sum;
  for (int part = 0; part < LANES16_PARTS; part++) {
    sum.part[part] = vec_zero();
  }
  for (size_t i = 0; i < pitch; i += 16) {
    for (int part = 0; part < LANES16_PARTS; part++) {
      const vec x = vec_load(row + i + part * VEC_LANES);
      sum.part[part] = vec_fma(x, x, sum.part[part]);
    }
  }
  const vec factor = vec_set(1.0f / sqrtf(lanes16_tree(&sum) + epsilon));
  for (size_t i = 0; i < pitch; i += VEC_LANES) {
    vec_store(row + i, vec_mul(vec_load(row + i), factor));
  }
}

/* The row of `head` in query or key, ready for use. */
static void load_key_row(const quire_linear_attention_item *item, const quire_view *view,
                         int64_t token, size_t head, size_t pitch, float *row) {
  const size_t whole = (item->dk + VEC_LANES - 1) / VEC_LANES * VEC_LANES;
  widen_row(view->dtype, quire_linear_attention_token_row(item, view, token, head * item->dk),
            item->dk, row);
  for (size_t i = whole; i < pitch; i += VEC_LANES) {
    vec_store(row + i, vec_zero());
  }
  if (item->uniforms->qk_l2_norm) {
    normalise_row(row, pitch, item->uniforms->qk_l2_norm_epsilon);
  }
}

/* One element per token, from channel `channel` of `view`. */
static void gather(const quire_linear_attention_item *item, const quire_view *view, int64_t first,
                   size_t count, size_t channel, float *values) {
  const unsigned char *element = quire_linear_attention_token_row(item, view, first, channel);
  const int64_t step = view->stride[1] * (int64_t)element_size(view->dtype);
  for (size_t t = 0; t < count; t++) {
    float lanes[VEC_LANES];
    vec_store(lanes, vec_load_elements(view->dtype, element + (int64_t)t * step, 1));
    values[t] = lanes[0];
  }
}

/* exp(g), or exp of X5's gate: g = -exp(a_log) * softplus(decay + dt_bias). */
static vec factor_of(vec decay, bool gate, vec bias, vec minus_rate) {
  return vec_exp(gate ? vec_mul(minus_rate, vec_softplus(vec_add(decay, bias))) : decay);
}

static float minus_rate_of(const quire_linear_attention_item *item) {
  return -quire_exp(((const float *)item->views[LA_A_LOG].data)[item->head]);
}

static void load_head_factors(const quire_linear_attention_item *item, segment *s, size_t count) {
  const quire_view *decay = &item->views[LA_DECAY];
  const bool gate = item->uniforms->gate_activation == LA_GATE_QWEN;
  const size_t start = quire_linear_attention_gate_start(item, decay->shape[2]);
  const vec minus_rate = vec_set(gate ? minus_rate_of(item) : 0.0f);
  const vec bias = vec_set(gate ? ((const float *)item->views[LA_DT_BIAS].data)[item->head] : 0.0f);
  gather(item, decay, s->first, count, start, s->factors);
  for (size_t t = count; t % VEC_LANES != 0; t++) {
    s->factors[t] = 0.0f;
  }
  for (size_t t = 0; t < count; t += VEC_LANES) {
    vec_store(s->factors + t, factor_of(vec_load(s->factors + t), gate, bias, minus_rate));
  }
}

static void load_channel_factors(const quire_linear_attention_item *item, const segment *s,
                                 size_t t) {
  const quire_view *decay = &item->views[LA_DECAY];
  const bool gate = item->uniforms->gate_activation == LA_GATE_QWEN;
  const int64_t kv_heads = (int64_t)item->uniforms->kv_num_heads;
  const void *row = quire_linear_attention_token_row(
      item, decay, s->first + (int64_t)t, quire_linear_attention_gate_start(item, decay->shape[2]));
  const vec minus_rate = vec_set(gate ? minus_rate_of(item) : 0.0f);
  const vec shared =
      decay->shape[2] == kv_heads ? vec_set(quire_load_f32(decay->dtype, row, 0)) : vec_zero();
  const quire_view *bias_view = &item->views[LA_DT_BIAS];
  const float *bias_row = gate ? (const float *)bias_view->data +
                                     quire_linear_attention_gate_start(item, bias_view->shape[0])
                               : NULL;
  vec bias = vec_set(gate ? *bias_row : 0.0f);
  for (size_t i = 0; i < item->dk; i += VEC_LANES) {
    const size_t n = item->dk - i < VEC_LANES ? item->dk - i : VEC_LANES;
    const vec g = decay->shape[2] == kv_heads
                      ? shared
                      : vec_load_elements(decay->dtype, element_at(decay->dtype, row, i), n);
    if (gate && bias_view->shape[0] != kv_heads) {
      bias = vec_load_elements(QUIRE_FLOAT32, bias_row + i, n);
    }
    vec_store(s->factor_rows + t * s->pitch + i, factor_of(g, gate, bias, minus_rate));
  }
}

static void load_betas(const quire_linear_attention_item *item, segment *s) {
  const quire_view *beta = &item->views[LA_BETA];
  const uint32_t activation = item->uniforms->beta_activation;
  gather(item, beta, s->first, s->count, beta->shape[2] == 1 ? 0 : item->head, s->betas);
  if (activation == LA_BETA_NONE) {
    return;
  }
  for (size_t t = s->count; t % VEC_LANES != 0; t++) {
    s->betas[t] = 0.0f;
  }
  for (size_t t = 0; t < s->count; t += VEC_LANES) {
    const vec weight = vec_sigmoid(vec_load(s->betas + t));
    vec_store(s->betas + t,
              activation == LA_BETA_TWICE_SIGMOID ? vec_mul(vec_set(2.0f), weight) : weight);
  }
}

/* Divides `work` (at least 8 rows, or SEGMENT_FLOATS) into rows. */
static void segment_init(segment *s, const quire_linear_attention_item *item, float *work,
                         size_t floats) {
  const size_t pitch = (item->dk + 15) / 16 * 16;
  const size_t kinds = quire_linear_attention_decays_by_channel(item) ? 3 : 2;
  const size_t rows = floats / pitch;
  const size_t capacity = (rows - kinds) / kinds; /* kinds - 1 rows beyond, and the extra one */
  s->pitch = pitch;
  s->capacity = capacity < SEGMENT_MAX ? capacity : SEGMENT_MAX;
  s->by_channel = kinds == 3;
  s->keys = work;
  s->queries = s->keys + (s->capacity + 1) * pitch;
  s->extra = s->queries + s->capacity * pitch;
  s->factor_rows = s->extra + pitch;
}

/* The factors of the segment's token t: a row, or NULL and one for all channels. */
static const float *segment_factors(const segment *s, size_t t) {
  return s->by_channel ? s->factor_rows + t * s->pitch : NULL;
}

/* Loads the tokens from `first` on, at most the segment's capacity. */
static void segment_load(segment *s, const quire_linear_attention_item *item, int64_t first) {
  const size_t rest = (size_t)(item->tokens - first);
  s->first = first;
  s->count = rest < s->capacity ? rest : s->capacity;
  const size_t ahead = rest > s->count ? s->count + 1 : s->count;
  const size_t query_head = quire_linear_attention_query_head(item, 0);
  for (size_t t = 0; t < ahead; t++) {
    load_key_row(item, &item->views[LA_KEY], first + (int64_t)t, item->key_head, s->pitch,
                 s->keys + t * s->pitch);
  }
  for (size_t t = 0; t < s->count; t++) {
    load_key_row(item, &item->views[LA_QUERY], first + (int64_t)t, query_head, s->pitch,
                 s->queries + t * s->pitch);
  }
  if (s->by_channel) {
    for (size_t t = 0; t < ahead; t++) {
      load_channel_factors(item, s, t);
    }
  } else if (item->uniforms->uses_decay) {
    load_head_factors(item, s, ahead);
  } else {
    for (size_t t = 0; t < ahead; t++) {
      s->factors[t] = 1.0f; /* x * 1 is x */
    }
  }
  if (item->uniforms->uses_delta) {
    load_betas(item, s);
  }
  for (size_t t = 0; quire_linear_attention_logs(item) && t < s->count; t++) {
    quire_linear_attention_log_token(item, first + (int64_t)t, s->keys + t * s->pitch,
                                     segment_factors(s, t), s->factors[t]);
  }
}

/* Asks for the cache lines of `bytes` bytes of a token's row, if the sequence has that token. */
static void prefetch_row(const quire_linear_attention_item *item, const quire_view *view,
                         int64_t token, size_t channel, size_t count) {
  if (token < item->tokens) {
    const char *row = quire_linear_attention_token_row(item, view, token, channel);
    const size_t bytes = count * element_size(view->dtype);
    for (size_t at = 0; at < bytes; at += 64) {
      vec_prefetch(row + at);
    }
  }
}

/* Asks for what segment_load will read of the token one segment after token n. */
static void segment_prefetch(const segment *s, const quire_linear_attention_item *item, size_t n) {
  const int64_t token = s->first + (int64_t)(n + s->capacity + 1);
  const quire_view *decay = &item->views[LA_DECAY];
  prefetch_row(item, &item->views[LA_KEY], token, item->key_head * item->dk, item->dk);
  prefetch_row(item, &item->views[LA_QUERY], token,
               quire_linear_attention_query_head(item, 0) * item->dk, item->dk);
  if (s->by_channel && decay->shape[2] != (int64_t)item->uniforms->kv_num_heads) {
    prefetch_row(item, decay, token, item->head * item->dk, item->dk);
  }
}

#endif
