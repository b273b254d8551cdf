/* Every instruction set that the machine has returns the bits of plain C, on random problems. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "paged_problem.h"

enum { PROBLEMS = 150 };

/* One of n choices. */
static int64_t choose(uint64_t *seed, const int64_t *choices, size_t n) {
  const size_t i = (size_t)((paged_random(seed) * 0.5f + 0.5f) * (float)n);
  return choices[i < n ? i : n - 1];
}

#define CHOOSE(seed, ...)                      \
  choose(seed, (const int64_t[]){__VA_ARGS__}, \
         sizeof(const int64_t[]){__VA_ARGS__} / sizeof(int64_t))

static paged_problem random_problem(uint64_t *seed) {
  paged_problem p = {.name = "random"};
  p.dtype = (quire_dtype)CHOOSE(seed, QUIRE_FLOAT32, QUIRE_FLOAT16, QUIRE_BFLOAT16);
  p.quantised = (int)CHOOSE(seed, 0, 0, 1, 2, 3);
  p.kv_num_heads = CHOOSE(seed, 1, 2, 3, 8);
  const int64_t members = CHOOSE(seed, 1, 2, 3, 4, 4, 5, 7, 8, 16, 71);
  p.num_heads = p.kv_num_heads * (members > 8 && p.kv_num_heads > 2 ? 4 : members);
  p.head_size = CHOOSE(seed, 1, 3, 8, 16, 20, 31, 40, 64, 80, 96, 128, 128, 200, 257);
  p.block_size = CHOOSE(seed, 1, 3, 16, 16, 32, 48, 256);
  p.window = CHOOSE(seed, 0, 0, 0, 1, 5, 64, 100, 600);
  p.softcap = (float)CHOOSE(seed, 0, 0, 2);
  p.sink = CHOOSE(seed, 0, 1) != 0;
  p.non_causal = CHOOSE(seed, 0, 0, 1) != 0;
  p.packed = CHOOSE(seed, 0, 1) != 0;
  p.hole = CHOOSE(seed, 0, 0, 1, 3);
  p.sequences = CHOOSE(seed, 1, 2, 3, 5);
  for (int64_t i = 0; i < p.sequences; ++i) {
    p.past[i] = CHOOSE(seed, 0, 1, 7, 63, 64, 100, 511, 512, 700, 1500);
    p.fresh[i] = CHOOSE(seed, 0, 1, 1, 1, 2, 3, 5, 8, 8, 9, 20);
  }
  if (p.fresh[0] == 0) {
    p.fresh[0] = 1;
  }
  if (p.head_size * p.num_heads < 300 && CHOOSE(seed, 0, 0, 0, 1) != 0) {
    p.past[0] = 9000;
  }
  return p;
}

static void print_problem(int index, const paged_problem *p) {
  print_message(
      "problem %d: dtype %d quantised %d heads %d/%d size %d block %d window %d cap %g "
      "sink %d non-causal %d packed %d hole %d\n",
      index, (int)p->dtype, p->quantised, (int)p->num_heads, (int)p->kv_num_heads,
      (int)p->head_size, (int)p->block_size, (int)p->window, (double)p->softcap, p->sink,
      p->non_causal, p->packed, (int)p->hole);
  for (int64_t i = 0; i < p->sequences; ++i) {
    print_message("  past %d new %d\n", (int)p->past[i], (int)p->fresh[i]);
  }
}

static int64_t cache_bytes(const paged_call *c) {
  return c->block_count * c->block_size * c->kv_num_heads * c->head_size *
         (int64_t)quire_dtype_size(c->cache_dtype);
}

static void expect_same(int index, const paged_problem *p, const char *what, int isa,
                        const void *want, const void *got, int64_t bytes) {
  if (memcmp(want, got, (size_t)bytes) != 0) {
    print_problem(index, p);
    fail_msg("%s differs, instruction set %d", what, isa);
  }
}

static void test_instruction_sets(void **state) {
  (void)state;
  uint64_t seed = 20260730;
  size_t compared = 0;
  for (int i = 0; i < PROBLEMS; ++i) {
    const paged_problem p = random_problem(&seed);
    const paged_layout l = {.shuffle = 5,
                            .end = p.sequences,
                            .head_major = CHOOSE(&seed, 0, 1) != 0,
                            .spread_query = CHOOSE(&seed, 0, 1) != 0};
    const int64_t state_limit = CHOOSE(&seed, -1, -1, -1, 0, 100, 1000);
    const bool with_lse = CHOOSE(&seed, 0, 1) != 0;
    paged_built want;
    paged_build(&p, &l, &want);
    want.call.isa = QUIRE_ISA_SCALAR;
    want.call.softmax_lse = with_lse ? want.call.softmax_lse : NULL;
    assert_int_equal(paged_run(&want.call, NULL), QUIRE_OK);
    static const quire_isa sets[] = {QUIRE_ISA_AVX2, QUIRE_ISA_AVX512, QUIRE_ISA_NEON};
    for (size_t j = 0; j < sizeof sets / sizeof *sets; ++j) {
      if (!paged_has_isa(sets[j])) {
        continue;
      }
      paged_built got;
      paged_build(&p, &l, &got);
      got.call.isa = sets[j];
      got.call.state_limit = state_limit;
      got.call.softmax_lse = with_lse ? got.call.softmax_lse : NULL;
      got.call.reverse = i % 2 == 0;
      assert_int_equal(paged_run(&got.call, NULL), QUIRE_OK);
      if (p.quantised == 3) {
        const int64_t scales = want.call.block_count * p.block_size * p.kv_num_heads * 4;
        expect_same(i, &p, "k_scale_cache", (int)sets[j], want.call.k_scale_cache,
                    got.call.k_scale_cache, scales);
        expect_same(i, &p, "v_scale_cache", (int)sets[j], want.call.v_scale_cache,
                    got.call.v_scale_cache, scales);
      }
      const int64_t outputs = want.rows * p.num_heads;
      expect_same(i, &p, "key_cache", (int)sets[j], want.call.key_cache, got.call.key_cache,
                  cache_bytes(&want.call));
      expect_same(i, &p, "value_cache", (int)sets[j], want.call.value_cache, got.call.value_cache,
                  cache_bytes(&want.call));
      expect_same(i, &p, "output", (int)sets[j], want.call.output, got.call.output,
                  outputs * p.head_size * (int64_t)quire_dtype_size(p.dtype));
      if (with_lse) {
        expect_same(i, &p, "softmax_lse", (int)sets[j], want.call.softmax_lse, got.call.softmax_lse,
                    outputs * (int64_t)sizeof(float));
      }
      paged_release(&got);
      ++compared;
    }
    paged_release(&want);
  }
  if (compared == 0) {
    skip();
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_instruction_sets)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
