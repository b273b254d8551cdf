/* Text of an expression, put into a small manifest, then parsed, evaluated and explained. */
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "quire/quire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char manifest_text[] =
    "{\"domain\":\"fuzz\",\"name\":\"Probe\",\"sinceVersion\":1,"
    "\"inputs\":{\"x\":{\"dtype\":\"float32\",\"rank\":2}},"
    "\"outputs\":{\"y\":{\"dtype\":\"float32\",\"shape\":\"shapes.x\"}},"
    "\"attributes\":{\"a\":{\"default\":3},\"s\":{\"default\":\"text\"}},"
    "\"derive\":{},"
    "\"variants\":[{\"when\":[\"probe == probe or true\"],\"passes\":[{\"shader\":\"p.wgsl.jinja\","
    "\"bindings\":[\"x\",\"y\"],\"dispatch\":{\"x\":1}}]}]}";

static const char request_text[] =
    "{\"inputs\":{\"x\":{\"dtype\":\"float32\",\"shape\":[2,3]}},\"attributes\":{}}";

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
  json_t *manifest = json_loads(manifest_text, 0, NULL);
  json_t *probe = json_stringn((const char *)data, size);
  if (manifest == NULL || probe == NULL) { /* not UTF-8 */
    json_decref(manifest);
    json_decref(probe);
    return 0;
  }
  json_object_set_new(json_object_get(manifest, "derive"), "probe", probe);
  char *text = json_dumps(manifest, JSON_COMPACT);
  json_decref(manifest);
  if (text == NULL) {
    return 0;
  }
  quire_operator *op = NULL;
  if (quire_operator_load(context, text, strlen(text), &op, NULL) == QUIRE_OK) {
    int refused = 0;
    quire_explain_json(op, request_text, strlen(request_text), QUIRE_EXPLAIN_TEXT, discard, NULL,
                       &refused, NULL);
    quire_explain_json(op, request_text, strlen(request_text), QUIRE_EXPLAIN_JSON, discard, NULL,
                       &refused, NULL);
  }
  quire_operator_release(op);
  free(text);
  return 0;
}
