/* The plan cache and the workspaces of typed calls: what is kept, what goes, and from many threads.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "library_fixture.h"

/* A merge of `rows` rows of 1 head of 4 channels; checks the result. Returns false if it is wrong.
 */
enum { MOST_ROWS = 32 };

static bool merge_rows(quire_device *device, int64_t rows, quire_workspace *workspace,
                       quire_error *error) {
  const int64_t wide[] = {rows, 1, 4}, narrow[] = {rows, 1};
  float a[MOST_ROWS * 4], b[MOST_ROWS * 4], output[MOST_ROWS * 4];
  float lse_a[MOST_ROWS], lse_b[MOST_ROWS], lse[MOST_ROWS];
  for (int i = 0; i < (int)rows * 4; i++) {
    a[i] = (float)i;
    b[i] = (float)(i + 2);
    output[i] = -1;
  }
  for (int i = 0; i < (int)rows; i++) {
    lse_a[i] = lse_b[i] = 1;
  }
  quire_merge_attention_states_args args;
  quire_merge_attention_states_args_init(&args);
  args.output_a = floats(a, 3, wide);
  args.softmax_lse_a = floats(lse_a, 2, narrow);
  args.output_b = floats(b, 3, wide);
  args.softmax_lse_b = floats(lse_b, 2, narrow);
  args.output = floats(output, 3, wide);
  args.softmax_lse = floats(lse, 2, narrow);
  args.workspace = workspace;
  if (quire_merge_attention_states(device, &args, error) != QUIRE_OK) {
    return false;
  }
  for (int i = 0; i < (int)rows * 4; i++) {
    if (output[i] != (float)(i + 1)) {
      (void)snprintf(error->message, sizeof error->message, "rows %d: element %d is %g", (int)rows,
                     i, (double)output[i]);
      return false;
    }
  }
  return true;
}

static size_t allocations_of(cpu_device *cpu, counting_allocator *counting, int64_t rows) {
  quire_error error;
  size_t before = atomic_load(&counting->requests);
  if (!merge_rows(cpu->device, rows, NULL, &error)) {
    fail_msg("%s", error.message);
  }
  return atomic_load(&counting->requests) - before;
}

static void a_hit_allocates_nothing(void **state) {
  (void)state;
  counting_allocator counting;
  counting_allocator_init(&counting);
  cpu_device cpu = open_cpu(&counting.allocator, 0);
  assert_true(allocations_of(&cpu, &counting, 3) > 0);
  for (int i = 0; i < 3; i++) {
    assert_int_equal(allocations_of(&cpu, &counting, 3), 0);
  }
  cpu_close(&cpu);
  assert_int_equal(atomic_load(&counting.bytes), 0);
}

static void the_least_recently_used_plan_goes_first(void **state) {
  (void)state;
  counting_allocator counting;
  counting_allocator_init(&counting);
  cpu_device cpu = open_cpu(&counting.allocator, 2);
  static const struct {
    int64_t rows;
    bool hit;
  } steps[] = {
      {1, false}, {2, false}, {1, true},  {3, false}, /* 2 goes */
      {1, true},  {3, true},  {2, false},             /* 1 goes */
      {3, true},  {2, true},  {1, false},             /* 3 goes */
      {2, true},  {1, true},  {3, false}, {1, true},
  };
  for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
    bool hit = allocations_of(&cpu, &counting, steps[i].rows) == 0;
    if (hit != steps[i].hit) {
      fail_msg("step %zu: %lld rows: hit is %d", i, (long long)steps[i].rows, hit);
    }
  }
  cpu_close(&cpu);
  assert_int_equal(atomic_load(&counting.bytes), 0);
}

static void a_cache_of_one_works(void **state) {
  (void)state;
  counting_allocator counting;
  counting_allocator_init(&counting);
  cpu_device cpu = open_cpu(&counting.allocator, 1);
  for (int64_t rows = 1; rows <= 5; rows++) {
    assert_true(allocations_of(&cpu, &counting, rows) > 0);
    assert_int_equal(allocations_of(&cpu, &counting, rows), 0);
  }
  cpu_close(&cpu);
  assert_int_equal(atomic_load(&counting.bytes), 0);
}

