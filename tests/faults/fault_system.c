/* What the library asks the system for, each call of which can fail (linked by --wrap). */
#include "fault.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* FAULT_WRAP(what is returned on failure, its errno, result, name, parameters, arguments) */
#define FAULT_WRAP(failed, number, result, name, parameters, arguments) \
  result __real_##name parameters;                                      \
  result __wrap_##name parameters;                                      \
  result __wrap_##name parameters {                                     \
    if (fault_point(FAULT_SYSTEM)) {                                    \
      errno = (number);                                                 \
      return failed;                                                    \
    }                                                                   \
    return __real_##name arguments;                                     \
  }

FAULT_WRAP(NULL, EMFILE, FILE *, fopen, (const char *path, const char *mode), (path, mode))
FAULT_WRAP(NULL, ENOMEM, FILE *, fdopen, (int descriptor, const char *mode), (descriptor, mode))
FAULT_WRAP(-1, EMFILE, int, mkstemp, (char *path), (path))
FAULT_WRAP(size / 2, EIO, size_t, fread, (void *data, size_t one, size_t size, FILE *stream),
           (data, one, size, stream))
FAULT_WRAP(size / 2, ENOSPC, size_t, fwrite,
           (const void *data, size_t one, size_t size, FILE *stream), (data, one, size, stream))
FAULT_WRAP(-1, EIO, int, fseek, (FILE * stream, long offset, int whence), (stream, offset, whence))
FAULT_WRAP(EOF, ENOSPC, int, fflush, (FILE * stream), (stream))
FAULT_WRAP(-1, EIO, int, fsync, (int descriptor), (descriptor))
FAULT_WRAP(-1, EACCES, int, rename, (const char *from, const char *to), (from, to))
FAULT_WRAP(EAGAIN, EAGAIN, int, pthread_create,
           (pthread_t * thread, const pthread_attr_t *attributes, void *(*main)(void *),
            void *argument),
           (thread, attributes, main, argument))
FAULT_WRAP(ENOMEM, ENOMEM, int, pthread_mutex_init,
           (pthread_mutex_t * mutex, const pthread_mutexattr_t *attributes), (mutex, attributes))
FAULT_WRAP(ENOMEM, ENOMEM, int, pthread_cond_init,
           (pthread_cond_t * condition, const pthread_condattr_t *attributes),
           (condition, attributes))

/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp): the linker's names. */
/* A file that cannot be closed well is closed all the same. */
int __real_fclose(FILE *stream);
int __wrap_fclose(FILE *stream);
int __wrap_fclose(FILE *stream) {
  const bool fails = fault_point(FAULT_SYSTEM);
  const int closed = __real_fclose(stream);
  if (fails) {
    errno = ENOSPC;
  }
  return fails ? EOF : closed;
}

/* The default allocators of the library end here. */
void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes) {
  return fault_plain_point() ? NULL : __real_malloc(bytes);
}

void *__real_aligned_alloc(size_t alignment, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes) {
  return fault_plain_point() ? NULL : __real_aligned_alloc(alignment, bytes);
}
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */
