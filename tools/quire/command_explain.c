/* quire explain: what planning decides, and why. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "call.h"
#include "commands.h"
#include "failure.h"
#include "limits_file.h"

enum { LONGEST_REQUEST = 64 * 1024 * 1024 };

typedef struct explain_options {
  const char *request, *case_path, *format, *limits, *pass;
  int check_only, is_wgsl;
} explain_options;

#define AT(member) offsetof(explain_options, member)

static const quire_option explain_table[] = {
    {.name = "--request",
     .kind = QUIRE_OPTION_TEXT,
     .offset = AT(request),
     .value_name = "FILE",
     .help = "the request in JSON, by manifest keys; - is standard input"},
    {.name = "--case",
     .kind = QUIRE_OPTION_TEXT,
     .offset = AT(case_path),
     .value_name = "FILE",
     .help = "the call of this case file, on --device"},
    {.name = "--check-only",
     .kind = QUIRE_OPTION_FLAG,
     .offset = AT(check_only),
     .help = "only load the manifest"},
    {.name = "--format",
     .kind = QUIRE_OPTION_CHOICE,
     .offset = AT(format),
     .choices = "text|json",
     .help = "form of the explanation (default text)"},
    {.name = "--limits",
     .kind = QUIRE_OPTION_TEXT,
     .offset = AT(limits),
     .value_name = "FILE",
     .help = "JSON with limits and features to lay over the request's"},
    {.name = "--pass",
     .kind = QUIRE_OPTION_TEXT,
     .offset = AT(pass),
     .value_name = "ID",
     .help = "with --wgsl: the pass whose shader is printed"},
    {.name = "--wgsl",
     .kind = QUIRE_OPTION_FLAG,
     .offset = AT(is_wgsl),
     .help = "print the shader of a pass (not in this build)"},
};

/* The explanation as it is printed. */
typedef struct printed {
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

static quire_explain_format format_of(const explain_options *options) {
  return options->format && !strcmp(options->format, "json") ? QUIRE_EXPLAIN_JSON
                                                             : QUIRE_EXPLAIN_TEXT;
}

/* With limits the request is parsed, changed and printed again; without, it goes as it is. */
static quire_status explain_text(const quire_operator *op, const explain_options *options,
                                 const quire_limits_file *limits, const char *text, size_t length,
                                 int *refused, quire_error *error) {
  json_t *request = NULL;
  char *changed = NULL;
  quire_status status = QUIRE_OK;
  if (options->limits) {
    status = quire_limits_parse(text, length, &request, error);
    if (status == QUIRE_OK) {
      status = quire_limits_lay_over(limits, request, error);
    }
    if (status == QUIRE_OK) {
      changed = json_dumps(request, JSON_COMPACT | JSON_ENCODE_ANY);
      status = changed ? QUIRE_OK
                       : quire_failure_set(error, QUIRE_OUT_OF_MEMORY, "no memory for the request");
    }
  }
  if (status == QUIRE_OK) {
    printed state = {0};
    status = quire_explain_json(op, changed ? changed : text, changed ? strlen(changed) : length,
                                format_of(options), print_piece, &state, refused, error);
    end_line(&state);
  }
  free(changed);
  json_decref(request);
  return status;
}

static quire_status explain_request(const quire_operator *op, const explain_options *options,
                                    const quire_limits_file *limits, int *refused,
                                    quire_error *error) {
  quire_file_bytes bytes;
  quire_status status = quire_file_read(options->request, LONGEST_REQUEST, &bytes, error);
  if (status == QUIRE_OK) {
    status =
        explain_text(op, options, limits, (const char *)bytes.data, bytes.size, refused, error);
    quire_file_release(&bytes);
  }
  return status;
}

/*
 * Explains the call of a case. A device that is only described need not be there: for "webgpu" the
 * defaults of that backend hold where the build does not have it.
 */
static quire_status explain_case(quire_session *session, const quire_operator *op,
                                 const quire_case *opened, const explain_options *options,
                                 const quire_call_options *call_options, quire_limits_file *limits,
                                 int *refused, quire_error *error) {
  const char *name = call_options->device ? call_options->device : "cpu";
  quire_status status = quire_session_open_device(session, call_options, error);
  if (status != QUIRE_OK && (status != QUIRE_NOT_FOUND || strcmp(name, "webgpu") != 0)) {
    return status;
  }
  limits->description.struct_size = sizeof limits->description;
  if (!limits->description.backend) {
    limits->description.backend = name;
  }
  quire_case_request built;
  status = quire_request_build(opened, call_options, op, 0, &built, error);
  if (status == QUIRE_OK) {
    printed state = {0};
    status = quire_explain(op, session->device, &limits->description, &built.request,
                           format_of(options), print_piece, &state, error);
    *refused = status != QUIRE_OK && state.last != '\0';
    end_line(&state);
    quire_request_release(&built);
  }
  return status;
}

/* A built-in operator by name, else a manifest file; *loaded is to be released. */
static quire_status find_operator(const quire_session *session, const char *name,
                                  const quire_operator **op, quire_operator **loaded,
                                  quire_error *error) {
  *op = quire_context_find_operator(session->context, name);
  if (*op) {
    return QUIRE_OK;
  }
  const quire_status status = quire_session_load(session, name, loaded, error);
  *op = *loaded;
  if (status == QUIRE_NOT_FOUND) {
    return quire_failure_set(error, status, "neither a file nor an operator; see quire ops");
  }
  return status;
}

static quire_status check_usage(const quire_text_list *positional, const explain_options *options,
                                const quire_call_options *call_options, quire_error *error) {
  const int modes =
      (options->request ? 1 : 0) + (options->case_path ? 1 : 0) + (options->check_only ? 1 : 0);
  const int has_call_options = call_options->device || call_options->op || call_options->variant ||
                               call_options->isa || call_options->threads ||
                               call_options->is_strict || call_options->attributes.count ||
                               call_options->dtypes.count || call_options->outputs.count;
  if (options->is_wgsl || options->pass) {
    return quire_failure_set(error, QUIRE_BAD_REQUEST,
                             "%s: this build has no shader renderer, so it cannot print shaders",
                             options->is_wgsl ? "--wgsl" : "--pass");
  }
  if (modes != 1) {
    return quire_failure_set(error, QUIRE_BAD_REQUEST,
                             "explain needs one of --request, --case and --check-only");
  }
  if (!options->case_path && positional->count == 0) {
    return quire_failure_set(error, QUIRE_BAD_REQUEST,
                             "MANIFEST.json is missing; see quire explain --help");
  }
  if (!options->case_path && has_call_options) {
    return quire_failure_set(error, QUIRE_BAD_REQUEST,
                             "options that describe a call go with --case only");
  }
  if (positional->count && call_options->op) {
    return quire_failure_set(error, QUIRE_BAD_REQUEST, "the operator is given twice");
  }
  if (options->request && !strcmp(options->request, "-") && !strcmp(positional->items[0], "-")) {
    return quire_failure_set(error, QUIRE_BAD_REQUEST,
                             "manifest and request cannot both come from standard input");
  }
  return QUIRE_OK;
}

/* Names the file that a failure is about in *where. */
static quire_status explain(const quire_text_list *positional, const explain_options *options,
                            const quire_call_options *call_options, int *refused,
                            const char **where, quire_error *error) {
  quire_session session = {0};
  quire_case opened = {0};
  quire_limits_file limits = {0};
  const quire_operator *op = NULL;
  quire_operator *loaded = NULL;
  quire_status status = quire_session_open(&session, error);
  if (status == QUIRE_OK && options->case_path) {
    *where = options->case_path;
    status = quire_case_open(options->case_path, &opened, error);
  }
  if (status == QUIRE_OK && options->limits) {
    *where = options->limits;
    status = quire_limits_open(options->limits, &limits, error);
  }
  if (status == QUIRE_OK) {
    *where = positional->count ? positional->items[0] : options->case_path;
    status = positional->count
                 ? find_operator(&session, positional->items[0], &op, &loaded, error)
                 : quire_session_operator(&session, call_options, &opened, &op, error);
  }
  if (status == QUIRE_OK && options->check_only) {
    printf("ok: %zu variants\n", quire_operator_variant_count(op));
  } else if (status == QUIRE_OK && options->request) {
    *where = options->request;
    status = explain_request(op, options, &limits, refused, error);
  } else if (status == QUIRE_OK) {
    *where = options->case_path;
    status = explain_case(&session, op, &opened, options, call_options, &limits, refused, error);
  }
  quire_operator_release(loaded);
  quire_limits_release(&limits);
  quire_case_release(&opened);
  quire_session_close(&session);
  return status;
}

static int run(void *const *values, const quire_text_list *positional) {
  const explain_options *options = values[0];
  const quire_call_options *call_options = values[1];
  quire_error error;
  if (check_usage(positional, options, call_options, &error) != QUIRE_OK) {
    return quire_failure_usage(&error);
  }
  const char *where = NULL;
  int refused = 0;
  const quire_status status = explain(positional, options, call_options, &refused, &where, &error);
  if (status != QUIRE_OK && !refused) {
    quire_failure_print(where, &error);
    return QUIRE_EXIT_FAILURE;
  }
  return refused ? QUIRE_EXIT_REFUSED : QUIRE_EXIT_OK;
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
               {quire_call_option_table, QUIRE_CALL_OPTION_COUNT, sizeof(quire_call_options)}},
    .positional_minimum = 0,
    .positional_maximum = 1,
    .positional_name = "MANIFEST.json",
    .run = run,
};
