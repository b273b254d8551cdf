#include "described_target.h"

#include <string.h>

#include "error.h"

/* True if `name` is among the first `count` values. */
static bool has_value(const quire_named_value *values, size_t count, const char *name) {
  for (size_t i = 0; i < count; i++) {
    if (strcmp(values[i].name, name) == 0) {
      return true;
    }
  }
  return false;
}

/* upper's values and those of lower that upper does not name. */
static bool lay_over(quire_arena *arena, const quire_named_value *upper, size_t upper_count,
                     const quire_named_value *lower, size_t lower_count,
                     const quire_named_value **out, size_t *out_count) {
  quire_named_value *all = quire_arena_array(arena, upper_count + lower_count, sizeof(*all));
  if (all == NULL) {
    return false;
  }
  size_t count = 0;
  for (size_t i = 0; i < upper_count; i++) {
    all[count++] = upper[i];
  }
  for (size_t i = 0; i < lower_count; i++) {
    if (!has_value(upper, upper_count, lower[i].name)) {
      all[count++] = lower[i];
    }
  }
  *out = all;
  *out_count = count;
  return true;
}

/* The description that is planned for: `over` laid over the device's. */
static bool merge(quire_arena *arena, const quire_device_description *device,
                  const quire_device_description *over, quire_device_description *out) {
  *out = *device;
  if (over->features != NULL) {
    out->features = over->features;
    out->feature_count = over->feature_count;
  }
  return lay_over(arena, over->limits, over->limit_count, device->limits, device->limit_count,
                  &out->limits, &out->limit_count) &&
         lay_over(arena, over->adapter, over->adapter_count, device->adapter, device->adapter_count,
                  &out->adapter, &out->adapter_count);
}

/* A description for another backend has nothing to do with the open device. */
static bool is_for_device(const quire_device *device, const quire_device_description *over) {
  return device != NULL && (over == NULL || over->backend == NULL ||
                            strcmp(over->backend, device->description.backend) == 0);
}

static quire_status check_names(const char *list, const quire_named_value *values, size_t count,
                                quire_error *error) {
  if (values == NULL && count > 0) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, list, "is NULL, its count is %zu", count);
  }
  for (size_t i = 0; i < count; i++) {
    if (values[i].name == NULL) {
      return quire_fail(error, QUIRE_BAD_REQUEST, NULL, list, "value %zu has no name", i);
    }
  }
  return QUIRE_OK;
}

static quire_status check_description(const quire_device_description *description,
                                      quire_error *error) {
  if (description == NULL) {
    return QUIRE_OK;
  }
  if (description->struct_size < sizeof(*description)) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, "description", "struct_size is too small");
  }
  if (description->features == NULL && description->feature_count > 0) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, "features", "is NULL, its count is %zu",
                      description->feature_count);
  }
  QUIRE_TRY(check_names("limits", description->limits, description->limit_count, error));
  return check_names("adapter", description->adapter, description->adapter_count, error);
}

quire_status quire_describe_target(const quire_operator *op, const quire_device *device,
                                   const quire_device_description *description, quire_arena *arena,
                                   quire_described_target *out, quire_error *error) {
  QUIRE_TRY(check_description(description, error));
  const quire_device_description *used = description;
  quire_isa isa = QUIRE_ISA_BEST;
  if (is_for_device(device, description)) {
    isa = device->isa;
    used = &device->description;
    if (description != NULL) {
      if (!merge(arena, &device->description, description, &out->merged)) {
        return quire_fail_memory(error);
      }
      used = &out->merged;
    }
  }
  quire_target_init(&out->target, used, op->owner->registry, isa);
  if (is_for_device(device, description) && device->is_tuned) {
    out->target.tuning = &device->tuning;
  }
  return QUIRE_OK;
}

/* Makes `out` empty, so that it can be released. */
static quire_status begin_call(const quire_operator *op, const void *request,
                               quire_write_function *write, quire_described_call *out,
                               quire_error *error) {
  memset(out, 0, sizeof(*out));
  const char *missing =
      op == NULL ? "op" : (request == NULL ? "request" : (write == NULL ? "write" : NULL));
  if (missing != NULL) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, missing, "is NULL");
  }
  quire_arena_init(&out->arena, op->owner->allocator);
  return QUIRE_OK;
}

quire_status quire_describe_call(const quire_operator *op, const quire_device *device,
                                 const quire_device_description *description,
                                 const quire_request *request, quire_write_function *write,
                                 quire_described_call *out, quire_error *error) {
  QUIRE_TRY(begin_call(op, request, write, out, error));
  if (request->struct_size < sizeof(*request)) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, "request", "struct_size is too small");
  }
  out->request = request;
  out->target = &out->described.target;
  return quire_describe_target(op, device, description, &out->arena, &out->described, error);
}

quire_status quire_describe_json_call(const quire_operator *op, const char *text, size_t length,
                                      quire_write_function *write, quire_described_call *out,
                                      quire_error *error) {
  QUIRE_TRY(begin_call(op, text, write, out, error));
  QUIRE_TRY(quire_request_parse(text, length, &out->arena, &out->parsed, error));
  quire_target_init(&out->described.target, &out->parsed.device, op->owner->registry,
                    QUIRE_ISA_BEST);
  out->request = &out->parsed.request;
  out->target = &out->described.target;
  return QUIRE_OK;
}

void quire_described_call_release(quire_described_call *call) {
  quire_arena_release(&call->arena);
}
