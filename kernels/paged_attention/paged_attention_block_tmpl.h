/*
 * Register blocks of attend for caches of one element type (ELEMENT) and QUIRE_QUERIES queries at a
 * time: QUIRE_KEYS keys in scores, QUIRE_VECS vectors of columns in values. Included by
 * paged_attention_element_body.h for each number of queries. The sums are named variables and the
 * loops over them macros (OUTER, INNER), so that every compiler keeps them in registers. The
 * functions' names end in QUIRE_SUFFIX. With QUIRE_ROW_BY_ROW scores take one key's row after the
 * other, in place of all keys channel by channel.
 */
#define BLOCK(name) ELEMENT_PASTE(ELEMENT(name), QUIRE_SUFFIX)
#define BLOCK_SUMS (QUIRE_QUERIES * QUIRE_KEYS)

/* ---- scores ---- */

#define ROW_OF_KEY(key) const char *const row_##key = rows->rows[first_key + key] + rows->offset;
#define ZERO_SUM(key, query) vec sum_##query##_##key = vec_zero();
#define ZERO_SUMS(key) INNER(QUIRE_QUERIES, ZERO_SUM, key)
#define LOAD_QUERY(query) const vec q_##query = vec_load_kept(at_q + query * 16);
#define ADD_SCORE(key, query) \
  sum_##query##_##key = vec_fma(q_##query, k_##key, sum_##query##_##key);
#define ADD_SCORES(key)                              \
  const vec k_##key = ELEMENT(load)(row_##key + at); \
  INNER(QUIRE_QUERIES, ADD_SCORE, key)
#define ADD_TAILS(key)                                            \
  const vec k_##key = ELEMENT(load_first)(row_##key + at, n - d); \
  INNER(QUIRE_QUERIES, ADD_SCORE, key)
#define KEEP_SUM(key, query) lanes[query * QUIRE_KEYS + key].part[part] = sum_##query##_##key;
#define KEEP_SUMS(key) INNER(QUIRE_QUERIES, KEEP_SUM, key)

#define ADD_ROW_SCORE(key, query) \
  sum_##query##_##key = vec_fma(vec_load(at_row + query * 16), k_row, sum_##query##_##key);
