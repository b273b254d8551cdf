/* quire bench same-bits: shows that nothing but the sequence itself decides a row's bits. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "bench_measure.h"
#include "call.h"
#include "commands.h"
#include "failure.h"
#include "same_bits.h"

typedef struct bits_options {
  int64_t threads;
  quire_text_list dtypes;
} bits_options;

static const quire_option bits_table[] = {
    {.name = "--threads",
     .kind = QUIRE_OPTION_NUMBER,
     .offset = offsetof(bits_options, threads),
     .value_name = "N",
     .minimum = 1,
     .maximum = 256,
     .help = "threads where the number is not varied (default: one per processor)"},
    {.name = "--dtype",
     .kind = QUIRE_OPTION_LIST,
     .offset = offsetof(bits_options, dtypes),
     .value_name = "TYPE",
     .help = "only this type: f32, f16, bf16; may be repeated"},
};

enum { VARIES_ATTENTION = 1, VARIES_LINEAR = 2, VARIES_BOTH = 3 };

static const struct {
  int operators;
  bits_variation how;
} variations[] = {
    {VARIES_BOTH, {.name = "as it is"}},
    {VARIES_BOTH, {.name = "1 thread", .threads = 1}},
    {VARIES_BOTH, {.name = "2 threads", .threads = 2}},
    {VARIES_BOTH, {.name = "3 threads", .threads = 3}},
    {VARIES_BOTH, {.name = "7 threads", .threads = 7}},
    {VARIES_BOTH, {.name = "batch and blocks shuffled", .shuffle = 5}},
    {VARIES_BOTH, {.name = "shuffled again", .shuffle = 99}},
    {VARIES_BOTH, {.name = "each sequence alone", .is_alone = 1}},
    {VARIES_BOTH, {.name = "each sequence in several calls", .is_cut = 1}},
    {VARIES_BOTH, {.name = "alone, cut and shuffled", .is_alone = 1, .is_cut = 1, .shuffle = 3}},
    {VARIES_BOTH, {.name = "memory with gaps", .is_apart = 1}},
    {VARIES_ATTENTION, {.name = "a table 100 columns wider", .more_columns = 100}},
    {VARIES_ATTENTION, {.name = "blocks of 48 rows", .block_size = 48}},
    {VARIES_ATTENTION, {.name = "blocks of 256 rows", .block_size = 256}},
    {VARIES_ATTENTION, {.name = "caches by head", .is_head_major = 1}},
    {VARIES_ATTENTION, {.name = "queries, keys, values packed", .is_packed = 1}},
    {VARIES_BOTH, {.name = "scalar instructions", .isa = QUIRE_ISA_SCALAR}},
    {VARIES_BOTH, {.name = "at most AVX2", .isa = QUIRE_ISA_AVX2}},
    {VARIES_BOTH, {.name = "AVX-512", .isa = QUIRE_ISA_AVX512}},
    {VARIES_BOTH, {.name = "NEON", .isa = QUIRE_ISA_NEON}},
    {VARIES_BOTH,
     {.name = "all of it at once",
      .isa = QUIRE_ISA_AVX2,
      .threads = 3,
      .shuffle = 11,
      .is_alone = 1,
      .is_cut = 1,
      .is_apart = 1,
      .more_columns = 7,
      .is_packed = 1}},
};

enum { VARIATIONS = sizeof variations / sizeof *variations };

static const struct {
  int operators;
  const char *name;
  bits_run_function *run;
} operators[] = {{VARIES_ATTENTION, "PagedAttention", quire_bits_run_attention},
                 {VARIES_LINEAR, "LinearAttention", quire_bits_run_linear}};

/* Rows whose hash is not that of the plain way. */
static size_t count_changed(const bits_rows *plain, const bits_rows *rows, size_t *first) {
  size_t changed = 0;
  for (size_t i = 0; i < rows->count; ++i) {
    if (rows->hashes[i] != plain->hashes[i]) {
      *first = changed ? *first : i;
      changed += 1;
    }
  }
  return changed;
}

static uint64_t hash_of_all(const bits_rows *rows) {
  return quire_bits_hash(0, rows->hashes, rows->count * sizeof *rows->hashes);
}

