/* Filling in the caller's error record. */
#ifndef QUIRE_CORE_ERROR_H
#define QUIRE_CORE_ERROR_H

#include <stdarg.h>
#include <stdint.h>

#include "portability.h"
#include "quire/status.h"

/*
 * Sets every member of *error (which may be NULL) and returns status. rule and subject may be NULL.
 * The message is `format` with rule and subject put in front of it ("PA-V7: key_cache: ...").
 */
quire_status quire_fail(quire_error *error, quire_status status, const char *rule,
                        const char *subject, const char *format, ...) QUIRE_PRINTF(5, 6);

/* OUT_OF_MEMORY with a standard message. */
quire_status quire_fail_memory(quire_error *error);

/* Runs an expression and returns its status from the calling function unless it is QUIRE_OK. */
#define QUIRE_TRY(expression)                     \
  do {                                            \
    quire_status quire_try_status = (expression); \
    if (quire_try_status != QUIRE_OK) {           \
      return quire_try_status;                    \
    }                                             \
  } while (0)

#endif
