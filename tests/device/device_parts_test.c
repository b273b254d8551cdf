/* The parts of the device that need no plan: geometry of tensors, copies, floating-point mode,
   processor. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cpu_features.h"
#include "cpu_host.h"
#include "float_mode.h"
#include "form.h"
#include "strided_copy.h"

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

/* ---- forms ---- */

static quire_form make_form(quire_dtype dtype, int32_t ndim, const int64_t *shape,
                            const int64_t *strides) {
  quire_form form = {.present = true, .dtype = dtype, .ndim = ndim, .pair = -1, .alias = -1};
  int64_t dense = 1;
  for (int32_t i = ndim - 1; i >= 0; i--) {
    form.shape[i] = shape[i];
    form.strides[i] = strides == NULL ? dense : strides[i];
    dense = strides == NULL ? dense * shape[i] : 0;
  }
  return form;
}

typedef struct measure_case {
  const char *what;
  int32_t ndim;
  int64_t shape[4], strides[4];
  bool fits;
  int64_t elements, low, high; /* of int32 */
  bool folds;
} measure_case;

static const measure_case measures[] = {
    {"scalar", 0, {0}, {0}, true, 1, 0, 4, false},
    {"dense", 2, {3, 4}, {4, 1}, true, 12, 0, 48, false},
    {"transposed", 2, {3, 4}, {1, 3}, true, 12, 0, 48, false},
    {"padded rows", 2, {3, 4}, {10, 1}, true, 12, 0, 96, false},
    {"negative", 2, {3, 4}, {-4, 1}, true, 12, -32, 16, false},
    {"empty", 3, {3, 0, INT64_MAX}, {INT64_MAX, INT64_MAX, 1}, true, 0, 0, 0, false},
    {"broadcast", 2, {3, 4}, {0, 1}, true, 12, 0, 16, true},
    {"rows that overlap", 2, {3, 4}, {3, 1}, true, 12, 0, 40, true},
    {"axis of one", 3, {3, 1, 4}, {4, 0, 1}, true, 12, 0, 48, false},
    {"too many elements", 2, {INT64_MAX, 3}, {3, 1}, false, 0, 0, 0, false},
    {"too far apart", 2, {2, 2}, {INT64_MAX, 1}, false, 0, 0, 0, false},
    {"both ways", 2, {2, 2}, {INT64_MAX / 4 - 1, -(INT64_MAX / 4)}, false, 0, 0, 0, false},
};

static void test_measure(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof(measures) / sizeof(measures[0]); i++) {
    const measure_case *one = &measures[i];
    quire_form form = make_form(QUIRE_INT32, one->ndim, one->shape, one->strides);
    bool fits = quire_form_measure(&form);
    if (fits != one->fits ||
        (fits && (form.elements != one->elements || form.low != one->low ||
                  form.high != one->high || quire_form_folds(&form) != one->folds))) {
      fail_msg("%s: fits %d, %lld elements, [%lld, %lld), folds %d", one->what, fits,
               (long long)form.elements, (long long)form.low, (long long)form.high,
               quire_form_folds(&form));
    }
  }
}

typedef struct overlap_case {
  const char *what;
  int64_t shape_a[3], strides_a[3];
  int64_t shape_b[3], strides_b[3];
  int64_t distance; /* elements from a to b */
  bool overlap;
} overlap_case;

static const overlap_case overlaps[] = {
    {"equal", {2, 3, 4}, {12, 4, 1}, {2, 3, 4}, {12, 4, 1}, 0, true},
    {"next to each other", {2, 3, 4}, {12, 4, 1}, {2, 3, 4}, {12, 4, 1}, 24, false},
    {"one element shared", {2, 3, 4}, {12, 4, 1}, {2, 3, 4}, {12, 4, 1}, 23, true},
    {"keys and values of a block", {5, 3, 4}, {24, 4, 1}, {5, 3, 4}, {24, 4, 1}, 12, false},
    {"the same, shifted by one", {5, 3, 4}, {24, 4, 1}, {5, 3, 4}, {24, 4, 1}, 11, true},
    {"the same, values first", {5, 3, 4}, {24, 4, 1}, {5, 3, 4}, {24, 4, 1}, -12, false},
    {"the same, two blocks on", {5, 3, 4}, {24, 4, 1}, {5, 3, 4}, {24, 4, 1}, 60, false},
    {"wider than the gap", {5, 3, 4}, {24, 4, 1}, {5, 4, 4}, {24, 4, 1}, 12, true},
    {"other period", {5, 3, 4}, {24, 4, 1}, {5, 3, 4}, {36, 4, 1}, 12, true},
    {"no elements", {5, 0, 4}, {24, 4, 1}, {5, 3, 4}, {24, 4, 1}, 0, false},
    {"backwards, apart", {2, 1, 4}, {-4, 4, 1}, {2, 1, 4}, {4, 4, 1}, 4, false},
    {"backwards, shared", {2, 1, 4}, {-4, 4, 1}, {2, 1, 4}, {4, 4, 1}, 3, true},
};

