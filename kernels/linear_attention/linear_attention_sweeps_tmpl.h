/*
 * Sweeps over SWEEP_VECTORS vectors of columns of a K-major tile, in the order of NU-9: reductions
 * over key channels run in two chains, even and odd channels, added even + odd. Define
 * SWEEP_VECTORS, and SWEEP_BY_CHANNEL (1: factors differ between key channels), then include.
 */
#define SWEEP_PASTE(name, vectors, by_channel) name##_##vectors##_##by_channel
#define SWEEP_EXPAND(name, vectors, by_channel) SWEEP_PASTE(name, vectors, by_channel)
#define SWEEP_NAME(name) SWEEP_EXPAND(name, SWEEP_VECTORS, SWEEP_BY_CHANNEL)
#define SWEEP_EACH(M, x) SIMD_REPEAT(SWEEP_VECTORS, M, x)
#define SWEEP_WIDTH (SWEEP_VECTORS * VEC_LANES)
#define SWEEP_FACTOR(i) (SWEEP_BY_CHANNEL ? vec_set(factors[i]) : factor)
/* Of chain c and vector v; the sums, and what is done for a row i of chain c. */
#define SWEEP_ZERO(sums, v) sums[0][v] = sums[1][v] = vec_zero();
#define SWEEP_LOAD_UPDATE(s, v) update[v] = vec_load(s->update + v * VEC_LANES);
#define SWEEP_SUM_READ(s, v) vec_store(s->read + v * VEC_LANES, vec_add(read[0][v], read[1][v]));
#define SWEEP_SUM_RETRIEVED(s, v) \
  vec_store(s->retrieved + v * VEC_LANES, vec_add(retrieved[0][v], retrieved[1][v]));
/* Rows in pairs, the even and the odd chain; a last row is even. */
#define SWEEP_ROWS(ROW)               \
  size_t i = 0;                       \
  for (; i + 2 <= channels; i += 2) { \
    ROW(0) ROW(1)                     \
  }                                   \
  if (i < channels) {                 \
    ROW(0)                            \
  }

/* Steps 4 and 5 of a token, and steps 1 and 2 of the next: one load and one store an element. */
#define SWEEP_FUSED_VECTOR(c, v)                                  \
  {                                                               \
    vec x = vec_fma(k, update[v], vec_load(row + v * VEC_LANES)); \
    read[c][v] = vec_fma(x, q, read[c][v]);                       \
    x = vec_mul(x, f);                                            \
    retrieved[c][v] = vec_fma(x, n, retrieved[c][v]);             \
    vec_store(row + v * VEC_LANES, x);                            \
  }
#define SWEEP_FUSED_ROW(c)                  \
  {                                         \
    const vec k = vec_set(key[i + c]);      \
    const vec q = vec_set(query[i + c]);    \
    const vec n = vec_set(next_key[i + c]); \
    const vec f = SWEEP_FACTOR(i + c);      \
    SWEEP_EACH(SWEEP_FUSED_VECTOR, c)       \
    row += SWEEP_WIDTH;                     \
  }
static void SWEEP_NAME(sweep_fused)(const sweep *s) {
  vec read[2][SWEEP_VECTORS];
  vec retrieved[2][SWEEP_VECTORS];
  vec update[SWEEP_VECTORS];
  SWEEP_EACH(SWEEP_ZERO, read)
  SWEEP_EACH(SWEEP_ZERO, retrieved)
  SWEEP_EACH(SWEEP_LOAD_UPDATE, s)
  const size_t channels = s->channels;
  const float *const key = s->key;
  const float *const query = s->query;
  const float *const next_key = s->next_key;
  const float *const factors = s->factors;
  const vec factor = vec_set(s->factor);
  (void)factors;
  (void)factor;
  float *row = s->tile;
  SWEEP_ROWS(SWEEP_FUSED_ROW)
  SWEEP_EACH(SWEEP_SUM_READ, s)
  SWEEP_EACH(SWEEP_SUM_RETRIEVED, s)
}
#undef SWEEP_FUSED_VECTOR
#undef SWEEP_FUSED_ROW

/* The same for rules that retrieve nothing. */
#define SWEEP_DECAY_VECTOR(c, v)                                  \
  {                                                               \
    vec x = vec_fma(k, update[v], vec_load(row + v * VEC_LANES)); \
    read[c][v] = vec_fma(x, q, read[c][v]);                       \
    vec_store(row + v * VEC_LANES, vec_mul(x, f));                \
  }
#define SWEEP_DECAY_ROW(c)               \
  {                                      \
    const vec k = vec_set(key[i + c]);   \
    const vec q = vec_set(query[i + c]); \
    const vec f = SWEEP_FACTOR(i + c);   \
    SWEEP_EACH(SWEEP_DECAY_VECTOR, c)    \
    row += SWEEP_WIDTH;                  \
  }
