/*
 * A call of PagedAttention and one of LinearAttention, each with memory of its own: its tensors and
 * node for the runtime, and the same by Quire alone, whose bits are what a run must give.
 */
#ifndef QUIRE_TEST_ORT_CALLS_H
#define QUIRE_TEST_ORT_CALLS_H

#include "ort_fixture.h"
#include "quire/quire.h"

/* New tokens, sequences; heads and their size; blocks, their rows; table columns. */
enum { T = 5, B = 3, HQ = 4, HKV = 2, D = 16, NB = 8, P = 16, MB = 3 };
enum { QUERY = HQ * D, KEY = HKV * D, QUERIES = T * QUERY, KEYS = T * KEY, CACHE = NB * P * KEY };
enum { PAGED_INPUTS = 8, PAGED_OUTPUTS = 3 };

/* One call with memory of its own; float16 as bits. */
typedef struct paged {
  uint16_t query[QUERIES], key[KEYS], value[KEYS];
  uint16_t caches[2][CACHE], results[2][CACHE], output[QUERIES];
  int32_t starts[B + 1], past[B], table[B][MB];
} paged;

/* Values depend on the seed; results are zeros. */
void paged_fill(paged *p, uint32_t seed);
void paged_tensors(paged *p, ort_tensor inputs[PAGED_INPUTS], ort_tensor outputs[PAGED_OUTPUTS]);
ort_node paged_node(bool with_caches);
/* The same call without the runtime; the caches are updated in place. */
void paged_expect(quire_device *device, paged *p);

enum { LB = 2, LT = 3, LH = 2, LD = 4, LW = 2, LINEAR_INPUTS = 6, LINEAR_OUTPUTS = 2 };
enum { WIDTH = LH * LD, GATES = LB * LT * LH, ROWS = LB * LT * WIDTH, STATES = LB * WIDTH * LD };

typedef struct linear {
  float rows[3][ROWS], gates[2][GATES];
  float past[LW * STATES], present[LW * STATES], output[ROWS];
} linear;

void linear_fill(linear *l);
/* The states are a window of LW, or one. */
void linear_tensors(linear *l, int64_t tokens, bool window, ort_tensor inputs[LINEAR_INPUTS],
                    ort_tensor outputs[LINEAR_OUTPUTS]);
ort_node linear_node(bool window);
void linear_expect(quire_device *device, linear *l, int64_t tokens, bool window);

#endif
