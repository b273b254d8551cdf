#include "fault.h"

#include <execinfo.h>
#include <jansson.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  MOST_CALLS = 1 << 17,
  MOST_STACKS = 1 << 15,
  DEPTH = 24,
  TOLD_APART = 12,
  FILL = 0xA5,
  SPENT = 0x5A
};

typedef struct fault_stack {
  uint64_t hash; /* 0: free */
  int depth;
  void *frames[DEPTH];
} fault_stack;

static struct {
  bool armed, paused, once, fired, noting;
  fault_kind kind;
  size_t at, calls, plain_calls;
  unsigned char is_new[MOST_CALLS];
} plan;

static fault_stack stacks[MOST_STACKS];
static size_t stack_count;
static atomic_size_t live;

/* ---- stacks ---- */

/* The innermost frames, each once: the depth of a recursion makes no new stack. */
static uint64_t hash_stack(void *const *frames, int depth) {
  uint64_t hash = 14695981039346656037u;
  for (int i = 0; i < depth && i < TOLD_APART; i++) {
    bool seen = false;
    for (int k = 0; k < i && !seen; k++) {
      seen = frames[k] == frames[i];
    }
    if (!seen) {
      hash = (hash ^ (uint64_t)(uintptr_t)frames[i]) * 1099511628211u;
      hash ^= hash >> 32;
    }
  }
  return hash == 0 ? 1 : hash;
}

static bool note_stack(void) {
  void *frames[DEPTH];
  const int depth = backtrace(frames, DEPTH);
  const uint64_t hash = hash_stack(frames, depth);
  size_t at = (size_t)hash % MOST_STACKS;
  while (stacks[at].hash != 0 && stacks[at].hash != hash) {
    at = (at + 1) % MOST_STACKS;
  }
  if (stacks[at].hash != 0 || stack_count == MOST_STACKS / 2) {
    return false;
  }
  stacks[at].hash = hash;
  stacks[at].depth = depth;
  memcpy(stacks[at].frames, frames, sizeof frames);
  stack_count++;
  return true;
}

size_t fault_stack_count(void) {
  return stack_count;
}

/* The linker's: addresses in the file begin here. */
/* NOLINTNEXTLINE(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */
extern char __executable_start;

static struct {
  int depth;
  void *frames[DEPTH];
} failed;

void fault_print_failure(void) {
  for (int i = 1; i < failed.depth; i++) {
    (void)fprintf(stderr, "%s%zx", i > 1 ? " " : "failed at ",
                  (size_t)((char *)failed.frames[i] - &__executable_start));
  }
  (void)fputs("\n", stderr);
}

void fault_write_stacks(void) {
  const char *path = getenv("QUIRE_FAULT_SITES");
  FILE *file = path == NULL ? NULL : fopen(path, "w");
  for (size_t i = 0; file != NULL && i < MOST_STACKS; i++) {
    for (int k = 0; stacks[i].hash != 0 && k < stacks[i].depth; k++) {
      (void)fprintf(file, "%s%zx", k > 0 ? " " : "",
                    (size_t)((char *)stacks[i].frames[k] - &__executable_start));
    }
    (void)fputs(stacks[i].hash != 0 ? "\n" : "", file);
  }
  if (file != NULL) {
    assert_int_equal(fclose(file), 0);
  }
}

/* ---- the order ---- */

void fault_arm(fault_kind kind, size_t at, bool once) {
  plan.kind = kind;
  plan.at = at;
  plan.once = once;
  plan.fired = false;
  plan.noting = at == 0;
  plan.calls = 0;
  plan.plain_calls = 0;
  plan.armed = true;
}

size_t fault_disarm(void) {
  plan.armed = false;
  return plan.calls;
}

size_t fault_count(void) {
  return plan.calls;
}

void fault_pause(bool paused) {
  plan.paused = paused;
}

size_t fault_plain_count(void) {
  return plan.plain_calls;
}

bool fault_fired(void) {
  return plan.fired;
}

bool fault_is_new(size_t at) {
  return at < MOST_CALLS && plan.is_new[at] != 0;
}

bool fault_point(fault_kind kind) {
  if (!plan.armed || plan.paused || plan.kind != kind) {
    return false;
  }
  const size_t call = ++plan.calls;
  if (plan.noting) {
    plan.armed = false; /* backtrace() may allocate */
    const bool is_new = note_stack();
    plan.armed = true;
    if (call < MOST_CALLS) {
      plan.is_new[call] = is_new;
    }
    return false;
  }
  const bool fails = plan.once ? call == plan.at : call >= plan.at;
  if (fails && !plan.fired && getenv("QUIRE_FAULT_TRACE") != NULL) {
    failed.depth = backtrace(failed.frames, DEPTH);
  }
  plan.fired = plan.fired || fails;
  return fails;
}

bool fault_plain_point(void) {
  plan.plain_calls += plan.armed && plan.kind == FAULT_MEMORY;
  return fault_point(FAULT_MEMORY);
}

/* ---- memory ---- */

/* Lies before what was given; the block ends where the system's block ends, for sanitizers. */
typedef struct block_header {
  uint64_t mark;
  size_t bytes, alignment;
} block_header;

enum { MARK = 0x51554952 };

static size_t header_room(size_t alignment) {
  return (sizeof(block_header) + alignment - 1) / alignment * alignment;
}

static void *allocate(size_t bytes, size_t alignment) {
  if (fault_point(FAULT_MEMORY)) {
    return NULL;
  }
  const size_t unit = alignment < 16 ? 16 : alignment;
  void *start = NULL;
  if (bytes > SIZE_MAX / 2 || posix_memalign(&start, unit, header_room(unit) + bytes) != 0) {
    return NULL;
  }
  unsigned char *memory = (unsigned char *)start + header_room(unit);
  const block_header header = {MARK, bytes, alignment};
  memcpy(memory - sizeof header, &header, sizeof header);
  memset(memory, FILL, bytes); /* nothing may rely on zeros that it did not ask for */
  atomic_fetch_add(&live, 1);
  return memory;
}

static void deallocate(void *given, const size_t *bytes, const size_t *alignment) {
  unsigned char *memory = given;
  block_header header;
  memcpy(&header, memory - sizeof header, sizeof header);
  if (header.mark != MARK) {
    (void)fputs("given back: something that was not given out\n", stderr);
    abort();
  }
  if (bytes != NULL && (*bytes != header.bytes || *alignment != header.alignment)) {
    (void)fprintf(stderr, "given back: %zu bytes at %zu, given out: %zu at %zu\n", *bytes,
                  *alignment, header.bytes, header.alignment);
    abort();
  }
  const size_t unit = header.alignment < 16 ? 16 : header.alignment;
  memset(memory - sizeof header, SPENT, sizeof header + header.bytes);
  free(memory - header_room(unit));
  atomic_fetch_sub(&live, 1);
}

static void *allocate_library(void *user, size_t bytes, size_t alignment) {
  (void)user;
  return allocate(bytes, alignment);
}

static void deallocate_library(void *user, void *memory, size_t bytes, size_t alignment) {
  (void)user;
  deallocate(memory, &bytes, &alignment);
}

const quire_allocator fault_allocator = {allocate_library, deallocate_library, NULL};

size_t fault_live(void) {
  return atomic_load(&live);
}

static void *allocate_jansson(size_t bytes) {
  return allocate(bytes, 16);
}

static void deallocate_jansson(void *memory) {
  if (memory != NULL) {
    deallocate(memory, NULL, NULL);
  }
}

void fault_hook_jansson(void) {
  json_set_alloc_funcs(allocate_jansson, deallocate_jansson);
}
