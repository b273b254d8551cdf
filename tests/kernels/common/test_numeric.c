/* kernels/common against long double libm, dense over all exponents, and at special values. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "float_bits.h"
#include "numeric.h"

typedef float function_f32(float x);
typedef long double function_reference(long double x);

static long double reference_sigmoid(long double x) {
  return 1.0L / (1.0L + expl(-x));
}

static long double reference_softplus(long double x) {
  return (x > 0 ? x : 0) + log1pl(expl(-fabsl(x)));
}

/* Distance in units in the last place of the rounded exact value; normal results only. */
static double ulps(float got, long double exact) {
  if (fabsl(exact) > 3.4028235677973366e38L) {
    return isinf(got) ? 0.0 : 1e30;
  }
  int exponent;
  frexpl(exact, &exponent);
  const long double unit = ldexpl(1.0L, exponent - 24);
  return (double)(fabsl((long double)got - exact) / unit);
}

typedef struct accuracy_case {
  const char *name;
  function_f32 *function;
  function_reference *reference;
  float first, last; /* same sign or 0; every `step`-th float between them */
  uint32_t step;
  double limit;
  int increasing; /* check monotonicity within noise of one unit: 0 no, 1 exactly */
} accuracy_case;

static const accuracy_case accuracy_cases[] = {
    {"exp, negative", quire_exp, expl, -0x1p-126f, -87.3f, 1013, 1.5, 1},
    {"exp, positive", quire_exp, expl, 0x1p-126f, 88.7228f, 1013, 1.5, 1},
    {"exp, around 0", quire_exp, expl, 0x1p-26f, 0.5f, 61, 1.5, 1},
    {"exp, around -0", quire_exp, expl, -0x1p-26f, -0.5f, 61, 1.5, 1},
    {"log", quire_log, logl, 0x1p-149f, 0x1.fffffep127f, 2003, 1.5, 0},
    {"log, around 1", quire_log, logl, 0.5f, 2.0f, 31, 1.5, 0},
    {"log1p", quire_log1p, log1pl, 0x1p-126f, 0x1.fffffep127f, 2003, 1.5, 0},
    {"log1p, unit", quire_log1p, log1pl, 0x1p-20f, 2.0f, 251, 1.5, 0},
    {"log1p, negative", quire_log1p, log1pl, -0x1p-126f, -0.9999f, 2003, 2.0, 0},
    {"tanh", quire_tanh, tanhl, 0x1p-126f, 100.0f, 2003, 1.5, 0},
    {"tanh, middle", quire_tanh, tanhl, 0.25f, 10.0f, 61, 1.5, 0},
    {"tanh, negative", quire_tanh, tanhl, -0x1p-126f, -100.0f, 2003, 1.5, 0},
    {"sigmoid", quire_sigmoid, reference_sigmoid, 0x1p-126f, 100.0f, 2003, 2.0, 0},
    {"sigmoid, negative", quire_sigmoid, reference_sigmoid, -0x1p-126f, -87.0f, 2003, 2.25, 0},
    {"softplus", quire_softplus, reference_softplus, 0x1p-126f, 1e30f, 2003, 2.0, 0},
    {"softplus, negative", quire_softplus, reference_softplus, -0x1p-126f, -87.0f, 2003, 2.0, 0},
};

static void test_accuracy(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof accuracy_cases / sizeof *accuracy_cases; ++i) {
    const accuracy_case *c = &accuracy_cases[i];
    double worst = 0.0;
    float worst_at = c->first;
    float previous = c->function(c->first);
    const uint32_t last = quire_float_bits(c->last);
    for (uint32_t bits = quire_float_bits(c->first); bits <= last; bits += c->step) {
      const float x = quire_float_of_bits(bits);
      const float y = c->function(x);
      const double error = ulps(y, c->reference((long double)x));
      if (!(error <= worst)) {
        worst = error;
        worst_at = x;
      }
      if (c->increasing && (x > 0.0f ? y < previous : y > previous)) {
        fail_msg("%s is not monotone at %a", c->name, (double)x);
      }
      previous = y;
    }
    print_message("%-20s %.4f ulp at %a\n", c->name, worst, (double)worst_at);
    if (!(worst <= c->limit)) {
      fail_msg("%s: %.4f ulp at %a, limit %.2f", c->name, worst, (double)worst_at, c->limit);
    }
  }
}

typedef struct special_case {
  function_f32 *function;
  float x, expected; /* compared with the sign of zero; NaN equals NaN */
} special_case;

