/* The functions of webgpu.h, loaded at run time. The only way to them. */
#ifndef QUIRE_DEVICE_WEBGPU_PROCS_H
#define QUIRE_DEVICE_WEBGPU_PROCS_H

#include <stdbool.h>
#include <webgpu.h>

#include "alloc.h"
#include "quire/status.h"
#include "quire/webgpu.h"

/* Every function that is used: a library that lacks one is refused. */
#define QUIRE_WEBGPU_PROCS(X)             \
  X(CreateInstance)                       \
  X(InstanceAddRef)                       \
  X(InstanceProcessEvents)                \
  X(InstanceRelease)                      \
  X(InstanceRequestAdapter)               \
  X(AdapterAddRef)                        \
  X(AdapterGetInfo)                       \
  X(AdapterGetLimits)                     \
  X(AdapterHasFeature)                    \
  X(AdapterInfoFreeMembers)               \
  X(AdapterRelease)                       \
  X(AdapterRequestDevice)                 \
  X(DeviceAddRef)                         \
  X(DeviceCreateBindGroup)                \
  X(DeviceCreateBindGroupLayout)          \
  X(DeviceCreateBuffer)                   \
  X(DeviceCreateCommandEncoder)           \
  X(DeviceCreateComputePipeline)          \
  X(DeviceCreatePipelineLayout)           \
  X(DeviceCreateQuerySet)                 \
  X(DeviceCreateShaderModule)             \
  X(DeviceGetLimits)                      \
  X(DeviceGetQueue)                       \
  X(DeviceHasFeature)                     \
  X(DevicePopErrorScope)                  \
  X(DevicePushErrorScope)                 \
  X(DeviceRelease)                        \
  X(QueueAddRef)                          \
  X(QueueOnSubmittedWorkDone)             \
  X(QueueRelease)                         \
  X(QueueSubmit)                          \
  X(QueueWriteBuffer)                     \
  X(BufferAddRef)                         \
  X(BufferGetConstMappedRange)            \
  X(BufferGetMappedRange)                 \
  X(BufferGetSize)                        \
  X(BufferGetUsage)                       \
  X(BufferMapAsync)                       \
  X(BufferRelease)                        \
  X(BufferUnmap)                          \
  X(CommandEncoderBeginComputePass)       \
  X(CommandEncoderClearBuffer)            \
  X(CommandEncoderCopyBufferToBuffer)     \
  X(CommandEncoderFinish)                 \
  X(CommandEncoderRelease)                \
  X(CommandEncoderResolveQuerySet)        \
  X(CommandBufferRelease)                 \
  X(ComputePassEncoderDispatchWorkgroups) \
  X(ComputePassEncoderEnd)                \
  X(ComputePassEncoderRelease)            \
  X(ComputePassEncoderSetBindGroup)       \
  X(ComputePassEncoderSetPipeline)        \
  X(ComputePipelineAddRef)                \
  X(ComputePipelineRelease)               \
  X(BindGroupLayoutAddRef)                \
  X(BindGroupLayoutRelease)               \
  X(BindGroupRelease)                     \
  X(PipelineLayoutRelease)                \
  X(QuerySetRelease)                      \
  X(ShaderModuleRelease)

/* wgpu-native's own options of wgpuInstanceEnumerateAdapters(): its wgpu.h is not needed. */
typedef struct quire_webgpu_enumerate_options {
  const WGPUChainedStruct *nextInChain;
  uint64_t backends;
} quire_webgpu_enumerate_options;

typedef struct quire_webgpu_procs {
#define QUIRE_WEBGPU_MEMBER(name) WGPUProc##name name;
  QUIRE_WEBGPU_PROCS(QUIRE_WEBGPU_MEMBER)
#undef QUIRE_WEBGPU_MEMBER
  /* wgpu-native only; NULL elsewhere. */
  uint32_t (*GetVersion)(void);
  WGPUBool (*DevicePoll)(WGPUDevice device, WGPUBool wait, const uint64_t *submission);
  float (*QueueGetTimestampPeriod)(WGPUQueue queue);
  size_t (*InstanceEnumerateAdapters)(WGPUInstance instance,
                                      const quire_webgpu_enumerate_options *options,
                                      WGPUAdapter *adapters);
  WGPUShaderModule (*DeviceCreateShaderModuleTrusted)(WGPUDevice device,
                                                      const WGPUShaderModuleDescriptor *descriptor,
                                                      uint64_t checks);
} quire_webgpu_procs;

/* True for wgpu-native: several standard functions abort the process there, and others exist. */
static inline bool quire_webgpu_is_native(const quire_webgpu_procs *procs) {
  return procs->GetVersion != NULL && procs->DevicePoll != NULL;
}

/*
 * Finds a library as docs/webgpu.md tells and fills *procs. A library that was loaded stays loaded:
 * it may have threads of its own. NOT_FOUND with the reason for each candidate that was refused.
 */
quire_status quire_webgpu_procs_load(const quire_webgpu_options *options,
                                     const quire_allocator *allocator, quire_webgpu_procs *procs,
                                     quire_error *error);

#endif
