/* The target of explaining and rendering: a device that is open, described, or both. */
#ifndef QUIRE_DEVICE_DESCRIBED_TARGET_H
#define QUIRE_DEVICE_DESCRIBED_TARGET_H

#include "backend.h"

/* What a target points to; lives as long as it. */
typedef struct quire_described_target {
  quire_target target;
  quire_device_description merged;
} quire_described_target;

/*
 * `description` laid over an open device's; either may be NULL. What is made is in `arena`.
 * Statuses: BAD_REQUEST (a malformed description), OUT_OF_MEMORY.
 */
quire_status quire_describe_target(const quire_operator *op, const quire_device *device,
                                   const quire_device_description *description, quire_arena *arena,
                                   quire_described_target *out, quire_error *error);

#endif