static void test_overlap(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof(overlaps) / sizeof(overlaps[0]); i++) {
    const overlap_case *one = &overlaps[i];
    quire_form a = make_form(QUIRE_FLOAT16, 3, one->shape_a, one->strides_a);
    quire_form b = make_form(QUIRE_FLOAT16, 3, one->shape_b, one->strides_b);
    assert_true(quire_form_measure(&a) && quire_form_measure(&b));
    uintptr_t at_a = 1u << 20;
    uintptr_t at_b = at_a + (uintptr_t)(one->distance * 2);
    if (quire_forms_overlap(&a, at_a, &b, at_b) != one->overlap ||
        quire_forms_overlap(&b, at_b, &a, at_a) != one->overlap) {
      fail_msg("%s: expected %d", one->what, one->overlap);
    }
  }
}

/* Against every byte of small random tensors: never "disjoint" when a byte is shared. */
static void test_overlap_random(void **state) {
  (void)state;
  enum { ROOM = 4096, ROUNDS = 20000 };
  static unsigned char used[ROOM];
  unsigned seed = 20240611;
  size_t disjoint = 0;
  for (int round = 0; round < ROUNDS; round++) {
    quire_form form[2];
    uintptr_t at[2];
    for (int k = 0; k < 2; k++) {
      int64_t shape[3], strides[3];
      for (int i = 0; i < 3; i++) {
        seed = seed * 1664525u + 1013904223u;
        shape[i] = 1 + (seed >> 16) % 4;
        strides[i] = (int64_t)((seed >> 20) % 40) - 8;
      }
      form[k] = make_form(QUIRE_INT16, 3, shape, strides);
      assert_true(quire_form_measure(&form[k]));
      at[k] = 1024 + (seed >> 12) % 128 * 2;
    }
    memset(used, 0, sizeof(used));
    bool shared = false;
    for (int k = 0; k < 2; k++) {
      const quire_form *one = &form[k];
      for (int64_t i = 0; i < one->elements; i++) {
        int64_t x = i % one->shape[2], y = i / one->shape[2] % one->shape[1],
                z = i / one->shape[2] / one->shape[1];
        int64_t byte =
            (int64_t)at[k] + 2 * (x * one->strides[2] + y * one->strides[1] + z * one->strides[0]);
        shared = shared || (k == 1 && used[byte] == 1);
        used[byte] = (unsigned char)(used[byte] | (k == 0));
      }
    }
    bool overlap = quire_forms_overlap(&form[0], at[0], &form[1], at[1]);
    disjoint += overlap ? 0 : 1;
    if (shared && !overlap) {
      fail_msg("round %d (seed 20240611): shared bytes were not seen", round);
    }
  }
  assert_true(disjoint > 100);
}

/* ---- strided copies ---- */

static void check_copy(const int64_t *shape, const int64_t *from_strides, const int64_t *to_strides,
                       int64_t piece) {
  enum { ROOM = 4096 };
  static int16_t from[ROOM], to[ROOM];
  quire_form a = make_form(QUIRE_INT16, 4, shape, from_strides);
  quire_form b = make_form(QUIRE_INT16, 4, shape, to_strides);
  assert_true(quire_form_measure(&a) && quire_form_measure(&b));
  for (int i = 0; i < ROOM; i++) {
    from[i] = (int16_t)i;
    to[i] = -1;
  }
  quire_strided_copy copy;
  quire_strided_copy_init(&copy, &a, &b);
  assert_int_equal(copy.bytes, a.elements * 2);
  for (int64_t first = 0; first < copy.bytes; first += piece) {
    int64_t last = first + piece < copy.bytes ? first + piece : copy.bytes;
    quire_strided_copy_range(&copy, from, to, first, last);
  }
  int64_t written = 0;
  for (int64_t i = 0; i < a.elements; i++) {
    int64_t rest = i, at_from = 0, at_to = 0;
    for (int k = 3; k >= 0; k--) {
      at_from += rest % shape[k] * a.strides[k];
      at_to += rest % shape[k] * b.strides[k];
      rest /= shape[k];
    }
    assert_int_equal(to[at_to], from[at_from]);
  }
  for (int i = 0; i < ROOM; i++) {
    written += to[i] != -1;
  }
  assert_int_equal(written, a.elements);
}

static void test_strided_copy(void **state) {
  (void)state;
  static const int64_t shapes[][4] = {{2, 3, 4, 5}, {1, 1, 7, 1}, {3, 1, 5, 2}, {1, 1, 1, 1}};
  static const int64_t order[][4] = {{0, 1, 2, 3}, {3, 2, 1, 0}, {1, 0, 2, 3}, {2, 0, 1, 3}};
  static const int64_t pieces[] = {1, 2, 7, 64, 100000};
  for (size_t s = 0; s < 4; s++) {
    for (size_t o = 0; o < 16; o++) {
      int64_t strides[2][4];
      for (int k = 0; k < 2; k++) { /* nested in some order, with or without padding */
        int64_t stride = 1;
        for (int i = 3; i >= 0; i--) {
          int64_t axis = order[k == 0 ? o % 4 : o / 4][i];
          strides[k][axis] = stride;
          stride = stride * shapes[s][axis] + (k == 1 && o % 3 == 0 ? 3 : 0);
        }
      }
      for (size_t p = 0; p < sizeof(pieces) / sizeof(pieces[0]); p++) {
        check_copy(shapes[s], strides[0], strides[1], pieces[p]);
      }
    }
  }
}

