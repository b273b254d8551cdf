/*
 * Every implementation of the registry against the scalar one, bit by bit, on random calls of whole
 * operators: all types that it takes, tails, windows, holes, sinks, strides, 1, 2, 3 and 7 threads.
 * Each tensor ends where a forbidden page begins; what nobody may read holds NaN; what nobody may
 * write is compared as well.
 *
 * A new implementation is tested without any change here. A new kernel that no call below reaches
 * makes the test fail, and so does an implementation that is never run with a type that it takes.
 *
 * Environment: QUIRE_DIFFERENTIAL_SEED (default 1), QUIRE_DIFFERENTIAL_CALLS (of each operator).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cpu_features.h"
#include "differential_run.h"

enum { MOST_SUBJECTS = 64, DEFAULT_CALLS = 120 };

static const struct {
  const char *op;
  diff_generator *make;
  int share; /* of the calls, in hundredths */
} generators[] = {{"com.microsoft.PagedAttention", diff_make_paged_attention, 100},
                  {"com.microsoft.LinearAttention", diff_make_linear_attention, 150},
                  {"quire.PagedDecode", diff_make_paged_decode, 50},
                  {"ai.onnx.LinearAttention", diff_make_onnx_linear_attention, 50},
                  {"quire.LinearAttentionReplay", diff_make_replay, 50},
                  {"com.microsoft.CausalConvWithState", diff_make_causal_conv, 100},
                  {"ai.onnx.CausalConvWithState", diff_make_onnx_causal_conv, 50},
                  {"quire.MergeAttentionStates", diff_make_merge, 50}};

static diff_subject *subjects[MOST_SUBJECTS];
static size_t subject_count;
static diff_subject scalar;
static diff_kernels kernels;

/* What is running, for the signal handler: a forbidden page was touched. */
static volatile const char *running_call;
static volatile const char *running_name;

static void on_fault(int number) {
  static const char before[] = "\nmemory that is out of bounds was touched by ";
  (void)number;
  if (running_call && running_name) {
    const char *name = (const char *)running_name;
    const char *call = (const char *)running_call;
    (void)!write(STDERR_FILENO, before, sizeof before - 1);
    (void)!write(STDERR_FILENO, name, strlen(name));
    (void)!write(STDERR_FILENO, "\n", 1);
    (void)!write(STDERR_FILENO, call, strlen(call));
    (void)!write(STDERR_FILENO, "\n", 1);
  }
  _exit(1);
}

static uint64_t setting(const char *name, uint64_t absent) {
  const char *text = getenv(name);
  return text && *text ? strtoull(text, NULL, 10) : absent;
}

/* Implementations that are not the reference, promise the same bits, and can run here. */
static int set_up(void **state) {
  const quire_implementation *all[DIFF_MOST_IMPLEMENTATIONS];
  const size_t count = diff_implementations(all, DIFF_MOST_IMPLEMENTATIONS);
  const uint32_t features = quire_cpu_detect();
  (void)state;
  diff_subject_open(&scalar, NULL);
  for (size_t i = 0; i < count; ++i) {
    if (all[i]->isa == QUIRE_ISA_SCALAR || all[i]->precision != QUIRE_PRECISION_EXACT) {
      continue;
    }
    if ((all[i]->features & features) != all[i]->features) {
      print_message("%s: skipped, this machine lacks its instructions\n", all[i]->name);
      continue;
    }
    assert_true(subject_count < MOST_SUBJECTS);
    subjects[subject_count] = calloc(1, sizeof **subjects);
    assert_non_null(subjects[subject_count]);
    diff_subject_open(subjects[subject_count++], all[i]);
  }
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  for (size_t i = 0; i < subject_count; ++i) {
    diff_subject_close(subjects[i]);
    free(subjects[i]);
  }
  diff_subject_close(&scalar);
  return 0;
}

