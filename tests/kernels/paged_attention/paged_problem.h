/*
 * Random problems, given by their logical content (a key of a sequence at a position), and laid out
 * in memory in different ways.
 */
#ifndef QUIRE_TESTS_PAGED_PROBLEM_H
#define QUIRE_TESTS_PAGED_PROBLEM_H

#include <stdbool.h>
#include <stdint.h>

#include "paged_harness.h"

enum { PAGED_MAX_SEQUENCES = 5 };

typedef struct paged_problem {
  const char *name;
  quire_dtype dtype;
  int quantised; /* 0: no, 1: per tensor, 2: per channel, 3: per token and head */
  int64_t num_heads, kv_num_heads, head_size, block_size;
  int64_t window;
  float softcap;
  bool sink, non_causal, packed;
  int64_t hole; /* column of sequence 0 that is unmapped; 0: none */
  int64_t sequences;
  int64_t past[PAGED_MAX_SEQUENCES], fresh[PAGED_MAX_SEQUENCES];
} paged_problem;

/* How a problem lies in memory. */
typedef struct paged_layout {
  uint64_t shuffle;
  int64_t extra_columns;
  bool head_major;                /* caches [heads, blocks, rows, size] by strides */
  bool spread_query;              /* a row stride larger than the row */
  bool mapped_slots;              /* slot_mapping given, equal to the derived slots */
  int64_t first, end;             /* sequences that take part */
  int64_t first_token, end_token; /* of the only sequence; 0, 0: all */
} paged_layout;

typedef struct paged_built {
  paged_call call;
  char *memory[16];
  size_t count;
  int64_t rows;
} paged_built;

/* Memory that no key may be read from holds NaN. */
void paged_build(const paged_problem *p, const paged_layout *l, paged_built *b);
void paged_release(paged_built *b);

#endif
