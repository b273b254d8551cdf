#include <string.h>

#include "backend.h"
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

static quire_status explain_to(const quire_operator *op, const quire_request *request,
                               const quire_target *target, quire_explain_format format,
                               quire_write_function *write, void *user, int *refused,
                               quire_error *error) {
  quire_text text;
  quire_text_init(&text, op->owner->allocator);
  quire_status status =
      quire_plan_explain(op->manifest, request, target, format, op->owner->allocator, &text, error);
  if (text.failed) {
    status = quire_fail_memory(error);
  } else if (text.length > 0) {
    write(user, quire_text_view(&text), text.length);
    *refused = status != QUIRE_OK;
  }
  quire_text_release(&text);
  return status;
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

static quire_status check_arguments(const quire_operator *op, const void *request,
                                    quire_write_function *write, quire_explain_format format,
                                    quire_error *error) {
  const char *missing =
      op == NULL ? "op" : (request == NULL ? "request" : (write == NULL ? "write" : NULL));
  if (missing != NULL) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, missing, "is NULL");
  }
  if (format != QUIRE_EXPLAIN_TEXT && format != QUIRE_EXPLAIN_JSON) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, "format", "is %d, which is no format",
                      (int)format);
  }
  return QUIRE_OK;
}

quire_status quire_explain(const quire_operator *op, quire_device *device,
                           const quire_device_description *description,
                           const quire_request *request, quire_explain_format format,
                           quire_write_function *write, void *user, quire_error *error) {
  QUIRE_TRY(check_arguments(op, request, write, format, error));
  if (request->struct_size < sizeof(*request)) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, "request", "struct_size is too small");
  }
  QUIRE_TRY(check_description(description, error));
  quire_arena arena;
  quire_arena_init(&arena, op->owner->allocator);
  quire_device_description merged;
  const quire_device_description *used = description;
  quire_isa isa = QUIRE_ISA_BEST;
  bool enough = true;
  if (is_for_device(device, description)) {
    isa = device->isa;
    used = &device->description;
    if (description != NULL) {
      enough = merge(&arena, &device->description, description, &merged);
      used = &merged;
    }
  }
  quire_status status = QUIRE_OUT_OF_MEMORY;
  if (enough) {
    quire_target target;
    quire_target_init(&target, used, op->owner->registry, isa);
    int refused = 0;
    status = explain_to(op, request, &target, format, write, user, &refused, error);
  } else {
    status = quire_fail_memory(error);
  }
  quire_arena_release(&arena);
  return status;
}

quire_status quire_explain_json(const quire_operator *op, const char *request, size_t length,
                                quire_explain_format format, quire_write_function *write,
                                void *user, int *refused, quire_error *error) {
  int ignored = 0;
  refused = refused == NULL ? &ignored : refused;
  *refused = 0;
  QUIRE_TRY(check_arguments(op, request, write, format, error));
  quire_arena arena;
  quire_arena_init(&arena, op->owner->allocator);
  quire_json_request parsed;
  memset(&parsed, 0, sizeof(parsed));
  quire_status status = quire_request_parse(request, length, &arena, &parsed, error);
  if (status == QUIRE_OK) {
    quire_target target;
    quire_target_init(&target, &parsed.device, op->owner->registry, QUIRE_ISA_BEST);
    status = explain_to(op, &parsed.request, &target, format, write, user, refused, error);
  }
  quire_arena_release(&arena);
  return status;
}
