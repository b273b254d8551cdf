/* What the serving layer needs of errors and memory: it sees public headers only. */
#ifndef QUIRE_SERVING_SUPPORT_H
#define QUIRE_SERVING_SUPPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "quire/context.h"
#include "quire/status.h"

#if defined(__MINGW32__)
#define QUIRE_SERVING_PRINTF(at, first) __attribute__((format(gnu_printf, at, first)))
#elif defined(__GNUC__)
#define QUIRE_SERVING_PRINTF(at, first) __attribute__((format(printf, at, first)))
#else
#define QUIRE_SERVING_PRINTF(at, first)
#endif

/* Sets *error, which may be NULL, and returns status. rule and subject may be NULL. */
quire_status quire_serving_fail(quire_error *error, quire_status status, const char *rule,
                                const char *subject, const char *format, ...)
    QUIRE_SERVING_PRINTF(5, 6);
quire_status quire_serving_fail_memory(quire_error *error, size_t bytes);

/* Runs an expression and returns its status from the calling function unless it is QUIRE_OK. */
#define QUIRE_SERVING_TRY(expression)                 \
  do {                                                \
    quire_status quire_serving_status = (expression); \
    if (quire_serving_status != QUIRE_OK) {           \
      return quire_serving_status;                    \
    }                                                 \
  } while (0)

/* The C library's allocator; every block is aligned to 64 bytes at most. */
extern const quire_allocator quire_serving_allocator;

enum { QUIRE_SERVING_ALIGNMENT = 64 };

/* NULL on failure and if count * size overflows; at least one byte; not cleared. */
void *quire_serving_allocate(const quire_allocator *allocator, size_t count, size_t size);
/* memory may be NULL; count and size as given. */
void quire_serving_free(const quire_allocator *allocator, void *memory, size_t count, size_t size);

/* False, leaving *product alone, on overflow. */
bool quire_serving_multiply(size_t a, size_t b, size_t *product);

#endif
