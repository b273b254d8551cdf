/* The smallest calls of the built-in operators: what is left of their time is machinery. */
#ifndef QUIRE_TOOL_BENCH_PROBLEM_H
#define QUIRE_TOOL_BENCH_PROBLEM_H

#include "quire/context.h"
#include "quire/device.h"
#include "quire/operators.h"
#include "quire/plan.h"

enum {
  BENCH_OPERATORS = 4,
  BENCH_MOST_ROWS = 64,
  BENCH_HEAD_SIZE = 4,
  BENCH_MOST_TENSORS = 32,
  BENCH_MOST_ATTRIBUTES = 4
};

/*
 * A call with `rows` rows (sequences of one token) of one head of four elements, each of which sees
 * one key. Holds pointers into itself: not to be moved.
 */
typedef struct bench_problem {
  const quire_operator *op;
  quire_tensor tensors[BENCH_MOST_TENSORS]; /* one per slot */
  size_t tensor_count;
  quire_request_tensor inputs[BENCH_MOST_TENSORS];
  quire_named_value attributes[BENCH_MOST_ATTRIBUTES];
  quire_request request;
  /* The same call as a typed one. */
  union {
    quire_paged_attention_args paged_attention;
    quire_linear_attention_args linear_attention;
    quire_paged_decode_args paged_decode;
    quire_merge_attention_states_args merge;
  } args;
  quire_status (*call)(quire_device *device, const struct bench_problem *problem,
                       quire_error *error);
  int64_t shapes[BENCH_MOST_TENSORS][4];
  size_t shape_count;
  float numbers[BENCH_MOST_TENSORS][BENCH_MOST_ROWS * BENCH_HEAD_SIZE * BENCH_HEAD_SIZE];
  size_t number_count;
  int32_t counting[BENCH_MOST_ROWS + 1], zeros[BENCH_MOST_ROWS], ones[BENCH_MOST_ROWS];
} bench_problem;

/* Fills *problem for the operator of that index. Statuses: NOT_FOUND, INTERNAL (a slot). */
quire_status quire_bench_problem_make(const quire_context *context, size_t index, int64_t rows,
                                      bench_problem *problem, quire_error *error);

#endif