/* *is_absent is set, and nothing run, where the machine does not have the instruction set. */
static quire_status run_variation(quire_context *context, const bits_options *options,
                                  bits_run_function *run, quire_dtype dtype,
                                  const bits_variation *how, bits_rows *rows, int *is_absent,
                                  quire_error *error) {
  quire_device_options device_options;
  quire_device *device = NULL;
  quire_device_options_init(&device_options);
  device_options.threads = how->threads ? how->threads : (size_t)options->threads;
  device_options.isa = how->isa;
  quire_status status = quire_device_open(context, "cpu", &device_options, &device, error);
  *is_absent = status == QUIRE_BAD_REQUEST;
  if (status == QUIRE_OK) {
    status = run(device, dtype, how, rows, error);
  }
  quire_device_release(device);
  return *is_absent ? QUIRE_OK : status;
}

static quire_status compare_all(quire_context *context, const bits_options *options, size_t which,
                                const char *type, size_t *changed_total, quire_error *error) {
  static const quire_dtype dtypes[] = {QUIRE_FLOAT32, QUIRE_FLOAT16, QUIRE_BFLOAT16};
  const quire_dtype dtype = dtypes[!strcmp(type, "f16") ? 1 : !strcmp(type, "bf16") ? 2 : 0];
  bits_rows plain = {0};
  bits_rows rows;
  for (size_t v = 0; v < VARIATIONS; ++v) {
    const bits_variation *how = &variations[v].how;
    int is_absent = 0;
    if (!(variations[v].operators & operators[which].operators)) {
      continue;
    }
    quire_bench_progress(how->name, (double)v / (double)VARIATIONS);
    const quire_status status =
        run_variation(context, options, operators[which].run, dtype, how, &rows, &is_absent, error);
    quire_bench_progress(NULL, 0);
    if (status != QUIRE_OK) {
      return status;
    }
    if (is_absent) {
      continue;
    }
    size_t first = 0;
    plain = v == 0 ? rows : plain;
    const size_t changed = count_changed(&plain, &rows, &first);
    *changed_total += changed;
    printf("%-15s %-4s  %-31s %016" PRIx64 " %9.2f ms  ", operators[which].name, type, how->name,
           hash_of_all(&rows), (double)rows.nanoseconds / 1e6);
    if (changed > 0) {
      printf("%zu of %zu rows CHANGED, the first is row %zu\n", changed, rows.count, first);
    } else {
      printf("all %zu rows kept their bits\n", rows.count);
    }
    (void)fflush(stdout);
  }
  return QUIRE_OK;
}

static quire_status compare_operators(const bits_options *options, size_t *changed,
                                      quire_error *error) {
  static const char *const types[] = {"f32", "f16", "bf16"};
  quire_context *context = NULL;
  quire_status status = quire_context_create(NULL, &context, error);
  for (size_t i = 0; i < 2; ++i) {
    for (size_t t = 0; t < 3 && status == QUIRE_OK; ++t) {
      if (quire_text_list_allows(&options->dtypes, types[t])) {
        status = compare_all(context, options, i, types[t], changed, error);
      }
    }
  }
  quire_context_release(context);
  return status;
}

static const char details[] =
    "Computes the same sequences in many ways: decodes, drafts and prompts together or alone,\n"
    "shuffled, cut into several calls, with other threads, tables, strides and instruction sets.\n"
    "Each line has the hash of all rows (outputs, log-sum-exps, states) and the time of the "
    "calls,\n"
    "best of three. Exit status 1 if a bit of any row changed.\n";

static int run(void *const *values, const quire_text_list *positional) {
  quire_error error;
  size_t changed = 0;
  (void)positional;
  if (compare_operators(values[0], &changed, &error) != QUIRE_OK) {
    quire_failure_print(NULL, &error);
    return QUIRE_EXIT_FAILURE;
  }
  if (changed > 0) {
    printf("%zu rows changed\n", changed);
    return QUIRE_EXIT_MISMATCH;
  }
  printf("same sequence, same bits\n");
  return QUIRE_EXIT_OK;
}

const quire_command quire_command_same_bits = {
    .name = "bench same-bits",
    .summary = "Shows that batch, threads, tables, strides and instruction sets change no bit.",
    .usage = "[options]",
    .details = details,
    .groups = {{bits_table, sizeof bits_table / sizeof *bits_table, sizeof(bits_options)}},
    .run = run,
};
