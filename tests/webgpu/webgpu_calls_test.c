/* Typed calls on a WebGPU device: the same args as on the CPU, with WGPUBuffers as data. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "quire/quire.h"

enum { MOST_BUFFERS = 32 };

/* A device and what was made on it. */
typedef struct place {
  quire_device *device;
  void *buffers[MOST_BUFFERS];
  size_t count;
} place;

static void must(quire_status status, const quire_error *error) {
  if (status != QUIRE_OK) {
    fail_msg("%s", error->message);
  }
}

/* A dense tensor with content (NULL: none) in the device's memory. */
static quire_tensor make(place *at, const void *data, quire_dtype dtype, int32_t ndim,
                         const int64_t *shape) {
  quire_error error;
  uint64_t bytes = quire_dtype_size(dtype);
  for (int32_t d = 0; d < ndim; d++) {
    bytes *= (uint64_t)shape[d];
  }
  assert_true(at->count < MOST_BUFFERS);
  void **buffer = &at->buffers[at->count++];
  must(quire_buffer_create(at->device, bytes, buffer, &error), &error);
  if (data != NULL) {
    must(quire_buffer_write(at->device, *buffer, 0, data, bytes, &error), &error);
  }
  return (quire_tensor){*buffer, 0, dtype, ndim, shape, NULL};
}

static void fetch(place *at, const quire_tensor *tensor, void *data, size_t bytes) {
  quire_error error;
  must(quire_buffer_read(at->device, tensor->data, 0, data, bytes, &error), &error);
}

static void leave(place *at) {
  for (size_t i = 0; i < at->count; i++) {
    quire_buffer_destroy(at->device, at->buffers[i]);
  }
  at->count = 0;
}

static void fill(float *data, size_t count, int step) {
  for (size_t i = 0; i < count; i++) {
    data[i] = (float)((int)(i % 1000) * step % 29 - 14) / 16;
  }
}

static void compare(const char *name, const float *got, const float *want, size_t count) {
  for (size_t i = 0; i < count; i++) {
    const float distance = got[i] < want[i] ? want[i] - got[i] : got[i] - want[i];
    if (!(distance <= 1e-4f)) {
      fail_msg("%s[%zu] is %g, want %g", name, i, (double)got[i], (double)want[i]);
    }
  }
}

static quire_context *context;
static place cpu, gpu;

/* ---- attention ---- */

enum { B = 3, HQ = 4, HKV = 2, D = 16, NB = 8, P = 4, MB = 3 };
typedef struct attention_result {
  float output[B][HQ * D], key_cache[NB][P][HKV][D];
} attention_result;

static void attend(place *at, attention_result *result, int calls) {
  static const int64_t query_shape[] = {B, (int64_t)HQ * D}, row_shape[] = {B, (int64_t)HKV * D};
  static const int64_t cache_shape[] = {NB, P, HKV, D}, table_shape[] = {B, MB};
  static const int64_t offset_shape[] = {B + 1}, length_shape[] = {B};
  static const int32_t offsets[] = {0, 1, 2, 3}, past[] = {9, 0, 4};
  static const int32_t table[B][MB] = {{4, 0, 5}, {2, -1, -1}, {7, 1, -1}};
  float query[B][HQ * D], rows[B][HKV * D], cache[NB][P][HKV][D];
  quire_error error;
  fill(&query[0][0], sizeof query / sizeof(float), 5);
  fill(&rows[0][0], sizeof rows / sizeof(float), 3);
  fill(&cache[0][0][0][0], sizeof cache / sizeof(float), 7);
  quire_paged_attention_args args;
  quire_paged_attention_args_init(&args);
  args.query = make(at, query, QUIRE_FLOAT32, 2, query_shape);
  args.key = make(at, rows, QUIRE_FLOAT32, 2, row_shape);
  args.value = make(at, rows, QUIRE_FLOAT32, 2, row_shape);
  args.key_cache = make(at, cache, QUIRE_FLOAT32, 4, cache_shape);
  args.value_cache = make(at, cache, QUIRE_FLOAT32, 4, cache_shape);
  args.cumulative_sequence_length = make(at, offsets, QUIRE_INT32, 1, offset_shape);
  args.past_seqlens = make(at, past, QUIRE_INT32, 1, length_shape);
  args.block_table = make(at, table, QUIRE_INT32, 2, table_shape);
  args.output = make(at, NULL, QUIRE_FLOAT32, 2, query_shape);
  args.num_heads = HQ;
  args.kv_num_heads = HKV;
  for (int i = 0; i < calls; i++) {
    must(quire_paged_attention(at->device, &args, &error), &error);
  }
  fetch(at, &args.output, result->output, sizeof result->output);
  fetch(at, &args.key_cache, result->key_cache, sizeof result->key_cache);
  leave(at);
}

