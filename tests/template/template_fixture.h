/* A small plan, and templates rendered over it from texts in memory. */
#ifndef TEMPLATE_FIXTURE_H
#define TEMPLATE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "template.h"

/* One file of a package. */
typedef struct template_file {
  const char *path;
  const char *text;
} template_file;

enum { TEMPLATE_MOST_FILES = 8 };

typedef struct template_world {
  quire_manifest *manifest;
  quire_arena arena;
  quire_plan_description description;
  template_file files[TEMPLATE_MOST_FILES + 1]; /* ends with a NULL path */
  quire_template_source source;
  char result[1 << 12];
} template_world;

/*
 * Plans a call of a small operator: T is f16, x [2, 6] float16, attributes a = 3, s = "text",
 * factor = 0.5; derived names, two passes (the second without template text of its own), a scratch
 * buffer, an absent optional binding.
 */
void template_world_create(template_world *world);
void template_world_destroy(template_world *world);

/*
 * The text of the first pass whose template is `text`, or "STATUS SUBJECT: MESSAGE". The text
 * before a line "@@" is what is rendered and compared; generated declarations are left out if the
 * template does not print them.
 */
const char *template_render(template_world *world, const char *text);
/* The same with all declarations, by the world's own files. */
const char *template_render_pass(template_world *world, size_t pass,
                                 const quire_allocator *allocator);

#endif
