/* quire bench serving: an engine's books, and attention over a shared prefix. */
#include <stdio.h>

#include "bench_machine.h"
#include "bench_measure.h"
#include "bench_probe.h"
#include "bench_serving.h"
#include "call.h"
#include "commands.h"
#include "failure.h"
#include "files.h"

enum { SAMPLES = 301, LEAST_SAMPLES = 5 };
#define FIGURE_NANOSECONDS 2000000000u

/* A line of the result: a value is good on one side of the limit. */
typedef struct bench_figure {
  const char *name, *unit;
  double limit; /* 0: none is set */
  int is_floor; /* 1: more is better */
} bench_figure;

typedef struct bench_samples {
  double values[SAMPLES];
  size_t count;
} bench_samples;

typedef struct bench_state {
  const bench_machine_options *options;
  quire_session session;
  bench_books *books;
  bench_prefix *prefix;
  bench_probe probe;
  int is_first; /* of the JSON list */
} bench_state;

/* Whether another sample is wanted. */
static int goes_on(const bench_samples *samples, uint64_t begin) {
  return samples->count < SAMPLES &&
         (samples->count < LEAST_SAMPLES || quire_clock_nanoseconds() - begin < FIGURE_NANOSECONDS);
}

static void print_figure(bench_state *state, const bench_figure *figure, bench_samples *samples) {
  bench_times times;
  quire_bench_summarise(samples->values, samples->count, &times);
  const int is_missed = figure->limit > 0 && (figure->is_floor ? times.median < figure->limit
                                                               : times.median > figure->limit);
  if (state->options->is_json) {
    printf(
        "%s\n  {\"name\": \"%s\", \"unit\": \"%s\", \"median\": %.6g, \"p10\": %.6g, "
        "\"p90\": %.6g, \"samples\": %zu",
        state->is_first ? "" : ",", figure->name, figure->unit, times.median, times.low, times.high,
        samples->count);
    if (figure->limit > 0) {
      printf(", \"%s\": %g", figure->is_floor ? "at_least" : "at_most", figure->limit);
    }
    printf("}");
  } else {
    printf("%-22s %10.1f %10.1f .. %-10.1f %-11s", figure->name, times.median, times.low,
           times.high, figure->unit);
    if (figure->limit > 0) {
      printf(" %s %g%s", figure->is_floor ? "at least" : "at most", figure->limit,
             is_missed ? ", missed" : "");
    }
    printf("\n");
    (void)fflush(stdout);
  }
  state->is_first = 0;
}

static quire_status measure_steps(bench_state *state, quire_error *error) {
  static const bench_figure build = {"append and build", "us", 50, 0};
  static const bench_figure commit = {"commit", "us", 0, 0};
  bench_samples builds = {.count = 0};
  bench_samples commits = {.count = 0};
  quire_status status = QUIRE_OK;
  const uint64_t begin = quire_clock_nanoseconds();
  while (status == QUIRE_OK && goes_on(&builds, begin)) {
    uint64_t build_time = 0;
    uint64_t commit_time = 0;
    status = quire_bench_books_step(state->books, &build_time, &commit_time, error);
    builds.values[builds.count++] = (double)build_time / 1000;
    commits.values[commits.count++] = (double)commit_time / 1000;
  }
  if (status == QUIRE_OK) {
    print_figure(state, &build, &builds);
    print_figure(state, &commit, &commits);
  }
  return status;
}

typedef quire_status bench_lookup(bench_books *books, uint64_t *nanoseconds, quire_error *error);

static quire_status measure_lookup(bench_state *state, bench_lookup *lookup,
                                   const bench_figure *figure, quire_error *error) {
  bench_samples samples = {.count = 0};
  quire_status status = QUIRE_OK;
  const uint64_t begin = quire_clock_nanoseconds();
  while (status == QUIRE_OK && goes_on(&samples, begin)) {
    uint64_t time = 1;
    status = lookup(state->books, &time, error);
    const double tokens = (double)BENCH_SERVING_PROMPTS * BENCH_SERVING_PROMPT;
    samples.values[samples.count++] = tokens / (double)time * 1000;
  }
  if (status == QUIRE_OK) {
    print_figure(state, figure, &samples);
  }
  return status;
}

static quire_status measure_books(bench_state *state, quire_error *error) {
  static const bench_figure lookup = {"prefix lookup", "M tokens/s", 20, 1};
  static const bench_figure create = {"create and free", "M tokens/s", 0, 0};
  static const bench_figure memory = {"memory of a block", "bytes", 48, 0};
  quire_status status = quire_bench_books_open(&state->books, error);
  if (status == QUIRE_OK) {
    status = measure_steps(state, error);
  }
  if (status == QUIRE_OK) {
    status = measure_lookup(state, quire_bench_books_lookup, &lookup, error);
  }
  if (status == QUIRE_OK) {
    status = measure_lookup(state, quire_bench_books_create, &create, error);
  }
  if (status == QUIRE_OK) {
    bench_samples samples = {.values = {quire_bench_books_block_bytes(state->books)}, .count = 1};
    print_figure(state, &memory, &samples);
  }
  quire_bench_books_close(state->books);
  return status;
}

/* What is measured of a shape: a name for each figure. */
typedef struct bench_prefix_case {
  bench_prefix_shape shape;
  bench_figure figures[4]; /* plain, shared, how many times as fast, the arithmetic at its peak */
} bench_prefix_case;

