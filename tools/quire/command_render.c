/* quire render: the shaders of a planned call. */
#include <stdio.h>

#include "commands.h"
#include "described_call.h"
#include "failure.h"

typedef struct render_options {
  const char *pass;
} render_options;

#define AT(member) offsetof(render_options, member)

static const quire_option render_table[] = {
    {.name = "--pass",
     .kind = QUIRE_OPTION_TEXT,
     .offset = AT(pass),
     .value_name = "PASS",
     .help = "id of the pass, or its number from 0 (default all)"},
};

static quire_status render_json(void *user, const quire_operator *op, const char *text,
                                size_t length, quire_error *error) {
  const render_options *options = user;
  return quire_described_render_json(options->pass, op, text, length, error);
}

static quire_status render_call(void *user, const quire_operator *op, quire_device *device,
                                const quire_device_description *description,
                                const quire_request *request, quire_error *error) {
  const render_options *options = user;
  return quire_described_render(options->pass, op, device, description, request, error);
}

static int run(void *const *values, const quire_text_list *positional) {
  render_options *options = values[0];
  const quire_described_options *described = values[1];
  quire_call_options *call_options = values[2];
  quire_error error;
  const int modes = (described->request ? 1 : 0) + (described->case_path ? 1 : 0);
  if (quire_described_check(positional, described, call_options, modes,
                            "render needs one of --request and --case", &error) != QUIRE_OK) {
    return quire_failure_usage(&error);
  }
  if (described->case_path && !call_options->device) {
    call_options->device = "webgpu"; /* where shaders are */
  }
  const quire_described_action action = {options, render_json, render_call, NULL};
  const char *where = NULL;
  if (quire_described_run(positional, described, call_options, &action, &where, &error) !=
      QUIRE_OK) {
    quire_failure_print(where, &error);
    return QUIRE_EXIT_FAILURE;
  }
  return QUIRE_EXIT_OK;
}

const quire_command quire_command_render = {
    .name = "render",
    .summary = "Prints the WGSL of a call's passes, as the device would get it.",
    .usage =
        "MANIFEST.json --request REQ.json [options]\n"
        "       quire render OPERATOR --case CASE.safetensors [options]",
    .details =
        "A manifest may also be the name of a built-in operator. The call is planned for the\n"
        "WebGPU device of this machine, or for that backend's default limits without one; with\n"
        "--request no device is touched.\n"
        "\n"
        "exit status: 0 printed; 2 refused, a fault of a template, wrong usage\n",
    .groups = {{render_table, sizeof render_table / sizeof *render_table, sizeof(render_options)},
               {quire_described_option_table, QUIRE_DESCRIBED_OPTION_COUNT,
                sizeof(quire_described_options)},
               {quire_call_option_table, QUIRE_CALL_OPTION_COUNT, sizeof(quire_call_options)}},
    .positional_minimum = 0,
    .positional_maximum = 1,
    .positional_name = "MANIFEST.json",
    .run = run,
};
