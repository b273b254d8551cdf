#include "bench_builder.h"

#include <stdlib.h>
#include <string.h>

#include "failure.h"

static void fail(bench_builder *builder, quire_status status, const char *what) {
  if (builder->status == QUIRE_OK) {
    builder->status = quire_failure_set(builder->error, status, "%s", what);
  }
}

void quire_bench_begin(bench_builder *builder, const quire_session *session, const char *op,
                       size_t sets, bench_layers *layers, quire_error *error) {
  *builder =
      (bench_builder){.session = session, .layers = layers, .random = {20240607}, .error = error};
  quire_request_init(&builder->request);
  *layers = (bench_layers){.set_count = sets};
  layers->op = quire_context_find_operator(session->context, op);
  if (!layers->op) {
    fail(builder, QUIRE_NOT_FOUND, op);
    return;
  }
  layers->slot_count = quire_operator_slot_count(layers->op);
  layers->tensors = calloc(sets * layers->slot_count, sizeof *layers->tensors);
  layers->shapes = calloc((size_t)2 * BENCH_MOST_INPUTS, sizeof *layers->shapes);
  if (!layers->tensors || !layers->shapes) {
    fail(builder, QUIRE_OUT_OF_MEMORY, "no memory for tensors");
  }
}

/* Sets begin on pages of their own, a few lines apart from one another in the caches' sets. */
static uint64_t spaced(uint64_t bytes) {
  return (bytes + 4095) / 4096 * 4096 + 4096 + 320;
}

static unsigned char *claim(bench_builder *builder, size_t bytes) {
  bench_pool *pool = &builder->layers->pool;
  unsigned char *memory = pool->count < BENCH_MOST_BLOCKS ? quire_bench_memory_new(bytes) : NULL;
  if (!memory) {
    fail(builder, QUIRE_OUT_OF_MEMORY, "no memory for a tensor");
    return NULL;
  }
  pool->blocks[pool->count].memory = memory;
  pool->blocks[pool->count++].bytes = bytes;
  return memory;
}

static int is_host(const quire_device *device) {
  return !strcmp(quire_device_describe(device)->backend, "cpu");
}

static void request(bench_builder *builder, const char *name, int is_output,
                    const quire_tensor *form, const char *alias) {
  const quire_request_tensor asked = {
      .name = name, .dtype = form->dtype, .ndim = form->ndim, .shape = form->shape, .alias = alias};
  if (is_output) {
    builder->outputs[builder->request.output_count++] = asked;
  } else {
    builder->inputs[builder->request.input_count++] = asked;
  }
}

void *quire_bench_tensor(bench_builder *builder, const char *name, int is_output, int is_each,
                         quire_dtype dtype, const char *alias, int32_t ndim, const int64_t *dims) {
  bench_layers *layers = builder->layers;
  if (builder->status != QUIRE_OK) {
    return NULL;
  }
  if (!is_host(builder->session->device)) {
    alias = NULL; /* a dispatch cannot read and write one buffer under two names */
  }
  const int32_t slot = quire_operator_find_slot(layers->op, name, is_output);
  const int32_t source = alias ? quire_operator_find_slot(layers->op, alias, 0) : -1;
  if (slot < 0 || (alias && source < 0)) {
    fail(builder, QUIRE_INTERNAL, name);
    return NULL;
  }
  int64_t *shape = layers->shapes[builder->shape_count++];
  for (int32_t d = 0; d < ndim; ++d) {
    shape[d] = dims[d];
  }
  const size_t copies = is_each ? layers->set_count : 1;
  const int64_t needed = quire_bench_tensor_bytes(dtype, 1, ndim, dims);
  if (needed > BENCH_MOST_BYTES || spaced((uint64_t)needed) > SIZE_MAX / 2 / copies) {
    fail(builder, QUIRE_OUT_OF_MEMORY, "no memory for a tensor");
    return NULL;
  }
  const size_t bytes = (size_t)needed;
  unsigned char *memory = alias ? NULL : claim(builder, copies * (size_t)spaced(bytes));
  for (size_t set = 0; set < layers->set_count && builder->status == QUIRE_OK; ++set) {
    quire_tensor *tensors = layers->tensors + set * layers->slot_count;
    tensors[slot] = (quire_tensor){.dtype = dtype, .ndim = ndim, .shape = shape};
    tensors[slot].data =
        alias ? tensors[source].data : memory + (set % copies) * (size_t)spaced(bytes);
  }
  request(builder, name, is_output, &layers->tensors[slot], alias);
  return memory;
}

static quire_named_value *attribute(bench_builder *builder, const char *name,
                                    quire_value_type type) {
  quire_named_value *value = &builder->attributes[builder->request.attribute_count++];
  *value = (quire_named_value){.name = name, .type = type};
  return value;
}

void quire_bench_integer(bench_builder *builder, const char *name, int64_t value) {
  attribute(builder, name, QUIRE_VALUE_TYPE_INT)->i = value;
}

void quire_bench_number(bench_builder *builder, const char *name, double value) {
  attribute(builder, name, QUIRE_VALUE_TYPE_FLOAT)->f = value;
}

void quire_bench_text(bench_builder *builder, const char *name, const char *value) {
  attribute(builder, name, QUIRE_VALUE_TYPE_STRING)->s = value;
}

void quire_bench_repeat(bench_builder *builder, const char *name) {
  const bench_layers *layers = builder->layers;
  if (builder->status != QUIRE_OK) {
    return;
  }
  const int32_t slot = quire_operator_find_slot(layers->op, name, 0);
  const quire_tensor *first = &layers->tensors[slot];
  size_t bytes = quire_dtype_size(first->dtype);
  for (int32_t d = 0; d < first->ndim; ++d) {
    bytes *= (size_t)first->shape[d];
  }
  for (size_t set = 1; set < layers->set_count; ++set) {
    memcpy(layers->tensors[set * layers->slot_count + (size_t)slot].data, first->data, bytes);
  }
}

quire_status quire_bench_end(bench_builder *builder) {
  bench_layers *layers = builder->layers;
  if (builder->status != QUIRE_OK) {
    return builder->status;
  }
  builder->request.inputs = builder->inputs;
  builder->request.outputs = builder->outputs;
  builder->request.attributes = builder->attributes;
  builder->request.variant = builder->session->variant;
  quire_status status = quire_plan_create(builder->session->device, layers->op, &builder->request,
                                          &layers->plan, builder->error);
  if (status == QUIRE_OK) {
    status =
        quire_workspace_create(builder->session->device, NULL, &layers->workspace, builder->error);
  }
  return status;
}
