/* quire explain: what planning decides, and why. */
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "described_call.h"
#include "failure.h"

typedef struct explain_options {
  const char *format, *pass;
  int check_only, is_wgsl;
} explain_options;

#define AT(member) offsetof(explain_options, member)

static const quire_option explain_table[] = {
    {.name = "--check-only",
     .kind = QUIRE_OPTION_FLAG,
     .offset = AT(check_only),
     .help = "only load the manifest"},
    {.name = "--format",
     .kind = QUIRE_OPTION_CHOICE,
     .offset = AT(format),
     .choices = "text|json",
     .help = "form of the explanation (default text)"},
    {.name = "--pass",
     .kind = QUIRE_OPTION_TEXT,
     .offset = AT(pass),
     .value_name = "ID",
     .help = "with --wgsl: the pass whose shader is printed"},
    {.name = "--wgsl",
     .kind = QUIRE_OPTION_FLAG,
     .offset = AT(is_wgsl),
     .help = "print the shader of a pass instead, as quire render does"},
};

/* The explanation as it is printed. */
typedef struct printed {
  quire_explain_format format;
  int is_wgsl;
  const char *pass;
  int refused;
  char last;
} printed;

static void print_piece(void *user, const char *text, size_t length) {
  printed *state = user;
  if (length > 0) {
    (void)fwrite(text, 1, length, stdout);
    state->last = text[length - 1];
  }
}

static void end_line(const printed *state) {
  if (state->last != '\0' && state->last != '\n') {
    putchar('\n');
  }
}

static quire_status explain_json(void *user, const quire_operator *op, const char *text,
                                 size_t length, quire_error *error) {
  printed *state = user;
  if (state->is_wgsl) {
    return quire_described_render_json(state->pass, op, text, length, error);
  }
  const quire_status status = quire_explain_json(op, text, length, state->format, print_piece,
                                                 state, &state->refused, error);
  end_line(state);
  return status;
}

static quire_status explain_call(void *user, const quire_operator *op, quire_device *device,
                                 const quire_device_description *description,
                                 const quire_request *request, quire_error *error) {
  printed *state = user;
  if (state->is_wgsl) {
    return quire_described_render(state->pass, op, device, description, request, error);
  }
  const quire_status status =
      quire_explain(op, device, description, request, state->format, print_piece, state, error);
  state->refused = status != QUIRE_OK && state->last != '\0';
  end_line(state);
  return status;
}

static quire_status print_count(void *user, const quire_operator *op) {
  (void)user;
  printf("ok: %zu variants\n", quire_operator_variant_count(op));
  return QUIRE_OK;
}

static int run(void *const *values, const quire_text_list *positional) {
  const explain_options *options = values[0];
  const quire_described_options *described = values[1];
  const quire_call_options *call_options = values[2];
  quire_error error;
  const int modes =
      (described->request ? 1 : 0) + (described->case_path ? 1 : 0) + (options->check_only ? 1 : 0);
  if (quire_described_check(positional, described, call_options, modes,
                            "explain needs one of --request, --case and --check-only",
                            &error) != QUIRE_OK) {
    return quire_failure_usage(&error);
  }
  if (!options->is_wgsl != !options->pass) {
    quire_failure_set(&error, QUIRE_BAD_REQUEST, "--pass and --wgsl go together");
    return quire_failure_usage(&error);
  }
  const int is_json = options->format && !strcmp(options->format, "json");
  printed state = {.format = is_json ? QUIRE_EXPLAIN_JSON : QUIRE_EXPLAIN_TEXT,
                   .is_wgsl = options->is_wgsl,
                   .pass = options->pass};
  const quire_described_action action = {&state, explain_json, explain_call, print_count};
  const char *where = NULL;
  const quire_status status =
      quire_described_run(positional, described, call_options, &action, &where, &error);
  if (status != QUIRE_OK && !state.refused) {
    quire_failure_print(where, &error);
    return QUIRE_EXIT_FAILURE;
  }
  return state.refused ? QUIRE_EXIT_REFUSED : QUIRE_EXIT_OK;
}

const quire_command quire_command_explain = {
    .name = "explain",
    .summary = "Plans one call and prints the plan or the refusal, with the values that decided.",
    .usage =
        "MANIFEST.json --request REQ.json [options]\n"
        "       quire explain MANIFEST.json --check-only\n"
        "       quire explain OPERATOR --case CASE.safetensors [options]",
    .details =
        "A manifest may also be the name of a built-in operator, and - is standard input. With\n"
        "--request no device is touched: limits and features come from the request.\n"
        "\n"
        "exit status: 0 a plan was made; 3 refused, and the refusal was printed; 2 wrong usage, "
        "an\n"
        "unreadable file, a manifest that does not load, a malformed request\n",
    .groups = {{explain_table, sizeof explain_table / sizeof *explain_table,
                sizeof(explain_options)},
               {quire_described_option_table, QUIRE_DESCRIBED_OPTION_COUNT,
                sizeof(quire_described_options)},
               {quire_call_option_table, QUIRE_CALL_OPTION_COUNT, sizeof(quire_call_options)}},
    .positional_minimum = 0,
    .positional_maximum = 1,
    .positional_name = "MANIFEST.json",
    .run = run,
};
