/*
 * A program in C that registers Quire's provider and steps one PagedAttention node over caches that
 * stay where they are. The model is made in memory, by the runtime's model editor; a program with a
 * model file calls CreateSession in its place.
 *
 *   ort_bound_caches LIBONNXRUNTIME LIBQUIRE_ONNXRUNTIME
 *
 * The runtime is loaded by name, so that any wheel's library does and nothing needs to be
 * installed; programs that link it call OrtGetApiBase() themselves.
 */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <onnxruntime_c_api.h>

/* Heads and their size; blocks, their rows; steps. Float16 is passed on as its 16 bits. */
enum { HEADS = 2, KV_HEADS = 1, SIZE = 16, BLOCKS = 4, ROWS = 16, STEPS = 24 };
#define F16 ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16
#define I32 ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32
#define ONE 0x3C00  /* 1.0 */
#define NONE 0x0000 /* 0.0 */

static const OrtApi *api;

/* Every call of the runtime may fail, and says why. */
static void check(OrtStatus *status) {
  if (status != NULL) {
    fprintf(stderr, "%s\n", api->GetErrorMessage(status));
    exit(1);
  }
}

/* ---- the model: values with their shapes, and one node ---- */

typedef struct tensor {
  const char *name;
  ONNXTensorElementDataType type;
  size_t rank;
  int64_t shape[4];
  void *data;
  size_t bytes;
} tensor;

static uint16_t query[HEADS * SIZE], key[KV_HEADS * SIZE], value[KV_HEADS * SIZE];
static uint16_t output[HEADS * SIZE];
static uint16_t key_cache[BLOCKS * ROWS * KV_HEADS * SIZE];
static uint16_t value_cache[BLOCKS * ROWS * KV_HEADS * SIZE];
static int32_t new_tokens_before[2] = {0, 1}, cached_tokens[1], block_table[2] = {3, 1};

static const tensor inputs[] = {
    {"query", F16, 2, {1, HEADS *SIZE}, query, sizeof query},
    {"key", F16, 2, {1, KV_HEADS *SIZE}, key, sizeof key},
    {"value", F16, 2, {1, KV_HEADS *SIZE}, value, sizeof value},
    {"key_cache", F16, 4, {BLOCKS, ROWS, KV_HEADS, SIZE}, key_cache, sizeof key_cache},
    {"value_cache", F16, 4, {BLOCKS, ROWS, KV_HEADS, SIZE}, value_cache, sizeof value_cache},
    {"new_tokens_before", I32, 1, {2}, new_tokens_before, sizeof new_tokens_before},
    {"cached_tokens", I32, 1, {1}, cached_tokens, sizeof cached_tokens},
    {"block_table", I32, 2, {1, 2}, block_table, sizeof block_table},
};
/* The caches' outputs have the very memory of their inputs: they are updated in place. */
static const tensor outputs[] = {
    {"output", F16, 2, {1, HEADS *SIZE}, output, sizeof output},
    {"key_cache_out", F16, 4, {BLOCKS, ROWS, KV_HEADS, SIZE}, key_cache, sizeof key_cache},
    {"value_cache_out", F16, 4, {BLOCKS, ROWS, KV_HEADS, SIZE}, value_cache, sizeof value_cache},
};
enum { INPUTS = sizeof inputs / sizeof inputs[0], OUTPUTS = sizeof outputs / sizeof outputs[0] };

static OrtValueInfo *describe(const OrtModelEditorApi *editor, const tensor *one) {
  OrtTensorTypeAndShapeInfo *shape = NULL;
  OrtTypeInfo *type = NULL;
  OrtValueInfo *result = NULL;
  check(api->CreateTensorTypeAndShapeInfo(&shape));
  check(api->SetTensorElementType(shape, one->type));
  check(api->SetDimensions(shape, one->shape, one->rank));
  check(editor->CreateTensorTypeInfo(shape, &type));
  check(editor->CreateValueInfo(one->name, type, &result));
  api->ReleaseTypeInfo(type);
  api->ReleaseTensorTypeAndShapeInfo(shape);
  return result;
}

static OrtModel *make_model(const OrtModelEditorApi *editor) {
  static const char *const domains[] = {"", "com.microsoft"};
  static const int versions[] = {21, 1};
  static const int64_t heads = HEADS, kv_heads = KV_HEADS;
  const char *input_names[INPUTS], *output_names[OUTPUTS];
  OrtValueInfo *values[INPUTS];
  OrtOpAttr *attributes[2] = {NULL, NULL};
  OrtNode *node = NULL;
  OrtGraph *graph = NULL;
  OrtModel *model = NULL;
  check(editor->CreateGraph(&graph));
  for (size_t i = 0; i < INPUTS; i++) {
    input_names[i] = inputs[i].name;
    values[i] = describe(editor, &inputs[i]);
  }
  check(editor->SetGraphInputs(graph, values, INPUTS));
  for (size_t i = 0; i < OUTPUTS; i++) {
    output_names[i] = outputs[i].name;
    values[i] = describe(editor, &outputs[i]);
  }
  check(editor->SetGraphOutputs(graph, values, OUTPUTS));
  check(api->CreateOpAttr("num_heads", &heads, 1, ORT_OP_ATTR_INT, &attributes[0]));
  check(api->CreateOpAttr("kv_num_heads", &kv_heads, 1, ORT_OP_ATTR_INT, &attributes[1]));
  check(editor->CreateNode("PagedAttention", "com.microsoft", "attention", input_names, INPUTS,
                           output_names, OUTPUTS, attributes, 2, &node));
  check(editor->AddNodeToGraph(graph, node));
  check(editor->CreateModel(domains, versions, 2, &model));
  check(editor->AddGraphToModel(model, graph));
  return model;
}

