#include "webgpu_procs.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "text.h"

/*
 * Functions that came with the present layout of structs and numbers of features (December 2025).
 * Older libraries load and then misbehave, so one without them is refused.
 */
static const char *const gate[] = {"wgpuGetInstanceLimits",
                                   "wgpuTextureGetTextureBindingViewDimension"};

/* Where functions come from: a library, or the caller. */
typedef struct source {
  void *library;
  void *(*resolve)(void *user, const char *name);
  void *user;
} source;

static void *find(const source *from, const char *name) {
  return from->resolve != NULL ? from->resolve(from->user, name) : dlsym(from->library, name);
}

/* A function pointer may not be cast from an object pointer in C11; POSIX says they look alike. */
static bool take(const source *from, const char *name, void *place, size_t size) {
  void *found = find(from, name);
  memcpy(place, &found, size);
  return found != NULL;
}

static bool fill(const source *from, quire_webgpu_procs *procs, const char **missing) {
  for (size_t i = 0; i < sizeof gate / sizeof *gate; i++) {
    if (find(from, gate[i]) == NULL) {
      *missing = gate[i];
      return false;
    }
  }
#define QUIRE_WEBGPU_TAKE(name)                                      \
  if (!take(from, "wgpu" #name, &procs->name, sizeof procs->name)) { \
    *missing = "wgpu" #name;                                         \
    return false;                                                    \
  }
  QUIRE_WEBGPU_PROCS(QUIRE_WEBGPU_TAKE)
#undef QUIRE_WEBGPU_TAKE
#define QUIRE_WEBGPU_TRY(name) (void)take(from, "wgpu" #name, &procs->name, sizeof procs->name)
  QUIRE_WEBGPU_TRY(GetVersion);
  QUIRE_WEBGPU_TRY(DevicePoll);
  QUIRE_WEBGPU_TRY(QueueGetTimestampPeriod);
  QUIRE_WEBGPU_TRY(InstanceEnumerateAdapters);
  QUIRE_WEBGPU_TRY(DeviceCreateShaderModuleTrusted);
#undef QUIRE_WEBGPU_TRY
  return true;
}

/* What dlopen() says of a file, without the name that mostly stands in front. */
static const char *reason_of(const char *path, const char *reason) {
  const size_t length = strlen(path);
  if (reason == NULL) {
    return "no reason";
  }
  const bool is_named =
      strncmp(reason, path, length) == 0 && strncmp(reason + length, ": ", 2) == 0;
  return is_named ? reason + length + 2 : reason;
}

/* Says what is wrong with a library in *tried. */
static bool load_file(const char *path, quire_webgpu_procs *procs, quire_text *tried) {
  const char *separator = tried->length > 0 ? "; " : "";
  source from = {dlopen(path, RTLD_NOW | RTLD_LOCAL), NULL, NULL};
  if (from.library == NULL) {
    quire_text_format(tried, "%s%s: %s", separator, path, reason_of(path, dlerror()));
    return false;
  }
  const char *missing = NULL;
  if (!fill(&from, procs, &missing)) {
    quire_text_format(
        tried,
        "%s%s: lacks %s, which webgpu.h has had since December 2025 (an older library, "
        "or none of WebGPU)",
        separator, path, missing);
    (void)dlclose(from.library);
    return false;
  }
  return true;
}

static quire_status load_resolved(const quire_webgpu_options *options, quire_webgpu_procs *procs,
                                  quire_error *error) {
  const source from = {NULL, options->resolve, options->resolve_user};
  const char *missing = NULL;
  if (!fill(&from, procs, &missing)) {
    return quire_fail(error, QUIRE_NOT_FOUND, NULL, "webgpu", "the caller's resolver has no %s",
                      missing);
  }
  return QUIRE_OK;
}

static bool search(const quire_webgpu_options *options, quire_webgpu_procs *procs,
                   quire_text *tried) {
  const char *path = options->library != NULL ? options->library : getenv("QUIRE_WEBGPU_LIBRARY");
  if (path != NULL && path[0] != '\0') {
    return load_file(path, procs, tried);
  }
  static const char *const names[] = {
      "libwgpu_native.so", "libwebgpu_dawn.so",
#ifdef QUIRE_WEBGPU_BUILD_LIBRARY
      QUIRE_WEBGPU_BUILD_LIBRARY, /* where scripts/webgpu puts one */
#endif
  };
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (load_file(names[i], procs, tried)) {
      return true;
    }
  }
  return false;
}

quire_status quire_webgpu_procs_load(const quire_webgpu_options *options,
                                     const quire_allocator *allocator, quire_webgpu_procs *procs,
                                     quire_error *error) {
  memset(procs, 0, sizeof *procs);
  if (options->resolve != NULL) {
    return load_resolved(options, procs, error);
  }
  quire_text tried;
  quire_text_init(&tried, allocator);
  quire_status status = QUIRE_OK;
  if (!search(options, procs, &tried)) {
    status = quire_fail(error, QUIRE_NOT_FOUND, NULL, "webgpu", "no usable library: %s",
                        tried.failed ? "(no memory)" : quire_text_view(&tried));
  }
  quire_text_release(&tried);
  return status;
}
