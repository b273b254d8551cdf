#include "tune_search.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_measure.h"
#include "failure.h"

#define BUSY_MICROSECONDS 250e3 /* before anything counts: clocks rise with work */
#define SAMPLE_MICROSECONDS 10e3
#define LEAST_GAIN 0.02

enum { LEAST_ROUNDS = 5, MOST_ROUNDS = 200, MOST_REPEAT = 1000, MOST_PROGRAMS = 128 };

typedef struct search_state {
  const tune_search *search;
  tune_result *result;
  tune_values best, tried;
  quire_call incumbent;
  char *programs[MOST_PROGRAMS]; /* tried so far */
  size_t program_count;
  size_t repeat; /* runs in one sample */
} search_state;

/* ---- time ---- */

/* Keeps the device busy, and finds how many runs fill a sample. */
static quire_status warm_up(search_state *state, quire_error *error) {
  double busy = 0;
  state->repeat = 1;
  while (busy < BUSY_MICROSECONDS && busy < state->search->seconds * 1e6) {
    double one = 0;
    const quire_status status = tune_candidate_time(&state->incumbent, state->repeat, &one, error);
    if (status != QUIRE_OK) {
      return status;
    }
    busy += one > 0 ? one * (double)state->repeat : 1;
    const double wanted = one > 0 ? SAMPLE_MICROSECONDS / one : MOST_REPEAT;
    state->repeat = wanted < 1 ? 1 : (wanted > MOST_REPEAT ? MOST_REPEAT : (size_t)wanted);
  }
  return QUIRE_OK;
}

/* Medians of two calls that are timed in turn. Since the last time the host compared results, and
   an idle device's clocks fall: it is kept busy again first. */
static quire_status duel(search_state *state, quire_call *first, quire_call *second,
                         double *first_time, double *second_time, quire_error *error) {
  double times[2][MOST_ROUNDS];
  size_t count = 0;
  const quire_status warm = warm_up(state, error);
  if (warm != QUIRE_OK) {
    return warm;
  }
  const uint64_t begin = quire_clock_nanoseconds();
  while (count < MOST_ROUNDS) {
    const double passed = (double)(quire_clock_nanoseconds() - begin) * 1e-9;
    if (count >= LEAST_ROUNDS && passed >= state->search->seconds) {
      break;
    }
    quire_status status = tune_candidate_time(first, state->repeat, &times[0][count], error);
    if (status == QUIRE_OK) {
      status = tune_candidate_time(second, state->repeat, &times[1][count], error);
    }
    if (status != QUIRE_OK) {
      return status;
    }
    ++count;
  }
  bench_times summary;
  quire_bench_summarise(times[0], count, &summary);
  *first_time = summary.median;
  quire_bench_summarise(times[1], count, &summary);
  *second_time = summary.median;
  return QUIRE_OK;
}

/* ---- programs ---- */

/* Takes the text; 1 if it was not among the programs. */
static int add_program(search_state *state, char *text) {
  for (size_t i = 0; i < state->program_count; ++i) {
    if (!strcmp(state->programs[i], text)) {
      free(text);
      return 0;
    }
  }
  if (state->program_count == MOST_PROGRAMS) {
    free(text);
    return 0;
  }
  state->programs[state->program_count++] = text;
  return 1;
}

/* ---- one choice ---- */

static void report(search_state *state, const tune_trial *trial) {
  state->search->report(state->search->user, trial);
}

/* Lack of memory and loss of the device end the search; the rest is about the one choice. */
static int ends_search(quire_status status) {
  return status == QUIRE_OUT_OF_MEMORY || status == QUIRE_DEVICE;
}

static quire_status dismiss(search_state *state, tune_trial *trial, const quire_error *error) {
  char text[QUIRE_MESSAGE_SIZE + 64] = "";
  const int is_wrong = error->status == QUIRE_INTERNAL;
  quire_failure_text(error, text, sizeof text);
  trial->reason = text;
  state->result->wrong += is_wrong ? 1 : 0;
  state->result->refused += is_wrong ? 0 : 1;
  report(state, trial);
  trial->reason = NULL;
  return QUIRE_OK;
}

