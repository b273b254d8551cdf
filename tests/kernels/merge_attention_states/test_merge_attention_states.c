/* MergeAttentionStates on its pass: PA-G11, empty parts, NaN, other element types. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

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

/* All cases in one call of shape [4, 2, 2]: N, H. */
static void run(quire_dtype dtype, const void *a, const float *lse_a, const void *b,
                const float *lse_b, void *output, void *lse) {
  const void *const data[6] = {a, lse_a, b, lse_b, output, lse};
  quire_view views[6];
  memset(views, 0, sizeof views);
  for (size_t i = 0; i < 6; ++i) {
    const int is_lse = i % 2 == 1;
    memcpy(&views[i].data, &data[i], sizeof data[i]);
    views[i].dtype = is_lse ? QUIRE_FLOAT32 : dtype;
    views[i].ndim = is_lse ? 2 : 3;
    views[i].shape[0] = CASE_COUNT / 2;
    views[i].shape[1] = 2;
    views[i].shape[2] = is_lse ? 0 : 2;
    views[i].stride[0] = is_lse ? 2 : 4;
    views[i].stride[1] = is_lse ? 1 : 2;
    views[i].stride[2] = 1;
  }
  const quire_pass pass = {.views = views, .grid = {CASE_COUNT / 2, 1, 1}};
  for (size_t i = CASE_COUNT / 2; i-- > 0;) {
    const size_t item[3] = {i, 0, 0};
    const quire_implementation *kernel = &quire_kernels_merge_attention_states.items[0];
    assert_int_equal(kernel->function(&pass, item), QUIRE_OK);
  }
}

static void test_cases(void **state) {
  (void)state;
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
    run(dtypes[t], a, lse_a, b, lse_b, output, lse);
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

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_cases)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
