#include "paged_harness.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "numeric.h"
#include "paged_attention_kernels.h"
#include "paged_decode_kernels.h"
#include "paged_exact.h"
#include "paged_work.h"

static quire_view make_view(const void *data, quire_dtype dtype, int32_t ndim,
                            const int64_t *shape) {
  quire_view view;
  memset(&view, 0, sizeof view);
  if (data == NULL) {
    return view;
  }
  memcpy(&view.data, &data, sizeof data);
  view.dtype = dtype;
  view.ndim = ndim;
  int64_t stride = 1;
  for (int32_t i = ndim; i-- > 0;) {
    view.shape[i] = shape[i];
    view.stride[i] = stride;
    stride *= shape[i];
  }
  return view;
}

static quire_view view_1(const void *data, quire_dtype dtype, int64_t a) {
  return make_view(data, dtype, 1, &a);
}

static quire_view view_2(const void *data, quire_dtype dtype, int64_t a, int64_t b) {
  const int64_t shape[2] = {a, b};
  return make_view(data, dtype, 2, shape);
}

static quire_view cache_view(const paged_call *call, const void *data) {
  const int64_t size = call->padded_size != 0 ? call->padded_size : call->head_size;
  const int64_t shape[4] = {call->block_count, call->block_size, call->kv_num_heads, size};
  quire_view view = make_view(data, call->cache_dtype, 4, shape);
  if (call->cache_stride[3] != 0) {
    memcpy(view.stride, call->cache_stride, sizeof call->cache_stride);
  }
  return view;
}

/* One scale for each row and head of the caches, in their order unless strides say otherwise. */
static quire_view scale_cache_view(const paged_call *call, const float *data) {
  const int64_t shape[3] = {call->block_count, call->block_size, call->kv_num_heads};
  quire_view view = make_view(data, QUIRE_FLOAT32, 3, shape);
  if (data != NULL && call->scale_stride[2] != 0) {
    memcpy(view.stride, call->scale_stride, sizeof call->scale_stride);
  }
  return view;
}

static quire_view scale_view(const paged_call *call, const float *data) {
  const int64_t shape[3] = {call->kv_num_heads, 1, call->head_size};
  return call->per_channel ? make_view(data, QUIRE_FLOAT32, 3, shape)
                           : view_1(data, QUIRE_FLOAT32, 1);
}

bool paged_has_isa(quire_isa isa) {
#if defined(__x86_64__)
  if (isa == QUIRE_ISA_AVX2) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  }
  if (isa == QUIRE_ISA_AVX512) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  }
#elif defined(__aarch64__)
  if (isa == QUIRE_ISA_NEON) {
    return true;
  }
#endif
  return isa == QUIRE_ISA_SCALAR;
}

bool paged_has_fast(void) {
#if defined(__x86_64__)
  return paged_has_isa(QUIRE_ISA_AVX512) && __builtin_cpu_supports("avx512bf16");
#else
  return false;
#endif
}

static const quire_implementation *find(const quire_implementation_list *list, quire_isa isa,
                                        const char *kernel) {
  const quire_implementation *found = NULL;
  for (size_t i = 0; i < list->count; ++i) {
    const quire_implementation *item = &list->items[i];
    if (strcmp(item->kernel, kernel) == 0 && item->precision == QUIRE_PRECISION_EXACT &&
        (item->isa == isa || (found == NULL && item->isa == QUIRE_ISA_SCALAR))) {
      found = item;
    }
  }
  assert_non_null(found);
  return found;
}

static const quire_implementation *find_attend(const paged_call *call) {
  const quire_implementation_list *list = &quire_kernels_paged_attention;
  for (size_t i = 0; i < list->count && call->fast; ++i) {
    const quire_implementation *item = &list->items[i];
    if (strcmp(item->kernel, "paged_attention_attend") == 0 &&
        item->precision == QUIRE_PRECISION_FAST) {
      return item;
    }
  }
  return find(list, call->isa, "paged_attention_attend");
}

/* Lists and states, sized as the manifest does it. */
typedef struct scratch {
  int64_t item_limit, merge_limit, state_limit;
  int64_t *slots, *items, *merge_rows;
  uint32_t attend_grid[3], merge_grid[3];
  int64_t queue[QUIRE_PAGED_QUEUE_WORDS];
  uint32_t taken;
  float *values, *stats;
  int64_t work_limit;
  float *work_values, *work_stats;
  int64_t runner_limit, tile_rows, row_floats, panel_floats;
  float *panels, *rows;
} scratch;

static int64_t min_i64(int64_t a, int64_t b) {
  return a < b ? a : b;
}

