/*
 * Red zones in a workspace: bytes in front of, between and behind its intermediates that no kernel
 * may write. In checked builds only (CMake option QUIRE_RED_ZONES): AddressSanitizer stops at the
 * access itself, where it is there and the memory is the library's own; elsewhere a pattern is
 * compared.
 */
#ifndef QUIRE_DEVICE_RED_ZONES_H
#define QUIRE_DEVICE_RED_ZONES_H

#include "backend.h"

#ifdef QUIRE_WITH_RED_ZONES

enum { QUIRE_RED_ZONE = 64 };

/* Lays the zones of a plan into its workspace, in place of those of an earlier plan. */
void quire_red_zones_lay(const quire_plan *plan, const quire_workspace *workspace);
/* INTERNAL, with the intermediate's name, if a zone was written since. */
quire_status quire_red_zones_check(const quire_plan *plan, const quire_workspace *workspace,
                                   quire_error *error);
/* Makes the library's memory accessible as a whole, before it is given back. */
void quire_red_zones_lift(void *memory, size_t bytes);

#else

enum { QUIRE_RED_ZONE = 0 };

static inline void quire_red_zones_lay(const quire_plan *plan, const quire_workspace *workspace) {
  (void)plan;
  (void)workspace;
}
static inline quire_status quire_red_zones_check(const quire_plan *plan,
                                                 const quire_workspace *workspace,
                                                 quire_error *error) {
  (void)plan;
  (void)workspace;
  (void)error;
  return QUIRE_OK;
}
static inline void quire_red_zones_lift(void *memory, size_t bytes) {
  (void)memory;
  (void)bytes;
}

#endif

#endif
