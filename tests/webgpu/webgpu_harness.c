#include "webgpu_harness.h"

#include <dlfcn.h>

#include "error.h"
#include "template.h"

/* ---- the operator ---- */

static const char manifest_text[] =
    "{\"domain\": \"test\", \"name\": \"Grow\", \"sinceVersion\": 1,"
    " \"inputs\": {\"cache\": {\"dtype\": \"float32\", \"rank\": 2},"
    "  \"lengths\": {\"dtype\": \"int32\", \"rank\": 1},"
    "  \"x\": {\"dtype\": \"float32\", \"rank\": 1},"
    "  \"bias\": {\"dtype\": \"float32\", \"rank\": 1, \"optional\": true}},"
    " \"outputs\": {\"cache\": {\"dtype\": \"float32\", \"onnx\": \"cache_out\"},"
    "  \"y\": {\"dtype\": \"float32\", \"shape\": [\"dim(shapes.cache, 0)\"]},"
    "  \"z\": {\"dtype\": \"float32\", \"shape\": \"shapes.x\", \"mayAlias\": \"x\"}},"
    " \"attributes\": {\"step\": {\"type\": \"float\", \"default\": 1}},"
    " \"rules\": {\"alias\": \"TG-V2\", \"presence\": \"TG-V1\"},"
    " \"derive\": {\"count\": \"dim(shapes.cache, 0)\", \"columns\": \"dim(shapes.cache, 1)\","
    "  \"hasBias\": \"present.bias\"},"
    " \"bindings\": {\"params\": {\"struct\": ["
    "   {\"name\": \"rows\", \"type\": \"u32\", \"value\": \"count\"},"
    "   {\"name\": \"columns\", \"type\": \"u32\", \"value\": \"columns\"},"
    "   {\"name\": \"step\", \"type\": \"f32\", \"value\": \"attrs.step\"}]}},"
    " \"variants\": [{\"id\": \"grow\", \"requires\": {\"backend\": \"webgpu\"},"
    "  \"intermediates\": ["
    "   {\"id\": \"hits\", \"dtype\": \"uint32\", \"shape\": [\"count\"], \"zeroInit\": true}],"
    "  \"passes\": ["
    "   {\"id\": \"schedule\", \"role\": \"schedule\", \"native\": \"test_grow_schedule\","
    "    \"bindings\": [{\"arg\": \"cache\", \"buffer\": \"read-only-storage\"}, \"lengths\"],"
    "    \"dispatch\": {\"x\": 1}},"
    "   {\"id\": \"grow\", \"shader\": \"grow.wgsl.jinja\", \"bindings\": [\"cache\", \"lengths\","
    "     {\"arg\": \"bias\", \"optional\": true},"
    "     {\"scratch\": \"hits\", \"elementType\": \"atomic<u32>\"}, \"params\"],"
    "    \"dispatch\": {\"x\": \"count\"}},"
    "   {\"id\": \"sum\", \"shader\": \"sum.wgsl.jinja\", \"bindings\": ["
    "     {\"arg\": \"cache\", \"buffer\": \"read-only-storage\"},"
    "     {\"scratch\": \"hits\", \"buffer\": \"read-only-storage\"}, \"y\", \"params\"],"
    "    \"dispatch\": {\"x\": \"count\"}},"
    "   {\"id\": \"double\", \"shader\": \"double.wgsl.jinja\", \"bindings\": [\"x\", \"z\"],"
    "    \"dispatch\": {\"x\": \"ceilDiv(dim(shapes.x, 0), 64)\"}}]}]}";

static const char broken_text[] =
    "{\"domain\": \"test\", \"name\": \"Broken\", \"sinceVersion\": 1,"
    " \"inputs\": {\"x\": {\"dtype\": \"float32\", \"rank\": 1}},"
    " \"outputs\": {\"y\": {\"dtype\": \"float32\", \"shape\": \"shapes.x\"}},"
    " \"variants\": [{\"id\": \"broken\", \"passes\": [{\"id\": \"wrong\","
    "  \"shader\": \"broken.wgsl.jinja\", \"bindings\": [\"x\", \"y\"],"
    "  \"dispatch\": {\"x\": 1}}]}]}";

