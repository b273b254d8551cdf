/*
 * One token on some rows of a V-major state (row: value column; lanes over key channels), in the
 * order of NU-9 and NU-3. ROWS rows at a time; ROWS_BY_CHANNEL, ROWS_TYPE, ROWS_ELEMENT,
 * ROWS_LOAD(p), ROWS_STORE(p, x) as in linear_attention_step_tmpl.h. A row's last channels that do
 * not fill 16 lanes are left to the callers. Define them, then include.
 */
#define ROWS_PASTE(name, type, rows, by_channel) name##_##type##_##rows##_##by_channel
#define ROWS_EXPAND(name, type, rows, by_channel) ROWS_PASTE(name, type, rows, by_channel)
#define ROWS_NAME(name) ROWS_EXPAND(name, ROWS_TYPE, ROWS, ROWS_BY_CHANNEL)
#define ROWS_FACTOR(i) (ROWS_BY_CHANNEL ? vec_load(s->factors + (i)) : factor)

/* Steps 1 and 2: adds the products of whole groups of 16 channels to sums[row]. */
static void ROWS_NAME(rows_retrieve)(const value_rows *s, size_t row, lanes16 *sums) {
  lanes16 retrieved[ROWS];
  const vec factor = vec_set(s->factor);
  for (int r = 0; r < ROWS; r++) {
    for (int part = 0; part < LANES16_PARTS; part++) {
      retrieved[r].part[part] = vec_zero();
    }
  }
  const ROWS_ELEMENT *from = (const ROWS_ELEMENT *)s->past + (int64_t)row * s->past_pitch;
  for (size_t i = 0; i + 16 <= s->channels; i += 16) {
    for (int part = 0; part < LANES16_PARTS; part++) {
      const size_t at = i + (size_t)part * VEC_LANES;
      const vec key = vec_load(s->key + at);
      const vec f = ROWS_FACTOR(at);
      for (int r = 0; r < ROWS; r++) {
        const vec x = vec_mul(ROWS_LOAD(from + r * s->past_pitch + at), f);
        retrieved[r].part[part] = vec_fma(x, key, retrieved[r].part[part]);
      }
    }
  }
  for (int r = 0; r < ROWS; r++) {
    sums[r] = retrieved[r];
  }
}

/* Steps 1, 4 and 5 likewise. */
static void ROWS_NAME(rows_update)(const value_rows *s, size_t row, lanes16 *sums) {
  lanes16 read[ROWS];
  vec update[ROWS];
  const vec factor = vec_set(s->factor);
  for (int r = 0; r < ROWS; r++) {
    update[r] = vec_set(s->update[row + (size_t)r]);
    for (int part = 0; part < LANES16_PARTS; part++) {
      read[r].part[part] = vec_zero();
    }
  }
  const ROWS_ELEMENT *from = (const ROWS_ELEMENT *)s->past + (int64_t)row * s->past_pitch;
  ROWS_ELEMENT *to = (ROWS_ELEMENT *)s->present + (int64_t)row * s->present_pitch;
  for (size_t i = 0; i + 16 <= s->channels; i += 16) {
    for (int part = 0; part < LANES16_PARTS; part++) {
      const size_t at = i + (size_t)part * VEC_LANES;
      const vec key = vec_load(s->key + at);
      const vec query = vec_load(s->query + at);
      const vec f = ROWS_FACTOR(at);
      for (int r = 0; r < ROWS; r++) {
        const vec x = vec_fma(key, update[r], vec_mul(ROWS_LOAD(from + r * s->past_pitch + at), f));
        read[r].part[part] = vec_fma(x, query, read[r].part[part]);
        ROWS_STORE(to + r * s->present_pitch + at, x);
      }
    }
  }
  for (int r = 0; r < ROWS; r++) {
    sums[r] = read[r];
  }
}

#undef ROWS_FACTOR
#undef ROWS_NAME
#undef ROWS_EXPAND
#undef ROWS_PASTE
#undef ROWS_BY_CHANNEL
