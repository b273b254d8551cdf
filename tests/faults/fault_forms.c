#include "fault_forms.h"

#include <string.h>

const int32_t fault_offsets[] = {0, 1, 2, 3};
const int32_t fault_past[] = {9, 0, 4};
const int32_t fault_lengths[] = {10, 1, 5};
const int32_t fault_table[] = {4, 0, 5, 2, -1, -1, 7, 1, -1};

static const int64_t query_shape[] = {3, 64}, row_shape[] = {3, 32}, cache_shape[] = {8, 4, 2, 16};
static const int64_t cache_strides[] = {256, 64, 32, 1};
static const int64_t offset_shape[] = {4}, length_shape[] = {3}, table_shape[] = {3, 3};
static const int64_t rows_shape[] = {2, 5, 16}, state_shape[] = {2, 2, 8, 8},
                     gate_shape[] = {2, 5, 2};
static const int64_t decode_shape[] = {3, 4, 16}, pages_shape[] = {2, 8, 4, 16}, sink_shape[] = {4};

#define DENSE(name, type, rank, shape) \
  { name, type, rank, shape, NULL, NULL }
#define WHOLE(name, value) \
  { name, QUIRE_VALUE_TYPE_INT, value, 0, NULL }
#define PAGED_ROWS                                                                          \
  DENSE("query", QUIRE_FLOAT32, 2, query_shape), DENSE("key", QUIRE_FLOAT32, 2, row_shape), \
      DENSE("value", QUIRE_FLOAT32, 2, row_shape),                                          \
      DENSE("cumulative_sequence_length", QUIRE_INT32, 1, offset_shape),                    \
      DENSE("past_seqlens", QUIRE_INT32, 1, length_shape),                                  \
      DENSE("block_table", QUIRE_INT32, 2, table_shape)
#define PAGED_CACHES                                 \
  DENSE("key_cache", QUIRE_FLOAT32, 4, cache_shape), \
      DENSE("value_cache", QUIRE_FLOAT32, 4, cache_shape)

const fault_form fault_paged_form = {
    .op = "com.microsoft.PagedAttention",
    .inputs = {PAGED_ROWS, PAGED_CACHES},
    .input_count = 8,
    .attributes = {WHOLE("num_heads", 4), WHOLE("kv_num_heads", 2)},
    .attribute_count = 2};

const fault_form fault_strided_form = {
    .op = "com.microsoft.PagedAttention",
    .inputs = {PAGED_ROWS,
               {"key_cache", QUIRE_FLOAT32, 4, cache_shape, cache_strides, NULL},
               {"value_cache", QUIRE_FLOAT32, 4, cache_shape, cache_strides, NULL}},
    .input_count = 8,
    .outputs = {DENSE("output", QUIRE_FLOAT32, 2, query_shape),
                {"softmax_lse", QUIRE_DTYPE_NONE, -1, NULL, NULL, NULL}},
    .output_count = 2,
    .attributes = {WHOLE("num_heads", 4), WHOLE("kv_num_heads", 2)},
    .attribute_count = 2};

const fault_form fault_refused_form = {
    .op = "com.microsoft.PagedAttention",
    .inputs = {PAGED_ROWS, PAGED_CACHES},
    .input_count = 8,
    .attributes = {WHOLE("num_heads", 3), WHOLE("kv_num_heads", 2)},
    .attribute_count = 2};

const fault_form fault_linear_form = {
    .op = "com.microsoft.LinearAttention",
    .inputs = {DENSE("query", QUIRE_FLOAT32, 3, rows_shape),
               DENSE("key", QUIRE_FLOAT32, 3, rows_shape),
               DENSE("value", QUIRE_FLOAT32, 3, rows_shape),
               DENSE("past_state", QUIRE_FLOAT32, 4, state_shape),
               DENSE("decay", QUIRE_FLOAT32, 3, gate_shape),
               DENSE("beta", QUIRE_FLOAT32, 3, gate_shape)},
    .input_count = 6,
    .attributes = {WHOLE("q_num_heads", 2), WHOLE("kv_num_heads", 2)},
    .attribute_count = 2};

const fault_form fault_decode_form = {
    .op = "quire.PagedDecode",
    .inputs = {DENSE("query", QUIRE_FLOAT32, 3, decode_shape),
               DENSE("key_pages", QUIRE_FLOAT32, 4, pages_shape),
               DENSE("value_pages", QUIRE_FLOAT32, 4, pages_shape),
               DENSE("page_table", QUIRE_INT32, 2, table_shape),
               DENSE("context_lengths", QUIRE_INT32, 1, length_shape),
               DENSE("head_sink", QUIRE_FLOAT32, 1, sink_shape)},
    .input_count = 6,
    .attributes = {{"scale", QUIRE_VALUE_TYPE_FLOAT, 0, 0.25, NULL}},
    .attribute_count = 1};

quire_request fault_request(const fault_form *form) {
  quire_request request;
  quire_request_init(&request);
  request.inputs = form->inputs;
  request.input_count = form->input_count;
  request.outputs = form->outputs;
  request.output_count = form->output_count;
  request.attributes = form->attributes;
  request.attribute_count = form->attribute_count;
  return request;
}

const quire_operator *fault_operator(const fault_world *world, const fault_form *form) {
  const quire_operator *op = quire_context_find_operator(world->context, form->op);
  assert_non_null(op);
  return op;
}

static const int32_t *integers_of(const char *name) {
  static const struct {
    const char *name;
    const int32_t *values;
  } known[] = {
      {"cumulative_sequence_length", fault_offsets},
      {"past_seqlens", fault_past},
      {"block_table", fault_table},
      {"page_table", fault_table},
      {"context_lengths", fault_lengths},
  };
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    if (strcmp(known[i].name, name) == 0) {
      return known[i].values;
    }
  }
  fail_msg("no integers for %s", name);
  return NULL;
}

void fault_bind(fault_world *world, const quire_operator *op) {
  world->tensor_count = quire_operator_slot_count(op);
  assert_true(world->tensor_count <= sizeof world->tensors / sizeof *world->tensors);
  for (size_t i = 0; i < world->tensor_count; i++) {
    quire_slot slot;
    quire_tensor form;
    assert_int_equal(quire_operator_slot(op, i, &slot), QUIRE_OK);
    assert_int_equal(quire_plan_slot(world->plan, i, &form), QUIRE_OK);
    world->tensors[i] = form;
    if (form.dtype == QUIRE_DTYPE_NONE || slot.alias >= 0) {
      continue;
    }
    const int64_t *strides = form.strides;
    world->tensors[i] = form.dtype == QUIRE_INT32
                            ? fault_ints(world, form.ndim, form.shape, integers_of(slot.name))
                            : fault_floats(world, form.ndim, form.shape);
    world->tensors[i].strides = strides;
    if (strides != NULL) { /* a first axis of twice the size has room for any of ours */
      int64_t shape[FAULT_MOST_RANK];
      memcpy(shape, form.shape, (size_t)form.ndim * sizeof *shape);
      shape[0] *= 2;
      world->tensors[i].data = fault_floats(world, form.ndim, shape).data;
    }
  }
}

void fault_make_plan(fault_world *world, const fault_form *form) {
  quire_error error;
  const quire_operator *op = fault_operator(world, form);
  const quire_request request = fault_request(form);
  fault_must(quire_plan_create(world->device, op, &request, &world->plan, &error), &error);
  fault_must(quire_workspace_create(world->device, NULL, &world->workspace, &error), &error);
  fault_bind(world, op);
}
