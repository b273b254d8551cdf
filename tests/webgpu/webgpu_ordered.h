/*
 * A WebGPU library for tests, each call of which fails in whatever way is ordered. It has buffers
 * and runs commands, without an adapter: what a dispatch leaves in the buffers that it may write
 * follows from all that it may read. It ends the process where wgpu-native does (a NULL or released
 * handle, an invalid command buffer in a submit), and counts handles and scopes.
 *
 * There are two: webgpu_ordered_native behaves as wgpu-native does, webgpu_ordered_standard as
 * webgpu.h says. Either can be what QUIRE_WEBGPU_LIBRARY names; nothing fails until it is told.
 */
#ifndef QUIRE_TESTS_WEBGPU_ORDERED_H
#define QUIRE_TESTS_WEBGPU_ORDERED_H

#include <stddef.h>

/* Ways to fail, one bit each: what is returned, reported to an error scope, told by a callback. */
enum {
  ORDERED_NULL = 1,       /* no handle, no memory, a status of failure */
  ORDERED_VALIDATION = 2, /* an error in the scope, and an invalid handle */
  ORDERED_MEMORY = 4,
  ORDERED_INTERNAL = 8,
  ORDERED_REFUSED = 16,   /* the callback has an error */
  ORDERED_LATE = 32,      /* it comes after many rounds: no failure */
  ORDERED_NEVER = 64,     /* it comes when everything is closed: ordered_flush() */
  ORDERED_RELEASED = 128, /* it comes, cancelled, when the device or the instance is released */
  ORDERED_LOST = 256,     /* the device is lost before the call does anything */
  ORDERED_SILENT = 512,   /* the same, and no callback comes any more before ordered_flush() */
  ORDERED_WAYS = 10
};

/* Asked at every call; returns the way in which it is to fail, one of `ways`, or 0. */
typedef unsigned ordered_function(const char *name, unsigned ways);

/* NULL: nothing fails. */
void ordered_start(ordered_function *function);
/* Lets the callbacks come that never came. */
void ordered_flush(void);
/* Handles, texts and error scopes that nobody has given back; callbacks that have not come. */
size_t ordered_live(void);
/* Submits that ran their commands so far. */
size_t ordered_submits(void);
const char *ordered_way_name(unsigned way);

#endif
