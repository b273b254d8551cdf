/* quire check: computes cases and compares the outputs with the expected ones. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "call.h"
#include "commands.h"
#include "compare.h"
#include "failure.h"

typedef struct check_options {
  int allow_unsupported;
} check_options;

static const quire_option check_table[] = {
    {.name = "--allow-unsupported",
     .kind = QUIRE_OPTION_FLAG,
     .offset = offsetof(check_options, allow_unsupported),
     .help = "a call that the device does not support, or cannot hold, is no mismatch"},
};

typedef enum verdict { PASSED, FAILED, UNSUPPORTED, UNREADABLE, VERDICTS } verdict;

typedef struct check_state {
  quire_session session;
  const quire_call_options *options;
  size_t counts[VERDICTS];
  size_t rounded, rounded_identical; /* 16-bit elements with a tolerance; those with equal bits */
} check_state;

static int is_cpu(const check_state *state) {
  return !state->options->device || !strcmp(state->options->device, "cpu");
}

static void print_line(const char *word, const char *path) {
  printf("%-11s ", word);
  quire_failure_put(path);
}

/* "output[3,17]": a row-major index as one per dimension. */
static void print_element(const char *name, const quire_tensor *form, size_t index) {
  int64_t place[QUIRE_MAX_RANK] = {0};
  size_t rest = index;
  for (int32_t d = form->ndim - 1; d >= 0; --d) {
    place[d] = (int64_t)(rest % (size_t)form->shape[d]);
    rest /= (size_t)form->shape[d];
  }
  printf("%s[", name);
  for (int32_t d = 0; d < form->ndim; ++d) {
    printf("%s%" PRId64, d ? "," : "", place[d]);
  }
  printf("]");
}

static int has_form(const quire_tensor *form, const quire_stored_tensor *want) {
  int is_same = form->dtype == want->dtype && form->ndim == want->ndim;
  for (int32_t d = 0; is_same && d < form->ndim; ++d) {
    is_same = form->shape[d] == want->shape[d];
  }
  return is_same;
}

static void print_form(quire_dtype dtype, int32_t ndim, const int64_t *shape) {
  printf("%s [", quire_safetensors_dtype_name(dtype));
  for (int32_t d = 0; d < ndim; ++d) {
    printf("%s%" PRId64, d ? ", " : "", shape[d]);
  }
  printf("]");
}

/* The output with the worst element of a case so far. */
typedef struct worst_output {
  const quire_call_output *output;
  quire_comparison comparison;
  int is_copy;
} worst_output;

static void compare_output(check_state *state, const quire_case *opened,
                           const quire_call_output *output, const quire_stored_tensor *want,
                           worst_output *worst) {
  quire_tolerance tolerance = quire_case_tolerance(opened, output->name);
  const int is_rounded = quire_dtype_size(want->dtype) == 2 && tolerance.relative > 0;
  if (!is_cpu(state)) {
    tolerance = quire_compare_widen(tolerance, want->dtype);
  }
  quire_comparison comparison;
  const size_t count = output->bytes / quire_dtype_size(want->dtype);
  quire_compare(want->dtype, count, output->data, want->data, &tolerance, &comparison);
  if (is_rounded) {
    state->rounded += count;
    state->rounded_identical += comparison.identical;
  }
  /* Of equals, one that was computed says more than a copy. */
  const int is_copy = tolerance.absolute == 0 && tolerance.relative == 0;
  const int is_worse = comparison.share > worst->comparison.share ||
                       (comparison.share == worst->comparison.share && worst->is_copy && !is_copy);
  if (!worst->output || (count > 0 && (worst->comparison.count == 0 || is_worse))) {
    const size_t wrong = worst->comparison.wrong;
    *worst = (worst_output){output, comparison, is_copy};
    worst->comparison.wrong += wrong;
  } else {
    worst->comparison.wrong += comparison.wrong;
  }
}

