/*
 * {"manifest": M, "request": R} from a stranger: planned and explained. M is a manifest, or the
 * number of a built-in operator. Any other text is taken as a request to every built-in operator.
 */
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "quire/quire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void add(void *user, const char *text, size_t length) {
  (void)text;
  *(size_t *)user += length;
}

/* A plan and a refusal are explained, anything else has words and writes nothing. */
static void explain(const quire_operator *op, const char *request, size_t size,
                    quire_explain_format format) {
  int refused = 0;
  size_t total = 0;
  quire_error error = {0};
  const quire_status status =
      quire_explain_json(op, request, size, format, add, &total, &refused, &error);
  const int is_explained = status == QUIRE_OK || refused;
  if (is_explained ? total == 0 : total != 0 || error.message[0] == '\0') {
    abort();
  }
}

static void explain_both(const quire_operator *op, const char *request, size_t size) {
  explain(op, request, size, QUIRE_EXPLAIN_TEXT);
  explain(op, request, size, QUIRE_EXPLAIN_JSON);
}

static void plan_given(quire_context *context, const json_t *manifest, const char *request) {
  quire_operator *op = NULL;
  char *text = json_dumps(manifest, JSON_COMPACT | JSON_ENCODE_ANY);
  if (text != NULL && quire_operator_load(context, text, strlen(text), &op, NULL) == QUIRE_OK) {
    explain_both(op, request, strlen(request));
  }
  quire_operator_release(op);
  free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static quire_context *context;
  if (context == NULL && quire_context_create(NULL, &context, NULL) != QUIRE_OK) {
    abort();
  }
  const size_t count = quire_context_operator_count(context);
  json_t *both = json_loadb((const char *)data, size, JSON_ALLOW_NUL, NULL);
  const json_t *manifest = json_object_get(both, "manifest");
  const json_t *request = json_object_get(both, "request");
  char *text = request != NULL ? json_dumps(request, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
  if (text != NULL && json_is_integer(manifest)) {
    const size_t index = (size_t)json_integer_value(manifest) % count;
    explain_both(quire_context_operator(context, index), text, strlen(text));
  } else if (text != NULL) {
    plan_given(context, manifest, text);
  } else {
    for (size_t i = 0; i < count; i++) {
      explain_both(quire_context_operator(context, i), (const char *)data, size);
    }
  }
  free(text);
  json_decref(both);
  return 0;
}
