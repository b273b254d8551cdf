/* What the processor can do, and what of it a device may use. */
#ifndef QUIRE_DEVICE_CPU_FEATURES_H
#define QUIRE_DEVICE_CPU_FEATURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pass.h"
#include "quire/device.h"

/* QUIRE_CPU bits of this machine that its operating system lets programs use. */
uint32_t quire_cpu_detect(void);

/* The bits of `available` that belong to a level or lie below it; BEST: all. */
uint32_t quire_cpu_cap(uint32_t available, quire_isa isa);
/* True if `available` holds what the level itself needs; always for BEST and SCALAR. */
bool quire_cpu_has_level(uint32_t available, quire_isa isa);
/* Highest level that `available` holds: "scalar", "avx2", "avx512", "neon". */
const char *quire_cpu_level_name(uint32_t available);

#endif
