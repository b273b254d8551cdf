#include "alloc.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "checked.h"

static void *system_allocate(void *user, size_t bytes, size_t alignment) {
  (void)user;
  if (alignment <= QUIRE_ALLOC_ALIGNMENT) {
    return malloc(bytes == 0 ? 1 : bytes);
  }
  size_t rounded = 0;
  if (!quire_align_size(bytes == 0 ? 1 : bytes, alignment, &rounded)) {
    return NULL;
  }
  return aligned_alloc(alignment, rounded);
}

static void system_deallocate(void *user, void *memory, size_t bytes, size_t alignment) {
  (void)user;
  (void)bytes;
  (void)alignment;
  free(memory);
}

const quire_allocator quire_default_allocator = {system_allocate, system_deallocate, NULL};

void *quire_alloc(const quire_allocator *allocator, size_t bytes, size_t alignment) {
  return allocator->allocate(allocator->user, bytes, alignment);
}

void *quire_alloc_array(const quire_allocator *allocator, size_t count, size_t size) {
  size_t bytes = 0;
  if (!quire_mul_size(count, size, &bytes)) {
    return NULL;
  }
  void *memory = quire_alloc(allocator, bytes, QUIRE_ALLOC_ALIGNMENT);
  if (memory != NULL) {
    memset(memory, 0, bytes);
  }
  return memory;
}

void quire_dealloc(const quire_allocator *allocator, void *memory, size_t bytes, size_t alignment) {
  if (memory != NULL) {
    allocator->deallocate(allocator->user, memory, bytes, alignment);
  }
}

/* ---- arena ---- */

#ifdef QUIRE_ARENA_SEPARATE /* no block has room for two: so every allocation can be made to fail \
                             */
enum { ARENA_FIRST_BLOCK = 2, ARENA_LARGEST_BLOCK = 2, ARENA_TAKES_MEMORY = 0 };
#else
enum { ARENA_FIRST_BLOCK = 4096, ARENA_LARGEST_BLOCK = 65536, ARENA_TAKES_MEMORY = 1 };
#endif

struct quire_arena_block {
  quire_arena_block *previous;
  size_t bytes; /* of the whole block, header included */
};

/* Header size, rounded so that what follows it stays aligned. */
enum {
  ARENA_HEADER = (sizeof(struct quire_arena_block) + QUIRE_ALLOC_ALIGNMENT - 1) /
                 QUIRE_ALLOC_ALIGNMENT * QUIRE_ALLOC_ALIGNMENT
};

void quire_arena_init(quire_arena *arena, const quire_allocator *allocator) {
  quire_arena_init_with(arena, allocator, NULL, 0);
}

void quire_arena_init_with(quire_arena *arena, const quire_allocator *allocator, void *memory,
                           size_t bytes) {
  arena->allocator = allocator;
  arena->blocks = NULL;
  arena->next = memory;
  arena->left = memory == NULL || !ARENA_TAKES_MEMORY
                    ? 0
                    : bytes / QUIRE_ALLOC_ALIGNMENT * QUIRE_ALLOC_ALIGNMENT;
}

static bool arena_grow(quire_arena *arena, size_t need) {
  size_t bytes = ARENA_FIRST_BLOCK;
  if (arena->blocks != NULL) {
    bytes = arena->blocks->bytes >= ARENA_LARGEST_BLOCK / 2 ? ARENA_LARGEST_BLOCK
                                                            : arena->blocks->bytes * 2;
  }
  size_t least = 0;
  if (!quire_add_size(need, ARENA_HEADER, &least)) {
    return false;
  }
  if (bytes < least) {
    bytes = least;
  }
  quire_arena_block *block = quire_alloc(arena->allocator, bytes, QUIRE_ALLOC_ALIGNMENT);
  if (block == NULL) {
    return false;
  }
  block->previous = arena->blocks;
  block->bytes = bytes;
  arena->blocks = block;
  arena->next = (char *)block + ARENA_HEADER;
  arena->left = bytes - ARENA_HEADER;
  return true;
}

void *quire_arena_alloc(quire_arena *arena, size_t bytes) {
  size_t rounded = 0;
  if (!quire_align_size(bytes == 0 ? 1 : bytes, QUIRE_ALLOC_ALIGNMENT, &rounded)) {
    return NULL;
  }
  if (rounded > arena->left && !arena_grow(arena, rounded)) {
    return NULL;
  }
  void *memory = arena->next;
  arena->next += rounded;
  arena->left -= rounded;
  return memory;
}

void *quire_arena_array(quire_arena *arena, size_t count, size_t size) {
  size_t bytes = 0;
  if (!quire_mul_size(count, size, &bytes)) {
    return NULL;
  }
  void *memory = quire_arena_alloc(arena, bytes);
  if (memory != NULL) {
    memset(memory, 0, bytes);
  }
  return memory;
}

char *quire_arena_copy(quire_arena *arena, const char *text, size_t length) {
  size_t bytes = 0;
  if (!quire_add_size(length, 1, &bytes)) {
    return NULL;
  }
  char *copy = quire_arena_alloc(arena, bytes);
  if (copy == NULL) {
    return NULL;
  }
  if (length != 0) {
    memcpy(copy, text, length);
  }
  copy[length] = '\0';
  return copy;
}

void quire_arena_release(quire_arena *arena) {
  quire_arena_block *block = arena->blocks;
  while (block != NULL) {
    quire_arena_block *previous = block->previous;
    quire_dealloc(arena->allocator, block, block->bytes, QUIRE_ALLOC_ALIGNMENT);
    block = previous;
  }
  arena->blocks = NULL;
  arena->next = NULL;
  arena->left = 0;
}
