/* Shapes to measure: read from a file of cases (bench/cases.json has the format in its notes). */
#ifndef QUIRE_TOOL_BENCH_CASE_H
#define QUIRE_TOOL_BENCH_CASE_H

#include <stddef.h>
#include <stdint.h>

#include "quire/plan.h"
#include "quire/status.h"
#include "quire/tensor.h"

enum { BENCH_MOST_DTYPES = 5, BENCH_TEXT_SIZE = 64 };

/* What a case may need for the buffers of its warm figure: 256 GiB. */
static const int64_t BENCH_MOST_BYTES = 274877906944;

/* One sequence of a ragged batch. */
typedef struct bench_sequence {
  int64_t past, fresh;
} bench_sequence;

typedef struct bench_attention {
  int64_t heads, kv_heads, head_size, block_size;
  int64_t window; /* 0: none */
  double softcap; /* 0: none */
  int has_sink;
  bench_sequence *sequences;
  size_t sequence_count;
} bench_attention;

typedef struct bench_linear {
  int64_t batch, tokens, query_heads, key_heads, value_heads, key_size, value_size;
  int64_t state_window;
  int has_channel_decay, has_gates;
  int is_apart; /* the new state is written to a buffer of its own */
  quire_dtype state_dtype;
} bench_linear;

typedef struct bench_case {
  char workload[BENCH_TEXT_SIZE], name[BENCH_TEXT_SIZE], model[BENCH_TEXT_SIZE];
  int64_t attention_layers; /* 0: the case has no attention */
  int64_t linear_layers;
  bench_attention attention;
  bench_linear linear;
  quire_precision precision;         /* EXACT unless the command line says otherwise */
  int64_t states;                    /* buffers that the warm figure rotates through */
  int64_t stream_mib;                /* other memory that is read between layers */
  char dtypes[BENCH_MOST_DTYPES][8]; /* "f32", "f16", "bf16", "i8", "i8t" */
  size_t dtype_count;
} bench_case;

typedef struct bench_case_list {
  bench_case *items;
  size_t count;
} bench_case_list;

/* Parses a file of cases. Statuses: BAD_REQUEST (with line or case), OUT_OF_MEMORY. */
quire_status quire_bench_cases_parse(const char *text, size_t length, bench_case_list *list,
                                     quire_error *error);
void quire_bench_cases_release(bench_case_list *list);

/*
 * Bytes of `copies` tensors; more than BENCH_MOST_BYTES, by however much, is BENCH_MOST_BYTES + 1.
 * Nothing may be negative.
 */
int64_t quire_bench_tensor_bytes(quire_dtype dtype, int64_t copies, int32_t ndim,
                                 const int64_t *dims);

/* The tensor (or "stream_mib") of a parsed case with which it needs more than BENCH_MOST_BYTES, or
 * NULL. */
const char *quire_bench_case_excess(const bench_case *item);

/* Blocks of a sequence's row of the block table: those of [*first, *end). */
void quire_bench_columns(const bench_attention *item, const bench_sequence *sequence,
                         int64_t *first, int64_t *end);
int64_t quire_bench_count_blocks(const bench_attention *item);

/* 1 if `word` is the case's operator, workload, or a part of its name. NULL picks every case. */
int quire_bench_case_matches(const bench_case *item, const char *word);

/* The cases that were built in (bench/cases.json). */
extern const unsigned char quire_bench_cases_text[];
extern const size_t quire_bench_cases_length;

#endif
