/* quire tune: searches a manifest's tunables on a device. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "failure.h"
#include "tune_file.h"
#include "tune_search.h"

typedef struct tune_options {
  quire_text_list cases;
  const char *target, *seconds;
} tune_options;

static const quire_option tune_table[] = {
    {.name = "--case",
     .kind = QUIRE_OPTION_LIST,
     .offset = offsetof(tune_options, cases),
     .value_name = "FILE",
     .help = "the call of this case file; may be repeated"},
    {.name = "--out",
     .letter = "-o",
     .kind = QUIRE_OPTION_TEXT,
     .offset = offsetof(tune_options, target),
     .value_name = "FILE",
     .help = "tuning file to put the winners into; what it holds for other calls stays"},
    {.name = "--seconds",
     .kind = QUIRE_OPTION_TEXT,
     .offset = offsetof(tune_options, seconds),
     .value_name = "S",
     .help = "time for each choice (default: 0.5)"},
};

typedef struct tune_state {
  quire_session session;
  quire_device *cpu;
  const tune_options *options;
  const quire_call_options *call_options;
  const char *operator_name; /* NULL: the case's */
  double seconds;
  json_t *file; /* NULL: nothing is stored */
} tune_state;

/* ---- printing ---- */

static void print_value(const quire_named_value *value) {
  switch (value->type) {
    case QUIRE_VALUE_TYPE_INT:
      printf("%lld", (long long)value->i);
      break;
    case QUIRE_VALUE_TYPE_FLOAT:
      printf("%g", value->f);
      break;
    case QUIRE_VALUE_TYPE_BOOL:
      printf("%s", value->i ? "true" : "false");
      break;
    case QUIRE_VALUE_TYPE_STRING:
      printf("%s", value->s);
      break;
    case QUIRE_VALUE_TYPE_NONE:
      break;
  }
}

static void print_trial(void *user, const tune_trial *trial) {
  (void)user;
  printf("  %s = ", trial->value->name);
  print_value(trial->value);
  if (trial->reason) {
    printf(": %s\n", trial->reason);
  } else {
    printf(": %.2f us, the best so far %.2f us%s\n", trial->time, trial->incumbent,
           trial->is_better ? ": better" : "");
  }
  (void)fflush(stdout);
}

static void print_result(const tune_result *result) {
  int is_any = 0;
  printf("  %zu choices timed, %zu refused, %zu wrong; best:", result->timed, result->refused,
         result->wrong);
  for (size_t i = 0; i < result->values.count; ++i) {
    const quire_named_value *value = &result->values.items[i];
    if (value->type != QUIRE_VALUE_TYPE_NONE) {
      printf("%s %s = ", is_any ? "," : "", value->name);
      print_value(value);
      is_any = 1;
    }
  }
  if (is_any) {
    printf(", %.2f us instead of %.2f us\n", result->time, result->default_time);
  } else {
    printf(" the defaults, %.2f us\n", result->default_time);
  }
  (void)fflush(stdout);
}

/* ---- one case ---- */

static quire_status search(tune_state *state, tune_problem *problem, tune_result *result,
                           quire_error *error) {
  const tune_search search = {
      .problem = problem, .seconds = state->seconds, .report = print_trial, .user = NULL};
  quire_status status = tune_problem_refer(problem, state->cpu, error);
  if (status == QUIRE_OK) {
    status = tune_search_run(&search, result, error);
  }
  quire_call_release(&problem->reference);
  return status;
}

static quire_status store(tune_state *state, const tune_result *result, const char **where,
                          quire_error *error) {
  if (!state->file) {
    return QUIRE_OK;
  }
  *where = state->options->target;
  const quire_status status = tune_file_put(state->file, result, error);
  return status == QUIRE_OK ? tune_file_write(*where, state->file, error) : status;
}

static quire_status tune_case(tune_state *state, const char *path, const char **where,
                              quire_error *error) {
  quire_case opened;
  quire_case_request built = {0};
  quire_call_options options = *state->call_options;
  tune_result result = {0};
  const quire_operator *op = NULL;
  *where = path;
  quire_status status = quire_case_open(path, &opened, error);
  options.op = state->operator_name ? state->operator_name : options.op;
  if (status == QUIRE_OK) {
    status = quire_session_operator(&state->session, &options, &opened, &op, error);
  }
  if (status == QUIRE_OK) {
    status = quire_request_build(&opened, &options, op, 0, &built, error);
  }
  if (status == QUIRE_OK) {
    tune_problem problem = {.session = &state->session,
                            .op = op,
                            .opened = &opened,
                            .options = &options,
                            .request = &built.request};
    printf("%s: %s\n", path, quire_operator_name(op));
    status = search(state, &problem, &result, error);
  }
  if (status == QUIRE_OK) {
    print_result(&result);
    status = store(state, &result, where, error);
  }
  tune_result_release(&result);
  quire_request_release(&built);
  quire_case_release(&opened);
  return status;
}

