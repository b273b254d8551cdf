/* Rows of `quire bench` for the CPU, beside the limits that the tool measures itself. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_program.h"
#include "bench_run.h"
#include "failure.h"

enum { MOST_SETS = 1024 };

static const char *const traffic_names[] = {"read", "update", "copy"};

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
      const double rate = quire_bench_probe_bandwidth(&state->probe, layers->traffic, working);
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

void quire_bench_cpu_head(const bench_state *state) {
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

quire_status quire_bench_cpu_rows(bench_state *state, const bench_case *item, const char *dtype,
                                  quire_error *error) {
  const char *mode = state->options->mode ? state->options->mode : "both";
  const size_t cold = cold_sets(state, item, dtype);
  bench_figure figure = {.item = item, .dtype = dtype, .sets = (size_t)item->states};
  quire_status status = QUIRE_OK;
  if (strcmp(mode, "cold") != 0 || cold == 0) {
    status = measure(state, &figure, error);
  }
  if (status == QUIRE_OK && cold > 0 && strcmp(mode, "warm") != 0) {
    figure.is_cold = 1;
    figure.sets = cold;
    status = measure(state, &figure, error);
  }
  return status;
}

static json_t *limits_json(const bench_probe *probe) {
  json_t *list = json_array();
  for (size_t i = 0; i < probe->known_count; ++i) {
    json_t *one =
        json_pack("{s:s, s:I, s:f}", "traffic", traffic_names[probe->known[i].traffic], "bytes",
                  (json_int_t)probe->known[i].bytes, "gigabytes", probe->known[i].gigabytes);
    if (json_array_append_new(list, one) != 0) {
      json_decref(list);
      return NULL;
    }
  }
  return json_pack("{s:s, s:f, s:o}", "isa", probe->kernels->isa, "gigaflops", probe->gigaflops,
                   "bandwidth", list);
}

quire_status quire_bench_print_json(json_t *report, quire_error *error) {
  char *text = report ? json_dumps(report, JSON_INDENT(1) | JSON_REAL_PRECISION(6)) : NULL;
  json_decref(report);
  if (!text) {
    return quire_failure_set(error, QUIRE_OUT_OF_MEMORY, "no memory for the results");
  }
  printf("%s\n", text);
  free(text);
  return QUIRE_OK;
}

static json_t *report_json(const bench_state *state) {
  return json_pack("{s:s, s:s, s:s, s:I, s:s, s:o, s:O}", "version", quire_version(), "model",
                   state->facts.model, "isa", state->facts.isa, "threads",
                   (json_int_t)state->facts.threads, "pages", quire_bench_memory_pages(), "limits",
                   limits_json(&state->probe), "measurements", state->results);
}

static void print_limits(const bench_probe *probe) {
  printf("\nlimits by the tool's own probes (best of 0.1 s, %s loops): %.0f GFLOP/s",
         probe->kernels->isa, probe->gigaflops);
  for (size_t i = 0; i < probe->known_count; ++i) {
    printf(", %s %zu MiB %.1f GB/s", traffic_names[probe->known[i].traffic],
           probe->known[i].bytes >> 20, probe->known[i].gigabytes);
  }
  printf("\n");
}

quire_status quire_bench_cpu_end(bench_state *state, quire_error *error) {
  if (state->results) {
    return quire_bench_print_json(report_json(state), error);
  }
  print_limits(&state->probe);
  return QUIRE_OK;
}
