/*
 * Every registered implementation of the recurrence that this machine can run, against the scalar
 * reference: the same bits on random calls of every rule, layout, type, mapping and way to keep
 * states, for any division into items. The case is printed when it fails; a number as argument
 * replaces the seed, a second one the number of calls.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cpu_features.h"
#include "linear_attention_harness.h"
#include "linear_attention_kernels.h"

static uint64_t seed = 20241130;
static int case_count = 600;

enum { ARRAYS = 9, MOST_SEQUENCES = 4, MOST_SLOTS = 40 };

typedef struct isa_case {
  la_call call;
  float *arrays[ARRAYS];
  float *pool;
  int32_t cu_seqlens[MOST_SEQUENCES + 1];
  int32_t reads[MOST_SEQUENCES];
  int32_t writes[MOST_SEQUENCES * 8];
  char text[300];
} isa_case;

static int64_t pick(uint64_t *rng, int64_t low, int64_t high) {
  return low + (int64_t)(la_random(rng) % (uint64_t)(high - low + 1));
}

static int64_t pick_of(uint64_t *rng, const int64_t *values, size_t count) {
  return values[la_random(rng) % count];
}

static float *fill(isa_case *ic, size_t index, uint64_t *rng, int64_t count, float low, float high,
                   quire_dtype type) {
  ic->arrays[index] = la_random_array(rng, (size_t)count, low, high, type);
  return ic->arrays[index];
}

/* Replaces one element in 40 by something that rounds, overflows or vanishes. */
static void make_wild(uint64_t *rng, float *values, int64_t count) {
  static const float wild[] = {0.0f, -0.0f, 1e-40f, -1e-40f, 3e38f, -3e38f, 65504.0f, 1e-8f};
  for (int64_t i = 0; i < count; i++) {
    if (pick(rng, 0, 39) == 0) {
      values[i] = wild[la_random(rng) % (sizeof wild / sizeof wild[0])];
    }
  }
}

static void choose_shape(la_call *c, uint64_t *rng) {
  static const int64_t heads[][3] = {{1, 1, 1}, {2, 2, 2}, {4, 2, 1}, {6, 3, 3}, {2, 8, 4},
                                     {1, 4, 2}, {3, 1, 1}, {2, 4, 1}, {2, 2, 1}};
  static const int64_t sizes[] = {1,  2,  3,  5,  7,  8,  15, 16,  17,  24,  31,
                                  32, 33, 48, 63, 64, 65, 96, 100, 128, 130, 200};
  static const int64_t tokens[] = {1, 1, 1, 2, 3, 4, 5, 8, 9, 15, 16, 17, 33, 40, 70};
  const int64_t *row = heads[la_random(rng) % (sizeof heads / sizeof heads[0])];
  c->q_heads = row[0];
  c->kv_heads = row[1];
  c->key_heads = row[2];
  c->tiled = pick(rng, 0, 3) == 0;
  c->dk = pick_of(rng, sizes, sizeof sizes / sizeof sizes[0]);
  c->dv = pick_of(rng, sizes, sizeof sizes / sizeof sizes[0]);
  c->tokens = pick_of(rng, tokens, sizeof tokens / sizeof tokens[0]);
  c->batch = pick(rng, 1, 3);
  if (pick(rng, 0, 40) == 0) { /* beyond the work memory on the stack */
    c->dk = pick(rng, 500, 700);
    c->dv = pick(rng, 1, 40);
    c->tokens = pick(rng, 1, 4);
  }
}

/* Ragged sequences, some empty. */
static void choose_sequences(isa_case *ic, uint64_t *rng) {
  la_call *c = &ic->call;
  if (pick(rng, 0, 2) > 0) {
    return;
  }
  c->batch = 1;
  c->sequences = pick(rng, 1, MOST_SEQUENCES);
  c->tokens = 0;
  for (int64_t n = 0; n < c->sequences; n++) {
    c->tokens += pick(rng, 0, 3) == 0 ? pick(rng, 0, 20) : pick(rng, 0, 2);
    ic->cu_seqlens[n + 1] = (int32_t)c->tokens;
  }
  c->cu_seqlens = ic->cu_seqlens;
}

