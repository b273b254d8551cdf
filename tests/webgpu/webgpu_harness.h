/* A small world for tests of the WebGPU backend: an owner, an operator with shaders of its own, and
   tensors for it. Tests that need an adapter are skipped where there is none. */
#ifndef QUIRE_TESTS_WEBGPU_HARNESS_H
#define QUIRE_TESTS_WEBGPU_HARNESS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend.h"
#include "counting_allocator.h"
#include "quire/webgpu.h"
#include "webgpu_device.h"

typedef struct gpu_world {
  counting_allocator memory;
  quire_owner owner;
  quire_operator op;     /* see webgpu_harness.c */
  quire_operator broken; /* its shader does not compile */
  quire_device *device;
} gpu_world;

/* Opens the world and, with options (NULL: defaults), a device. False: there is no library or no
   adapter, and the test is to be skipped. */
bool gpu_open(gpu_world *world, const quire_webgpu_options *options);
/* The world without a device. */
void gpu_open_world(gpu_world *world);
/* Destroys the device behind the library's back, as when a driver is reset. */
void gpu_destroy_device(gpu_world *world);
/* Fails the test if something is still alive. */
void gpu_close(gpu_world *world);

/*
 * One call of `op`, for sequences n of cache [N,C]: cache[n, i] += step + bias[n] for i <
 * lengths[n] (bias is optional), in place; y[n] = sum of cache[n, :] + 1000 times how many elements
 * were changed, counted in scratch that must begin at zero; z[i] = 2 * x[i], where z may be x's
 * buffer. lengths outside [0, C] are refused by the schedule pass and clamped by the shader.
 */
enum { GPU_CACHE, GPU_LENGTHS, GPU_X, GPU_BIAS, GPU_CACHE_OUT, GPU_Y, GPU_Z, GPU_SLOTS };

typedef struct gpu_call {
  gpu_world *world;
  int64_t cache_shape[2], n_shape[1], x_shape[1];
  float cache[64], x[64], bias[8];
  int32_t lengths[8];
  bool with_bias, z_is_x, separate;
  quire_tensor tensors[GPU_SLOTS];
  void *buffers[GPU_SLOTS];
  quire_plan *plan;
  quire_workspace *workspace;
} gpu_call;

/* Plans, makes the buffers and fills them. Set the flags before. */
void gpu_make(gpu_world *world, gpu_call *call, int64_t n, int64_t c, int64_t x);
quire_status gpu_run(gpu_call *call, uint32_t flags, quire_error *error);
/* Fails the test unless the buffers hold what the call computes; runs: calls so far. */
void gpu_check(gpu_call *call, int runs);
/* Fails the test unless the buffers hold what gpu_make put there. */
void gpu_check_untouched(gpu_call *call);
void gpu_free(gpu_call *call);

#endif
