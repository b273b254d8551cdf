#include "files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "failure.h"

static quire_status fail_with_errno(quire_error *error, int number) {
  return quire_failure_set(error, number == ENOENT ? QUIRE_NOT_FOUND : QUIRE_IO, "%s",
                           strerror(number));
}

uint64_t quire_clock_nanoseconds(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Reads `size` bytes, in as many pieces as the system likes. */
static quire_status read_all(int descriptor, unsigned char *memory, size_t size,
                             quire_error *error) {
  for (size_t done = 0; done < size;) {
    const ssize_t got = read(descriptor, memory + done, size - done);
    if (got < 0 && errno != EINTR) {
      return fail_with_errno(error, errno);
    }
    if (got == 0) {
      return quire_failure_set(error, QUIRE_IO, "it had %zu bytes, and now ends after %zu", size,
                               done);
    }
    done += got > 0 ? (size_t)got : 0;
  }
  return QUIRE_OK;
}

static quire_status load_descriptor(int descriptor, size_t limit, quire_file_bytes *bytes,
                                    quire_error *error) {
  enum { ALIGNMENT = 64 };
  struct stat about;
  if (fstat(descriptor, &about) != 0) {
    return fail_with_errno(error, errno);
  }
  if (!S_ISREG(about.st_mode)) {
    return quire_failure_set(error, QUIRE_IO, "not a regular file");
  }
  const uintmax_t size = (uintmax_t)about.st_size;
  if (size > limit) {
    return quire_failure_set(error, QUIRE_LIMIT, "longer than %zu bytes", limit);
  }
  if (size > SIZE_MAX - ALIGNMENT) {
    return quire_failure_set(error, QUIRE_OUT_OF_MEMORY, "no memory for %ju bytes", size);
  }
  /* A size of zero has memory too. */
  void *memory = aligned_alloc(ALIGNMENT, ((size_t)size / ALIGNMENT + 1) * ALIGNMENT);
  if (!memory) {
    return quire_failure_set(error, QUIRE_OUT_OF_MEMORY, "no memory for %ju bytes", size);
  }
  const quire_status status = read_all(descriptor, memory, (size_t)size, error);
  if (status != QUIRE_OK) {
    free(memory);
    return status;
  }
  *bytes = (quire_file_bytes){.data = memory, .size = (size_t)size, .owned = memory};
  return QUIRE_OK;
}

quire_status quire_file_load(const char *path, size_t limit, quire_file_bytes *bytes,
                             quire_error *error) {
  *bytes = (quire_file_bytes){0};
  /* O_NONBLOCK: a pipe without a writer must be refused, not waited for. */
  const int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    return fail_with_errno(error, errno);
  }
  const quire_status status = load_descriptor(descriptor, limit, bytes, error);
  (void)close(descriptor);
  return status;
}

static quire_status read_stream(FILE *stream, size_t limit, quire_file_bytes *bytes,
                                quire_error *error) {
  size_t capacity = 1 << 16;
  unsigned char *memory = malloc(capacity);
  size_t size = 0;
  while (memory && !feof(stream) && !ferror(stream)) {
    size += fread(memory + size, 1, capacity - size, stream);
    if (size > limit) {
      free(memory);
      return quire_failure_set(error, QUIRE_LIMIT, "longer than %zu bytes", limit);
    }
    if (size == capacity) {
      capacity *= 2;
      unsigned char *larger = realloc(memory, capacity);
      if (!larger) {
        free(memory);
      }
      memory = larger;
    }
  }
  if (!memory) {
    return quire_failure_set(error, QUIRE_OUT_OF_MEMORY, "no memory for the text");
  }
  if (ferror(stream)) {
    free(memory);
    return quire_failure_set(error, QUIRE_IO, "%s", strerror(errno));
  }
  *bytes = (quire_file_bytes){.data = memory, .size = size, .owned = memory};
  return QUIRE_OK;
}

quire_status quire_file_read(const char *path, size_t limit, quire_file_bytes *bytes,
                             quire_error *error) {
  *bytes = (quire_file_bytes){0};
  if (!strcmp(path, "-")) {
    return read_stream(stdin, limit, bytes, error);
  }
  FILE *stream = fopen(path, "rb");
  if (!stream) {
    return fail_with_errno(error, errno);
  }
  const quire_status status = read_stream(stream, limit, bytes, error);
  (void)fclose(stream);
  return status;
}

void quire_file_release(quire_file_bytes *bytes) {
  free(bytes->owned);
  *bytes = (quire_file_bytes){0};
}

static int write_all(int descriptor, const unsigned char *data, size_t size) {
  while (size > 0) {
    const ssize_t written = write(descriptor, data, size);
    if (written < 0 && errno != EINTR) {
      return errno;
    }
    if (written > 0) {
      data += written;
      size -= (size_t)written;
    }
  }
  return 0;
}

/* mkstemp() makes files that only the owner may read; a result is an ordinary file. */
static int give_usual_mode(int descriptor) {
  const mode_t mask = umask(0);
  (void)umask(mask);
  return fchmod(descriptor, (mode_t)(0666 & ~mask)) == 0 ? 0 : errno;
}

static int write_and_rename(int descriptor, const char *temporary, const char *path,
                            const quire_file_piece *pieces, size_t count) {
  int number = give_usual_mode(descriptor);
  for (size_t i = 0; i < count && number == 0; ++i) {
    number = write_all(descriptor, pieces[i].data, pieces[i].size);
  }
  if (number == 0 && fsync(descriptor) != 0) {
    number = errno;
  }
  if (close(descriptor) != 0 && number == 0) {
    number = errno;
  }
  if (number == 0 && rename(temporary, path) != 0) {
    number = errno;
  }
  if (number != 0) {
    (void)unlink(temporary);
  }
  return number;
}

quire_status quire_file_write(const char *path, const quire_file_piece *pieces, size_t count,
                              quire_error *error) {
  struct stat about;
  if (stat(path, &about) == 0 && !S_ISREG(about.st_mode)) {
    return quire_failure_set(error, QUIRE_IO, "not a regular file");
  }
  const size_t size = strlen(path) + sizeof ".XXXXXX";
  char *temporary = malloc(size);
  if (!temporary) {
    return quire_failure_set(error, QUIRE_OUT_OF_MEMORY, "no memory for a file name");
  }
  (void)snprintf(temporary, size, "%s.XXXXXX", path);
  const int descriptor = mkstemp(temporary);
  const int number =
      descriptor < 0 ? errno : write_and_rename(descriptor, temporary, path, pieces, count);
  free(temporary);
  return number == 0
             ? QUIRE_OK
             : quire_failure_set(error, QUIRE_IO, "cannot be written: %s", strerror(number));
}