static void choose_options(la_call *c, uint64_t *rng) {
  static const quire_dtype types[] = {QUIRE_FLOAT32, QUIRE_FLOAT16, QUIRE_BFLOAT16};
  c->rule = (la_rule)pick(rng, 0, 3);
  c->type = types[pick(rng, 0, 2)];
  c->state_type = types[pick(rng, 0, 2)];
  c->v_major = pick(rng, 0, 1) != 0;
  c->window = pick(rng, 0, 2) == 0 ? pick(rng, 1, 8) : 0;
  c->scale = pick(rng, 0, 1) ? la_uniform(rng, -2, 2) : 0;
  c->decay_width = pick(rng, 0, 1) ? c->kv_heads * c->dk : c->kv_heads;
  c->beta_width = pick(rng, 0, 1) ? 1 : c->kv_heads;
  c->gate = (int)pick(rng, 0, 1);
  c->beta_activation = (int)pick(rng, 0, 2);
  c->dt_bias_width = pick(rng, 0, 1) ? c->kv_heads * c->dk : c->kv_heads;
  c->l2_norm = (int)pick(rng, 0, 1);
  c->epsilon = pick(rng, 0, 1) ? 1e-6f : 0.0f;
  c->padding = pick(rng, 0, 2) == 0 ? pick(rng, 1, 9) : 0;
}

static void fill_pool(isa_case *ic, uint64_t *rng) {
  la_call *c = &ic->call;
  const int64_t sequences = la_sequences(c);
  const int64_t width = c->window > 0 ? c->window : 1;
  c->pool_slots = MOST_SLOTS;
  ic->pool = fill(ic, 8, rng, c->pool_slots * c->kv_heads * c->dk * c->dv, -1, 1, c->state_type);
  for (int64_t n = 0; n < sequences; n++) {
    for (int64_t w = 0; w < width; w++) {
      ic->writes[n * width + w] = pick(rng, 0, 5) == 0 ? -1 : (int32_t)(n * 9 + w);
    }
    ic->reads[n] = (int32_t)(pick(rng, 0, 3) == 0 ? -1 : n * 9 + pick(rng, 0, 8));
  }
  c->read_indices = ic->reads;
  c->write_indices = ic->writes;
}

/* Leaves what the standard operator has. */
static void choose_strict(la_call *c) {
  c->strict_kernels = true;
  c->cu_seqlens = NULL;
  c->sequences = 0;
  c->window = 0;
  c->gate = 0;
  c->beta_activation = 0;
  c->l2_norm = 0;
  c->v_major = false;
  c->tiled = false;
}

static void fill_arrays(isa_case *ic, uint64_t *rng) {
  la_call *c = &ic->call;
  const int64_t rows = c->batch * c->tokens;
  const float reach = 1.0f / sqrtf((float)c->dk);
  const bool wild = pick(rng, 0, 4) == 0;
  const float most = pick(rng, 0, 3) == 0 ? 3.0f : 0.0f; /* factors above 1 too */
  c->query = fill(ic, 0, rng, rows * c->q_heads * c->dk, -1, 1, c->type);
  c->key = fill(ic, 1, rng, rows * c->key_heads * c->dk, -reach, reach, c->type);
  c->value = fill(ic, 2, rng, rows * c->kv_heads * c->dv, -1, 1, c->type);
  c->decay = fill(ic, 3, rng, rows * c->decay_width, -2, most, c->type);
  c->beta = fill(ic, 4, rng, rows * c->beta_width, -1, 1, c->type);
  c->a_log = fill(ic, 5, rng, c->kv_heads, -1, 1, QUIRE_FLOAT32);
  c->dt_bias = fill(ic, 6, rng, c->dt_bias_width, -3, 3, QUIRE_FLOAT32);
  if (wild) {
    make_wild(rng, ic->arrays[1], rows * c->key_heads * c->dk);
    make_wild(rng, ic->arrays[2], rows * c->kv_heads * c->dv);
    for (int64_t i = 0; i < rows * c->decay_width; i++) {
      ic->arrays[3][i] = pick(rng, 0, 9) == 0 ? -INFINITY : ic->arrays[3][i] * 50.0f;
    }
  }
  if (pick(rng, 0, 3) == 0 && !c->strict_kernels) {
    fill_pool(ic, rng);
  } else if (pick(rng, 0, 4) > 0) {
    const int64_t count = (int64_t)la_state_count(c);
    c->past = fill(ic, 7, rng, count, -1, 1, c->state_type);
    c->in_place = c->window == 0 && pick(rng, 0, 1) == 0;
    if (wild) {
      make_wild(rng, ic->arrays[7], count);
    }
  }
}