static void test_attention(void **state) {
  (void)state;
  static attention_result want, got;
  if (gpu.device == NULL) {
    skip();
  }
  attend(&cpu, &want, 1);
  attend(&gpu, &got, 3); /* the same rows again: nothing changes */
  compare("output", &got.output[0][0], &want.output[0][0], sizeof got.output / sizeof(float));
  assert_memory_equal(got.key_cache, want.key_cache, sizeof got.key_cache);
}

/* ---- linear attention, its state updated where it is ---- */

enum { T = 5, H = 2, DK = 8, DV = 8 };
typedef struct linear_result {
  float output[2][T][H * DV], state[2][H][DK][DV];
} linear_result;

static void scan(place *at, linear_result *result, int in_place, int calls) {
  static const int64_t rows_shape[] = {2, T, (int64_t)H * DK}, state_shape[] = {2, H, DK, DV};
  static const int64_t gate_shape[] = {2, T, H};
  float query[2][T][H * DK], key[2][T][H * DK], value[2][T][H * DV], past[2][H][DK][DV];
  float decay[2][T][H], beta[2][T][H];
  quire_error error;
  fill(&query[0][0][0], sizeof query / sizeof(float), 5);
  fill(&key[0][0][0], sizeof key / sizeof(float), 3);
  fill(&value[0][0][0], sizeof value / sizeof(float), 11);
  fill(&past[0][0][0][0], sizeof past / sizeof(float), 7);
  for (int i = 0; i < 2 * T * H; i++) {
    (&decay[0][0][0])[i] = -0.1f - 0.01f * (float)i;
    (&beta[0][0][0])[i] = 0.02f * (float)(i % 40);
  }
  quire_linear_attention_args args;
  quire_linear_attention_args_init(&args);
  args.query = make(at, query, QUIRE_FLOAT32, 3, rows_shape);
  args.key = make(at, key, QUIRE_FLOAT32, 3, rows_shape);
  args.value = make(at, value, QUIRE_FLOAT32, 3, rows_shape);
  args.past_state = make(at, past, QUIRE_FLOAT32, 4, state_shape);
  args.decay = make(at, decay, QUIRE_FLOAT32, 3, gate_shape);
  args.beta = make(at, beta, QUIRE_FLOAT32, 3, gate_shape);
  args.output = make(at, NULL, QUIRE_FLOAT32, 3, rows_shape);
  args.present_state = in_place ? args.past_state : make(at, NULL, QUIRE_FLOAT32, 4, state_shape);
  args.q_num_heads = args.kv_num_heads = H;
  for (int i = 0; i < calls; i++) {
    must(quire_linear_attention(at->device, &args, &error), &error);
  }
  fetch(at, &args.output, result->output, sizeof result->output);
  fetch(at, &args.present_state, result->state, sizeof result->state);
  leave(at);
}

static void test_linear_attention(void **state) {
  (void)state;
  static linear_result want, got;
  if (gpu.device == NULL) {
    skip();
  }
  for (int in_place = 0; in_place < 2; in_place++) {
    scan(&cpu, &want, in_place, 2);
    scan(&gpu, &got, in_place, 2);
    compare("output", &got.output[0][0][0], &want.output[0][0][0],
            sizeof got.output / sizeof(float));
    compare("state", &got.state[0][0][0][0], &want.state[0][0][0][0],
            sizeof got.state / sizeof(float));
  }
}

/* ---- devices ---- */

static int open_devices(void **state) {
  (void)state;
  quire_error error;
  must(quire_context_create(NULL, &context, &error), &error);
  must(quire_device_open(context, "cpu", NULL, &cpu.device, &error), &error);
  const quire_status status = quire_webgpu_device_open(context, NULL, NULL, &gpu.device, &error);
  if (status != QUIRE_NOT_FOUND) {
    must(status, &error);
  }
  return 0;
}

static int close_devices(void **state) {
  (void)state;
  quire_context_release(context); /* in any order */
  quire_device_release(cpu.device);
  quire_device_release(gpu.device);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_attention),
      cmocka_unit_test(test_linear_attention),
  };
  return cmocka_run_group_tests(tests, open_devices, close_devices);
}
