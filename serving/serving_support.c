#include "serving_support.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static void copy_text(char *target, size_t size, const char *text) {
  (void)snprintf(target, size, "%s", text != NULL ? text : "");
}

quire_status quire_serving_fail(quire_error *error, quire_status status, const char *rule,
                                const char *subject, const char *format, ...) {
  if (error == NULL) {
    return status;
  }
  error->status = status;
  copy_text(error->rule, sizeof error->rule, rule);
  copy_text(error->subject, sizeof error->subject, subject);
  char text[QUIRE_MESSAGE_SIZE];
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  (void)snprintf(error->message, sizeof error->message, "%s%s%.120s%s%.800s", error->rule,
                 error->rule[0] != '\0' ? ": " : "", error->subject,
                 error->subject[0] != '\0' ? ": " : "", text);
  return status;
}

quire_status quire_serving_fail_memory(quire_error *error, size_t bytes) {
  return quire_serving_fail(error, QUIRE_OUT_OF_MEMORY, NULL, NULL, "no memory for %zu bytes",
                            bytes);
}

/* aligned_alloc() wants a multiple of the alignment, and not every C library has it: the start of
 * what malloc() gave lies just before the aligned block. */
static void *default_allocate(void *user, size_t bytes, size_t alignment) {
  (void)user;
  const size_t extra = alignment + sizeof(void *);
  if (bytes > SIZE_MAX - extra) {
    return NULL;
  }
  char *start = malloc(bytes + extra);
  if (start == NULL) {
    return NULL;
  }
  const uintptr_t first = (uintptr_t)start + sizeof(void *);
  char *block = start + sizeof(void *) + (alignment - first % alignment) % alignment;
  ((void **)(void *)block)[-1] = start;
  return block;
}

static void default_deallocate(void *user, void *memory, size_t bytes, size_t alignment) {
  (void)user;
  (void)bytes;
  (void)alignment;
  free(((void **)memory)[-1]);
}

const quire_allocator quire_serving_allocator = {default_allocate, default_deallocate, NULL};

bool quire_serving_multiply(size_t a, size_t b, size_t *product) {
  if (b != 0 && a > SIZE_MAX / b) {
    return false;
  }
  *product = a * b;
  return true;
}

void *quire_serving_allocate(const quire_allocator *allocator, size_t count, size_t size) {
  size_t bytes;
  if (!quire_serving_multiply(count, size, &bytes)) {
    return NULL;
  }
  return allocator->allocate(allocator->user, bytes > 0 ? bytes : 1, QUIRE_SERVING_ALIGNMENT);
}

void quire_serving_free(const quire_allocator *allocator, void *memory, size_t count, size_t size) {
  if (memory != NULL) {
    const size_t bytes = count * size;
    allocator->deallocate(allocator->user, memory, bytes > 0 ? bytes : 1, QUIRE_SERVING_ALIGNMENT);
  }
}
