/*
 * No call reads or writes outside the buffers that it was given, and none shows a sequence what
 * another one owns: calls with hostile tables, slots, lengths and offsets, legal and illegal mixed,
 * run with every instruction set at hand, twice, with other secrets in everything that the watched
 * sequence may not see. docs/reliability.md tells more.
 *
 * Environment: QUIRE_ISOLATION_CALLS (of each operator), QUIRE_ISOLATION_SEED,
 * QUIRE_ISOLATION_DEVICE=webgpu, QUIRE_ISOLATION_OPERATOR (only this one).
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
#include <time.h>
#include <unistd.h>

#include "isolation_run.h"

enum { DEFAULT_CALLS = 1000, CALLS_OF_A_FORM = 64, GPU_FORMS = 16, GPU_CALLS = 100 };

static iso_bench bench;
static iso_call call;

static const struct {
  const char *name;
  iso_generator *make;
} operators[] = {{"PagedAttention", iso_make_paged_attention},
                 {"PagedDecode", iso_make_paged_decode},
                 {"LinearAttention", iso_make_linear_attention},
                 {"ai.onnx.LinearAttention", iso_make_onnx_linear_attention},
                 {"LinearAttentionReplay", iso_make_replay},
                 {"MergeAttentionStates", iso_make_merge},
                 {"CausalConvWithState", iso_make_causal_conv},
                 {"ai.onnx.CausalConvWithState", iso_make_onnx_causal_conv},
#ifdef QUIRE_TEST_SERVING
                 {"block copies", iso_make_copies}
#endif
};

static void on_fault(int number) {
  static const char text[] = "\nmemory that is out of bounds was touched by ";
  (void)number;
  if (iso_running != NULL) {
    const char *running = (const char *)iso_running;
    (void)!write(STDERR_FILENO, text, sizeof text - 1);
    (void)!write(STDERR_FILENO, running, strlen(running));
    (void)!write(STDERR_FILENO, "\n", 1);
  }
  _exit(1);
}

static uint64_t setting(const char *name, uint64_t absent) {
  const char *text = getenv(name);
  return text != NULL && *text != 0 ? strtoull(text, NULL, 10) : absent;
}

static bool is_wanted(const char *name) {
  const char *only = getenv("QUIRE_ISOLATION_OPERATOR");
  return only == NULL || strcmp(name, only) == 0;
}

static double seconds(void) {
  struct timespec now;
  (void)timespec_get(&now, TIME_UTC);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void test_operators(const char *name, iso_generator *make) {
  const uint64_t seed = setting("QUIRE_ISOLATION_SEED", 1);
  const uint64_t calls = setting("QUIRE_ISOLATION_CALLS", DEFAULT_CALLS);
  uint64_t of_a_form = CALLS_OF_A_FORM;
  if (bench.is_gpu) { /* shaders are compiled for every form */
    of_a_form = calls / GPU_FORMS > GPU_CALLS ? calls / GPU_FORMS : GPU_CALLS;
  }
  const double begin = seconds();
  bench.calls = bench.refused = bench.spoiled = bench.left_out = 0;
  for (uint64_t form = seed * 1000003; bench.calls < calls; ++form) {
    iso_bench_forget(&bench);
    for (uint64_t i = 0; i < of_a_form && bench.calls < calls; ++i) {
      make(&call, form, form * 1000000 + i);
      if (!iso_bench_plan(&bench, &call)) {
        break;
      }
      iso_bench_run(&bench, &call);
    }
    if (bench.calls == 0 && bench.left_out == 0) {
      print_message("%s: not in this build\n", name);
      return;
    }
  }
  const double took = seconds() - begin;
  print_message("%-28s %8llu calls, %7llu refused, %6llu of them for their tensors, %.0f calls/s\n",
                name, (unsigned long long)bench.calls, (unsigned long long)bench.refused,
                (unsigned long long)bench.spoiled, (double)bench.calls / took);
  assert_true(calls < 1000 || (bench.refused > calls / 50 && bench.refused < calls * 3 / 4));
}

static void test_isolation(void **state) {
  (void)state;
  const char *device = getenv("QUIRE_ISOLATION_DEVICE");
  const bool is_gpu = device != NULL && strcmp(device, "webgpu") == 0;
  (void)signal(SIGSEGV, on_fault);
  (void)signal(SIGBUS, on_fault);
  if (!iso_bench_open(&bench, is_gpu)) {
    iso_bench_close(&bench);
    skip();
  }
  iso_open(&call);
  call.is_device = is_gpu;
  print_message("QUIRE_ISOLATION_SEED=%llu, %d worlds on",
                (unsigned long long)setting("QUIRE_ISOLATION_SEED", 1), ISO_WORLDS);
  for (int i = 0; i < bench.device_count; ++i) {
    print_message(" %s", bench.devices[i].name);
  }
  print_message("\n");
  for (size_t i = 0; i < sizeof operators / sizeof *operators; ++i) {
    if (is_wanted(operators[i].name)) {
      test_operators(operators[i].name, operators[i].make);
    }
  }
  iso_close(&call);
  iso_bench_close(&bench);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_isolation)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
