/* quire bench: how fast operators run, beside what the machine can do. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_run.h"
#include "commands.h"
#include "failure.h"

enum { LONGEST_CASES = 16 * 1024 * 1024, MOST_KEPT = 64 };

static const quire_option bench_table[] = {
    {.name = "--json",
     .kind = QUIRE_OPTION_FLAG,
     .offset = offsetof(bench_options, is_json),
     .help = "print JSON"},
    {.name = "--list",
     .kind = QUIRE_OPTION_FLAG,
     .offset = offsetof(bench_options, is_list),
     .help = "only name the cases"},
    {.name = "--device",
     .kind = QUIRE_OPTION_CHOICE,
     .offset = offsetof(bench_options, device),
     .choices = "cpu|webgpu",
     .help = "webgpu: timed by the adapter's clock, buffers in rotation"},
    {.name = "--adapter",
     .kind = QUIRE_OPTION_TEXT,
     .offset = offsetof(bench_options, adapter),
     .value_name = "N|NAME",
     .help = "WebGPU: adapter by number or by a part of its name"},
    {.name = "--no-subgroups",
     .kind = QUIRE_OPTION_FLAG,
     .offset = offsetof(bench_options, no_subgroups),
     .help = "WebGPU: plan as if the adapter had no subgroups"},
    {.name = "--default-limits",
     .kind = QUIRE_OPTION_FLAG,
     .offset = offsetof(bench_options, default_limits),
     .help = "WebGPU: no more than every device guarantees"},
    {.name = "--trusted-shaders",
     .kind = QUIRE_OPTION_FLAG,
     .offset = offsetof(bench_options, trusted_shaders),
     .help = "WebGPU: shaders without run-time checks"},
    {.name = "--variant",
     .kind = QUIRE_OPTION_TEXT,
     .offset = offsetof(bench_options, variant),
     .value_name = "NAME",
     .help = "insist on this variant of the kernel"},
    {.name = "--tuning",
     .kind = QUIRE_OPTION_TEXT,
     .offset = offsetof(bench_options, tuning),
     .value_name = "FILE",
     .help = "values that quire tune found, for plans they are for"},
    {.name = "--threads",
     .kind = QUIRE_OPTION_NUMBER,
     .offset = offsetof(bench_options, threads),
     .value_name = "N",
     .minimum = 1,
     .maximum = 256,
     .help = "threads of the pool (default: one per processor)"},
    {.name = "--isa",
     .kind = QUIRE_OPTION_CHOICE,
     .offset = offsetof(bench_options, isa),
     .choices = "scalar|avx2|avx512|neon",
     .help = "highest instruction set to use"},
    {.name = "--dtype",
     .kind = QUIRE_OPTION_LIST,
     .offset = offsetof(bench_options, dtypes),
     .value_name = "TYPE",
     .help = "only this type of a case: f32, f16, bf16, i8, i8t; may be repeated"},
    {.name = "--precision",
     .kind = QUIRE_OPTION_CHOICE,
     .offset = offsetof(bench_options, precision),
     .choices = "exact|fast",
     .help = "fast: attention may use bf16 or matrix units, without the promise about bits"},
    {.name = "--mode",
     .kind = QUIRE_OPTION_CHOICE,
     .offset = offsetof(bench_options, mode),
     .choices = "warm|cold|both",
     .help = "the same buffers again and again, or more of them than the last cache holds"},
    {.name = "--seconds",
     .kind = QUIRE_OPTION_TEXT,
     .offset = offsetof(bench_options, seconds),
     .value_name = "S",
     .help = "time for each figure (default: 0.5)"},
    {.name = "--patience",
     .kind = QUIRE_OPTION_NUMBER,
     .offset = offsetof(bench_options, patience),
     .value_name = "S",
     .minimum = 0,
     .maximum = 3600,
     .help = "seconds to wait, for each figure, until no other program works"},
    {.name = "--cases",
     .kind = QUIRE_OPTION_TEXT,
     .offset = offsetof(bench_options, cases),
     .value_name = "FILE",
     .help = "file of cases (default: those that are built in)"},
};

static quire_status measure_case(bench_state *state, const bench_case *item, quire_error *error) {
  quire_status status = QUIRE_OK;
  for (size_t i = 0; i < item->dtype_count && status == QUIRE_OK; ++i) {
    if (quire_text_list_allows(&state->options->dtypes, item->dtypes[i])) {
      status = (state->is_gpu ? quire_bench_gpu_row : quire_bench_cpu_rows)(state, item,
                                                                            item->dtypes[i], error);
    }
  }
  return status;
}

static quire_status load_cases(bench_state *state, const char *path, quire_error *error) {
  if (!path) {
    return quire_bench_cases_parse((const char *)quire_bench_cases_text, quire_bench_cases_length,
                                   &state->cases, error);
  }
  quire_file_bytes bytes;
  quire_status status = quire_file_read(path, LONGEST_CASES, &bytes, error);
  if (status == QUIRE_OK) {
    status = quire_bench_cases_parse((const char *)bytes.data, bytes.size, &state->cases, error);
    quire_file_release(&bytes);
  }
  return status;
}

static int is_picked(const bench_case *item, const quire_text_list *words) {
  for (size_t i = 0; i < words->count; ++i) {
    if (quire_bench_case_matches(item, words->items[i])) {
      return 1;
    }
  }
  return words->count == 0;
}

static quire_status measure_cases(bench_state *state, const quire_text_list *words,
                                  quire_error *error) {
  size_t picked = 0;
  for (size_t i = 0; i < state->cases.count; ++i) {
    bench_case *item = &state->cases.items[i];
    if (state->options->precision && !strcmp(state->options->precision, "fast")) {
      item->precision = QUIRE_PRECISION_FAST;
    }
    if (!is_picked(item, words)) {
      continue;
    }
    if (state->options->is_list) {
      printf("%-8s %-28s %s\n", item->workload, item->name, item->model);
    } else {
      if (picked == 0 && !state->results) {
        (state->is_gpu ? quire_bench_gpu_head : quire_bench_cpu_head)(state);
      }
      const quire_status status = measure_case(state, item, error);
      if (status != QUIRE_OK) {
        return status;
      }
    }
    picked += 1;
  }
  return picked > 0
             ? QUIRE_OK
             : quire_failure_set(error, QUIRE_NOT_FOUND,
                                 "no case is called \"%.64s\"; --list names them", words->items[0]);
}

/* A positional that is a file takes the place of --cases. */
static const char *take_file(quire_text_list *words, const char *cases) {
  for (size_t i = 0; i < words->count; ++i) {
    const char *ending = strrchr(words->items[i], '.');
    if (ending && !strcmp(ending, ".json")) {
      cases = words->items[i];
      words->items[i] = words->items[--words->count];
      return cases;
    }
  }
  return cases;
}

