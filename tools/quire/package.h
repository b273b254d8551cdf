/* The files of a manifest's package. */
#ifndef QUIRE_TOOL_PACKAGE_H
#define QUIRE_TOOL_PACKAGE_H

#include "quire/context.h"

/* A package on disk: the folder of a manifest file, or one that the user names. */
typedef struct quire_package {
  quire_package_options options; /* reads through the package, which must stay where it is */
  char *root;
  quire_error fault; /* of the first file that is there and cannot be read; status OK: none */
} quire_package;

/*
 * The package of the manifest at `manifest` ("-": the current folder). `folder` is its root, NULL:
 * the manifest's folder; the manifest's own place in it is found if it lies below. Statuses:
 * OUT_OF_MEMORY.
 */
quire_status quire_package_open(const char *manifest, const char *folder, quire_package *package,
                                quire_error *error);
/* Lets a failure of loading with the package's options say more, if a file was the reason. */
void quire_package_explain(const quire_package *package, quire_error *error);
void quire_package_release(quire_package *package);

#endif
