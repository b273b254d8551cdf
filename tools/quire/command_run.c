/* quire run: computes the outputs of one case. */
#include <stdlib.h>
#include <string.h>

#include "call.h"
#include "commands.h"
#include "failure.h"

typedef struct run_options {
  const char *target;
} run_options;

static const quire_option run_table[] = {
    {.name = "--out",
     .letter = "-o",
     .kind = QUIRE_OPTION_TEXT,
     .offset = offsetof(run_options, target),
     .value_name = "FILE",
     .help = "write the outputs to this safetensors file"},
};

/* 1 if an output is to be written: those that were named, else all that were computed. */
static int is_wanted(const quire_case *opened, const quire_call_options *options,
                     const char *name) {
  for (size_t i = 0; i < options->outputs.count; ++i) {
    if (!strcmp(options->outputs.items[i], name)) {
      return 1;
    }
  }
  for (size_t i = 0; options->outputs.count == 0 && i < json_array_size(opened->outputs); ++i) {
    if (!strcmp(json_string_value(json_array_get(opened->outputs, i)), name)) {
      return 1;
    }
  }
  return options->outputs.count == 0 && !opened->outputs;
}

static quire_status write_outputs(const char *path, const quire_operator *op,
                                  const quire_case_request *built, const quire_call *call,
                                  const quire_case *opened, const quire_call_options *options,
                                  quire_error *error) {
  quire_stored_tensor *stored = calloc(call->output_count + 1, sizeof *stored);
  char *attributes = json_dumps(built->attributes, JSON_COMPACT);
  json_t *metadata =
      attributes ? json_pack("{s:s, s:s}", "op", quire_operator_name(op), "attributes", attributes)
                 : NULL;
  quire_status status = QUIRE_OUT_OF_MEMORY;
  if (stored && metadata) {
    size_t count = 0;
    for (size_t i = 0; i < call->output_count; ++i) {
      const quire_call_output *output = &call->outputs[i];
      if (is_wanted(opened, options, output->name)) {
        quire_stored_tensor *tensor = &stored[count++];
        *tensor = (quire_stored_tensor){.name = output->name,
                                        .dtype = output->form.dtype,
                                        .ndim = output->form.ndim,
                                        .bytes = output->bytes,
                                        .data = output->data};
        for (int32_t d = 0; d < output->form.ndim; ++d) {
          tensor->shape[d] = output->form.shape[d];
        }
      }
    }
    status = quire_safetensors_write(path, metadata, stored, count, error);
  } else {
    quire_failure_set(error, status, "no memory for the outputs");
  }
  json_decref(metadata);
  free(attributes);
  free(stored);
  return status;
}

/* Says where the failure is: the case, unless it is the file to be written. */
static quire_status run_case(const char *path, const quire_call_options *options,
                             const char *target, const char **where, quire_error *error) {
  quire_case opened;
  quire_session session = {0};
  quire_case_request built = {0};
  quire_call call = {0};
  const quire_operator *op = NULL;
  quire_status status = quire_case_open(path, &opened, error);
  if (status == QUIRE_OK) {
    status = quire_session_open(&session, error);
  }
  if (status == QUIRE_OK) {
    status = quire_session_open_device(&session, options, error);
  }
  if (status == QUIRE_OK) {
    status = quire_session_operator(&session, options, &opened, &op, error);
  }
  if (status == QUIRE_OK) {
    status = quire_request_build(&opened, options, op, 0, &built, error);
  }
  if (status == QUIRE_OK) {
    status = quire_call_execute(&session, op, &opened, options, &built.request, &call, error);
  }
  if (status == QUIRE_OK && target) {
    *where = target;
    status = write_outputs(target, op, &built, &call, &opened, options, error);
  }
  quire_call_release(&call);
  quire_request_release(&built);
  quire_session_close(&session);
  quire_case_release(&opened);
  return status;
}

static int run(void *const *values, const quire_text_list *positional) {
  const run_options *options = values[0];
  const char *where = positional->items[0];
  quire_error error;
  if (run_case(positional->items[0], values[1], options->target, &where, &error) != QUIRE_OK) {
    quire_failure_print(where, &error);
    return QUIRE_EXIT_FAILURE;
  }
  return QUIRE_EXIT_OK;
}

const quire_command quire_command_run = {
    .name = "run",
    .summary = "Computes the outputs of a case file.",
    .usage = "CASE.safetensors [-o OUT.safetensors] [options]",
    .details =
        "Without -o the call is made and its outputs are dropped. The values of lengths, tables "
        "and\n"
        "slots are checked on every device.\n"
        "\n"
        "exit status: 0 done; 2 refused, unreadable or used wrongly: nothing was written\n",
    .groups = {{run_table, sizeof run_table / sizeof *run_table, sizeof(run_options)},
               {quire_call_option_table, QUIRE_CALL_OPTION_COUNT, sizeof(quire_call_options)}},
    .positional_minimum = 1,
    .positional_maximum = 1,
    .positional_name = "CASE.safetensors",
    .run = run,
};
