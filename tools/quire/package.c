#include "package.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "failure.h"
#include "files.h"

enum { LONGEST_TEMPLATE = 16 * 1024 * 1024, LONGEST_PATH = 4096 };

/* Symbolic links are followed: folders of downloaded packages consist of them. */
static quire_status read_file(void *user, const char *path, quire_write_function *write,
                              void *write_user) {
  quire_package *package = user;
  char full[LONGEST_PATH];
  quire_file_bytes bytes;
  quire_error error;
  const int length = snprintf(full, sizeof full, "%s/%s", package->root, path);
  if (length < 0 || (size_t)length >= sizeof full) {
    return QUIRE_NOT_FOUND;
  }
  const quire_status status = quire_file_load(full, LONGEST_TEMPLATE, &bytes, &error);
  if (status == QUIRE_OK) {
    write(write_user, (const char *)bytes.data, bytes.size);
    quire_file_release(&bytes);
  } else if (status != QUIRE_NOT_FOUND && package->fault.status == QUIRE_OK) {
    quire_failure_set(&package->fault, status, "%.256s: %s", path, error.message);
  }
  return status;
}

void quire_package_explain(const quire_package *package, quire_error *error) {
  if (package->fault.status != QUIRE_OK && package->fault.status == error->status) {
    *error = package->fault;
  }
}

/* Length of the folder part of a path; 0: the current folder. */
static size_t folder_length(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash == path ? 1 : slash ? (size_t)(slash - path) : 0;
}

static char *copy(const char *text, size_t length) {
  char *copied = malloc(length + 1);
  if (copied) {
    memcpy(copied, text, length);
    copied[length] = '\0';
  }
  return copied;
}

/* The same place without "./" in front; "." itself is nothing. */
static const char *skip_dots(const char *path) {
  while (path[0] == '.' && path[1] == '/') {
    path += 2;
    path += strspn(path, "/");
  }
  return path[0] == '.' && path[1] == '\0' ? path + 1 : path;
}

/* What is left of the first `size` bytes of `path` below `root`; *size becomes 0 if that is
 * nothing. */
static const char *below(const char *path, size_t *size, const char *root) {
  const char *begin = skip_dots(path);
  size_t left = (size_t)(begin - path) < *size ? *size - (size_t)(begin - path) : 0;
  root = skip_dots(root);
  size_t length = strlen(root);
  while (length > 1 && root[length - 1] == '/') {
    --length;
  }
  *size = 0;
  if (length == 0 && left > 0 && begin[0] != '/' && strncmp(begin, "..", 2) != 0) {
    *size = left;
    return begin;
  }
  if (length == 0 || left <= length || strncmp(begin, root, length) != 0 || begin[length] != '/') {
    return "";
  }
  *size = left - length - 1;
  return begin + length + 1;
}

quire_status quire_package_open(const char *manifest, const char *folder, quire_package *package,
                                quire_error *error) {
  const size_t own = folder_length(manifest);
  package->fault = (quire_error){.status = QUIRE_OK};
  quire_package_options_init(&package->options);
  package->root = folder ? copy(folder, strlen(folder)) : own ? copy(manifest, own) : copy(".", 1);
  size_t size = folder ? own : 0;
  const char *rest = folder ? below(manifest, &size, folder) : "";
  char *kept = copy(rest, size);
  if (!package->root || !kept) {
    free(kept);
    free(package->root);
    package->root = NULL;
    return quire_failure_set(error, QUIRE_OUT_OF_MEMORY, "no memory for the paths of templates");
  }
  package->options.folder = kept;
  package->options.read = read_file;
  package->options.user = package;
  return QUIRE_OK;
}

void quire_package_release(quire_package *package) {
  free((char *)package->options.folder);
  free(package->root);
  package->root = NULL;
}
