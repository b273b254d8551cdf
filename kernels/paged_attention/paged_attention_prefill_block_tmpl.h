/*
 * The register kernels of prefill for QUIRE_ROWS rows (1, 2, 4 or 6) and QUIRE_VECS vectors of a
 * panel. The sums are named variables and the loops over them macros, so that every compiler keeps
 * them in registers. Define both, then include.
 */
#define BLOCK_PASTE_(name, rows, vecs) name##_##rows##_##vecs
#define BLOCK_PASTE(name, rows, vecs) BLOCK_PASTE_(name, rows, vecs)
#define BLOCK(name) BLOCK_PASTE(name, QUIRE_ROWS, QUIRE_VECS)
#define BLOCK_ROWS_1(step) step(0)
#define BLOCK_ROWS_2(step) step(0) step(1)
#define BLOCK_ROWS_4(step) BLOCK_ROWS_2(step) step(2) step(3)
#define BLOCK_ROWS_6(step) BLOCK_ROWS_4(step) step(4) step(5)
#define BLOCK_ROWS_(rows, step) BLOCK_ROWS_##rows(step)
#define BLOCK_ROWS(rows, step) BLOCK_ROWS_(rows, step)
#define EACH_ROW(step) BLOCK_ROWS(QUIRE_ROWS, step)
#define EACH_VEC(step, row) SIMD_REPEAT(QUIRE_VECS, step, row)

#define LOAD_SHARED(from, i) const vec shared_##i = vec_load((from) + i * VEC_LANES);
#define MULTIPLY_ADD(row, i) \
  sum_##row##_##i = word_multiply_add(own_##row, shared_##i, sum_##row##_##i);

/* ---- scores ---- */

#define ZERO_SUM(row, i) vec sum_##row##_##i = vec_zero();
#define ZERO_ROW(row) EACH_VEC(ZERO_SUM, row)
#define SCORE_ROW(row)                                              \
  const vec own_##row = vec_set(query[(size_t)row * query_stride]); \
  EACH_VEC(MULTIPLY_ADD, row)
#define STORE_SCORE(row, i) \
  vec_store(scores + row * QUIRE_PAGED_TILE + i * VEC_LANES, sum_##row##_##i);
#define STORE_SCORES(row) EACH_VEC(STORE_SCORE, row)
#define ADD_SCORE(row, i)                                    \
  vec_store(scores + row * QUIRE_PAGED_TILE + i * VEC_LANES, \
            vec_add(vec_load(scores + row * QUIRE_PAGED_TILE + i * VEC_LANES), sum_##row##_##i));
#define ADD_SCORES(row) EACH_VEC(ADD_SCORE, row)

#if QUIRE_ROWS > 1
/* scores[row][key] by `size` words of the rows and the first vectors of a panel of keys. */
PREFILL_APART void BLOCK(score_block)(const float *queries, size_t query_stride, const float *keys,
                                      size_t size, float *scores, prefill_ahead *ahead) {
  const float *query = queries;
  const float *key = keys;
  for (size_t piece = 0; piece < size; piece += SCORE_PIECE) {
    const float *const end = queries + (size - piece < SCORE_PIECE ? size : piece + SCORE_PIECE);
    EACH_ROW(ZERO_ROW)
    for (; query < end; ++query, key += PANEL) {
      prefetch_lines(ahead);
      EACH_VEC(LOAD_SHARED, key)
      EACH_ROW(SCORE_ROW)
    }
    if (piece == 0) {
      EACH_ROW(STORE_SCORES)
    } else {
      EACH_ROW(ADD_SCORES)
    }
  }
}

#endif

/* ---- values ---- */

#define SCALE_SUM(row, i) \
  vec sum_##row##_##i =   \
      vec_mul(vec_load(accumulators + (size_t)row * b->stride + i * VEC_LANES), factor_##row);
#define SCALE_ROW(row)                                                           \
  const vec factor_##row = vec_set(b->factors != NULL ? b->factors[row] : 1.0f); \
  EACH_VEC(SCALE_SUM, row)
#define VALUE_ROW(row)                                            \
  const vec own_##row = vec_set(weights[row * QUIRE_PAGED_TILE]); \
  EACH_VEC(MULTIPLY_ADD, row)
#define STORE_SUM(row, i) \
  vec_store(accumulators + (size_t)row * b->stride + i * VEC_LANES, sum_##row##_##i);
#define STORE_SUMS(row) EACH_VEC(STORE_SUM, row)

#define ADD_ALONE(row, i) \
  sum_##row##_##i = word_multiply_add(w, vec_load(value + i * VEC_LANES), sum_##row##_##i);
#define ADD_KEYS_ALONE(row, from, to)                                \
  for (int64_t key = (from); key < (to); ++key) {                    \
    const vec w = vec_set(b->weights[row * QUIRE_PAGED_TILE + key]); \
    const float *value = b->values + key * (QUIRE_VECS * VEC_LANES); \
    EACH_VEC(ADD_ALONE, row)                                         \
  }
#define ADD_BEFORE(row) \
  ADD_KEYS_ALONE(row, b->firsts[row], b->ends[row] < first ? b->ends[row] : first)
#define ADD_BEHIND(row) ADD_KEYS_ALONE(row, last, b->ends[row])

/* acc = acc * factor, then one chain over the keys, ascending. */
PREFILL_APART void BLOCK(value_block)(const value_block *b) {
  float *const accumulators = b->accumulators;
  EACH_ROW(SCALE_ROW)
  const int64_t first = (int64_t)b->first;
  const int64_t last = (int64_t)b->end;
  if (b->firsts != NULL) {
    EACH_ROW(ADD_BEFORE)
  }
  prefill_ahead *const ahead = b->ahead;
  const float *weights = b->weights + b->first;
  const float *const end = b->weights + b->end;
  const float *values = b->values + b->first * (QUIRE_VECS * VEC_LANES);
  for (; weights < end; ++weights, values += QUIRE_VECS * VEC_LANES) {
    prefetch_lines(ahead);
    EACH_VEC(LOAD_SHARED, values)
    EACH_ROW(VALUE_ROW)
  }
  if (b->ends != NULL) {
    EACH_ROW(ADD_BEHIND)
  }
  EACH_ROW(STORE_SUMS)
}

#undef BLOCK_PASTE_
#undef BLOCK_PASTE
#undef BLOCK
#undef BLOCK_ROWS_1
#undef BLOCK_ROWS_2
#undef BLOCK_ROWS_4
#undef BLOCK_ROWS_6
#undef BLOCK_ROWS_
#undef BLOCK_ROWS
#undef EACH_ROW
#undef EACH_VEC
#undef LOAD_SHARED
#undef MULTIPLY_ADD
#undef ZERO_SUM
#undef ZERO_ROW
#undef SCORE_ROW
#undef STORE_SCORE
#undef STORE_SCORES
#undef ADD_SCORE
#undef ADD_SCORES
#undef SCALE_SUM
#undef SCALE_ROW
#undef VALUE_ROW
#undef ADD_ALONE
#undef ADD_KEYS_ALONE
#undef ADD_BEFORE
#undef ADD_BEHIND
#undef STORE_SUM
#undef STORE_SUMS
#undef QUIRE_ROWS
