/* Copies of blocks in tensors of any layout and type, and what is refused. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quire/quire.h"
#include "serving_fixture.h"

enum { ELEMENTS = 600 };

static cpu_device cpu;

typedef struct layout {
  const char *name;
  quire_dtype dtype;
  int32_t ndim, block_axis, row_axis;
  int64_t shape[4], strides[4]; /* strides[0] = 0: dense */
} layout;

static const layout layouts[] = {
    {"[NB, P, H, D]", QUIRE_FLOAT32, 4, 0, 1, {4, 3, 2, 5}, {0}},
    {"[H, NB, P, D]", QUIRE_FLOAT16, 4, 1, 2, {2, 4, 3, 5}, {0}},
    {"[NB, H, P, D]", QUIRE_INT8, 4, 0, 2, {4, 2, 3, 5}, {0}},
    {"scales [NB, P, H]", QUIRE_FLOAT32, 3, 0, 1, {4, 3, 2}, {0}},
    {"rows apart", QUIRE_FLOAT32, 4, 0, 1, {4, 3, 1, 5}, {30, 10, 10, 1}},
    {"channels apart", QUIRE_FLOAT32, 3, 0, 1, {4, 3, 5}, {30, 10, 2}},
    {"more runs than go to a device at once", QUIRE_FLOAT32, 2, 1, 0, {150, 4}, {0}},
    {"one number", QUIRE_INT64, 2, 0, 1, {4, 1}, {0}},
};

/* Where an element lies, and to which block it belongs. */
static int64_t offset_of(const layout *form, const int64_t *index) {
  int64_t offset = 0;
  int64_t dense = 1;
  for (int32_t axis = form->ndim; axis-- > 0;) {
    offset += index[axis] * (form->strides[0] != 0 ? form->strides[axis] : dense);
    dense *= form->shape[axis];
  }
  return offset;
}

static bool next_index(const layout *form, int64_t *index) {
  for (int32_t axis = form->ndim; axis-- > 0;) {
    if (++index[axis] < form->shape[axis]) {
      return true;
    }
    index[axis] = 0;
  }
  return false;
}

static void check_layout(quire_device *device, const layout *form) {
  static unsigned char before[(ELEMENTS + 2) * 8], after[(ELEMENTS + 2) * 8];
  const size_t size = quire_dtype_size(form->dtype);
  for (size_t i = 0; i < sizeof before; ++i) {
    before[i] = (unsigned char)(i * 37 + 11);
  }
  void *buffer = NULL;
  MUST(quire_buffer_create(device, sizeof before, &buffer, error));
  MUST(quire_buffer_write(device, buffer, 0, before, sizeof before, error));
  const quire_cache_tensor tensor = {NULL,
                                     {buffer, 2 * size, form->dtype, form->ndim, form->shape,
                                      form->strides[0] != 0 ? form->strides : NULL},
                                     5,
                                     form->block_axis,
                                     form->row_axis};
  /* A chain: what the second reads the first has written. */
  const quire_block_copy copies[] = {{5, 1, 3}, {4, 3, 1}, {5, 3, 0}};
  MUST(quire_cache_copy_blocks(device, &tensor, 1, copies, 3, error));
  MUST(quire_buffer_read(device, buffer, 0, after, sizeof after, error));
  quire_buffer_destroy(device, buffer);
  int64_t index[4] = {0};
  do {
    int64_t from[4];
    memcpy(from, index, sizeof from);
    if (index[form->block_axis] == 3 || index[form->block_axis] == 0) {
      from[form->block_axis] = 1;
    }
    unsigned char *want = before + (2 + (size_t)offset_of(form, from)) * size;
    unsigned char *got = after + (2 + (size_t)offset_of(form, index)) * size;
    if (memcmp(got, want, size) != 0) {
      fail_msg("%s: element of block %d", form->name, (int)index[form->block_axis]);
    }
    memcpy(got, before + (2 + (size_t)offset_of(form, index)) * size, size);
  } while (next_index(form, index));
  assert_memory_equal(after, before, sizeof before); /* nothing else was touched */
}

static void blocks_are_copied_in_every_layout(void **state) {
  for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; ++i) {
    check_layout(*state, &layouts[i]);
  }
}

static void check_refusals(quire_device *device);

/* The same in a GPU's memory: in a run of its own, for drivers are no code of ours to look for
 * races and leaks in. */
