#include "bench_problem.h"

#include <string.h>

#include "failure.h"

/* A float32 tensor; the last dimensions may be left 0 to lower the rank. */
static quire_tensor floats(bench_problem *problem, int64_t a, int64_t b, int64_t c, int64_t d) {
  int64_t *shape = problem->shapes[problem->shape_count++];
  const int64_t sizes[4] = {a, b, c, d};
  int32_t ndim = 0;
  while (ndim < 4 && sizes[ndim] > 0) {
    shape[ndim] = sizes[ndim];
    ndim += 1;
  }
  return (quire_tensor){.data = problem->numbers[problem->number_count++],
                        .dtype = QUIRE_FLOAT32,
                        .ndim = ndim,
                        .shape = shape};
}

static quire_tensor integers(bench_problem *problem, int32_t *data, int64_t a, int64_t b) {
  int64_t *shape = problem->shapes[problem->shape_count++];
  shape[0] = a;
  shape[1] = b;
  return (quire_tensor){.data = data, .dtype = QUIRE_INT32, .ndim = b > 0 ? 2 : 1, .shape = shape};
}

/* Binds a tensor to its slot and, if it is an input, lists it in the request. */
static int bind(bench_problem *problem, const char *name, int is_output, quire_tensor tensor) {
  const int32_t slot = quire_operator_find_slot(problem->op, name, is_output);
  if (slot < 0 || slot >= BENCH_MOST_TENSORS) {
    return 0;
  }
  problem->tensors[slot] = tensor;
  if (!is_output) {
    problem->inputs[problem->request.input_count++] = (quire_request_tensor){
        .name = name, .dtype = tensor.dtype, .ndim = tensor.ndim, .shape = tensor.shape};
  }
  return 1;
}

static void add_integer(bench_problem *problem, const char *name, int64_t value) {
  problem->attributes[problem->request.attribute_count++] =
      (quire_named_value){.name = name, .type = QUIRE_VALUE_TYPE_INT, .i = value};
}

static quire_status call_paged_attention(quire_device *device, const bench_problem *problem,
                                         quire_error *error) {
  return quire_paged_attention(device, &problem->args.paged_attention, error);
}

/* Block i holds the one row of sequence i. The caches are updated in place. */
static int make_paged_attention(bench_problem *problem, int64_t rows) {
  quire_paged_attention_args *args = &problem->args.paged_attention;
  quire_paged_attention_args_init(args);
  args->query = floats(problem, rows, BENCH_HEAD_SIZE, 0, 0);
  args->key = floats(problem, rows, BENCH_HEAD_SIZE, 0, 0);
  args->value = floats(problem, rows, BENCH_HEAD_SIZE, 0, 0);
  args->key_cache = floats(problem, rows, 1, 1, BENCH_HEAD_SIZE);
  args->value_cache = floats(problem, rows, 1, 1, BENCH_HEAD_SIZE);
  args->cumulative_sequence_length = integers(problem, problem->counting, rows + 1, 0);
  args->past_seqlens = integers(problem, problem->zeros, rows, 0);
  args->block_table = integers(problem, problem->counting, rows, 1);
  args->output = floats(problem, rows, BENCH_HEAD_SIZE, 0, 0);
  args->num_heads = 1;
  args->kv_num_heads = 1;
  add_integer(problem, "num_heads", 1);
  add_integer(problem, "kv_num_heads", 1);
  problem->call = call_paged_attention;
  return bind(problem, "query", 0, args->query) && bind(problem, "key", 0, args->key) &&
         bind(problem, "value", 0, args->value) && bind(problem, "key_cache", 0, args->key_cache) &&
         bind(problem, "value_cache", 0, args->value_cache) &&
         bind(problem, "cumulative_sequence_length", 0, args->cumulative_sequence_length) &&
         bind(problem, "past_seqlens", 0, args->past_seqlens) &&
         bind(problem, "block_table", 0, args->block_table) &&
         bind(problem, "output", 1, args->output);
}

static quire_status call_linear_attention(quire_device *device, const bench_problem *problem,
                                          quire_error *error) {
  return quire_linear_attention(device, &problem->args.linear_attention, error);
}

static int make_linear_attention(bench_problem *problem, int64_t rows) {
  quire_linear_attention_args *args = &problem->args.linear_attention;
  quire_linear_attention_args_init(args);
  args->query = floats(problem, rows, 1, BENCH_HEAD_SIZE, 0);
  args->key = floats(problem, rows, 1, BENCH_HEAD_SIZE, 0);
  args->value = floats(problem, rows, 1, BENCH_HEAD_SIZE, 0);
  args->output = floats(problem, rows, 1, BENCH_HEAD_SIZE, 0);
  args->present_state = floats(problem, rows, 1, BENCH_HEAD_SIZE, BENCH_HEAD_SIZE);
  args->q_num_heads = 1;
  args->kv_num_heads = 1;
  args->update_rule = "linear";
  add_integer(problem, "q_num_heads", 1);
  add_integer(problem, "kv_num_heads", 1);
  problem->attributes[problem->request.attribute_count++] = (quire_named_value){
      .name = "update_rule", .type = QUIRE_VALUE_TYPE_STRING, .s = args->update_rule};
  problem->call = call_linear_attention;
  return bind(problem, "query", 0, args->query) && bind(problem, "key", 0, args->key) &&
         bind(problem, "value", 0, args->value) && bind(problem, "output", 1, args->output) &&
         bind(problem, "present_state", 1, args->present_state);
}

