/* Text of a template, with itself under other names to include, rendered over a small plan. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "quire/quire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char manifest_text[] =
    "{\"domain\":\"fuzz\",\"name\":\"Probe\",\"sinceVersion\":1,"
    "\"inputs\":{\"x\":{\"dtype\":\"T\",\"rank\":2}},"
    "\"outputs\":{\"y\":{\"dtype\":\"T\",\"shape\":\"shapes.x\"}},"
    "\"typeConstraints\":{\"T\":[\"float16\",\"float32\"]},"
    "\"attributes\":{\"a\":{\"default\":3},\"s\":{\"default\":\"text\"}},"
    "\"derive\":{\"n\":\"dim(shapes.x, 0)\",\"list\":\"[1, 2.5, n]\",\"bad\":\"1 + attrs.s\"},"
    "\"variants\":[{\"passes\":[{\"shader\":\"p.wgsl.jinja\",\"workgroup\":[64,1,1],"
    "\"bindings\":[\"x\",\"y\",{\"name\":\"params\","
    "\"struct\":[{\"name\":\"n\",\"type\":\"u32\",\"value\":\"n\"}]}],\"dispatch\":{\"x\":1}}]}]}";

static const char request_text[] =
    "{\"inputs\":{\"x\":{\"dtype\":\"float16\",\"shape\":[2,3]}},\"attributes\":{}}";

typedef struct input {
  const char *text;
  size_t length;
} input;

/* "a" is the second half of the input: a file of its own that can be included. */
static quire_status read_file(void *user, const char *path, quire_write_function *write,
                              void *write_user) {
  const input *given = user;
  size_t half = given->length / 2;
  if (strcmp(path, "p.wgsl.jinja") == 0) {
    write(write_user, given->text, given->length);
  } else if (strcmp(path, "a") == 0) {
    write(write_user, given->text + half, given->length - half);
  } else {
    return QUIRE_NOT_FOUND;
  }
  return QUIRE_OK;
}

static void discard(void *user, const char *text, size_t length) {
  size_t *total = user;
  (void)text;
  *total += length;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static quire_context *context;
  if (context == NULL && quire_context_create(NULL, &context, NULL) != QUIRE_OK) {
    abort();
  }
  input given = {(const char *)data, size};
  quire_package_options options;
  quire_package_options_init(&options);
  options.read = read_file;
  options.user = &given;
  quire_operator *op = NULL;
  if (quire_operator_load_package(context, manifest_text, sizeof manifest_text - 1, &options, &op,
                                  NULL) != QUIRE_OK) {
    abort(); /* templates are no reason not to load */
  }
  size_t total = 0;
  quire_error error = {0};
  quire_status status =
      quire_render_json(op, request_text, sizeof request_text - 1, "0", discard, &total, &error);
  int expected = status == QUIRE_OK || status == QUIRE_BAD_MANIFEST || status == QUIRE_LIMIT ||
                 status == QUIRE_NOT_FOUND || status == QUIRE_OUT_OF_MEMORY;
  if (!expected || (status != QUIRE_OK && (total != 0 || error.message[0] == '\0')) ||
      total > 1024 * 1024 + 16) {
    abort();
  }
  quire_operator_release(op);
  return 0;
}
