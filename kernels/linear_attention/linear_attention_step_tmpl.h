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

/* Steps 1 and 2 of the first token, from the state into the tile. */
static void STEP_NAME(step_begin)(const step *s) {
  vec retrieved[2][STEP_VECTORS];
  for (int v = 0; v < STEP_VECTORS; v++) {
    retrieved[0][v] = retrieved[1][v] = vec_zero();
  }
  const vec factor = vec_set(s->factor);
  const STEP_ELEMENT *row = (const STEP_ELEMENT *)s->past;
  float *tile_row = s->tile;
  for (size_t i = 0; i < s->channels; i += 2) {
    for (size_t c = 0; c < 2; c++) {
      if (i + c < s->channels) {
        const vec key = vec_set(s->key[i + c]);
        const vec f = STEP_FACTOR(i + c);
        for (int v = 0; v < STEP_VECTORS; v++) {
          const vec x = vec_mul(STEP_LOAD(row + v * VEC_LANES), f);
          retrieved[c][v] = vec_fma(x, key, retrieved[c][v]);
          vec_store(tile_row + v * VEC_LANES, x);
        }
        row += s->past_pitch;
        tile_row += STEP_VECTORS * VEC_LANES;
      }
    }
  }
  for (int v = 0; v < STEP_VECTORS; v++) {
    vec_store(s->retrieved + v * VEC_LANES, vec_add(retrieved[0][v], retrieved[1][v]));
  }
}

/* Steps 4 and 5 of a token whose state is kept, and steps 1 and 2 of the next. */
static void STEP_NAME(step_keep)(const step *s) {
  vec read[2][STEP_VECTORS];
  vec retrieved[2][STEP_VECTORS];
  vec update[STEP_VECTORS];
  for (int v = 0; v < STEP_VECTORS; v++) {
    read[0][v] = read[1][v] = retrieved[0][v] = retrieved[1][v] = vec_zero();
    update[v] = vec_load(s->update + v * VEC_LANES);
  }
  const vec factor = vec_set(s->factor);
  STEP_ELEMENT *out = (STEP_ELEMENT *)s->present;
  float *tile_row = s->tile;
  for (size_t i = 0; i < s->channels; i += 2) {
    for (size_t c = 0; c < 2; c++) {
      if (i + c < s->channels) {
        const vec key = vec_set(s->key[i + c]);
        const vec query = vec_set(s->query[i + c]);
        const vec next_key = vec_set(s->next_key[i + c]);
        const vec f = STEP_FACTOR(i + c);
        for (int v = 0; v < STEP_VECTORS; v++) {
          vec x = vec_fma(key, update[v], vec_load(tile_row + v * VEC_LANES));
          read[c][v] = vec_fma(x, query, read[c][v]);
          STEP_STORE(out + v * VEC_LANES, x);
          x = vec_mul(x, f);
          retrieved[c][v] = vec_fma(x, next_key, retrieved[c][v]);
          vec_store(tile_row + v * VEC_LANES, x);
        }
        out += s->present_pitch;
        tile_row += STEP_VECTORS * VEC_LANES;
      }
    }
  }
  for (int v = 0; v < STEP_VECTORS; v++) {
    vec_store(s->read + v * VEC_LANES, vec_add(read[0][v], read[1][v]));
    vec_store(s->retrieved + v * VEC_LANES, vec_add(retrieved[0][v], retrieved[1][v]));
  }
}

#if !STEP_BY_CHANNEL
/* Steps 4 and 5 of the last token, from the tile into the state. */
static void STEP_NAME(step_end)(const step *s) {
  vec read[2][STEP_VECTORS];
  vec update[STEP_VECTORS];
  for (int v = 0; v < STEP_VECTORS; v++) {
    read[0][v] = read[1][v] = vec_zero();
    update[v] = vec_load(s->update + v * VEC_LANES);
  }
  STEP_ELEMENT *out = (STEP_ELEMENT *)s->present;
  const float *tile_row = s->tile;
  for (size_t i = 0; i < s->channels; i += 2) {
    for (size_t c = 0; c < 2; c++) {
      if (i + c < s->channels) {
        const vec key = vec_set(s->key[i + c]);
        const vec query = vec_set(s->query[i + c]);
        for (int v = 0; v < STEP_VECTORS; v++) {
          const vec x = vec_fma(key, update[v], vec_load(tile_row + v * VEC_LANES));
          read[c][v] = vec_fma(x, query, read[c][v]);
          STEP_STORE(out + v * VEC_LANES, x);
        }
        out += s->present_pitch;
        tile_row += STEP_VECTORS * VEC_LANES;
      }
    }
  }
  for (int v = 0; v < STEP_VECTORS; v++) {
    vec_store(s->read + v * VEC_LANES, vec_add(read[0][v], read[1][v]));
  }
}
#endif

#undef STEP_FACTOR
#undef STEP_NAME
#undef STEP_EXPAND
#undef STEP_PASTE
#undef STEP_BY_CHANNEL
