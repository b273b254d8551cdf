/* quire bench plan: what planning and the machinery of a run cost, without the arithmetic. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench_machine.h"
#include "bench_measure.h"
#include "bench_problem.h"
#include "call.h"
#include "commands.h"
#include "failure.h"
#include "files.h"

/* A line takes 101 samples, or as many as fit in two seconds on a machine that is busy otherwise.
 */
enum { SAMPLES = 101, LEAST_SAMPLES = 5, SAMPLE_NANOSECONDS = 200000, MOST_REPEATS = 1 << 20 };
#define LINE_NANOSECONDS 2000000000u

/* A problem with what is needed to run it. */
typedef struct bench_state {
  quire_session session;
  const bench_machine_options *options;
  bench_problem *problem;
  quire_plan *plan;
  quire_workspace *workspace;
  quire_run_options prepared, unprepared;
  int is_first; /* of the JSON list */
} bench_state;

/* One repetition of what is measured. */
typedef quire_status bench_step(bench_state *state, quire_error *error);

static quire_status step_create(bench_state *state, quire_error *error) {
  quire_plan *plan = NULL;
  const quire_status status = quire_plan_create(state->session.device, state->problem->op,
                                                &state->problem->request, &plan, error);
  quire_plan_release(plan);
  return status;
}

static quire_status step_typed_call(bench_state *state, quire_error *error) {
  return state->problem->call(state->session.device, state->problem, error);
}

static quire_status step_whole_run(bench_state *state, quire_error *error) {
  return quire_plan_run(state->plan, state->problem->tensors, state->problem->tensor_count,
                        state->workspace, &state->unprepared, error);
}

static quire_status step_prepare(bench_state *state, quire_error *error) {
  return quire_plan_prepare(state->plan, state->problem->tensors, state->problem->tensor_count,
                            state->workspace, &state->unprepared, error);
}

static quire_status step_prepared_run(bench_state *state, quire_error *error) {
  return quire_plan_run(state->plan, state->problem->tensors, state->problem->tensor_count,
                        state->workspace, &state->prepared, error);
}

static quire_status repeat(bench_state *state, bench_step *step, size_t count,
                           uint64_t *nanoseconds, quire_error *error) {
  const uint64_t begin = quire_clock_nanoseconds();
  for (size_t i = 0; i < count; ++i) {
    const quire_status status = step(state, error);
    if (status != QUIRE_OK) {
      return status;
    }
  }
  *nanoseconds = quire_clock_nanoseconds() - begin;
  return QUIRE_OK;
}

/* As many repetitions as fill a sample: the clock's own cost disappears in it. Warms up as well. */
static quire_status find_repeats(bench_state *state, bench_step *step, size_t *count,
                                 quire_error *error) {
  uint64_t nanoseconds = 0;
  quire_status status = QUIRE_OK;
  for (*count = 1; *count < MOST_REPEATS && nanoseconds < SAMPLE_NANOSECONDS; *count *= 2) {
    status = repeat(state, step, *count, &nanoseconds, error);
    if (status != QUIRE_OK) {
      return status;
    }
  }
  return status;
}

/* A line of the result. */
typedef struct bench_line {
  const char *name;
  double limit; /* in nanoseconds; 0: none is set */
  double divisor;
} bench_line;

static void print_line(bench_state *state, const bench_line *line, double *samples, size_t taken) {
  bench_times times;
  quire_bench_summarise(samples, taken, &times);
  const char *op = quire_operator_name(state->problem->op);
  if (state->options->is_json) {
    printf(
        "%s\n  {\"operator\": \"%s\", \"name\": \"%s\", \"median_ns\": %.1f, \"p10_ns\": %.1f, "
        "\"p90_ns\": %.1f, \"samples\": %zu",
        state->is_first ? "" : ",", op, line->name, times.median, times.low, times.high, taken);
    if (line->limit > 0) {
      printf(", \"limit_ns\": %.0f", line->limit);
    }
    printf("}");
  } else {
    printf("%-30s %-13s %10.0f %10.0f .. %-10.0f", op, line->name, times.median, times.low,
           times.high);
    if (line->limit > 0) {
      printf(" %6.0f%s", line->limit, times.median > line->limit ? " exceeded" : "");
    }
    printf("\n");
  }
  state->is_first = 0;
}

