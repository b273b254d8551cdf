/* Files of the serving layer: the only POSIX calls in it. */
#ifndef QUIRE_SERVING_FILES_H
#define QUIRE_SERVING_FILES_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "quire/context.h"
#include "quire/status.h"
#include "serving_hash.h"

/* A file that is written or read from front to back, with the checksum of all that passed. */
typedef struct quire_serving_file {
  const quire_allocator *allocator;
  const char *path;
  FILE *stream;
  char *temporary; /* writing: its name until it is finished */
  size_t temporary_size;
  quire_serving_checksum checksum;
} quire_serving_file;

/* Begins a temporary file beside path. IO, OUT_OF_MEMORY. */
quire_status quire_serving_file_create(quire_serving_file *file, const char *path,
                                       const quire_allocator *allocator, quire_error *error);
/* NOT_FOUND, IO. */
quire_status quire_serving_file_open(quire_serving_file *file, const char *path,
                                     quire_error *error);
quire_status quire_serving_file_write(quire_serving_file *file, const void *bytes, size_t size,
                                      quire_error *error);
/* BAD_VALUE (SV-11) if the file ends before. */
quire_status quire_serving_file_read(quire_serving_file *file, void *bytes, size_t size,
                                     quire_error *error);
/* Overwrites bytes written earlier; they do not enter the checksum again. */
quire_status quire_serving_file_patch(quire_serving_file *file, long at, const void *bytes,
                                      size_t size, quire_error *error);
/* Forces the temporary file to disk and gives it its name. Discards it on failure. */
quire_status quire_serving_file_finish(quire_serving_file *file, quire_error *error);
/* Closes; a temporary file that was not finished disappears. */
void quire_serving_file_close(quire_serving_file *file);

#endif
