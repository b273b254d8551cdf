/*
 * The two inner loops of attend in the order of NU-3, for caches of one element type: scores of
 * some keys, and weights times values. Included once for each type by paged_attention_decode_body.h
 * with QUIRE_ELEMENT (f32, f16, bf16, i8) and QUIRE_ELEMENT_BYTES defined.
 *
 * Both read the rows of a sub-block of at most 8 keys, and ask for the lines of another sub-block,
 * `next`, as they go: evenly, since a burst of requests would wait for the core's few line buffers.
 */
#define ELEMENT_PASTE_(name, element) name##_##element
#define ELEMENT_PASTE(name, element) ELEMENT_PASTE_(name, element)
#define ELEMENT(name) ELEMENT_PASTE(name, QUIRE_ELEMENT)

static inline vec ELEMENT(widen)(const char *row, size_t first) {
  return ELEMENT(load)(row + first * QUIRE_ELEMENT_BYTES);
}

/* The rows of `next` are prefetched as far as `rows` are read. */
static inline void ELEMENT(prefetch)(const attend_rows *rows, int first_key, int keys,
                                     size_t first) {
  if (first * QUIRE_ELEMENT_BYTES % ATTEND_LINE == 0) {
    for (int key = 0; key < keys; ++key) {
      vec_prefetch(rows->next[first_key + key] + rows->next_offset + first * QUIRE_ELEMENT_BYTES);
    }
  }
}

/*
 * Scores of `keys` keys for `queries` queries, both compile-time constants: an accumulator of
 * VEC_LANES lanes for each pair. Sets of few registers take the 16 lanes of NU-3 in parts. The tail
 * of a row meets zeros of the query.
 */
static inline void ELEMENT(score_block)(const attend_rows *rows, const int first_key,
                                        const int keys, const int queries, const bool prefetch,
                                        const float *q, size_t n, float *scores) {
  const size_t stride = attend_padded(n);
  lanes16 lanes[ATTEND_SUMS];
  for (int part = 0; part < LANES16_PARTS; ++part) {
    vec sums[ATTEND_SUMS];
    for (int i = 0; i < ATTEND_SUMS; ++i) {
      sums[i] = vec_zero();
    }
    size_t d = (size_t)part * VEC_LANES;
    for (; d + VEC_LANES <= n; d += 16) {
      if (prefetch && part == 0) {
        ELEMENT(prefetch)(rows, first_key, keys, d);
      }
      for (int key = 0; key < keys; ++key) {
        const vec k = ELEMENT(widen)(rows->rows[first_key + key] + rows->offset, d);
        for (int query = 0; query < queries; ++query) {
          vec *sum = &sums[query * keys + key];
          *sum = vec_fma(vec_load(q + (size_t)query * stride + d), k, *sum);
        }
      }
    }
    if (d < n) {
      for (int key = 0; key < keys; ++key) {
        const char *row = rows->rows[first_key + key] + rows->offset + d * QUIRE_ELEMENT_BYTES;
        const vec k = ELEMENT(load_first)(row, n - d);
        for (int query = 0; query < queries; ++query) {
          vec *sum = &sums[query * keys + key];
          *sum = vec_fma(vec_load(q + (size_t)query * stride + d), k, *sum);
        }
      }
    }
    for (int i = 0; i < ATTEND_SUMS; ++i) {
      lanes[i].part[part] = sums[i];
    }
  }
  vec joined[ATTEND_SUMS];
  for (int i = 0; i < ATTEND_SUMS; ++i) {
    joined[i] = lanes16_join(&lanes[i]);
  }
  /* Sum i belongs to query i / keys and key i % keys. */
  const int parts = keys < VEC_LANES ? VEC_LANES / keys : 1;
  for (int i = 0; i < queries * keys; i += VEC_LANES) {
    float *out = scores + (size_t)(i / keys) * QUIRE_PAGED_TILE + first_key + i % keys;
    const vec sums = vec_sum_rows(joined + i);
    if (queries * keys < VEC_LANES) {
      vec_store_first(out, (size_t)keys, sums);
    } else {
      vec_store_parts(out, QUIRE_PAGED_TILE, parts, sums);
    }
  }
}

/* Scores of a sub-block of 8 keys for `count` queries; those of a query are a tile's row. */
static void ELEMENT(scores)(const attend_rows *rows, const float *q, size_t n, size_t count,
                            float *scores) {
  const size_t stride = attend_padded(n);
  size_t query = 0;
  for (; query + 4 <= count; query += 4) {
    float *out = scores + query * QUIRE_PAGED_TILE;
    for (int key = 0; key < ATTEND_KEYS; key += ATTEND_KEYS_BY_4) {
      if (query == 0) {
        ELEMENT(score_block)(rows, key, ATTEND_KEYS_BY_4, 4, true, q, n, out);
      } else {
        ELEMENT(score_block)(rows, key, ATTEND_KEYS_BY_4, 4, false, q + query * stride, n, out);
      }
    }
  }
  if (query + 2 <= count) {
    float *out = scores + query * QUIRE_PAGED_TILE;
    for (int key = 0; key < ATTEND_KEYS; key += ATTEND_KEYS_BY_2) {
      ELEMENT(score_block)(rows, key, ATTEND_KEYS_BY_2, 2, query == 0, q + query * stride, n, out);
    }
    query += 2;
  }
  if (query < count) {
    float *out = scores + query * QUIRE_PAGED_TILE;
    ELEMENT(score_block)(rows, 0, ATTEND_KEYS, 1, query == 0, q + query * stride, n, out);
  }
}