static void make_case(isa_case *ic, uint64_t *rng, bool strict) {
  memset(ic, 0, sizeof *ic);
  la_call *c = &ic->call;
  choose_shape(c, rng);
  choose_sequences(ic, rng);
  choose_options(c, rng);
  if (strict) {
    choose_strict(c);
  }
  la_defaults(c);
  if (c->window > 0 && !c->cu_seqlens && c->tokens == 0) {
    c->tokens = 1;
  }
  fill_arrays(ic, rng);
  (void)snprintf(ic->text, sizeof ic->text,
                 "rule %d %s/%s heads %d/%d/%d dk %d dv %d B %d T %d N %d W %d v_major %d tiled %d "
                 "gate %d beta %d norm %d decay %d past %d pool %d in place %d",
                 (int)c->rule, quire_dtype_name(c->type), quire_dtype_name(c->state_type),
                 (int)c->q_heads, (int)c->kv_heads, (int)c->key_heads, (int)c->dk, (int)c->dv,
                 (int)c->batch, (int)c->tokens, (int)la_sequences(c), (int)c->window, c->v_major,
                 c->tiled, c->gate, c->beta_activation, c->l2_norm, (int)c->decay_width,
                 c->past != NULL, ic->pool != NULL, c->in_place);
}

/* Outputs, then states. The caller frees. */
static float *run(const isa_case *ic, quire_pass_function *recurrence, uint32_t block,
                  bool ascending, size_t *outputs, size_t *count) {
  la_call call = ic->call;
  const size_t states = ic->pool ? (size_t)(call.pool_slots * call.kv_heads * call.dk * call.dv)
                                 : la_state_count(&call);
  *outputs = la_output_count(&call);
  *count = *outputs + states;
  float *got = malloc((*count + 1) * sizeof(float));
  for (size_t i = 0; i < *count; i++) {
    got[i] = NAN; /* what is not written shows */
  }
  if (ic->pool) {
    memcpy(got + *outputs, ic->pool, states * sizeof(float));
    call.pool = got + *outputs;
  } else {
    call.present = got + *outputs;
  }
  call.output = got;
  call.recurrence = recurrence;
  call.column_block = block;
  call.ascending = ascending;
  assert_int_equal(la_run(&call, NULL), QUIRE_OK);
  return got;
}

static bool same(float a, float b) {
  uint32_t bits_a = 0;
  uint32_t bits_b = 0;
  memcpy(&bits_a, &a, sizeof bits_a);
  memcpy(&bits_b, &b, sizeof bits_b);
  return bits_a == bits_b || (isnan(a) && isnan(b));
}

static void compare(const isa_case *ic, const quire_implementation *implementation,
                    const float *want, uint64_t *rng) {
  size_t outputs = 0;
  size_t count = 0;
  const uint32_t block =
      pick(rng, 0, 2) == 0 ? (uint32_t)pick(rng, 1, 140) : (uint32_t)(16 << pick(rng, 0, 3));
  float *got = run(ic, implementation->function, block, true, &outputs, &count);
  for (size_t i = 0; i < count; i++) {
    if (!same(got[i], want[i])) {
      fail_msg("%s, block %d: %s\n%s[%zu] is %a, expected %a", implementation->name, (int)block,
               ic->text, i < outputs ? "output" : "state", i < outputs ? i : i - outputs,
               (double)got[i], (double)want[i]);
    }
  }
  free(got);
}

/* Random calls through every implementation of a kernel that this machine can run. */
static void compare_all(const char *kernel, bool strict, int cases) {
  uint64_t rng = seed;
  const uint32_t features = quire_cpu_detect();
  int compared = 0;
  print_message("seed %llu\n", (unsigned long long)seed);
  for (int n = 0; n < cases; n++) {
    isa_case ic;
    size_t outputs = 0;
    size_t count = 0;
    make_case(&ic, &rng, strict);
    float *want = run(&ic, NULL, 32, false, &outputs, &count);
    for (size_t i = 0; i < quire_kernels_linear_attention.count; i++) {
      const quire_implementation *item = &quire_kernels_linear_attention.items[i];
      if (strcmp(item->kernel, kernel) == 0 && (item->features & ~features) == 0) {
        compare(&ic, item, want, &rng);
        compared++;
      }
    }
    free(want);
    for (size_t i = 0; i < ARRAYS; i++) {
      free(ic.arrays[i]);
    }
  }
  print_message("%d runs compared\n", compared);
}

static void test_same_bits(void **state) {
  (void)state;
  compare_all("linear_attention_recurrence", false, case_count);
}

static void test_same_bits_strict(void **state) {
  (void)state;
  compare_all("linear_attention_recurrence_strict", true, case_count / 6);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_bits),
                                     cmocka_unit_test(test_same_bits_strict)};
  seed = argc > 1 ? strtoull(argv[1], NULL, 10) : seed;
  case_count = argc > 2 ? (int)strtol(argv[2], NULL, 10) : case_count;
  return cmocka_run_group_tests(tests, NULL, NULL);
}
