#include "ort_fixture.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const OrtApi *ort_api;
OrtEnv *ort_env;

static const OrtModelEditorApi *editor;

/* ---- runtime ---- */

bool ort_open(void) {
  const char *path = getenv("QUIRE_TEST_ONNXRUNTIME");
  if (path == NULL || path[0] == 0) {
    return false;
  }
  /* Never closed: its threads and its registered functions outlive every test. */
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    fail_msg("%s: %s", path, dlerror());
  }
  void *symbol = dlsym(library, "OrtGetApiBase");
  const OrtApiBase *(*base)(void) = NULL;
  memcpy(&base, &symbol, sizeof base); /* C has no cast from objects to functions */
  ort_api = base()->GetApi(23);
  assert_non_null(ort_api);
  editor = ort_api->GetModelEditorApi();
  ort_ok(ort_api->CreateEnv(ORT_LOGGING_LEVEL_FATAL, "test", &ort_env));
  return true;
}

void ort_close(void) {
  ort_api->ReleaseEnv(ort_env);
}

void ort_register(const char *name) {
  ort_ok(ort_api->RegisterExecutionProviderLibrary(ort_env, name, QUIRE_PLUGIN));
}

void ort_unregister(const char *name) {
  ort_ok(ort_api->UnregisterExecutionProviderLibrary(ort_env, name));
}

/* The first device of our provider; *count says how many there are. */
static const OrtEpDevice *find_device(size_t *count) {
  const OrtEpDevice *const *devices = NULL;
  const OrtEpDevice *found = NULL;
  size_t all = 0;
  *count = 0;
  ort_ok(ort_api->GetEpDevices(ort_env, &devices, &all));
  for (size_t i = all; i-- > 0;) {
    if (strcmp(ort_api->EpDevice_EpName(devices[i]), "QuireExecutionProvider") == 0) {
      found = devices[i];
      (*count)++;
    }
  }
  return found;
}

size_t ort_device_count(void) {
  size_t count = 0;
  (void)find_device(&count);
  return count;
}

/* ---- statuses ---- */

void ort_ok(OrtStatus *status) {
  if (status != NULL) {
    fail_msg("%s", ort_api->GetErrorMessage(status));
  }
}

void ort_refused(OrtStatus *status, OrtErrorCode code, const char *text, const char *more) {
  if (status == NULL) {
    fail_msg("not refused; expected: %s", text);
    return;
  }
  const char *message = ort_api->GetErrorMessage(status);
  if (ort_api->GetErrorCode(status) != code || strstr(message, text) == NULL ||
      strstr(message, more) == NULL) {
    fail_msg("code %d: %s; expected code %d and \"%s\" and \"%s\"",
             (int)ort_api->GetErrorCode(status), message, (int)code, text, more);
  }
  ort_api->ReleaseStatus(status);
}

/* ---- models ---- */

static OrtValueInfo *make_value(const ort_tensor *tensor, bool symbolic) {
  OrtTensorTypeAndShapeInfo *info = NULL;
  OrtTypeInfo *type = NULL;
  OrtValueInfo *value = NULL;
  int64_t shape[MOST_RANK];
  for (size_t i = 0; i < tensor->rank; i++) {
    shape[i] = symbolic ? -1 : tensor->shape[i];
  }
  ort_ok(ort_api->CreateTensorTypeAndShapeInfo(&info));
  ort_ok(ort_api->SetTensorElementType(info, tensor->type));
  ort_ok(ort_api->SetDimensions(info, shape, tensor->rank));
  ort_ok(editor->CreateTensorTypeInfo(info, &type));
  ort_ok(editor->CreateValueInfo(tensor->name, type, &value));
  ort_api->ReleaseTypeInfo(type);
  ort_api->ReleaseTensorTypeAndShapeInfo(info);
  return value;
}

static size_t count_texts(const char *const *texts) {
  size_t count = 0;
  while (count < MOST_NODE_VALUES && texts[count] != NULL) {
    count++;
  }
  return count;
}

static OrtOpAttr *make_attribute(const ort_attribute *attribute) {
  OrtOpAttr *made = NULL;
  const void *data = attribute->type == ORT_OP_ATTR_INT     ? (const void *)&attribute->i
                     : attribute->type == ORT_OP_ATTR_FLOAT ? (const void *)&attribute->f
                                                            : (const void *)attribute->s;
  int length = attribute->type == ORT_OP_ATTR_STRING ? (int)strlen(attribute->s) : 1;
  ort_ok(ort_api->CreateOpAttr(attribute->name, data, length, attribute->type, &made));
  return made;
}