/*
 * acc = acc * factor (unless factors is NULL), then fma of weight and value over rows->count keys,
 * ascending, for `vecs` vectors of columns from `first` on and `queries` queries, both compile-time
 * constants. The last vector has `tail` columns if that is not 0.
 */
static inline void ELEMENT(value_block)(const attend_rows *rows, const int queries, const int vecs,
                                        const size_t tail, const bool prefetch, size_t first,
                                        const float *weights, const float *factors,
                                        float *const *accumulators) {
  vec sums[ATTEND_SUMS];
  for (int query = 0; query < queries; ++query) {
    const float *from = accumulators[query] + first;
    const vec factor = vec_set(factors != NULL ? factors[query] : 1.0f);
    for (int i = 0; i < vecs; ++i) {
      const vec sum = tail != 0 ? vec_load_first(from, tail) : vec_load(from + i * VEC_LANES);
      sums[query * vecs + i] = factors != NULL ? vec_mul(sum, factor) : sum;
    }
  }
  for (int key = 0; key < rows->count; ++key) {
    const char *row = rows->rows[key] + rows->offset + first * QUIRE_ELEMENT_BYTES;
    if (prefetch) {
      const char *next = rows->next[key] + rows->next_offset + first * QUIRE_ELEMENT_BYTES;
      for (int line = 0; line < vecs * VEC_LANES * QUIRE_ELEMENT_BYTES; line += ATTEND_LINE) {
        vec_prefetch(next + line);
      }
    }
    for (int i = 0; i < vecs; ++i) {
      const vec v =
          tail != 0 ? ELEMENT(load_first)(row, tail) : ELEMENT(widen)(row, (size_t)(i * VEC_LANES));
      for (int query = 0; query < queries; ++query) {
        vec *sum = &sums[query * vecs + i];
        *sum = vec_fma(vec_set(weights[query * QUIRE_PAGED_TILE + key]), v, *sum);
      }
    }
  }
  for (int query = 0; query < queries; ++query) {
    float *to = accumulators[query] + first;
    for (int i = 0; i < vecs; ++i) {
      if (tail != 0) {
        vec_store_first(to, tail, sums[query * vecs + i]);
      } else {
        vec_store(to + i * VEC_LANES, sums[query * vecs + i]);
      }
    }
  }
}

/* All n columns for `queries` queries (a compile-time constant), `wide` vectors at a time. */
static inline void ELEMENT(value_columns)(const attend_rows *rows, const int queries,
                                          const int wide, const bool prefetch, size_t n,
                                          const float *weights, const float *factors,
                                          float *const *accumulators) {
  size_t first = 0;
  for (; first + (size_t)wide * VEC_LANES <= n; first += (size_t)wide * VEC_LANES) {
    /* Narrow slices share a line. */
    if (prefetch && first * QUIRE_ELEMENT_BYTES % ATTEND_LINE == 0) {
      ELEMENT(value_block)(rows, queries, wide, 0, true, first, weights, factors, accumulators);
    } else {
      ELEMENT(value_block)(rows, queries, wide, 0, false, first, weights, factors, accumulators);
    }
  }
  for (; first + VEC_LANES <= n; first += VEC_LANES) {
    ELEMENT(value_block)(rows, queries, 1, 0, prefetch, first, weights, factors, accumulators);
  }
  if (first < n) {
    ELEMENT(value_block)
    (rows, queries, 1, n - first, prefetch, first, weights, factors, accumulators);
  }
}

/* Weights times values of at most 8 keys for `count` queries. */
static void ELEMENT(values)(const attend_rows *rows, const float *weights, const float *factors,
                            size_t n, size_t count, float *const *accumulators) {
  size_t query = 0;
  for (; query + 4 <= count; query += 4) {
    const float *from = weights + query * QUIRE_PAGED_TILE;
    const float *scale = factors != NULL ? factors + query : NULL;
    if (query == 0) {
      ELEMENT(value_columns)(rows, 4, ATTEND_VECS_BY_4, true, n, from, scale, accumulators);
    } else {
      ELEMENT(value_columns)
      (rows, 4, ATTEND_VECS_BY_4, false, n, from, scale, accumulators + query);
    }
  }
  if (query + 2 <= count) {
    ELEMENT(value_columns)
    (rows, 2, ATTEND_VECS_BY_2, query == 0, n, weights + query * QUIRE_PAGED_TILE,
     factors != NULL ? factors + query : NULL, accumulators + query);
    query += 2;
  }
  if (query < count) {
    ELEMENT(value_columns)
    (rows, 1, ATTEND_VECS_BY_2, query == 0, n, weights + query * QUIRE_PAGED_TILE,
     factors != NULL ? factors + query : NULL, accumulators + query);
  }
}

#undef ELEMENT
#undef ELEMENT_PASTE
#undef ELEMENT_PASTE_
#undef QUIRE_ELEMENT
#undef QUIRE_ELEMENT_BYTES
