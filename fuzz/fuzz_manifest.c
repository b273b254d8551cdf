/* A manifest from a stranger: linted and loaded. Lint must find an error exactly when load fails.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "quire/quire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void ignore_finding(void *user, const quire_finding *finding) {
  *(int *)user |= finding->severity == QUIRE_SEVERITY_ERROR;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static quire_context *context;
  if (context == NULL && quire_context_create(NULL, &context, NULL) != QUIRE_OK) {
    abort();
  }
  const char *text = (const char *)data;
  quire_error error;
  int found = 0;
  quire_status lint = quire_operator_lint(context, text, size, ignore_finding, &found, &error);
  quire_operator *op = NULL;
  quire_status load = quire_operator_load(context, text, size, &op, &error);
  if ((lint == QUIRE_OK) != (load == QUIRE_OK) || (lint == QUIRE_BAD_MANIFEST) != (found != 0)) {
    abort();
  }
  quire_operator_release(op);
  return 0;
}
