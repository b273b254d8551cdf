#include "ort_node.h"

#include <stdlib.h>
#include <string.h>

/* ---- places of tensors ---- */

enum { MOST_VALUES = QUIRE_ORT_MOST_INPUTS };

static quire_ort_label label_of(const quire_ort_node *node) {
  return (quire_ort_label){node->form->binding->kind->type, node->name};
}

/* Index of the value with the same name, or -1. */
static OrtStatus *find_value(const quire_ort_runtime *runtime, const OrtValueInfo *wanted,
                             const OrtValueInfo *const *values, size_t count, int32_t *index) {
  const char *name = NULL;
  *index = -1;
  QUIRE_ORT_TRY(runtime->api->GetValueInfoName(wanted, &name));
  for (size_t i = 0; i < count; i++) {
    const char *other = NULL;
    if (values[i] == NULL) {
      continue;
    }
    QUIRE_ORT_TRY(runtime->api->GetValueInfoName(values[i], &other));
    if (strcmp(name, other) == 0) {
      *index = (int32_t)i;
      return NULL;
    }
  }
  return NULL;
}

static OrtStatus *map_values(const quire_ort_node *node, const OrtValueInfo *const *wanted,
                             size_t wanted_count, const OrtValueInfo *const *values, size_t count,
                             int32_t *places) {
  for (size_t i = 0; i < wanted_count; i++) {
    places[i] = -1;
    if (wanted[i] != NULL) {
      QUIRE_ORT_TRY(find_value(node->runtime, wanted[i], values, count, &places[i]));
    }
  }
  return NULL;
}

OrtStatus *quire_ort_node_map(quire_ort_node *node, const quire_ort_values *values,
                              const OrtNode *fused) {
  const OrtApi *api = node->runtime->api;
  const quire_ort_binding *binding = node->form->binding;
  const quire_ort_label label = label_of(node);
  const OrtValueInfo *inputs[MOST_VALUES] = {NULL};
  const OrtValueInfo *outputs[MOST_VALUES] = {NULL};
  size_t input_count = 0;
  size_t output_count = 0;
  QUIRE_ORT_TRY(api->Node_GetNumInputs(fused, &input_count));
  QUIRE_ORT_TRY(api->Node_GetNumOutputs(fused, &output_count));
  if (input_count > MOST_VALUES || output_count > MOST_VALUES) {
    return quire_ort_refuse(node->runtime, &label, ORT_FAIL,
                            "the fused node has %zu inputs and %zu outputs, more than the node",
                            input_count, output_count);
  }
  QUIRE_ORT_TRY(api->Node_GetInputs(fused, inputs, input_count));
  QUIRE_ORT_TRY(api->Node_GetOutputs(fused, outputs, output_count));
  QUIRE_ORT_TRY(
      map_values(node, values->inputs, binding->input_count, inputs, input_count, node->inputs));
  QUIRE_ORT_TRY(map_values(node, values->outputs, binding->output_count, outputs, output_count,
                           node->outputs));
  for (size_t i = 0; i < binding->input_count; i++) {
    if (values->inputs[i] != NULL && node->inputs[i] < 0) {
      return quire_ort_refuse(node->runtime, &label, ORT_FAIL,
                              "%s: is not among the inputs of the fused node",
                              binding->kind->inputs[i]);
    }
  }
  return NULL;
}

/* ---- one run ---- */

typedef struct call {
  const quire_ort_node *node;
  OrtKernelContext *context;
  quire_tensor inputs[QUIRE_ORT_MOST_INPUTS]; /* by position */
  int64_t shapes[QUIRE_ORT_MOST_INPUTS][QUIRE_MAX_RANK];
  quire_tensor tensors[QUIRE_ORT_MOST_SLOTS]; /* by slot of the operator */
  quire_ort_lease lease;
  void *unused[QUIRE_ORT_MOST_OUTPUTS]; /* outputs that nobody takes */
  OrtStatus *failure;                   /* of the runtime's thread pool */
} call;

