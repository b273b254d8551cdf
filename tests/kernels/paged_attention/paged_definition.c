/* The definition of a call: in double, and in the fixed order of f32 operations. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "numeric.h"
#include "paged_exact.h"
#include "paged_views.h"

/* The scale of a row and head, where there is one for each. */
static const float *row_scale(const paged_call *call, const float *scales, int64_t block,
                              int64_t row, int64_t head) {
  const quire_view view = paged_scale_cache_view(call, scales);
  return scales + block * view.stride[0] + row * view.stride[1] + head * view.stride[2];
}

/* Element (row of the cache, head, d), dequantised. */
static double cache_at(const paged_call *call, const void *cache, const float *scales,
                       const float *scale_cache, int64_t block, int64_t row, int64_t head,
                       int64_t d) {
  const quire_view view = paged_cache_view(call, cache);
  const int64_t offset = block * view.stride[0] + row * view.stride[1] + head * view.stride[2] + d;
  const double value = (double)quire_load_f32(view.dtype, cache, offset);
  if (scale_cache != NULL) {
    return value * (double)*row_scale(call, scale_cache, block, row, head);
  }
  if (scales == NULL) {
    return value;
  }
  return value * (double)scales[call->per_channel ? head * call->head_size + d : 0];
}

static double score_at(const paged_call *call, int64_t row, int64_t head, int64_t block,
                       int64_t in_block) {
  const quire_view query = paged_query_view(call);
  const int64_t kv_head = head / (call->num_heads / call->kv_num_heads);
  const double scale =
      call->scale == 0.0f ? 1.0 / sqrt((double)call->head_size) : (double)call->scale;
  double sum = 0.0;
  for (int64_t d = 0; d < call->head_size; ++d) {
    const int64_t at = row * query.stride[0] + head * call->head_size + d;
    sum += (double)quire_load_f32(call->dtype, call->query, at) *
           cache_at(call, call->key_cache, call->k_scale, call->k_scale_cache, block, in_block,
                    kv_head, d);
  }
  sum *= scale;
  return call->softcap > 0.0f ? (double)call->softcap * tanh(sum / (double)call->softcap) : sum;
}

static void reference_row(const paged_call *call, int64_t sequence, int64_t row, int64_t head,
                          int64_t first, int64_t end, double *output, double *lse) {
  double *scores = paged_need((size_t)(end > first ? end - first : 0), sizeof(double));
  double maximum = -INFINITY;
  for (int64_t j = first; j < end; ++j) {
    const int32_t block = call->table[sequence * call->columns + j / call->block_size];
    const bool mapped = block >= 0 && block < call->block_count;
    scores[j - first] = mapped ? score_at(call, row, head, block, j % call->block_size) : -INFINITY;
    maximum = fmax(maximum, scores[j - first]);
  }
  const double sink =
      call->sink != NULL ? (double)quire_load_f32(call->dtype, call->sink, head) : -INFINITY;
  maximum = fmax(maximum, sink);
  double sum = sink == -INFINITY ? 0.0 : exp(sink - maximum);
  const int64_t kv_head = head / (call->num_heads / call->kv_num_heads);
  for (int64_t d = 0; d < call->head_size; ++d) {
    output[d] = 0.0;
  }
  for (int64_t j = first; j < end; ++j) {
    if (scores[j - first] == -INFINITY) {
      continue;
    }
    const double weight = exp(scores[j - first] - maximum);
    const int32_t block = call->table[sequence * call->columns + j / call->block_size];
    sum += weight;
    for (int64_t d = 0; d < call->head_size; ++d) {
      output[d] += weight * cache_at(call, call->value_cache, call->v_scale, call->v_scale_cache,
                                     block, j % call->block_size, kv_head, d);
    }
  }
  for (int64_t d = 0; d < call->head_size && sum != 0.0; ++d) {
    output[d] /= sum;
  }
  *lse = sum == 0.0 ? -INFINITY : maximum + log(sum);
  free(scores);
}

/* What a row of the definition is computed from. */
typedef struct row_place {
  int64_t sequence, row, head, first, end;
  bool gemm_order;
} row_place;

typedef void row_function(const paged_call *call, const row_place *place, void *user);

static void for_each_row(const paged_call *call, row_function *function, void *user) {
  for (int64_t b = 0; b < call->sequences; ++b) {
    const bool decode = call->cumulative == NULL;
    const int64_t first_row = decode ? b : call->cumulative[b];
    const int64_t end_row = decode ? b + 1 : call->cumulative[b + 1];
    const int64_t past = decode ? call->past[b] - 1 : call->past[b];
    for (int64_t row = first_row; row < end_row; ++row) {
      const int64_t position = past + row - first_row;
      const int64_t first = call->window > 0 ? position + 1 - call->window : 0;
      const int64_t end = call->non_causal ? past + end_row - first_row : position + 1;
      for (int64_t head = 0; head < call->num_heads; ++head) {
        const row_place place = {b, row, head, first < 0 ? 0 : first, end, end_row - first_row > 8};
        function(call, &place, user);
      }
    }
  }
}

