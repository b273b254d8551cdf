/*
 * One token on a K-major state where it lies, without a copy: a sweep that retrieves, and one that
 * decays again (to the same bits), updates, reads out and stores. STEP_VECTORS vectors of columns
 * at a time; STEP_BY_CHANNEL as in the sweeps; STEP_TYPE f32, f16 or bf16 with STEP_ELEMENT,
 * STEP_LOAD(p) and STEP_STORE(p, x). Define them, then include.
 */
#define STEP_PASTE(name, type, vectors, by_channel) name##_##type##_##vectors##_##by_channel
#define STEP_EXPAND(name, type, vectors, by_channel) STEP_PASTE(name, type, vectors, by_channel)
#define STEP_NAME(name) STEP_EXPAND(name, STEP_TYPE, STEP_VECTORS, STEP_BY_CHANNEL)
#define STEP_FACTOR(i) (STEP_BY_CHANNEL ? vec_set(s->factors[i]) : factor)

/* Steps 1 and 2, nothing stored. */
static void STEP_NAME(step_retrieve)(const step *s) {
  vec retrieved[2][STEP_VECTORS];
  for (int v = 0; v < STEP_VECTORS; v++) {
    retrieved[0][v] = retrieved[1][v] = vec_zero();
  }
  const vec factor = vec_set(s->factor);
  const STEP_ELEMENT *row = (const STEP_ELEMENT *)s->past;
  for (size_t i = 0; i < s->channels; i += 2) {
    for (size_t c = 0; c < 2; c++) {
      if (i + c < s->channels) {
        const vec key = vec_set(s->key[i + c]);
        const vec f = STEP_FACTOR(i + c);
        for (int v = 0; v < STEP_VECTORS; v++) {
          const vec x = vec_mul(STEP_LOAD(row + v * VEC_LANES), f);
          retrieved[c][v] = vec_fma(x, key, retrieved[c][v]);
        }
        row += s->past_pitch;
      }
    }
  }
  for (int v = 0; v < STEP_VECTORS; v++) {
    vec_store(s->retrieved + v * VEC_LANES, vec_add(retrieved[0][v], retrieved[1][v]));
  }
}

/* Steps 1, 4 and 5. */
static void STEP_NAME(step_update)(const step *s) {
  vec read[2][STEP_VECTORS];
  vec update[STEP_VECTORS];
  for (int v = 0; v < STEP_VECTORS; v++) {
    read[0][v] = read[1][v] = vec_zero();
    update[v] = vec_load(s->update + v * VEC_LANES);
  }
  const vec factor = vec_set(s->factor);
  const STEP_ELEMENT *row = (const STEP_ELEMENT *)s->past;
  STEP_ELEMENT *out = (STEP_ELEMENT *)s->present;
  for (size_t i = 0; i < s->channels; i += 2) {
    for (size_t c = 0; c < 2; c++) {
      if (i + c < s->channels) {
        const vec key = vec_set(s->key[i + c]);
        const vec query = vec_set(s->query[i + c]);
        const vec f = STEP_FACTOR(i + c);
        for (int v = 0; v < STEP_VECTORS; v++) {
          const vec x = vec_fma(key, update[v], vec_mul(STEP_LOAD(row + v * VEC_LANES), f));
          read[c][v] = vec_fma(x, query, read[c][v]);
          STEP_STORE(out + v * VEC_LANES, x);
        }
        row += s->past_pitch;
        out += s->present_pitch;
      }
    }
  }
  for (int v = 0; v < STEP_VECTORS; v++) {
    vec_store(s->read + v * VEC_LANES, vec_add(read[0][v], read[1][v]));
  }
}

#undef STEP_FACTOR
#undef STEP_NAME
#undef STEP_EXPAND
#undef STEP_PASTE
#undef STEP_BY_CHANNEL