/* The runtime's own threads: the caller takes part, and with one thread it loops. */
static void parallel_for(void *user, quire_task_function *task, void *task_user, size_t count) {
  call *run = user;
  const OrtApi *api = run->node->runtime->api;
  OrtStatus *status = api->KernelContext_ParallelFor(run->context, task, count, 0, task_user);
  if (run->failure != NULL) {
    api->ReleaseStatus(status);
  } else {
    run->failure = status;
  }
}

static OrtStatus *read_info(call *run, size_t position, const OrtTensorTypeAndShapeInfo *info) {
  const quire_ort_node *node = run->node;
  const OrtApi *api = node->runtime->api;
  quire_tensor *tensor = &run->inputs[position];
  ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  size_t rank = 0;
  QUIRE_ORT_TRY(api->GetTensorElementType(info, &type));
  QUIRE_ORT_TRY(api->GetDimensionsCount(info, &rank));
  if (rank > QUIRE_MAX_RANK) {
    const quire_ort_label label = label_of(node);
    return quire_ort_refuse(node->runtime, &label, ORT_INVALID_ARGUMENT,
                            "%s: rank is %zu, at most %d is possible",
                            node->form->binding->kind->inputs[position], rank, (int)QUIRE_MAX_RANK);
  }
  QUIRE_ORT_TRY(api->GetDimensions(info, run->shapes[position], rank));
  tensor->dtype = quire_ort_dtype(type);
  tensor->ndim = (int32_t)rank;
  tensor->shape = run->shapes[position];
  return NULL;
}

static OrtStatus *read_input(call *run, size_t position) {
  const OrtApi *api = run->node->runtime->api;
  const OrtValue *value = NULL;
  OrtTensorTypeAndShapeInfo *info = NULL;
  QUIRE_ORT_TRY(
      api->KernelContext_GetInput(run->context, (size_t)run->node->inputs[position], &value));
  if (value == NULL) {
    return NULL; /* planning says what is missing */
  }
  QUIRE_ORT_TRY(api->GetTensorTypeAndShape(value, &info));
  OrtStatus *status = read_info(run, position, info);
  api->ReleaseTensorTypeAndShapeInfo(info);
  QUIRE_ORT_TRY(status);
  /* Caches are written through their input, where the model has no output for them. */
  return api->GetTensorMutableData((OrtValue *)value, &run->inputs[position].data);
}

static OrtStatus *read_inputs(call *run) {
  const quire_ort_binding *binding = run->node->form->binding;
  for (size_t i = 0; i < binding->input_count; i++) {
    if (run->node->inputs[i] >= 0) {
      QUIRE_ORT_TRY(read_input(run, i));
      run->tensors[binding->input_slots[i]] = run->inputs[i];
    }
  }
  return NULL;
}

static OrtStatus *refused(const call *run, const quire_error *error) {
  const quire_ort_label label = label_of(run->node);
  return quire_ort_pass_on(run->node->runtime, &label, error);
}

static OrtStatus *take_plan(call *run, bool aliased) {
  const quire_ort_node *node = run->node;
  quire_error error;
  quire_status status =
      quire_ort_plans_take(node->plans, node->form, run->inputs, aliased, &run->lease, &error);
  return status == QUIRE_OK ? NULL : refused(run, &error);
}

/* Memory for an output that the operator has to write and nobody takes. */
static OrtStatus *make_unused(call *run, size_t position, quire_tensor *tensor) {
  size_t bytes = quire_dtype_size(tensor->dtype);
  for (int32_t d = 0; d < tensor->ndim; d++) {
    bytes *= (size_t)tensor->shape[d]; /* a plan's sizes fit */
  }
  if (bytes == 0) {
    return NULL;
  }
  run->unused[position] = malloc(bytes);
  tensor->data = run->unused[position];
  if (tensor->data == NULL) {
    const quire_ort_label label = label_of(run->node);
    return quire_ort_refuse(run->node->runtime, &label, ORT_FAIL, "%s: no memory for %zu bytes",
                            run->node->form->binding->kind->outputs[position], bytes);
  }
  return NULL;
}

