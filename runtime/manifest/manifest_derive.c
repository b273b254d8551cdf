/* Derived names: layers, cycles, nesting (docs/manifest-language.md 4). */
#include <stdio.h>
#include <string.h>

#include "manifest_loader.h"

void quire_load_layer_names(quire_loader *loader, json_t *json, const quire_json_place *place,
                            quire_manifest_layer *layer) {
  size_t count = quire_loader_map(loader, json, place);
  quire_manifest_name *names = quire_loader_array(loader, count, sizeof *names);
  layer->names = names;
  layer->count = 0;
  if (names == NULL || count == 0) {
    return;
  }
  const char *key = NULL;
  json_t *value = NULL;
  json_object_foreach(json, key, value) {
    if (quire_is_comment(key)) {
      continue;
    }
    names[layer->count++].name = quire_loader_copy(loader, key);
    if (quire_is_reserved(loader->manifest, key)) {
      quire_json_place member = quire_json_member(place, key);
      quire_loader_fault(loader, &member, "`%.60s` is reserved", key);
    }
  }
}

/* ---- cycles ---- */

/* Values of `depths` while a layer is checked; others are the nesting that was found. */
enum { not_visited = 0, being_visited = 255 };

typedef struct quire_cycle_check {
  quire_loader *loader;
  const quire_json_place *place;
  const quire_manifest_layer *layer;
  int32_t layer_index;
  const uint8_t *const *outer; /* depths of the layers outside */
  uint8_t *depths;             /* of this layer */
  int32_t path[QUIRE_MANIFEST_MAX_DERIVED_NESTING + 1];
  size_t path_length;
  bool reported; /* that names nest too deep */
} quire_cycle_check;

static void report_cycle(quire_cycle_check *check, int32_t index) {
  char text[300] = "";
  size_t used = 0;
  size_t first = 0;
  while (first < check->path_length && check->path[first] != index) {
    ++first;
  }
  for (size_t i = first; i < check->path_length && used < sizeof text - 1; ++i) {
    int written = snprintf(text + used, sizeof text - used, "%s -> ",
                           check->layer->names[check->path[i]].name);
    used += written > 0 ? (size_t)written : 0;
  }
  quire_json_place member = quire_json_member(check->place, check->layer->names[index].name);
  quire_loader_fault(check->loader, &member, "refers to itself: %s%s", text,
                     check->layer->names[index].name);
}

/*
 * Nesting of a name: 1 more than the deepest name that its text mentions. Names nest 64 deep at
 * most, and so does this.
 */
static uint8_t visit(quire_cycle_check *check, int32_t index) {
  if (check->depths[index] == being_visited) {
    report_cycle(check, index);
    return 1;
  }
  if (check->depths[index] != not_visited) {
    return check->depths[index];
  }
  const quire_expr *expr = check->layer->names[index].expr;
  size_t count = expr == NULL ? 0 : quire_expr_ref_count(expr);
  if (check->path_length > QUIRE_MANIFEST_MAX_DERIVED_NESTING) {
    return (uint8_t)(QUIRE_MANIFEST_MAX_DERIVED_NESTING + 1);
  }
  check->depths[index] = being_visited;
  check->path[check->path_length++] = index;
  unsigned deepest = 0;
  for (size_t i = 0; i < count; ++i) {
    const quire_ref *ref = &quire_expr_refs(expr)[i];
    unsigned depth = 0;
    if (ref->kind != QUIRE_REF_DERIVED) {
      continue;
    }
    depth = ref->layer == check->layer_index ? visit(check, ref->index)
                                             : check->outer[ref->layer][ref->index];
    deepest = depth > deepest ? depth : deepest;
  }
  --check->path_length;
  if (deepest >= QUIRE_MANIFEST_MAX_DERIVED_NESTING) {
    if (!check->reported) {
      quire_json_place member = quire_json_member(check->place, check->layer->names[index].name);
      quire_loader_fault(check->loader, &member, "derived names nest more than %d deep",
                         QUIRE_MANIFEST_MAX_DERIVED_NESTING);
    }
    check->reported = true;
    deepest = QUIRE_MANIFEST_MAX_DERIVED_NESTING;
  }
  check->depths[index] = (uint8_t)(deepest + 1);
  return check->depths[index];
}

void quire_load_layer_texts(quire_scope *scope, json_t *json, const quire_json_place *place,
                            int32_t layer, const uint8_t **depths) {
  quire_loader *loader = scope->loader;
  /* The names were made by the function above; the manifest only shows them as constant. */
  quire_manifest_name *names = (quire_manifest_name *)scope->layers[layer]->names;
  size_t count = scope->layers[layer]->count;
  quire_cycle_check check = {.loader = loader,
                             .place = place,
                             .layer = scope->layers[layer],
                             .layer_index = layer,
                             .outer = depths,
                             .depths = quire_loader_scratch(loader, count, 1)};
  depths[layer] = check.depths;
  if (check.depths == NULL || names == NULL) {
    return;
  }
  scope->own_layer = layer;
  for (size_t i = 0; i < count; ++i) {
    quire_json_place member = quire_json_member(place, names[i].name);
    scope->own_position = i;
    names[i].expr = quire_loader_expression(scope, json_object_get(json, names[i].name), &member);
  }
  scope->own_layer = -1;
  for (size_t i = 0; i < count; ++i) {
    visit(&check, (int32_t)i);
  }
}