/* ---- the whole ---- */

static quire_status check_usage(tune_state *state, const quire_text_list *positional,
                                quire_error *error) {
  const quire_call_options *options = state->call_options;
  state->operator_name = positional->count > 0 ? positional->items[0] : NULL;
  if (state->options->cases.count == 0) {
    return quire_failure_set(error, QUIRE_BAD_REQUEST, "tune needs --case FILE");
  }
  if (state->operator_name && options->op) {
    return quire_failure_set(error, QUIRE_BAD_REQUEST, "the operator is given twice");
  }
  if (options->tuning) {
    return quire_failure_set(error, QUIRE_BAD_REQUEST,
                             "tune begins with the defaults: --tuning is for other commands, "
                             "-o FILE receives the values");
  }
  const quire_status status =
      quire_arguments_seconds(state->options->seconds, &state->seconds, error);
  if (status != QUIRE_OK) {
    return status;
  }
  return options->device && strcmp(options->device, "webgpu") != 0
             ? quire_failure_set(error, QUIRE_BAD_REQUEST,
                                 "tune is for --device webgpu: the tunables are those of shaders")
             : QUIRE_OK;
}

/* An absent file is made; what is there must be sound, which the device that loads it says. */
static quire_status open_target(tune_state *state, quire_error *error) {
  quire_file_bytes bytes = {0};
  quire_device_options options;
  quire_device_options_init(&options);
  options.threads = (size_t)state->call_options->threads;
  quire_status status = QUIRE_OK;
  if (state->options->target) {
    status = quire_file_read(state->options->target, QUIRE_LONGEST_TUNING, &bytes, error);
    status = status == QUIRE_NOT_FOUND ? QUIRE_OK : status;
  }
  if (status == QUIRE_OK) {
    options.tuning = (const char *)bytes.data;
    options.tuning_length = bytes.size;
    status = quire_device_open(state->session.context, "cpu", &options, &state->cpu, error);
  }
  if (status == QUIRE_OK && state->options->target) {
    status = tune_file_open(&bytes, &state->file, error);
  }
  quire_file_release(&bytes);
  return status;
}

static quire_status tune(tune_state *state, const char **where, quire_error *error) {
  quire_call_options options = *state->call_options;
  options.device = "webgpu";
  quire_status status = quire_session_open(&state->session, error);
  if (status == QUIRE_OK) {
    *where = state->options->target;
    status = open_target(state, error);
  }
  if (status == QUIRE_OK) {
    *where = NULL;
    status = quire_session_open_device(&state->session, &options, error);
  }
  for (size_t i = 0; i < state->options->cases.count && status == QUIRE_OK; ++i) {
    status = tune_case(state, state->options->cases.items[i], where, error);
  }
  return status;
}

static int run(void *const *values, const quire_text_list *positional) {
  tune_state state = {.options = values[0], .call_options = values[1]};
  const char *where = NULL;
  quire_error error;
  if (check_usage(&state, positional, &error) != QUIRE_OK) {
    return quire_failure_usage(&error);
  }
  const quire_status status = tune(&state, &where, &error);
  if (status != QUIRE_OK) {
    (void)fflush(stdout);
    quire_failure_print(where, &error);
  }
  json_decref(state.file);
  quire_device_release(state.cpu);
  quire_session_close(&state.session);
  return status == QUIRE_OK         ? QUIRE_EXIT_OK
         : status == QUIRE_INTERNAL ? QUIRE_EXIT_MISMATCH
                                    : QUIRE_EXIT_FAILURE;
}

const quire_command quire_command_tune = {
    .name = "tune",
    .summary = "Looks for the constants of a kernel with which a call is fastest on a device.",
    .usage = "[OPERATOR] --case CASE.safetensors... [-o TUNING.json] [options]",
    .details =
        "Tries the choices of the manifest's tunables, one after the other, on --device webgpu.\n"
        "Every candidate's outputs are compared with the CPU's before it is timed, in turn with "
        "the\n"
        "best so far. -o keeps the winner for calls of the same class; other commands take such a\n"
        "file with --tuning. Without -o the result is only printed.\n"
        "\n"
        "exit status: 0 done; 1 the defaults give a wrong result; 2 refused, unreadable or used\n"
        "wrongly\n",
    .groups = {{tune_table, sizeof tune_table / sizeof *tune_table, sizeof(tune_options)},
               {quire_call_option_table, QUIRE_CALL_OPTION_COUNT, sizeof(quire_call_options)}},
    .positional_minimum = 0,
    .positional_maximum = 1,
    .positional_name = "OPERATOR",
    .run = run,
};
