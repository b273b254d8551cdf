#include "isolation_memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void iso_arena_open(iso_arena *arena, size_t bytes) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  arena->bytes = (bytes + page - 1) / page * page;
  void *memory = mmap(NULL, arena->bytes + 2 * page, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    fail_msg("no memory for %zu bytes", bytes);
  }
  arena->begin = (unsigned char *)memory + page;
  if (mprotect(memory, page, PROT_NONE) != 0 ||
      mprotect(arena->begin + arena->bytes, page, PROT_NONE) != 0) {
    fail_msg("no forbidden pages");
  }
  arena->before = malloc(arena->bytes);
  assert_non_null(arena->before);
  arena->window = arena->begin;
  arena->window_bytes = 0;
}

void iso_arena_close(iso_arena *arena) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  free(arena->before);
  if (arena->begin != NULL) {
    (void)munmap(arena->begin - page, arena->bytes + 2 * page);
  }
  *arena = (iso_arena){0};
}

unsigned char *iso_arena_place(iso_arena *arena, size_t bytes, bool at_end) {
  assert_true(bytes <= arena->bytes);
  const size_t left = arena->bytes - bytes;
  const size_t canary = left < ISO_CANARY_BYTES ? left : ISO_CANARY_BYTES;
  arena->canary_bytes = canary;
  arena->window_bytes = bytes + canary;
  arena->window = at_end ? arena->begin + left - canary : arena->begin;
  return at_end ? arena->window + canary : arena->window;
}

void iso_arena_keep(iso_arena *arena) {
  memcpy(arena->before, arena->window, arena->window_bytes);
}

bool iso_arena_is_kept(const iso_arena *arena) {
  return memcmp(arena->before, arena->window, arena->window_bytes) == 0;
}

/* Numbers of both signs, large beside the data, that every float type holds. */
static void plant_numbers(quire_dtype dtype, unsigned char *to, size_t bytes) {
  uint32_t state = 12345;
  for (size_t i = 0; i < bytes; i += 4) {
    state = state * 1664525u + 1013904223u;
    const uint32_t sign = state & 0x80008000u, digits = state >> 3;
    uint32_t word = (state & 0x80000000u) | 0x44000000u | (digits & 0x7fffffu); /* 512 to 2048 */
    if (dtype == QUIRE_FLOAT16) {
      word = sign | 0x62006200u | (digits & 0x00ff00ffu); /* 768 to 1023 */
    } else if (dtype == QUIRE_BFLOAT16) {
      word = sign | 0x44404440u | (digits & 0x000f000fu);
    } else if (dtype == QUIRE_INT32) {
      word = 0; /* exists everywhere */
    } else if (dtype == QUIRE_INT8) {
      word = digits * 2654435761u;
    }
    memcpy(to + i, &word, bytes - i < 4 ? bytes - i : 4);
  }
}

void iso_secrets(quire_dtype dtype, int world, unsigned char *to, size_t bytes) {
  enum { REPEATED = 1 << 16 };
  static unsigned char numbers[QUIRE_DTYPE_COUNT][REPEATED];
  static bool is_planted[QUIRE_DTYPE_COUNT];
  if (bytes == 0) {
    return; /* `to` may be NULL */
  }
  if (world == 0) {
    memset(to, dtype == QUIRE_INT32 ? 0x3f : dtype == QUIRE_INT8 ? 0x7f : 0xff, bytes);
    return;
  }
  if (!is_planted[dtype]) {
    plant_numbers(dtype, numbers[dtype], REPEATED);
    is_planted[dtype] = true;
  }
  for (size_t i = 0; i < bytes; i += REPEATED) {
    memcpy(to + i, numbers[dtype], bytes - i < REPEATED ? bytes - i : REPEATED);
  }
}
