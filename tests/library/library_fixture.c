#include "library_fixture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- device ---- */

cpu_device open_cpu(const quire_allocator *allocator, size_t plan_cache_size) {
  quire_device_options options;
  quire_device_options_init(&options);
  options.plan_cache_size = plan_cache_size;
  options.threads = 2;
  return cpu_open(allocator, &options);
}

/* ---- tensors ---- */

quire_tensor floats(float *data, int32_t ndim, const int64_t *shape) {
  return (quire_tensor){data, 0, QUIRE_FLOAT32, ndim, shape, NULL};
}

quire_tensor ints(int32_t *data, int32_t ndim, const int64_t *shape) {
  return (quire_tensor){data, 0, QUIRE_INT32, ndim, shape, NULL};
}

void assert_near(const char *what, double got, double want) {
  if (!(fabs(got - want) <= 1e-6 + 1e-5 * fabs(want)) && !(isinf(want) && got == want)) {
    fail_msg("%s: got %.9g, want %.9g", what, got, want);
  }
}

/* ---- cases ---- */

void paged_case_init(paged_case *data) {
  static const int64_t query[] = {3, 4}, key[] = {3, 2}, cache[] = {4, 2, 1, 2}, table[] = {2, 2},
                       three[] = {3}, two[] = {2};
  static const paged_case values = {
      .query = {{1, 0, 0, 1}, {1, 0, 0, 1}, {1, 0, 0, 1}},
      .key = {{2, 0}, {1, 0}, {0, 1}},
      .value = {{30, 3}, {10, 1}, {20, 2}},
      .offsets = {0, 1, 3},
      .past = {2, 0},
      .table = {{1, 0}, {3, 2}},
      .slots = {0, 6, 7},
  };
  *data = values;
  float *keys = &data->key_cache[0][0][0][0];
  float *cached_values = &data->value_cache[0][0][0][0];
  for (int i = 0; i < 16; i++) {
    keys[i] = cached_values[i] = NAN;
  }
  data->key_cache[1][0][0][0] = 1, data->key_cache[1][0][0][1] = 0;
  data->key_cache[1][1][0][0] = 0, data->key_cache[1][1][0][1] = 1;
  data->value_cache[1][0][0][0] = 10, data->value_cache[1][0][0][1] = 1;
  data->value_cache[1][1][0][0] = 20, data->value_cache[1][1][0][1] = 2;

  quire_paged_attention_args *args = &data->args;
  quire_paged_attention_args_init(args);
  args->query = floats(&data->query[0][0], 2, query);
  args->key = floats(&data->key[0][0], 2, key);
  args->value = floats(&data->value[0][0], 2, key);
  args->key_cache = floats(keys, 4, cache);
  args->value_cache = floats(cached_values, 4, cache);
  args->cumulative_sequence_length = ints(data->offsets, 1, three);
  args->past_seqlens = ints(data->past, 1, two);
  args->block_table = ints(&data->table[0][0], 2, table);
  args->output = floats(&data->output[0][0], 2, query);
  args->softmax_lse = floats(&data->lse[0][0], 2, key);
  args->num_heads = 2;
  args->kv_num_heads = 1;
  args->scale = 0.5f;
}

void linear_case_init(linear_case *data) {
  static const int64_t wide[] = {1, 2, 2}, narrow[] = {1, 2, 1};
  static const linear_case values = {
      .query = {{1, 0}, {0, 1}},
      .key = {{1, 0}, {0.6f, 0.8f}},
      .value = {2, 3},
      .past = {4, 8},
      .decay_head = {-0.69314718f, -1.38629436f},
      .decay_key = {{-0.69314718f, 0}, {-1.38629436f, -0.69314718f}},
      .beta = {0.5f, 1},
      .state_shape = {1, 1, 2, 1, 0},
  };
  *data = values;
  quire_linear_attention_args *args = &data->args;
  quire_linear_attention_args_init(args);
  args->query = floats(&data->query[0][0], 3, wide);
  args->key = floats(&data->key[0][0], 3, wide);
  args->value = floats(data->value, 3, narrow);
  args->past_state = floats(data->past, 4, data->state_shape);
  args->decay = floats(data->decay_head, 3, narrow);
  args->beta = floats(data->beta, 3, narrow);
  args->output = floats(data->output, 3, narrow);
  args->present_state = floats(&data->present[0][0], 4, data->state_shape);
  args->q_num_heads = 1;
  args->kv_num_heads = 1;
  args->scale = 1;
}

void decode_case_init(decode_case *data) {
  static const int64_t query[] = {3, 2, 2}, pages[] = {1, 2, 2, 2}, table[] = {3, 2}, rows[] = {3},
                       heads[] = {3, 2};
  static const decode_case values = {
      .query = {{{1, 0}, {0, 1}}, {{1, 0}, {0, 1}}, {{1, 0}, {0, 1}}},
      .key_pages = {{{{2, 0}, {0, 0}}, {{1, 0}, {0, 1}}}},
      .value_pages = {{{{30, 3}, {0, 0}}, {{10, 1}, {20, 2}}}},
      .table = {{1, 0}, {1, 0}, {1, 0}},
      .lengths = {1, 2, 3},
  };
  *data = values;
  for (int i = 0; i < 2; i++) {
    data->key_pages[0][0][1][i] = data->value_pages[0][0][1][i] = NAN;
  }
  quire_paged_decode_args *args = &data->args;
  quire_paged_decode_args_init(args);
  args->query = floats(&data->query[0][0][0], 3, query);
  args->key_pages = floats(&data->key_pages[0][0][0][0], 4, pages);
  args->value_pages = floats(&data->value_pages[0][0][0][0], 4, pages);
  args->page_table = ints(&data->table[0][0], 2, table);
  args->context_lengths = ints(data->lengths, 1, rows);
  args->output = floats(&data->output[0][0][0], 3, query);
  args->softmax_lse = floats(&data->lse[0][0], 2, heads);
  args->scale = 0.5f;
}