static void add_node(OrtGraph *graph, const ort_node *node) {
  OrtOpAttr *attributes[MOST_SET];
  OrtNode *made = NULL;
  size_t count = 0;
  while (count < MOST_SET && node->attributes[count].name != NULL) {
    attributes[count] = make_attribute(&node->attributes[count]);
    count++;
  }
  ort_ok(editor->CreateNode(node->type, node->domain, node->name, node->inputs,
                            count_texts(node->inputs), node->outputs, count_texts(node->outputs),
                            attributes, count, &made));
  ort_ok(editor->AddNodeToGraph(graph, made)); /* takes it over, and its attributes */
}

static OrtModel *make_model(const ort_model *model) {
  static const char *const domains[] = {"", "com.microsoft"};
  static const int opsets[] = {21, 1};
  OrtValueInfo *values[MOST_MODEL_VALUES];
  OrtGraph *graph = NULL;
  OrtModel *made = NULL;
  ort_ok(editor->CreateGraph(&graph));
  for (size_t i = 0; i < model->input_count; i++) {
    values[i] = make_value(&model->inputs[i], model->symbolic);
  }
  ort_ok(editor->SetGraphInputs(graph, values, model->input_count));
  for (size_t i = 0; i < model->output_count; i++) {
    values[i] = make_value(&model->outputs[i], model->symbolic);
  }
  ort_ok(editor->SetGraphOutputs(graph, values, model->output_count));
  for (size_t i = 0; i < model->node_count; i++) {
    add_node(graph, &model->nodes[i]);
  }
  ort_ok(editor->CreateModel(domains, opsets, 2, &made));
  ort_ok(editor->AddGraphToModel(made, graph));
  return made;
}

/* ---- sessions ---- */

OrtStatus *ort_try_session(const ort_model *model, int threads, const char *const *options,
                           OrtSession **session) {
  const char *keys[MOST_SET];
  const char *values[MOST_SET];
  OrtSessionOptions *settings = NULL;
  size_t count = 0;
  size_t devices = 0;
  const OrtEpDevice *device = find_device(&devices);
  assert_non_null(device);
  while (options != NULL && options[2 * count] != NULL) {
    keys[count] = options[2 * count];
    values[count] = options[2 * count + 1];
    count++;
  }
  ort_ok(ort_api->CreateSessionOptions(&settings));
  ort_ok(ort_api->SetIntraOpNumThreads(settings, threads));
  ort_ok(ort_api->AddSessionConfigEntry(settings, "session.disable_cpu_ep_fallback", "1"));
  ort_ok(ort_api->SessionOptionsAppendExecutionProvider_V2(settings, ort_env, &device, 1, keys,
                                                           values, count));
  OrtModel *made = make_model(model);
  OrtStatus *status = editor->CreateSessionFromModel(ort_env, made, settings, session);
  ort_api->ReleaseModel(made);
  ort_api->ReleaseSessionOptions(settings);
  return status;
}

OrtSession *ort_session(const ort_model *model, int threads) {
  OrtSession *session = NULL;
  ort_ok(ort_try_session(model, threads, NULL, &session));
  return session;
}

/* ---- runs ---- */

static size_t size_of(const ort_tensor *tensor) {
  size_t bytes = tensor->type == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16 ||
                         tensor->type == ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16
                     ? 2
                     : 4;
  for (size_t i = 0; i < tensor->rank; i++) {
    bytes *= (size_t)tensor->shape[i];
  }
  return bytes;
}

static OrtValue *bind(const OrtMemoryInfo *memory, const ort_tensor *tensor) {
  OrtValue *value = NULL;
  ort_ok(ort_api->CreateTensorWithDataAsOrtValue(
      memory, tensor->data, size_of(tensor), tensor->shape, tensor->rank, tensor->type, &value));
  return value;
}

OrtStatus *ort_try_run(OrtSession *session, const ort_tensor *inputs, size_t input_count,
                       const ort_tensor *outputs, size_t output_count) {
  const char *input_names[MOST_MODEL_VALUES];
  const char *output_names[MOST_MODEL_VALUES];
  OrtValue *in[MOST_MODEL_VALUES];
  OrtValue *out[MOST_MODEL_VALUES];
  OrtMemoryInfo *memory = NULL;
  ort_ok(ort_api->CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, &memory));
  for (size_t i = 0; i < input_count; i++) {
    input_names[i] = inputs[i].name;
    in[i] = bind(memory, &inputs[i]);
  }
  for (size_t i = 0; i < output_count; i++) {
    output_names[i] = outputs[i].name;
    out[i] = outputs[i].data == NULL ? NULL : bind(memory, &outputs[i]);
  }
  OrtStatus *status = ort_api->Run(session, NULL, input_names, (const OrtValue *const *)in,
                                   input_count, output_names, output_count, out);
  for (size_t i = 0; i < input_count; i++) {
    ort_api->ReleaseValue(in[i]);
  }
  for (size_t i = 0; i < output_count; i++) {
    ort_api->ReleaseValue(out[i]);
  }
  ort_api->ReleaseMemoryInfo(memory);
  return status;
}
