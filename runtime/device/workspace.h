/* The memory of a workspace while a plan is being prepared. */
#ifndef QUIRE_DEVICE_WORKSPACE_H
#define QUIRE_DEVICE_WORKSPACE_H

#include "backend.h"

/* Every intermediate begins at a multiple of this. */
enum { QUIRE_WORKSPACE_ALIGNMENT = 64 };

/* What quire_workspace_reserve put aside, to be given to exactly one of commit and revert. */
typedef struct quire_workspace_hold {
  bool replaced; /* false: the memory did not change */
  unsigned char *memory;
  size_t bytes;
} quire_workspace_hold;

/*
 * Makes room for `bytes`. On success the old memory is put aside in *hold. On failure nothing has
 * changed: LIMIT if the caller's memory is too small, OUT_OF_MEMORY.
 */
quire_status quire_workspace_reserve(quire_workspace *workspace, size_t bytes,
                                     quire_workspace_hold *hold, quire_error *error);
/* Frees what was put aside and counts the growth. */
void quire_workspace_commit(quire_workspace *workspace, quire_workspace_hold *hold);
/* Frees the new memory and takes the old one back. */
void quire_workspace_revert(quire_workspace *workspace, quire_workspace_hold *hold);

#endif
