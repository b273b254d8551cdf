#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "failure.h"
#include "files.h"

enum { DEEPEST_FOLDER = 32, MOST_FILES = 1000000 };

static quire_status fail_with_errno(quire_error *error, int number) {
  return quire_failure_set(error, number == ENOENT ? QUIRE_NOT_FOUND : QUIRE_IO, "%s",
                           strerror(number));
}

static quire_status append_path(quire_file_paths *paths, char *path, quire_error *error) {
  if (path && paths->count == paths->capacity && paths->capacity < MOST_FILES) {
    const size_t capacity = paths->capacity ? paths->capacity * 2 : 64;
    char **larger = realloc(paths->items, capacity * sizeof *larger);
    if (larger) {
      paths->items = larger;
      paths->capacity = capacity;
    }
  }
  if (!path || paths->count == paths->capacity) {
    free(path);
    return quire_failure_set(error, QUIRE_OUT_OF_MEMORY, "no memory for the list of files");
  }
  paths->items[paths->count++] = path;
  return QUIRE_OK;
}

static char *join(const char *folder, const char *name) {
  const size_t length = strlen(folder);
  const size_t size = length + strlen(name) + 2;
  char *path = malloc(size);
  if (path) {
    const int has_slash = length > 0 && folder[length - 1] == '/';
    (void)snprintf(path, size, "%s%s%s", folder, has_slash ? "" : "/", name);
  }
  return path;
}

static int by_bytes(const struct dirent **left, const struct dirent **right) {
  return strcmp((*left)->d_name, (*right)->d_name);
}

static int is_shown(const struct dirent *entry) {
  return entry->d_name[0] != '.';
}

static int ends_with(const char *text, const char *suffix) {
  const size_t length = strlen(text);
  const size_t suffix_length = strlen(suffix);
  return length >= suffix_length && !strcmp(text + length - suffix_length, suffix);
}

/* The depth is bounded, so a loop of symbolic links ends. */
static quire_status list_folder(const char *folder, const char *suffix, int depth,
                                quire_file_paths *paths, quire_error *error) {
  if (depth > DEEPEST_FOLDER) {
    return quire_failure_set(error, QUIRE_LIMIT, "folders lie deeper than %d", DEEPEST_FOLDER);
  }
  struct dirent **entries = NULL;
  const int count = scandir(folder, &entries, is_shown, by_bytes);
  if (count < 0) {
    return fail_with_errno(error, errno);
  }
  quire_status status = QUIRE_OK;
  for (int i = 0; i < count; ++i) {
    struct stat about;
    char *path = status == QUIRE_OK ? join(folder, entries[i]->d_name) : NULL;
    if (path && stat(path, &about) == 0 && S_ISDIR(about.st_mode)) {
      status = list_folder(path, suffix, depth + 1, paths, error);
      free(path);
    } else if (path && ends_with(path, suffix)) {
      status = append_path(paths, path, error);
    } else if (status == QUIRE_OK && !path) {
      status = quire_failure_set(error, QUIRE_OUT_OF_MEMORY, "no memory for a file name");
    } else {
      free(path);
    }
    free(entries[i]);
  }
  free(entries);
  return status;
}

quire_status quire_file_list(const char *path, const char *suffix, quire_file_paths *paths,
                             quire_error *error) {
  struct stat about;
  if (stat(path, &about) != 0) {
    return fail_with_errno(error, errno);
  }
  if (S_ISDIR(about.st_mode)) {
    return list_folder(path, suffix, 0, paths, error);
  }
  const size_t size = strlen(path) + 1;
  char *copy = malloc(size);
  if (copy) {
    memcpy(copy, path, size);
  }
  return append_path(paths, copy, error);
}

void quire_file_list_release(quire_file_paths *paths) {
  for (size_t i = 0; i < paths->count; ++i) {
    free(paths->items[i]);
  }
  free(paths->items);
  *paths = (quire_file_paths){0};
}