/* What must make another plan: each changes one thing of PA-G1. */
static void change_scale(paged_case *data) {
  data->args.scale = 0.25f;
}
static void change_window(paged_case *data) {
  data->args.local_window_size = 2;
}
static void use_other_quant_text(paged_case *data) {
  data->args.k_quant_type = NULL; /* the default by another name: no change */
}
static void leave_out_lse(paged_case *data) {
  memset(&data->args.softmax_lse, 0, sizeof data->args.softmax_lse);
}
static void add_sink(paged_case *data) {
  static const int64_t two[] = {2};
  data->args.head_sink = floats(data->sink, 1, two);
}
static void add_slots(paged_case *data) {
  data->args.slot_mapping = ints(data->slots, 1, data->args.cumulative_sequence_length.shape);
}
static void name_the_caches_as_outputs(paged_case *data) {
  data->args.key_cache_out = data->args.key_cache;
  data->args.value_cache_out = data->args.value_cache;
}
static void give_separate_outputs(paged_case *data) {
  static float keys[16], values[16];
  name_the_caches_as_outputs(data);
  data->args.key_cache_out.data = keys;
  data->args.value_cache_out.data = values;
}
static void stride_by(paged_case *data, const int64_t *strides) {
  static float keys[64];
  data->args.key_cache.data = keys;
  data->args.key_cache.strides = strides;
}
static void write_dense_strides(paged_case *data) {
  static const int64_t strides[] = {4, 2, 2, 1};
  stride_by(data, strides);
}
static void stretch_blocks(paged_case *data) {
  static const int64_t strides[] = {8, 2, 2, 1};
  stride_by(data, strides);
}
static void stretch_rows(paged_case *data) {
  static const int64_t strides[] = {8, 4, 2, 1};
  stride_by(data, strides);
}
static void more_blocks(paged_case *data) {
  static const int64_t shape[] = {5, 2, 1, 2};
  static float keys[20], values[20];
  data->args.key_cache = floats(keys, 4, shape);
  data->args.value_cache = floats(values, 4, shape);
}

static const struct {
  const char *name;
  void (*change)(paged_case *data);
  bool same_plan; /* as PA-G1 itself */
} key_changes[] = {
    {"scale", change_scale, false},
    {"window", change_window, false},
    {"default by another name", use_other_quant_text, true},
    {"no softmax_lse", leave_out_lse, false},
    {"sink", add_sink, false},
    {"slots", add_slots, false},
    {"caches as outputs", name_the_caches_as_outputs, false},
    {"separate outputs", give_separate_outputs, false},
    {"dense strides", write_dense_strides, false},
    {"stretched blocks", stretch_blocks, false},
    {"stretched rows", stretch_rows, false},
    {"more blocks", more_blocks, false},
};

static void keys_tell_calls_apart(void **state) {
  (void)state;
  counting_allocator counting;
  counting_allocator_init(&counting);
  cpu_device cpu = open_cpu(&counting.allocator, 0);
  paged_case data;
  quire_error error;
  paged_case_init(&data);
  assert_int_equal(quire_paged_attention(cpu.device, &data.args, &error), QUIRE_OK);
  for (size_t i = 0; i < sizeof key_changes / sizeof key_changes[0]; i++) {
    size_t calls[2];
    for (int turn = 0; turn < 2; turn++) {
      paged_case_init(&data);
      key_changes[i].change(&data);
      size_t before = atomic_load(&counting.requests);
      if (quire_paged_attention(cpu.device, &data.args, &error) != QUIRE_OK) {
        fail_msg("%s: %s", key_changes[i].name, error.message);
      }
      calls[turn] = atomic_load(&counting.requests) - before;
    }
    if ((calls[0] == 0) != key_changes[i].same_plan || calls[1] != 0) {
      fail_msg("%s: %zu allocations, then %zu", key_changes[i].name, calls[0], calls[1]);
    }
  }
  cpu_close(&cpu);
}

