/*
 * Rendering: a pass's template and the declarations made from its bindings become WGSL
 * (docs/manifest-language.md sections 10 to 12). Touches no device.
 */
#ifndef QUIRE_TEMPLATE_TEMPLATE_H
#define QUIRE_TEMPLATE_TEMPLATE_H

#include <stdbool.h>
#include <stddef.h>

#include "planner.h"
#include "quire/status.h"
#include "text.h"

/* Limits of the language that this module keeps (section 12). */
enum {
  QUIRE_TEMPLATE_MAX_TEXT = 1024 * 1024, /* bytes: of a text with its includes, and rendered */
  QUIRE_TEMPLATE_MAX_ROUNDS = 100000,    /* of all loops of a rendering together */
  QUIRE_TEMPLATE_MAX_DEPTH = 16,         /* includes in includes, macros in macros */
  QUIRE_TEMPLATE_MAX_INCLUDES = 10000,   /* of one template, includes of includes counted */
  QUIRE_TEMPLATE_MAX_BLOCKS = 64,        /* if, for and macro inside each other */
  QUIRE_TEMPLATE_MAX_NAMES = 4096,       /* different ones that its expressions mention */
  QUIRE_TEMPLATE_MAX_PATH = 256          /* bytes of a file's path in its package */
};

/*
 * The files of a package. `find` gives the text of a path from the package's root ("common/x.wgsl",
 * no leading slash, no "." or ".." parts); it stays valid as long as the source. False: there is no
 * such file. Called from any thread.
 */
typedef struct quire_template_source {
  bool (*find)(const void *user, const char *path, const char **text, size_t *length);
  const void *user;
  const char *folder; /* of the manifest, from the package's root; "": the root itself */
} quire_template_source;

/*
 * Appends the WGSL of pass `pass` (which has a shader, not a native kernel) to `out`. The
 * description must be one that planning made, and what its target borrows must still be there.
 * source NULL: there are no files. On failure nothing is appended. Thread-safe.
 *
 * Statuses: NOT_FOUND (no such file), BAD_MANIFEST (a fault in a text, an evaluation error), LIMIT
 * (section 12; a number out of 64 bits), OUT_OF_MEMORY. The subject is FILE:LINE:COLUMN.
 */
quire_status quire_template_render(const quire_plan_description *description, size_t pass,
                                   const quire_template_source *source, quire_text *out,
                                   quire_error *error);

/*
 * The one form of a template's path from the package's root, as `find` is given it. False: it is no
 * path in the package, and there is no such file.
 */
bool quire_template_path(const char *folder, const char *shader, char out[QUIRE_TEMPLATE_MAX_PATH]);

/*
 * Checks what can be checked without a plan: that all files are there, and what is wrong with their
 * texts. Statuses as above.
 */
quire_status quire_template_check(const char *shader, const quire_template_source *source,
                                  const quire_allocator *allocator, quire_error *error);

#endif
