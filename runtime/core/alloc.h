/* The one allocator interface, and an arena on top of it. */
#ifndef QUIRE_CORE_ALLOC_H
#define QUIRE_CORE_ALLOC_H

#include <stdbool.h>
#include <stddef.h>

#include "quire/context.h"

/* The C library's allocator. */
extern const quire_allocator quire_default_allocator;

/* NULL on failure. bytes may be 0 (returns a pointer that may be freed). */
void *quire_alloc(const quire_allocator *allocator, size_t bytes, size_t alignment);
/* Zeroed array, natural alignment; NULL on failure or overflow of count * size. */
void *quire_alloc_array(const quire_allocator *allocator, size_t count, size_t size);
/* memory may be NULL. bytes and alignment as given to quire_alloc (arrays: count * size, and
   QUIRE_ALLOC_ALIGNMENT). */
void quire_dealloc(const quire_allocator *allocator, void *memory, size_t bytes, size_t alignment);

enum { QUIRE_ALLOC_ALIGNMENT = 16 };

/* Memory that is released all at once. Blocks double up to 64 KiB. Not thread-safe. */
typedef struct quire_arena_block quire_arena_block;
typedef struct quire_arena {
  const quire_allocator *allocator;
  quire_arena_block *blocks;
  char *next;
  size_t left;
} quire_arena;

void quire_arena_init(quire_arena *arena, const quire_allocator *allocator);
/* A first block that is not freed: avoids the heap for small uses. memory is 16-byte aligned. */
void quire_arena_init_with(quire_arena *arena, const quire_allocator *allocator, void *memory,
                           size_t bytes);
/* 16-byte aligned, not zeroed; NULL on failure. */
void *quire_arena_alloc(quire_arena *arena, size_t bytes);
/* Zeroed array; NULL on failure or overflow. */
void *quire_arena_array(quire_arena *arena, size_t count, size_t size);
/* Copy that ends with a zero byte; NULL on failure. */
char *quire_arena_copy(quire_arena *arena, const char *text, size_t length);
void quire_arena_release(quire_arena *arena);

#endif
