#include "alloc.h"
#include "call_cache.h"
#include "context_object.h"
#include "error.h"
#include "quire/webgpu.h"

quire_status quire_device_open(quire_context *context, const char *name,
                               const quire_device_options *options, quire_device **device,
                               quire_error *error) {
  if (device == NULL) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, "device", "is NULL");
  }
  *device = NULL;
  if (context == NULL || name == NULL) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, context == NULL ? "context" : "name",
                      "is NULL");
  }
  quire_device *opened = NULL;
  QUIRE_TRY(quire_device_open_backend(&context->owner, name, options, &opened, error));
  quire_status status = quire_call_cache_attach(context, opened, error);
  if (status != QUIRE_OK) {
    quire_device_release(opened);
    return status;
  }
  *device = opened;
  return QUIRE_OK;
}

quire_status quire_webgpu_device_open(quire_context *context,
                                      const quire_device_options *device_options,
                                      const quire_webgpu_options *options, quire_device **device,
                                      quire_error *error) {
  quire_device_options own;
  QUIRE_TRY(quire_device_options_read(device_options, &own, error));
  if (options != NULL) {
    own.webgpu = options;
  }
  return quire_device_open(context, "webgpu", &own, device, error);
}
