#include "variant_data.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "numeric.h"

void variant_begin(variant_problem *p, const char *op, uint64_t seed) {
  memset(p, 0, sizeof *p);
  p->random = seed;
  p->call.op = op;
}

void variant_drop(variant_problem *p) {
  for (size_t i = 0; i < p->owned_count; i++) {
    free(p->owned[i]);
  }
  p->owned_count = 0;
}

static uint32_t next(variant_problem *p) {
  p->random = p->random * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(p->random >> 40);
}

uint32_t variant_random(variant_problem *p, uint32_t below) {
  return next(p) % below;
}

float variant_uniform(variant_problem *p, float low, float high) {
  return low + (high - low) * (float)next(p) / (float)(1 << 24);
}

void *variant_add(variant_problem *p, const char *name, quire_dtype dtype, int32_t ndim,
                  const int64_t *shape) {
  assert_true(p->call.input_count < VARIANT_MAX_TENSORS);
  variant_tensor *tensor = &p->call.inputs[p->call.input_count++];
  *tensor = (variant_tensor){.name = name, .dtype = dtype, .ndim = ndim};
  memcpy(tensor->shape, shape, (size_t)ndim * sizeof *shape);
  void *data = calloc((size_t)variant_count(tensor) + 1, quire_dtype_size(dtype));
  assert_non_null(data);
  p->owned[p->owned_count++] = data;
  tensor->data = data;
  return data;
}

void *variant_add_floats(variant_problem *p, const char *name, quire_dtype dtype, int32_t ndim,
                         const int64_t *shape, float low, float high) {
  void *data = variant_add(p, name, dtype, ndim, shape);
  const int64_t count = variant_count(&p->call.inputs[p->call.input_count - 1]);
  for (int64_t i = 0; i < count; i++) {
    variant_store(dtype, data, i, variant_uniform(p, low, high));
  }
  return data;
}

int32_t *variant_add_integers(variant_problem *p, const char *name, int32_t ndim,
                              const int64_t *shape, const int32_t *values) {
  int32_t *data = variant_add(p, name, QUIRE_INT32, ndim, shape);
  const int64_t count = variant_count(&p->call.inputs[p->call.input_count - 1]);
  memcpy(data, values, (size_t)count * sizeof *data);
  return data;
}

void variant_want(variant_problem *p, const char *name) {
  assert_true(p->call.output_count < VARIANT_MAX_TENSORS);
  p->call.outputs[p->call.output_count++] = (variant_tensor){.name = name, .ndim = -1};
}

void variant_store(quire_dtype dtype, void *data, int64_t index, float value) {
  if (dtype == QUIRE_FLOAT32) {
    ((float *)data)[index] = value;
  } else if (dtype == QUIRE_FLOAT16) {
    ((uint16_t *)data)[index] = quire_f32_to_f16(value);
  } else if (dtype == QUIRE_BFLOAT16) {
    ((uint16_t *)data)[index] = quire_f32_to_bf16(value);
  } else {
    ((int8_t *)data)[index] = (int8_t)(isnan(value) ? 127 : lrintf(60 * value));
  }
}

void variant_fill(variant_problem *p, quire_dtype dtype, void *data, int64_t first, int64_t count) {
  for (int64_t i = first; i < first + count; i++) {
    variant_store(dtype, data, i, variant_uniform(p, -1, 1));
  }
}

void *variant_data(const variant_problem *p, const char *name) {
  for (size_t i = 0; i < p->call.input_count; i++) {
    if (strcmp(p->call.inputs[i].name, name) == 0) {
      return p->owned[i];
    }
  }
  fail_msg("no input %s", name);
  return NULL;
}
