/* A small world for tests of the device: an owner, an allocator that counts and fails on demand,
   two operators of our own with their kernels, and tensors for them. */
#ifndef QUIRE_TESTS_DEVICE_HARNESS_H
#define QUIRE_TESTS_DEVICE_HARNESS_H

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

enum {
  HARNESS_FAILING_STEP = -1000, /* attribute step: every item of the pass fails */
  HARNESS_OVERRUN_STEP = -2000  /* writes one element behind scratch */
};

/* lengths[0] for which the schedule pass asks for more items than the plan allows */
enum { HARNESS_GREEDY_LENGTH = -77 };

typedef struct harness {
  counting_allocator memory;
  quire_owner owner;
  atomic_size_t references; /* to the owner */
  quire_operator scale;     /* x [R,C] -> y, which may be x's buffer */
  quire_operator columns;   /* the same, by columns: views with axes */
  quire_operator shift;     /* x [A,B,C] + 1 -> y, a cell an item */
  quire_operator append;    /* see APPEND in device_harness.c */
  quire_device *device;     /* two threads */
} harness;

/* Everything but the device comes from the C library's allocator, the device from the counting one.
 */
void harness_open(harness *h, size_t threads);
/* Fails the test if something is still alive. */
void harness_close(harness *h);

/*
 * One call of `append`: sequence n of the cache [N,C,D] gets step + values[n,d] added to its first
 * lengths[n] rows; total[n] is the sum of the sequence plus 1000 per channel that was worked on.
 * lengths above C are refused, negative ones too if the run is strict, else they count as 0.
 */
enum { APPEND_CACHE, APPEND_LENGTHS, APPEND_VALUES, APPEND_CACHE_OUT, APPEND_TOTAL, APPEND_SLOTS };

typedef struct append_call {
  int64_t n, c, d;
  int64_t cache_shape[3], n_shape[1], values_shape[2];
  int64_t cache_strides[3]; /* of both sides, in elements */
  int64_t cache_out_strides[3];
  float *cache, *cache_out, *values, *total;
  int32_t *lengths;
  size_t room; /* elements allocated for each cache */
  quire_tensor tensors[APPEND_SLOTS];
  quire_plan *plan;
} append_call;

typedef enum append_output { APPEND_EMPTY, APPEND_EQUAL, APPEND_SEPARATE } append_output;

typedef struct append_options {
  int64_t n, c, d;
  bool values;
  bool padded; /* strided caches: rows and sequences apart, other strides on the output side */
  bool listed; /* the request lists the output side */
  append_output output;
  float step;
} append_options;

/* Fills tensors with numbers and makes the plan. */
void append_make(harness *h, append_call *call, const append_options *options);
/* Fills caches and output with their first contents. */
void append_reset(append_call *call);
/* Fails the test, with the worst element, unless the call has its results. */
void append_check(const append_call *call, const append_options *options);
/* Fails the test unless caches and output have their first contents. */
void append_check_untouched(const append_call *call);
void append_free(append_call *call);

/* A workspace of the harness's device; fails the test if there is none. */
quire_workspace *make_workspace(harness *h);

/* A harness with two threads, a call and a workspace: all that most tests need. */
typedef struct append_fixture {
  harness h;
  append_call call;
  quire_workspace *workspace;
  quire_error error; /* for what is expected to fail */
} append_fixture;

void open_fixture(append_fixture *f, const append_options *options);
void close_fixture(append_fixture *f);

/* A tensor of rank 2 or less. */
quire_tensor dense_tensor(void *data, quire_dtype dtype, int32_t ndim, const int64_t *shape);

/* Plans scale (or columns) of [rows, columns]; alias: y is x's buffer. */
quire_plan *scale_plan(harness *h, const quire_operator *op, const int64_t shape[2], double factor,
                       bool alias);

#endif