static const special_case special_cases[] = {
    {quire_exp, 0.0f, 1.0f},
    {quire_exp, -0.0f, 1.0f},
    {quire_exp, 0x1p-149f, 1.0f},
    {quire_exp, -INFINITY, 0.0f},
    {quire_exp, -87.4f, 0.0f},
    {quire_exp, -3.4e38f, 0.0f},
    {quire_exp, INFINITY, INFINITY},
    {quire_exp, 88.73f, INFINITY},
    {quire_exp, 3.4e38f, INFINITY},
    {quire_exp, NAN, NAN},
    {quire_log, 1.0f, 0.0f},
    {quire_log, 0.0f, -INFINITY},
    {quire_log, -0.0f, -INFINITY},
    {quire_log, -1.0f, NAN},
    {quire_log, -INFINITY, NAN},
    {quire_log, INFINITY, INFINITY},
    {quire_log, NAN, NAN},
    {quire_log1p, 0.0f, 0.0f},
    {quire_log1p, -0.0f, -0.0f},
    {quire_log1p, 1e-30f, 1e-30f},
    {quire_log1p, -1.0f, -INFINITY},
    {quire_log1p, -2.0f, NAN},
    {quire_log1p, INFINITY, INFINITY},
    {quire_log1p, NAN, NAN},
    {quire_tanh, 0.0f, 0.0f},
    {quire_tanh, -0.0f, -0.0f},
    {quire_tanh, 1e-30f, 1e-30f},
    {quire_tanh, 1e30f, 1.0f},
    {quire_tanh, INFINITY, 1.0f},
    {quire_tanh, -INFINITY, -1.0f},
    {quire_tanh, NAN, NAN},
    {quire_sigmoid, 0.0f, 0.5f},
    {quire_sigmoid, INFINITY, 1.0f},
    {quire_sigmoid, -INFINITY, 0.0f},
    {quire_sigmoid, NAN, NAN},
    {quire_softplus, INFINITY, INFINITY},
    {quire_softplus, -INFINITY, 0.0f},
    {quire_softplus, NAN, NAN},
};

static void test_special_values(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof special_cases / sizeof *special_cases; ++i) {
    const special_case *c = &special_cases[i];
    const float got = c->function(c->x);
    const int equal =
        isnan(c->expected) ? isnan(got) : quire_float_bits(got) == quire_float_bits(c->expected);
    if (!equal) {
      fail_msg("case %zu: f(%a) is %a, not %a", i, (double)c->x, (double)got, (double)c->expected);
    }
  }
}

/* The exact value of f16 bits, by definition. */
static double f16_by_definition(uint32_t bits) {
  const int exponent = (int)(bits >> 10 & 31u);
  const int fraction = (int)(bits & 1023u);
  const double magnitude =
      exponent == 0 ? ldexp(fraction, -24) : ldexp(1024 + fraction, exponent - 25);
  return bits & 0x8000u ? -magnitude : magnitude;
}

static void test_f16_all(void **state) {
  (void)state;
  for (uint32_t bits = 0; bits < 0x10000u; ++bits) {
    const float value = quire_f16_to_f32((uint16_t)bits);
    const uint32_t magnitude = bits & 0x7fffu;
    if (magnitude > 0x7c00u) {
      assert_true(isnan(value));
      assert_int_equal(quire_f32_to_f16(value), bits | 0x200u);
      continue;
    }
    if (magnitude < 0x7c00u) {
      assert_true((double)value == f16_by_definition(bits));
    } else {
      assert_true(isinf(value));
    }
    assert_int_equal(quire_f32_to_f16(value), bits);
    if (magnitude >= 0x7bffu || magnitude == 0) {
      continue;
    }
    /* The midpoint to the next value goes to the even one, its neighbours to the nearer one. */
    const float next = quire_f16_to_f32((uint16_t)(bits + 1));
    const float middle = value + (next - value) * 0.5f;
    assert_int_equal(quire_f32_to_f16(middle), bits + (bits & 1u));
    assert_int_equal(quire_f32_to_f16(nextafterf(middle, value)), bits);
    assert_int_equal(quire_f32_to_f16(nextafterf(middle, next)), bits + 1);
  }
  assert_int_equal(quire_f32_to_f16(65519.996f), 0x7bff);
  assert_int_equal(quire_f32_to_f16(65520.0f), 0x7c00);
  assert_int_equal(quire_f32_to_f16(-1e30f), 0xfc00);
  assert_int_equal(quire_f32_to_f16(0x1p-25f), 0);
  assert_int_equal(quire_f32_to_f16(0x1.000002p-25f), 1);
  assert_int_equal(quire_f32_to_f16(-0x1p-149f), 0x8000);
}

static void test_bf16(void **state) {
  (void)state;
  for (uint32_t bits = 0; bits < 0x10000u; ++bits) {
    const float value = quire_bf16_to_f32((uint16_t)bits);
    const uint32_t expected = isnan(value) ? bits | 0x40u : bits;
    assert_int_equal(quire_f32_to_bf16(value), expected);
    if (!isfinite(value)) {
      continue;
    }
    const uint32_t low = bits << 16;
    assert_int_equal(quire_f32_to_bf16(quire_float_of_bits(low | 0x7fffu)), bits);
    assert_int_equal(quire_f32_to_bf16(quire_float_of_bits(low | 0x8000u)), bits + (bits & 1u));
    assert_int_equal(quire_f32_to_bf16(quire_float_of_bits(low | 0x8001u)), bits + 1);
  }
}

