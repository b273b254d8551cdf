#include "described_call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "failure.h"

enum { LONGEST_REQUEST = 64 * 1024 * 1024 };

#define AT(member) offsetof(quire_described_options, member)

const quire_option quire_described_option_table[QUIRE_DESCRIBED_OPTION_COUNT] = {
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
    {.name = "--limits",
     .kind = QUIRE_OPTION_TEXT,
     .offset = AT(limits),
     .value_name = "FILE",
     .help = "JSON with limits and features to lay over the device's"},
    {.name = "--package",
     .kind = QUIRE_OPTION_TEXT,
     .offset = AT(package),
     .value_name = "DIR",
     .help = "root of a manifest file's templates (default its folder)"},
};

/* With limits the request is parsed, changed and printed again; without, it goes as it is. */
static quire_status run_text(const quire_operator *op, const quire_limits_file *limits,
                             const char *text, size_t length, const quire_described_action *action,
                             quire_error *error) {
  json_t *request = NULL;
  char *changed = NULL;
  quire_status status = QUIRE_OK;
  if (limits) {
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
    status = action->json(action->user, op, changed ? changed : text,
                          changed ? strlen(changed) : length, error);
  }
  free(changed);
  json_decref(request);
  return status;
}

static quire_status run_request(const quire_operator *op, const quire_described_options *options,
                                const quire_limits_file *limits,
                                const quire_described_action *action, quire_error *error) {
  quire_file_bytes bytes;
  quire_status status = quire_file_read(options->request, LONGEST_REQUEST, &bytes, error);
  if (status == QUIRE_OK) {
    status = run_text(op, options->limits ? limits : NULL, (const char *)bytes.data, bytes.size,
                      action, error);
    quire_file_release(&bytes);
  }
  return status;
}

/*
 * The call of a case. A device that is only described need not be there: for "webgpu" the defaults
 * of that backend hold where the build or the machine does not have it.
 */
static quire_status run_case(quire_session *session, const quire_operator *op,
                             const quire_case *opened, const quire_call_options *call_options,
                             quire_limits_file *limits, const quire_described_action *action,
                             quire_error *error) {
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
    status = action->call(action->user, op, session->device, &limits->description, &built.request,
                          error);
    quire_request_release(&built);
  }
  return status;
}

/* A built-in operator by name, else a manifest file; *loaded is to be released. */
static quire_status find_operator(const quire_session *session, const char *name,
                                  const char *package, const quire_operator **op,
                                  quire_operator **loaded, quire_error *error) {
  *op = quire_context_find_operator(session->context, name);
  if (*op) {
    return QUIRE_OK;
  }
  const quire_status status = quire_session_load(session, name, package, loaded, error);
  *op = *loaded;
  if (status == QUIRE_NOT_FOUND) {
    return quire_failure_set(error, status, "neither a file nor an operator; see quire ops");
  }
  return status;
}

quire_status quire_described_check(const quire_text_list *positional,
                                   const quire_described_options *options,
                                   const quire_call_options *call_options, int modes,
                                   const char *wanted, quire_error *error) {
  const int has_call_options =
      call_options->device || call_options->op || call_options->variant || call_options->isa ||
      call_options->threads || call_options->is_strict || call_options->tuning ||
      call_options->attributes.count || call_options->dtypes.count || call_options->outputs.count;
  if (modes != 1) {
    return quire_failure_set(error, QUIRE_BAD_REQUEST, "%s", wanted);
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

static void print_shader(void *user, const char *text, size_t length) {
  (void)user;
  (void)fwrite(text, 1, length, stdout);
  if (length > 0 && text[length - 1] != '\n') {
    putchar('\n');
  }
}

quire_status quire_described_render_json(const char *pass, const quire_operator *op,
                                         const char *text, size_t length, quire_error *error) {
  return quire_render_json(op, text, length, pass, print_shader, NULL, error);
}

quire_status quire_described_render(const char *pass, const quire_operator *op,
                                    quire_device *device,
                                    const quire_device_description *description,
                                    const quire_request *request, quire_error *error) {
  return quire_render(op, device, description, request, pass, print_shader, NULL, error);
}

quire_status quire_described_run(const quire_text_list *positional,
                                 const quire_described_options *options,
                                 const quire_call_options *call_options,
                                 const quire_described_action *action, const char **where,
                                 quire_error *error) {
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
    status =
        positional->count
            ? find_operator(&session, positional->items[0], options->package, &op, &loaded, error)
            : quire_session_operator(&session, call_options, &opened, &op, error);
  }
  if (status == QUIRE_OK && options->request) {
    *where = options->request;
    status = run_request(op, options, &limits, action, error);
  } else if (status == QUIRE_OK && options->case_path) {
    *where = options->case_path;
    status = run_case(&session, op, &opened, call_options, &limits, action, error);
  } else if (status == QUIRE_OK) {
    status = action->loaded(action->user, op);
  }
  quire_operator_release(loaded);
  quire_limits_release(&limits);
  quire_case_release(&opened);
  quire_session_close(&session);
  return status;
}
