/*
 * Sweeps over SWEEP_VECTORS vectors of columns of a tile, a row of the tile for each key channel.
 * The order of reductions over key channels (NU-9) is that of the state's layout:
 *   SWEEP_BY_LANES 0, K-major: two chains, even and odd channels, added even + odd;
 *   SWEEP_BY_LANES 1, V-major: NU-3. Lane n is the chain of the channels n, n+16, n+32, ..., and
 * the chains are added n with n+8, n+4, n+2, n+1. Chains j, j+4, j+8, j+12 run at a time, c = 0
 * to 3. SWEEP_BY_CHANNEL 1: factors differ between key channels. Define the three, then include.
 */
#define SWEEP_PASTE(name, vectors, by_lanes, by_channel) \
  name##_##vectors##_##by_lanes##_##by_channel
#define SWEEP_EXPAND(name, vectors, by_lanes, by_channel) \
  SWEEP_PASTE(name, vectors, by_lanes, by_channel)
#define SWEEP_NAME(name) SWEEP_EXPAND(name, SWEEP_VECTORS, SWEEP_BY_LANES, SWEEP_BY_CHANNEL)
#define SWEEP_EACH(M, x) SIMD_REPEAT(SWEEP_VECTORS, M, x)
#define SWEEP_WIDTH (SWEEP_VECTORS * VEC_LANES)
#define SWEEP_FACTOR(i) (SWEEP_BY_CHANNEL ? vec_set(factors[i]) : factor)
#define SWEEP_LOAD_UPDATE(s, v) update[v] = vec_load(s->update + v * VEC_LANES);

#if SWEEP_BY_LANES
#define SWEEP_AT(c) (i + 4 * c)
#define SWEEP_ZERO(sums, v) sums[0][v] = sums[1][v] = sums[2][v] = sums[3][v] = vec_zero();
/* The chains of lanes j, j+4, j+8, j+12 to parts[j]; then the parts to the result. */
#define SWEEP_JOIN(sums, v)                                     \
  vec_store(sums##_parts + (j * SWEEP_VECTORS + v) * VEC_LANES, \
            vec_add(vec_add(sums[0][v], sums[2][v]), vec_add(sums[1][v], sums[3][v])));
#define SWEEP_PART(sums, j, v) vec_load(sums##_parts + (j * SWEEP_VECTORS + v) * VEC_LANES)
#define SWEEP_FINISH(sums, v)                                                \
  vec_store(s->sums + v * VEC_LANES,                                         \
            vec_add(vec_add(SWEEP_PART(sums, 0, v), SWEEP_PART(sums, 2, v)), \
                    vec_add(SWEEP_PART(sums, 1, v), SWEEP_PART(sums, 3, v))));
#define SWEEP_SUMS(sums)      \
  vec sums[4][SWEEP_VECTORS]; \
  _Alignas(64) float sums##_parts[4 * SWEEP_WIDTH];
#define SWEEP_ROWS(ROW, SUMS)            \
  for (size_t j = 0; j < 4; j++) {       \
    size_t i = j;                        \
    SUMS(SWEEP_ZERO)                     \
    for (; i + 12 < channels; i += 16) { \
      ROW(0) ROW(1) ROW(2) ROW(3)        \
    }                                    \
    if (i < channels) {                  \
      ROW(0)                             \
    }                                    \
    if (i + 4 < channels) {              \
      ROW(1)                             \
    }                                    \
    if (i + 8 < channels) {              \
      ROW(2)                             \
    }                                    \
    SUMS(SWEEP_JOIN)                     \
  }                                      \
  SUMS(SWEEP_FINISH)
#else
#define SWEEP_AT(c) (i + c)
#define SWEEP_ZERO(sums, v) sums[0][v] = sums[1][v] = vec_zero();
#define SWEEP_FINISH(sums, v) vec_store(s->sums + v * VEC_LANES, vec_add(sums[0][v], sums[1][v]));
#define SWEEP_SUMS(sums) vec sums[2][SWEEP_VECTORS];
/* Rows in pairs; a last row is even. */
#define SWEEP_ROWS(ROW, SUMS)         \
  size_t i = 0;                       \
  SUMS(SWEEP_ZERO)                    \
  for (; i + 2 <= channels; i += 2) { \
    ROW(0) ROW(1)                     \
  }                                   \
  if (i < channels) {                 \
    ROW(0)                            \
  }                                   \
  SUMS(SWEEP_FINISH)
#endif
/* What is done to all sums of a sweep. */
#define SWEEP_READ(M) SWEEP_EACH(M, read)
#define SWEEP_RETRIEVED(M) SWEEP_EACH(M, retrieved)
#define SWEEP_BOTH(M) SWEEP_READ(M) SWEEP_RETRIEVED(M)

/* Steps 4 and 5 of a token, and steps 1 and 2 of the next: one load and one store an element. */
#define SWEEP_FUSED_VECTOR(c, v)                                  \
  {                                                               \
    vec x = vec_fma(k, update[v], vec_load(row + v * VEC_LANES)); \
    read[c][v] = vec_fma(x, q, read[c][v]);                       \
    x = vec_mul(x, f);                                            \
    retrieved[c][v] = vec_fma(x, n, retrieved[c][v]);             \
    vec_store(row + v * VEC_LANES, x);                            \
  }
