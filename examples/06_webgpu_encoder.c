/*
 * Inside a program that uses WebGPU itself: its own library, device, buffers and command encoder.
 * Quire only records an attention call into that encoder; the program submits it with its own
 * commands. The CPU computes the same for comparison. Needs a library of webgpu.h (scripts/webgpu
 * fetches one); without it, or without an adapter, the example exits with 77.
 */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <webgpu.h>

#include "quire/quire.h"

/* Sequences; query and key/value heads, their size; blocks, tokens of a block; table columns. */
enum { B = 2, HQ = 4, HKV = 2, D = 32, NB = 6, P = 16, MB = 3, SLOTS = 32, NO_ADAPTER = 77 };

static float query[B][HQ * D], key[B][HKV * D], value[B][HKV * D];
static float key_cache[NB][P][HKV][D], value_cache[NB][P][HKV][D];
static int32_t offsets[B + 1] = {0, 1, 2}, past[B] = {37, 5};
static int32_t table[B][MB] = {{4, 0, 5}, {2, -1, -1}};

typedef struct input {
  const char *name;
  void *data;
  quire_dtype dtype;
  int32_t ndim;
  int64_t shape[4];
  size_t bytes;
} input;

static const input inputs[] = {
    {"query", query, QUIRE_FLOAT32, 2, {B, HQ *D}, sizeof query},
    {"key", key, QUIRE_FLOAT32, 2, {B, HKV *D}, sizeof key},
    {"value", value, QUIRE_FLOAT32, 2, {B, HKV *D}, sizeof value},
    {"key_cache", key_cache, QUIRE_FLOAT32, 4, {NB, P, HKV, D}, sizeof key_cache},
    {"value_cache", value_cache, QUIRE_FLOAT32, 4, {NB, P, HKV, D}, sizeof value_cache},
    {"cumulative_sequence_length", offsets, QUIRE_INT32, 1, {B + 1}, sizeof offsets},
    {"past_seqlens", past, QUIRE_INT32, 1, {B}, sizeof past},
    {"block_table", table, QUIRE_INT32, 2, {B, MB}, sizeof table},
};
enum { INPUTS = sizeof inputs / sizeof inputs[0] };
static const int64_t output_shape[] = {B, HQ *D};

/* ---- the program's own WebGPU ---- */

typedef struct program {
  void *library;
  WGPUInstance instance;
  WGPUAdapter adapter;
  WGPUDevice device;
  WGPUQueue queue;
} program;

/* Where Quire gets WebGPU's functions: the same library that the program uses. */
static void *resolve(void *user, const char *name) {
  return dlsym(((program *)user)->library, name);
}

/* A function of the library as its type: GET(program, DeviceCreateBuffer)(...). */
#define GET(program, name) ((WGPUProc##name)find((program), "wgpu" #name))
typedef void (*any_function)(void);
static any_function find(program *own, const char *name) {
  void *found = resolve(own, name);
  any_function function = NULL;
  if (!found) {
    fprintf(stderr, "the library has no %s\n", name);
    exit(1);
  }
  memcpy(&function, &found, sizeof function);
  return function;
}

static void on_adapter(WGPURequestAdapterStatus status, WGPUAdapter adapter, WGPUStringView message,
                       void *user, void *unused) {
  (void)message, (void)unused;
  ((program *)user)->adapter = status == WGPURequestAdapterStatus_Success ? adapter : NULL;
}

static void on_device(WGPURequestDeviceStatus status, WGPUDevice device, WGPUStringView message,
                      void *user, void *unused) {
  (void)message, (void)unused;
  ((program *)user)->device = status == WGPURequestDeviceStatus_Success ? device : NULL;
}

static void on_error(WGPUDevice const *device, WGPUErrorType type, WGPUStringView message,
                     void *user, void *unused) {
  (void)device, (void)type, (void)user, (void)unused;
  fprintf(stderr, "WebGPU: %.*s\n", (int)message.length, message.data);
}

