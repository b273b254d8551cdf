/* What quire bench serving measures: an engine's books, and attention over a shared prefix. */
#ifndef QUIRE_TOOL_BENCH_SERVING_H
#define QUIRE_TOOL_BENCH_SERVING_H

#include <stdint.h>

#include "quire/serving.h"

enum {
  BENCH_SERVING_SEQUENCES = 256, /* of a step, one new token each */
  BENCH_SERVING_CONTEXT = 2048,
  BENCH_SERVING_PROMPTS = 16, /* cached ones, of PROMPT tokens each */
  BENCH_SERVING_PROMPT = 4096,
  BENCH_SERVING_ROWS = 32, /* sequences that share PREFIX tokens */
  BENCH_SERVING_PREFIX = 8192
};

/* A cache with sequences that decode, and one with prompts that nobody holds. */
typedef struct bench_books bench_books;

/* OUT_OF_MEMORY and what the serving layer says. */
quire_status quire_bench_books_open(bench_books **books, quire_error *error);
void quire_bench_books_close(bench_books *books);
/* One step: nanoseconds of appending and building, and of committing. */
quire_status quire_bench_books_step(bench_books *books, uint64_t *build, uint64_t *commit,
                                    quire_error *error);
/* Looks every prompt up; begins and frees a sequence for each. */
quire_status quire_bench_books_lookup(bench_books *books, uint64_t *nanoseconds,
                                      quire_error *error);
quire_status quire_bench_books_create(bench_books *books, uint64_t *nanoseconds,
                                      quire_error *error);
/* Bytes of a block's metadata, its share of the index included, token ids not. */
double quire_bench_books_block_bytes(const bench_books *books);

/* Decoding of rows that share a prefix: each for itself, and shared. */
typedef struct bench_prefix bench_prefix;
typedef struct bench_prefix_shape {
  int64_t heads, kv_heads; /* of size 128 */
  quire_dtype dtype;       /* float32 or float16 */
} bench_prefix_shape;
quire_status quire_bench_prefix_open(quire_device *device, const bench_prefix_shape *shape,
                                     bench_prefix **prefix, quire_error *error);
void quire_bench_prefix_close(bench_prefix *prefix);
/* Multiplications and additions of one step. */
double quire_bench_prefix_flops(const bench_prefix_shape *shape);
quire_status quire_bench_prefix_run(bench_prefix *prefix, int is_shared, uint64_t *nanoseconds,
                                    quire_error *error);

#endif
