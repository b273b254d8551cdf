/*
 * The convolution for tensors of one element type. Included by causal_conv_body.h with
 * QUIRE_ELEMENT (f32, f16, bf16) and QUIRE_ELEMENT_BYTES defined.
 */
#define ELEMENT_PASTE_(name, element) conv_##name##_##element
#define ELEMENT_PASTE(name, element) ELEMENT_PASTE_(name, element)
#define ELEMENT(name) ELEMENT_PASTE(name, QUIRE_ELEMENT)

/* n contiguous elements as floats. */
static inline void ELEMENT(widen)(const unsigned char *from, size_t n, float *to) {
  size_t i = 0;
  for (; i + VEC_LANES <= n; i += VEC_LANES) {
    vec_store(to + i, ELEMENT(load)(from + i * QUIRE_ELEMENT_BYTES));
  }
  if (i < n) {
    vec_store_first(to + i, n - i, ELEMENT(load_first)(from + i * QUIRE_ELEMENT_BYTES, n - i));
  }
}

/* ---- rows: channels last ---- */

/* Weights as rows of `pitch` channels, a row per tap, then the bias. */
static void ELEMENT(tile)(const quire_causal_conv_item *item, size_t first, size_t count,
                          size_t pitch, float *tile) {
  const size_t taps = (size_t)item->taps;
  float buffer[CONV_TAPS * VEC_LANES];
  for (size_t done = 0; done < count; done += VEC_LANES) {
    const size_t n = conv_least(count - done, VEC_LANES);
    ELEMENT(widen)(item->weight + (first + done) * taps * QUIRE_ELEMENT_BYTES, n * taps, buffer);
    conv_transpose(buffer, n, taps, tile + done, pitch);
    vec bias = vec_zero();
    if (item->bias) {
      bias = ELEMENT(load_first)(item->bias + (first + done) * QUIRE_ELEMENT_BYTES, n);
    }
    vec_store(tile + taps * pitch + done, bias);
  }
}

/* One token: `rows` are those of the taps, NULL where there is no past. */
static inline void ELEMENT(token)(const float *tile, size_t pitch, const unsigned char *const *rows,
                                  size_t taps, size_t count, bool silu, unsigned char *output) {
  size_t channel = 0;
  for (; channel + VEC_LANES <= count; channel += VEC_LANES) {
    vec sum = vec_load(tile + taps * pitch + channel);
    for (size_t tap = 0; tap < taps; ++tap) {
      const vec x = ELEMENT(load)(rows[tap] + channel * QUIRE_ELEMENT_BYTES);
      sum = vec_fma(vec_load(tile + tap * pitch + channel), x, sum);
    }
    ELEMENT(store_first)
    (output + channel * QUIRE_ELEMENT_BYTES, VEC_LANES, conv_activate(sum, silu));
  }
  if (channel < count) {
    const size_t n = count - channel;
    vec sum = vec_load(tile + taps * pitch + channel);
    for (size_t tap = 0; tap < taps; ++tap) {
      const vec x = ELEMENT(load_first)(rows[tap] + channel * QUIRE_ELEMENT_BYTES, n);
      sum = vec_fma(vec_load_first(tile + tap * pitch + channel, n), x, sum);
    }
    ELEMENT(store_first)(output + channel * QUIRE_ELEMENT_BYTES, n, conv_activate(sum, silu));
  }
}

static void ELEMENT(rows)(const quire_causal_conv_item *item) {
  static const unsigned char zeros[CONV_CHANNELS * QUIRE_ELEMENT_BYTES];
  float tile[CONV_TILE];
  const unsigned char *rows[CONV_TAPS];
  const size_t taps = (size_t)item->taps;
  const size_t room = CONV_TILE / (taps + 1) / VEC_LANES * VEC_LANES;
  const size_t pitch = conv_least(room, CONV_CHANNELS);
  for (size_t first = 0; first < item->channels; first += pitch) {
    const size_t count = conv_least(item->channels - first, pitch);
    ELEMENT(tile)(item, first, count, pitch, tile);
    for (int64_t token = 0; token < item->tokens; ++token) {
      for (size_t tap = 0; tap < taps; ++tap) {
        const int64_t position = token - (int64_t)(taps - 1 - tap) * item->dilation;
        rows[tap] = position >= 0 ? quire_causal_conv_at(&item->input, first, position)
                    : item->past.data
                        ? quire_causal_conv_at(&item->past, first, item->state_length + position)
                        : zeros;
      }
      unsigned char *output = quire_causal_conv_at(&item->output, first, token);
      if (taps == 4) { /* what models have: unrolled */
        ELEMENT(token)(tile, pitch, rows, 4, count, item->silu, output);
      } else {
        ELEMENT(token)(tile, pitch, rows, taps, count, item->silu, output);
      }
    }
  }
}

