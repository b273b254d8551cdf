/* Tensor files: what is written is read back; what is damaged is refused, wherever the damage is.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "safetensors.h"

/* Files seem to have so many bytes more. */
static off_t told_more;

/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp): the linker's names. */
int __real_fstat(int descriptor, struct stat *about);
int __wrap_fstat(int descriptor, struct stat *about);
int __wrap_fstat(int descriptor, struct stat *about) {
  const int result = __real_fstat(descriptor, about);
  about->st_size += told_more;
  return result;
}
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */

/* A file of two tensors in memory; the caller frees it. */
static unsigned char *make_file(const char *header, size_t data_size, size_t *size) {
  const size_t length = strlen(header);
  *size = 8 + length + data_size;
  unsigned char *file = calloc(*size, 1);
  assert_non_null(file);
  file[0] = (unsigned char)(length & 0xff);
  file[1] = (unsigned char)(length >> 8 & 0xff);
  for (size_t i = 0; i < length; ++i) {
    file[8 + i] = (unsigned char)header[i];
  }
  for (size_t i = 0; i < data_size; ++i) {
    file[8 + length + i] = (unsigned char)i;
  }
  return file;
}

static const char two_tensors[] =
    "{\"a\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[0,8]},"
    "\"b\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[8,9]},"
    "\"__metadata__\":{\"op\":\"x\"}}";

static void test_read(void **state) {
  (void)state;
  size_t size = 0;
  unsigned char *file = make_file(two_tensors, 9, &size);
  quire_safetensors tensors;
  quire_error error;
  assert_int_equal(quire_safetensors_parse(file, size, &tensors, &error), QUIRE_OK);
  assert_int_equal(tensors.count, 2);
  assert_string_equal(json_string_value(json_object_get(tensors.metadata, "op")), "x");
  const quire_stored_tensor *a = quire_safetensors_find(&tensors, "a");
  const quire_stored_tensor *b = quire_safetensors_find(&tensors, "b");
  assert_true(a && a->dtype == QUIRE_FLOAT32 && a->ndim == 2 && a->shape[0] == 2);
  assert_true(b && b->dtype == QUIRE_UINT8 && b->ndim == 0 && b->bytes == 1);
  assert_int_equal(*(const unsigned char *)b->data, 8);
  assert_null(quire_safetensors_find(&tensors, "c"));
  quire_safetensors_release(&tensors);
  free(file);
}

/* Wherever the elements lie, they come out aligned and whole. */
static void test_alignment(void **state) {
  (void)state;
  for (size_t pad = 0; pad < 8; ++pad) {
    char header[256];
    (void)snprintf(header, sizeof header, "%s%*s", two_tensors, (int)pad, "");
    size_t size = 0;
    unsigned char *file = make_file(header, 9, &size);
    quire_safetensors tensors;
    assert_int_equal(quire_safetensors_parse(file, size, &tensors, NULL), QUIRE_OK);
    const quire_stored_tensor *a = quire_safetensors_find(&tensors, "a");
    const uint32_t want[2] = {0x03020100, 0x07060504}; /* files are little-endian */
    assert_int_equal((uintptr_t)a->data % 4, 0);
    assert_memory_equal(a->data, want, 8);
    quire_safetensors_release(&tensors);
    free(file);
  }
}

/* A prefix of a file is never a file. */
static void test_truncation(void **state) {
  (void)state;
  size_t size = 0;
  unsigned char *file = make_file(two_tensors, 9, &size);
  for (size_t kept = 0; kept < size; ++kept) {
    unsigned char *prefix = malloc(kept + 1); /* so that a sanitizer sees a read past the end */
    memcpy(prefix, file, kept);
    quire_safetensors tensors;
    quire_error error = {0};
    if (quire_safetensors_parse(prefix, kept, &tensors, &error) == QUIRE_OK) {
      fail_msg("the first %zu of %zu bytes were accepted", kept, size);
    }
    assert_true(error.message[0] != '\0');
    free(prefix);
  }
  free(file);
}

/* One damaged byte in the header gives a refusal or a file whose every element can be read. */
static void test_damage(void **state) {
  (void)state;
  size_t size = 0;
  size_t accepted = 0;
  unsigned char *file = make_file(two_tensors, 9, &size);
  for (size_t place = 0; place < 8 + strlen(two_tensors); ++place) {
    for (int flip = 1; flip < 256; flip <<= 1) {
      file[place] ^= (unsigned char)flip;
      quire_safetensors tensors;
      if (quire_safetensors_parse(file, size, &tensors, NULL) == QUIRE_OK) {
        ++accepted;
        unsigned char sum = 0;
        for (size_t i = 0; i < tensors.count; ++i) {
          for (size_t k = 0; k < tensors.tensors[i].bytes; ++k) {
            sum = (unsigned char)(sum + ((const unsigned char *)tensors.tensors[i].data)[k]);
          }
        }
        assert_int_equal(sum, 36); /* 0 + 1 + ... + 8: every byte belongs to one tensor */
        quire_safetensors_release(&tensors);
      }
      file[place] ^= (unsigned char)flip;
    }
  }
  assert_true(accepted > 0 && accepted < size * 8 / 2); /* such as another letter in a name */
  free(file);
}