/* Checks and times what `tried` holds; the better call becomes the incumbent. */
static quire_status try_values(search_state *state, tune_trial *trial, quire_error *error) {
  quire_call call = {0};
  quire_status status = tune_candidate_make(state->search->problem, &state->tried, &call, error);
  if (status == QUIRE_OK &&
      strcmp(quire_plan_variant(call.plan), quire_plan_variant(state->incumbent.plan)) != 0) {
    status = quire_failure_set(error, QUIRE_UNSUPPORTED, "selects another variant, %s",
                               quire_plan_variant(call.plan));
  }
  if (status != QUIRE_OK) {
    quire_call_release(&call);
    return ends_search(status) ? status : dismiss(state, trial, error);
  }
  status = duel(state, &state->incumbent, &call, &trial->incumbent, &trial->time, error);
  if (status == QUIRE_OK) {
    trial->is_better = trial->time < trial->incumbent * (1 - LEAST_GAIN);
    state->result->timed += 1;
    report(state, trial);
  }
  if (status == QUIRE_OK && trial->is_better) {
    const quire_call worse = state->incumbent;
    state->incumbent = call;
    call = worse;
    tune_values_copy(&state->best, &state->tried);
  }
  quire_call_release(&call);
  return status;
}

static quire_status try_choice(search_state *state, size_t index, size_t choice,
                               quire_error *error) {
  const tune_problem *problem = state->search->problem;
  quire_named_value value;
  char *program = NULL;
  tune_values_copy(&state->tried, &state->best);
  if (quire_operator_tunable_choice(problem->op, index, choice, &value) != QUIRE_OK) {
    return QUIRE_OK;
  }
  state->tried.items[index] = value;
  tune_trial trial = {.value = &value};
  const quire_status status = tune_candidate_describe(problem, &state->tried, &program, error);
  if (status != QUIRE_OK) {
    return ends_search(status) ? status : dismiss(state, &trial, error);
  }
  return add_program(state, program) ? try_values(state, &trial, error) : QUIRE_OK;
}

/* ---- the whole ---- */

static void gather_key(void *user, const char *text, size_t length) {
  json_t **key = user;
  *key = json_loadb(text, length, 0, NULL);
}

/* The defaults: they must be right. */
static quire_status begin(search_state *state, quire_error *error) {
  const tune_problem *problem = state->search->problem;
  char *program = NULL;
  quire_status status = tune_values_make(problem->op, &state->best, error);
  if (status == QUIRE_OK) {
    status = tune_values_make(problem->op, &state->tried, error);
  }
  if (status == QUIRE_OK) {
    status = tune_candidate_describe(problem, &state->best, &program, error);
  }
  if (status == QUIRE_OK) {
    (void)add_program(state, program);
    status = tune_candidate_make(problem, &state->best, &state->incumbent, error);
  }
  if (status == QUIRE_OK) {
    status = quire_plan_tuning_key(state->incumbent.plan, gather_key, &state->result->key, error);
  }
  if (status == QUIRE_OK && !state->result->key) {
    status = quire_failure_set(error, QUIRE_OUT_OF_MEMORY, "no memory for a key");
  }
  return status;
}

/* The best in turn with the defaults: many small gains may have been chance. */
static quire_status conclude(search_state *state, quire_error *error) {
  tune_result *result = state->result;
  quire_call defaults = {0};
  memset(state->tried.items, 0, state->tried.count * sizeof *state->tried.items);
  quire_status status =
      tune_candidate_make(state->search->problem, &state->tried, &defaults, error);
  if (status == QUIRE_OK) {
    status = duel(state, &defaults, &state->incumbent, &result->default_time, &result->time, error);
  }
  quire_call_release(&defaults);
  if (status == QUIRE_OK) {
    const int is_better = result->time < result->default_time * (1 - LEAST_GAIN);
    tune_values_copy(&result->values, is_better ? &state->best : &state->tried);
    result->time = is_better ? result->time : result->default_time;
  }
  return status;
}

static quire_status search_all(search_state *state, quire_error *error) {
  const quire_operator *op = state->search->problem->op;
  quire_status status = begin(state, error);
  for (size_t i = 0; i < quire_operator_tunable_count(op) && status == QUIRE_OK; ++i) {
    quire_named_value tunable;
    size_t choices = 0;
    (void)quire_operator_tunable(op, i, &tunable, &choices);
    for (size_t k = 0; k < choices && status == QUIRE_OK; ++k) {
      status = try_choice(state, i, k, error);
    }
  }
  return status == QUIRE_OK ? conclude(state, error) : status;
}

quire_status tune_search_run(const tune_search *search, tune_result *result, quire_error *error) {
  search_state state = {.search = search, .result = result};
  *result = (tune_result){0};
  quire_status status = tune_values_make(search->problem->op, &result->values, error);
  if (status == QUIRE_OK) {
    status = search_all(&state, error);
  }
  quire_call_release(&state.incumbent);
  for (size_t i = 0; i < state.program_count; ++i) {
    free(state.programs[i]);
  }
  tune_values_release(&state.best);
  tune_values_release(&state.tried);
  return status;
}

void tune_result_release(tune_result *result) {
  tune_values_release(&result->values);
  json_decref(result->key);
  *result = (tune_result){0};
}
