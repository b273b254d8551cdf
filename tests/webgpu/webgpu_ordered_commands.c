/* Commands of the library for tests: recording and running them. */
/* NOLINTBEGIN(readability-inconsistent-declaration-parameter-name): webgpu.h's are long. */
#include <stdlib.h>
#include <string.h>

#include "webgpu_ordered_objects.h"

/* ---- recording ---- */

/* An error in a command makes the encoder invalid, and is told when it is finished. */
static ordered_command *record(const char *name, WGPUCommandEncoder encoder) {
  (void)ordered_check(encoder, ORDERED_ENCODER);
  if (encoder->is_finished) {
    ordered_stop("a command for an encoder that is finished");
  }
  if (ordered_ask(name, encoder->object.device, ORDERED_VALIDATION) == ORDERED_VALIDATION) {
    encoder->object.is_invalid = true;
  }
  ordered_command *made = calloc(1, sizeof *made);
  if (made == NULL) {
    ordered_stop("no memory");
  }
  *encoder->last = made;
  encoder->last = &made->next;
  return made;
}

static void use(WGPUCommandEncoder encoder, ordered_command *command, size_t place,
                const void *handle, ordered_kind kind) {
  ordered_object *object = ordered_check(handle, kind);
  encoder->object.is_invalid = encoder->object.is_invalid || object->is_invalid;
  object->references++;
  command->held[place] = object;
}

static void use_range(WGPUCommandEncoder encoder, ordered_command *command, size_t place,
                      WGPUBuffer buffer, uint64_t offset, uint64_t bytes) {
  use(encoder, command, place, buffer, ORDERED_BUFFER);
  if (offset % 4 != 0 || bytes % 4 != 0 || offset > buffer->size || bytes > buffer->size - offset) {
    ordered_stop("a copy outside its buffer, or not of words");
  }
}

void wgpuCommandEncoderCopyBufferToBuffer(WGPUCommandEncoder encoder, WGPUBuffer source,
                                          uint64_t source_offset, WGPUBuffer destination,
                                          uint64_t destination_offset, uint64_t size) {
  ordered_command *made = record("CommandEncoderCopyBufferToBuffer", encoder);
  use_range(encoder, made, 0, source, source_offset, size);
  use_range(encoder, made, 1, destination, destination_offset, size);
  if (source == destination) {
    ordered_stop("a copy within one buffer");
  }
  made->source = source;
  made->source_offset = source_offset;
  made->destination = destination;
  made->destination_offset = destination_offset;
  made->bytes = size;
}

void wgpuCommandEncoderClearBuffer(WGPUCommandEncoder encoder, WGPUBuffer buffer, uint64_t offset,
                                   uint64_t size) {
  ordered_command *made = record("CommandEncoderClearBuffer", encoder);
  use_range(encoder, made, 1, buffer, offset, size);
  made->destination = buffer;
  made->destination_offset = offset;
  made->bytes = size;
}

void wgpuCommandEncoderResolveQuerySet(WGPUCommandEncoder encoder, WGPUQuerySet queries,
                                       uint32_t first, uint32_t count, WGPUBuffer destination,
                                       uint64_t offset) {
  (void)first;
  ordered_command *made = record("CommandEncoderResolveQuerySet", encoder);
  use(encoder, made, 0, queries, ORDERED_QUERIES);
  use_range(encoder, made, 1, destination, offset, count * sizeof(uint64_t));
  made->destination = destination;
  made->destination_offset = offset;
  made->bytes = count * sizeof(uint64_t);
  made->is_time = true;
}

WGPUComputePassEncoder wgpuCommandEncoderBeginComputePass(
    WGPUCommandEncoder encoder, WGPUComputePassDescriptor const *descriptor) {
  (void)ordered_check(encoder, ORDERED_ENCODER);
  if (encoder->is_open) {
    ordered_stop("two passes at once");
  }
  const unsigned way = ordered_ask("CommandEncoderBeginComputePass", encoder->object.device,
                                   ORDERED_NULL | ORDERED_VALIDATION);
  if (way == ORDERED_NULL) {
    return NULL;
  }
  if (descriptor != NULL && descriptor->timestampWrites != NULL) {
    (void)ordered_check(descriptor->timestampWrites->querySet, ORDERED_QUERIES);
  }
  WGPUComputePassEncoder made = ordered_make(ORDERED_PASS, sizeof *made, encoder->object.device);
  ordered_hold(&made->object, encoder);
  made->encoder = encoder;
  encoder->object.is_invalid = encoder->object.is_invalid || way == ORDERED_VALIDATION;
  encoder->is_open = true;
  return made;
}

static WGPUComputePassEncoder open_pass(const char *name, WGPUComputePassEncoder pass) {
  (void)ordered_check(pass, ORDERED_PASS);
  if (pass->is_ended) {
    ordered_stop("a command for a pass that has ended");
  }
  if (ordered_ask(name, pass->object.device, ORDERED_VALIDATION) == ORDERED_VALIDATION) {
    pass->encoder->object.is_invalid = true;
  }
  return pass;
}

void wgpuComputePassEncoderSetPipeline(WGPUComputePassEncoder pass, WGPUComputePipeline pipeline) {
  (void)ordered_check(pipeline, ORDERED_PIPELINE);
  open_pass("ComputePassEncoderSetPipeline", pass)->pipeline = pipeline;
}

void wgpuComputePassEncoderSetBindGroup(WGPUComputePassEncoder pass, uint32_t index,
                                        WGPUBindGroup group, size_t offset_count,
                                        uint32_t const *offsets) {
  (void)ordered_check(group, ORDERED_GROUP);
  (void)index, (void)offset_count, (void)offsets;
  open_pass("ComputePassEncoderSetBindGroup", pass)->group = group;
}

