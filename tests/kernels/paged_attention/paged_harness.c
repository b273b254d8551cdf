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
#include "paged_views.h"
#include "paged_work.h"

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
  s->panels = paged_need((size_t)(s->runner_limit * s->panel_floats), sizeof(float));
  s->rows = paged_need((size_t)(s->runner_limit * s->tile_rows * s->row_floats), sizeof(float));
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
  s->slots = paged_need((size_t)call->tokens, sizeof(int64_t));
  s->items = paged_need((size_t)s->item_limit, sizeof(quire_paged_item));
  s->merge_rows = paged_need((size_t)s->merge_limit, sizeof(quire_paged_merge_row));
  s->values = paged_need((size_t)(s->state_limit * call->head_size), sizeof(float));
  s->stats = paged_need((size_t)(s->state_limit * 2), sizeof(float));
  s->work_values = paged_need((size_t)(s->work_limit * call->head_size), sizeof(float));
  s->work_stats = paged_need((size_t)(s->work_limit * 2), sizeof(float));
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
  const quire_view table = paged_view_2(call->table, QUIRE_INT32, call->sequences, call->columns);
  const int64_t rows_shape[3] = {s->runner_limit, s->tile_rows, s->row_floats};
  const quire_view rows = paged_view(s->rows, QUIRE_FLOAT32, 3, rows_shape);
  const quire_view queue = paged_view_1(s->queue, QUIRE_INT64, QUIRE_PAGED_QUEUE_WORDS);
  const quire_view lists[4] = {
      paged_view_2(s->items, QUIRE_INT64, s->item_limit, QUIRE_PAGED_ITEM_WORDS),
      paged_view_2(s->merge_rows, QUIRE_INT64, s->merge_limit, QUIRE_PAGED_MERGE_WORDS),
      paged_view_1(s->attend_grid, QUIRE_UINT32, 3), paged_view_1(s->merge_grid, QUIRE_UINT32, 3)};
  const bool decode = call->cumulative == NULL;
  const uint32_t uniforms[7] = {
      (uint32_t)call->num_heads,   (uint32_t)call->kv_num_heads,
      (uint32_t)call->block_count, (uint32_t)call->block_size,
      (uint32_t)call->window,      decode ? (uint32_t)call->partial_blocks : !call->non_causal,
      (uint32_t)s->state_limit};
  const quire_view past = paged_view_1(call->past, QUIRE_INT32, call->sequences);
  const quire_view decode_views[7] = {table, past, lists[0], lists[1], lists[2], lists[3], queue};
  const quire_view views[12] = {paged_view_1(call->cumulative, QUIRE_INT32, call->sequences + 1),
                                past,
                                table,
                                paged_view_1(call->slots, QUIRE_INT32, call->tokens),
                                paged_view_1(call->metadata, QUIRE_INT32, call->metadata_count),
                                paged_view_1(s->slots, QUIRE_INT64, call->tokens),
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

static void run_scatter(const paged_call *call, const scratch *s) {
  const int64_t width = call->kv_num_heads * call->head_size;
  const quire_view views[10] = {paged_query_view(call),
                                paged_view_2(call->key, call->dtype, call->tokens, width),
                                paged_view_2(call->value, call->dtype, call->tokens, width),
                                paged_cache_view(call, call->key_cache),
                                paged_cache_view(call, call->value_cache),
                                paged_scale_view(call, call->k_scale),
                                paged_scale_view(call, call->v_scale),
                                paged_scale_cache_view(call, call->k_scale_cache),
                                paged_scale_cache_view(call, call->v_scale_cache),
                                paged_view_1(s->slots, QUIRE_INT64, call->tokens)};
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
      paged_view_2(call->output, call->dtype, call->tokens, call->num_heads * call->head_size);
  const quire_view lse =
      paged_view_2(call->softmax_lse, QUIRE_FLOAT32, call->tokens, call->num_heads);
  const quire_view sink = paged_view_1(call->sink, call->dtype, call->num_heads);
  const quire_view v_scale = paged_scale_view(call, call->v_scale);
  const quire_view values = paged_view_2(s->values, QUIRE_FLOAT32, s->state_limit, call->head_size);
  const quire_view stats = paged_view_2(s->stats, QUIRE_FLOAT32, s->state_limit, 2);
  const int64_t rows_shape[3] = {s->runner_limit, s->tile_rows, s->row_floats};
  const quire_view views[20] = {
      paged_query_view(call),
      paged_cache_view(call, call->key_cache),
      paged_cache_view(call, call->value_cache),
      paged_view_2(call->table, QUIRE_INT32, call->sequences, call->columns),
      paged_scale_view(call, call->k_scale),
      v_scale,
      paged_scale_cache_view(call, call->k_scale_cache),
      paged_scale_cache_view(call, call->v_scale_cache),
      sink,
      output,
      lse,
      paged_view_2(s->items, QUIRE_INT64, s->item_limit, QUIRE_PAGED_ITEM_WORDS),
      values,
      stats,
      paged_view_1(s->queue, QUIRE_INT64, QUIRE_PAGED_QUEUE_WORDS),
      paged_view_1(&s->taken, QUIRE_UINT32, 1),
      paged_view_2(s->panels, QUIRE_FLOAT32, s->runner_limit, s->panel_floats),
      paged_view(s->rows, QUIRE_FLOAT32, 3, rows_shape),
      paged_view_2(s->work_values, QUIRE_FLOAT32, s->work_limit, call->head_size),
      paged_view_2(s->work_stats, QUIRE_FLOAT32, s->work_limit, 2)};
  const attend_uniforms uniforms = {
      (uint32_t)call->num_heads, call->scale,       call->softcap,
      (uint32_t)call->window,    !call->non_causal, (uint32_t)call->head_size,
      (uint32_t)call->head_size};
  quire_pass pass = {
      .views = views, .uniforms = &uniforms, .grid = {s->attend_grid[0], s->attend_grid[1], 1}};
  run_items(call,
            call->attend != NULL
                ? call->attend
                : find(&quire_kernels_paged_attention, call->isa, "paged_attention_attend"),
            &pass);
  const quire_view merge_views[7] = {
      v_scale, sink, output, lse, paged_view_2(s->merge_rows, QUIRE_INT64, s->merge_limit, 5),
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
