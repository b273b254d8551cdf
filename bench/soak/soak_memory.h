/* How much memory the process and the library hold. */
#ifndef QUIRE_SOAK_MEMORY_H
#define QUIRE_SOAK_MEMORY_H

#include <stddef.h>

#include "quire/quire.h"

/* The C library's allocator, with what is outstanding. Thread-safe. */
extern const quire_allocator soak_allocator;
size_t soak_live_bytes(void);
size_t soak_live_blocks(void);
/* Resident memory of the process; 0: unknown. */
size_t soak_resident_bytes(void);

#endif
