/*
 * Sweeps over SWEEP_VECTORS vectors of columns of a K-major tile, in the order of NU-9: reductions
 * over key channels run in two chains, even and odd channels, added even + odd. Define
 * SWEEP_VECTORS, and SWEEP_BY_CHANNEL (1: factors differ between key channels), then include.
 */
#define SWEEP_PASTE(name, vectors, by_channel) name##_##vectors##_##by_channel
#define SWEEP_EXPAND(name, vectors, by_channel) SWEEP_PASTE(name, vectors, by_channel)
#define SWEEP_NAME(name) SWEEP_EXPAND(name, SWEEP_VECTORS, SWEEP_BY_CHANNEL)
#define SWEEP_FACTOR(i) (SWEEP_BY_CHANNEL ? vec_set(s->factors[i]) : factor)

/* Adds the two chains. */
static void SWEEP_NAME(sweep_finish)(vec chains[2][SWEEP_VECTORS], float *out) {
  for (int v = 0; v < SWEEP_VECTORS; v++) {
    vec_store(out + v * VEC_LANES, vec_add(chains[0][v], chains[1][v]));
  }
}

/* Steps 4 and 5 of a token, and steps 1 and 2 of the next: one load and one store an element. */
static void SWEEP_NAME(sweep_fused)(const sweep *s) {
  vec read[2][SWEEP_VECTORS];
  vec retrieved[2][SWEEP_VECTORS];
  vec update[SWEEP_VECTORS];
  for (int v = 0; v < SWEEP_VECTORS; v++) {
    read[0][v] = read[1][v] = retrieved[0][v] = retrieved[1][v] = vec_zero();
    update[v] = vec_load(s->update + v * VEC_LANES);
  }
  const vec factor = vec_set(s->factor);
  float *row = s->tile;
  for (size_t i = 0; i < s->channels; i += 2) {
    for (size_t c = 0; c < 2; c++) {
      if (i + c < s->channels) {
        const vec key = vec_set(s->key[i + c]);
        const vec query = vec_set(s->query[i + c]);
        const vec next_key = vec_set(s->next_key[i + c]);
        const vec f = SWEEP_FACTOR(i + c);
        for (int v = 0; v < SWEEP_VECTORS; v++) {
          vec x = vec_fma(key, update[v], vec_load(row + v * VEC_LANES));
          read[c][v] = vec_fma(x, query, read[c][v]);
          x = vec_mul(x, f);
          retrieved[c][v] = vec_fma(x, next_key, retrieved[c][v]);
          vec_store(row + v * VEC_LANES, x);
        }
        row += SWEEP_VECTORS * VEC_LANES;
      }
    }
  }
  SWEEP_NAME(sweep_finish)(read, s->read);
  SWEEP_NAME(sweep_finish)(retrieved, s->retrieved);
}

/* Steps 1 and 2. */
static void SWEEP_NAME(sweep_retrieve)(const sweep *s) {
  vec retrieved[2][SWEEP_VECTORS];
  for (int v = 0; v < SWEEP_VECTORS; v++) {
    retrieved[0][v] = retrieved[1][v] = vec_zero();
  }
  const vec factor = vec_set(s->factor);
  float *row = s->tile;
  for (size_t i = 0; i < s->channels; i += 2) {
    for (size_t c = 0; c < 2; c++) {
      if (i + c < s->channels) {
        const vec next_key = vec_set(s->next_key[i + c]);
        const vec f = SWEEP_FACTOR(i + c);
        for (int v = 0; v < SWEEP_VECTORS; v++) {
          const vec x = vec_mul(vec_load(row + v * VEC_LANES), f);
          retrieved[c][v] = vec_fma(x, next_key, retrieved[c][v]);
          vec_store(row + v * VEC_LANES, x);
        }
        row += SWEEP_VECTORS * VEC_LANES;
      }
    }
  }
  SWEEP_NAME(sweep_finish)(retrieved, s->retrieved);
}

#if !SWEEP_BY_CHANNEL
/* Steps 4 and 5. */
static void SWEEP_NAME(sweep_update)(const sweep *s) {
  vec read[2][SWEEP_VECTORS];
  vec update[SWEEP_VECTORS];
  for (int v = 0; v < SWEEP_VECTORS; v++) {
    read[0][v] = read[1][v] = vec_zero();
    update[v] = vec_load(s->update + v * VEC_LANES);
  }
  float *row = s->tile;
  for (size_t i = 0; i < s->channels; i += 2) {
    for (size_t c = 0; c < 2; c++) {
      if (i + c < s->channels) {
        const vec key = vec_set(s->key[i + c]);
        const vec query = vec_set(s->query[i + c]);
        for (int v = 0; v < SWEEP_VECTORS; v++) {
          const vec x = vec_fma(key, update[v], vec_load(row + v * VEC_LANES));
          read[c][v] = vec_fma(x, query, read[c][v]);
          vec_store(row + v * VEC_LANES, x);
        }
        row += SWEEP_VECTORS * VEC_LANES;
      }
    }
  }
  SWEEP_NAME(sweep_finish)(read, s->read);
}

/* Step 5 for one more query head. */
static void SWEEP_NAME(sweep_read)(const sweep *s) {
  vec read[2][SWEEP_VECTORS];
  for (int v = 0; v < SWEEP_VECTORS; v++) {
    read[0][v] = read[1][v] = vec_zero();
  }
  const float *row = s->tile;
  for (size_t i = 0; i < s->channels; i += 2) {
    for (size_t c = 0; c < 2; c++) {
      if (i + c < s->channels) {
        const vec query = vec_set(s->query[i + c]);
        for (int v = 0; v < SWEEP_VECTORS; v++) {
          read[c][v] = vec_fma(vec_load(row + v * VEC_LANES), query, read[c][v]);
        }
        row += SWEEP_VECTORS * VEC_LANES;
      }
    }
  }
  SWEEP_NAME(sweep_finish)(read, s->read);
}
#endif

#undef SWEEP_FACTOR
#undef SWEEP_NAME
#undef SWEEP_EXPAND
#undef SWEEP_PASTE
#undef SWEEP_BY_CHANNEL