typedef struct reference_results {
  double *output, *lse;
} reference_results;

static void reference_at(const paged_call *call, const row_place *place, void *user) {
  const reference_results *results = user;
  const int64_t index = place->row * call->num_heads + place->head;
  double lse;
  reference_row(call, place->sequence, place->row, place->head, place->first, place->end,
                results->output + index * call->head_size, &lse);
  if (results->lse != NULL) {
    results->lse[index] = lse;
  }
}

void paged_reference(const paged_call *call, double *output, double *lse) {
  reference_results results;
  results.output = output;
  results.lse = lse;
  for_each_row(call, reference_at, &results);
}

typedef struct exact_results {
  char *output;
  float *lse;
} exact_results;

static void exact_query(const paged_call *call, const row_place *place, float *out) {
  const quire_view query = paged_query_view(call);
  const int64_t kv_head = place->head / (call->num_heads / call->kv_num_heads);
  const float scale =
      call->scale == 0.0f ? (float)(1.0 / sqrt((double)call->head_size)) : call->scale;
  for (int64_t d = 0; d < call->head_size; ++d) {
    const int64_t at = place->row * query.stride[0] + place->head * call->head_size + d;
    float factor = scale;
    if (call->k_scale != NULL) {
      factor = scale * call->k_scale[call->per_channel ? kv_head * call->head_size + d : 0];
    }
    out[d] = quire_load_f32(call->dtype, call->query, at) * factor;
  }
}

static void exact_at(const paged_call *call, const row_place *place, void *user) {
  const exact_results *results = user;
  const int64_t size = call->head_size;
  const size_t count = place->end > place->first ? (size_t)(place->end - place->first) : 0;
  float *keys = paged_need(count * (size_t)size, sizeof(float));
  float *values = paged_need(count * (size_t)size, sizeof(float));
  float *vectors = paged_need((size_t)size * 3, sizeof(float));
  float *scales = paged_need(count * 2, sizeof(float));
  bool *visible = paged_need(count, sizeof(bool));
  const int64_t kv_head = place->head / (call->num_heads / call->kv_num_heads);
  for (int64_t j = 0; j < (int64_t)count; ++j) {
    const int64_t position = place->first + j;
    const int32_t block =
        call->table[place->sequence * call->columns + position / call->block_size];
    visible[j] = block >= 0 && block < call->block_count;
    if (visible[j] && call->k_scale_cache != NULL) {
      const int64_t in_block = position % call->block_size;
      scales[j] = *row_scale(call, call->k_scale_cache, block, in_block, kv_head);
      scales[(int64_t)count + j] = *row_scale(call, call->v_scale_cache, block, in_block, kv_head);
    }
    for (int64_t d = 0; visible[j] && d < size; ++d) {
      const int64_t in_block = position % call->block_size;
      keys[j * size + d] =
          (float)cache_at(call, call->key_cache, NULL, NULL, block, in_block, kv_head, d);
      values[j * size + d] =
          (float)cache_at(call, call->value_cache, NULL, NULL, block, in_block, kv_head, d);
    }
  }
  exact_query(call, place, vectors);
  for (int64_t d = 0; call->v_scale != NULL && d < size; ++d) {
    vectors[size + d] = call->v_scale[call->per_channel ? kv_head * size + d : 0];
  }
  const float sink =
      call->sink != NULL ? quire_load_f32(call->dtype, call->sink, place->head) : 0.0f;
  const int64_t blocks = call->partial_blocks;
  const exact_row row = {
      .first = place->first,
      .end = place->end,
      .size = size,
      .query = vectors,
      .keys = keys,
      .values = values,
      .v_scale = call->v_scale != NULL ? vectors + size : NULL,
      .key_scales = call->k_scale_cache != NULL ? scales : NULL,
      .value_scales = call->v_scale_cache != NULL ? scales + count : NULL,
      .sink = call->sink != NULL ? &sink : NULL,
      .visible = visible,
      .softcap = call->softcap,
      .gemm_order = place->gemm_order,
      .piece_length = blocks >= 2 ? ((int64_t)count + blocks - 1) / blocks : 0,
  };
  const int64_t index = place->row * call->num_heads + place->head;
  exact_attend(&row, vectors + 2 * size, &results->lse[index]);
  quire_narrow_row(call->dtype, vectors + 2 * size, (size_t)size,
                   results->output + index * size * (int64_t)quire_dtype_size(call->dtype));
  free(keys);
  free(values);
  free(vectors);
  free(scales);
  free(visible);
}

void paged_exact(const paged_call *call, void *output, float *lse) {
  exact_results results;
  results.output = output;
  results.lse = lse;
  for_each_row(call, exact_at, &results);
}
