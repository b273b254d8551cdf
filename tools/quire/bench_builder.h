/* Collects tensors and attributes of a call, and makes its plan. */
#ifndef QUIRE_TOOL_BENCH_BUILDER_H
#define QUIRE_TOOL_BENCH_BUILDER_H

#include "bench_program.h"

enum { BENCH_MOST_INPUTS = 24, BENCH_MOST_NAMED = 16 };

typedef struct bench_builder {
  const quire_session *session;
  bench_layers *layers;
  bench_random random;
  quire_request request;
  quire_request_tensor inputs[BENCH_MOST_INPUTS], outputs[BENCH_MOST_INPUTS];
  quire_named_value attributes[BENCH_MOST_NAMED];
  size_t shape_count;
  quire_status status;
  quire_error *error;
} bench_builder;

/* Begins a call of an operator; a failure of any step shows in `status` and at the end. */
void quire_bench_begin(bench_builder *builder, const quire_session *session, const char *op,
                       size_t sets, bench_layers *layers, quire_error *error);

/*
 * Adds a tensor of `ndim` dimensions; `is_each`: memory for every set, else one for all. An output
 * with an alias shares the memory of that input. Returns the memory of the first set (the others
 * follow), NULL on failure or for an alias.
 */
void *quire_bench_tensor(bench_builder *builder, const char *name, int is_output, int is_each,
                         quire_dtype dtype, const char *alias, int32_t ndim, const int64_t *dims);

void quire_bench_integer(bench_builder *builder, const char *name, int64_t value);
void quire_bench_number(bench_builder *builder, const char *name, double value);
void quire_bench_text(bench_builder *builder, const char *name, const char *value);

/* Repeats the first set's data of an input in the other sets. */
void quire_bench_repeat(bench_builder *builder, const char *name);

/* Makes plan and workspace. */
quire_status quire_bench_end(bench_builder *builder);

/* The two operators that cases use. */
quire_status quire_bench_make_attention(const quire_session *session, const bench_attention *item,
                                        quire_precision precision, const char *dtype, size_t sets,
                                        bench_layers *layers, quire_error *error);
quire_status quire_bench_make_linear(const quire_session *session, const bench_linear *item,
                                     quire_dtype dtype, size_t sets, bench_layers *layers,
                                     quire_error *error);

double quire_bench_attention_bytes(const bench_attention *item, quire_dtype dtype);
double quire_bench_linear_bytes(const bench_linear *item, quire_dtype dtype);

#endif