/* ---- runtime, provider, session ---- */

static void load_runtime(const char *path) {
  void *library = dlopen(path, RTLD_NOW);
  void *symbol = library == NULL ? NULL : dlsym(library, "OrtGetApiBase");
  const OrtApiBase *(*base)(void) = NULL;
  if (symbol == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
  }
  memcpy(&base, &symbol, sizeof base);
  api = base()->GetApi(23); /* ONNX Runtime 1.23 and later */
  if (api == NULL) {
    fprintf(stderr, "%s: too old\n", path);
    exit(1);
  }
}

static const OrtEpDevice *find_provider(const OrtEnv *env) {
  const OrtEpDevice *const *devices = NULL;
  size_t count = 0;
  check(api->GetEpDevices(env, &devices, &count));
  for (size_t i = 0; i < count; i++) {
    if (strcmp(api->EpDevice_EpName(devices[i]), "QuireExecutionProvider") == 0) {
      return devices[i];
    }
  }
  fprintf(stderr, "the provider has no device\n");
  exit(1);
}

static OrtSession *make_session(const OrtEnv *env) {
  const OrtModelEditorApi *editor = api->GetModelEditorApi();
  const OrtEpDevice *device = find_provider(env);
  OrtSessionOptions *options = NULL;
  OrtSession *session = NULL;
  OrtModel *model = make_model(editor);
  check(api->CreateSessionOptions(&options));
  check(api->SetIntraOpNumThreads(options, 2));
  check(api->SessionOptionsAppendExecutionProvider_V2(options, (OrtEnv *)env, &device, 1, NULL,
                                                      NULL, 0));
  check(editor->CreateSessionFromModel(env, model, options, &session));
  api->ReleaseModel(model);
  api->ReleaseSessionOptions(options);
  return session;
}

/* ---- one step ---- */

static void bind(OrtValue **values, const char **names, const tensor *tensors, size_t count,
                 const OrtMemoryInfo *memory) {
  for (size_t i = 0; i < count; i++) {
    names[i] = tensors[i].name;
    check(api->CreateTensorWithDataAsOrtValue(memory, tensors[i].data, tensors[i].bytes,
                                              tensors[i].shape, tensors[i].rank, tensors[i].type,
                                              &values[i]));
  }
}

/* Keys are alike, so that every cached token counts the same: channel 0 of the output is the share
   of tokens whose value was one. */
static int step(OrtSession *session, const OrtMemoryInfo *memory, int index, int *ones) {
  const char *input_names[INPUTS], *output_names[OUTPUTS];
  OrtValue *in[INPUTS], *out[OUTPUTS];
  value[0] = index % 3 == 0 ? ONE : NONE;
  *ones += index % 3 == 0;
  cached_tokens[0] = index;
  bind(in, input_names, inputs, INPUTS, memory);
  bind(out, output_names, outputs, OUTPUTS, memory);
  check(api->Run(session, NULL, input_names, (const OrtValue *const *)in, INPUTS, output_names,
                 OUTPUTS, out));
  for (size_t i = 0; i < INPUTS; i++) {
    api->ReleaseValue(in[i]);
  }
  for (size_t i = 0; i < OUTPUTS; i++) {
    api->ReleaseValue(out[i]);
  }
  /* A float16 between 2^-14 and 2: exponent and fraction of its bits. */
  const double got = ldexp(1024 + (output[0] & 1023), (output[0] >> 10) - 25);
  const double want = (double)*ones / (index + 1);
  if (fabs(got - want) > 1e-3) {
    fprintf(stderr, "step %d: %g, expected %g\n", index, got, want);
    return 1;
  }
  return 0;
}

int main(int argc, char **argv) {
  OrtEnv *env = NULL;
  OrtMemoryInfo *memory = NULL;
  int ones = 0, wrong = 0;
  if (argc != 3) {
    fprintf(stderr, "usage: ort_bound_caches LIBONNXRUNTIME LIBQUIRE_ONNXRUNTIME\n");
    return 2;
  }
  load_runtime(argv[1]);
  check(api->CreateEnv(ORT_LOGGING_LEVEL_WARNING, "example", &env));
  check(api->RegisterExecutionProviderLibrary(env, "quire", argv[2])); /* an absolute path */
  check(api->CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, &memory));
  OrtSession *session = make_session(env);
  for (int i = 0; i < STEPS && wrong == 0; i++) {
    wrong = step(session, memory, i, &ones);
  }
  /* Sessions first, then the library that computes for them. */
  api->ReleaseSession(session);
  check(api->UnregisterExecutionProviderLibrary(env, "quire"));
  api->ReleaseMemoryInfo(memory);
  api->ReleaseEnv(env);
  if (wrong == 0) {
    printf("%d steps over one pair of caches, each as expected\n", STEPS);
  }
  return wrong;
}
