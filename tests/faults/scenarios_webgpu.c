/* What programs do with a WebGPU device beyond the calls of every device: handles of their own,
   encoders of their own, transfers in several pieces. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <webgpu.h>

#include "fault_forms.h"
#include "quire/webgpu.h"

static void *find(const char *name) {
  void *library = dlopen(getenv("QUIRE_WEBGPU_LIBRARY"), RTLD_NOW);
  assert_non_null(library);
  void *found = dlsym(library, name);
  assert_non_null(found);
  (void)dlclose(library);
  return found;
}

#define FIND(name)                         \
  WGPUProc##name name = NULL;              \
  void *found_##name = find("wgpu" #name); \
  memcpy(&(name), &found_##name, sizeof(name))

/* ---- an encoder of the caller's ---- */

static void make_recorded(fault_world *world) {
  fault_make_plan(world, &fault_paged_form);
}

static void take_scope(WGPUPopErrorScopeStatus status, WGPUErrorType type, WGPUStringView message,
                       void *user, void *unused) {
  (void)message;
  (void)unused;
  *(bool *)user = status == WGPUPopErrorScopeStatus_Success && type == WGPUErrorType_NoError;
}

/* The program's own calls do not fail: it would have to say so itself. */
static quire_status record(fault_world *world, quire_error *error) {
  FIND(DeviceCreateCommandEncoder);
  FIND(CommandEncoderFinish);
  FIND(CommandEncoderRelease);
  FIND(CommandBufferRelease);
  FIND(DevicePushErrorScope);
  FIND(DevicePopErrorScope);
  FIND(QueueSubmit);
  WGPUDevice device = quire_webgpu_device(world->device);
  quire_run_options options;
  quire_run_options_init(&options);
  fault_pause(true);
  options.encoder = DeviceCreateCommandEncoder(device, NULL);
  fault_pause(false);
  const quire_status status = quire_plan_run(world->plan, world->tensors, world->tensor_count,
                                             world->workspace, &options, error);
  static bool is_good; /* of a silent device it is told when all is over */
  is_good = false;
  fault_pause(true);
  DevicePushErrorScope(device, WGPUErrorFilter_Validation);
  WGPUCommandBuffer commands = CommandEncoderFinish(options.encoder, NULL);
  CommandEncoderRelease(options.encoder);
  (void)DevicePopErrorScope(
      device, (WGPUPopErrorScopeCallbackInfo){NULL, WGPUCallbackMode_AllowSpontaneous, take_scope,
                                              &is_good, NULL});
  if (is_good && status == QUIRE_OK) {
    QueueSubmit(quire_webgpu_queue(world->device), 1, &commands);
  }
  CommandBufferRelease(commands);
  fault_pause(false);
  if (status == QUIRE_OK && !is_good) { /* a command failed: the encoder's owner is told */
    *error = (quire_error){QUIRE_DEVICE, "", "", "the encoder is invalid"};
    return QUIRE_DEVICE;
  }
  return status;
}

/* ---- handles of the caller's ---- */

typedef struct handles {
  WGPUInstance instance;
  WGPUAdapter adapter;
  WGPUDevice device;
} handles;

static void take_adapter(WGPURequestAdapterStatus status, WGPUAdapter adapter,
                         WGPUStringView message, void *user, void *unused) {
  (void)status, (void)message, (void)unused;
  *(WGPUAdapter *)user = adapter;
}

static void take_device(WGPURequestDeviceStatus status, WGPUDevice device, WGPUStringView message,
                        void *user, void *unused) {
  (void)status, (void)message, (void)unused;
  *(WGPUDevice *)user = device;
}

static void ignore_error(WGPUDevice const *device, WGPUErrorType type, WGPUStringView message,
                         void *user, void *unused) {
  (void)device, (void)type, (void)message, (void)user, (void)unused;
}

static void ignore_loss(WGPUDevice const *device, WGPUDeviceLostReason reason,
                        WGPUStringView message, void *user, void *unused) {
  (void)device, (void)reason, (void)message, (void)user, (void)unused;
}

static void make_handles(fault_world *world) {
  FIND(CreateInstance);
  FIND(InstanceRequestAdapter);
  FIND(AdapterRequestDevice);
  handles *own = calloc(1, sizeof *own);
  assert_non_null(own);
  world->own = own;
  own->instance = CreateInstance(NULL);
  (void)InstanceRequestAdapter(
      own->instance, NULL,
      (WGPURequestAdapterCallbackInfo){NULL, WGPUCallbackMode_AllowSpontaneous, take_adapter,
                                       &own->adapter, NULL});
  WGPUDeviceDescriptor descriptor;
  memset(&descriptor, 0, sizeof descriptor);
  descriptor.uncapturedErrorCallbackInfo.callback = ignore_error;
  descriptor.deviceLostCallbackInfo.callback = ignore_loss;
  (void)AdapterRequestDevice(
      own->adapter, &descriptor,
      (WGPURequestDeviceCallbackInfo){NULL, WGPUCallbackMode_AllowSpontaneous, take_device,
                                      &own->device, NULL});
  assert_non_null(own->device);
}

static quire_status open_given(fault_world *world, quire_error *error) {
  const handles *own = world->own;
  quire_webgpu_options options;
  quire_webgpu_options_init(&options);
  options.instance = own->instance;
  options.adapter = own->adapter;
  options.device = own->device;
  return quire_webgpu_device_open(world->context, NULL, &options, &world->own_device, error);
}

static void drop_handles(fault_world *world) {
  FIND(InstanceRelease);
  FIND(AdapterRelease);
  FIND(DeviceRelease);
  handles *own = world->own;
  quire_device_release(world->own_device);
  world->own_device = NULL;
  DeviceRelease(own->device);
  AdapterRelease(own->adapter);
  InstanceRelease(own->instance);
  free(own);
  world->own = NULL;
}