/* ---- lines: channels first, many tokens ---- */

/* Tokens that reach into the past: element i of `head` is position i - state_length. */
static void ELEMENT(line_head)(const quire_causal_conv_item *item, size_t channel,
                               const float *weights, vec bias, size_t tokens) {
  float head[2 * CONV_LINE_STATE + VEC_LANES];
  const size_t length = (size_t)item->state_length;
  if (item->past.data) {
    ELEMENT(widen)(quire_causal_conv_at(&item->past, channel, 0), length, head);
  } else {
    for (size_t i = 0; i < length; ++i) {
      head[i] = 0.0f;
    }
  }
  ELEMENT(widen)(quire_causal_conv_at(&item->input, channel, 0), tokens, head + length);
  vec_store(head + length + tokens, vec_zero());
  for (size_t token = 0; token < tokens; token += VEC_LANES) {
    vec sum = bias;
    for (size_t tap = 0; tap < (size_t)item->taps; ++tap) {
      const float *x = head + token + tap * (size_t)item->dilation;
      sum = vec_fma(vec_set(weights[tap]), vec_load(x), sum);
    }
    ELEMENT(store_first)
    (quire_causal_conv_at(&item->output, channel, (int64_t)token),
     conv_least(tokens - token, VEC_LANES), conv_activate(sum, item->silu));
  }
}

static inline void ELEMENT(line)(const quire_causal_conv_item *item, const unsigned char *input,
                                 unsigned char *output, const float *weights, vec bias, size_t taps,
                                 size_t tokens) {
  const size_t step = (size_t)item->dilation * QUIRE_ELEMENT_BYTES;
  size_t token = 0;
  for (; token + VEC_LANES <= tokens; token += VEC_LANES) {
    const unsigned char *x = input + token * QUIRE_ELEMENT_BYTES;
    vec sum = bias;
    for (size_t tap = 0; tap < taps; ++tap) {
      sum = vec_fma(vec_set(weights[tap]), ELEMENT(load)(x + tap * step), sum);
    }
    ELEMENT(store_first)
    (output + token * QUIRE_ELEMENT_BYTES, VEC_LANES, conv_activate(sum, item->silu));
  }
  if (token < tokens) {
    const unsigned char *x = input + token * QUIRE_ELEMENT_BYTES;
    const size_t n = tokens - token;
    vec sum = bias;
    for (size_t tap = 0; tap < taps; ++tap) {
      sum = vec_fma(vec_set(weights[tap]), ELEMENT(load_first)(x + tap * step, n), sum);
    }
    ELEMENT(store_first)
    (output + token * QUIRE_ELEMENT_BYTES, n, conv_activate(sum, item->silu));
  }
}

static void ELEMENT(lines)(const quire_causal_conv_item *item) {
  const size_t taps = (size_t)item->taps;
  const size_t tokens = (size_t)item->tokens;
  const size_t head = conv_least(tokens, (size_t)item->state_length);
  for (size_t channel = 0; channel < item->channels; ++channel) {
    float weights[CONV_TAPS];
    float bias = 0.0f;
    ELEMENT(widen)(item->weight + channel * taps * QUIRE_ELEMENT_BYTES, taps, weights);
    if (item->bias) {
      ELEMENT(widen)(item->bias + channel * QUIRE_ELEMENT_BYTES, 1, &bias);
    }
    if (head > 0) {
      ELEMENT(line_head)(item, channel, weights, vec_set(bias), head);
    }
    const unsigned char *input = quire_causal_conv_at(&item->input, channel, 0);
    unsigned char *output = quire_causal_conv_at(&item->output, channel, (int64_t)head);
    if (taps == 4) {
      ELEMENT(line)(item, input, output, weights, vec_set(bias), 4, tokens - head);
    } else {
      ELEMENT(line)(item, input, output, weights, vec_set(bias), taps, tokens - head);
    }
  }
}

/* ---- transposed: channels first, few tokens ---- */

