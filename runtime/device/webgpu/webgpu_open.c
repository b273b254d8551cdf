/* Opening and closing a device. */
#include <string.h>

#include "error.h"
#include "webgpu_device.h"
#include "webgpu_run.h"

enum { KEPT_PIPELINES = 256, MOST_KEPT_PIPELINES = 1 << 16, MOST_KEPT_BINDINGS = 4096 };

/* ---- options ---- */

static quire_status take_options(const quire_device_options *options, quire_webgpu_options *own,
                                 quire_error *error) {
  quire_webgpu_options_init(own);
  if (options->webgpu != NULL) {
    if (options->webgpu->struct_size < sizeof *own) {
      return quire_fail(error, QUIRE_BAD_REQUEST, NULL, "options",
                        "struct_size is %zu, quire_webgpu_options has %zu bytes",
                        options->webgpu->struct_size, sizeof *own);
    }
    *own = *options->webgpu;
  }
  if (own->pipeline_cache_size > MOST_KEPT_PIPELINES) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, "options",
                      "pipeline_cache_size is %zu, at most %d", own->pipeline_cache_size,
                      (int)MOST_KEPT_PIPELINES);
  }
  if (own->kept_bindings > MOST_KEPT_BINDINGS) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, "options", "kept_bindings is %zu, at most %d",
                      own->kept_bindings, (int)MOST_KEPT_BINDINGS);
  }
  if (own->queue != NULL && own->device == NULL) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, "options", "a queue is given, no device");
  }
  return QUIRE_OK;
}

/* ---- the device ---- */

/* Only what the adapter has: wgpu-native ignores unknown features, Dawn refuses the device. */
static size_t wanted_features(const quire_webgpu *gpu, WGPUFeatureName *features) {
  static const WGPUFeatureName standard[] = {
      WGPUFeatureName_ShaderF16, WGPUFeatureName_TimestampQuery, WGPUFeatureName_Subgroups};
  static const int native[] = {QUIRE_WEBGPU_NATIVE_SUBGROUP, QUIRE_WEBGPU_NATIVE_SUBGROUP_BARRIER};
  size_t count = 0;
  for (size_t i = 0; i < sizeof standard / sizeof *standard; i++) {
    if (gpu->procs.AdapterHasFeature(gpu->adapter, standard[i])) {
      features[count++] = standard[i];
    }
  }
  for (size_t i = 0; gpu->native && i < sizeof native / sizeof *native; i++) {
    if (gpu->procs.AdapterHasFeature(gpu->adapter, (WGPUFeatureName)native[i])) {
      features[count++] = (WGPUFeatureName)native[i];
    }
  }
  return count;
}

static quire_status request_device(quire_webgpu *gpu, const quire_webgpu_options *options,
                                   quire_error *error) {
  WGPUFeatureName features[QUIRE_WEBGPU_MOST_FEATURES];
  WGPULimits limits;
  memset(&limits, 0, sizeof limits);
  WGPUDeviceDescriptor descriptor;
  memset(&descriptor, 0, sizeof descriptor);
  descriptor.requiredFeatureCount = wanted_features(gpu, features);
  descriptor.requiredFeatures = features;
  if (!options->default_limits) {
    if (gpu->procs.AdapterGetLimits(gpu->adapter, &limits) != WGPUStatus_Success) {
      return quire_fail(error, QUIRE_DEVICE, NULL, "webgpu",
                        "the adapter does not tell its limits");
    }
    limits.nextInChain = NULL;
    descriptor.requiredLimits = &limits;
  }
  descriptor.deviceLostCallbackInfo = (WGPUDeviceLostCallbackInfo){
      NULL, WGPUCallbackMode_AllowSpontaneous,
      gpu->native ? quire_webgpu_on_lost_native : quire_webgpu_on_lost, gpu->news, NULL};
  descriptor.uncapturedErrorCallbackInfo =
      (WGPUUncapturedErrorCallbackInfo){NULL, quire_webgpu_on_error, gpu->news, NULL};
  if (!gpu->native) {
    quire_webgpu_news_hold(gpu->news); /* for the callback of loss, which always comes */
  }
  quire_webgpu_answer_ask(gpu->answer);
  const WGPURequestDeviceCallbackInfo info = {NULL, WGPUCallbackMode_AllowSpontaneous,
                                              quire_webgpu_on_device, gpu->answer, NULL};
  (void)gpu->procs.AdapterRequestDevice(gpu->adapter, &descriptor, info);
  if (quire_webgpu_wait(gpu, NULL) != QUIRE_OK) {
    return quire_fail(error, QUIRE_DEVICE, NULL, "webgpu",
                      "the adapter gives no device: it never answered");
  }
  gpu->device = gpu->answer->device;
  gpu->answer->device = NULL;
  return gpu->device != NULL ? QUIRE_OK
                             : quire_fail(error, QUIRE_DEVICE, NULL, "webgpu",
                                          "the adapter gives no device: %s", gpu->answer->message);
}

