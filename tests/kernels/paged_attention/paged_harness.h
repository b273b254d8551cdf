/* Runs the passes of PagedAttention and PagedDecode on views built by hand: no engine. */
#ifndef QUIRE_TESTS_PAGED_HARNESS_H
#define QUIRE_TESTS_PAGED_HARNESS_H

#include <stdbool.h>
#include <stdint.h>

#include "pass.h"
#include "quire/device.h"

/* One call. Pointers are borrowed; NULL: absent. Caches are [blocks, rows, heads, size] by strides.
 */
typedef struct paged_call {
  quire_dtype dtype;       /* of query, key, value, output, sink */
  quire_dtype cache_dtype; /* dtype or int8 */
  int64_t tokens, sequences;
  int64_t num_heads, kv_num_heads, head_size;
  int64_t block_count, block_size, columns;
  const void *query, *key, *value; /* dense; key and value NULL: packed */
  int64_t query_stride;            /* 0: dense */
  void *key_cache, *value_cache;
  int64_t cache_stride[4];   /* all 0: dense */
  int64_t padded_size;       /* of a cache's rows; 0: head_size */
  const int32_t *cumulative; /* PagedDecode: NULL */
  const int32_t *past;       /* PagedDecode: context lengths */
  const int32_t *table;
  const int32_t *slots;
  const int32_t *metadata;
  int64_t metadata_count;
  const void *sink;
  const float *k_scale, *v_scale;
  float *k_scale_cache, *v_scale_cache; /* [blocks, rows, heads]: one a token and head */
  int64_t scale_stride[3];              /* all 0: dense */
  bool per_channel;
  float scale, softcap;
  int64_t window;
  bool non_causal;
  int64_t partial_blocks; /* PagedDecode */
  uint32_t flags;
  /* How to run it: nothing here may change a bit. */
  quire_isa isa;                      /* of the kernels, where they have it; else plain C */
  const quire_implementation *attend; /* NULL: that of `isa` in precision exact */
  int64_t state_limit;                /* -1: what the manifest gives */
  int64_t extra_items;   /* items above the number of rows; -1: what the manifest gives */
  bool reverse;          /* items in descending order */
  int64_t scatter_parts; /* 0: 3 */
  uint32_t threads;      /* what the schedule is told; 0: unknown */
  int64_t tile_rows;     /* of a runner's slice; 0: what the manifest gives */
  int64_t runners;       /* at most; -1: what the manifest gives */
  /* Results. */
  void *output;
  float *softmax_lse;
  int64_t item_count, merge_count; /* what the schedule made of it */
} paged_call;

/* Whether this machine runs an instruction set. */
bool paged_has_isa(quire_isa isa);

/* Returns the status of the schedule pass; nothing else runs if it fails. error may be NULL. */
quire_status paged_run(paged_call *call, quire_error *error);

/*
 * The definition in double: output [tokens, heads, size] and log-sum-exp [tokens, heads], read from
 * the caches as they are after a run. lse may be NULL.
 */
void paged_reference(const paged_call *call, double *output, double *lse);

/* The same in the fixed order of f32 operations: output holds the bits as they must be stored. */
void paged_exact(const paged_call *call, void *output, float *lse);

/* Uniform in [-1, 1), from a seed that it advances. */
float paged_random(uint64_t *seed);
/* n random elements, times `size`, of a float type. */
void paged_fill(quire_dtype dtype, void *data, int64_t n, float size, uint64_t *seed);

#endif
