/* fuzz_replay TARGET PATH...: hands each file to a fuzz target, as libFuzzer would. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"

typedef int one_input(const uint8_t *data, size_t size);

#define TARGET(name) one_input name;
FUZZ_TARGETS
#undef TARGET

static const struct {
  const char *name;
  one_input *run;
} targets[] = {
#define TARGET(name) {#name, name},
    FUZZ_TARGETS
#undef TARGET
};

/* In memory of its exact size, so that a sanitizer sees a step outside. */
static void run_file(one_input *run, const char *path) {
  quire_file_bytes bytes;
  quire_error error = {0};
  if (quire_file_read(path, SIZE_MAX / 2, &bytes, &error) != QUIRE_OK) {
    (void)fprintf(stderr, "%s: %s\n", path, error.message);
    exit(1);
  }
  uint8_t *copy = malloc(bytes.size + (bytes.size == 0));
  if (copy == NULL) {
    exit(1);
  }
  memcpy(copy, bytes.data, bytes.size);
  printf("%s\n", path);
  (void)fflush(stdout);
  run(copy, bytes.size);
  free(copy);
  quire_file_release(&bytes);
}

int main(int count, char **arguments) {
  one_input *run = NULL;
  quire_file_paths paths = {0};
  quire_error error = {0};
  for (size_t i = 0; i < sizeof targets / sizeof *targets && count > 1; i++) {
    run = strcmp(arguments[1], targets[i].name) == 0 ? targets[i].run : run;
  }
  if (run == NULL || count < 3) {
    (void)fprintf(stderr, "usage: fuzz_replay TARGET PATH...\n");
    return 2;
  }
  for (int i = 2; i < count; i++) {
    if (quire_file_list(arguments[i], "", &paths, &error) != QUIRE_OK) {
      (void)fprintf(stderr, "%s: %s\n", arguments[i], error.message);
      return 1;
    }
  }
  for (size_t i = 0; i < paths.count; i++) {
    run_file(run, paths.items[i]);
  }
  printf("%zu inputs\n", paths.count);
  const int status = paths.count > 0 ? 0 : 1;
  quire_file_list_release(&paths);
  return status;
}
