/* Native kernels that a manifest may name. Immutable once built; borrowed lists. */
#ifndef QUIRE_PLAN_REGISTRY_H
#define QUIRE_PLAN_REGISTRY_H

#include "manifest.h"
#include "pass.h"

typedef struct quire_registry {
  const quire_implementation_list *lists;
  size_t count;
} quire_registry;

/* The kernel's first implementation (its bindings and uniforms are those of all), or NULL. */
const quire_implementation *quire_registry_find(const quire_registry *registry, const char *kernel);

/*
 * Checks every native pass of a manifest against the registry: the kernel exists, bindings agree by
 * name and order (an optional tail may be missing in neither), uniforms agree. BAD_MANIFEST with
 * the variant, pass and difference.
 */
quire_status quire_registry_check(const quire_registry *registry, const quire_manifest *manifest,
                                  quire_error *error);

#endif