/* Runs of `length` elements of n channels into columns of `to`. */
static inline void ELEMENT(columns)(const unsigned char *from, int64_t channel_stride, size_t n,
                                    size_t length, float *to) {
  float buffer[CONV_COLUMN_STATE * CONV_COLUMNS];
  if (channel_stride == (int64_t)(length * QUIRE_ELEMENT_BYTES)) {
    ELEMENT(widen)(from, n * length, buffer);
  } else {
    for (size_t channel = 0; channel < n; ++channel) {
      ELEMENT(widen)(from + (int64_t)channel * channel_stride, length, buffer + channel * length);
    }
  }
  conv_transpose(buffer, n, length, to, CONV_COLUMNS);
}

static void ELEMENT(store_column)(const quire_causal_conv_item *item, size_t first, size_t n,
                                  const float *results) {
  const size_t tokens = (size_t)item->tokens;
  for (size_t channel = 0; channel < n; ++channel) {
    float line[CONV_FEW_TOKENS];
    for (size_t token = 0; token < tokens; ++token) {
      line[token] = results[token * CONV_COLUMNS + channel];
    }
    unsigned char *output = quire_causal_conv_at(&item->output, first + channel, 0);
    for (size_t token = 0; token < tokens; token += VEC_LANES) {
      const size_t part = conv_least(tokens - token, VEC_LANES);
      ELEMENT(store_first)
      (output + token * QUIRE_ELEMENT_BYTES, part, vec_load_first(line + token, part));
    }
  }
}

/* VEC_LANES channels, or the n last ones. */
static inline void ELEMENT(transposed_group)(const quire_causal_conv_item *item, size_t first,
                                             size_t n) {
  float x[(CONV_COLUMN_STATE + CONV_FEW_TOKENS) * CONV_COLUMNS]; /* past, then tokens */
  float weights[CONV_TAPS * CONV_COLUMNS];
  float results[CONV_FEW_TOKENS * CONV_COLUMNS];
  const size_t taps = (size_t)item->taps;
  const size_t length = (size_t)item->state_length;
  const size_t tokens = (size_t)item->tokens;
  ELEMENT(columns)
  (item->weight + first * taps * QUIRE_ELEMENT_BYTES, (int64_t)(taps * QUIRE_ELEMENT_BYTES), n,
   taps, weights);
  if (item->past.data) {
    ELEMENT(columns)
    (quire_causal_conv_at(&item->past, first, 0), item->past.channel_stride, n, length, x);
  } else {
    for (size_t i = 0; i < length; ++i) {
      vec_store(x + i * CONV_COLUMNS, vec_zero());
    }
  }
  ELEMENT(columns)
  (quire_causal_conv_at(&item->input, first, 0), item->input.channel_stride, n, tokens,
   x + length * CONV_COLUMNS);
  vec bias = vec_zero();
  if (item->bias) {
    bias = ELEMENT(load_first)(item->bias + first * QUIRE_ELEMENT_BYTES, n);
  }
  for (size_t token = 0; token < tokens; ++token) {
    vec sum = bias;
    for (size_t tap = 0; tap < taps; ++tap) {
      const float *row = x + (token + tap * (size_t)item->dilation) * CONV_COLUMNS;
      sum = vec_fma(vec_load_first(weights + tap * CONV_COLUMNS, n), vec_load_first(row, n), sum);
    }
    const vec result = conv_activate(sum, item->silu);
    if (tokens == 1 && item->output.channel_stride == QUIRE_ELEMENT_BYTES) {
      ELEMENT(store_first)(quire_causal_conv_at(&item->output, first, 0), n, result);
      return;
    }
    vec_store(results + token * CONV_COLUMNS, result);
  }
  ELEMENT(store_column)(item, first, n, results);
}

static void ELEMENT(transposed)(const quire_causal_conv_item *item) {
  size_t first = 0;
  for (; first + CONV_COLUMNS <= item->channels; first += CONV_COLUMNS) {
    ELEMENT(transposed_group)(item, first, CONV_COLUMNS);
  }
  if (first < item->channels) {
    ELEMENT(transposed_group)(item, first, item->channels - first);
  }
}

/* All outputs of an item. */
static void ELEMENT(channels)(const quire_causal_conv_item *item) {
  if (item->channels_last) {
    ELEMENT(rows)(item);
  } else if (item->tokens >= CONV_FEW_TOKENS) {
    ELEMENT(lines)(item);
  } else if (item->tokens > 0) {
    ELEMENT(transposed)(item);
  }
}

#undef ELEMENT
#undef ELEMENT_PASTE
#undef ELEMENT_PASTE_
