/* quire bench: how fast operators run, beside what the machine can do. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "bench_case.h"
#include "bench_gpu.h"
#include "bench_measure.h"
#include "bench_probe.h"
#include "bench_program.h"
#include "bench_stored.h"
#include "commands.h"
#include "failure.h"

enum { LONGEST_CASES = 16 * 1024 * 1024, MOST_SETS = 1024, MOST_KEPT = 64 };

typedef struct bench_options {
  int is_json, is_list;
  int no_subgroups, default_limits, trusted_shaders;
  int64_t threads;
  const char *isa, *cases, *mode, *seconds, *precision, *device, *adapter, *variant;
  int64_t patience;
  quire_text_list dtypes;
} bench_options;

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
     .help = "only this type of a case: f32, f16, bf16, i8; may be repeated"},
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

typedef struct bench_state {
  quire_session session;
  const bench_options *options;
  quire_device_facts facts;
  bench_case_list cases;
  bench_probe probe;
  bench_gpu gpu;
  int is_gpu;
  bench_budget budget;
  json_t *results; /* with --json */
} bench_state;

/* One figure: a case, a type, warm or cold. */
typedef struct bench_figure {
  const bench_case *item;
  const char *dtype;
  int is_cold;
  size_t sets;
  bench_times times;
  double bytes, flops;
  double memory_limit, arithmetic_limit; /* microseconds */
} bench_figure;

static quire_status run_program(void *user, uint64_t *nanoseconds, quire_error *error) {
  return quire_bench_program_run(user, nanoseconds, error);
}

/* What one iteration cannot be faster than. The working set of a stack is what its layers hold. */
static void find_limits(bench_state *state, const bench_program *program, bench_figure *figure) {
  double microseconds = 0;
  const double held =
      quire_bench_case_set_bytes(figure->item, figure->dtype) * (double)figure->sets;
  const double working = program->stream_bytes ? held + (double)program->stream_bytes : held;
  for (size_t k = 0; k < 2; ++k) {
    const bench_layers *layers = &program->kinds[k];
    if (layers->layer_count > 0) {
      const bench_traffic traffic = layers->is_updated ? BENCH_UPDATE : BENCH_READ;
      const double rate = quire_bench_probe_bandwidth(&state->probe, traffic, working);
      microseconds += rate > 0 ? (double)layers->layer_count * layers->bytes / rate / 1000 : 0;
    }
  }
  const double peak = quire_bench_probe_arithmetic(&state->probe);
  figure->memory_limit = microseconds;
  figure->arithmetic_limit = peak > 0 ? figure->flops / peak / 1000 : 0;
}

static double limit_of(const bench_figure *figure) {
  return figure->memory_limit > figure->arithmetic_limit ? figure->memory_limit
                                                         : figure->arithmetic_limit;
}

static void print_head(const bench_state *state) {
  printf("quire %s, %s, %s, %zu threads, 2 MiB pages: %s\n\n", quire_version(), state->facts.model,
         state->facts.isa, state->facts.threads, quire_bench_memory_pages());
  printf("%-8s %-28s %-5s %-5s %10s %10s .. %-10s %10s %7s %8s %10s %6s\n", "workload", "case",
         "type", "", "median us", "p10", "p90", "min", "GB/s", "GFLOP/s", "limit us", "share");
}

static void print_figure(const bench_figure *figure) {
  const bench_times *times = &figure->times;
  printf("%-8s %-28s %-5s %-5s %10.1f %10.1f .. %-10.1f %10.1f %7.1f %8.1f %10.1f %5.0f%%%s\n",
         figure->item->workload, figure->item->name, figure->dtype,
         figure->is_cold ? "cold" : "warm", times->median, times->low, times->high, times->least,
         figure->bytes / times->median / 1000, figure->flops / times->median / 1000,
         limit_of(figure), 100 * limit_of(figure) / times->median,
         times->others > 0.1 ? "  busy" : "");
  (void)fflush(stdout);
}