/* An output of the plan's shape: what the caller bound, a new one of the runtime, or none. */
static OrtStatus *make_output(call *run, size_t position) {
  const OrtApi *api = run->node->runtime->api;
  const quire_ort_binding *binding = run->node->form->binding;
  size_t slot = (size_t)binding->output_slots[position];
  quire_tensor *tensor = &run->tensors[slot];
  OrtValue *value = NULL;
  void *data = NULL;
  if (quire_plan_slot(run->lease.plan, slot, tensor) != QUIRE_OK ||
      tensor->dtype == QUIRE_DTYPE_NONE) {
    return NULL;
  }
  if (run->node->outputs[position] < 0) {
    return binding->in_place[position] ? NULL : make_unused(run, position, tensor);
  }
  QUIRE_ORT_TRY(api->KernelContext_GetOutput(run->context, (size_t)run->node->outputs[position],
                                             tensor->shape, (size_t)tensor->ndim, &value));
  QUIRE_ORT_TRY(api->GetTensorMutableData(value, &data));
  tensor->data = data;
  return NULL;
}

/* True if the caller bound an output to the very buffer of the input that it may share. */
static bool shares_buffer(const call *run) {
  const quire_ort_binding *binding = run->node->form->binding;
  for (size_t i = 0; i < binding->output_count; i++) {
    const void *data = run->tensors[binding->output_slots[i]].data;
    if (binding->alias[i] >= 0 && data != NULL && data == run->inputs[binding->alias[i]].data) {
      return true;
    }
  }
  return false;
}

static OrtStatus *make_outputs(call *run) {
  const quire_ort_binding *binding = run->node->form->binding;
  for (size_t i = 0; i < binding->output_count; i++) {
    QUIRE_ORT_TRY(make_output(run, i));
  }
  if (!shares_buffer(run)) {
    return NULL;
  }
  QUIRE_ORT_TRY(take_plan(run, true));
  for (size_t i = 0; i < binding->output_count; i++) {
    /* Shapes are the plan's memory. */
    quire_tensor form;
    size_t slot = (size_t)binding->output_slots[i];
    if (quire_plan_slot(run->lease.plan, slot, &form) == QUIRE_OK) {
      run->tensors[slot].shape = form.shape;
    }
  }
  return NULL;
}

static OrtStatus *run_plan(call *run) {
  const quire_executor executor = {parallel_for, run, run->node->thread_limit};
  quire_run_options options;
  quire_error error;
  quire_run_options_init(&options);
  options.executor = &executor;
  quire_status status =
      quire_plan_run(run->lease.plan, run->tensors, run->node->form->binding->slot_count,
                     run->lease.workspace, &options, &error);
  if (run->failure != NULL) {
    OrtStatus *failure = run->failure;
    run->failure = NULL;
    return failure;
  }
  return status == QUIRE_OK ? NULL : refused(run, &error);
}

static OrtStatus *compute_all(call *run) {
  QUIRE_ORT_TRY(read_inputs(run));
  QUIRE_ORT_TRY(take_plan(run, false));
  QUIRE_ORT_TRY(make_outputs(run));
  return run_plan(run);
}

static OrtStatus *ORT_API_CALL compute(OrtNodeComputeInfo *info, void *state,
                                       OrtKernelContext *context) {
  call run;
  (void)info;
  memset(&run, 0, sizeof run);
  run.node = state;
  run.context = context;
  OrtStatus *status = compute_all(&run);
  quire_ort_plans_give_back(run.node->plans, &run.lease);
  for (size_t i = 0; i < QUIRE_ORT_MOST_OUTPUTS; i++) {
    free(run.unused[i]);
  }
  return status;
}

/* ---- life ---- */

static OrtStatus *ORT_API_CALL create_state(OrtNodeComputeInfo *info,
                                            OrtNodeComputeContext *context, void **state) {
  (void)context;
  *state = info;
  return NULL;
}

static void ORT_API_CALL release_state(OrtNodeComputeInfo *info, void *state) {
  (void)info;
  (void)state; /* the info itself: ReleaseNodeComputeInfos frees it */
}

void quire_ort_node_init(quire_ort_node *node) {
  node->info.ort_version_supported = QUIRE_ORT_VERSION;
  node->info.CreateState = create_state;
  node->info.Compute = compute;
  node->info.ReleaseState = release_state;
}

void quire_ort_node_destroy(quire_ort_node *node) {
  if (node != NULL) {
    free(node->name);
    free(node);
  }
}
