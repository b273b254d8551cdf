/* Where the command line gets WebGPU's functions from. */
#ifndef QUIRE_TOOL_WEBGPU_SOURCE_H
#define QUIRE_TOOL_WEBGPU_SOURCE_H

#include "quire/webgpu.h"

/* Sets what a program that carries a library of its own must set; tests link another one. */
void quire_webgpu_source(quire_webgpu_options *options);

#endif
