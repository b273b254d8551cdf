/* Calls of PagedAttention for tests of its WebGPU variants, and calls that break its contract. */
#ifndef QUIRE_TEST_PAGED_WEBGPU_CALL_H
#define QUIRE_TEST_PAGED_WEBGPU_CALL_H

#include "variant_data.h"

enum { PAGED_SEQUENCES = 4 };

/* One call. What is 0 is off; scale 0 is the default. */
typedef struct paged_row {
  const char *variant;
  quire_dtype type;
  int64_t heads, kv_heads, size, block;
  int64_t past[PAGED_SEQUENCES], fresh[PAGED_SEQUENCES];
  int64_t sequences;
  const char *quantised; /* PER_TENSOR, PER_CHANNEL or PER_TOKEN */
  const char *values;    /* the same of values alone, where they differ */
  int64_t window;
  double scale, softcap;
  bool sink, non_causal, packed, slots, lse;
  bool holes;                /* a block of the history is unmapped, and one that is written to */
  bool poison;               /* the last token's value is NaN: only rows that see it may show it */
  bool unbounded;            /* the same with an infinity: so is the scale of its row */
  int64_t range, rows, keys; /* tunables */
} paged_row;

typedef struct paged_problem {
  variant_problem base;
  int64_t tokens, columns, blocks;
  int32_t *table;
  bool whole_blocks; /* every row of a mapped block is a number, not only those with keys */
} paged_problem;

/* Memory that no token may see is NaN, or 127 in int8. */
void paged_make(paged_problem *p, const paged_row *r, uint64_t seed);

/*
 * The same with values that break the contract, at random: table entries and slots out of range,
 * cumulative lengths that fall, are negative or huge, such past lengths. `harmless` becomes a call
 * for the CPU that does what a device must make of it (docs/paged_attention.md, 4.6); it shares the
 * problem's memory and owns tensors of its own.
 */
void paged_make_hostile(paged_problem *p, const paged_row *r, uint64_t seed,
                        variant_problem *harmless);

#endif
