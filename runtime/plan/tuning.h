/*
 * Tuned values: what a search on a device found to be fast, as a JSON text that devices are opened
 * with (docs/webgpu.md). They are only ever suggestions: a plan is made without them first, and
 * again with them, and they count if that gives the same variant.
 */
#ifndef QUIRE_PLAN_TUNING_H
#define QUIRE_PLAN_TUNING_H

#include "planner.h"
#include "text.h"

/* Values for one class of calls. An entry holds for a plan if all texts of the key are equal. */
typedef struct quire_tuning_entry {
  const char *op;       /* qualified name */
  const char *manifest; /* since-version and digest of its text */
  const char *variant;
  const char *adapter;
  const char *problem; /* the class of the call */
  const quire_named_value *tunables;
  size_t tunable_count;
} quire_tuning_entry;

typedef struct quire_tuning {
  const quire_tuning_entry *entries;
  size_t count;
} quire_tuning;

/* Reads a text; everything in `arena`. BAD_REQUEST with the JSON path, LIMIT, OUT_OF_MEMORY. */
quire_status quire_tuning_parse(const char *text, size_t length, quire_arena *arena,
                                quire_tuning *tuning, quire_error *error);

/* ---- keys ---- */

/* "1-0123456789abcdef" */
void quire_tuning_write_manifest(const quire_manifest *manifest, quire_text *out);
/* Vendor, architecture, device and driver, as the target's adapter tells them; nothing if it has no
   name. */
void quire_tuning_write_adapter(const quire_target *target, quire_text *out);
/*
 * What calls must have in common: attributes (of floats only whether they are zero), and types and
 * shapes of the inputs that are present, dimensions rounded up to powers of two.
 */
void quire_tuning_write_problem(const quire_manifest *manifest, const quire_plan_tensor *inputs,
                                const quire_value *attributes, quire_text *out);

/* The entry for a call and variant, or NULL. False: out of memory. */
bool quire_tuning_find(const quire_tuning *tuning, const quire_manifest *manifest, int32_t variant,
                       const quire_target *target, const quire_plan_tensor *inputs,
                       const quire_value *attributes, const quire_allocator *allocator,
                       const quire_tuning_entry **entry);

/* Why the values of an entry cannot be used, told about *tunable; NULL: each is one of the choices
   that the manifest declares. */
const char *quire_tuning_fault(const quire_manifest *manifest, const quire_tuning_entry *entry,
                               const char **tunable);

#endif
