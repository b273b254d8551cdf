/*
 * What the runtime finds in this library: CreateEpFactories and ReleaseEpFactory. A factory is made
 * for each registration, and makes a provider for each session.
 */
#include <stdlib.h>

#include "ort_options.h"
#include "ort_provider.h"

typedef struct factory {
  OrtEpFactory base; /* first: the runtime knows its address only */
  quire_ort_runtime runtime;
  quire_context *context;
  quire_ort_binding bindings[QUIRE_ORT_KINDS];
} factory;

/* ---- facts ---- */

static const char *ORT_API_CALL get_name(const OrtEpFactory *self) {
  (void)self;
  return QUIRE_ORT_PROVIDER_NAME;
}

static const char *ORT_API_CALL get_vendor(const OrtEpFactory *self) {
  (void)self;
  return "Quire";
}

static uint32_t ORT_API_CALL get_vendor_id(const OrtEpFactory *self) {
  (void)self;
  return 0; /* no number of the PCI registry */
}

static const char *ORT_API_CALL get_version(const OrtEpFactory *self) {
  (void)self;
  return quire_version();
}

static bool ORT_API_CALL is_stream_aware(const OrtEpFactory *self) {
  (void)self;
  return false;
}

/* ---- memory: the runtime's own, so there is nothing to make ---- */

static OrtStatus *ORT_API_CALL create_allocator(OrtEpFactory *self, const OrtMemoryInfo *info,
                                                const OrtKeyValuePairs *options,
                                                OrtAllocator **allocator) {
  (void)self;
  (void)info;
  (void)options;
  *allocator = NULL;
  return NULL;
}

static void ORT_API_CALL release_allocator(OrtEpFactory *self, OrtAllocator *allocator) {
  (void)self;
  (void)allocator;
}

static OrtStatus *ORT_API_CALL create_data_transfer(OrtEpFactory *self,
                                                    OrtDataTransferImpl **transfer) {
  (void)self;
  *transfer = NULL;
  return NULL;
}

/* ---- devices and providers ---- */

static OrtStatus *ORT_API_CALL get_supported_devices(OrtEpFactory *base,
                                                     const OrtHardwareDevice *const *devices,
                                                     size_t device_count, OrtEpDevice **supported,
                                                     size_t most, size_t *supported_count) {
  const factory *self = (const factory *)base;
  *supported_count = 0;
  for (size_t i = 0; i < device_count && *supported_count < most; i++) {
    if (self->runtime.api->HardwareDevice_Type(devices[i]) == OrtHardwareDeviceType_CPU) {
      QUIRE_ORT_TRY(self->runtime.ep_api->CreateEpDevice(base, devices[i], NULL, NULL,
                                                         &supported[*supported_count]));
      (*supported_count)++;
    }
  }
  return NULL;
}

/* A device without threads of its own: the runtime's do the work. */
static OrtStatus *open_device(const factory *self, quire_device **device) {
  quire_device_options options;
  quire_error error;
  quire_device_options_init(&options);
  options.threads = 1;
  quire_status status = quire_device_open(self->context, "cpu", &options, device, &error);
  return status == QUIRE_OK ? NULL
                            : quire_ort_fail(&self->runtime, quire_ort_code(status),
                                             QUIRE_ORT_PROVIDER_NAME ": %s", error.message);
}

static OrtStatus *ORT_API_CALL create_ep(OrtEpFactory *base,
                                         const OrtHardwareDevice *const *devices,
                                         const OrtKeyValuePairs *const *metadata,
                                         size_t device_count, const OrtSessionOptions *session,
                                         const OrtLogger *logger, OrtEp **ep) {
  const factory *self = (const factory *)base;
  quire_ort_options options;
  quire_device *device = NULL;
  (void)devices;
  (void)metadata;
  (void)device_count;
  *ep = NULL;
  QUIRE_ORT_TRY(quire_ort_options_read(&self->runtime, self->bindings, session, &options));
  QUIRE_ORT_TRY(open_device(self, &device));
  OrtStatus *status =
      quire_ort_provider_create(&self->runtime, self->bindings, device, &options, logger, ep);
  if (status != NULL) {
    quire_device_release(device);
  }
  return status;
}

static void ORT_API_CALL release_ep(OrtEpFactory *self, OrtEp *ep) {
  (void)self;
  quire_ort_provider_destroy(ep);
}

/* ---- life ---- */

static void set_functions(OrtEpFactory *base) {
  base->ort_version_supported = QUIRE_ORT_VERSION;
  base->GetName = get_name;
  base->GetVendor = get_vendor;
  base->GetVendorId = get_vendor_id;
  base->GetVersion = get_version;
  base->GetSupportedDevices = get_supported_devices;
  base->CreateEp = create_ep;
  base->ReleaseEp = release_ep;
  base->CreateAllocator = create_allocator;
  base->ReleaseAllocator = release_allocator;
  base->CreateDataTransfer = create_data_transfer;
  base->IsStreamAware = is_stream_aware;
}

static void destroy(factory *self) {
  quire_context_release(self->context);
  free(self);
}

static OrtStatus *create(const quire_ort_runtime *runtime, factory **result) {
  factory *self = calloc(1, sizeof *self);
  if (self == NULL) {
    return quire_ort_fail(runtime, ORT_FAIL, "no memory for " QUIRE_ORT_PROVIDER_NAME);
  }
  self->runtime = *runtime;
  set_functions(&self->base);
  quire_error error;
  quire_status made = quire_context_create(NULL, &self->context, &error);
  OrtStatus *status = made == QUIRE_OK
                          ? quire_ort_bind(runtime, self->context, self->bindings)
                          : quire_ort_fail(runtime, quire_ort_code(made),
                                           QUIRE_ORT_PROVIDER_NAME ": %s", error.message);
  if (status != NULL) {
    destroy(self);
    return status;
  }
  *result = self;
  return NULL;
}

/* The version script exports these two; the runtime looks them up by name. */
OrtStatus *CreateEpFactories(const char *registered_name, const OrtApiBase *api_base,
                             const OrtLogger *default_logger, OrtEpFactory **factories,
                             size_t max_factories, size_t *num_factories);
OrtStatus *ReleaseEpFactory(OrtEpFactory *base);

OrtStatus *CreateEpFactories(const char *registered_name, const OrtApiBase *api_base,
                             const OrtLogger *default_logger, OrtEpFactory **factories,
                             size_t max_factories, size_t *num_factories) {
  quire_ort_runtime runtime = {api_base->GetApi(QUIRE_ORT_VERSION), NULL};
  factory *self = NULL;
  (void)registered_name;
  (void)default_logger;
  *num_factories = 0;
  if (runtime.api == NULL) {
    runtime.api = api_base->GetApi(1);
    return quire_ort_fail(&runtime, ORT_NOT_IMPLEMENTED,
                          QUIRE_ORT_PROVIDER_NAME " needs ONNX Runtime 1.%d or later, this is %s",
                          (int)QUIRE_ORT_VERSION, api_base->GetVersionString());
  }
  runtime.ep_api = runtime.api->GetEpApi();
  if (max_factories < 1) {
    return quire_ort_fail(&runtime, ORT_INVALID_ARGUMENT,
                          QUIRE_ORT_PROVIDER_NAME ": no room for a factory");
  }
  QUIRE_ORT_TRY(create(&runtime, &self));
  factories[0] = &self->base;
  *num_factories = 1;
  return NULL;
}

OrtStatus *ReleaseEpFactory(OrtEpFactory *base) {
  if (base != NULL) {
    destroy((factory *)base);
  }
  return NULL;
}