static const bench_prefix_case prefix_cases[] = {
    {{16, 16, QUIRE_FLOAT32},
     {{"16/16 f32, alone", "us", 0, 0},
      {"16/16 f32, shared", "us", 0, 0},
      {"times as fast", "", 8, 1},
      {"its arithmetic", "us", 0, 0}}},
    {{32, 8, QUIRE_FLOAT16},
     {{"32/8 f16, alone", "us", 0, 0},
      {"32/8 f16, shared", "us", 0, 0},
      {"times as fast", "", 0, 1},
      {"its arithmetic", "us", 0, 0}}},
};

/* Both in turn, so that a machine that slows down slows down both; the first of each plans. */
static quire_status measure_prefix(bench_state *state, const bench_prefix_case *item,
                                   quire_error *error) {
  bench_samples samples[3] = {{.count = 0}, {.count = 0}, {.count = 0}};
  quire_status status =
      quire_bench_prefix_open(state->session.device, &item->shape, &state->prefix, error);
  uint64_t times[2] = {0, 0};
  for (int i = 0; i < 2 && status == QUIRE_OK; ++i) {
    status = quire_bench_prefix_run(state->prefix, i, &times[i], error);
  }
  const uint64_t begin = quire_clock_nanoseconds();
  while (status == QUIRE_OK && goes_on(&samples[2], begin)) {
    for (int i = 0; i < 2 && status == QUIRE_OK; ++i) {
      status = quire_bench_prefix_run(state->prefix, i, &times[i], error);
      samples[i].values[samples[i].count++] = (double)times[i] / 1000;
    }
    samples[2].values[samples[2].count++] = (double)times[0] / (double)times[1];
  }
  for (int i = 0; i < 3 && status == QUIRE_OK; ++i) {
    print_figure(state, &item->figures[i], &samples[i]);
  }
  const double peak = quire_bench_probe_arithmetic(&state->probe);
  if (status == QUIRE_OK && peak > 0) {
    const double least = quire_bench_prefix_flops(&item->shape) / peak / 1000;
    bench_samples one = {.values = {least}, .count = 1};
    print_figure(state, &item->figures[3], &one);
  }
  quire_bench_prefix_close(state->prefix);
  return status;
}

static const char meanings[] =
    "append and build  one token for each of 256 sequences of 2048: blocks, then the arrays of\n"
    "                  PagedAttention. commit: the same, back\n"
    "prefix lookup     finding cached prompts of 4096 tokens, blocks of 16. create and free:\n"
    "                  beginning a sequence with each, and ending it\n"
    "memory of a block its records and its share of the prefix index, without token ids\n"
    "16/16, 32/8       decoding 32 rows with 8192 tokens in common and 48 of their own, so many\n"
    "                  heads of 128 and heads of keys and values. Alone: PagedAttention, which\n"
    "                  reads the same blocks for each row; shared: quire_shared_prefix_attention,\n"
    "                  which reads them once. its arithmetic: what both have to multiply and add,\n"
    "                  at the machine's peak in registers. With few heads of keys and values both\n"
    "                  compute more than they read\n";

static void print_head(const bench_state *state) {
  quire_device_facts facts;
  quire_device_get_facts(state->session.device, &facts);
  if (state->options->is_json) {
    printf("{\"version\": \"%s\", \"isa\": \"%s\", \"threads\": %zu, \"measurements\": [",
           quire_version(), facts.isa, facts.threads);
  } else {
    printf("quire %s, %s, %s, %zu threads; up to %d samples\n\n%-22s %10s %10s .. %-10s\n",
           quire_version(), facts.model, facts.isa, facts.threads, SAMPLES, "", "median", "p10",
           "p90");
  }
}

static quire_status bench(const bench_machine_options *options, quire_error *error) {
  const quire_call_options call_options = {.threads = options->threads, .isa = options->isa};
  bench_state state = {.options = options, .is_first = 1};
  quire_status status = quire_session_open(&state.session, error);
  if (status == QUIRE_OK) {
    status = quire_session_open_device(&state.session, &call_options, error);
  }
  if (status == QUIRE_OK) {
    quire_device_facts facts;
    quire_device_get_facts(state.session.device, &facts);
    quire_bench_probe_open(facts.isa, facts.threads, &state.probe);
    print_head(&state);
    status = measure_books(&state, error);
  }
  for (size_t i = 0; i < sizeof prefix_cases / sizeof *prefix_cases && status == QUIRE_OK; ++i) {
    status = measure_prefix(&state, &prefix_cases[i], error);
  }
  if (status == QUIRE_OK) {
    printf("%s%s", options->is_json ? "\n]}\n" : "\n", options->is_json ? "" : meanings);
  }
  quire_bench_probe_close(&state.probe);
  quire_session_close(&state.session);
  return status;
}

static int run(void *const *values, const quire_text_list *positional) {
  (void)positional;
  return quire_bench_machine_run(bench, values);
}

const quire_command quire_command_bench_serving = {
    .name = "bench serving",
    .summary = "Measures an engine's books, and attention over a shared prefix.",
    .usage = "[options]",
    .details = meanings,
    .groups = {BENCH_MACHINE_GROUP},
    .run = run,
};