#define SWEEP_FUSED_ROW(c)                                    \
  {                                                           \
    float *const row = tile_data + SWEEP_AT(c) * SWEEP_WIDTH; \
    const vec k = vec_set(key[SWEEP_AT(c)]);                  \
    const vec q = vec_set(query[SWEEP_AT(c)]);                \
    const vec n = vec_set(next_key[SWEEP_AT(c)]);             \
    const vec f = SWEEP_FACTOR(SWEEP_AT(c));                  \
    SWEEP_EACH(SWEEP_FUSED_VECTOR, c)                         \
  }
static void SWEEP_NAME(sweep_fused)(const sweep *s) {
  SWEEP_SUMS(read)
  SWEEP_SUMS(retrieved)
  vec update[SWEEP_VECTORS];
  SWEEP_EACH(SWEEP_LOAD_UPDATE, s)
  const size_t channels = s->channels;
  const float *const key = s->key;
  const float *const query = s->query;
  const float *const next_key = s->next_key;
  const float *const factors = s->factors;
  const vec factor = vec_set(s->factor);
  (void)factors;
  (void)factor;
  float *const tile_data = s->tile;
  SWEEP_ROWS(SWEEP_FUSED_ROW, SWEEP_BOTH)
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
#define SWEEP_DECAY_ROW(c)                                    \
  {                                                           \
    float *const row = tile_data + SWEEP_AT(c) * SWEEP_WIDTH; \
    const vec k = vec_set(key[SWEEP_AT(c)]);                  \
    const vec q = vec_set(query[SWEEP_AT(c)]);                \
    const vec f = SWEEP_FACTOR(SWEEP_AT(c));                  \
    SWEEP_EACH(SWEEP_DECAY_VECTOR, c)                         \
  }
static void SWEEP_NAME(sweep_decay)(const sweep *s) {
  SWEEP_SUMS(read)
  vec update[SWEEP_VECTORS];
  SWEEP_EACH(SWEEP_LOAD_UPDATE, s)
  const size_t channels = s->channels;
  const float *const key = s->key;
  const float *const query = s->query;
  const float *const factors = s->factors;
  const vec factor = vec_set(s->factor);
  (void)factors;
  (void)factor;
  float *const tile_data = s->tile;
  SWEEP_ROWS(SWEEP_DECAY_ROW, SWEEP_READ)
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
#define SWEEP_RETRIEVE_ROW(c)                                 \
  {                                                           \
    float *const row = tile_data + SWEEP_AT(c) * SWEEP_WIDTH; \
    const vec n = vec_set(next_key[SWEEP_AT(c)]);             \
    const vec f = SWEEP_FACTOR(SWEEP_AT(c));                  \
    SWEEP_EACH(SWEEP_RETRIEVE_VECTOR, c)                      \
  }
static void SWEEP_NAME(sweep_retrieve)(const sweep *s) {
  SWEEP_SUMS(retrieved)
  const size_t channels = s->channels;
  const float *const next_key = s->next_key;
  const float *const factors = s->factors;
  const vec factor = vec_set(s->factor);
  (void)factors;
  (void)factor;
  float *const tile_data = s->tile;
  SWEEP_ROWS(SWEEP_RETRIEVE_ROW, SWEEP_RETRIEVED)
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
#define SWEEP_UPDATE_ROW(c)                                   \
  {                                                           \
    float *const row = tile_data + SWEEP_AT(c) * SWEEP_WIDTH; \
    const vec k = vec_set(key[SWEEP_AT(c)]);                  \
    const vec q = vec_set(query[SWEEP_AT(c)]);                \
    SWEEP_EACH(SWEEP_UPDATE_VECTOR, c)                        \
  }
static void SWEEP_NAME(sweep_update)(const sweep *s) {
  SWEEP_SUMS(read)
  vec update[SWEEP_VECTORS];
  SWEEP_EACH(SWEEP_LOAD_UPDATE, s)
  const size_t channels = s->channels;
  const float *const key = s->key;
  const float *const query = s->query;
  float *const tile_data = s->tile;
  SWEEP_ROWS(SWEEP_UPDATE_ROW, SWEEP_READ)
}
#undef SWEEP_UPDATE_VECTOR
#undef SWEEP_UPDATE_ROW

/* Step 5 for one more query head. */
#define SWEEP_READ_VECTOR(c, v) read[c][v] = vec_fma(vec_load(row + v * VEC_LANES), q, read[c][v]);
#define SWEEP_READ_ROW(c)                                     \
  {                                                           \
    float *const row = tile_data + SWEEP_AT(c) * SWEEP_WIDTH; \
    const vec q = vec_set(query[SWEEP_AT(c)]);                \
    SWEEP_EACH(SWEEP_READ_VECTOR, c)                          \
  }
static void SWEEP_NAME(sweep_read)(const sweep *s) {
  SWEEP_SUMS(read)
  const size_t channels = s->channels;
  const float *const query = s->query;
  float *const tile_data = s->tile;
  SWEEP_ROWS(SWEEP_READ_ROW, SWEEP_READ)
}
#undef SWEEP_READ_VECTOR
#undef SWEEP_READ_ROW
#endif

#if SWEEP_BY_LANES
#undef SWEEP_JOIN
#undef SWEEP_PART
#endif
#undef SWEEP_PASTE
#undef SWEEP_EXPAND
#undef SWEEP_NAME
#undef SWEEP_EACH
#undef SWEEP_WIDTH
#undef SWEEP_FACTOR
#undef SWEEP_LOAD_UPDATE
#undef SWEEP_AT
#undef SWEEP_ZERO
#undef SWEEP_FINISH
#undef SWEEP_SUMS
#undef SWEEP_ROWS
#undef SWEEP_READ
#undef SWEEP_RETRIEVED
#undef SWEEP_BOTH
#undef SWEEP_BY_CHANNEL
