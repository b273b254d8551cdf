/*
 * Every file of tests/data/lint: pass_* load without findings, fail_* are refused and warn_* load,
 * both with exactly the findings of the .expect file beside them, one a line: "error PATH:LINE:
 * MESSAGE".
 */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "manifest.h"

enum { MAX_FILES = 400 };

static char *read_file(const char *path, size_t *length) {
  FILE *file = fopen(path, "rb");
  if (file == NULL) {
    fail_msg("cannot read %s", path);
  }
  char *text = malloc((size_t)1 << 21);
  assert_non_null(text);
  *length = fread(text, 1, ((size_t)1 << 21) - 1, file);
  text[*length] = '\0';
  (void)fclose(file);
  return text;
}

static void report(void *user, const quire_finding *finding) {
  quire_text *text = user;
  quire_text_format(text, "%s %s:%zu: %s\n",
                    finding->severity == QUIRE_SEVERITY_ERROR ? "error" : "warning", finding->path,
                    finding->line, finding->message);
}

static void check_file(const char *name) {
  char path[512];
  size_t length = 0;
  quire_manifest *manifest = NULL;
  quire_error error;
  quire_text findings;
  quire_text_init(&findings, &quire_default_allocator);
  (void)snprintf(path, sizeof path, "%s/lint/%s", QUIRE_TEST_DATA, name);
  char *text = read_file(path, &length);
  quire_status status = quire_manifest_load(&quire_default_allocator, text, length, report,
                                            &findings, &manifest, &error);
  bool loads = strncmp(name, "fail_", 5) != 0;
  if (loads != (status == QUIRE_OK) || loads != (manifest != NULL)) {
    fail_msg("%s: %s", name, quire_status_name(status));
  }
  size_t expected_length = 0;
  char *expected = NULL;
  if (strncmp(name, "pass_", 5) != 0) {
    memcpy(strrchr(path, '.'), ".expect", 8);
    expected = read_file(path, &expected_length);
    assert_true(expected_length > 0);
  }
  if (strcmp(quire_text_view(&findings), expected == NULL ? "" : expected) != 0) {
    fail_msg("%s:\n%s", name, quire_text_view(&findings));
  }
  quire_manifest_destroy(manifest);
  /* Loading says the same as the first error of lint. */
  quire_status loaded =
      quire_manifest_load(&quire_default_allocator, text, length, NULL, NULL, &manifest, &error);
  assert_int_equal(loaded, status);
  if (!loads) {
    assert_int_equal(error.status, QUIRE_BAD_MANIFEST);
    assert_non_null(strstr(expected == NULL ? "" : expected, error.subject));
  }
  quire_manifest_destroy(manifest);
  free(text);
  free(expected);
  quire_text_release(&findings);
}

static int compare_names(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

static void lint_files(void **state) {
  (void)state;
  static char *names[MAX_FILES];
  size_t count = 0;
  DIR *folder = opendir(QUIRE_TEST_DATA "/lint");
  assert_non_null(folder);
  for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
    size_t length = strlen(entry->d_name);
    if (length > 5 && strcmp(entry->d_name + length - 5, ".json") == 0) {
      assert_true(count < MAX_FILES);
      names[count] = malloc(length + 1);
      assert_non_null(names[count]);
      memcpy(names[count++], entry->d_name, length + 1);
    }
  }
  closedir(folder);
  assert_true(count >= 60);
  qsort(names, count, sizeof *names, compare_names);
  for (size_t i = 0; i < count; ++i) {
    check_file(names[i]);
    free(names[i]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(lint_files)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