static int start(program *own) {
  const char *paths[] = {getenv("QUIRE_WEBGPU_LIBRARY"), "libwgpu_native.so", EXAMPLE_LIBRARY};
  for (size_t i = 0; i < 3 && !own->library; i++) {
    own->library = paths[i] ? dlopen(paths[i], RTLD_NOW) : NULL;
  }
  if (!own->library) {
    return 0;
  }
  own->instance = GET(own, CreateInstance)(NULL);
  WGPURequestAdapterOptions options = {.featureLevel = WGPUFeatureLevel_Core,
                                       .powerPreference = WGPUPowerPreference_HighPerformance};
#ifdef __linux__
  options.backendType = WGPUBackendType_Vulkan;
#endif
  GET(own, InstanceRequestAdapter)
  (own->instance, &options,
   (WGPURequestAdapterCallbackInfo){NULL, WGPUCallbackMode_AllowSpontaneous, on_adapter, own,
                                    NULL});
  if (!own->adapter) {
    return 0;
  }
  WGPUDeviceDescriptor descriptor = {.requiredFeatureCount = 0};
  descriptor.uncapturedErrorCallbackInfo.callback = on_error;
  GET(own, AdapterRequestDevice)
  (own->adapter, &descriptor,
   (WGPURequestDeviceCallbackInfo){NULL, WGPUCallbackMode_AllowSpontaneous, on_device, own, NULL});
  own->queue = own->device ? GET(own, DeviceGetQueue)(own->device) : NULL;
  return own->queue != NULL;
}

static void stop(program *own) {
  if (own->queue) {
    GET(own, QueueRelease)(own->queue);
    GET(own, DeviceRelease)(own->device);
  }
  if (own->adapter) {
    GET(own, AdapterRelease)(own->adapter);
  }
  if (own->instance) {
    GET(own, InstanceRelease)(own->instance);
  }
}

static WGPUBuffer make_buffer(program *own, const void *data, size_t bytes) {
  const WGPUBufferDescriptor descriptor = {
      .usage = WGPUBufferUsage_Storage | WGPUBufferUsage_CopyDst | WGPUBufferUsage_CopySrc,
      .size = bytes};
  WGPUBuffer buffer = GET(own, DeviceCreateBuffer)(own->device, &descriptor);
  if (data) {
    GET(own, QueueWriteBuffer)(own->queue, buffer, 0, data, bytes);
  }
  return buffer;
}

/* ---- the call ---- */

static quire_status make_plan(quire_device *device, const quire_operator *op, quire_plan **plan,
                              quire_error *error) {
  quire_request_tensor tensors[INPUTS];
  for (size_t i = 0; i < INPUTS; i++) {
    tensors[i] = (quire_request_tensor){
        inputs[i].name, inputs[i].dtype, inputs[i].ndim, inputs[i].shape, NULL, NULL};
  }
  const quire_named_value attributes[] = {
      {"num_heads", QUIRE_VALUE_TYPE_INT, HQ, 0, NULL},
      {"kv_num_heads", QUIRE_VALUE_TYPE_INT, HKV, 0, NULL},
  };
  quire_request request;
  quire_request_init(&request);
  request.inputs = tensors;
  request.input_count = INPUTS;
  request.attributes = attributes;
  request.attribute_count = 2;
  return quire_plan_create(device, op, &request, plan, error);
}

/* data[i]: memory of input i; a WGPUBuffer, or a host pointer for the CPU. */
static void bind(const quire_operator *op, void *const *data, void *output, quire_tensor *tensors) {
  memset(tensors, 0, SLOTS * sizeof *tensors);
  for (size_t i = 0; i < INPUTS; i++) {
    tensors[quire_operator_find_slot(op, inputs[i].name, 0)] =
        (quire_tensor){data[i], 0, inputs[i].dtype, inputs[i].ndim, inputs[i].shape, NULL};
  }
  tensors[quire_operator_find_slot(op, "output", 1)] =
      (quire_tensor){output, 0, QUIRE_FLOAT32, 2, output_shape, NULL};
}

static quire_status run_on_cpu(quire_context *context, const quire_operator *op, float *output,
                               quire_error *error) {
  quire_tensor tensors[SLOTS];
  void *data[INPUTS];
  quire_device *device = NULL;
  quire_plan *plan = NULL;
  quire_workspace *workspace = NULL;
  for (size_t i = 0; i < INPUTS; i++) {
    data[i] = inputs[i].data;
  }
  bind(op, data, output, tensors);
  quire_status status = quire_device_open(context, "cpu", NULL, &device, error);
  if (status == QUIRE_OK) {
    status = make_plan(device, op, &plan, error);
  }
  if (status == QUIRE_OK) {
    status = quire_workspace_create(device, NULL, &workspace, error);
  }
  if (status == QUIRE_OK) {
    status = quire_plan_run(plan, tensors, quire_operator_slot_count(op), workspace, NULL, error);
  }
  quire_workspace_release(workspace);
  quire_plan_release(plan);
  quire_device_release(device);
  return status;
}

