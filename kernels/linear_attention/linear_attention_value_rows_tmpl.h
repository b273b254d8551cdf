/*
 * One token on some rows of a V-major state (row: value column; lanes over key channels), in the
 * order of NU-9 and NU-3. ROWS rows at a time; ROWS_BY_CHANNEL, ROWS_TYPE, ROWS_ELEMENT,
 * ROWS_LOAD(p), ROWS_STORE(p, x) as in linear_attention_step_tmpl.h. A row's last channels that do
 * not fill 16 lanes are left to the callers. Define them, then include.
 */
#define ROWS_PASTE(name, type, rows, by_channel) name##_##type##_##rows##_##by_channel
#define ROWS_EXPAND(name, type, rows, by_channel) ROWS_PASTE(name, type, rows, by_channel)
#define ROWS_NAME(name) ROWS_EXPAND(name, ROWS_TYPE, ROWS, ROWS_BY_CHANNEL)
#define ROWS_FACTOR(i) (ROWS_BY_CHANNEL ? vec_load(factors + (i)) : factor)
#define ROWS_EACH(M, x) SIMD_REPEAT(ROWS, M, x)
/* Of part p of the 16 lanes and row r. */
#define ROWS_ZERO(p, r) sums[r].part[p] = vec_zero();
#define ROWS_ZEROS(p) ROWS_EACH(ROWS_ZERO, p)
#define ROWS_UPDATE(s, r) update[r] = vec_set((s)->update[row + r]);
#define ROWS_COPY(x, r) x[r] = sums[r];
/* Groups of 16 channels, part by part. */
#define ROWS_CHANNELS(PART)                         \
  for (size_t i = 0; i + 16 <= channels; i += 16) { \
    SIMD_EACH_PART(PART)                            \
  }

/* Steps 1 and 2: the sums of products over whole groups of 16 channels. */
#define ROWS_RETRIEVE_ROW(p, r) \
  sums[r].part[p] = vec_fma(vec_mul(ROWS_LOAD(from + r * pitch + at), f), k, sums[r].part[p]);
#define ROWS_RETRIEVE_PART(p)            \
  {                                      \
    const size_t at = i + p * VEC_LANES; \
    const vec k = vec_load(key + at);    \
    const vec f = ROWS_FACTOR(at);       \
    ROWS_EACH(ROWS_RETRIEVE_ROW, p)      \
  }
static void ROWS_NAME(rows_retrieve)(const value_rows *s, size_t row, lanes16 *out) {
  lanes16 sums[ROWS];
  SIMD_EACH_PART(ROWS_ZEROS)
  const size_t channels = s->channels;
  const float *const key = s->key;
  const float *const factors = s->factors;
  const vec factor = vec_set(s->factor);
  const int64_t pitch = s->past_pitch;
  const ROWS_ELEMENT *const from = (const ROWS_ELEMENT *)s->past + (int64_t)row * pitch;
  (void)factors;
  (void)factor;
  ROWS_CHANNELS(ROWS_RETRIEVE_PART)
  ROWS_EACH(ROWS_COPY, out)
}
#undef ROWS_RETRIEVE_ROW
#undef ROWS_RETRIEVE_PART

/* Steps 1, 4 and 5 likewise. */
#define ROWS_UPDATE_ROW(p, r)                                                          \
  {                                                                                    \
    const vec x = vec_fma(k, update[r], vec_mul(ROWS_LOAD(from + r * pitch + at), f)); \
    sums[r].part[p] = vec_fma(x, q, sums[r].part[p]);                                  \
    if (p == 0) {                                                                      \
      vec_prefetch(from + r * pitch + at + ahead);                                     \
    }                                                                                  \
    ROWS_STORE(to + r * to_pitch + at, x);                                             \
  }
#define ROWS_UPDATE_PART(p)              \
  {                                      \
    const size_t at = i + p * VEC_LANES; \
    const vec k = vec_load(key + at);    \
    const vec q = vec_load(query + at);  \
    const vec f = ROWS_FACTOR(at);       \
    ROWS_EACH(ROWS_UPDATE_ROW, p)        \
  }
static void ROWS_NAME(rows_update)(const value_rows *s, size_t row, lanes16 *out) {
  lanes16 sums[ROWS];
  vec update[ROWS];
  SIMD_EACH_PART(ROWS_ZEROS)
  ROWS_EACH(ROWS_UPDATE, s)
  const size_t channels = s->channels;
  const float *const key = s->key;
  const float *const query = s->query;
  const float *const factors = s->factors;
  const vec factor = vec_set(s->factor);
  const int64_t pitch = s->past_pitch;
  const int64_t to_pitch = s->present_pitch;
  const size_t ahead = s->ahead;
  const ROWS_ELEMENT *const from = (const ROWS_ELEMENT *)s->past + (int64_t)row * pitch;
  ROWS_ELEMENT *const to = (ROWS_ELEMENT *)s->present + (int64_t)row * to_pitch;
  (void)factors;
  (void)factor;
  ROWS_CHANNELS(ROWS_UPDATE_PART)
  ROWS_EACH(ROWS_COPY, out)
}
#undef ROWS_UPDATE_ROW
#undef ROWS_UPDATE_PART

#undef ROWS_CHANNELS
#undef ROWS_COPY
#undef ROWS_UPDATE
#undef ROWS_ZEROS
#undef ROWS_ZERO
#undef ROWS_EACH
#undef ROWS_FACTOR
#undef ROWS_NAME
#undef ROWS_EXPAND
#undef ROWS_PASTE
#undef ROWS_BY_CHANNEL
