/*
 * Memory between forbidden pages, filled with secrets. What is placed in it touches one of the two
 * forbidden pages; the secrets on its other side are canaries.
 */
#ifndef QUIRE_TESTS_ISOLATION_MEMORY_H
#define QUIRE_TESTS_ISOLATION_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

#include "quire/quire.h"

enum { ISO_WORLDS = 2, ISO_CANARY_BYTES = 512 };

typedef struct iso_arena {
  unsigned char *begin; /* the first page that may be touched */
  size_t bytes;
  unsigned char *window; /* what a run may see: data and canaries */
  size_t window_bytes, canary_bytes;
  unsigned char *before; /* a copy of the window */
} iso_arena;

/* Fails the test if memory cannot be had. */
void iso_arena_open(iso_arena *arena, size_t bytes);
void iso_arena_close(iso_arena *arena);
/* Chooses the place of `bytes` bytes: up to the last forbidden page, or from the first on. */
unsigned char *iso_arena_place(iso_arena *arena, size_t bytes, bool at_end);
/* Keeps a copy of the window; whether the window still is as that copy. */
void iso_arena_keep(iso_arena *arena);
bool iso_arena_is_kept(const iso_arena *arena);

/*
 * Secrets of a world for elements of a type. World 0: NaN, and integers that are out of every
 * range; world 1: numbers, and integers that are in range.
 */
void iso_secrets(quire_dtype dtype, int world, unsigned char *to, size_t bytes);

#endif
