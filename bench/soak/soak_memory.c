#include "soak_memory.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static atomic_size_t live_bytes, live_blocks;

static void *allocate(void *user, size_t bytes, size_t alignment) {
  (void)user;
  const size_t least = alignment < sizeof(void *) ? sizeof(void *) : alignment;
  void *memory = aligned_alloc(least, (bytes + least - 1) / least * least);
  if (memory != NULL) {
    atomic_fetch_add(&live_bytes, bytes);
    atomic_fetch_add(&live_blocks, 1);
  }
  return memory;
}

static void deallocate(void *user, void *memory, size_t bytes, size_t alignment) {
  (void)user;
  (void)alignment;
  if (memory != NULL) {
    atomic_fetch_sub(&live_bytes, bytes);
    atomic_fetch_sub(&live_blocks, 1);
  }
  free(memory);
}

const quire_allocator soak_allocator = {allocate, deallocate, NULL};

size_t soak_live_bytes(void) {
  return atomic_load(&live_bytes);
}

size_t soak_live_blocks(void) {
  return atomic_load(&live_blocks);
}

size_t soak_resident_bytes(void) {
  FILE *file = fopen("/proc/self/statm", "r");
  if (file == NULL) {
    return 0;
  }
  char text[128] = "";
  const char *line = fgets(text, sizeof text, file);
  (void)fclose(file);
  char *second = text; /* whole size, resident pages */
  if (line == NULL || strtoul(text, &second, 10) == 0) {
    return 0;
  }
  return (size_t)strtoul(second, NULL, 10) * (size_t)sysconf(_SC_PAGESIZE);
}
