#include "fault_tool.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#undef malloc
#undef calloc
#undef realloc
#undef aligned_alloc

enum { UNKNOWN = -2, FILL = 0xA5 };

static atomic_long calls;
static long at;
static bool all;
static int descriptor = UNKNOWN; /* of the log */

/* The calls of jansson's that are not done: one makes what the other takes. */
enum { DEEPEST = 8 };
static _Thread_local struct {
  int depth;
  struct {
    const char *file;
    int line;
  } calls[DEEPEST];
} inside;

static void read_order(void) {
  const char *text = getenv("QUIRE_FAULT_AT");
  const char *log = getenv("QUIRE_FAULT_LOG");
  at = text == NULL ? 0 : strtol(text, NULL, 10);
  all = getenv("QUIRE_FAULT_ALL") != NULL;
  descriptor = log == NULL ? -1 : open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
}

static bool fails(const char *file, int line) {
  if (descriptor == UNKNOWN) { /* no thread has been made yet */
    read_order();
  }
  const long call = atomic_fetch_add(&calls, 1) + 1;
  if (descriptor >= 0) {
    char text[512];
    const char *slash = strrchr(file, '/');
    const int length =
        snprintf(text, sizeof text, "%s:%d\n", slash == NULL ? file : slash + 1, line);
    if (write(descriptor, text, (size_t)length) != length) {
      abort();
    }
  }
  return at != 0 && (all ? call >= at : call == at);
}

void *fault_tool_malloc(size_t bytes, const char *file, int line) {
  void *memory = fails(file, line) ? NULL : malloc(bytes);
  return memory == NULL ? NULL : memset(memory, FILL, bytes);
}

void *fault_tool_calloc(size_t count, size_t size, const char *file, int line) {
  return fails(file, line) ? NULL : calloc(count, size);
}

void *fault_tool_realloc(void *memory, size_t bytes, const char *file, int line) {
  return fails(file, line) ? NULL : realloc(memory, bytes);
}

void *fault_tool_aligned_alloc(size_t alignment, size_t bytes, const char *file, int line) {
  return fails(file, line) ? NULL : aligned_alloc(alignment, bytes);
}

/* ---- jansson ---- */

static void *allocate_json(size_t bytes) {
  const int last = inside.depth - 1;
  return last >= 0 && fails(inside.calls[last].file, inside.calls[last].line) ? NULL
                                                                              : malloc(bytes);
}

__attribute__((constructor)) static void hook_jansson(void) {
  json_set_alloc_funcs(allocate_json, free);
}

int fault_tool_enter(const char *file, int line) {
  if (inside.depth == DEEPEST) {
    abort();
  }
  inside.calls[inside.depth].file = file;
  inside.calls[inside.depth].line = line;
  return ++inside.depth;
}

json_t *fault_tool_leave(json_t *made) {
  inside.depth--;
  return made;
}

int fault_tool_leave_code(int code) {
  inside.depth--;
  return code;
}

char *fault_tool_leave_text(char *text) {
  inside.depth--;
  return text;
}

size_t fault_tool_leave_size(size_t size) {
  inside.depth--;
  return size;
}
