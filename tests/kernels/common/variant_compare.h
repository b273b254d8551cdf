/*
 * Runs one call by a named variant on a device and by the CPU's scalar kernels, through the public
 * interface, and compares: how the variants of every operator for devices are tested.
 */
#ifndef QUIRE_TEST_VARIANT_COMPARE_H
#define QUIRE_TEST_VARIANT_COMPARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "quire/quire.h"

struct CMUnitTest;

enum { VARIANT_MAX_TENSORS = 16, VARIANT_MAX_VALUES = 16, VARIANT_MAX_COMPARED = 32 };

/* A variant that was compared, by names that live as long as the world. */
typedef struct variant_name {
  const char *op, *variant;
} variant_name;

/* Two devices; `gpu` is NULL where this machine has none, and the test is to be skipped. */
typedef struct variant_world {
  quire_context *context;
  quire_device *cpu;
  quire_device *gpu;
  variant_name compared[VARIANT_MAX_COMPARED];
  size_t compared_count;
} variant_world;

/* A tensor of a call. Inputs carry dense host data; outputs say what is wanted. */
typedef struct variant_tensor {
  const char *name;
  quire_dtype dtype; /* outputs: NONE if the operator is to decide */
  int32_t ndim;      /* outputs: -1 if the shape is to be inferred */
  int64_t shape[5];
  const void *data;
  const char *alias; /* outputs: the input whose buffer it is */
} variant_tensor;

typedef struct variant_call {
  const char *op;
  variant_tensor inputs[VARIANT_MAX_TENSORS];
  size_t input_count;
  variant_tensor outputs[VARIANT_MAX_TENSORS]; /* beside those that are not optional */
  size_t output_count;
  quire_named_value attributes[VARIANT_MAX_VALUES];
  size_t attribute_count;
  quire_named_value tunables[VARIANT_MAX_VALUES]; /* of the device's plan */
  size_t tunable_count;
} variant_call;

/* Relative to the largest magnitude of a tensor; 16-bit tensors have a unit in the last place on
   top. */
typedef struct variant_tolerance {
  double relative;
} variant_tolerance;

void variant_open(variant_world *world, bool use_subgroups, bool default_limits);
void variant_close(variant_world *world);

/* The whole of a test's main(): runs the group with a world that has subgroups as every test's
   state, or skips it (77) where there is no device. */
int variant_main(const char *name, struct CMUnitTest *tests, size_t count);

/* NULL: there is none of that name. */
const variant_tensor *variant_find(const variant_tensor *tensors, size_t count, const char *name);
/* Elements. */
int64_t variant_count(const variant_tensor *tensor);

/* Appends a named value; texts are borrowed. */
void variant_set_int(quire_named_value *values, size_t *count, const char *name, int64_t value);
void variant_set_text(quire_named_value *values, size_t *count, const char *name,
                      const char *value);

/*
 * Plans the call for the device with `variant` (NULL: the planner's choice), runs it and compares
 * every output with the CPU's. UNSUPPORTED or LIMIT: the device cannot; nothing was compared. Fails
 * the test on everything else. `chosen` (may be NULL) gets the variant's name, which lives as long
 * as the world.
 */
quire_status variant_compare(variant_world *world, const variant_call *call, const char *variant,
                             variant_tolerance tolerance, const char **chosen);

/* The same where the CPU is to run another call, which has outputs of the same forms: values that
   the device must make harmless. */
quire_status variant_compare_as(variant_world *world, const variant_call *call,
                                const variant_call *on_cpu, const char *variant,
                                variant_tolerance tolerance);

/*
 * Runs the call with QUIRE_RUN_CHECK_VALUES, on the device and on the CPU: both accept its values,
 * or both refuse them with one message and the device's tensors are as they were. True: refused.
 */
bool variant_is_refused(variant_world *world, const variant_call *call, const char *variant);

/* Fails the test unless every WebGPU variant of the operator was compared in this world. */
void variant_expect_all(const variant_world *world, const char *op);

/*
 * Runs the call on the device alone, whatever its values are, and checks that nothing outside the
 * tensors was written. The bytes of output `name` are the caller's, to be freed.
 */
unsigned char *variant_run(variant_world *world, const variant_call *call, const char *variant,
                           const char *name);

#endif
