/*
 * Legal calls of every operator, chosen by the bytes: each instruction set of the machine, with
 * several threads, must give the bits of the scalar kernels. The calls, with forbidden pages around
 * their tensors, are those of tests/kernels/differential.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "differential_run.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct {
  const char *op;
  diff_generator *make;
} generators[] = {{"com.microsoft.PagedAttention", diff_make_paged_attention},
                  {"com.microsoft.LinearAttention", diff_make_linear_attention},
                  {"quire.PagedDecode", diff_make_paged_decode},
                  {"ai.onnx.LinearAttention", diff_make_onnx_linear_attention},
                  {"quire.LinearAttentionReplay", diff_make_replay},
                  {"com.microsoft.CausalConvWithState", diff_make_causal_conv},
                  {"ai.onnx.CausalConvWithState", diff_make_onnx_causal_conv},
                  {"quire.MergeAttentionStates", diff_make_merge}};

static const struct {
  quire_isa isa;
  const char *name;
} sets[] = {{QUIRE_ISA_SCALAR, "scalar"},
            {QUIRE_ISA_AVX2, "avx2"},
            {QUIRE_ISA_AVX512, "avx512"},
            {QUIRE_ISA_NEON, "neon"}};
enum { SETS = sizeof sets / sizeof *sets };

static diff_subject subjects[SETS]; /* without a device where the machine lacks the set */

/* Nothing is counted here. */
void diff_subject_begin(diff_subject *subject) {
  (void)subject;
}
void diff_subject_end(diff_subject *subject) {
  (void)subject;
}

static void open_subjects(void) {
  for (size_t i = 0; i < SETS; i++) {
    quire_device_options options;
    quire_device_options_init(&options);
    options.threads = 1;
    options.isa = sets[i].isa;
    if (quire_context_create(NULL, &subjects[i].context, NULL) != QUIRE_OK) {
      abort();
    }
    quire_device_open(subjects[i].context, "cpu", &options, &subjects[i].device, NULL);
  }
  if (subjects[0].device == NULL) {
    abort();
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static diff_call call; /* large */
  char where[256] = "";
  if (subjects[0].context == NULL) {
    open_subjects();
  }
  if (size < 2) {
    return 0;
  }
  diff_choose_by(data + 2, size - 2);
  const size_t kind = data[0] % (sizeof generators / sizeof *generators);
  if (quire_context_find_operator(subjects[0].context, generators[kind].op) == NULL) {
    return 0;
  }
  generators[kind].make(&call, data[1]);
  diff_run(&subjects[0], &call, 1, NULL);
  diff_expect(&call);
  for (size_t i = 1; i < SETS; i++) {
    if (subjects[i].device != NULL) {
      diff_run(&subjects[i], &call, 1 + (data[1] + i) % 3, NULL);
      if (!diff_compare(&call, where, sizeof where)) {
        (void)fprintf(stderr, "%s: %s\n  %s\n", sets[i].name, where, call.text);
        abort();
      }
    }
  }
  diff_call_release(&call);
  return 0;
}
