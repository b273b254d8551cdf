/* Faults and warnings: noted while loading, reported in the order of the text. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "error.h"
#include "manifest_loader.h"

/* Shared bindings are checked once a pass: their faults are told once. */
static bool is_noted(const quire_loader *loader, const quire_noted_finding *finding) {
  for (size_t i = 0; i < loader->finding_count; ++i) {
    if (strcmp(loader->findings[i].path, finding->path) == 0 &&
        strcmp(loader->findings[i].message, finding->message) == 0) {
      return true;
    }
  }
  return false;
}

static void note(quire_loader *loader, quire_severity severity, const quire_json_place *place,
                 const char *format, va_list arguments) {
  char message[512];
  loader->failed = loader->failed || severity == QUIRE_SEVERITY_ERROR;
  if (loader->finding_count == QUIRE_MANIFEST_MAX_FINDINGS) {
    return;
  }
  (void)vsnprintf(message, sizeof message, format, arguments);
  quire_text path;
  quire_text_init(&path, loader->scratch.allocator);
  quire_json_write_path(&path, place);
  quire_noted_finding *finding = &loader->findings[loader->finding_count];
  finding->severity = severity;
  finding->offset = quire_json_locate(loader->text, loader->length, place);
  finding->path =
      path.failed ? NULL : quire_arena_copy(&loader->scratch, quire_text_view(&path), path.length);
  finding->message = quire_arena_copy(&loader->scratch, message, strlen(message));
  quire_text_release(&path);
  if (finding->path == NULL || finding->message == NULL) {
    loader->out_of_memory = true;
    return;
  }
  loader->finding_count += is_noted(loader, finding) ? 0 : 1;
}

void quire_loader_fault(quire_loader *loader, const quire_json_place *place, const char *format,
                        ...) {
  va_list arguments;
  va_start(arguments, format);
  note(loader, QUIRE_SEVERITY_ERROR, place, format, arguments);
  va_end(arguments);
}

void quire_loader_warn(quire_loader *loader, const quire_json_place *place, const char *format,
                       ...) {
  va_list arguments;
  va_start(arguments, format);
  note(loader, QUIRE_SEVERITY_WARNING, place, format, arguments);
  va_end(arguments);
}

/* Insertion sort: few, nearly sorted, and findings of one place keep their order. */
static void sort(quire_noted_finding *findings, size_t count) {
  for (size_t i = 1; i < count; ++i) {
    quire_noted_finding finding = findings[i];
    size_t j = i;
    for (; j > 0 && findings[j - 1].offset > finding.offset; --j) {
      findings[j] = findings[j - 1];
    }
    findings[j] = finding;
  }
}

quire_status quire_loader_finish(quire_loader *loader, quire_finding_function *report, void *user,
                                 quire_error *error) {
  if (loader->out_of_memory) {
    return quire_fail_memory(error);
  }
  sort(loader->findings, loader->finding_count);
  const quire_noted_finding *first = NULL;
  for (size_t i = 0; i < loader->finding_count; ++i) {
    const quire_noted_finding *noted = &loader->findings[i];
    if (noted->severity == QUIRE_SEVERITY_ERROR && first == NULL) {
      first = noted;
    }
    if (report != NULL) {
      quire_finding finding = {noted->severity, noted->path,
                               quire_json_line(loader->text, noted->offset), noted->message};
      report(user, &finding);
    }
  }
  if (!loader->failed) {
    return QUIRE_OK;
  }
  if (first == NULL) { /* the list was full of warnings */
    return quire_fail(error, QUIRE_BAD_MANIFEST, NULL, "$", "too many findings");
  }
  return quire_fail(error, QUIRE_BAD_MANIFEST, NULL, first->path, "%s (line %zu)", first->message,
                    quire_json_line(loader->text, first->offset));
}
