/*
 * What the files that load a manifest share. Loading goes on past faults: every fault is noted, the
 * thing it is about is left out, and the manifest is thrown away at the end. So loading and linting
 * are one walk. Private to runtime/manifest.
 */
#ifndef QUIRE_MANIFEST_MANIFEST_LOADER_H
#define QUIRE_MANIFEST_MANIFEST_LOADER_H

#include <jansson.h>

#include "manifest.h"
#include "manifest_json.h"

/* Limits of the language (docs/manifest-language.md 12), and of the loader, so that no text costs
 * much. */
enum {
  QUIRE_MANIFEST_MAX_BYTES = 1 << 20,
  QUIRE_MANIFEST_MAX_NESTING = 32,
  QUIRE_MANIFEST_MAX_ITEMS = 1024,        /* members of a map, elements of a list */
  QUIRE_MANIFEST_MAX_EXPRESSIONS = 65536, /* shared bindings count once a pass */
  QUIRE_MANIFEST_MAX_SOURCE = 4 << 20,    /* bytes of all expressions, likewise */
  QUIRE_MANIFEST_MAX_DERIVED_NESTING = 64,
  QUIRE_MANIFEST_MAX_NAME = 128,
  QUIRE_MANIFEST_MAX_FINDINGS = 200
};

typedef struct quire_noted_finding {
  quire_severity severity;
  size_t offset;
  const char *path;
  const char *message;
} quire_noted_finding;

/* Names that are collected while expressions are compiled: limits, adapter properties. */
typedef struct quire_name_list {
  const char **names;
  size_t count;
} quire_name_list;

typedef struct quire_loader {
  quire_manifest *manifest; /* being filled */
  quire_arena *arena;       /* the manifest's */
  quire_arena scratch;      /* until loading ends */
  const char *text;
  size_t length;
  json_t *root;
  quire_noted_finding findings[QUIRE_MANIFEST_MAX_FINDINGS];
  size_t finding_count;
  bool failed;
  bool out_of_memory;
  bool lint;
  size_t expressions;
  size_t source_bytes;
  quire_name_list limits;
  quire_name_list adapter_keys;
  json_t *shared; /* `bindings` */
  bool *asked;    /* by tensor key: some text asks whether it is present */
} quire_loader;

/* ---- manifest_findings.c ---- */

void quire_loader_fault(quire_loader *loader, const quire_json_place *place, const char *format,
                        ...) QUIRE_PRINTF(3, 4);
void quire_loader_warn(quire_loader *loader, const quire_json_place *place, const char *format, ...)
    QUIRE_PRINTF(3, 4);
/* Sorts by place and reports; the first fault goes to *error. */
quire_status quire_loader_finish(quire_loader *loader, quire_finding_function *report, void *user,
                                 quire_error *error);

/* ---- manifest_access.c: memory and JSON values with their faults ---- */

/* Zeroed, in the manifest's arena; NULL sets out_of_memory. */
void *quire_loader_array(quire_loader *loader, size_t count, size_t size);
void *quire_loader_scratch(quire_loader *loader, size_t count, size_t size);
/* Copy of a JSON string's text; "" if memory is out. */
const char *quire_loader_copy(quire_loader *loader, const char *text);

bool quire_is_name(const char *text);       /* [A-Za-z_][A-Za-z0-9_]*, at most 128 */
bool quire_is_identifier(const char *text); /* letters, digits, _, at most 128 */

/* Checks the members of a fixed object; `allowed` ends with NULL. False if it is no object, or has
   a member that is not supported. */
bool quire_loader_object(quire_loader *loader, json_t *json, const quire_json_place *place,
                         const char *const *allowed);
/* Checks that it is a map: names as keys, $comment. Returns the number of names; 0 for NULL. */
size_t quire_loader_map(quire_loader *loader, json_t *json, const quire_json_place *place);
/* True for the keys of a map that are no entries. */
bool quire_is_comment(const char *key);
/* Checks that it is a list; returns its length, 0 for NULL. */
size_t quire_loader_list(quire_loader *loader, json_t *json, const quire_json_place *place);
/* A member's string; NULL if it is absent or, with a fault, no string. */
const char *quire_loader_string(quire_loader *loader, json_t *object, const char *key,
                                const quire_json_place *place);
/* A member's boolean, or `fallback`. */
bool quire_loader_boolean(quire_loader *loader, json_t *object, const char *key,
                          const quire_json_place *place, bool fallback);