static void *need(size_t count, size_t size) {
  void *memory = calloc(count + 1, size);
  assert_non_null(memory);
  return memory;
}

static void runners_init(const paged_call *call, int64_t pieces, scratch *s) {
  const int64_t padded = (call->head_size + 15) / 16 * 16;
  const int64_t levels = pieces <= 1 ? 1 : pieces <= 16 ? 2 : 3;
  const int64_t rows = call->tokens * (call->num_heads / call->kv_num_heads);
  s->tile_rows = min_i64(padded <= 128 ? 384 : padded <= 256 ? 192 : 96, (rows + 5) / 6 * 6) + 6;
  s->row_floats = padded + levels * padded + 96;
  s->panel_floats = 136 * padded + 512;
  s->runner_limit = call->cumulative != NULL && call->tokens > 8 ? 16 : 0;
  if (call->tile_rows > 0) {
    s->tile_rows = call->tile_rows;
  }
  if (call->runners >= 0) {
    s->runner_limit = min_i64(s->runner_limit, call->runners);
  }
  s->runner_limit = min_i64(s->runner_limit, s->item_limit);
  s->panels = need((size_t)(s->runner_limit * s->panel_floats), sizeof(float));
  s->rows = need((size_t)(s->runner_limit * s->tile_rows * s->row_floats), sizeof(float));
  /* What runners find must not matter. */
  memset(s->panels, 0xff, (size_t)(s->runner_limit * s->panel_floats) * sizeof(float));
  memset(s->rows, 0xff, (size_t)(s->runner_limit * s->tile_rows * s->row_floats) * sizeof(float));
}

static void scratch_init(const paged_call *call, scratch *s) {
  memset(s, 0, sizeof *s);
  int64_t pieces = (call->columns * call->block_size + 511) / 512;
  if (call->partial_blocks > pieces) {
    pieces = call->partial_blocks;
  }
  s->state_limit = min_i64(call->tokens * call->num_heads * pieces, 4096);
  s->item_limit = min_i64(call->tokens * call->kv_num_heads * pieces, call->tokens + 1024);
  s->merge_limit = min_i64(call->tokens, 4096);
  if (call->state_limit >= 0) {
    s->state_limit = min_i64(s->state_limit, call->state_limit);
  }
  if (call->extra_items >= 0) {
    s->item_limit = call->tokens + call->extra_items;
  }
  const int64_t levels = pieces <= 1 ? 1 : call->cumulative != NULL && pieces <= 16 ? 2 : 3;
  const int64_t short_rows =
      call->cumulative != NULL ? min_i64(call->tokens, 8 * call->sequences) : call->tokens;
  s->work_limit = short_rows * call->num_heads * levels +
                  (levels == 3 ? min_i64(call->tokens * call->num_heads * pieces, 4096) : 0);
  runners_init(call, pieces, s);
  s->slots = need((size_t)call->tokens, sizeof(int64_t));
  s->items = need((size_t)s->item_limit, sizeof(quire_paged_item));
  s->merge_rows = need((size_t)s->merge_limit, sizeof(quire_paged_merge_row));
  s->values = need((size_t)(s->state_limit * call->head_size), sizeof(float));
  s->stats = need((size_t)(s->state_limit * 2), sizeof(float));
  s->work_values = need((size_t)(s->work_limit * call->head_size), sizeof(float));
  s->work_stats = need((size_t)(s->work_limit * 2), sizeof(float));
  memset(s->work_values, 0xff, (size_t)(s->work_limit * call->head_size) * sizeof(float));
  memset(s->work_stats, 0xff, (size_t)(s->work_limit * 2) * sizeof(float));
  /* States that nobody wrote must not matter. */
  for (int64_t i = 0; i < s->state_limit * call->head_size; ++i) {
    s->values[i] = NAN;
  }
  for (int64_t i = 0; i < s->state_limit * 2; ++i) {
    s->stats[i] = NAN;
  }
}

static void scratch_release(scratch *s) {
  free(s->slots);
  free(s->items);
  free(s->merge_rows);
  free(s->values);
  free(s->stats);
  free(s->work_values);
  free(s->work_stats);
  free(s->panels);
  free(s->rows);
}

static void run_items(const paged_call *call, const quire_implementation *kernel,
                      quire_pass *pass) {
  const size_t count = pass->grid[0] * pass->grid[1];
  for (size_t i = 0; i < count; ++i) {
    const size_t index = call->reverse ? count - 1 - i : i;
    const size_t item[3] = {index % pass->grid[0], index / pass->grid[0], 0};
    assert_int_equal(kernel->function(pass, item), QUIRE_OK);
  }
}

