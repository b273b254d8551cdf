#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "call.h"
#include "failure.h"
#include "package.h"
#include "quire/webgpu.h"
#include "tune_file.h"
#include "webgpu_source.h"

enum { LONGEST_MANIFEST = 64 * 1024 * 1024 };

static quire_isa isa_of(const char *name) {
  static const char *const names[] = {"", "scalar", "avx2", "avx512", "neon"};
  for (int i = QUIRE_ISA_SCALAR; name && i <= QUIRE_ISA_NEON; ++i) {
    if (!strcmp(name, names[i])) {
      return (quire_isa)i;
    }
  }
  return QUIRE_ISA_BEST;
}

/* What is wrong with a tuning file, which the library calls "tuning", is told with its name. */
static void name_tuning(const char *path, quire_error *error) {
  static const char name[] = "tuning";
  const quire_error found = *error;
  const char *rest = found.message + sizeof name - 1;
  if (!path || strncmp(found.message, name, sizeof name - 1) != 0 ||
      (*rest != ':' && *rest != '.')) {
    return;
  }
  rest += *rest == '.' ? 1 : strspn(rest, ": ");
  (void)snprintf(error->message, sizeof error->message, "%.256s: %s", path, rest);
}

/* An adapter is named by its number or by a part of its name. */
static void set_webgpu(const quire_call_options *options, quire_webgpu_options *webgpu) {
  quire_webgpu_options_init(webgpu);
  webgpu->use_subgroups = !options->no_subgroups;
  webgpu->default_limits = options->default_limits;
  webgpu->as_hardware = options->as_hardware;
  webgpu->trusted_shaders = options->trusted_shaders;
  webgpu->kept_bindings = options->kept_bindings;
  quire_webgpu_source(webgpu);
  if (options->adapter) {
    char *end = NULL;
    const long number = strtol(options->adapter, &end, 10);
    const int is_number = *options->adapter != '\0' && *end == '\0';
    if (is_number && number >= 0 && number <= INT32_MAX) {
      webgpu->adapter_index = (int32_t)number;
    } else {
      webgpu->adapter_name = options->adapter;
    }
  }
}

quire_status quire_session_open(quire_session *session, quire_error *error) {
  *session = (quire_session){0};
  return quire_context_create(NULL, &session->context, error);
}

quire_status quire_session_open_device(quire_session *session, const quire_call_options *options,
                                       quire_error *error) {
  quire_device_options device_options;
  quire_device_options_init(&device_options);
  device_options.threads = (size_t)options->threads;
  device_options.isa = isa_of(options->isa);
  quire_webgpu_options webgpu;
  set_webgpu(options, &webgpu);
  device_options.webgpu = &webgpu;
  quire_file_bytes tuning;
  quire_status status = tune_file_read(options->tuning, &tuning, error);
  if (status == QUIRE_OK) {
    device_options.tuning = (const char *)tuning.data;
    device_options.tuning_length = tuning.size;
    status = quire_device_open(session->context, options->device ? options->device : "cpu",
                               &device_options, &session->device, error);
    if (status != QUIRE_OK) {
      name_tuning(options->tuning, error);
    }
    quire_file_release(&tuning);
  }
  return status;
}

void quire_session_close(quire_session *session) {
  quire_device_release(session->device);
  quire_context_release(session->context);
  *session = (quire_session){0};
}

quire_status quire_session_operator(const quire_session *session, const quire_call_options *options,
                                    const quire_case *opened, const quire_operator **op,
                                    quire_error *error) {
  const char *name = options->op ? options->op : opened->op;
  if (!name) {
    return quire_failure_set(error, QUIRE_BAD_REQUEST,
                             "the metadata has no \"op\"; name the operator with --op");
  }
  *op = quire_context_find_operator(session->context, name);
  return *op ? QUIRE_OK
             : quire_failure_set(error, QUIRE_NOT_FOUND,
                                 "no operator \"%.64s\"; quire ops lists them", name);
}

quire_status quire_session_load(const quire_session *session, const char *path, const char *folder,
                                quire_operator **op, quire_error *error) {
  quire_file_bytes bytes;
  quire_package package;
  quire_status status = quire_file_read(path, LONGEST_MANIFEST, &bytes, error);
  if (status == QUIRE_OK) {
    status = quire_package_open(path, folder, &package, error);
    if (status == QUIRE_OK) {
      status = quire_operator_load_package(session->context, (const char *)bytes.data, bytes.size,
                                           &package.options, op, error);
      if (status != QUIRE_OK) {
        quire_package_explain(&package, error);
      }
      quire_package_release(&package);
    }
    quire_file_release(&bytes);
  }
  return status;
}
