/* What the request says about the device: limits, features, adapter properties. */
#include <string.h>

#include "planning.h"

/* Limits of WebGPU's default device; 8 storage buffers are what every device guarantees. */
static const struct {
  const char *name;
  int64_t value;
} default_limits[] = {
    {"maxStorageBuffersPerShaderStage", 8},
    {"maxUniformBuffersPerShaderStage", 12},
    {"maxUniformBufferBindingSize", 65536},
    {"maxStorageBufferBindingSize", 134217728},
    {"minUniformBufferOffsetAlignment", 256},
    {"minStorageBufferOffsetAlignment", 256},
    {"maxBufferSize", 268435456},
    {"maxComputeWorkgroupStorageSize", 16384},
    {"maxComputeInvocationsPerWorkgroup", 256},
    {"maxComputeWorkgroupSizeX", 256},
    {"maxComputeWorkgroupSizeY", 256},
    {"maxComputeWorkgroupSizeZ", 64},
    {"maxComputeWorkgroupsPerDimension", 65535},
    {"maxBindingsPerBindGroup", 1000},
};

static bool name_is(const char *name, const char *text, size_t length) {
  return name != NULL && strncmp(name, text, length) == 0 && name[length] == '\0';
}

const char *quire_target_backend(const quire_target *target) {
  const quire_device_description *description = target->description;
  return description != NULL && description->backend != NULL ? description->backend : "webgpu";
}

void quire_target_init(quire_target *target, const quire_device_description *description,
                       const quire_registry *registry, quire_isa isa) {
  target->description = description;
  target->registry = registry;
  target->isa = isa;
  target->tuning = NULL;
  target->cpu_features = 0;
  for (unsigned bit = 0; bit < QUIRE_CPU_FEATURE_COUNT; bit++) {
    const char *name = quire_cpu_features[bit];
    if (quire_target_feature(target, name, strlen(name))) {
      target->cpu_features |= 1u << bit;
    }
  }
}

bool quire_target_limit(const quire_target *target, const char *name, size_t length,
                        int64_t *value) {
  const quire_device_description *description = target->description;
  size_t given = description != NULL ? description->limit_count : 0;
  for (size_t i = 0; i < given; i++) {
    if (name_is(description->limits[i].name, name, length)) {
      *value = description->limits[i].i;
      return true;
    }
  }
  if (strcmp(quire_target_backend(target), "webgpu") != 0) {
    *value = (int64_t)1 << 62; /* other backends have no limits of these names */
    return true;
  }
  for (size_t i = 0; i < sizeof default_limits / sizeof *default_limits; i++) {
    if (name_is(default_limits[i].name, name, length)) {
      *value = default_limits[i].value;
      return true;
    }
  }
  return false;
}

int64_t quire_target_limit_or_most(const quire_target *target, const char *name) {
  int64_t value = 0;
  return quire_target_limit(target, name, strlen(name), &value) ? value : INT64_MAX;
}

bool quire_target_feature(const quire_target *target, const char *name, size_t length) {
  const quire_device_description *description = target->description;
  size_t count = description != NULL ? description->feature_count : 0;
  for (size_t i = 0; i < count; i++) {
    if (name_is(description->features[i], name, length)) {
      return true;
    }
  }
  return false;
}

quire_value quire_target_adapter(const quire_target *target, const char *name, size_t length) {
  const quire_device_description *description = target->description;
  size_t count = description != NULL ? description->adapter_count : 0;
  for (size_t i = 0; i < count; i++) {
    if (name_is(description->adapter[i].name, name, length)) {
      return quire_named_value_read(&description->adapter[i]);
    }
  }
  return quire_value_undefined();
}