static quire_status call_paged_decode(quire_device *device, const bench_problem *problem,
                                      quire_error *error) {
  return quire_paged_decode(device, &problem->args.paged_decode, error);
}

static int make_paged_decode(bench_problem *problem, int64_t rows) {
  quire_paged_decode_args *args = &problem->args.paged_decode;
  quire_paged_decode_args_init(args);
  args->query = floats(problem, rows, 1, BENCH_HEAD_SIZE, 0);
  args->key_pages = floats(problem, 1, rows, 1, BENCH_HEAD_SIZE);
  args->value_pages = floats(problem, 1, rows, 1, BENCH_HEAD_SIZE);
  args->page_table = integers(problem, problem->counting, rows, 1);
  args->context_lengths = integers(problem, problem->ones, rows, 0);
  args->output = floats(problem, rows, 1, BENCH_HEAD_SIZE, 0);
  args->scale = 0.5f;
  problem->attributes[problem->request.attribute_count++] =
      (quire_named_value){.name = "scale", .type = QUIRE_VALUE_TYPE_FLOAT, .f = 0.5};
  problem->call = call_paged_decode;
  return bind(problem, "query", 0, args->query) && bind(problem, "key_pages", 0, args->key_pages) &&
         bind(problem, "value_pages", 0, args->value_pages) &&
         bind(problem, "page_table", 0, args->page_table) &&
         bind(problem, "context_lengths", 0, args->context_lengths) &&
         bind(problem, "output", 1, args->output);
}

static quire_status call_merge(quire_device *device, const bench_problem *problem,
                               quire_error *error) {
  return quire_merge_attention_states(device, &problem->args.merge, error);
}

static int make_merge(bench_problem *problem, int64_t rows) {
  quire_merge_attention_states_args *args = &problem->args.merge;
  quire_merge_attention_states_args_init(args);
  args->output_a = floats(problem, rows, 1, BENCH_HEAD_SIZE, 0);
  args->softmax_lse_a = floats(problem, rows, 1, 0, 0);
  args->output_b = floats(problem, rows, 1, BENCH_HEAD_SIZE, 0);
  args->softmax_lse_b = floats(problem, rows, 1, 0, 0);
  args->output = floats(problem, rows, 1, BENCH_HEAD_SIZE, 0);
  args->softmax_lse = floats(problem, rows, 1, 0, 0);
  problem->call = call_merge;
  return bind(problem, "output_a", 0, args->output_a) &&
         bind(problem, "softmax_lse_a", 0, args->softmax_lse_a) &&
         bind(problem, "output_b", 0, args->output_b) &&
         bind(problem, "softmax_lse_b", 0, args->softmax_lse_b) &&
         bind(problem, "output", 1, args->output) &&
         bind(problem, "softmax_lse", 1, args->softmax_lse);
}

quire_status quire_bench_problem_make(const quire_context *context, size_t index, int64_t rows,
                                      bench_problem *problem, quire_error *error) {
  static const struct {
    const char *name;
    int (*make)(bench_problem *problem, int64_t rows);
  } makers[BENCH_OPERATORS] = {{"com.microsoft.PagedAttention", make_paged_attention},
                               {"com.microsoft.LinearAttention", make_linear_attention},
                               {"quire.PagedDecode", make_paged_decode},
                               {"quire.MergeAttentionStates", make_merge}};
  memset(problem, 0, sizeof *problem);
  quire_request_init(&problem->request);
  for (int32_t i = 0; i <= BENCH_MOST_ROWS; ++i) {
    problem->counting[i] = i;
  }
  for (size_t i = 0; i < BENCH_MOST_ROWS; ++i) {
    problem->ones[i] = 1;
  }
  problem->op = quire_context_find_operator(context, makers[index].name);
  if (!problem->op) {
    return quire_failure_set(error, QUIRE_NOT_FOUND, "no operator %s", makers[index].name);
  }
  problem->tensor_count = quire_operator_slot_count(problem->op);
  if (problem->tensor_count > BENCH_MOST_TENSORS || !makers[index].make(problem, rows)) {
    return quire_failure_set(error, QUIRE_INTERNAL, "%s lacks a slot that is measured",
                             makers[index].name);
  }
  problem->request.naming = QUIRE_NAMES_OPERATOR;
  problem->request.inputs = problem->inputs;
  problem->request.attributes = problem->attributes;
  return QUIRE_OK;
}
