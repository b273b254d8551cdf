/* What the tests of the library share: small calls. */
#ifndef QUIRE_TESTS_LIBRARY_FIXTURE_H
#define QUIRE_TESTS_LIBRARY_FIXTURE_H

/* cmocka wants these first. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "counting_allocator.h"
#include "cpu_device.h"
#include "quire/quire.h"

/* The CPU with two threads; fails the test if that fails. */
cpu_device open_cpu(const quire_allocator *allocator, size_t plan_cache_size);

/* A tensor of float32 or int32; `shape` must outlive it. */
quire_tensor floats(float *data, int32_t ndim, const int64_t *shape);
quire_tensor ints(int32_t *data, int32_t ndim, const int64_t *shape);

/* Fails the test, naming `what` and both numbers, unless they agree within 1e-6 + 1e-5 * |want|. */
void assert_near(const char *what, double got, double want);

/*
 * The data of the golden vectors PA-G1 to PA-G12 (docs/paged_attention.md, section 8): one decoded
 * token behind two cached ones, and a prompt of two.
 */
typedef struct paged_case {
  float query[3][4], key[3][2], value[3][2], output[3][4], lse[3][2], sink[2];
  float key_cache[4][2][1][2], value_cache[4][2][1][2];
  int32_t offsets[3], past[2], table[2][2], slots[3];
  quire_paged_attention_args args; /* points into this struct */
} paged_case;
void paged_case_init(paged_case *data);

/* The data of LA-G1 to LA-G8 (docs/linear_attention.md, section 8). */
typedef struct linear_case {
  float query[2][2], key[2][2], value[2], past[2], present[3][2], output[2];
  float decay_head[2], decay_key[2][2], beta[2];
  int64_t state_shape[5];
  quire_linear_attention_args args; /* gated_delta, decay per head */
} linear_case;
void linear_case_init(linear_case *data);

/* The data of PD-G1 and PD-G3 (docs/paged_decode.md, section 8): rows of 1, 2 and 3 tokens. */
typedef struct decode_case {
  float query[3][2][2], key_pages[1][2][2][2], value_pages[1][2][2][2], output[3][2][2], lse[3][2];
  float sink[2];
  int32_t table[3][2], lengths[3];
  quire_paged_decode_args args;
} decode_case;
void decode_case_init(decode_case *data);

#endif