/* Records the call between commands of the program's own, and submits all of them. */
static quire_status record(program *own, quire_plan *plan, quire_workspace *workspace,
                           const quire_tensor *tensors, size_t slots, quire_error *error) {
  WGPUCommandEncoder encoder = GET(own, DeviceCreateCommandEncoder)(own->device, NULL);
  /* ... whatever the program computes before: projections, rotary embedding ... */
  quire_run_options options;
  quire_run_options_init(&options);
  options.encoder = encoder;
  quire_status status = quire_plan_run(plan, tensors, slots, workspace, &options, error);
  /* ... and after. Every layer goes into the same encoder, with the same plan and workspace. */
  WGPUCommandBuffer commands = GET(own, CommandEncoderFinish)(encoder, NULL);
  GET(own, CommandEncoderRelease)(encoder);
  if (status == QUIRE_OK) {
    GET(own, QueueSubmit)(own->queue, 1, &commands);
  }
  GET(own, CommandBufferRelease)(commands);
  return status;
}

static quire_status run_on_webgpu(program *own, quire_context *context, const quire_operator *op,
                                  float *output, quire_error *error) {
  quire_webgpu_options options;
  quire_webgpu_options_init(&options);
  options.resolve = resolve;
  options.resolve_user = own;
  options.instance = own->instance;
  options.adapter = own->adapter;
  options.device = own->device;
  options.queue = own->queue;
  quire_device *device = NULL;
  quire_plan *plan = NULL;
  quire_workspace *workspace = NULL;
  quire_tensor tensors[SLOTS];
  void *data[INPUTS];
  for (size_t i = 0; i < INPUTS; i++) {
    data[i] = make_buffer(own, inputs[i].data, inputs[i].bytes);
  }
  WGPUBuffer result = make_buffer(own, NULL, sizeof(float[B][HQ * D]));
  bind(op, data, result, tensors);
  quire_status status = quire_webgpu_device_open(context, NULL, &options, &device, error);
  if (status == QUIRE_OK) {
    status = make_plan(device, op, &plan, error);
  }
  if (status == QUIRE_OK) {
    status = quire_workspace_create(device, NULL, &workspace, error);
  }
  if (status == QUIRE_OK) {
    printf("variant %s on WebGPU\n", quire_plan_variant(plan));
    status = record(own, plan, workspace, tensors, quire_operator_slot_count(op), error);
  }
  if (status == QUIRE_OK) {
    /* Waits for what was submitted; a program of its own would map a buffer. */
    status = quire_buffer_read(device, result, 0, output, sizeof(float[B][HQ * D]), error);
  }
  quire_workspace_release(workspace);
  quire_plan_release(plan);
  quire_device_release(device);
  for (size_t i = 0; i < INPUTS; i++) {
    GET(own, BufferRelease)(data[i]);
  }
  GET(own, BufferRelease)(result);
  return status;
}

static void fill(float *data, size_t count, int step) {
  for (size_t i = 0; i < count; i++) {
    data[i] = (float)((int)i * step % 29 - 14) / 16;
  }
}

int main(void) {
  static float on_cpu[B][HQ * D], on_webgpu[B][HQ * D];
  fill(&query[0][0], B * HQ * D, 5);
  fill(&key[0][0], B * HKV * D, 3);
  fill(&value[0][0], B * HKV * D, 13);
  fill(&key_cache[0][0][0][0], NB * P * HKV * D, 7);
  fill(&value_cache[0][0][0][0], NB * P * HKV * D, 11);

  quire_error error = {QUIRE_OK, "", "", ""};
  quire_context *context = NULL;
  program own = {NULL, NULL, NULL, NULL, NULL};
  if (!start(&own)) {
    fprintf(stderr, "no WebGPU library, or no adapter\n");
    stop(&own);
    return NO_ADAPTER;
  }
  quire_status status = quire_context_create(NULL, &context, &error);
  if (status == QUIRE_OK) {
    /* First WebGPU: the CPU's call writes the new keys and values into the host's caches. */
    const quire_operator *op = quire_context_find_operator(context, "com.microsoft.PagedAttention");
    status = run_on_webgpu(&own, context, op, &on_webgpu[0][0], &error);
    if (status == QUIRE_OK) {
      status = run_on_cpu(context, op, &on_cpu[0][0], &error);
    }
  }
  quire_context_release(context);
  stop(&own);
  if (status != QUIRE_OK) {
    fprintf(stderr, "%s: %s\n", quire_status_name(status), error.message);
    return 1;
  }
  float worst = 0;
  for (int i = 0; i < B * HQ * D; i++) {
    worst = fmaxf(worst, fabsf((&on_cpu[0][0])[i] - (&on_webgpu[0][0])[i]));
  }
  printf("row 0, head 0: %9.6f %9.6f ...; largest difference from the CPU %.1e\n",
         (double)on_webgpu[0][0], (double)on_webgpu[0][1], (double)worst);
  return worst < 1e-4f ? 0 : 1;
}