static void test_rows(void **state) {
  (void)state;
  const float values[5] = {1.0f, -2.5f, 0x1p-24f, 65504.0f, -0.0f};
  const quire_dtype dtypes[] = {QUIRE_FLOAT32, QUIRE_FLOAT16, QUIRE_BFLOAT16};
  for (size_t i = 0; i < 3; ++i) {
    uint32_t row[6] = {0};
    float back[5] = {0};
    quire_narrow_row(dtypes[i], values, 5, row);
    quire_widen_row(dtypes[i], row, 5, back);
    for (int64_t j = 0; j < 5; ++j) {
      assert_true(quire_load_f32(dtypes[i], row, j) == back[j]);
      if (dtypes[i] != QUIRE_BFLOAT16) {
        assert_int_equal(quire_float_bits(back[j]), quire_float_bits(values[j]));
      }
    }
  }
  const int8_t bytes[3] = {-128, 0, 127};
  assert_true(quire_load_f32(QUIRE_INT8, bytes, 0) == -128.0f);
  assert_true(quire_load_f32(QUIRE_INT8, bytes, 2) == 127.0f);
}

/* The dot in the words of NU-3: element i belongs to lane i mod 16. */
static void test_dot_order(void **state) {
  (void)state;
  float a[97];
  float b[97];
  uint32_t seed = 12345u;
  for (size_t i = 0; i < 97; ++i) {
    seed = seed * 1664525u + 1013904223u;
    a[i] = (float)(int32_t)seed * 0x1p-31f;
    seed = seed * 1664525u + 1013904223u;
    b[i] = (float)(int32_t)seed * 0x1p-31f;
  }
  for (size_t n = 0; n <= 97; ++n) {
    float lanes[16] = {0};
    for (size_t i = 0; i < n; ++i) {
      lanes[i % 16] = fmaf(a[i], b[i], lanes[i % 16]);
    }
    for (size_t width = 8; width != 0; width /= 2) {
      for (size_t i = 0; i < width; ++i) {
        lanes[i] += lanes[i + width];
      }
    }
    assert_int_equal(quire_float_bits(quire_dot(a, b, n)), quire_float_bits(lanes[0]));
  }
}

static void test_merge(void **state) {
  (void)state;
  /* PA-G11: keys {0} and {1,2} of the golden vector, scores 0.5 | 0, 1. */
  quire_softmax_state a = {0.5f, 1.0f};
  float accumulator_a[2] = {10.0f, 1.0f};
  const quire_softmax_state b = {1.0f, 1.0f + quire_exp(-1.0f)};
  const float accumulator_b[2] = {fmaf(20.0f, quire_exp(-1.0f), 30.0f),
                                  fmaf(2.0f, quire_exp(-1.0f), 3.0f)};
  quire_softmax_merge(&a, accumulator_a, &b, accumulator_b, 2);
  assert_float_equal(accumulator_a[0] / a.sum, 21.9928451, 3e-6);
  assert_float_equal(accumulator_a[1] / a.sum, 2.19928451, 3e-7);
  assert_float_equal(a.maximum + quire_log(a.sum), 1.6802697, 3e-7);

  /* States without weight: no NaN from -inf minus -inf, and nothing is added. */
  quire_softmax_state empty = {-INFINITY, 0.0f};
  float zeros[2] = {0.0f, 0.0f};
  const quire_softmax_state other = {-INFINITY, 0.0f};
  quire_softmax_merge(&empty, zeros, &other, NULL, 2);
  assert_true(empty.maximum == -INFINITY && empty.sum == 0.0f && zeros[0] == 0.0f);
  /* A sink alone. */
  const quire_softmax_state sink = {3.0f, 1.0f};
  quire_softmax_merge(&empty, zeros, &sink, NULL, 2);
  assert_true(empty.maximum == 3.0f && empty.sum == 1.0f && zeros[1] == 0.0f);
  /* NaN stays NaN on either side. */
  quire_softmax_state bad = {NAN, 1.0f};
  quire_softmax_merge(&bad, zeros, &sink, NULL, 2);
  assert_true(isnan(bad.sum));
  quire_softmax_state good = {1.0f, 1.0f};
  const quire_softmax_state worse = {NAN, NAN};
  quire_softmax_merge(&good, accumulator_a, &worse, NULL, 2);
  assert_true(isnan(good.sum) && isnan(accumulator_a[0]));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_accuracy), cmocka_unit_test(test_special_values),
      cmocka_unit_test(test_f16_all),  cmocka_unit_test(test_bf16),
      cmocka_unit_test(test_rows),     cmocka_unit_test(test_dot_order),
      cmocka_unit_test(test_merge),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