/*
 * Measures step, or step minus base: then the samples of both alternate, so that a machine that
 * slows down slows down both.
 */
static quire_status measure(bench_state *state, bench_step *step, bench_step *base,
                            const bench_line *line, quire_error *error) {
  double samples[SAMPLES];
  size_t count = 0;
  quire_status status = find_repeats(state, step, &count, error);
  size_t taken = 0;
  const uint64_t begin = quire_clock_nanoseconds();
  while (status == QUIRE_OK && taken < SAMPLES &&
         (taken < LEAST_SAMPLES || quire_clock_nanoseconds() - begin < LINE_NANOSECONDS)) {
    uint64_t whole = 0;
    uint64_t part = 0;
    status = repeat(state, step, count, &whole, error);
    if (status == QUIRE_OK && base) {
      status = repeat(state, base, count, &part, error);
    }
    samples[taken++] = ((double)whole - (double)part) / ((double)count * line->divisor);
  }
  if (status == QUIRE_OK) {
    print_line(state, line, samples, taken);
  }
  return status;
}

static const bench_line line_create = {"plan create", 30000, 1};
static const bench_line line_hit = {"cache hit", 1000, 1};
static const bench_line line_prepare = {"prepare", 0, 1};
static const bench_line line_inline = {"pass, inline", 2000, 1};
static const bench_line line_pool = {"pass, pool", 2000, 1};

/* Passes that have work to do; *is_pooled is set if one has more than one item. */
static size_t count_passes(const bench_state *state, int *is_pooled) {
  size_t count = 0;
  *is_pooled = 0;
  for (size_t i = 0; i < quire_plan_passes(state->plan); ++i) {
    const size_t items = quire_plan_items(state->plan, state->workspace, i);
    count += items > 0 ? 1 : 0;
    *is_pooled |= items > 1;
  }
  return count;
}

static quire_status measure_run(bench_state *state, bench_line line, quire_error *error) {
  int is_pooled = 0;
  const size_t passes = count_passes(state, &is_pooled);
  line.divisor = passes ? (double)passes : 1;
  return measure(state, step_prepared_run, NULL, &line, error);
}

static quire_status open_problem(bench_state *state, size_t index, int64_t rows,
                                 quire_error *error) {
  quire_status status =
      quire_bench_problem_make(state->session.context, index, rows, state->problem, error);
  if (status == QUIRE_OK) {
    status = quire_plan_create(state->session.device, state->problem->op, &state->problem->request,
                               &state->plan, error);
  }
  if (status == QUIRE_OK) {
    status = quire_workspace_create(state->session.device, NULL, &state->workspace, error);
  }
  return status;
}

static void close_problem(bench_state *state) {
  quire_workspace_release(state->workspace);
  quire_plan_release(state->plan);
  state->workspace = NULL;
  state->plan = NULL;
}

/* The fewest rows that make several items: the least arithmetic that the pool is used for. */
static quire_status measure_pool(bench_state *state, size_t index, quire_error *error) {
  quire_status status = QUIRE_OK;
  int is_pooled = 0;
  for (int64_t rows = 2; rows <= BENCH_MOST_ROWS && !is_pooled && status == QUIRE_OK; rows *= 2) {
    status = open_problem(state, index, rows, error);
    if (status == QUIRE_OK) {
      status = step_prepare(state, error);
    }
    if (status == QUIRE_OK && count_passes(state, &is_pooled) > 0 && is_pooled) {
      status = measure_run(state, line_pool, error);
    }
    close_problem(state);
  }
  return status;
}

