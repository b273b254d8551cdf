#include "fault_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void fault_must(quire_status status, const quire_error *error) {
  if (status != QUIRE_OK) {
    fail_msg("%s: %s", quire_status_name(status), error->message);
  }
}

uint64_t fault_hash(uint64_t hash, const void *data, size_t size) {
  const unsigned char *bytes = data;
  for (size_t i = 0; i < size; i++) {
    hash = (hash ^ bytes[i]) * 1099511628211u;
  }
  return hash ^ hash >> 29;
}

void fault_show(fault_world *world, const void *data, size_t size) {
  world->seen = fault_hash(world->seen + 1, data, size);
}

void fault_write(void *user, const char *text, size_t length) {
  fault_show(user, text, length);
}

static quire_tensor add(fault_world *world, quire_dtype dtype, int32_t ndim, const int64_t *shape,
                        const void *data, uint64_t bytes) {
  quire_error error;
  assert_true(world->buffer_count < FAULT_MOST_BUFFERS && ndim <= FAULT_MOST_RANK);
  const size_t at = world->buffer_count++;
  fault_must(quire_buffer_create(world->device, bytes, &world->buffers[at].buffer, &error), &error);
  fault_must(quire_buffer_write(world->device, world->buffers[at].buffer, 0, data, bytes, &error),
             &error);
  world->buffers[at].bytes = bytes;
  memcpy(world->buffers[at].shape, shape, (size_t)ndim * sizeof *shape);
  return (quire_tensor){world->buffers[at].buffer, 0, dtype, ndim, world->buffers[at].shape, NULL};
}

static size_t elements_of(int32_t ndim, const int64_t *shape) {
  size_t count = 1;
  for (int32_t d = 0; d < ndim; d++) {
    count *= (size_t)shape[d];
  }
  return count;
}

quire_tensor fault_floats(fault_world *world, int32_t ndim, const int64_t *shape) {
  const size_t count = elements_of(ndim, shape);
  float *data = malloc((count + 1) * sizeof *data);
  assert_non_null(data);
  for (size_t i = 0; i < count; i++) {
    data[i] = (float)((i * 7 + world->buffer_count * 5) % 29) / 32 - 0.5f;
  }
  const quire_tensor made =
      add(world, QUIRE_FLOAT32, ndim, shape, data, (uint64_t)count * sizeof *data);
  free(data);
  return made;
}

quire_tensor fault_ints(fault_world *world, int32_t ndim, const int64_t *shape,
                        const int32_t *values) {
  return add(world, QUIRE_INT32, ndim, shape, values,
             (uint64_t)elements_of(ndim, shape) * sizeof *values);
}

const char *fault_file(const char *path, size_t *length) {
  static char text[1 << 20];
  char whole[1024];
  (void)snprintf(whole, sizeof whole, "%s/%s", QUIRE_SOURCE_FOLDER, path);
  FILE *file = fopen(whole, "rb");
  if (file == NULL) {
    fail_msg("%s cannot be opened", whole);
    return NULL;
  }
  *length = fread(text, 1, sizeof text, file);
  assert_int_equal(fclose(file), 0);
  return text;
}

/* The device keeps one plan: that of the last call. */
void fault_forget_plan(fault_world *world) {
  static const int64_t wide[] = {1, 1, 4}, narrow[] = {1, 1};
  quire_merge_attention_states_args args;
  quire_error error;
  const size_t before = world->buffer_count;
  quire_merge_attention_states_args_init(&args);
  args.output_a = fault_floats(world, 3, wide);
  args.output_b = fault_floats(world, 3, wide);
  args.output = fault_floats(world, 3, wide);
  args.softmax_lse_a = fault_floats(world, 2, narrow);
  args.softmax_lse_b = fault_floats(world, 2, narrow);
  args.softmax_lse = fault_floats(world, 2, narrow);
  fault_must(quire_merge_attention_states(world->device, &args, &error), &error);
  while (world->buffer_count > before) {
    quire_buffer_destroy(world->device, world->buffers[--world->buffer_count].buffer);
  }
}
