/* The definition in float64, written without regard to speed or to the kernels' structure. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "linear_attention_harness.h"

typedef struct sequence {
  const la_call *call;
  int64_t number, row, first, tokens;
} sequence;

static size_t state_index(const la_call *c, int64_t matrix, int64_t i, int64_t j) {
  int64_t element = c->v_major ? j * c->dk + i : i * c->dv + j;
  return (size_t)(matrix * c->dk * c->dv + element);
}

/* Number of the state matrix of (window slot, sequence, head). */
static int64_t matrix_of(const la_call *c, int64_t slot, int64_t n, int64_t h) {
  return (slot * la_sequences(c) + n) * c->kv_heads + h;
}

static double packed(const sequence *s, const float *tensor, int64_t t, int64_t width,
                     int64_t channel) {
  int64_t row = s->row * s->call->tokens + s->first + t;
  return tensor[row * width + channel];
}

static double norm_factor(const sequence *s, const float *tensor, int64_t t, int64_t heads,
                          int64_t h) {
  double sum = 0;
  for (int64_t i = 0; s->call->l2_norm && i < s->call->dk; i++) {
    double x = packed(s, tensor, t, heads * s->call->dk, h * s->call->dk + i);
    sum += x * x;
  }
  return s->call->l2_norm ? 1 / sqrt(sum + s->call->epsilon) : 1;
}

static double softplus(double x) {
  return fmax(x, 0) + log1p(exp(-fabs(x)));
}

static double factor_at(const sequence *s, int64_t t, int64_t h, int64_t i) {
  const la_call *c = s->call;
  if (c->rule != LA_GATED && c->rule != LA_GATED_DELTA) {
    return 1;
  }
  int64_t channel = c->decay_width == c->kv_heads ? h : h * c->dk + i;
  double g = packed(s, c->decay, t, c->decay_width, channel);
  if (c->gate) {
    int64_t bias = c->dt_bias_width == c->kv_heads ? h : h * c->dk + i;
    g = -exp((double)c->a_log[h]) * softplus(g + (double)c->dt_bias[bias]);
  }
  return exp(g);
}

static double beta_at(const sequence *s, int64_t t, int64_t h) {
  const la_call *c = s->call;
  double beta = packed(s, c->beta, t, c->beta_width, c->beta_width == 1 ? 0 : h);
  if (c->beta_activation) {
    beta = (c->beta_activation == 2 ? 2 : 1) / (1 + exp(-beta));
  }
  return beta;
}

static void step(const sequence *s, int64_t t, int64_t h, double *state) {
  const la_call *c = s->call;
  int64_t key_head = c->tiled ? h % c->key_heads : h / (c->kv_heads / c->key_heads);
  double norm = norm_factor(s, c->key, t, c->key_heads, key_head);
  for (int64_t j = 0; j < c->dv; j++) {
    double retrieved = 0;
    for (int64_t i = 0; i < c->dk; i++) {
      double k = norm * packed(s, c->key, t, c->key_heads * c->dk, key_head * c->dk + i);
      state[i * c->dv + j] *= factor_at(s, t, h, i);
      retrieved += state[i * c->dv + j] * k;
    }
    double u = packed(s, c->value, t, c->kv_heads * c->dv, h * c->dv + j);
    if (c->rule == LA_DELTA || c->rule == LA_GATED_DELTA) {
      u = beta_at(s, t, h) * (u - retrieved);
    }
    for (int64_t i = 0; i < c->dk; i++) {
      double k = norm * packed(s, c->key, t, c->key_heads * c->dk, key_head * c->dk + i);
      state[i * c->dv + j] += k * u;
    }
  }
}

static void read_out(const sequence *s, int64_t t, int64_t h, const double *state, double *output) {
  const la_call *c = s->call;
  int64_t heads = la_output_heads(c);
  double scale = c->scale != 0 ? (double)c->scale : 1 / sqrt((double)c->dk);
  for (int64_t o = 0; o < heads; o++) {
    int64_t owner = c->tiled                    ? o % c->kv_heads
                    : c->q_heads >= c->kv_heads ? o / (c->q_heads / c->kv_heads)
                                                : o;
    if (owner != h) {
      continue;
    }
    int64_t q = c->tiled                    ? o % c->q_heads
                : c->q_heads >= c->kv_heads ? o
                                            : o / (c->kv_heads / c->q_heads);
    double norm = norm_factor(s, c->query, t, c->q_heads, q);
    for (int64_t j = 0; j < c->dv; j++) {
      double sum = 0;
      for (int64_t i = 0; i < c->dk; i++) {
        sum +=
            state[i * c->dv + j] * norm * packed(s, c->query, t, c->q_heads * c->dk, q * c->dk + i);
      }
      int64_t row = s->row * c->tokens + s->first + t;
      output[(row * heads + o) * c->dv + j] = scale * sum;
    }
  }
}

static void load(const sequence *s, int64_t h, double *state) {
  const la_call *c = s->call;
  int64_t slot = c->pool ? c->read_indices[s->number] : 0;
  const float *source = c->pool ? c->pool : c->past;
  int64_t matrix = c->pool ? slot * c->kv_heads + h
                           : matrix_of(c, c->window > 0 ? c->window - 1 : 0, s->number, h);
  for (int64_t i = 0; i < c->dk; i++) {
    for (int64_t j = 0; j < c->dv; j++) {
      state[i * c->dv + j] = source && slot >= 0 ? (double)source[state_index(c, matrix, i, j)] : 0;
    }
  }
}

static void store(const sequence *s, int64_t slot, int64_t h, const double *state, double *present,
                  double *pool) {
  const la_call *c = s->call;
  int64_t matrix = matrix_of(c, slot, s->number, h);
  double *target = present;
  if (c->pool) {
    int64_t width = c->window > 0 ? c->window : 1;
    int64_t index = c->write_indices[s->number * width + slot];
    if (index < 0) {
      return;
    }
    matrix = index * c->kv_heads + h;
    target = pool;
  }
  if (!target) {
    return;
  }
  for (int64_t i = 0; i < c->dk; i++) {
    for (int64_t j = 0; j < c->dv; j++) {
      target[state_index(c, matrix, i, j)] = state[i * c->dv + j];
    }
  }
}

static void run(const sequence *s, int64_t h, double *state, double *output, double *present,
                double *pool) {
  int64_t slots = s->call->window > 0 ? s->call->window : 1;
  load(s, h, state);
  if (s->tokens == 0) {
    store(s, slots - 1, h, state, present, pool);
  }
  for (int64_t t = 0; t < s->tokens; t++) {
    step(s, t, h, state);
    read_out(s, t, h, state, output);
    if (t + slots - s->tokens >= 0) {
      store(s, t + slots - s->tokens, h, state, present, pool);
    }
  }
}

void la_reference(const la_call *call, double *output, double *present, double *pool) {
  double *state = calloc((size_t)(call->dk * call->dv) + 1, sizeof(double));
  if (present) {
    memset(present, 0, la_state_count(call) * sizeof(double));
  }
  for (int64_t n = 0; n < la_sequences(call); n++) {
    sequence s = {call, n, n, 0, call->tokens};
    if (call->cu_seqlens) {
      s.row = 0;
      s.first = call->cu_seqlens[n];
      s.tokens = call->cu_seqlens[n + 1] - call->cu_seqlens[n];
    }
    for (int64_t h = 0; h < call->kv_heads; h++) {
      run(&s, h, state, output, present, pool);
    }
  }
  free(state);
}
