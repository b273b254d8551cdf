/*
 * Sweeps that touch a K-major state where it lies. One token without a copy: a sweep that
 * retrieves, and one that decays again (to the same bits), updates, reads out and stores. Several
 * tokens: the first sweep into the tile, the last one out of it, and one that also keeps a state.
 * STEP_VECTORS vectors of columns at a time; STEP_BY_CHANNEL as in the sweeps; STEP_TYPE f32, f16
 * or bf16 with STEP_ELEMENT, STEP_LOAD(p) and STEP_STORE(p, x). Define them, then include.
 */
#define STEP_PASTE(name, type, vectors, by_channel) name##_##type##_##vectors##_##by_channel
#define STEP_EXPAND(name, type, vectors, by_channel) STEP_PASTE(name, type, vectors, by_channel)
#define STEP_NAME(name) STEP_EXPAND(name, STEP_TYPE, STEP_VECTORS, STEP_BY_CHANNEL)
#define STEP_EACH(M, x) SIMD_REPEAT(STEP_VECTORS, M, x)
#define STEP_WIDTH (STEP_VECTORS * VEC_LANES)
#define STEP_FACTOR(i) (STEP_BY_CHANNEL ? vec_set(factors[i]) : factor)
/* Of chain c and vector v; the sums, and what is done for a row i of chain c. */
#define STEP_ZERO(sums, v) sums[0][v] = sums[1][v] = vec_zero();
#define STEP_LOAD_UPDATE(s, v) update[v] = vec_load(s->update + v * VEC_LANES);
#define STEP_SUM_READ(s, v) vec_store(s->read + v * VEC_LANES, vec_add(read[0][v], read[1][v]));
#define STEP_SUM_RETRIEVED(s, v) \
  vec_store(s->retrieved + v * VEC_LANES, vec_add(retrieved[0][v], retrieved[1][v]));
/* Rows in pairs, the even and the odd chain; a last row is even. */
#define STEP_ROWS(ROW)                \
  size_t i = 0;                       \
  for (; i + 2 <= channels; i += 2) { \
    ROW(0) ROW(1)                     \
  }                                   \
  if (i < channels) {                 \
    ROW(0)                            \
  }

/* Steps 1 and 2, nothing stored. */
#define STEP_RETRIEVE_VECTOR(c, v) \
  retrieved[c][v] = vec_fma(vec_mul(STEP_LOAD(row + v * VEC_LANES), f), k, retrieved[c][v]);
#define STEP_RETRIEVE_ROW(c)           \
  {                                    \
    const vec k = vec_set(key[i + c]); \
    const vec f = STEP_FACTOR(i + c);  \
    STEP_EACH(STEP_RETRIEVE_VECTOR, c) \
    row += pitch;                      \
  }
static void STEP_NAME(step_retrieve)(const step *s) {
  vec retrieved[2][STEP_VECTORS];
  STEP_EACH(STEP_ZERO, retrieved)
  const size_t channels = s->channels;
  const float *const key = s->key;
  const float *const factors = s->factors;
  const vec factor = vec_set(s->factor);
  (void)factors;
  (void)factor;
  const int64_t pitch = s->past_pitch;
  const STEP_ELEMENT *row = (const STEP_ELEMENT *)s->past;
  STEP_ROWS(STEP_RETRIEVE_ROW)
  STEP_EACH(STEP_SUM_RETRIEVED, s)
}
#undef STEP_RETRIEVE_VECTOR
#undef STEP_RETRIEVE_ROW

/* Steps 1, 4 and 5. */
#define STEP_UPDATE_VECTOR(c, v)                                                     \
  {                                                                                  \
    const vec x = vec_fma(k, update[v], vec_mul(STEP_LOAD(row + v * VEC_LANES), f)); \
    read[c][v] = vec_fma(x, q, read[c][v]);                                          \
    STEP_STORE(out + v * VEC_LANES, x);                                              \
  }
#define STEP_UPDATE_ROW(c)               \
  {                                      \
    const vec k = vec_set(key[i + c]);   \
    const vec q = vec_set(query[i + c]); \
    const vec f = STEP_FACTOR(i + c);    \
    STEP_EACH(STEP_UPDATE_VECTOR, c)     \
    row += pitch;                        \
    out += out_pitch;                    \
  }
static void STEP_NAME(step_update)(const step *s) {
  vec read[2][STEP_VECTORS];
  vec update[STEP_VECTORS];
  STEP_EACH(STEP_ZERO, read)
  STEP_EACH(STEP_LOAD_UPDATE, s)
  const size_t channels = s->channels;
  const float *const key = s->key;
  const float *const query = s->query;
  const float *const factors = s->factors;
  const vec factor = vec_set(s->factor);
  (void)factors;
  (void)factor;
  const int64_t pitch = s->past_pitch;
  const STEP_ELEMENT *row = (const STEP_ELEMENT *)s->past;
  const int64_t out_pitch = s->present_pitch;
  STEP_ELEMENT *out = (STEP_ELEMENT *)s->present;
  STEP_ROWS(STEP_UPDATE_ROW)
  STEP_EACH(STEP_SUM_READ, s)
}
#undef STEP_UPDATE_VECTOR
#undef STEP_UPDATE_ROW

