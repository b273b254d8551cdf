#include <string.h>

#include "backend.h"
#include "error.h"

static const quire_backend *const backends[] = {
    &quire_backend_cpu,
#ifdef QUIRE_WITH_WEBGPU
    &quire_backend_webgpu,
#endif
};
enum { BACKEND_COUNT = sizeof(backends) / sizeof(backends[0]) };

const char *quire_device_name(size_t index) {
  return index < BACKEND_COUNT ? backends[index]->name : NULL;
}

/* ---- options ---- */

/* The struct before it grew: the smallest that any program brings. */
enum { FIRST_OPTIONS = offsetof(quire_device_options, tuning) };

void quire_device_options_init_sized(quire_device_options *options, size_t struct_size) {
  if (options == NULL) {
    return;
  }
  size_t known = struct_size < sizeof(*options) ? struct_size : sizeof(*options);
  memset(options, 0, known);
  options->struct_size = known;
}

void(quire_device_options_init)(quire_device_options *options) {
  quire_device_options_init_sized(options, FIRST_OPTIONS);
}

quire_status quire_device_options_read(const quire_device_options *given, quire_device_options *own,
                                       quire_error *error) {
  quire_device_options_init(own);
  if (given == NULL) {
    return QUIRE_OK;
  }
  if (given->struct_size < FIRST_OPTIONS) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, "options",
                      "struct_size is %zu, quire_device_options has %d bytes at least",
                      given->struct_size, (int)FIRST_OPTIONS);
  }
  size_t known = given->struct_size < sizeof(*own) ? given->struct_size : sizeof(*own);
  memcpy(own, given, known);
  own->struct_size = sizeof(*own);
  return QUIRE_OK;
}

static const quire_backend *find_backend(const char *name) {
  for (size_t i = 0; i < BACKEND_COUNT; i++) {
    if (strcmp(backends[i]->name, name) == 0) {
      return backends[i];
    }
  }
  return NULL;
}

static quire_status check_options(const quire_device_options *options, quire_error *error) {
  if (options->executor != NULL && options->executor->parallel_for == NULL) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, "options",
                      "the executor's parallel_for is NULL");
  }
  if ((int)options->isa < QUIRE_ISA_BEST || options->isa > QUIRE_ISA_NEON) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, "options", "isa is %d, which is no level",
                      (int)options->isa);
  }
  if (options->tuning == NULL && options->tuning_length > 0) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, "options",
                      "tuning is NULL, tuning_length is %zu", options->tuning_length);
  }
  return QUIRE_OK;
}

/* What a device has of its own, and what its backend needs. */
static quire_status start(quire_device *device, const quire_device_options *options,
                          quire_error *error) {
  atomic_init(&device->references, 1);
  device->isa = options->isa;
  device->plan_cache_size = options->plan_cache_size == 0 ? 256 : options->plan_cache_size;
  device->description.struct_size = sizeof(device->description);
  device->description.backend = device->backend->name;
  device->is_tuned = options->tuning != NULL;
  if (device->is_tuned) {
    QUIRE_TRY(quire_tuning_parse(options->tuning, options->tuning_length, &device->arena,
                                 &device->tuning, error));
  }
  return device->backend->open(device, options, error);
}

quire_status quire_device_open_backend(quire_owner *owner, const char *name,
                                       const quire_device_options *options, quire_device **device,
                                       quire_error *error) {
  if (device == NULL) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, "device", "the place for the device is NULL");
  }
  *device = NULL;
  if (owner == NULL || name == NULL) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, owner == NULL ? "context" : "name",
                      "is NULL");
  }
  const quire_backend *backend = find_backend(name);
  if (backend == NULL) {
    return quire_fail(error, QUIRE_NOT_FOUND, NULL, name, "this build has no such device");
  }
  quire_device_options own;
  QUIRE_TRY(quire_device_options_read(options, &own, error));
  QUIRE_TRY(check_options(&own, error));

  quire_device *opened = quire_alloc_array(owner->allocator, 1, sizeof(*opened));
  if (opened == NULL) {
    return quire_fail_memory(error);
  }
  opened->owner = owner;
  opened->backend = backend;
  quire_arena_init(&opened->arena, owner->allocator);
  quire_status status = start(opened, &own, error);
  if (status != QUIRE_OK) {
    quire_arena_release(&opened->arena);
    quire_dealloc(owner->allocator, opened, sizeof(*opened), QUIRE_ALLOC_ALIGNMENT);
    return status;
  }
  owner->retain(owner);
  *device = opened;
  return QUIRE_OK;
}

void quire_device_retain(quire_device *device) {
  atomic_fetch_add_explicit(&device->references, 1, memory_order_relaxed);
}

void quire_device_release(quire_device *device) {
  if (device == NULL ||
      atomic_fetch_sub_explicit(&device->references, 1, memory_order_acq_rel) != 1) {
    return;
  }
  if (device->calls_destroy != NULL) {
    device->calls_destroy(device);
  }
  device->backend->close(device);
  quire_arena_release(&device->arena);
  quire_owner *owner = device->owner;
  quire_dealloc(owner->allocator, device, sizeof(*device), QUIRE_ALLOC_ALIGNMENT);
  owner->release(owner);
}

const quire_device_description *quire_device_describe(const quire_device *device) {
  return device == NULL ? NULL : &device->description;
}

void quire_device_get_facts(const quire_device *device, quire_device_facts *facts) {
  if (facts == NULL) {
    return;
  }
  memset(facts, 0, sizeof(*facts));
  facts->name = facts->model = facts->isa = "";
  if (device != NULL) {
    facts->name = device->backend->name;
    device->backend->facts(device, facts);
  }
}
