/* The rules of comparison: NaN, infinities, tolerances, bits, unwritten elements. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "compare.h"

#define NOT_A_NUMBER ((float)NAN)
#define INFINITE ((float)INFINITY)

typedef struct row {
  const char *about;
  float got, want;
  double absolute, relative;
  int is_wrong;
} row;

static const row rows[] = {
    {"equal", 1, 1, 0, 0, 0},
    {"within atol", 1.25f, 1, 0.25, 0, 0},
    {"beyond atol", 1.5f, 1, 0.25, 0, 1},
    {"below by more than atol", 0.5f, 1, 0.25, 0, 1},
    {"within rtol of the expected value", 5, 4, 0, 0.25, 0},
    {"rtol is of the expected, not the computed value", 5.25f, 4, 0, 0.25, 1},
    {"atol and rtol add up", 1.5f, 1, 0.25, 0.25, 0},
    {"rtol of a negative value", -5, -4, 0, 0.25, 0},
    {"NaN where it is expected", NOT_A_NUMBER, NOT_A_NUMBER, 1, 1, 0},
    {"NaN where it is not", NOT_A_NUMBER, 1, 1e30, 1, 1},
    {"no NaN where it is expected", 1, NOT_A_NUMBER, 1e30, 1, 1},
    {"infinities of one sign", INFINITE, INFINITE, 1, 1, 0},
    {"infinities of two signs", -INFINITE, INFINITE, 1, 1, 1},
    {"infinite where it is not expected", INFINITE, 3e38f, 1e30, 1, 1},
    {"finite where infinity is expected", 3e38f, INFINITE, 1e30, 1, 1},
    {"bits: the other zero", -0.0f, 0.0f, 0, 0, 1},
    {"bits: next number", 1.00000012f, 1, 0, 0, 1},
    {"values: the other zero", -0.0f, 0.0f, 1e-30, 0, 0},
};

static void test_rules(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    const quire_tolerance tolerance = {rows[i].absolute, rows[i].relative};
    quire_comparison result;
    quire_compare(QUIRE_FLOAT32, 1, &rows[i].got, &rows[i].want, &tolerance, &result);
    if (result.wrong != (size_t)rows[i].is_wrong || (result.share > 1) != rows[i].is_wrong) {
      fail_msg("%s: wrong %zu, share %g", rows[i].about, result.wrong, result.share);
    }
  }
}

static void test_bits_of_nan(void **state) {
  (void)state;
  const uint16_t got = 0x7e01;
  const uint16_t want = 0x7e00;
  const quire_tolerance bits = {0, 0};
  const quire_tolerance values = {1e-3, 0};
  quire_comparison result;
  quire_compare(QUIRE_FLOAT16, 1, &got, &want, &bits, &result);
  assert_int_equal(result.wrong, 1);
  quire_compare(QUIRE_FLOAT16, 1, &got, &want, &values, &result);
  assert_int_equal(result.wrong, 0);
}

static void test_worst_element(void **state) {
  (void)state;
  const float want[7] = {1, 1, 1, 1, 1, 1, 1};
  const float got[7] = {1, 1.5f, 1, 3, 0, 1, -1}; /* the first of two equally bad ones */
  const quire_tolerance tolerance = {0.25, 0};
  quire_comparison result;
  quire_compare(QUIRE_FLOAT32, 7, got, want, &tolerance, &result);
  assert_int_equal(result.worst, 3);
  assert_int_equal(result.wrong, 4);
  assert_int_equal(result.identical, 3);
  assert_true(result.got == 3 && result.want == 1 && result.share == 8);
}

static void test_nothing_to_compare(void **state) {
  (void)state;
  const quire_tolerance tolerance = {0, 0};
  quire_comparison result;
  quire_compare(QUIRE_FLOAT32, 0, "", "", &tolerance, &result);
  assert_int_equal(result.wrong, 0);
  assert_int_equal(result.worst, 0);
}

static void test_filling(void **state) {
  (void)state;
  for (int i = 1; i < QUIRE_DTYPE_COUNT; ++i) {
    const quire_dtype dtype = (quire_dtype)i;
    const size_t size = quire_dtype_size(dtype);
    uint64_t memory[4] = {0};
    uint64_t want[4] = {0};
    quire_compare_fill(dtype, memory, 3 * size);
    assert_true(quire_compare_is_filled(dtype, memory, 3 * size));
    if (dtype <= QUIRE_FLOAT64) {
      assert_true(isnan(quire_compare_element(dtype, memory, 2)));
    }
    memset((unsigned char *)memory + 2 * size, 0, size);
    assert_false(quire_compare_is_filled(dtype, memory, 3 * size));
    const quire_tolerance loose = {1e300, 0};
    quire_comparison result;
    quire_compare(dtype, 3, memory, want, &loose, &result);
    assert_int_equal(result.unwritten, 2);
    assert_int_equal(result.wrong, 2);
  }
}

static void test_elements(void **state) {
  (void)state;
  const uint16_t halves[] = {0x3c00, 0xc000, 0x0001, 0x7bff, 0x7c00, 0xfc00, 0x8000};
  const double half_values[] = {1, -2, 0x1p-24, 65504, (double)INFINITY, -(double)INFINITY, 0};
  for (size_t i = 0; i < sizeof halves / sizeof *halves; ++i) {
    assert_true(quire_compare_element(QUIRE_FLOAT16, halves, i) == half_values[i]);
  }
  const uint16_t brains[] = {0x3f80, 0xc000, 0x7f80};
  const double brain_values[] = {1, -2, (double)INFINITY};
  for (size_t i = 0; i < sizeof brains / sizeof *brains; ++i) {
    assert_true(quire_compare_element(QUIRE_BFLOAT16, brains, i) == brain_values[i]);
  }
  const int8_t small[] = {0, -128};
  const uint32_t large[] = {0, UINT32_MAX};
  const int64_t huge[] = {0, INT64_MIN};
  assert_true(quire_compare_element(QUIRE_INT8, small, 1) == -128);
  assert_true(quire_compare_element(QUIRE_UINT8, small, 1) == 128);
  assert_true(quire_compare_element(QUIRE_UINT32, large, 1) == 4294967295.0);
  assert_true(quire_compare_element(QUIRE_INT64, huge, 1) == -0x1p63);
}

static void test_widening(void **state) {
  (void)state;
  const quire_tolerance given = {1e-6, 1e-5};
  const quire_tolerance wide = quire_compare_widen(given, QUIRE_FLOAT32);
  const quire_tolerance half = quire_compare_widen(given, QUIRE_FLOAT16);
  const quire_tolerance bits = quire_compare_widen((quire_tolerance){0, 0}, QUIRE_FLOAT32);
  assert_true(wide.absolute == 20 * 1e-6 && wide.relative == 1e-4);
  assert_true(half.absolute == 20 * 1e-6 && half.relative == 1e-5);
  assert_true(bits.absolute == 0 && bits.relative == 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_rules),         cmocka_unit_test(test_bits_of_nan),
      cmocka_unit_test(test_worst_element), cmocka_unit_test(test_nothing_to_compare),
      cmocka_unit_test(test_filling),       cmocka_unit_test(test_elements),
      cmocka_unit_test(test_widening),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