/* A number, string or boolean; UNDEFINED with a fault for anything else. Strings are copied. */
quire_value quire_loader_scalar(quire_loader *loader, json_t *json, const quire_json_place *place);
/* The value of a JSON number. */
quire_value quire_json_number(json_t *json);

/* ---- manifest_names.c: scopes ---- */

/* What a text can see. */
typedef struct quire_scope {
  const quire_manifest *manifest;
  quire_loader *loader;                                  /* NULL: the manifest is loaded already */
  const quire_manifest_layer *layers[QUIRE_LAYER_COUNT]; /* NULL: not visible */
  int32_t own_layer;   /* of the derived name whose text it is; -1: a place */
  size_t own_position; /* of that name in its map */
  bool symbols;        /* pass text */
  bool shared;         /* text of a shared binding: kernel names and symbols only */
  bool variant_tunables;
} quire_scope;

quire_scope quire_scope_kernel(quire_loader *loader);
quire_resolve_function quire_scope_resolve; /* user: the scope */
/* A derived name or symbol of a $NAME; false if there is none that the scope sees. */
bool quire_scope_find(const quire_scope *scope, const char *name, size_t length, quire_ref *ref);
bool quire_is_reserved(const quire_manifest *manifest, const char *name);
int32_t quire_name_list_add(quire_loader *loader, quire_name_list *list, const char *name,
                            size_t length);

/* ---- manifest_expressions.c ---- */

/* Text, number or boolean. NULL with a fault. */
const quire_expr *quire_loader_expression(quire_scope *scope, json_t *json,
                                          const quire_json_place *place);
/* Text of the loader's own, such as a bare name. */
const quire_expr *quire_loader_compile(quire_scope *scope, const char *text,
                                       const quire_json_place *place);
/* Text or boolean. */
const quire_expr *quire_loader_clause(quire_scope *scope, json_t *json,
                                      const quire_json_place *place);
/* A list of clauses; NULL json: none. */
const quire_expr *const *quire_loader_clauses(quire_scope *scope, json_t *json,
                                              const quire_json_place *place, size_t *count);
/* `numbers`: a number is allowed in place of a list. */
void quire_loader_shape(quire_scope *scope, json_t *json, const quire_json_place *place,
                        bool numbers, quire_shape_expr *shape);

/* ---- the parts ---- */

void quire_load_symbols(quire_loader *loader);
void quire_load_tensor_names(quire_loader *loader); /* keys, types, names */
void quire_load_tensor_texts(quire_loader *loader); /* shapes, ranks, conditions */
void quire_load_attributes(quire_loader *loader);
void quire_load_tunables(quire_loader *loader);
void quire_load_variant_tunables(quire_loader *loader, json_t *map, const quire_json_place *place,
                                 quire_manifest_variant *variant);
void quire_load_rules(quire_loader *loader);
void quire_load_contract(quire_loader *loader);
bool quire_load_status(quire_loader *loader, json_t *object, const quire_json_place *place,
                       quire_rule *rule);
void quire_load_variants(quire_loader *loader);
/* requires; NULL json: none. *backend may be NULL: then the member is not allowed. */
void quire_load_requires(quire_loader *loader, json_t *json, const quire_json_place *place,
                         quire_manifest_requires *requires, const char **backend);

/* Names of a layer, texts not compiled yet. */
void quire_load_layer_names(quire_loader *loader, json_t *json, const quire_json_place *place,
                            quire_manifest_layer *layer);
/*
 * Compiles the texts of a layer and checks it for cycles and nesting. `depths` holds the nesting of
 * the names of the outer layers, and gets that of this one.
 */
void quire_load_layer_texts(quire_scope *scope, json_t *json, const quire_json_place *place,
                            int32_t layer, const uint8_t **depths);

/* Bindings of a pass. */
void quire_load_bindings(quire_scope *scope, json_t *json, const quire_json_place *place,
                         const quire_manifest_variant *variant, quire_manifest_pass *pass);
/* Checks the shared bindings as far as no variant matters. */
void quire_load_shared_bindings(quire_loader *loader);
void quire_load_passes(quire_scope *scope, json_t *json, const quire_json_place *place,
                       quire_manifest_variant *variant, const uint8_t **depths);

/* ---- manifest_lint.c ---- */

/* Warnings about a manifest that loaded. */
void quire_lint(quire_loader *loader);

#endif
