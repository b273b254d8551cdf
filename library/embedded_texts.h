/* The built-in manifests, as a file that the build writes (cmake/QuireEmbedTexts.cmake). */
#ifndef QUIRE_LIBRARY_EMBEDDED_TEXTS_H
#define QUIRE_LIBRARY_EMBEDDED_TEXTS_H

#include <stddef.h>

typedef struct quire_embedded_text {
  const char *data;
  size_t length;
} quire_embedded_text;

extern const quire_embedded_text quire_embedded_manifests[];
extern const size_t quire_embedded_manifest_count;

#endif
