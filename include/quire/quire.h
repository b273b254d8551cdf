/* Quire: attention kernels for hybrid language models. Includes every public header. */
#ifndef QUIRE_QUIRE_H
#define QUIRE_QUIRE_H

#include "quire/buffer.h"
#include "quire/context.h"
#include "quire/device.h"
#include "quire/export.h"
#include "quire/operators.h"
#include "quire/plan.h"
#include "quire/serving.h"
#include "quire/status.h"
#include "quire/tensor.h"
#include "quire/webgpu.h"

#endif