static void test_copy_merges_rows(void **state) {
  (void)state;
  static const int64_t shape[] = {2, 3, 4, 5};
  quire_form dense = make_form(QUIRE_INT16, 4, shape, NULL);
  quire_form padded = make_form(QUIRE_INT16, 4, shape, (const int64_t[]){90, 30, 5, 1});
  assert_true(quire_form_measure(&dense) && quire_form_measure(&padded));
  quire_strided_copy copy;
  quire_strided_copy_init(&copy, &dense, &dense);
  assert_int_equal(copy.axes, 0);
  assert_int_equal(copy.row_bytes, 240);
  quire_strided_copy_init(&copy, &dense, &padded);
  assert_int_equal(copy.axes, 1);
  assert_int_equal(copy.row_bytes, 40);
}

/* ---- floating-point mode ---- */

static void test_float_mode(void **state) {
  (void)state;
  volatile float tiny = 1e-38f;
  volatile float half = 0.5f;
#if defined(__SSE__)
  unsigned before = _mm_getcsr();
  _mm_setcsr(before | 0x8040u | 0x6000u); /* flush, denormals are zero, round toward zero */
  unsigned set = _mm_getcsr();
  assert_true(tiny * half == 0.0f);
  quire_float_mode mode = quire_float_mode_enter();
  volatile float kept = tiny * half;
  volatile float third = 1.0f / 3.0f * 3.0f;
  quire_float_mode_leave(mode);
  unsigned after = _mm_getcsr();
  _mm_setcsr(before);
  assert_true(kept > 0.0f);
  assert_true(third == 1.0f);
  assert_int_equal(after & 0xffc0u, set & 0xffc0u);
#endif
  quire_float_mode plain = quire_float_mode_enter();
  assert_false(plain.changed);
  assert_true(tiny * half > 0.0f);
  quire_float_mode_leave(plain);
}

/* ---- processor ---- */

static void test_features(void **state) {
  (void)state;
  const uint32_t avx2 = QUIRE_CPU_AVX2 | QUIRE_CPU_FMA | QUIRE_CPU_F16C;
  const uint32_t avx512 =
      avx2 | QUIRE_CPU_AVX512F | QUIRE_CPU_AVX512BW | QUIRE_CPU_AVX512VL | QUIRE_CPU_AVX512DQ;
  assert_int_equal(quire_cpu_cap(avx512, QUIRE_ISA_SCALAR), 0);
  assert_int_equal(quire_cpu_cap(avx512, QUIRE_ISA_AVX2), avx2);
  assert_int_equal(quire_cpu_cap(avx512, QUIRE_ISA_AVX512), avx512);
  assert_int_equal(quire_cpu_cap(avx512, QUIRE_ISA_BEST), avx512);
  assert_int_equal(quire_cpu_cap(QUIRE_CPU_NEON, QUIRE_ISA_NEON), QUIRE_CPU_NEON);
  assert_true(quire_cpu_has_level(0, QUIRE_ISA_SCALAR));
  assert_false(quire_cpu_has_level(avx2, QUIRE_ISA_AVX512));
  assert_false(quire_cpu_has_level(avx2 & ~(uint32_t)QUIRE_CPU_FMA, QUIRE_ISA_AVX2));
  assert_false(quire_cpu_has_level(avx512, QUIRE_ISA_NEON));
  assert_string_equal(quire_cpu_level_name(avx512), "avx512");
  assert_string_equal(quire_cpu_level_name(avx2), "avx2");
  assert_string_equal(quire_cpu_level_name(QUIRE_CPU_NEON), "neon");
  assert_string_equal(quire_cpu_level_name(0), "scalar");
  uint32_t here = quire_cpu_detect();
  assert_int_equal(here >> QUIRE_CPU_FEATURE_COUNT, 0);
  print_message("processor: features 0x%x, level %s\n", (unsigned)here, quire_cpu_level_name(here));
}

static void test_host(void **state) {
  (void)state;
  assert_true(quire_host_processors() >= 1);
  char name[64];
  quire_host_model(name, sizeof(name));
  assert_true(strlen(name) < sizeof(name));
  char cut[4] = "xxx";
  quire_host_model(cut, sizeof(cut));
  assert_memory_equal(cut, name, strlen(cut));
  assert_int_equal(cut[3], 0);
  assert_int_equal(quire_host_cache_bytes(0), 0);
  print_message("\"%s\", %zu processors, caches %zu %zu %zu\n", name, quire_host_processors(),
                quire_host_cache_bytes(1), quire_host_cache_bytes(2), quire_host_cache_bytes(3));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_measure),          cmocka_unit_test(test_overlap),
      cmocka_unit_test(test_overlap_random),   cmocka_unit_test(test_strided_copy),
      cmocka_unit_test(test_copy_merges_rows), cmocka_unit_test(test_float_mode),
      cmocka_unit_test(test_features),         cmocka_unit_test(test_host),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
