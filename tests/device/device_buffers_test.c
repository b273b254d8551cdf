/* Memory of the device (quire/buffer.h) on the CPU: what is written is read, and what is refused
   changes nothing. */
#include "device_harness.h"
#include "quire/buffer.h"

enum { BYTES = 100 };

static void check_refused(quire_status status, const quire_error *error, const char *subject,
                          const char *part) {
  if (status != QUIRE_BAD_REQUEST || strcmp(error->subject, subject) != 0 ||
      strstr(error->message, part) == NULL) {
    fail_msg("%s: %s; want %s: %s", quire_status_name(status), error->message, subject, part);
  }
}

static void test_transfers(void **state) {
  (void)state;
  harness h;
  harness_open(&h, 1);
  const size_t live = atomic_load(&h.memory.live);
  unsigned char bytes[BYTES], again[BYTES] = {0};
  void *buffers[2] = {NULL, NULL};
  for (int i = 0; i < BYTES; i++) {
    bytes[i] = (unsigned char)(i + 1);
  }
  for (int i = 0; i < 2; i++) {
    assert_int_equal(quire_buffer_create(h.device, BYTES, &buffers[i], NULL), QUIRE_OK);
    assert_int_equal((uintptr_t)buffers[i] % 64, 0);
    assert_int_equal(quire_buffer_write(h.device, buffers[i], 0, again, BYTES, NULL), QUIRE_OK);
  }
  assert_int_equal(quire_buffer_write(h.device, buffers[0], 10, bytes, 20, NULL), QUIRE_OK);
  assert_int_equal(quire_buffer_write(h.device, buffers[0], 0, NULL, 0, NULL), QUIRE_OK);
  const quire_buffer_copy_range ranges[] = {
      {buffers[0], 10, buffers[1], 50, 20},
      {buffers[0], 10, buffers[0], 30, 20}, /* next to each other: nothing is shared */
      {buffers[0], 0, buffers[1], 0, 0}};
  assert_int_equal(quire_buffer_copy(h.device, ranges, 3, NULL), QUIRE_OK);
  assert_int_equal(quire_buffer_copy(h.device, NULL, 0, NULL), QUIRE_OK);
  for (int i = 0; i < 2; i++) {
    const int first = i == 0 ? 10 : 50;
    const int last = i == 0 ? 50 : 70;
    assert_int_equal(quire_buffer_read(h.device, buffers[i], 0, again, BYTES, NULL), QUIRE_OK);
    for (int k = 0; k < BYTES; k++) {
      assert_int_equal(again[k], k >= first && k < last ? bytes[(k - first) % 20] : 0);
    }
    quire_buffer_destroy(h.device, buffers[i]);
  }
  quire_buffer_destroy(h.device, NULL);
  assert_int_equal(atomic_load(&h.memory.live), live);
  harness_close(&h);
}

static void test_refusals(void **state) {
  (void)state;
  harness h;
  harness_open(&h, 1);
  quire_error error;
  unsigned char bytes[BYTES] = {1, 2, 3}, again[BYTES];
  void *buffer = NULL;
  check_refused(quire_buffer_create(h.device, BYTES, NULL, &error), &error, "buffer", "is NULL");
  buffer = bytes;
  check_refused(quire_buffer_create(NULL, BYTES, &buffer, &error), &error, "device", "is NULL");
  assert_null(buffer);
  assert_int_equal(quire_buffer_create(h.device, UINT64_MAX, &buffer, &error), QUIRE_LIMIT);
  assert_null(buffer);
  h.memory.fail_at = atomic_load(&h.memory.requests) + 1;
  assert_int_equal(quire_buffer_create(h.device, BYTES, &buffer, &error), QUIRE_OUT_OF_MEMORY);
  assert_null(buffer);
  h.memory.fail_at = 0;
  assert_int_equal(quire_buffer_create(h.device, BYTES, &buffer, NULL), QUIRE_OK);
  assert_int_equal(quire_buffer_write(h.device, buffer, 0, bytes, BYTES, NULL), QUIRE_OK);

  check_refused(quire_buffer_write(NULL, buffer, 0, bytes, 1, &error), &error, "device", "NULL");
  check_refused(quire_buffer_write(h.device, NULL, 0, bytes, 1, &error), &error, "buffer", "NULL");
  check_refused(quire_buffer_write(h.device, buffer, 0, NULL, 1, &error), &error, "data", "NULL");
  check_refused(quire_buffer_read(h.device, buffer, 0, NULL, 1, &error), &error, "data", "NULL");
  check_refused(quire_buffer_read(h.device, buffer, UINT64_MAX, again, 1, &error), &error, "buffer",
                "1 bytes from 18446744073709551615 on leave the address space");

  const struct {
    quire_buffer_copy_range range;
    const char *part;
  } bad[] = {{{NULL, 0, buffer, 0, 1}, "range 1: a buffer is NULL"},
             {{buffer, 0, NULL, 0, 1}, "range 1: a buffer is NULL"},
             {{buffer, UINT64_MAX, buffer, 0, 1}, "range 1: 1 bytes leave the address space"},
             {{buffer, 0, buffer, UINT64_MAX - 3, 4}, "range 1: 4 bytes leave the address space"},
             {{buffer, 8, buffer, 11, 4}, "range 1: 4 bytes from 8 to 11 overlap"},
             {{buffer, 11, buffer, 8, 4}, "range 1: 4 bytes from 11 to 8 overlap"}};
  for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
    const quire_buffer_copy_range ranges[] = {{buffer, 0, buffer, 50, 3}, bad[i].range};
    check_refused(quire_buffer_copy(h.device, ranges, 2, &error), &error, "ranges", bad[i].part);
  }
  check_refused(quire_buffer_copy(h.device, NULL, 1, &error), &error, "ranges", "is NULL");
  check_refused(quire_buffer_copy(NULL, NULL, 0, &error), &error, "device", "is NULL");
  /* Not even the good ranges in front of a bad one were copied. */
  assert_int_equal(quire_buffer_read(h.device, buffer, 0, again, BYTES, NULL), QUIRE_OK);
  assert_memory_equal(again, bytes, BYTES);
  quire_buffer_destroy(h.device, buffer);
  harness_close(&h);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_transfers),
                                     cmocka_unit_test(test_refusals)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