/* *where becomes the file that a failure is about. */
static quire_status bench(const bench_options *options, quire_text_list *words, const char **where,
                          quire_error *error) {
  const quire_call_options call_options = {.device = options->device,
                                           .adapter = options->adapter,
                                           .no_subgroups = options->no_subgroups,
                                           .default_limits = options->default_limits,
                                           .trusted_shaders = options->trusted_shaders,
                                           .kept_bindings = MOST_KEPT,
                                           .tuning = options->tuning,
                                           .threads = options->threads,
                                           .isa = options->isa};
  bench_state state = {.options = options, .budget = {.patience = (double)options->patience}};
  quire_status status = quire_arguments_seconds(options->seconds, &state.budget.seconds, error);
  if (status == QUIRE_OK) {
    status = load_cases(&state, take_file(words, options->cases), error);
  }
  if (status == QUIRE_OK) {
    status = quire_session_open(&state.session, error);
  }
  if (status == QUIRE_OK) {
    status = quire_session_open_device(&state.session, &call_options, error);
  }
  if (status == QUIRE_OK) {
    quire_device_get_facts(state.session.device, &state.facts);
    state.session.variant = options->variant;
    state.is_gpu = options->device && !strcmp(options->device, "webgpu");
    state.gpu = (bench_gpu){.session = &state.session, .seconds = state.budget.seconds};
    quire_bench_probe_open(state.facts.isa, state.facts.threads, &state.probe);
    state.results = options->is_json ? json_array() : NULL;
    if (options->is_json && !state.results) {
      status = quire_failure_set(error, QUIRE_OUT_OF_MEMORY, "no memory for the results");
    }
  }
  if (status == QUIRE_OK) {
    const int are_files = quire_bench_has_files(words);
    status = are_files ? quire_bench_files(&state, words, &call_options, where, error)
                       : measure_cases(&state, words, error);
    if (status == QUIRE_OK && !options->is_list && (!are_files || options->is_json)) {
      status =
          state.is_gpu ? quire_bench_gpu_end(&state, error) : quire_bench_cpu_end(&state, error);
    }
  }
  json_decref(state.results);
  quire_bench_probe_close(&state.probe);
  quire_session_close(&state.session);
  quire_bench_cases_release(&state.cases);
  return status;
}

static const char details[] =
    "Without a word every case is measured. A figure is one call, from the public interface, with\n"
    "its checks of values. warm: the same buffers in every call. cold: as many copies of caches "
    "or\n"
    "states in turn as hold four times the last cache. limit: the larger of bytes over the\n"
    "bandwidth that the tool measures for that working set, with as many threads, and of the\n"
    "floating-point operations over the multiply-add peak of the instruction set in use.\n"
    "\n"
    "Case files (of run and check) are timed as they are, with the outputs that they expect; a\n"
    "figure includes the copy of tensors that are updated in place.\n"
    "\n"
    "With --device webgpu a figure is the device's time of one planned call: many calls in one "
    "pass\n"
    "between two timestamps, on buffers in rotation, after the device was busy for 0.25 s. read "
    "us:\n"
    "the bytes over what a kernel reaches that only reads. record us: the host's time for "
    "recording\n"
    "a call whose bindings are kept. bench/webgpu_cases.json has shapes for it.\n";

static int run(void *const *values, const quire_text_list *positional) {
  quire_text_list words = *positional;
  const char *where = NULL;
  quire_error error;
  if (bench(values[0], &words, &where, &error) != QUIRE_OK) {
    quire_failure_print(where, &error);
    return QUIRE_EXIT_FAILURE;
  }
  return QUIRE_EXIT_OK;
}

const quire_command quire_command_bench = {
    .name = "bench",
    .summary = "Measures operators on shapes of real models, beside what the machine can do.",
    .usage = "[OPERATOR | WORKLOAD | CASE | CASES.json | CASE.safetensors]... [options]",
    .details = details,
    .groups = {{bench_table, sizeof bench_table / sizeof *bench_table, sizeof(bench_options)}},
    .positional_maximum = 100000,
    .positional_name = "CASE",
    .run = run,
};