static const struct {
  const char *path, *text;
} files[] = {
    {"grow.wgsl.jinja",
     "@compute @workgroup_size(1)\n"
     "fn main(@builtin(workgroup_id) group: vec3<u32>) {\n"
     "  let n = group.x;\n"
     "  let length = u32(clamp(lengths[n], 0, i32(params.columns)));\n"
     "  for (var i = 0u; i < length; i++) {\n"
     "    cache[n * params.columns + i] += params.step"
     "{% if hasBias %} + bias[n]{% endif %};\n"
     "    atomicAdd(&hits[n], 1u);\n"
     "  }\n"
     "}\n"},
    {"sum.wgsl.jinja",
     "@compute @workgroup_size(1)\n"
     "fn main(@builtin(workgroup_id) group: vec3<u32>) {\n"
     "  let n = group.x;\n"
     "  var sum = 1000.0 * f32(hits[n]);\n"
     "  for (var i = 0u; i < params.columns; i++) { sum += cache[n * params.columns + i]; }\n"
     "  y[n] = sum;\n"
     "}\n"},
    {"double.wgsl.jinja",
     "@compute @workgroup_size(64)\n"
     "fn main(@builtin(global_invocation_id) id: vec3<u32>) {\n"
     "  if (id.x < arrayLength(&x)) { z[id.x] = 2.0 * x[id.x]; }\n"
     "}\n"},
    {"broken.wgsl.jinja",
     "@compute @workgroup_size(64)\n"
     "fn main(@builtin(global_invocation_id) id: vec3<u32>) {\n"
     "  y[id.x] = x[id.x] + no_such_name;\n"
     "}\n"},
};

static bool find_file(const void *user, const char *path, const char **text, size_t *length) {
  (void)user;
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    if (strcmp(files[i].path, path) == 0) {
      *text = files[i].text;
      *length = strlen(files[i].text);
      return true;
    }
  }
  return false;
}

static const quire_template_source templates = {find_file, NULL, ""};

/* ---- its schedule pass ---- */

static quire_status check_lengths(const quire_pass *pass, const size_t item[3]) {
  (void)item;
  const quire_view *cache = &pass->views[0];
  const quire_view *lengths = &pass->views[1];
  for (int64_t n = 0; n < cache->shape[0]; n++) {
    const int32_t length = ((const int32_t *)lengths->data)[n * lengths->stride[0]];
    if (length < 0 || length > cache->shape[1]) {
      return quire_fail(pass->error, QUIRE_BAD_VALUE, "TG-V3", "lengths", "[%d] is %d", (int)n,
                        (int)length);
    }
  }
  return QUIRE_OK;
}

static const quire_pass_binding schedule_bindings[] = {{"cache", QUIRE_DTYPE_BIT(QUIRE_FLOAT32)},
                                                       {"lengths", QUIRE_DTYPE_BIT(QUIRE_INT32)}};
static const quire_implementation implementations[] = {
    {"test_grow_schedule", "test_grow_schedule__scalar", schedule_bindings, 2, "", 0,
     QUIRE_ISA_SCALAR, QUIRE_PRECISION_EXACT, 0, check_lengths}};
static const quire_implementation_list list = {implementations, 1};
static const quire_registry registry = {&list, 1};

/* ---- what the library does elsewhere ---- */

void quire_operator_retain(const quire_operator *op) {
  atomic_fetch_add(&((quire_operator *)op)->references, 1);
}

void quire_operator_release(quire_operator *op) {
  atomic_fetch_sub(&op->references, 1);
}

/* ---- world ---- */

static void ignore_owner(quire_owner *owner) {
  (void)owner;
}

static void load(gpu_world *world, quire_operator *op, const char *text) {
  quire_error error;
  if (quire_manifest_load(&quire_default_allocator, text, strlen(text), NULL, NULL, &op->manifest,
                          &error) != QUIRE_OK) {
    fail_msg("test manifest: %s", error.message);
  }
  op->owner = &world->owner;
  op->templates = &templates;
  atomic_init(&op->references, 1);
}

void gpu_open_world(gpu_world *world) {
  memset(world, 0, sizeof *world);
  counting_allocator_init(&world->memory);
  world->memory.raw = true;
  world->owner.allocator = &world->memory.allocator;
  world->owner.registry = &registry;
  world->owner.retain = ignore_owner;
  world->owner.release = ignore_owner;
  load(world, &world->op, manifest_text);
  load(world, &world->broken, broken_text);
}

bool gpu_open(gpu_world *world, const quire_webgpu_options *options) {
  gpu_open_world(world);
  quire_device_options device_options;
  quire_device_options_init(&device_options);
  device_options.webgpu = options;
  quire_error error;
  const quire_status status =
      quire_device_open_backend(&world->owner, "webgpu", &device_options, &world->device, &error);
  if (status == QUIRE_NOT_FOUND) {
    print_message("skipped: %s\n", error.message);
    gpu_close(world);
    return false;
  }
  if (status != QUIRE_OK) {
    fail_msg("%s", error.message);
  }
  return true;
}

