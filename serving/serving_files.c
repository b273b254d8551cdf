#include "serving_files.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "serving_support.h"

static quire_status fail_io(const quire_serving_file *file, const char *what, int code,
                            quire_error *error) {
  return quire_serving_fail(error, code == ENOENT ? QUIRE_NOT_FOUND : QUIRE_IO, NULL, file->path,
                            "%s: error %d of the system", what, code);
}

quire_status quire_serving_file_create(quire_serving_file *file, const char *path,
                                       const quire_allocator *allocator, quire_error *error) {
  static const char suffix[] = ".XXXXXX";
  *file = (quire_serving_file){.allocator = allocator, .path = path};
  quire_serving_checksum_begin(&file->checksum);
  const size_t length = strlen(path);
  file->temporary_size = length + sizeof suffix;
  file->temporary = quire_serving_allocate(allocator, file->temporary_size, 1);
  if (file->temporary == NULL) {
    return quire_serving_fail_memory(error, file->temporary_size);
  }
  memcpy(file->temporary, path, length);
  memcpy(file->temporary + length, suffix, sizeof suffix);
  const int descriptor = mkstemp(file->temporary);
  file->stream = descriptor >= 0 ? fdopen(descriptor, "wb") : NULL;
  if (file->stream == NULL) {
    const int code = errno;
    if (descriptor >= 0) {
      (void)close(descriptor);
      (void)remove(file->temporary);
    }
    quire_serving_free(allocator, file->temporary, file->temporary_size, 1);
    file->temporary = NULL;
    return fail_io(file, "cannot be created", code, error);
  }
  return QUIRE_OK;
}

quire_status quire_serving_file_open(quire_serving_file *file, const char *path,
                                     quire_error *error) {
  *file = (quire_serving_file){.path = path};
  quire_serving_checksum_begin(&file->checksum);
  file->stream = fopen(path, "rb");
  return file->stream != NULL ? QUIRE_OK : fail_io(file, "cannot be opened", errno, error);
}

quire_status quire_serving_file_write(quire_serving_file *file, const void *bytes, size_t size,
                                      quire_error *error) {
  quire_serving_checksum_add(&file->checksum, bytes, size);
  return fwrite(bytes, 1, size, file->stream) == size
             ? QUIRE_OK
             : fail_io(file, "cannot be written", errno, error);
}

quire_status quire_serving_file_read(quire_serving_file *file, void *bytes, size_t size,
                                     quire_error *error) {
  if (fread(bytes, 1, size, file->stream) != size) {
    return ferror(file->stream)
               ? fail_io(file, "cannot be read", errno, error)
               : quire_serving_fail(error, QUIRE_BAD_VALUE, "SV-11", file->path, "ends too early");
  }
  quire_serving_checksum_add(&file->checksum, bytes, size);
  return QUIRE_OK;
}

quire_status quire_serving_file_patch(quire_serving_file *file, long at, const void *bytes,
                                      size_t size, quire_error *error) {
  const int is_done =
      fseek(file->stream, at, SEEK_SET) == 0 && fwrite(bytes, 1, size, file->stream) == size;
  return is_done ? QUIRE_OK : fail_io(file, "cannot be written", errno, error);
}

quire_status quire_serving_file_finish(quire_serving_file *file, quire_error *error) {
  int is_done = fflush(file->stream) == 0 && fsync(fileno(file->stream)) == 0;
  const int code = errno;
  is_done = fclose(file->stream) == 0 && is_done;
  file->stream = NULL;
  if (!is_done || rename(file->temporary, file->path) != 0) {
    return fail_io(file, "cannot be finished", is_done ? errno : code, error);
  }
  quire_serving_free(file->allocator, file->temporary, file->temporary_size, 1);
  file->temporary = NULL;
  return QUIRE_OK;
}

void quire_serving_file_close(quire_serving_file *file) {
  if (file->stream != NULL) {
    (void)fclose(file->stream);
    file->stream = NULL;
  }
  if (file->temporary != NULL) {
    (void)remove(file->temporary);
    quire_serving_free(file->allocator, file->temporary, file->temporary_size, 1);
    file->temporary = NULL;
  }
}