static quire_status take_instance(quire_webgpu *gpu, const quire_webgpu_options *options,
                                  quire_error *error) {
  gpu->instance = options->instance;
  if (gpu->instance != NULL) {
    gpu->procs.InstanceAddRef(gpu->instance);
    return QUIRE_OK;
  }
  if (options->device != NULL && !gpu->native) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, "options",
                      "a device is given without its instance, which processes its events");
  }
  gpu->instance = gpu->procs.CreateInstance(NULL);
  return gpu->instance != NULL
             ? QUIRE_OK
             : quire_fail(error, QUIRE_DEVICE, NULL, "webgpu", "no instance can be made");
}

static quire_status take_device(quire_webgpu *gpu, const quire_webgpu_options *options,
                                quire_error *error) {
  if (options->adapter != NULL) {
    gpu->adapter = options->adapter;
    gpu->procs.AdapterAddRef(gpu->adapter);
  }
  if (options->device != NULL) {
    gpu->device = options->device;
    gpu->procs.DeviceAddRef(gpu->device);
    return QUIRE_OK;
  }
  if (options->adapter == NULL) {
    QUIRE_TRY(
        quire_webgpu_choose_adapter(options, &gpu->procs, gpu->instance, &gpu->adapter, error));
  }
  return request_device(gpu, options, error);
}

static quire_status take_queue(quire_webgpu *gpu, const quire_webgpu_options *options,
                               quire_error *error) {
  if (options->queue != NULL) {
    gpu->queue = options->queue;
    gpu->procs.QueueAddRef(gpu->queue);
  } else {
    gpu->queue = gpu->procs.DeviceGetQueue(gpu->device);
  }
  if (gpu->queue == NULL) {
    return quire_webgpu_no_object("webgpu", "queue", error);
  }
  if (gpu->procs.DeviceGetLimits(gpu->device, &gpu->limits) != WGPUStatus_Success) {
    return quire_fail(error, QUIRE_DEVICE, NULL, "webgpu", "the device does not tell its limits");
  }
  gpu->limits.nextInChain = NULL;
  gpu->standard_subgroups =
      gpu->procs.DeviceHasFeature(gpu->device, WGPUFeatureName_Subgroups) != 0;
  gpu->has_subgroups =
      gpu->standard_subgroups ||
      (gpu->native && gpu->procs.DeviceHasFeature(
                          gpu->device, (WGPUFeatureName)QUIRE_WEBGPU_NATIVE_SUBGROUP) != 0);
  gpu->has_timestamps =
      gpu->procs.DeviceHasFeature(gpu->device, WGPUFeatureName_TimestampQuery) != 0;
  return QUIRE_OK;
}

static quire_status make_dummies(quire_webgpu *gpu, quire_error *error) {
  const uint64_t bytes = (uint64_t)QUIRE_WEBGPU_DUMMY_BYTES * QUIRE_WEBGPU_MOST_BINDINGS;
  QUIRE_TRY(quire_webgpu_make_buffer(gpu, 16, WGPUBufferUsage_Storage, "webgpu", &gpu->dummy_read,
                                     error));
  return quire_webgpu_make_buffer(gpu, bytes, WGPUBufferUsage_Storage, "webgpu", &gpu->dummy_write,
                                  error);
}

/* ---- life ---- */

static void release(quire_webgpu *gpu) {
  const quire_webgpu_procs *p = &gpu->procs;
  quire_webgpu_pipelines_destroy(gpu);
  quire_webgpu_drop_buffer(gpu, gpu->dummy_read);
  quire_webgpu_drop_buffer(gpu, gpu->dummy_write);
  quire_webgpu_drop_buffer(gpu, gpu->staging);
  if (gpu->queue != NULL) {
    p->QueueRelease(gpu->queue);
  }
  if (gpu->device != NULL) {
    p->DeviceRelease(gpu->device); /* Dawn reports the loss in here */
  }
  if (gpu->adapter != NULL) {
    p->AdapterRelease(gpu->adapter);
  }
  if (gpu->instance != NULL) {
    p->InstanceRelease(gpu->instance);
  }
  quire_webgpu_answer_destroy(gpu->answer);
  quire_webgpu_news_drop(gpu->news);
  (void)pthread_mutex_destroy(&gpu->mutex);
  quire_dealloc(gpu->allocator, gpu, sizeof *gpu, QUIRE_ALLOC_ALIGNMENT);
}