static void test_all_types(void **state) {
  (void)state;
  char path[] = "/tmp/quire_safetensors_test_XXXXXX";
  const int descriptor = mkstemp(path);
  assert_true(descriptor >= 0);
  (void)close(descriptor);
  static const unsigned char bytes[24] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 1, 1};
  quire_stored_tensor stored[QUIRE_DTYPE_COUNT];
  char names[QUIRE_DTYPE_COUNT][16];
  for (int i = 1; i < QUIRE_DTYPE_COUNT; ++i) {
    (void)snprintf(names[i], sizeof names[i], "t%d", i);
    stored[i - 1] =
        (quire_stored_tensor){.name = names[i],
                              .dtype = (quire_dtype)i,
                              .ndim = 2,
                              .shape = {3, i % 3 == 0 ? 0 : 1},
                              .bytes = i % 3 == 0 ? 0 : 3 * quire_dtype_size((quire_dtype)i),
                              .data = bytes};
  }
  json_t *metadata = json_pack("{s:s}", "note", "x");
  assert_int_equal(quire_safetensors_write(path, metadata, stored, QUIRE_DTYPE_COUNT - 1, NULL),
                   QUIRE_OK);
  json_decref(metadata);
  quire_safetensors tensors;
  quire_error error;
  assert_int_equal(quire_safetensors_open(path, &tensors, &error), QUIRE_OK);
  assert_int_equal(tensors.count, QUIRE_DTYPE_COUNT - 1);
  for (int i = 1; i < QUIRE_DTYPE_COUNT; ++i) {
    const quire_stored_tensor *tensor = quire_safetensors_find(&tensors, names[i]);
    assert_true(tensor && tensor->dtype == (quire_dtype)i &&
                (tensor->copy == NULL) == quire_safetensors_is_native());
    assert_int_equal(tensor->shape[1], i % 3 == 0 ? 0 : 1);
    assert_memory_equal(tensor->data, bytes, tensor->bytes);
  }
  quire_safetensors_release(&tensors);
  (void)unlink(path);
}

static void test_write_failure(void **state) {
  (void)state;
  quire_error error;
  assert_int_equal(quire_safetensors_write("/nonexistent/x", NULL, NULL, 0, &error), QUIRE_IO);
  assert_non_null(strstr(error.message, "No such file"));
  assert_int_equal(quire_safetensors_write("/dev/null", NULL, NULL, 0, &error), QUIRE_IO);
  assert_non_null(strstr(error.message, "not a regular file"));
}

/* ---- files that become shorter ---- */

static const char short_header[] =
    "{\"x\":{\"dtype\":\"F32\",\"shape\":[2048],\"data_offsets\":[0,8192]}}";

static void write_file(const char *path) {
  size_t size = 0;
  unsigned char *bytes = make_file(short_header, 8192, &size);
  memset(bytes + size - 8192, 0x3f, 8192);
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, size, file), size);
  assert_int_equal(fclose(file), 0);
  free(bytes);
}

/* What was opened stays whole: a mapped file would end the process here. */
static void test_cut_off_when_open(void **state) {
  (void)state;
  char path[] = "safetensors_test.XXXXXX";
  assert_true(close(mkstemp(path)) == 0);
  write_file(path);
  quire_safetensors tensors;
  quire_error error;
  assert_int_equal(quire_safetensors_open(path, &tensors, &error), QUIRE_OK);
  assert_int_equal(truncate(path, 0), 0);
  const quire_stored_tensor *tensor = quire_safetensors_find(&tensors, "x");
  assert_non_null(tensor);
  for (size_t i = 0; i < tensor->bytes; ++i) {
    assert_int_equal(((const unsigned char *)tensor->data)[i], 0x3f);
  }
  quire_safetensors_release(&tensors);
  assert_int_equal(unlink(path), 0);
}

/* Between the question for the size and the end of reading: the size that is told is larger. */
static void test_cut_off_while_read(void **state) {
  (void)state;
  char path[] = "safetensors_test.XXXXXX";
  assert_true(close(mkstemp(path)) == 0);
  write_file(path);
  quire_safetensors tensors;
  quire_error error;
  told_more = 1000;
  const quire_status status = quire_safetensors_open(path, &tensors, &error);
  told_more = 0;
  assert_int_equal(status, QUIRE_IO);
  assert_non_null(strstr(error.message, "and now ends after"));
  assert_int_equal(unlink(path), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_read),
      cmocka_unit_test(test_alignment),
      cmocka_unit_test(test_truncation),
      cmocka_unit_test(test_damage),
      cmocka_unit_test(test_all_types),
      cmocka_unit_test(test_write_failure),
      cmocka_unit_test(test_cut_off_when_open),
      cmocka_unit_test(test_cut_off_while_read),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