static quire_status measure_operator(bench_state *state, size_t index, quire_error *error) {
  quire_status status = open_problem(state, index, 1, error);
  if (status == QUIRE_OK) {
    status = measure(state, step_create, NULL, &line_create, error);
  }
  if (status == QUIRE_OK) {
    status = measure(state, step_typed_call, step_whole_run, &line_hit, error);
  }
  if (status == QUIRE_OK) {
    status = measure(state, step_prepare, NULL, &line_prepare, error);
  }
  if (status == QUIRE_OK) {
    status = measure_run(state, line_inline, error);
  }
  close_problem(state);
  return status == QUIRE_OK ? measure_pool(state, index, error) : status;
}

static quire_status print_head(const bench_state *state, quire_error *error) {
  quire_device_facts facts;
  quire_device_get_facts(state->session.device, &facts);
  if (state->options->is_json) {
    json_t *model = json_string(facts.model); /* a stranger's text: it may need escapes */
    char *quoted = json_dumps(model, JSON_ENCODE_ANY);
    json_decref(model);
    if (!quoted) {
      return quire_failure_set(error, QUIRE_OUT_OF_MEMORY, "no memory for the results");
    }
    printf(
        "{\"version\": \"%s\", \"model\": %s, \"isa\": \"%s\", \"threads\": %zu, "
        "\"measurements\": [",
        quire_version(), quoted, facts.isa, facts.threads);
    free(quoted);
  } else {
    printf(
        "quire %s, %s, %s, %zu threads; up to %d samples\n\n%-30s %-13s %10s %10s .. %-10s %6s\n",
        quire_version(), facts.model, facts.isa, facts.threads, SAMPLES, "operator", "ns", "median",
        "p10", "p90", "limit");
  }
  return QUIRE_OK;
}

static const char meanings[] =
    "plan create   quire_plan_create and release of a call with one row of one head of size 4\n"
    "cache hit     the typed call minus quire_plan_run of the same plan, which prepares as well:\n"
    "              making the key, finding the plan, borrowing a workspace\n"
    "prepare       quire_plan_prepare: checks of tensors and values, and the work list\n"
    "pass, inline  a prepared quire_plan_run with one item a pass, divided by its passes. The\n"
    "              arithmetic of the one row is in it: the machinery costs less than that\n"
    "pass, pool    the same with the fewest rows that give a pass several items for the hot pool,\n"
    "              their arithmetic included\n";

static quire_status bench(const bench_machine_options *options, quire_error *error) {
  const quire_call_options call_options = {.threads = options->threads, .isa = options->isa};
  bench_state state = {.options = options, .is_first = 1};
  quire_run_options_init(&state.prepared);
  quire_run_options_init(&state.unprepared);
  state.prepared.flags = QUIRE_RUN_PREPARED | QUIRE_RUN_STRICT;
  state.unprepared.flags = QUIRE_RUN_STRICT;
  state.problem = malloc(sizeof *state.problem);
  quire_status status =
      state.problem ? quire_session_open(&state.session, error)
                    : quire_failure_set(error, QUIRE_OUT_OF_MEMORY, "no memory for the problem");
  if (status == QUIRE_OK) {
    status = quire_session_open_device(&state.session, &call_options, error);
  }
  if (status == QUIRE_OK) {
    status = print_head(&state, error);
  }
  for (size_t i = 0; i < BENCH_OPERATORS && status == QUIRE_OK; ++i) {
    status = measure_operator(&state, i, error);
  }
  if (status == QUIRE_OK && options->is_json) {
    printf("\n]}\n");
  } else if (status == QUIRE_OK) {
    printf("\n%s", meanings);
  }
  quire_session_close(&state.session);
  free(state.problem);
  return status;
}

static int run(void *const *values, const quire_text_list *positional) {
  (void)positional;
  return quire_bench_machine_run(bench, values);
}

const quire_command quire_command_bench_plan = {
    .name = "bench plan",
    .summary = "Measures what planning and the machinery of a run cost, without the arithmetic.",
    .usage = "[options]",
    .details = meanings,
    .groups = {BENCH_MACHINE_GROUP},
    .run = run,
};