/* ---- more than is written at once ---- */

enum { LARGE = (32 << 20) + 4096 };

static void make_large(fault_world *world) {
  quire_error error;
  fault_must(quire_buffer_create(world->device, LARGE, &world->own, &error), &error);
}

static quire_status write_large(fault_world *world, quire_error *error) {
  static const unsigned char data[LARGE];
  return quire_buffer_write(world->device, world->own, 0, data, sizeof data, error);
}

static void drop_large(fault_world *world) {
  quire_buffer_destroy(world->device, world->own);
  world->own = NULL;
}

/* ---- values that are read back ---- */

static quire_status run_checked(fault_world *world, quire_error *error) {
  quire_run_options options;
  quire_run_options_init(&options);
  options.flags = QUIRE_RUN_CHECK_VALUES;
  return quire_plan_run(world->plan, world->tensors, world->tensor_count, world->workspace,
                        &options, error);
}

static void make_trusting(fault_world *world) {
  quire_error error;
  quire_webgpu_options options;
  quire_webgpu_options_init(&options);
  options.pipeline_cache_size = 1;
  options.trusted_shaders = 1;
  fault_must(quire_webgpu_device_open(world->context, NULL, &options, &world->own_device, &error),
             &error);
}

/* On a device that keeps one compiled shader. */
static quire_status plan_trusting(fault_world *world, quire_error *error) {
  const quire_request request = fault_request(&fault_paged_form);
  const quire_operator *op = fault_operator(world, &fault_paged_form);
  quire_plan *plan = NULL;
  const quire_status status = quire_plan_create(world->own_device, op, &request, &plan, error);
  quire_plan_release(plan);
  return status;
}

/* ---- what is copied or cleared before the passes ---- */

/* In-place tensors with outputs of their own. */
static void make_separate(fault_world *world) {
  fault_make_plan(world, &fault_paged_form);
  const quire_operator *op = fault_operator(world, &fault_paged_form);
  for (size_t i = 0; i < world->tensor_count; i++) {
    quire_slot slot;
    assert_int_equal(quire_operator_slot(op, i, &slot), QUIRE_OK);
    if (slot.alias >= 0 && world->tensors[i].dtype != QUIRE_DTYPE_NONE) {
      world->tensors[i] = fault_floats(world, world->tensors[i].ndim, world->tensors[i].shape);
    }
  }
}

/* Scratch that begins at zero, and an output that is the buffer of an input. */
static quire_status read_shader(void *user, const char *path, quire_write_function *write,
                                void *write_user) {
  static const char text[] = "@compute @workgroup_size(1) fn main() { y[0] = x[0]; hits[0] = 1u; }";
  (void)user;
  (void)path;
  write(write_user, text, sizeof text - 1);
  return QUIRE_OK;
}

static void make_cleared(fault_world *world) {
  static const char text[] =
      "{\"domain\": \"test\", \"name\": \"Cleared\", \"sinceVersion\": 1,"
      " \"inputs\": {\"x\": {\"dtype\": \"float32\", \"rank\": 1}},"
      " \"outputs\": {\"y\": {\"dtype\": \"float32\", \"shape\": \"shapes.x\","
      "  \"mayAlias\": \"x\"}},"
      " \"variants\": [{\"id\": \"cleared\", \"requires\": {\"backend\": \"webgpu\"},"
      "  \"intermediates\": [{\"id\": \"hits\", \"dtype\": \"uint32\", \"shape\": [\"8\"],"
      "   \"zeroInit\": true}],"
      "  \"passes\": [{\"id\": \"only\", \"shader\": \"only.wgsl.jinja\","
      "   \"bindings\": [\"x\", \"y\", {\"scratch\": \"hits\"}], \"dispatch\": {\"x\": 1}}]}]}";
  static const int64_t shape[] = {8};
  static const quire_request_tensor x = {"x", QUIRE_FLOAT32, 1, shape, NULL, NULL};
  static const quire_request_tensor y = {"y", QUIRE_FLOAT32, 1, shape, NULL, "x"};
  quire_error error;
  quire_package_options options;
  quire_package_options_init(&options);
  options.read = read_shader;
  fault_must(quire_operator_load_package(world->context, text, sizeof text - 1, &options,
                                         &world->op, &error),
             &error);
  quire_request request;
  quire_request_init(&request);
  request.inputs = &x;
  request.outputs = &y;
  request.input_count = request.output_count = 1;
  fault_must(quire_plan_create(world->device, world->op, &request, &world->plan, &error), &error);
  fault_must(quire_workspace_create(world->device, NULL, &world->workspace, &error), &error);
  world->tensors[0] = world->tensors[1] = fault_floats(world, 1, shape);
  world->tensor_count = 2;
}

static quire_status run(fault_world *world, quire_error *error) {
  return quire_plan_run(world->plan, world->tensors, world->tensor_count, world->workspace, NULL,
                        error);
}

static const fault_scenario items[] = {
    {.name = "run with outputs of their own", .make = make_separate, .call = run},
    {.name = "run with cleared scratch and a shared buffer", .make = make_cleared, .call = run},
    {.name = "run into an encoder of the caller's", .make = make_recorded, .call = record},
    {.name = "run with values read back", .make = make_recorded, .call = run_checked},
    {.name = "device of the caller's",
     .make = make_handles,
     .call = open_given,
     .foreign = true,
     .drop = drop_handles},
    {.name = "write in two pieces", .make = make_large, .call = write_large, .drop = drop_large},
    {.name = "plan on a device that keeps one shader",
     .make = make_trusting,
     .call = plan_trusting},
};

const fault_scenarios fault_webgpu_scenarios = {items, sizeof items / sizeof *items};
