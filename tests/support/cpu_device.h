/* The CPU through the public headers, opened for a test. What goes wrong fails the test. */
#ifndef QUIRE_TESTS_CPU_DEVICE_H
#define QUIRE_TESTS_CPU_DEVICE_H

#include "quire/device.h"

typedef struct cpu_device {
  quire_context *context;
  quire_device *device;
} cpu_device;

/* Both may be NULL: the C library's allocator, default options. */
cpu_device cpu_open(const quire_allocator *allocator, const quire_device_options *options);
void cpu_close(cpu_device *cpu);

enum { CPU_LEVELS = 4 };

/* A device for each instruction set, plain C first. */
typedef struct cpu_levels {
  quire_context *context;
  quire_device *devices[CPU_LEVELS]; /* NULL: the machine has no such set */
} cpu_levels;

cpu_levels cpu_open_levels(void);
void cpu_close_levels(cpu_levels *cpu);

#endif