void gpu_destroy_device(gpu_world *world) {
  /* The library itself never destroys a device, so it does not look the function up. */
  quire_webgpu *gpu = quire_webgpu_of(world->device);
  const char *names[] = {getenv("QUIRE_WEBGPU_LIBRARY"), "libwgpu_native.so", "libwebgpu_dawn.so",
                         WEBGPU_BUILD_LIBRARY};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    void *library = names[i] == NULL ? NULL : dlopen(names[i], RTLD_NOW);
    void *found = library == NULL ? NULL : dlsym(library, "wgpuDeviceDestroy");
    if (found != NULL) {
      WGPUProcDeviceDestroy destroy;
      memcpy(&destroy, &found, sizeof destroy);
      destroy(gpu->device);
      return;
    }
  }
  fail_msg("no wgpuDeviceDestroy");
}

void gpu_close(gpu_world *world) {
  quire_device_release(world->device);
  assert_int_equal(atomic_load(&world->memory.live), 0);
  assert_int_equal(atomic_load(&world->op.references), 1);
  quire_manifest_destroy(world->op.manifest);
  quire_manifest_destroy(world->broken.manifest);
}

/* ---- calls ---- */

static void describe(gpu_call *call) {
  const struct {
    quire_dtype dtype;
    int32_t ndim;
    const int64_t *shape;
  } forms[GPU_SLOTS] = {
      [GPU_CACHE] = {QUIRE_FLOAT32, 2, call->cache_shape},
      [GPU_LENGTHS] = {QUIRE_INT32, 1, call->n_shape},
      [GPU_X] = {QUIRE_FLOAT32, 1, call->x_shape},
      [GPU_BIAS] = {QUIRE_FLOAT32, 1, call->n_shape},
      [GPU_CACHE_OUT] = {QUIRE_FLOAT32, 2, call->cache_shape},
      [GPU_Y] = {QUIRE_FLOAT32, 1, call->n_shape},
      [GPU_Z] = {QUIRE_FLOAT32, 1, call->x_shape},
  };
  for (int i = 0; i < GPU_SLOTS; i++) {
    call->tensors[i] =
        (quire_tensor){.dtype = forms[i].dtype, .ndim = forms[i].ndim, .shape = forms[i].shape};
  }
}

static void plan(gpu_call *call) {
  const quire_request_tensor inputs[] = {{"cache", QUIRE_FLOAT32, 2, call->cache_shape, NULL, NULL},
                                         {"lengths", QUIRE_INT32, 1, call->n_shape, NULL, NULL},
                                         {"x", QUIRE_FLOAT32, 1, call->x_shape, NULL, NULL},
                                         {"bias", QUIRE_FLOAT32, 1, call->n_shape, NULL, NULL}};
  const quire_request_tensor z = {"z", QUIRE_FLOAT32, 1, call->x_shape, NULL, "x"};
  const quire_named_value step = {"step", QUIRE_VALUE_TYPE_FLOAT, 0, 0.5, NULL};
  quire_request request;
  quire_request_init(&request);
  request.inputs = inputs;
  request.input_count = call->with_bias ? 4 : 3;
  request.outputs = call->z_is_x ? &z : NULL;
  request.output_count = call->z_is_x ? 1 : 0;
  request.attributes = &step;
  request.attribute_count = 1;
  quire_error error;
  if (quire_plan_create(call->world->device, &call->world->op, &request, &call->plan, &error) !=
      QUIRE_OK) {
    fail_msg("%s", error.message);
  }
}

static void fill(gpu_call *call, int slot, const void *data) {
  quire_error error;
  quire_device *device = call->world->device;
  const uint64_t bytes = quire_plan_slot_bytes(call->plan, (size_t)slot);
  if (bytes == 0) {
    return;
  }
  if (quire_buffer_create(device, bytes, &call->buffers[slot], &error) != QUIRE_OK ||
      (data != NULL &&
       quire_buffer_write(device, call->buffers[slot], 0, data, bytes, &error) != QUIRE_OK)) {
    fail_msg("%s", error.message);
  }
  call->tensors[slot].data = call->buffers[slot];
}

