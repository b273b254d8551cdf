#include "ort_options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_THREADS = 1 << 16 };

static OrtStatus *read_ops(const quire_ort_runtime *runtime, const quire_ort_binding *bindings,
                           const char *text, quire_ort_options *options) {
  for (size_t i = 0; i < QUIRE_ORT_KINDS; i++) {
    options->kinds[i] = false;
  }
  while (*text != 0) {
    size_t length = strcspn(text, ",");
    bool known = false;
    for (size_t i = 0; i < QUIRE_ORT_KINDS; i++) {
      const char *type = bindings[i].kind->type;
      if (strlen(type) == length && memcmp(type, text, length) == 0) {
        options->kinds[i] = known = true;
      }
    }
    if (!known) {
      return quire_ort_fail(runtime, ORT_INVALID_ARGUMENT,
                            QUIRE_ORT_PROVIDER_NAME ": ops: \"%.*s\" is no operator of Quire",
                            (int)(length < 64 ? length : 64), text);
    }
    text += length;
    text += *text == ',';
  }
  return NULL;
}

static OrtStatus *read_threads(const quire_ort_runtime *runtime, const char *text,
                               quire_ort_options *options) {
  char *end = NULL;
  errno = 0;
  long long value = strtoll(text, &end, 10);
  if (end == text || *end != 0 || errno != 0 || value < 0 || value > MOST_THREADS) {
    return quire_ort_fail(runtime, ORT_INVALID_ARGUMENT,
                          QUIRE_ORT_PROVIDER_NAME ": threads: \"%.64s\" is not in 0 to %d", text,
                          (int)MOST_THREADS);
  }
  options->thread_limit = (size_t)value;
  return NULL;
}

static OrtStatus *read_option(const quire_ort_runtime *runtime, const quire_ort_binding *bindings,
                              const char *key, const char *value, quire_ort_options *options) {
  if (strcmp(key, "ops") == 0) {
    return read_ops(runtime, bindings, value, options);
  }
  if (strcmp(key, "threads") == 0) {
    return read_threads(runtime, value, options);
  }
  return quire_ort_fail(runtime, ORT_INVALID_ARGUMENT,
                        QUIRE_ORT_PROVIDER_NAME ": there is no option \"%.64s\"", key);
}

OrtStatus *quire_ort_options_read(const quire_ort_runtime *runtime,
                                  const quire_ort_binding *bindings,
                                  const OrtSessionOptions *session, quire_ort_options *options) {
  const OrtApi *api = runtime->api;
  const size_t prefix = sizeof QUIRE_ORT_OPTION_PREFIX - 1;
  OrtKeyValuePairs *pairs = NULL;
  const char *const *keys = NULL;
  const char *const *values = NULL;
  size_t count = 0;
  OrtStatus *status = NULL;
  options->thread_limit = 0;
  for (size_t i = 0; i < QUIRE_ORT_KINDS; i++) {
    options->kinds[i] = true;
  }
  QUIRE_ORT_TRY(api->GetSessionOptionsConfigEntries(session, &pairs));
  api->GetKeyValuePairs(pairs, &keys, &values, &count);
  for (size_t i = 0; status == NULL && i < count; i++) {
    if (strncmp(keys[i], QUIRE_ORT_OPTION_PREFIX, prefix) == 0) {
      status = read_option(runtime, bindings, keys[i] + prefix, values[i], options);
    }
  }
  api->ReleaseKeyValuePairs(pairs);
  return status;
}
