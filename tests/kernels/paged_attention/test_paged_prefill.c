/*
 * The vector implementations of attend against the plain one, bit for bit, on random calls with
 * long sequences (NU-8's GEMM-shaped order) beside short ones, over all features.
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
#include "matrix_tiles.h"
#include "numeric.h"
#include "paged_attention_kernels.h"
#include "paged_problem.h"

#ifdef MATRIX_TILES_EMULATED
enum { CASES = 60 };
#else
enum { CASES = 160 };
#endif

static int64_t draw(uint64_t *seed, int64_t first, int64_t last) {
  const double unit = ((double)paged_random(seed) + 1.0) / 2.0;
  const int64_t value = first + (int64_t)(unit * (double)(last - first + 1));
  return value > last ? last : value;
}

static bool one_in(uint64_t *seed, int64_t n) {
  return draw(seed, 1, n) == 1;
}

static paged_problem random_problem(uint64_t *seed) {
  static const quire_dtype dtypes[] = {QUIRE_FLOAT32, QUIRE_FLOAT16, QUIRE_BFLOAT16};
  static const int64_t sizes[] = {1,  3,  8,  15, 16, 17,  31,  32, 33,
                                  40, 64, 72, 80, 96, 112, 128, 130};
  static const int64_t blocks[] = {1, 3, 16, 48, 256};
  static const int64_t groups[] = {1, 1, 2, 2, 3, 4, 5, 8, 13};
  paged_problem p;
  memset(&p, 0, sizeof p);
  p.name = "random";
  p.dtype = dtypes[draw(seed, 0, 2)];
  p.quantised = one_in(seed, 3) ? (int)draw(seed, 1, 3) : 0;
  p.kv_num_heads = draw(seed, 1, 2);
  p.num_heads = p.kv_num_heads * groups[draw(seed, 0, 8)];
  p.head_size = one_in(seed, 20) ? draw(seed, 200, 300) : sizes[draw(seed, 0, 16)];
  p.block_size = blocks[draw(seed, 0, 4)];
  p.window = one_in(seed, 3) ? draw(seed, 1, 300) : 0;
  p.softcap = one_in(seed, 4) ? 1.5f : 0.0f;
  p.sink = one_in(seed, 3);
  p.non_causal = one_in(seed, 4);
  p.packed = one_in(seed, 3);
  p.sequences = draw(seed, 1, 3);
  for (int64_t s = 0; s < p.sequences; ++s) {
    p.fresh[s] = one_in(seed, 4) ? draw(seed, 0, 8) : draw(seed, 9, one_in(seed, 3) ? 150 : 40);
    p.past[s] = one_in(seed, 2) ? 0 : draw(seed, 0, one_in(seed, 4) ? 1300 : 130);
  }
  const int64_t columns = (p.past[0] + p.fresh[0]) / p.block_size;
  p.hole = one_in(seed, 3) && columns > 1 ? draw(seed, 1, columns) : 0;
  return p;
}

/* Rows of NaN-free results must be equal; of results with NaN, NaN in the same places. */
static void expect_equal(const char *what, uint64_t seed, const paged_problem *p,
                         const paged_built *want, const paged_built *got) {
  const int64_t count = want->rows * p->num_heads * p->head_size;
  const size_t size = quire_dtype_size(p->dtype);
  for (int64_t i = 0; i < count; ++i) {
    const char *a = (const char *)want->call.output + (size_t)i * size;
    const char *b = (const char *)got->call.output + (size_t)i * size;
    const float x = quire_load_f32(p->dtype, a, 0);
    const float y = quire_load_f32(p->dtype, b, 0);
    if (memcmp(a, b, size) != 0 && !(x != x && y != y)) {
      fail_msg("%s, seed %llu: element %lld (row %lld) is %.9g, not %.9g", what,
               (unsigned long long)seed, (long long)i,
               (long long)(i / (p->num_heads * p->head_size)), (double)y, (double)x);
    }
  }
  for (int64_t i = 0; i < want->rows * p->num_heads; ++i) {
    const float x = want->call.softmax_lse[i];
    const float y = got->call.softmax_lse[i];
    const bool same = x == y && signbit(x) == signbit(y);
    if (!same && !(x != x && y != y)) {
      fail_msg("%s, seed %llu: lse %lld is %.9g, not %.9g", what, (unsigned long long)seed,
               (long long)i, (double)y, (double)x);
    }
  }
}

/* Huge logits, subnormals, zeros of both signs and infinities among the keys, values, queries. */
static void spoil(uint64_t *seed, const paged_problem *p, paged_built *b) {
  const int64_t count = b->rows * p->num_heads * p->head_size;
  const size_t size = quire_dtype_size(p->dtype);
  static const float specials[] = {0.0f, -0.0f, 1e-41f, -3e-40f, 6e4f, -6e4f, 1e-7f};
  const int64_t kinds = one_in(seed, 2) ? 4 : 7;
  char *query = (char *)b->memory[6];
  for (int64_t i = 0; i < count / 7; ++i) {
    const int64_t at = draw(seed, 0, count - 1);
    quire_narrow_row(p->dtype, &specials[draw(seed, 0, kinds - 1)], 1, query + (size_t)at * size);
  }
}

