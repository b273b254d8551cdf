/* From a pass of a plan to WGSL: text, tree, rendering, declarations. */
#include "template.h"

#include <string.h>

#include "error.h"
#include "template_parts.h"

/* Structs and bindings as a string in the rendering's arena; false without memory. */
static bool make_declarations(const quire_plan_pass *pass, quire_arena *arena, quire_value *out) {
  quire_text text;
  quire_text_init(&text, arena->allocator);
  quire_template_declare(pass, &text);
  const char *copy =
      text.failed ? NULL : quire_arena_copy(arena, quire_text_view(&text), text.length);
  *out = quire_value_string(copy, text.length);
  quire_text_release(&text);
  return copy != NULL;
}

/* Renders into `body`, and puts all of it together at the end of `out`. */
static void render(quire_template_rendering *rendering, quire_arena *arena, quire_text *body,
                   quire_text *out) {
  const quire_plan_description *description = rendering->description;
  quire_template_fault *fault = rendering->fault;
  rendering->names = quire_plan_names_open(description, rendering->pass, arena);
  rendering->out = body;
  if (rendering->names == NULL ||
      !make_declarations(&description->passes[rendering->pass], arena, &rendering->declarations)) {
    quire_template_fault_memory(fault);
    return;
  }
  if (!quire_template_parse(rendering->made) || !quire_template_write(rendering)) {
    return;
  }
  size_t before = out->length;
  quire_template_finish(body, &rendering->declarations, rendering->declarations_were_asked, out);
  if (out->failed) {
    quire_template_fault_memory(fault);
  } else if (out->length - before > QUIRE_TEMPLATE_MAX_TEXT) {
    quire_template_fault_set(fault, "limit", 0, "more than %d bytes are rendered",
                             QUIRE_TEMPLATE_MAX_TEXT);
  }
  if (fault->failed && out->length > before) {
    out->length = before;
    out->data[before] = '\0';
  }
}

quire_status quire_template_check(const char *shader, const quire_template_source *source,
                                  const quire_allocator *allocator, quire_error *error) {
  quire_arena arena;
  quire_arena_init(&arena, allocator);
  quire_template_fault fault = {.status = QUIRE_OK};
  quire_template_text text = {.arena = &arena, .source = source, .fault = &fault};
  quire_template made = {.arena = &arena, .fault = &fault};
  quire_text_init(&text.bytes, allocator);
  if (quire_template_text_load(&text, shader)) {
    made.text = quire_text_view(&text.bytes);
    made.length = text.bytes.length;
    (void)quire_template_parse(&made);
  }
  quire_status status = fault.failed ? quire_template_fault_report(&text, error) : QUIRE_OK;
  quire_text_release(&text.bytes);
  quire_arena_release(&arena);
  return status;
}

quire_status quire_template_render(const quire_plan_description *description, size_t pass,
                                   const quire_template_source *source, quire_text *out,
                                   quire_error *error) {
  quire_arena arena;
  quire_arena_init(&arena, out->allocator);
  quire_template_fault fault = {.status = QUIRE_OK};
  quire_template_text text = {.arena = &arena, .source = source, .fault = &fault};
  quire_template made = {.arena = &arena, .fault = &fault};
  quire_template_rendering rendering = {
      .made = &made, .fault = &fault, .description = description, .pass = pass};
  quire_text body;
  quire_text_init(&text.bytes, out->allocator);
  quire_text_init(&body, out->allocator);
  if (quire_template_text_load(&text, description->passes[pass].manifest->shader)) {
    made.text = quire_text_view(&text.bytes);
    made.length = text.bytes.length;
    render(&rendering, &arena, &body, out);
  }
  quire_status status = fault.failed ? quire_template_fault_report(&text, error) : QUIRE_OK;
  quire_text_release(&body);
  quire_text_release(&text.bytes);
  quire_arena_release(&arena);
  return status;
}
