/* What the planner's tests share: manifests and requests in short JSON, and comparison of JSON. */
#ifndef PLAN_FIXTURE_H
#define PLAN_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>

#include "planner.h"

/* Rows of tables end where nothing more is to be said. */
#if defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#endif

/* JSON for tables: ' stands for ", and ` for the ' of expressions. Need not parse. To be freed. */
char *fixture_text(const char *text);

/* The same, parsed; NULL is {}. Fails the test if it does not parse. The caller releases the
 * result.
 */
json_t *fixture_json(const char *text);

/* Lays `overlay` over `base`: objects are merged, null removes, all else replaces. */
void fixture_merge(json_t *base, const json_t *overlay);

/* Loads a manifest; fails the test with the error if it does not load. */
quire_manifest *fixture_load(const json_t *manifest);
/* The same from such a text. */
quire_manifest *fixture_load_text(const char *text);

/* What planning says, three times: as JSON, as text, and as the status of a description. */
typedef struct fixture_result {
  quire_status status;
  quire_error error;
  json_t *json; /* NULL if nothing was written */
  char *text;   /* "" if nothing was written */
} fixture_result;

/*
 * Plans a JSON request with explanation and without; fails the test if the two disagree. `variant`
 * may be NULL.
 */
fixture_result fixture_plan(const quire_manifest *manifest, const char *request, size_t length,
                            const quire_registry *registry, quire_isa isa, const char *variant);
void fixture_release(fixture_result *result);

/*
 * First difference between two JSON values, numbers by value, as a path with both values; "" if
 * there is none. With `subset`, members of objects that `want` lacks are ignored.
 */
const char *fixture_difference(const json_t *got, const json_t *want, int subset);

/* A row of a table: overlays, and what must come out. */
typedef struct fixture_case {
  const char *name;
  const char *manifest; /* over the base manifest */
  const char *request;  /* over the base request */
  quire_status status;
  const char *expect;  /* subset of the JSON */
  const char *rule;    /* of the error; NULL: not looked at */
  const char *subject; /* likewise */
  const char *message; /* part of the error's message, or of the text of a plan */
  const char *variant; /* insisted on; or NULL */
} fixture_case;

/* Runs all rows, reports every failure, and fails the test if there was one. */
void fixture_run(const char *base_manifest, const char *base_request, const fixture_case *cases,
                 size_t count, const quire_registry *registry, quire_isa isa);

#endif