static void run(const paged_problem *p, const paged_layout *l, quire_isa isa, uint64_t seed,
                paged_built *b) {
  paged_build(p, l, b);
  uint64_t choice = seed + 99;
  const bool spoiled = one_in(&choice, 4);
  if (spoiled) {
    assert_ptr_equal(b->memory[6], b->call.query);
    spoil(&choice, p, b);
  }
  b->call.isa = isa;
  b->call.tile_rows = 0;
  b->call.runners = -1;
  if (isa != QUIRE_ISA_SCALAR) {
    b->call.reverse = one_in(&choice, 2);
    b->call.threads = (uint32_t)draw(&choice, 0, 20);
    b->call.tile_rows = one_in(&choice, 2) ? 6 * draw(&choice, 2, 8) + 6 : 0;
    b->call.runners = one_in(&choice, 3) ? draw(&choice, 0, 2) : -1;
  }
  b->call.state_limit = one_in(&choice, 3) ? draw(&choice, 0, 5000) : -1;
  quire_error error;
  if (paged_run(&b->call, &error) != QUIRE_OK) {
    fail_msg("%s", error.message);
  }
}

static void test_isa(const char *name, quire_isa isa) {
  if (!paged_has_isa(isa)) {
    skip();
  }
  for (uint64_t i = 0; i < CASES; ++i) {
    uint64_t seed = i * 7919 + 12345;
    const uint64_t first_seed = seed;
    const paged_problem p = random_problem(&seed);
    paged_layout l = {seed,
                      draw(&seed, 0, 2),
                      one_in(&seed, 2),
                      one_in(&seed, 2),
                      one_in(&seed, 3),
                      0,
                      p.sequences,
                      0,
                      0};
    paged_built want;
    paged_built got;
    run(&p, &l, QUIRE_ISA_SCALAR, first_seed, &want);
    run(&p, &l, isa, first_seed, &got);
    expect_equal(name, first_seed, &p, &want, &got);
    paged_release(&want);
    paged_release(&got);
  }
}

static void test_avx2(void **state) {
  (void)state;
  test_isa("avx2", QUIRE_ISA_AVX2);
}

static void test_avx512(void **state) {
  (void)state;
  test_isa("avx512", QUIRE_ISA_AVX512);
}

static void test_neon(void **state) {
  (void)state;
  test_isa("neon", QUIRE_ISA_NEON);
}

/*
 * Precision fast against the definition in double: its own tolerance (docs/numerics.md, NU-10).
 * Values lie in [-1, 1], so the rounding of weights costs at most 2^-9, and that of a result at
 * most 2^-9 of it. Memory that no row may see holds NaN, so a leak would show.
 */
static double worst_of(const quire_implementation *attend) {
  double worst = 0.0;
  for (uint64_t i = 0; i < CASES; ++i) {
    uint64_t seed = i * 104729 + 777;
    paged_problem p = random_problem(&seed);
    p.dtype = QUIRE_BFLOAT16;
    p.quantised = 0;
    const paged_layout l = {
        seed, 0, one_in(&seed, 2), one_in(&seed, 2), one_in(&seed, 3), 0, p.sequences, 0, 0};
    paged_built b;
    paged_build(&p, &l, &b);
    b.call.attend = attend;
    b.call.isa = QUIRE_ISA_AVX512;
    quire_error error;
    if (paged_run(&b.call, &error) != QUIRE_OK) {
      fail_msg("%s", error.message);
    }
    const int64_t count = b.rows * p.num_heads * p.head_size;
    double *want = calloc((size_t)count + 1, sizeof(double));
    if (want == NULL) {
      fail_msg("no memory");
      return worst;
    }
    paged_reference(&b.call, want, NULL);
    for (int64_t j = 0; j < count; ++j) {
      const double got = (double)quire_load_f32(p.dtype, b.call.output, j);
      const double off = fabs(got - want[j]);
      worst = fmax(worst, off - 0x1p-9 * fabs(want[j]));
      if (!(off <= 0x1p-9 + 0x1p-9 * fabs(want[j]) + 1e-5)) {
        fail_msg("case %d, element %lld is %.9g, not %.9g", (int)i, (long long)j, got, want[j]);
      }
    }
    free(want);
    paged_release(&b);
  }
  return worst;
}

/* Features to test implementations of precision fast for: those of the processor. In a program of
   its own, where these test others, matrix tiles are emulated (matrix_tiles.h). */
static uint32_t fast_features(void) {
  const uint32_t features = quire_cpu_detect();
#ifdef MATRIX_TILES_EMULATED
  const uint32_t rest = QUIRE_CPU_AVX512F | QUIRE_CPU_AVX512BF16;
  if ((features & QUIRE_CPU_AMX_BF16) != 0 || (features & rest) != rest ||
      !matrix_tiles_emulate()) {
    return 0;
  }
  return features | QUIRE_CPU_AMX_BF16;
#else
  return features;
#endif
}

static void test_fast(void **state) {
  (void)state;
  const quire_implementation_list *list = &quire_kernels_paged_attention;
  const uint32_t features = fast_features();
  int tested = 0;
  for (size_t i = 0; i < list->count; ++i) {
    const quire_implementation *item = &list->items[i];
    if (item->precision != QUIRE_PRECISION_FAST) {
      continue;
    }
#ifdef MATRIX_TILES_EMULATED
    if ((item->features & QUIRE_CPU_AMX_BF16) == 0) {
      continue;
    }
#endif
    if ((item->features & ~features) != 0) {
      print_message("%s: not on this processor\n", item->name);
      continue;
    }
    print_message("%s: worst error beyond a result's own rounding %.3g\n", item->name,
                  worst_of(item));
    ++tested;
  }
  if (tested == 0) {
    skip();
  }
#ifdef MATRIX_TILES_EMULATED
  print_message("%ld products of matrix tiles\n", matrix_tiles_products());
  assert_true(matrix_tiles_products() > 0);
#endif
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_avx2),
      cmocka_unit_test(test_avx512),
      cmocka_unit_test(test_neon),
      cmocka_unit_test(test_fast),
  };
#ifdef MATRIX_TILES_EMULATED
  cmocka_set_test_filter("test_fast");
#endif
  return cmocka_run_group_tests(tests, NULL, NULL);
}
