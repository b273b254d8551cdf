/* What the operating system tells about the machine. The one file of the CPU device that is POSIX.
 */
#ifndef QUIRE_DEVICE_CPU_HOST_H
#define QUIRE_DEVICE_CPU_HOST_H

#include <stdbool.h>
#include <stddef.h>

/* Processors that this process may use, at least 1. */
size_t quire_host_processors(void);

/* The processor that the calling thread is on; -1 if unknown. It may be another one the next
 * moment. */
int quire_host_processor(void);
/* Moves the calling thread to another of its processors, if it has any and the system lets it. */
void quire_host_leave_processor(int processor);

/* Whether the system lets processes use matrix tiles (AMX). Whoever does asks for permission first.
 */
bool quire_host_offers_tiles(void);

/* Bytes of the data (or unified) cache of level 1 to 3 as one core sees it; 0 if unknown. */
size_t quire_host_cache_bytes(int level);

/* Copies the processor's name, cut where it does not fit; "" if unknown. */
void quire_host_model(char *name, size_t size);

#endif
