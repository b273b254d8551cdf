/* What is checked about a shader's text because not every implementation does. */
#ifndef QUIRE_DEVICE_WEBGPU_SHADER_H
#define QUIRE_DEVICE_WEBGPU_SHADER_H

#include "webgpu_device.h"

/*
 * Refuses what ends the process or goes unchecked with wgpu-native:
 * - `&a[i]` or `&a.b` as an argument of a function of the shader's own (panics);
 * - a workgroup size that an `override` gives (not compared with the limits);
 * - workgroup variables that take more memory than the device has (not checked), as far as their
 *   types are scalars, vectors, matrices and arrays whose sizes are numbers.
 * UNSUPPORTED or LIMIT with `label` and the line. The text need not be valid: what is not
 * understood is left to the compiler.
 */
quire_status quire_webgpu_check_shader(const quire_webgpu *gpu, const char *text, size_t length,
                                       const char *label, quire_error *error);

#endif