static void SWEEP_NAME(sweep_decay)(const sweep *s) {
  vec read[2][SWEEP_VECTORS];
  vec update[SWEEP_VECTORS];
  SWEEP_EACH(SWEEP_ZERO, read)
  SWEEP_EACH(SWEEP_LOAD_UPDATE, s)
  const size_t channels = s->channels;
  const float *const key = s->key;
  const float *const query = s->query;
  const float *const factors = s->factors;
  const vec factor = vec_set(s->factor);
  (void)factors;
  (void)factor;
  float *row = s->tile;
  SWEEP_ROWS(SWEEP_DECAY_ROW)
  SWEEP_EACH(SWEEP_SUM_READ, s)
}
#undef SWEEP_DECAY_VECTOR
#undef SWEEP_DECAY_ROW

/* Steps 1 and 2. */
#define SWEEP_RETRIEVE_VECTOR(c, v)                          \
  {                                                          \
    const vec x = vec_mul(vec_load(row + v * VEC_LANES), f); \
    retrieved[c][v] = vec_fma(x, n, retrieved[c][v]);        \
    vec_store(row + v * VEC_LANES, x);                       \
  }
#define SWEEP_RETRIEVE_ROW(c)               \
  {                                         \
    const vec n = vec_set(next_key[i + c]); \
    const vec f = SWEEP_FACTOR(i + c);      \
    SWEEP_EACH(SWEEP_RETRIEVE_VECTOR, c)    \
    row += SWEEP_WIDTH;                     \
  }
static void SWEEP_NAME(sweep_retrieve)(const sweep *s) {
  vec retrieved[2][SWEEP_VECTORS];
  SWEEP_EACH(SWEEP_ZERO, retrieved)
  const size_t channels = s->channels;
  const float *const next_key = s->next_key;
  const float *const factors = s->factors;
  const vec factor = vec_set(s->factor);
  (void)factors;
  (void)factor;
  float *row = s->tile;
  SWEEP_ROWS(SWEEP_RETRIEVE_ROW)
  SWEEP_EACH(SWEEP_SUM_RETRIEVED, s)
}
#undef SWEEP_RETRIEVE_VECTOR
#undef SWEEP_RETRIEVE_ROW

#if !SWEEP_BY_CHANNEL
/* Steps 4 and 5. */
#define SWEEP_UPDATE_VECTOR(c, v)                                       \
  {                                                                     \
    const vec x = vec_fma(k, update[v], vec_load(row + v * VEC_LANES)); \
    read[c][v] = vec_fma(x, q, read[c][v]);                             \
    vec_store(row + v * VEC_LANES, x);                                  \
  }
#define SWEEP_UPDATE_ROW(c)              \
  {                                      \
    const vec k = vec_set(key[i + c]);   \
    const vec q = vec_set(query[i + c]); \
    SWEEP_EACH(SWEEP_UPDATE_VECTOR, c)   \
    row += SWEEP_WIDTH;                  \
  }
static void SWEEP_NAME(sweep_update)(const sweep *s) {
  vec read[2][SWEEP_VECTORS];
  vec update[SWEEP_VECTORS];
  SWEEP_EACH(SWEEP_ZERO, read)
  SWEEP_EACH(SWEEP_LOAD_UPDATE, s)
  const size_t channels = s->channels;
  const float *const key = s->key;
  const float *const query = s->query;
  float *row = s->tile;
  SWEEP_ROWS(SWEEP_UPDATE_ROW)
  SWEEP_EACH(SWEEP_SUM_READ, s)
}
#undef SWEEP_UPDATE_VECTOR
#undef SWEEP_UPDATE_ROW

/* Step 5 for one more query head. */
#define SWEEP_READ_VECTOR(c, v) read[c][v] = vec_fma(vec_load(row + v * VEC_LANES), q, read[c][v]);
#define SWEEP_READ_ROW(c)                \
  {                                      \
    const vec q = vec_set(query[i + c]); \
    SWEEP_EACH(SWEEP_READ_VECTOR, c)     \
    row += SWEEP_WIDTH;                  \
  }
static void SWEEP_NAME(sweep_read)(const sweep *s) {
  vec read[2][SWEEP_VECTORS];
  SWEEP_EACH(SWEEP_ZERO, read)
  const size_t channels = s->channels;
  const float *const query = s->query;
  const float *row = s->tile;
  SWEEP_ROWS(SWEEP_READ_ROW)
  SWEEP_EACH(SWEEP_SUM_READ, s)
}
#undef SWEEP_READ_VECTOR
#undef SWEEP_READ_ROW
#endif

#undef SWEEP_PASTE
#undef SWEEP_EXPAND
#undef SWEEP_NAME
#undef SWEEP_EACH
#undef SWEEP_WIDTH
#undef SWEEP_FACTOR
#undef SWEEP_ZERO
#undef SWEEP_LOAD_UPDATE
#undef SWEEP_SUM_READ
#undef SWEEP_SUM_RETRIEVED
#undef SWEEP_ROWS
#undef SWEEP_BY_CHANNEL