static json_t *figure_json(const bench_state *state, const bench_figure *figure) {
  const bench_times *times = &figure->times;
  return json_pack(
      "{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:f, s:f, s:f, s:f, s:I, s:f, s:f, s:f, s:f, "
      "s:f, "
      "s:f}",
      "workload", figure->item->workload, "case", figure->item->name, "model", figure->item->model,
      "dtype", figure->dtype, "precision",
      figure->item->precision == QUIRE_PRECISION_FAST ? "fast" : "exact", "mode",
      figure->is_cold ? "cold" : "warm", "isa", state->facts.isa, "threads",
      (json_int_t)state->facts.threads, "sets", (json_int_t)figure->sets, "median_us",
      times->median, "p10_us", times->low, "p90_us", times->high, "min_us", times->least, "samples",
      (json_int_t)times->samples, "other_cpu", times->others, "bytes", figure->bytes, "flops",
      figure->flops, "memory_limit_us", figure->memory_limit, "arithmetic_limit_us",
      figure->arithmetic_limit, "share", limit_of(figure) / times->median);
}

static quire_status measure(bench_state *state, bench_figure *figure, quire_error *error) {
  char label[160];
  bench_program program;
  (void)snprintf(label, sizeof label, "%s %s %s", figure->item->name, figure->dtype,
                 figure->is_cold ? "cold" : "warm");
  quire_bench_progress(label, 0);
  quire_status status = quire_bench_program_make(&state->session, figure->item, figure->dtype,
                                                 figure->sets, &program, error);
  if (status != QUIRE_OK) {
    quire_bench_progress(NULL, 0);
    return status;
  }
  figure->bytes = quire_bench_program_bytes(&program);
  figure->flops = quire_bench_program_flops(&program);
  find_limits(state, &program, figure);
  status = quire_bench_measure(run_program, &program, &state->budget, label, &figure->times, error);
  find_limits(state, &program, figure); /* again: the better of both sides counts */
  quire_bench_program_release(&program);
  if (status == QUIRE_OK && state->results) {
    if (json_array_append_new(state->results, figure_json(state, figure)) != 0) {
      status = quire_failure_set(error, QUIRE_OUT_OF_MEMORY, "no memory for the results");
    }
  } else if (status == QUIRE_OK) {
    print_figure(figure);
  }
  return status;
}

/* ---- figures of a WebGPU device ---- */

static void print_gpu_head(const bench_state *state) {
  printf("quire %s, %s\n\n", quire_version(), state->facts.model);
  printf("%-28s %-5s %-28s %10s %10s .. %-10s %8s %8s %9s %6s %9s\n", "case", "type", "variant",
         "median us", "p10", "p90", "GB/s", "GFLOP/s", "read us", "share", "record us");
}

static void print_gpu_figure(const bench_gpu_figure *figure) {
  const bench_times *times = &figure->times;
  printf("%-28s %-5s %-28s %10.2f %10.2f .. %-10.2f %8.1f %8.0f %9.2f %5.0f%% %9.2f\n",
         figure->item->name, figure->dtype, figure->variant, times->median, times->low, times->high,
         figure->bytes / times->median / 1000, figure->flops / times->median / 1000,
         figure->memory_limit, 100 * figure->memory_limit / times->median, figure->record);
  (void)fflush(stdout);
}

static json_t *gpu_figure_json(const bench_state *state, const bench_gpu_figure *figure) {
  const bench_times *times = &figure->times;
  return json_pack(
      "{s:s, s:s, s:s, s:s, s:s, s:s, s:b, s:b, s:I, s:I, s:f, s:f, s:f, s:f, s:I, s:f, s:f, s:f, "
      "s:f}",
      "workload", figure->item->workload, "case", figure->item->name, "model", figure->item->model,
      "dtype", figure->dtype, "device", "webgpu", "variant", figure->variant, "subgroups",
      !state->options->no_subgroups, "trusted_shaders", state->options->trusted_shaders, "sets",
      (json_int_t)figure->sets, "calls_per_pass",
      (json_int_t)figure->sets * (json_int_t)figure->repeat, "median_us", times->median, "p10_us",
      times->low, "p90_us", times->high, "min_us", times->least, "samples",
      (json_int_t)times->samples, "record_us", figure->record, "bytes", figure->bytes, "flops",
      figure->flops, "memory_limit_us", figure->memory_limit);
}