static void print_worst(const worst_output *worst) {
  const quire_comparison *comparison = &worst->comparison;
  if (!worst->output || comparison->count == 0) {
    printf("  no elements\n");
    return;
  }
  printf("  worst ");
  print_element(worst->output->name, &worst->output->form, comparison->worst);
  printf(" got %.9g want %.9g", comparison->got, comparison->want);
  if (comparison->wrong > 0) {
    printf(" (%zu element%s wrong%s)", comparison->wrong, comparison->wrong == 1 ? "" : "s",
           comparison->unwritten > 0 ? ", some never written" : "");
  } else {
    printf(" (%.2f of the tolerance)", comparison->share);
  }
  printf("\n");
}

static int is_selected(const quire_call_options *options, const char *name) {
  for (size_t i = 0; i < options->outputs.count; ++i) {
    if (!strcmp(options->outputs.items[i], name)) {
      return 1;
    }
  }
  return options->outputs.count == 0;
}

/* Prints the rest of the case's line. */
static verdict compare_all(check_state *state, const char *path, const quire_case *opened,
                           const quire_call *call) {
  worst_output worst = {0};
  for (size_t i = 0; i < opened->tensors.count; ++i) {
    const quire_stored_tensor *want = &opened->tensors.tensors[i];
    const char *name = NULL;
    if (!quire_case_is_expected(want, &name) || !is_selected(state->options, name)) {
      continue;
    }
    const quire_call_output *output = quire_call_find(call, name);
    if (!output || !has_form(&output->form, want)) {
      print_line("FAIL", path);
      printf("  %s: got ", name);
      print_form(output ? output->form.dtype : QUIRE_DTYPE_NONE, output ? output->form.ndim : 0,
                 output ? output->form.shape : NULL);
      printf(" want ");
      print_form(want->dtype, want->ndim, want->shape);
      printf("\n");
      return FAILED;
    }
    compare_output(state, opened, output, want, &worst);
  }
  print_line(worst.comparison.wrong ? "FAIL" : "ok", path);
  print_worst(&worst);
  return worst.comparison.wrong ? FAILED : PASSED;
}

static verdict judge(check_state *state, const char *path, const quire_case *opened,
                     const quire_call *call, quire_status status, const quire_error *error) {
  char text[QUIRE_MESSAGE_SIZE + 64] = "";
  if (status == QUIRE_OK) {
    if (!opened->error) {
      return compare_all(state, path, opened, call);
    }
    print_line("FAIL", path);
    printf("  not refused, want %s\n", opened->error);
    return FAILED;
  }
  quire_failure_text(error, text, sizeof text);
  const char *touched = quire_call_touched(call);
  if (touched && status != QUIRE_INTERNAL) {
    print_line("FAIL", path);
    printf("  refused (%s), but %s was written\n", text, touched);
    return FAILED;
  }
  if (opened->error && quire_case_wants_status(opened, status)) {
    print_line("ok", path);
    printf("  refused: %s\n", text);
    return PASSED;
  }
  const int is_unsupported =
      status == QUIRE_UNSUPPORTED || (status == QUIRE_LIMIT && !is_cpu(state));
  print_line(is_unsupported ? "unsupported" : "FAIL", path);
  printf("  %s%s%s\n", text, opened->error ? "; want " : "", opened->error ? opened->error : "");
  return is_unsupported ? UNSUPPORTED : FAILED;
}

static int expects_anything(const check_state *state, const quire_case *opened) {
  const char *name = NULL;
  for (size_t i = 0; i < opened->tensors.count; ++i) {
    if (quire_case_is_expected(&opened->tensors.tensors[i], &name) &&
        is_selected(state->options, name)) {
      return 1;
    }
  }
  return opened->error != NULL;
}

static verdict check_case(check_state *state, const char *path) {
  quire_case opened;
  quire_case_request built = {0};
  quire_call call = {0};
  const quire_operator *op = NULL;
  quire_error error = {0};
  verdict result = UNREADABLE;
  quire_status status = quire_case_open(path, &opened, &error);
  if (status == QUIRE_OK && !expects_anything(state, &opened)) {
    status = quire_failure_set(&error, QUIRE_IO, "nothing is expected, so nothing can be checked");
  }
  if (status == QUIRE_OK) {
    status = quire_session_operator(&state->session, state->options, &opened, &op, &error);
  }
  if (status == QUIRE_OK) {
    status = quire_request_build(&opened, state->options, op, 1, &built, &error);
  }
  const int is_built = status == QUIRE_OK;
  if (is_built) {
    status = quire_call_execute(&state->session, op, &opened, state->options, &built.request, &call,
                                &error);
  }
  /* Attributes that are no values: a refusal if the case wants one, else a fault of the file. */
  if (is_built || (opened.error && quire_status_is_invalid_argument(status))) {
    result = judge(state, path, &opened, &call, status, &error);
  } else {
    quire_failure_print(path, &error);
  }
  quire_call_release(&call);
  quire_request_release(&built);
  quire_case_release(&opened);
  return result;
}