static quire_status run_schedule(const paged_call *call, scratch *s, quire_error *error) {
  const quire_view table = view_2(call->table, QUIRE_INT32, call->sequences, call->columns);
  const int64_t rows_shape[3] = {s->runner_limit, s->tile_rows, s->row_floats};
  const quire_view rows = make_view(s->rows, QUIRE_FLOAT32, 3, rows_shape);
  const quire_view queue = view_1(s->queue, QUIRE_INT64, QUIRE_PAGED_QUEUE_WORDS);
  const quire_view lists[4] = {
      view_2(s->items, QUIRE_INT64, s->item_limit, QUIRE_PAGED_ITEM_WORDS),
      view_2(s->merge_rows, QUIRE_INT64, s->merge_limit, QUIRE_PAGED_MERGE_WORDS),
      view_1(s->attend_grid, QUIRE_UINT32, 3), view_1(s->merge_grid, QUIRE_UINT32, 3)};
  const bool decode = call->cumulative == NULL;
  const uint32_t uniforms[7] = {
      (uint32_t)call->num_heads,   (uint32_t)call->kv_num_heads,
      (uint32_t)call->block_count, (uint32_t)call->block_size,
      (uint32_t)call->window,      decode ? (uint32_t)call->partial_blocks : !call->non_causal,
      (uint32_t)s->state_limit};
  const quire_view past = view_1(call->past, QUIRE_INT32, call->sequences);
  const quire_view decode_views[7] = {table, past, lists[0], lists[1], lists[2], lists[3], queue};
  const quire_view views[12] = {view_1(call->cumulative, QUIRE_INT32, call->sequences + 1),
                                past,
                                table,
                                view_1(call->slots, QUIRE_INT32, call->tokens),
                                view_1(call->metadata, QUIRE_INT32, call->metadata_count),
                                view_1(s->slots, QUIRE_INT64, call->tokens),
                                lists[0],
                                lists[1],
                                lists[2],
                                lists[3],
                                queue,
                                rows};
  const quire_pass pass = {.views = decode ? decode_views : views,
                           .uniforms = uniforms,
                           .grid = {1, 1, 1},
                           .flags = call->flags,
                           .threads = call->threads,
                           .error = error};
  const size_t item[3] = {0, 0, 0};
  const quire_implementation *kernel =
      decode ? find(&quire_kernels_paged_decode, call->isa, "paged_decode_schedule")
             : find(&quire_kernels_paged_attention, call->isa, "paged_attention_schedule");
  return kernel->function(&pass, item);
}

static quire_view query_view(const paged_call *call) {
  const int64_t heads =
      call->num_heads +
      (call->key == NULL && call->cumulative != NULL ? 2 * call->kv_num_heads : 0);
  quire_view view = view_2(call->query, call->dtype, call->tokens, heads * call->head_size);
  if (call->query_stride != 0) {
    view.stride[0] = call->query_stride;
  }
  return view;
}

static void run_scatter(const paged_call *call, const scratch *s) {
  const int64_t width = call->kv_num_heads * call->head_size;
  const quire_view views[10] = {query_view(call),
                                view_2(call->key, call->dtype, call->tokens, width),
                                view_2(call->value, call->dtype, call->tokens, width),
                                cache_view(call, call->key_cache),
                                cache_view(call, call->value_cache),
                                scale_view(call, call->k_scale),
                                scale_view(call, call->v_scale),
                                scale_cache_view(call, call->k_scale_cache),
                                scale_cache_view(call, call->v_scale_cache),
                                view_1(s->slots, QUIRE_INT64, call->tokens)};
  const uint32_t num_heads = (uint32_t)call->num_heads;
  const size_t parts = call->scatter_parts == 0 ? 3 : (size_t)call->scatter_parts;
  quire_pass pass = {.views = views, .uniforms = &num_heads, .grid = {parts, 1, 1}};
  run_items(call, find(&quire_kernels_paged_attention, call->isa, "paged_attention_scatter"),
            &pass);
}

typedef struct attend_uniforms {
  uint32_t num_heads;
  float scale, softcap;
  uint32_t window, is_causal, head_size, value_size;
} attend_uniforms;

