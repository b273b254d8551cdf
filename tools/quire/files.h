/* Files and time: every POSIX call of the command line is in files.c and folders.c. */
#ifndef QUIRE_TOOL_FILES_H
#define QUIRE_TOOL_FILES_H

#include <stddef.h>
#include <stdint.h>

#include "quire/status.h"

/* A file's bytes, in memory of their own. */
typedef struct quire_file_bytes {
  const unsigned char *data; /* never NULL after success */
  size_t size;
  void *owned; /* memory to free */
} quire_file_bytes;

/*
 * Reads a regular file of at most `limit` bytes, to addresses that are multiples of 64. It is not
 * mapped: what another program does to the file afterwards, such as cutting it off, then changes
 * nothing that was checked, and ends no process. Statuses: NOT_FOUND, LIMIT, IO (it became shorter
 * meanwhile, too), OUT_OF_MEMORY.
 */
quire_status quire_file_load(const char *path, size_t limit, quire_file_bytes *bytes,
                             quire_error *error);

/* Reads a whole file of at most `limit` bytes, or standard input if path is "-". */
quire_status quire_file_read(const char *path, size_t limit, quire_file_bytes *bytes,
                             quire_error *error);

void quire_file_release(quire_file_bytes *bytes);

/* A piece of a file to be written. */
typedef struct quire_file_piece {
  const void *data;
  size_t size;
} quire_file_piece;

/*
 * Writes the pieces to a temporary file beside `path`, forces them to disk and renames it: `path`
 * either holds everything or is what it was. Statuses: IO.
 */
quire_status quire_file_write(const char *path, const quire_file_piece *pieces, size_t count,
                              quire_error *error);

/* Paths found by quire_file_list(); released with quire_file_list_release(). */
typedef struct quire_file_paths {
  char **items;
  size_t count, capacity;
} quire_file_paths;

/*
 * Appends `path` itself if it is not a folder, else all files below it whose names end with
 * `suffix`, folder by folder in byte order of the names. Statuses: NOT_FOUND, IO, OUT_OF_MEMORY.
 */
quire_status quire_file_list(const char *path, const char *suffix, quire_file_paths *paths,
                             quire_error *error);
void quire_file_list_release(quire_file_paths *paths);

/* Nanoseconds of a clock that never goes back. */
uint64_t quire_clock_nanoseconds(void);

#endif