/* Bounds enter the key rounded up: a decode loop does not plan anew for every token. */
static void bounds_share_plans(void **state) {
  (void)state;
  counting_allocator counting;
  counting_allocator_init(&counting);
  cpu_device cpu = open_cpu(&counting.allocator, 0);
  decode_case data;
  decode_case_init(&data);
  size_t misses = 0;
  for (int64_t bound = 5; bound <= 40; bound++) {
    data.args.context_bound = bound;
    quire_error error;
    size_t before = atomic_load(&counting.requests);
    if (quire_paged_decode(cpu.device, &data.args, &error) != QUIRE_OK) {
      fail_msg("%s", error.message);
    }
    misses += atomic_load(&counting.requests) != before;
  }
  assert_int_equal(misses, 4); /* 8, 16, 32, 64 */
  cpu_close(&cpu);
}

static void a_workspace_of_the_caller_is_used(void **state) {
  (void)state;
  cpu_device cpu = open_cpu(NULL, 0);
  quire_error error;
  quire_workspace *workspace = NULL;
  assert_int_equal(quire_workspace_create(cpu.device, NULL, &workspace, &error), QUIRE_OK);
  const int64_t rows[] = {4, 4, 4, 5, 5, 4};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    assert_true(merge_rows(cpu.device, rows[i], workspace, &error));
  }
  quire_workspace_counters counters;
  quire_workspace_get_counters(workspace, &counters);
  assert_int_equal(counters.prepared, 3);
  assert_int_equal(counters.reused, 3);
  quire_workspace_release(workspace);
  cpu_close(&cpu);
}

/* ---- threads ---- */

enum { THREADS = 4, ROUNDS = 60 };

typedef struct caller {
  quire_device *device;
  uint32_t seed;
  quire_error error;
  bool failed;
} caller;

/* Three threads' worth of shapes in a cache of three: plans come and go while others run them. */
static void *call_many(void *user) {
  caller *self = user;
  for (int i = 0; i < ROUNDS && !self->failed; i++) {
    self->seed = self->seed * 1664525u + 1013904223u;
    self->failed = !merge_rows(self->device, 1 + (self->seed >> 16) % 6, NULL, &self->error);
    if (!self->failed && i % 8 == 0) {
      linear_case data;
      linear_case_init(&data);
      self->failed = quire_linear_attention(self->device, &data.args, &self->error) != QUIRE_OK ||
                     !(data.output[1] > 2.519f && data.output[1] < 2.521f);
    }
  }
  return NULL;
}

static void threads_share_a_device(void **state) {
  (void)state;
  counting_allocator counting;
  counting_allocator_init(&counting);
  cpu_device cpu = open_cpu(&counting.allocator, 3);
  pthread_t threads[THREADS];
  caller callers[THREADS];
  for (uint32_t i = 0; i < THREADS; i++) {
    memset(&callers[i], 0, sizeof callers[i]);
    callers[i].device = cpu.device;
    callers[i].seed = i + 1;
    assert_int_equal(pthread_create(&threads[i], NULL, call_many, &callers[i]), 0);
  }
  for (uint32_t i = 0; i < THREADS; i++) {
    pthread_join(threads[i], NULL);
  }
  for (uint32_t i = 0; i < THREADS; i++) {
    if (callers[i].failed) {
      fail_msg("thread of seed %u: %s", i + 1, callers[i].error.message);
    }
  }
  cpu_close(&cpu);
  assert_int_equal(atomic_load(&counting.bytes), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_hit_allocates_nothing),
      cmocka_unit_test(the_least_recently_used_plan_goes_first),
      cmocka_unit_test(a_cache_of_one_works),
      cmocka_unit_test(keys_tell_calls_apart),
      cmocka_unit_test(bounds_share_plans),
      cmocka_unit_test(a_workspace_of_the_caller_is_used),
      cmocka_unit_test(threads_share_a_device),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