static void blocks_are_copied_on_webgpu(void **state) {
  (void)state;
  quire_device *device = NULL;
  quire_error error;
  if (getenv("QUIRE_TEST_WEBGPU") == NULL) {
    skip();
  }
  const quire_status status = quire_device_open(cpu.context, "webgpu", NULL, &device, &error);
  if (status == QUIRE_NOT_FOUND) {
    skip();
  }
  assert_int_equal(status, QUIRE_OK);
  for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; ++i) {
    check_layout(device, &layouts[i]);
  }
  check_refusals(device);
  quire_device_release(device);
}

static void check_refusals(quire_device *device) {
  static const float untouched[4][2] = {{1, 2}, {3, 4}, {5, 6}, {7, 8}};
  float got[4][2];
  void *data = NULL;
  MUST(quire_buffer_create(device, sizeof untouched, &data, error));
  MUST(quire_buffer_write(device, data, 0, untouched, sizeof untouched, error));
  const int64_t shape[] = {4, 2};
  quire_cache_tensor tensors[2] = {{NULL, {data, 0, QUIRE_FLOAT32, 2, shape, NULL}, 0, 0, 1},
                                   {NULL, {data, 0, QUIRE_FLOAT32, 2, shape, NULL}, 0, 0, 1}};
  const quire_block_copy good = {0, 0, 1};
  static const quire_block_copy bad[] = {{0, -1, 1}, {0, 4, 1}, {0, 1, -1}, {0, 1, 4}, {0, 2, 2}};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; ++i) {
    const quire_block_copy copies[] = {good, bad[i]};
    assert_int_equal(quire_cache_copy_blocks(device, tensors, 1, copies, 2, NULL), QUIRE_BAD_VALUE);
  }
  assert_int_equal(quire_cache_copy_blocks(NULL, tensors, 1, &good, 1, NULL), QUIRE_BAD_REQUEST);
  assert_int_equal(quire_cache_copy_blocks(device, NULL, 1, &good, 1, NULL), QUIRE_BAD_REQUEST);
  assert_int_equal(quire_cache_copy_blocks(device, tensors, 1, NULL, 1, NULL), QUIRE_BAD_REQUEST);
  tensors[1].block_axis = 2;
  assert_int_equal(quire_cache_copy_blocks(device, tensors, 2, &good, 1, NULL), QUIRE_BAD_SHAPE);
  tensors[1].block_axis = 0;
  const int64_t negative[] = {-2, 1};
  tensors[1].tensor.strides = negative;
  assert_int_equal(quire_cache_copy_blocks(device, tensors, 2, &good, 1, NULL), QUIRE_BAD_SHAPE);
  static const int64_t folded[][2] = {{0, 1}, {1, 1}, {2, 0}};
  for (size_t i = 0; i < sizeof folded / sizeof folded[0]; ++i) {
    quire_error error;
    tensors[1].tensor.strides = folded[i];
    assert_int_equal(quire_cache_copy_blocks(device, tensors, 2, &good, 1, &error),
                     QUIRE_BAD_REQUEST);
    assert_string_equal(error.rule, "SV-10");
  }
  tensors[1].tensor.strides = NULL;
  const int64_t huge[] = {INT64_MAX / 2, 4};
  tensors[1].tensor.shape = huge;
  assert_int_equal(quire_cache_copy_blocks(device, tensors, 2, &good, 1, NULL), QUIRE_BAD_SHAPE);
  tensors[1].tensor.shape = NULL;
  assert_int_equal(quire_cache_copy_blocks(device, tensors, 2, &good, 1, NULL), QUIRE_BAD_REQUEST);
  MUST(quire_buffer_read(device, data, 0, got, sizeof got, error));
  assert_memory_equal(got, untouched, sizeof got);
  MUST(quire_cache_copy_blocks(device, tensors, 1, &good, 1, error));
  MUST(quire_buffer_read(device, data, 0, got, sizeof got, error));
  assert_true(got[1][0] == 1 && got[1][1] == 2);
  MUST(quire_cache_copy_blocks(device, NULL, 0, NULL, 0, error));
  quire_buffer_destroy(device, data);
}

static void bad_copies_copy_nothing(void **state) {
  check_refusals(*state);
}

static int open_device(void **state) {
  cpu = cpu_open(NULL, NULL);
  *state = cpu.device;
  return 0;
}

static int close_device(void **state) {
  (void)state;
  cpu_close(&cpu);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(blocks_are_copied_in_every_layout),
      cmocka_unit_test(blocks_are_copied_on_webgpu),
      cmocka_unit_test(bad_copies_copy_nothing),
  };
  return cmocka_run_group_tests(tests, open_device, close_device);
}