void wgpuComputePassEncoderDispatchWorkgroups(WGPUComputePassEncoder pass, uint32_t x, uint32_t y,
                                              uint32_t z) {
  WGPUCommandEncoder encoder = open_pass("ComputePassEncoderDispatchWorkgroups", pass)->encoder;
  ordered_command *made = calloc(1, sizeof *made);
  if (made == NULL) {
    ordered_stop("no memory");
  }
  *encoder->last = made;
  encoder->last = &made->next;
  made->pipeline = pass->pipeline;
  made->group = pass->group;
  use(encoder, made, 0, pass->pipeline, ORDERED_PIPELINE);
  use(encoder, made, 1, pass->group, ORDERED_GROUP);
  made->grid[0] = x;
  made->grid[1] = y;
  made->grid[2] = z;
}

void wgpuComputePassEncoderEnd(WGPUComputePassEncoder pass) {
  open_pass("ComputePassEncoderEnd", pass)->is_ended = true;
  pass->encoder->is_open = false;
}

WGPUCommandBuffer wgpuCommandEncoderFinish(WGPUCommandEncoder encoder,
                                           WGPUCommandBufferDescriptor const *descriptor) {
  (void)descriptor;
  (void)ordered_check(encoder, ORDERED_ENCODER);
  if (encoder->is_open || encoder->is_finished) {
    ordered_stop("an encoder is finished with an open pass, or twice");
  }
  encoder->is_finished = true;
  WGPUCommandBuffer made = ORDERED_MAKE(CommandEncoderFinish, encoder->object.device,
                                        ORDERED_COMMANDS, WGPUCommandBuffer);
  if (made == NULL) {
    return NULL;
  }
  made->first = encoder->first;
  encoder->first = NULL;
  if (encoder->object.is_invalid && !made->object.is_invalid) {
    made->object.is_invalid = true;
    ordered_raise(encoder->object.device, ORDERED_VALIDATION);
  }
  return made;
}

/* ---- running them ---- */

static unsigned char *bytes_of(const WGPUBindGroupEntry *entry) {
  return (unsigned char *)entry->buffer->object.memory + entry->offset;
}

/* Every byte that a dispatch may write depends on all that it may read. */
static void dispatch(const ordered_command *command) {
  WGPUBindGroup group = command->group;
  uint64_t hash = command->pipeline->hash;
  for (size_t d = 0; d < 3; d++) {
    hash = (hash ^ command->grid[d]) * 1099511628211u;
  }
  for (size_t i = 0; i < group->layout->count; i++) {
    const unsigned char *bytes = bytes_of(&group->entries[i]);
    for (uint64_t k = 0; k < group->entries[i].size; k++) {
      hash = (hash ^ bytes[k]) * 1099511628211u;
    }
  }
  for (size_t i = 0; i < group->layout->count; i++) {
    unsigned char *bytes = bytes_of(&group->entries[i]);
    for (uint64_t k = 0;
         group->layout->types[i] == WGPUBufferBindingType_Storage && k < group->entries[i].size;
         k++) {
      hash = (hash ^ i) * 1099511628211u;
      bytes[k] ^= (unsigned char)(hash >> 40);
    }
  }
  if (command->pipeline->is_probe) {
    const uint32_t sizes[2] = {8, 0xffffu - 8};
    memcpy(bytes_of(&group->entries[0]), sizes, sizeof sizes);
  }
}

static void run(const ordered_command *command) {
  unsigned char *to =
      command->destination == NULL
          ? NULL
          : (unsigned char *)command->destination->object.memory + command->destination_offset;
  if (command->pipeline != NULL) {
    dispatch(command);
  } else if (command->is_time && to != NULL) {
    const uint64_t times[2] = {1000, 300001000}; /* long enough for any measurement */
    memcpy(to, times, command->bytes < sizeof times ? command->bytes : sizeof times);
  } else if (command->source != NULL && to != NULL) {
    memcpy(to, (unsigned char *)command->source->object.memory + command->source_offset,
           command->bytes);
  } else if (to != NULL) {
    memset(to, 0, command->bytes);
  }
}

void wgpuQueueSubmit(WGPUQueue queue, size_t count, WGPUCommandBuffer const *commands) {
  (void)ordered_check(queue, ORDERED_QUEUE);
  WGPUDevice device = queue->object.device;
  const unsigned errors = ORDERED_IS_NATIVE != 0 ? 0 : ORDERED_VALIDATION | ORDERED_MEMORY;
  const unsigned way = ordered_ask("QueueSubmit", device, errors);
  for (size_t i = 0; i < count; i++) {
    (void)ordered_check(commands[i], ORDERED_COMMANDS);
    if ((commands[i]->object.is_invalid && !device->is_lost) || commands[i]->is_submitted) {
      ordered_stop("an invalid command buffer is submitted, or one twice");
    }
    commands[i]->is_submitted = true;
    for (const ordered_command *one = commands[i]->first; one != NULL; one = one->next) {
      if (one->destination != NULL &&
          (one->destination->is_mapped || one->destination->is_pending)) {
        ordered_stop("a mapped buffer is written");
      }
      if (!device->is_lost && (way & errors) == 0) {
        run(one);
      }
    }
  }
  ordered_count_submit();
  if ((way & errors) != 0) {
    ordered_raise(device, way);
  }
}
/* NOLINTEND(readability-inconsistent-declaration-parameter-name) */
