/* MergeAttentionStates on its pass: PA-G11, empty parts, NaN, other element types; all
   implementations that this machine has, which must agree bit by bit. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cpu_features.h"
#include "merge_attention_states_kernels.h"
#include "numeric.h"

typedef struct merge_case {
  const char *name;
  float output_a[2], lse_a, output_b[2], lse_b;
  float output[2], lse; /* NaN: NaN */
  float tolerance;      /* relative */
} merge_case;

static const merge_case cases[] = {
    {"G11, head 0",
     {10, 1},
     0.5f,
     {27.3105858f, 2.73105858f},
     1.3132617f,
     {21.9928451f, 2.19928451f},
     1.6802697f,
     1e-6f},
    {"G11, head 1", {10, 1}, 0, {23.7754067f, 2.37754067f}, 0.9740770f, {20, 2}, 1.2943768f, 1e-6f},
    {"equal parts", {1, 2}, 3, {3, 4}, 3, {2, 3}, 3.6931472f, 1e-6f},
    {"a empty", {NAN, INFINITY}, -INFINITY, {3, -0.0f}, 3, {3, -0.0f}, 3, 0},
    {"b empty", {3, -0.0f}, 3, {NAN, INFINITY}, -INFINITY, {3, -0.0f}, 3, 0},
    {"both empty", {NAN, 1}, -INFINITY, {1, NAN}, -INFINITY, {0, 0}, -INFINITY, 0},
    {"b too small to count", {3, 4}, 200, {NAN, NAN}, 0, {3, 4}, 200, 0},
    {"nan lse", {3, 4}, NAN, {1, 1}, 0, {NAN, NAN}, NAN, 0},
};
enum { CASE_COUNT = sizeof cases / sizeof *cases };

static void expect(const char *name, float got, float want, float tolerance) {
  const int same =
      isnan(want) ? isnan(got) : got == want || fabsf(got - want) <= tolerance * fabsf(want);
  if (!same || (want == 0.0f && signbit(got) != signbit(want))) {
    fail_msg("%s: %.9g, not %.9g", name, (double)got, (double)want);
  }
}

/* Shape [N, H, D]; the items in descending order. */
static void run(const quire_implementation *kernel, quire_dtype dtype, const int64_t shape[3],
                const void *a, const float *lse_a, const void *b, const float *lse_b, void *output,
                void *lse) {
  const void *const data[6] = {a, lse_a, b, lse_b, output, lse};
  quire_view views[6];
  memset(views, 0, sizeof views);
  for (size_t i = 0; i < 6; ++i) {
    const int is_lse = i % 2 == 1;
    memcpy(&views[i].data, &data[i], sizeof data[i]);
    views[i].dtype = is_lse ? QUIRE_FLOAT32 : dtype;
    views[i].ndim = is_lse ? 2 : 3;
    views[i].shape[0] = shape[0];
    views[i].shape[1] = shape[1];
    views[i].shape[2] = is_lse ? 0 : shape[2];
    views[i].stride[0] = is_lse ? shape[1] : shape[1] * shape[2];
    views[i].stride[1] = is_lse ? 1 : shape[2];
    views[i].stride[2] = 1;
  }
  const quire_pass pass = {.views = views, .grid = {(size_t)shape[0], 1, 1}};
  for (size_t i = (size_t)shape[0]; i-- > 0;) {
    const size_t item[3] = {i, 0, 0};
    assert_int_equal(kernel->function(&pass, item), QUIRE_OK);
  }
}

/* The n-th implementation that this machine can run, or NULL. */
static const quire_implementation *usable(size_t n) {
  const uint32_t features = quire_cpu_detect();
  for (size_t i = 0; i < quire_kernels_merge_attention_states.count; ++i) {
    const quire_implementation *item = &quire_kernels_merge_attention_states.items[i];
    if ((item->features & ~features) == 0 && n-- == 0) {
      return item;
    }
  }
  return NULL;
}