static quire_status measure_gpu(bench_state *state, const bench_case *item, const char *dtype,
                                quire_error *error) {
  bench_gpu_figure figure;
  const quire_status status = quire_bench_gpu_measure(&state->gpu, item, dtype, &figure, error);
  if (status == QUIRE_UNSUPPORTED || status == QUIRE_LIMIT) {
    (void)fprintf(stderr, "%-28s %-5s %s\n", item->name, dtype, error->message);
    return QUIRE_OK;
  }
  if (status == QUIRE_OK && state->results) {
    return json_array_append_new(state->results, gpu_figure_json(state, &figure)) == 0
               ? QUIRE_OK
               : quire_failure_set(error, QUIRE_OUT_OF_MEMORY, "no memory for the results");
  }
  if (status == QUIRE_OK) {
    print_gpu_figure(&figure);
  }
  return status;
}

static void print_gpu_end(const bench_state *state) {
  if (!state->results) {
    printf("\nlimit: a kernel that only reads, %.1f GB/s (best of a few passes)\n",
           state->gpu.read_gigabytes);
    return;
  }
  json_t *root =
      json_pack("{s:s, s:s, s:f, s:O}", "version", quire_version(), "model", state->facts.model,
                "read_gigabytes", state->gpu.read_gigabytes, "measurements", state->results);
  if (root) {
    (void)json_dumpf(root, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
    printf("\n");
  }
  json_decref(root);
}

/* Sets that exceed the last cache four times; 0 if the warm figure does already, or is a stack. */
static size_t cold_sets(const bench_state *state, const bench_case *item, const char *dtype) {
  const double cache = state->facts.l3_bytes > 0 ? (double)state->facts.l3_bytes : 33554432;
  const double bytes = quire_bench_case_set_bytes(item, dtype);
  if (item->stream_mib > 0 || bytes * (double)item->states >= 4 * cache) {
    return 0;
  }
  const double sets = 4 * cache / bytes + 1;
  return sets < 2 ? 2 : (sets > MOST_SETS ? MOST_SETS : (size_t)sets);
}

static int is_wanted(const bench_options *options, const char *dtype) {
  for (size_t i = 0; i < options->dtypes.count; ++i) {
    if (!strcmp(options->dtypes.items[i], dtype)) {
      return 1;
    }
  }
  return options->dtypes.count == 0;
}

static quire_status measure_case(bench_state *state, const bench_case *item, quire_error *error) {
  const char *mode = state->options->mode ? state->options->mode : "both";
  quire_status status = QUIRE_OK;
  for (size_t i = 0; i < item->dtype_count && status == QUIRE_OK; ++i) {
    const char *dtype = item->dtypes[i];
    const size_t cold = cold_sets(state, item, dtype);
    if (!is_wanted(state->options, dtype)) {
      continue;
    }
    if (state->is_gpu) {
      status = measure_gpu(state, item, dtype, error);
      continue;
    }
    bench_figure figure = {.item = item, .dtype = dtype, .sets = (size_t)item->states};
    if (strcmp(mode, "cold") != 0 || cold == 0) {
      status = measure(state, &figure, error);
    }
    if (status == QUIRE_OK && cold > 0 && strcmp(mode, "warm") != 0) {
      figure.is_cold = 1;
      figure.sets = cold;
      status = measure(state, &figure, error);
    }
  }
  return status;
}

static json_t *limits_json(const bench_probe *probe) {
  json_t *list = json_array();
  for (size_t i = 0; i < probe->known_count; ++i) {
    (void)json_array_append_new(
        list, json_pack("{s:s, s:I, s:f}", "traffic",
                        probe->known[i].traffic == BENCH_READ ? "read" : "update", "bytes",
                        (json_int_t)probe->known[i].bytes, "gigabytes", probe->known[i].gigabytes));
  }
  return json_pack("{s:s, s:f, s:o}", "isa", probe->kernels->isa, "gigaflops", probe->gigaflops,
                   "bandwidth", list);
}

static void print_json(bench_state *state) {
  json_t *root = json_pack("{s:s, s:s, s:s, s:I, s:s, s:o, s:O}", "version", quire_version(),
                           "model", state->facts.model, "isa", state->facts.isa, "threads",
                           (json_int_t)state->facts.threads, "pages", quire_bench_memory_pages(),
                           "limits", limits_json(&state->probe), "measurements", state->results);
  if (root) {
    (void)json_dumpf(root, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
    printf("\n");
  }
  json_decref(root);
}

static void print_limits(const bench_probe *probe) {
  printf("\nlimits by the tool's own probes (best of 0.1 s, %s loops): %.0f GFLOP/s",
         probe->kernels->isa, probe->gigaflops);
  for (size_t i = 0; i < probe->known_count; ++i) {
    printf(", %s %zu MiB %.1f GB/s", probe->known[i].traffic == BENCH_READ ? "read" : "read+write",
           probe->known[i].bytes >> 20, probe->known[i].gigabytes);
  }
  printf("\n");
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
        (state->is_gpu ? print_gpu_head : print_head)(state);
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

/* ---- case files ---- */

static quire_status measure_stored(bench_state *state, const char *path,
                                   const quire_call_options *options, quire_error *error) {
  bench_times times;
  const char *op = NULL;
  const quire_status status =
      quire_bench_stored(&state->session, path, options, &state->budget, &op, &times, error);
  if (status != QUIRE_OK || !state->results) {
    if (status == QUIRE_OK) {
      printf("%-32s %10.1f %10.1f .. %-10.1f %10.1f  %s\n", op, times.median, times.low, times.high,
             times.least, path);
      (void)fflush(stdout);
    }
    return status;
  }
  json_t *row =
      json_pack("{s:s, s:s, s:s, s:I, s:f, s:f, s:f, s:f, s:I, s:f}", "case", path, "operator", op,
                "isa", state->facts.isa, "threads", (json_int_t)state->facts.threads, "median_us",
                times.median, "p10_us", times.low, "p90_us", times.high, "min_us", times.least,
                "samples", (json_int_t)times.samples, "other_cpu", times.others);
  return row && json_array_append_new(state->results, row) == 0
             ? QUIRE_OK
             : quire_failure_set(error, QUIRE_OUT_OF_MEMORY, "no memory for the results");
}

static int has_stored(const quire_text_list *words) {
  for (size_t i = 0; i < words->count; ++i) {
    if (quire_bench_is_stored(words->items[i])) {
      return 1;
    }
  }
  return 0;
}

/* All words are such files, or none is. */
static quire_status check_files(const quire_text_list *words, quire_error *error) {
  for (size_t i = 0; i < words->count; ++i) {
    if (!quire_bench_is_stored(words->items[i])) {
      return quire_failure_set(error, QUIRE_BAD_REQUEST,
                               "\"%.64s\" is no case file, and there are such beside it",
                               words->items[i]);
    }
  }
  return QUIRE_OK;
}

static quire_status measure_files(bench_state *state, const quire_text_list *words,
                                  const quire_call_options *options, const char **where,
                                  quire_error *error) {
  quire_status status = check_files(words, error);
  if (status == QUIRE_OK && !state->results) {
    printf("quire %s, %s, %s, %zu threads\n\n%-32s %10s %10s .. %-10s %10s  %s\n", quire_version(),
           state->facts.model, state->facts.isa, state->facts.threads, "operator", "median us",
           "p10", "p90", "min", "case");
  }
  for (size_t i = 0; i < words->count && status == QUIRE_OK; ++i) {
    *where = words->items[i];
    status = measure_stored(state, words->items[i], options, error);
  }
  return status;
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

static void finish(bench_state *state) {
  if (state->is_gpu) {
    print_gpu_end(state);
  } else if (state->results) {
    print_json(state);
  } else {
    print_limits(&state->probe);
  }
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
                                           .threads = options->threads,
                                           .isa = options->isa};
  bench_state state = {
      .options = options,
      .budget = {.seconds = options->seconds ? strtod(options->seconds, NULL) : 0.5,
                 .patience = (double)options->patience}};
  if (!(state.budget.seconds > 0) || state.budget.seconds > 3600) {
    return quire_failure_set(error, QUIRE_BAD_REQUEST, "--seconds must be above 0, at most 3600");
  }
  quire_status status = load_cases(&state, take_file(words, options->cases), error);
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
    const int are_files = has_stored(words);
    status = are_files ? measure_files(&state, words, &call_options, where, error)
                       : measure_cases(&state, words, error);
    if (status == QUIRE_OK && !options->is_list && (!are_files || options->is_json)) {
      finish(&state);
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