/* Steps 1 and 2 of the first token, from the state into the tile. */
#define STEP_BEGIN_VECTOR(c, v)                               \
  {                                                           \
    const vec x = vec_mul(STEP_LOAD(row + v * VEC_LANES), f); \
    retrieved[c][v] = vec_fma(x, k, retrieved[c][v]);         \
    vec_store(tile_row + v * VEC_LANES, x);                   \
  }
#define STEP_BEGIN_ROW(c)              \
  {                                    \
    const vec k = vec_set(key[i + c]); \
    const vec f = STEP_FACTOR(i + c);  \
    STEP_EACH(STEP_BEGIN_VECTOR, c)    \
    row += pitch;                      \
    tile_row += STEP_WIDTH;            \
  }
static void STEP_NAME(step_begin)(const step *s) {
  vec retrieved[2][STEP_VECTORS];
  STEP_EACH(STEP_ZERO, retrieved)
  const size_t channels = s->channels;
  const float *const key = s->key;
  const float *const factors = s->factors;
  const vec factor = vec_set(s->factor);
  (void)factors;
  (void)factor;
  const int64_t pitch = s->past_pitch;
  const STEP_ELEMENT *row = (const STEP_ELEMENT *)s->past;
  float *tile_row = s->tile;
  STEP_ROWS(STEP_BEGIN_ROW)
  STEP_EACH(STEP_SUM_RETRIEVED, s)
}
#undef STEP_BEGIN_VECTOR
#undef STEP_BEGIN_ROW

/* Steps 4 and 5 of a token whose state is kept, and steps 1 and 2 of the next. */
#define STEP_KEEP_VECTOR(c, v)                                         \
  {                                                                    \
    vec x = vec_fma(k, update[v], vec_load(tile_row + v * VEC_LANES)); \
    read[c][v] = vec_fma(x, q, read[c][v]);                            \
    STEP_STORE(out + v * VEC_LANES, x);                                \
    x = vec_mul(x, f);                                                 \
    retrieved[c][v] = vec_fma(x, n, retrieved[c][v]);                  \
    vec_store(tile_row + v * VEC_LANES, x);                            \
  }
#define STEP_KEEP_ROW(c)                    \
  {                                         \
    const vec k = vec_set(key[i + c]);      \
    const vec q = vec_set(query[i + c]);    \
    const vec n = vec_set(next_key[i + c]); \
    const vec f = STEP_FACTOR(i + c);       \
    STEP_EACH(STEP_KEEP_VECTOR, c)          \
    out += out_pitch;                       \
    tile_row += STEP_WIDTH;                 \
  }
static void STEP_NAME(step_keep)(const step *s) {
  vec read[2][STEP_VECTORS];
  vec retrieved[2][STEP_VECTORS];
  vec update[STEP_VECTORS];
  STEP_EACH(STEP_ZERO, read)
  STEP_EACH(STEP_ZERO, retrieved)
  STEP_EACH(STEP_LOAD_UPDATE, s)
  const size_t channels = s->channels;
  const float *const key = s->key;
  const float *const query = s->query;
  const float *const next_key = s->next_key;
  const float *const factors = s->factors;
  const vec factor = vec_set(s->factor);
  (void)factors;
  (void)factor;
  const int64_t out_pitch = s->present_pitch;
  STEP_ELEMENT *out = (STEP_ELEMENT *)s->present;
  float *tile_row = s->tile;
  STEP_ROWS(STEP_KEEP_ROW)
  STEP_EACH(STEP_SUM_READ, s)
  STEP_EACH(STEP_SUM_RETRIEVED, s)
}
#undef STEP_KEEP_VECTOR
#undef STEP_KEEP_ROW

#if !STEP_BY_CHANNEL
/* Steps 4 and 5 of the last token, from the tile into the state. */
#define STEP_END_VECTOR(c, v)                                                \
  {                                                                          \
    const vec x = vec_fma(k, update[v], vec_load(tile_row + v * VEC_LANES)); \
    read[c][v] = vec_fma(x, q, read[c][v]);                                  \
    STEP_STORE(out + v * VEC_LANES, x);                                      \
  }
#define STEP_END_ROW(c)                  \
  {                                      \
    const vec k = vec_set(key[i + c]);   \
    const vec q = vec_set(query[i + c]); \
    STEP_EACH(STEP_END_VECTOR, c)        \
    out += out_pitch;                    \
    tile_row += STEP_WIDTH;              \
  }
static void STEP_NAME(step_end)(const step *s) {
  vec read[2][STEP_VECTORS];
  vec update[STEP_VECTORS];
  STEP_EACH(STEP_ZERO, read)
  STEP_EACH(STEP_LOAD_UPDATE, s)
  const size_t channels = s->channels;
  const float *const key = s->key;
  const float *const query = s->query;
  const int64_t out_pitch = s->present_pitch;
  STEP_ELEMENT *out = (STEP_ELEMENT *)s->present;
  float *tile_row = s->tile;
  STEP_ROWS(STEP_END_ROW)
  STEP_EACH(STEP_SUM_READ, s)
}
#undef STEP_END_VECTOR
#undef STEP_END_ROW
#endif

#undef STEP_PASTE
#undef STEP_EXPAND
#undef STEP_NAME
#undef STEP_EACH
#undef STEP_WIDTH
#undef STEP_FACTOR
#undef STEP_ZERO
#undef STEP_LOAD_UPDATE
#undef STEP_SUM_READ
#undef STEP_SUM_RETRIEVED
#undef STEP_ROWS
#undef STEP_BY_CHANNEL
