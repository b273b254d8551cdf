/* The templates of a manifest that is loaded with its package. */
#ifndef QUIRE_LIBRARY_OPERATOR_PACKAGE_H
#define QUIRE_LIBRARY_OPERATOR_PACKAGE_H

#include "quire/context.h"
#include "template.h"

/*
 * Reads every file that the manifest's shaders need and keeps them in the manifest's memory.
 * Missing and faulty ones are no failure. Statuses: BAD_REQUEST (struct_size), OUT_OF_MEMORY, those
 * of the caller's function.
 */
quire_status quire_package_read(const quire_package_options *options, quire_manifest *manifest,
                                const quire_template_source **source, quire_error *error);

/*
 * Reads them and reports all that is missing or faulty: BAD_MANIFEST then. `text` is the
 * manifest's, for the lines; report may be NULL.
 */
quire_status quire_package_lint(const quire_package_options *options, quire_manifest *manifest,
                                const char *text, size_t length, quire_finding_function *report,
                                void *user, quire_error *error);

#endif