void gpu_make(gpu_world *world, gpu_call *call, int64_t n, int64_t c, int64_t x) {
  call->world = world;
  call->cache_shape[0] = call->n_shape[0] = n;
  call->cache_shape[1] = c;
  call->x_shape[0] = x;
  for (int i = 0; i < 64; i++) {
    call->cache[i] = (float)(i % 7);
    call->x[i] = (float)i;
  }
  for (int i = 0; i < 8; i++) {
    call->bias[i] = (float)(10 * i);
    call->lengths[i] = (int32_t)(i % (c + 1));
  }
  describe(call);
  plan(call);
  fill(call, GPU_CACHE, call->cache);
  fill(call, GPU_LENGTHS, call->lengths);
  fill(call, GPU_X, call->x);
  if (call->with_bias) {
    fill(call, GPU_BIAS, call->bias);
  }
  if (call->separate) {
    fill(call, GPU_CACHE_OUT, NULL);
  }
  fill(call, GPU_Y, call->x);
  if (call->z_is_x) {
    call->tensors[GPU_Z].data = call->buffers[GPU_X];
  } else {
    fill(call, GPU_Z, call->cache);
  }
  quire_error error;
  assert_int_equal(quire_workspace_create(world->device, NULL, &call->workspace, &error), QUIRE_OK);
}

quire_status gpu_run(gpu_call *call, uint32_t flags, quire_error *error) {
  quire_run_options options;
  quire_run_options_init(&options);
  options.flags = flags;
  return quire_plan_run(call->plan, call->tensors, GPU_SLOTS, call->workspace, &options, error);
}

static void read_floats(gpu_call *call, int slot, float *values, int64_t count) {
  quire_error error;
  if (count > 0 && quire_buffer_read(call->world->device, call->buffers[slot], 0, values,
                                     (uint64_t)count * sizeof(float), &error) != QUIRE_OK) {
    fail_msg("%s", error.message);
  }
}

static void check_floats(const char *name, const float *got, const float *want, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    if (got[i] != want[i]) {
      fail_msg("%s[%d] is %g, want %g", name, (int)i, (double)got[i], (double)want[i]);
    }
  }
}

void gpu_check(gpu_call *call, int runs) {
  const int64_t rows = call->cache_shape[0];
  const int64_t columns = call->cache_shape[1];
  float want[64];
  float sums[8] = {0};
  float got[64] = {0};
  for (int64_t n = 0; n < rows; n++) {
    const float more = 0.5f + (call->with_bias ? call->bias[n] : 0);
    int32_t length = call->lengths[n] < 0 ? 0 : call->lengths[n];
    length = length > columns ? (int32_t)columns : length;
    sums[n] = 1000.0f * (float)length;
    for (int64_t i = 0; i < columns; i++) {
      const float before = call->cache[n * columns + i];
      want[n * columns + i] = before + (i < length ? more * (float)(call->separate ? 1 : runs) : 0);
      sums[n] += want[n * columns + i];
    }
  }
  read_floats(call, call->separate ? GPU_CACHE_OUT : GPU_CACHE, got, rows * columns);
  check_floats("cache", got, want, rows * columns);
  if (call->separate) {
    read_floats(call, GPU_CACHE, got, rows * columns);
    check_floats("cache's input", got, call->cache, rows * columns);
  }
  read_floats(call, GPU_Y, got, rows);
  check_floats("y", got, sums, rows);
  for (int64_t i = 0; i < call->x_shape[0]; i++) {
    want[i] = 2 * call->x[i];
    for (int k = 1; call->z_is_x && k < runs; k++) {
      want[i] *= 2;
    }
  }
  read_floats(call, call->z_is_x ? GPU_X : GPU_Z, got, call->x_shape[0]);
  check_floats("z", got, want, call->x_shape[0]);
}

void gpu_check_untouched(gpu_call *call) {
  float got[64];
  read_floats(call, GPU_CACHE, got, call->cache_shape[0] * call->cache_shape[1]);
  check_floats("cache", got, call->cache, call->cache_shape[0] * call->cache_shape[1]);
  read_floats(call, GPU_Y, got, call->n_shape[0]);
  check_floats("y", got, call->x, call->n_shape[0]);
  if (!call->z_is_x) {
    read_floats(call, GPU_Z, got, call->x_shape[0]);
    check_floats("z", got, call->cache, call->x_shape[0]);
  }
}

void gpu_free(gpu_call *call) {
  for (int i = 0; i < GPU_SLOTS; i++) {
    quire_buffer_destroy(call->world->device, call->buffers[i]);
  }
  quire_workspace_release(call->workspace);
  quire_plan_release(call->plan);
}
