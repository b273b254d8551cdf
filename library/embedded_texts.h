/* The built-in manifests and templates, as a file that the build writes
   (cmake/QuireEmbedTexts.cmake). */
#ifndef QUIRE_LIBRARY_EMBEDDED_TEXTS_H
#define QUIRE_LIBRARY_EMBEDDED_TEXTS_H

#include <stddef.h>

typedef struct quire_embedded_text {
  const char *path; /* from the folder of the kernels: "paged_attention/manifest.json" */
  const char *data;
  size_t length;
} quire_embedded_text;

/* Each list has one more record at its end, which does not count. */
extern const quire_embedded_text quire_embedded_manifests[];
extern const size_t quire_embedded_manifest_count;
extern const quire_embedded_text quire_embedded_templates[];
extern const size_t quire_embedded_template_count;

#endif