static quire_status start(quire_device *device, quire_webgpu *gpu,
                          const quire_webgpu_options *options, quire_error *error) {
  QUIRE_TRY(quire_webgpu_procs_load(options, gpu->allocator, &gpu->procs, error));
  gpu->native = quire_webgpu_is_native(&gpu->procs);
  gpu->news = quire_webgpu_news_create();
  gpu->answer = gpu->news == NULL ? NULL : quire_webgpu_answer_create(&gpu->procs, gpu->news);
  if (gpu->answer == NULL) {
    return quire_fail_memory(error);
  }
  gpu->budget = options->memory_budget;
  gpu->trusted = options->trusted_shaders != 0;
  gpu->kept_bindings = options->kept_bindings;
  QUIRE_TRY(take_instance(gpu, options, error));
  QUIRE_TRY(take_device(gpu, options, error));
  QUIRE_TRY(take_queue(gpu, options, error));
  const size_t kept = options->pipeline_cache_size;
  QUIRE_TRY(quire_webgpu_pipelines_create(gpu, kept == 0 ? KEPT_PIPELINES : kept, error));
  QUIRE_TRY(make_dummies(gpu, error));
  return quire_webgpu_describe(device, options, error);
}

static quire_status webgpu_open(quire_device *device, const quire_device_options *options,
                                quire_error *error) {
  quire_webgpu_options own;
  QUIRE_TRY(take_options(options, &own, error));
  const quire_allocator *allocator = device->owner->allocator;
  quire_webgpu *gpu = quire_alloc_array(allocator, 1, sizeof *gpu);
  if (gpu == NULL) {
    return quire_fail_memory(error);
  }
  gpu->allocator = allocator;
  if (pthread_mutex_init(&gpu->mutex, NULL) != 0) {
    quire_dealloc(allocator, gpu, sizeof *gpu, QUIRE_ALLOC_ALIGNMENT);
    return quire_fail(error, QUIRE_DEVICE, NULL, "webgpu", "a mutex could not be made");
  }
  device->backend_data = gpu;
  quire_webgpu_lock(gpu);
  quire_status status = start(device, gpu, &own, error);
  quire_webgpu_unlock(gpu);
  if (status != QUIRE_OK) {
    release(gpu);
    device->backend_data = NULL;
  }
  return status;
}

static void webgpu_close(quire_device *device) {
  release(quire_webgpu_of(device));
}

static void webgpu_facts(const quire_device *device, quire_device_facts *facts) {
  facts->model = quire_webgpu_of(device)->model;
}

const quire_backend quire_backend_webgpu = {
    .name = "webgpu",
    .open = webgpu_open,
    .close = webgpu_close,
    .facts = webgpu_facts,
    .plan_create = quire_webgpu_plan_create,
    .plan_destroy = quire_webgpu_plan_destroy,
    .prepare = quire_webgpu_prepare,
    .run = quire_webgpu_run,
    .check_tensor = quire_webgpu_check_tensor,
    .check_tensors = quire_webgpu_check_tensors,
    .workspace_release = quire_webgpu_workspace_release,
    .buffer_create = quire_webgpu_buffer_create,
    .buffer_destroy = quire_webgpu_buffer_destroy,
    .buffer_write = quire_webgpu_buffer_write,
    .buffer_read = quire_webgpu_buffer_read,
    .buffer_copy = quire_webgpu_buffer_copy,
};

/* ---- handles ---- */

static const quire_webgpu *webgpu_of(const quire_device *device) {
  return device != NULL && device->backend == &quire_backend_webgpu ? quire_webgpu_of(device)
                                                                    : NULL;
}

struct WGPUInstanceImpl *quire_webgpu_instance(const quire_device *device) {
  const quire_webgpu *gpu = webgpu_of(device);
  return gpu == NULL ? NULL : gpu->instance;
}

struct WGPUDeviceImpl *quire_webgpu_device(const quire_device *device) {
  const quire_webgpu *gpu = webgpu_of(device);
  return gpu == NULL ? NULL : gpu->device;
}

struct WGPUQueueImpl *quire_webgpu_queue(const quire_device *device) {
  const quire_webgpu *gpu = webgpu_of(device);
  return gpu == NULL ? NULL : gpu->queue;
}