#define ADD_ROW(key)                                                      \
  for (size_t e = d; e + VEC_LANES <= n; e += 16) {                       \
    const float *at_row = at_q + (e - d) * QUIRE_QUERIES;                 \
    const vec k_row = ELEMENT(load)(row_##key + e * QUIRE_ELEMENT_BYTES); \
    if (part == 0) {                                                      \
      prefetch_ahead(ahead, 16 * QUIRE_ELEMENT_BYTES);                    \
    }                                                                     \
    INNER(QUIRE_QUERIES, ADD_ROW_SCORE, key)                              \
  }

/*
 * Scores of keys first_key and on for n channels. Sets of few registers take NU-3's lanes in parts.
 * The queries lie 16 channels of each after 16 of the other; the tail of a row meets their zeros.
 */
static inline void BLOCK(score_block)(const attend_rows *rows, int first_key, attend_ahead *ahead,
                                      const float *q, size_t n, float *scores) {
  OUTER(QUIRE_KEYS, ROW_OF_KEY)
  lanes16 lanes[BLOCK_SUMS < VEC_LANES ? VEC_LANES : BLOCK_SUMS];
  for (int part = 0; part < LANES16_PARTS; ++part) {
    OUTER(QUIRE_KEYS, ZERO_SUMS)
    const float *at_q = q + part * VEC_LANES;
    size_t d = (size_t)part * VEC_LANES;
    if (QUIRE_ROW_BY_ROW) {
      OUTER(QUIRE_KEYS, ADD_ROW)
      for (; d + VEC_LANES <= n; d += 16) {
        at_q += QUIRE_QUERIES * 16;
      }
    }
    for (; d + VEC_LANES <= n; d += 16) {
      const size_t at = d * QUIRE_ELEMENT_BYTES;
      if (part == 0) {
        prefetch_ahead(ahead, QUIRE_KEYS * 16 * QUIRE_ELEMENT_BYTES);
      }
      OUTER(QUIRE_QUERIES, LOAD_QUERY)
      OUTER(QUIRE_KEYS, ADD_SCORES)
      at_q += QUIRE_QUERIES * 16;
    }
    if (d < n) {
      const size_t at = d * QUIRE_ELEMENT_BYTES;
      OUTER(QUIRE_QUERIES, LOAD_QUERY)
      OUTER(QUIRE_KEYS, ADD_TAILS)
    }
    OUTER(QUIRE_KEYS, KEEP_SUMS)
  }
  vec joined[BLOCK_SUMS < VEC_LANES ? VEC_LANES : BLOCK_SUMS];
  for (int i = 0; i < BLOCK_SUMS; ++i) {
    joined[i] = lanes16_join(&lanes[i]);
  }
  for (int i = BLOCK_SUMS; i < VEC_LANES; ++i) {
    joined[i] = vec_zero();
  }
  /* Sum i belongs to query i / QUIRE_KEYS and key i % QUIRE_KEYS. */
  for (int i = 0; i < BLOCK_SUMS; i += VEC_LANES) {
    float *out = scores + (i / QUIRE_KEYS) * QUIRE_PAGED_TILE + first_key + i % QUIRE_KEYS;
    const vec sums = vec_sum_rows(joined + i);
    if (BLOCK_SUMS < VEC_LANES) {
      vec_store_first(out, BLOCK_SUMS, sums);
    } else {
      vec_store_parts(out, QUIRE_PAGED_TILE, VEC_LANES / QUIRE_KEYS, sums);
    }
  }
}

/* ---- values ---- */

#define LOAD_SUM(query, v) \
  vec sum_##query##_##v = vec_load(accumulators[query] + first + v * VEC_LANES);
#define LOAD_SUMS(query) INNER(QUIRE_VECS, LOAD_SUM, query)
#define SCALE_SUM(query, v) sum_##query##_##v = vec_mul(sum_##query##_##v, vec_set(factors[query]));
#define SCALE_SUMS(query) INNER(QUIRE_VECS, SCALE_SUM, query)
#define LOAD_VALUE(v) const vec v_##v = ELEMENT(load)(row + v * VEC_LANES * QUIRE_ELEMENT_BYTES);
#define ADD_VALUE(query, v) sum_##query##_##v = vec_fma(w_##query, v_##v, sum_##query##_##v);
#define ADD_VALUES(query)                                                 \
  const vec w_##query = vec_set(weights[query * QUIRE_PAGED_TILE + key]); \
  INNER(QUIRE_VECS, ADD_VALUE, query)
#define STORE_SUM(query, v) \
  vec_store(accumulators[query] + first + v * VEC_LANES, sum_##query##_##v);
#define STORE_SUMS(query) INNER(QUIRE_VECS, STORE_SUM, query)

/* acc = acc * factor (unless factors is NULL), then fma of weight and value over the keys,
   ascending, for QUIRE_VECS vectors of columns from `first` on. */
static inline void BLOCK(value_block)(const attend_rows *rows, attend_ahead *ahead, size_t first,
                                      const float *weights, const float *factors,
                                      float *const *accumulators) {
  const ptrdiff_t at = (ptrdiff_t)(first * QUIRE_ELEMENT_BYTES);
  OUTER(QUIRE_QUERIES, LOAD_SUMS)
  if (factors != NULL) {
    OUTER(QUIRE_QUERIES, SCALE_SUMS)
  }
  for (int key = 0; key < rows->count; ++key) {
    const char *row = rows->rows[key] + rows->offset + at;
    prefetch_ahead(ahead, QUIRE_VECS * VEC_LANES * QUIRE_ELEMENT_BYTES);
    OUTER(QUIRE_VECS, LOAD_VALUE)
    OUTER(QUIRE_QUERIES, ADD_VALUES)
  }
  OUTER(QUIRE_QUERIES, STORE_SUMS)
}

#define LOAD_TAIL(query) vec sum_##query = vec_load_first(accumulators[query] + first, n);
#define SCALE_TAIL(query) sum_##query = vec_mul(sum_##query, vec_set(factors[query]));
#define ADD_TAIL(query) \
  sum_##query = vec_fma(vec_set(weights[query * QUIRE_PAGED_TILE + key]), v, sum_##query);
#define STORE_TAIL(query) vec_store_first(accumulators[query] + first, n, sum_##query);

/* The same for n <= VEC_LANES columns. */
static inline void BLOCK(value_tail)(const attend_rows *rows, attend_ahead *ahead, size_t first,
                                     size_t n, const float *weights, const float *factors,
                                     float *const *accumulators) {
  const ptrdiff_t at = (ptrdiff_t)(first * QUIRE_ELEMENT_BYTES);
  OUTER(QUIRE_QUERIES, LOAD_TAIL)
  if (factors != NULL) {
    OUTER(QUIRE_QUERIES, SCALE_TAIL)
  }
  for (int key = 0; key < rows->count; ++key) {
    const vec v = ELEMENT(load_first)(rows->rows[key] + rows->offset + at, n);
    prefetch_ahead(ahead, VEC_LANES * QUIRE_ELEMENT_BYTES);
    OUTER(QUIRE_QUERIES, ADD_TAIL)
  }
  OUTER(QUIRE_QUERIES, STORE_TAIL)
}

/* All n columns. */
static inline void BLOCK(value_columns)(const attend_rows *rows, attend_ahead *ahead, size_t n,
                                        const float *weights, const float *factors,
                                        float *const *accumulators) {
  size_t first = 0;
  for (; first + QUIRE_VECS * VEC_LANES <= n; first += QUIRE_VECS * VEC_LANES) {
    BLOCK(value_block)(rows, ahead, first, weights, factors, accumulators);
  }
  for (; first < n; first += VEC_LANES) {
    const size_t left = n - first < VEC_LANES ? n - first : VEC_LANES;
    BLOCK(value_tail)(rows, ahead, first, left, weights, factors, accumulators);
  }
}

#undef BLOCK
#undef QUIRE_QUERIES
#undef QUIRE_KEYS
#undef QUIRE_VECS
#undef QUIRE_SUFFIX
#undef QUIRE_ROW_BY_ROW