static void run_attend(const paged_call *call, const scratch *s) {
  const quire_view output =
      view_2(call->output, call->dtype, call->tokens, call->num_heads * call->head_size);
  const quire_view lse = view_2(call->softmax_lse, QUIRE_FLOAT32, call->tokens, call->num_heads);
  const quire_view sink = view_1(call->sink, call->dtype, call->num_heads);
  const quire_view v_scale = scale_view(call, call->v_scale);
  const quire_view values = view_2(s->values, QUIRE_FLOAT32, s->state_limit, call->head_size);
  const quire_view stats = view_2(s->stats, QUIRE_FLOAT32, s->state_limit, 2);
  const int64_t rows_shape[3] = {s->runner_limit, s->tile_rows, s->row_floats};
  const quire_view views[20] = {
      query_view(call),
      cache_view(call, call->key_cache),
      cache_view(call, call->value_cache),
      view_2(call->table, QUIRE_INT32, call->sequences, call->columns),
      scale_view(call, call->k_scale),
      v_scale,
      scale_cache_view(call, call->k_scale_cache),
      scale_cache_view(call, call->v_scale_cache),
      sink,
      output,
      lse,
      view_2(s->items, QUIRE_INT64, s->item_limit, QUIRE_PAGED_ITEM_WORDS),
      values,
      stats,
      view_1(s->queue, QUIRE_INT64, QUIRE_PAGED_QUEUE_WORDS),
      view_1(&s->taken, QUIRE_UINT32, 1),
      view_2(s->panels, QUIRE_FLOAT32, s->runner_limit, s->panel_floats),
      make_view(s->rows, QUIRE_FLOAT32, 3, rows_shape),
      view_2(s->work_values, QUIRE_FLOAT32, s->work_limit, call->head_size),
      view_2(s->work_stats, QUIRE_FLOAT32, s->work_limit, 2)};
  const attend_uniforms uniforms = {
      (uint32_t)call->num_heads, call->scale,       call->softcap,
      (uint32_t)call->window,    !call->non_causal, (uint32_t)call->head_size,
      (uint32_t)call->head_size};
  quire_pass pass = {
      .views = views, .uniforms = &uniforms, .grid = {s->attend_grid[0], s->attend_grid[1], 1}};
  run_items(call, find_attend(call), &pass);
  const quire_view merge_views[7] = {
      v_scale, sink, output, lse, view_2(s->merge_rows, QUIRE_INT64, s->merge_limit, 5),
      values,  stats};
  const uint32_t merge_uniforms[3] = {(uint32_t)call->num_heads, (uint32_t)call->kv_num_heads,
                                      (uint32_t)call->head_size};
  pass.views = merge_views;
  pass.uniforms = merge_uniforms;
  pass.grid[0] = s->merge_grid[0];
  pass.grid[1] = s->merge_grid[1];
  run_items(call, find(&quire_kernels_paged_attention, call->isa, "paged_attention_merge"), &pass);
}

quire_status paged_run(paged_call *call, quire_error *error) {
  scratch s;
  scratch_init(call, &s);
  const quire_status status = run_schedule(call, &s, error);
  if (status == QUIRE_OK) {
    call->item_count = s.attend_grid[0];
    call->merge_count = s.merge_grid[0];
    assert_true(call->item_count <= s.item_limit && call->merge_count <= s.merge_limit);
    if (call->cumulative != NULL) {
      run_scatter(call, &s);
    }
    run_attend(call, &s);
  }
  scratch_release(&s);
  return status;
}

/* The scale of a row and head, where there is one for each. */
static const float *row_scale(const paged_call *call, const float *scales, int64_t block,
                              int64_t row, int64_t head) {
  const quire_view view = scale_cache_view(call, scales);
  return scales + block * view.stride[0] + row * view.stride[1] + head * view.stride[2];
}

/* Element (row of the cache, head, d), dequantised. */
static double cache_at(const paged_call *call, const void *cache, const float *scales,
                       const float *scale_cache, int64_t block, int64_t row, int64_t head,
                       int64_t d) {
  const quire_view view = cache_view(call, cache);
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
  const quire_view query = query_view(call);
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
  double *scores = need((size_t)(end > first ? end - first : 0), sizeof(double));
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
  const quire_view query = query_view(call);
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
  float *keys = need(count * (size_t)size, sizeof(float));
  float *values = need(count * (size_t)size, sizeof(float));
  float *vectors = need((size_t)size * 3, sizeof(float));
  float *scales = need(count * 2, sizeof(float));
  bool *visible = need(count, sizeof(bool));
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

float paged_random(uint64_t *seed) {
  *seed = *seed * 6364136223846793005u + 1442695040888963407u;
  return (float)(int32_t)(*seed >> 32) * 0x1p-31f;
}

void paged_fill(quire_dtype dtype, void *data, int64_t n, float size, uint64_t *seed) {
  for (int64_t i = 0; i < n; ++i) {
    const float value = paged_random(seed) * size;
    quire_narrow_row(dtype, &value, 1, (char *)data + i * (int64_t)quire_dtype_size(dtype));
  }
}