static int run_call(diff_generator *make, uint64_t seed) {
  static const size_t threads[] = {1, 2, 3, 7};
  static diff_call call; /* large */
  char where[256] = "";
  int differing = 0;
  make(&call, seed);
  running_call = call.text;
  running_name = "scalar implementations";
  (void)diff_run(&scalar, &call, 1, &kernels);
  diff_expect(&call);
  (void)diff_run(&scalar, &call, threads[1 + seed % 3], NULL);
  if (!diff_compare(&call, where, sizeof where)) {
    print_error("scalar, %zu threads: %s\n  %s\n", threads[1 + seed % 3], where, call.text);
    differing += 1;
  }
  for (size_t i = 0; i < subject_count; ++i) {
    running_name = subjects[i]->real->name;
    const size_t used = threads[(seed + i) % 4];
    if (diff_run(subjects[i], &call, used, NULL) && !diff_compare(&call, where, sizeof where)) {
      print_error("%s, %zu threads: %s\n  %s\n", subjects[i]->real->name, used, where, call.text);
      differing += 1;
    }
  }
  running_call = NULL;
  diff_call_release(&call);
  return differing;
}

static void test_same_bits(void **state) {
  const uint64_t seed = setting("QUIRE_DIFFERENTIAL_SEED", 1);
  const uint64_t calls = setting("QUIRE_DIFFERENTIAL_CALLS", DEFAULT_CALLS);
  int differing = 0;
  (void)state;
  /* In place of cmocka's handlers, which do not know the call. */
  (void)signal(SIGSEGV, on_fault);
  (void)signal(SIGBUS, on_fault);
  print_message("QUIRE_DIFFERENTIAL_SEED=%llu, %zu implementations besides the scalar ones\n",
                (unsigned long long)seed, subject_count);
  for (size_t g = 0; g < sizeof generators / sizeof *generators; ++g) {
    /* A build may leave operators out; a kernel that is there must be reached all the same. */
    const bool is_built = quire_context_find_operator(scalar.context, generators[g].op) != NULL;
    const uint64_t share = is_built ? calls * (uint64_t)generators[g].share / 100 : 0;
    for (uint64_t i = 0; i < share && differing < 20; ++i) {
      differing += run_call(generators[g].make, seed * 1000003 + i);
    }
  }
  assert_int_equal(differing, 0);
}

/* Every kernel of the registry was part of some plan. */
static void test_kernels_reached(void **state) {
  const quire_implementation *all[DIFF_MOST_IMPLEMENTATIONS];
  const size_t count = diff_implementations(all, DIFF_MOST_IMPLEMENTATIONS);
  (void)state;
  for (size_t i = 0; i < count; ++i) {
    bool found = false;
    for (size_t k = 0; k < kernels.count && !found; ++k) {
      found = !strcmp(kernels.names[k], all[i]->kernel);
    }
    if (!found) {
      fail_msg("no call of this test reaches the kernel %s: it needs a generator", all[i]->kernel);
    }
  }
}

/* Every implementation ran, with every type that it takes. */
static void test_types_reached(void **state) {
  const bool is_short = setting("QUIRE_DIFFERENTIAL_CALLS", DEFAULT_CALLS) < DEFAULT_CALLS;
  (void)state;
  for (size_t i = 0; i < subject_count; ++i) {
    const diff_subject *one = subjects[i];
    print_message("%-48s %9llu items\n", one->real->name, (unsigned long long)one->items_run);
    for (size_t b = 0; b < one->real->binding_count && !is_short; ++b) {
      const uint32_t missing = one->real->bindings[b].dtypes & ~one->seen[b];
      for (int t = 1; t < QUIRE_DTYPE_COUNT; ++t) {
        if (missing & QUIRE_DTYPE_BIT(t)) {
          fail_msg("%s never ran with %s %s", one->real->name, quire_dtype_name((quire_dtype)t),
                   one->real->bindings[b].name);
        }
      }
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_bits),
                                     cmocka_unit_test(test_kernels_reached),
                                     cmocka_unit_test(test_types_reached)};
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