static void check_path(check_state *state, const char *path) {
  quire_file_paths paths = {0};
  quire_error error;
  if (quire_file_list(path, ".safetensors", &paths, &error) != QUIRE_OK) {
    quire_failure_print(path, &error);
    state->counts[UNREADABLE] += 1;
  } else if (paths.count == 0) {
    quire_failure_set(&error, QUIRE_NOT_FOUND, "no .safetensors file in this folder");
    quire_failure_print(path, &error);
    state->counts[UNREADABLE] += 1;
  }
  for (size_t i = 0; i < paths.count; ++i) {
    state->counts[check_case(state, paths.items[i])] += 1;
  }
  quire_file_list_release(&paths);
}

static int summarise(const check_state *state, int allow_unsupported) {
  const size_t *counts = state->counts;
  const size_t total = counts[PASSED] + counts[FAILED] + counts[UNSUPPORTED] + counts[UNREADABLE];
  printf("%zu case%s: %zu passed, %zu failed, %zu unsupported, %zu unreadable\n", total,
         total == 1 ? "" : "s", counts[PASSED], counts[FAILED], counts[UNSUPPORTED],
         counts[UNREADABLE]);
  if (state->rounded > 0) {
    printf("%.2f %% of %zu rounded 16-bit elements have the expected bits\n",
           100.0 * (double)state->rounded_identical / (double)state->rounded, state->rounded);
  }
  const size_t wrong = counts[FAILED] + (allow_unsupported ? 0 : counts[UNSUPPORTED]);
  if (wrong > 0) {
    (void)fflush(stdout);
    (void)fprintf(stderr, "quire: %zu of %zu cases did not give the expected result\n", wrong,
                  total);
  }
  return counts[UNREADABLE] > 0 ? QUIRE_EXIT_FAILURE
         : wrong > 0            ? QUIRE_EXIT_MISMATCH
                                : QUIRE_EXIT_OK;
}

static int run(void *const *values, const quire_text_list *positional) {
  const check_options *options = values[0];
  check_state state = {.options = values[1]};
  quire_error error;
  int code = QUIRE_EXIT_FAILURE;
  if (quire_session_open(&state.session, &error) != QUIRE_OK ||
      quire_session_open_device(&state.session, state.options, &error) != QUIRE_OK) {
    quire_failure_print(NULL, &error);
  } else {
    for (size_t i = 0; i < positional->count; ++i) {
      check_path(&state, positional->items[i]);
    }
    code = summarise(&state, options->allow_unsupported);
  }
  quire_session_close(&state.session);
  return code;
}

const quire_command quire_command_check = {
    .name = "check",
    .summary = "Computes cases and compares the outputs with the expected ones.",
    .usage = "CASE.safetensors|FOLDER... [options]",
    .details =
        "Prints one line a case with its worst element, then a summary. Folders are searched for\n"
        "*.safetensors files, in the order of their names. A case with \"error\" must be refused "
        "with\n"
        "that status, and nothing may be written.\n"
        "\n"
        "exit status: 0 all passed; 1 a result is wrong (or unsupported, without\n"
        "--allow-unsupported); 2 a case is unreadable, or wrong usage\n",
    .groups = {{check_table, sizeof check_table / sizeof *check_table, sizeof(check_options)},
               {quire_call_option_table, QUIRE_CALL_OPTION_COUNT, sizeof(quire_call_options)}},
    .positional_minimum = 1,
    .positional_maximum = 100000,
    .positional_name = "CASE.safetensors",
    .run = run,
};
