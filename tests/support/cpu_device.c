#include "cpu_device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static quire_context *make_context(const quire_allocator *allocator) {
  quire_context *context = NULL;
  quire_error error;
  quire_context_options options;
  quire_context_options_init(&options);
  options.allocator = allocator;
  if (quire_context_create(&options, &context, &error) != QUIRE_OK) {
    fail_msg("%s", error.message);
  }
  return context;
}

cpu_device cpu_open(const quire_allocator *allocator, const quire_device_options *options) {
  cpu_device cpu = {.context = make_context(allocator)};
  quire_error error;
  if (quire_device_open(cpu.context, "cpu", options, &cpu.device, &error) != QUIRE_OK) {
    fail_msg("%s", error.message);
  }
  return cpu;
}

void cpu_close(cpu_device *cpu) {
  quire_device_release(cpu->device);
  quire_context_release(cpu->context);
}

cpu_levels cpu_open_levels(void) {
  static const quire_isa levels[CPU_LEVELS] = {QUIRE_ISA_SCALAR, QUIRE_ISA_AVX2, QUIRE_ISA_AVX512,
                                               QUIRE_ISA_NEON};
  cpu_levels cpu = {.context = make_context(NULL)};
  for (size_t i = 0; i < CPU_LEVELS; i++) {
    quire_device_options options;
    quire_device_options_init(&options);
    options.isa = levels[i];
    (void)quire_device_open(cpu.context, "cpu", &options, &cpu.devices[i], NULL);
  }
  assert_non_null(cpu.devices[0]);
  return cpu;
}

void cpu_close_levels(cpu_levels *cpu) {
  for (size_t i = 0; i < CPU_LEVELS; i++) {
    quire_device_release(cpu->devices[i]);
  }
  quire_context_release(cpu->context);
}