static void check_cases(const quire_implementation *kernel) {
  static const int64_t shape[3] = {CASE_COUNT / 2, 2, 2};
  const quire_dtype dtypes[3] = {QUIRE_FLOAT32, QUIRE_FLOAT16, QUIRE_BFLOAT16};
  const float steps[3] = {0.0f, 0x1p-10f, 0x1p-7f};
  for (size_t t = 0; t < 3; ++t) {
    uint32_t a[CASE_COUNT * 2], b[CASE_COUNT * 2], output[CASE_COUNT * 2];
    float lse_a[CASE_COUNT], lse_b[CASE_COUNT], lse[CASE_COUNT];
    const size_t size = quire_dtype_size(dtypes[t]);
    for (size_t i = 0; i < CASE_COUNT; ++i) {
      quire_narrow_row(dtypes[t], cases[i].output_a, 2, (char *)a + 2 * i * size);
      quire_narrow_row(dtypes[t], cases[i].output_b, 2, (char *)b + 2 * i * size);
      lse_a[i] = cases[i].lse_a;
      lse_b[i] = cases[i].lse_b;
    }
    run(kernel, dtypes[t], shape, a, lse_a, b, lse_b, output, lse);
    for (size_t i = 0; i < CASE_COUNT; ++i) {
      const merge_case *c = &cases[i];
      for (size_t d = 0; d < 2; ++d) {
        const float got = quire_load_f32(dtypes[t], output, (int64_t)(2 * i + d));
        expect(c->name, got, c->output[d], c->tolerance + steps[t]);
      }
      expect(c->name, lse[i], c->lse, 1e-6f);
    }
  }
}

static void test_cases(void **state) {
  (void)state;
  for (size_t n = 0; usable(n); ++n) {
    check_cases(usable(n));
  }
}

enum { ROWS = 6, MOST_SIZE = 600, MOST_BYTES = ROWS * MOST_SIZE * 4 };

/* Random bytes that are no NaN of any type: exponents stay below the largest. */
static void fill(uint32_t *state, unsigned char *bytes, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    *state = *state * 1664525u + 1013904223u;
    bytes[i] = (unsigned char)(*state >> 24);
    if (i % 2 == 1 && (bytes[i] & 0x7cu) == 0x7cu) {
      bytes[i] ^= 0x40u;
    }
  }
}

/* Sizes with and without tails: the bits of the first implementation, the scalar one. */
static void test_same_bits(void **state) {
  (void)state;
  static const quire_dtype dtypes[3] = {QUIRE_FLOAT32, QUIRE_FLOAT16, QUIRE_BFLOAT16};
  static const float lse_a[ROWS] = {0.5f, -INFINITY, 3.0f, -90.0f, 0.0f, 1.0f};
  static const float lse_b[ROWS] = {0.25f, 1.0f, -INFINITY, 0.0f, 85.0f, 1.0f};
  static const int64_t sizes[] = {1, 3, 8, 15, 16, 17, 33, 64, 128, 257, MOST_SIZE};
  static unsigned char a[MOST_BYTES], b[MOST_BYTES], want[MOST_BYTES], got[MOST_BYTES];
  uint32_t random = 7;
  for (size_t n = 0; usable(n); ++n) {
    for (size_t i = 0; i < 3 * sizeof sizes / sizeof *sizes; ++i) {
      const int64_t shape[3] = {2, ROWS / 2, sizes[i / 3]};
      const quire_dtype dtype = dtypes[i % 3];
      const size_t bytes = ROWS * (size_t)shape[2] * quire_dtype_size(dtype);
      float want_lse[ROWS], got_lse[ROWS];
      fill(&random, a, bytes);
      fill(&random, b, bytes);
      memset(want, 0x55, sizeof want);
      memset(got, 0x55, sizeof got);
      run(usable(0), dtype, shape, a, lse_a, b, lse_b, want, want_lse);
      run(usable(n), dtype, shape, a, lse_a, b, lse_b, got, got_lse);
      assert_memory_equal(got, want, sizeof want);
      assert_memory_equal(got_lse, want_lse, sizeof want_lse);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_cases),
                                     cmocka_unit_test(test_same_bits)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
