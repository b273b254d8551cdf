/* A request in JSON from a stranger, planned and explained for every built-in operator. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "quire/quire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void discard(void *user, const char *text, size_t length) {
  (void)user;
  (void)text;
  (void)length;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static quire_context *context;
  if (context == NULL && quire_context_create(NULL, &context, NULL) != QUIRE_OK) {
    abort();
  }
  for (size_t i = 0; i < quire_context_operator_count(context); i++) {
    int refused = 0;
    quire_explain_json(quire_context_operator(context, i), (const char *)data, size,
                       QUIRE_EXPLAIN_TEXT, discard, NULL, &refused, NULL);
    quire_explain_json(quire_context_operator(context, i), (const char *)data, size,
                       QUIRE_EXPLAIN_JSON, discard, NULL, &refused, NULL);
  }
  return 0;
}
