/*
 * Data of a call for variant_compare.h: tensors with random or given content, made in the order of
 * the calls and freed together. What goes wrong fails the test.
 */
#ifndef QUIRE_TEST_VARIANT_DATA_H
#define QUIRE_TEST_VARIANT_DATA_H

#include "variant_compare.h"

typedef struct variant_problem {
  variant_call call;
  void *owned[VARIANT_MAX_TENSORS];
  size_t owned_count;
  uint64_t random;
} variant_problem;

void variant_begin(variant_problem *p, const char *op, uint64_t seed);
void variant_drop(variant_problem *p);

/* From 0 to below - 1. */
uint32_t variant_random(variant_problem *p, uint32_t below);
float variant_uniform(variant_problem *p, float low, float high);

/* An input of zeros; its memory lives as long as the problem. */
void *variant_add(variant_problem *p, const char *name, quire_dtype dtype, int32_t ndim,
                  const int64_t *shape);
/* The same with uniform values. */
void *variant_add_floats(variant_problem *p, const char *name, quire_dtype dtype, int32_t ndim,
                         const int64_t *shape, float low, float high);
/* An int32 input with these values. */
int32_t *variant_add_integers(variant_problem *p, const char *name, int32_t ndim,
                              const int64_t *shape, const int32_t *values);
/* An optional output whose form the operator decides. */
void variant_want(variant_problem *p, const char *name);

/* Converts; int8 takes 60 times the value, and 127 for NaN. */
void variant_store(quire_dtype dtype, void *data, int64_t index, float value);
void variant_fill(variant_problem *p, quire_dtype dtype, void *data, int64_t first, int64_t count);

/* Memory of an input of the problem, to be changed. */
void *variant_data(const variant_problem *p, const char *name);

#endif
