/* quire lint: every finding about manifests. */
#include <stdio.h>

#include "call.h"
#include "commands.h"
#include "failure.h"
#include "files.h"
#include "package.h"

enum { LONGEST_MANIFEST = 64 * 1024 * 1024 };

typedef struct lint_options {
  const char *package;
} lint_options;

static const quire_option lint_table[] = {
    {.name = "--package",
     .kind = QUIRE_OPTION_TEXT,
     .offset = offsetof(lint_options, package),
     .value_name = "DIR",
     .help = "root of the manifests' templates (default each manifest's folder)"},
};

typedef struct lint_state {
  const char *path;
  size_t warnings, errors;
} lint_state;

static void print_finding(void *user, const quire_finding *finding) {
  lint_state *state = user;
  const int is_error = finding->severity == QUIRE_SEVERITY_ERROR;
  *(is_error ? &state->errors : &state->warnings) += 1;
  quire_failure_put(state->path);
  printf(":%zu: ", finding->line);
  quire_failure_put(finding->path);
  printf(": %s: ", is_error ? "error" : "warning");
  quire_failure_put(finding->message);
  putchar('\n');
}

/* The number of variants is known only to a manifest that loads. */
static void print_summary(const quire_session *session, const quire_file_bytes *bytes,
                          const lint_state *state) {
  quire_operator *op = NULL;
  if (quire_operator_load(session->context, (const char *)bytes->data, bytes->size, &op, NULL) ==
      QUIRE_OK) {
    quire_failure_put(state->path);
    printf(": ok: %zu variants", quire_operator_variant_count(op));
    if (state->warnings > 0) {
      printf(", %zu warning%s", state->warnings, state->warnings == 1 ? "" : "s");
    }
    printf("\n");
  }
  quire_operator_release(op);
}

static int lint_file(const quire_session *session, const char *folder, const char *path) {
  lint_state state = {.path = path};
  quire_package package;
  quire_file_bytes bytes;
  quire_error error;
  quire_status status = quire_file_read(path, LONGEST_MANIFEST, &bytes, &error);
  if (status == QUIRE_OK) {
    status = quire_package_open(path, folder, &package, &error);
    if (status == QUIRE_OK) {
      status = quire_operator_lint_package(session->context, (const char *)bytes.data, bytes.size,
                                           &package.options, print_finding, &state, &error);
      if (status != QUIRE_OK) {
        quire_package_explain(&package, &error);
      }
      quire_package_release(&package);
    }
    if (status == QUIRE_OK) {
      print_summary(session, &bytes, &state);
    }
    quire_file_release(&bytes);
  }
  if (status == QUIRE_OK) {
    return QUIRE_EXIT_OK;
  }
  (void)fflush(stdout);
  quire_failure_print(path, &error);
  return QUIRE_EXIT_FAILURE;
}

static int run(void *const *values, const quire_text_list *positional) {
  quire_session session;
  quire_error error;
  int code = QUIRE_EXIT_OK;
  const lint_options *options = values[0];
  if (quire_session_open(&session, &error) != QUIRE_OK) {
    quire_failure_print(NULL, &error);
    return QUIRE_EXIT_FAILURE;
  }
  for (size_t i = 0; i < positional->count; ++i) {
    const int result = lint_file(&session, options->package, positional->items[i]);
    code = result > code ? result : code;
  }
  quire_session_close(&session);
  return code;
}

const quire_command quire_command_lint = {
    .name = "lint",
    .summary = "Prints every finding about kernel manifests: FILE:LINE: PATH: severity: message.",
    .usage = "[--package DIR] MANIFEST.json...",
    .details =
        "exit status: 0 no errors (there may be warnings); 2 a manifest does not load, or wrong "
        "usage\n",
    .groups = {{lint_table, sizeof lint_table / sizeof *lint_table, sizeof(lint_options)}},
    .positional_minimum = 1,
    .positional_maximum = 100000,
    .positional_name = "MANIFEST.json",
    .run = run,
};
