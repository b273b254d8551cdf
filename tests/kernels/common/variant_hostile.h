/*
 * Ragged calls on pools of states whose offsets, slots and counts break the contract on the device.
 * What must hold whatever they are: nothing outside the tensors is written, no slot that no
 * sequence names changes, and the first sequence, which is left alone, keeps its results.
 */
#ifndef QUIRE_TEST_VARIANT_HOSTILE_H
#define QUIRE_TEST_VARIANT_HOSTILE_H

#include "variant_data.h"

/* Calls so far, and how many of them are refused when values are checked. */
typedef struct variant_counts {
  size_t runs, refused;
} variant_counts;

/*
 * Runs the problem by the variant as it is, then `runs` times with values of sequences 1 and later
 * replaced at random. It has inputs cu_seqlens, read_indices, write_indices, state_pool and perhaps
 * accepted. `row_bytes` of "output" belong to one token; 0: there is no such output, or its rows
 * are not together.
 */
void variant_hostile_pool(variant_world *world, variant_problem *p, const char *variant,
                          size_t row_bytes, uint64_t runs, variant_counts *counts);

#endif
