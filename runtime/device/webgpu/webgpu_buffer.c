/* Buffers: making them within the budget, filling, reading and copying them. */
#include <inttypes.h>
#include <string.h>

#include "error.h"
#include "webgpu_device.h"

/* Pieces of large transfers: as much again is held by the library while they are under way. */
enum { PIECE_BYTES = 32 * 1024 * 1024 };

static uint64_t round_up(uint64_t bytes, uint64_t to) {
  return bytes / to * to + (bytes % to > 0 ? to : 0);
}

static quire_status refuse_bytes(const char *subject, quire_status status, uint64_t bytes,
                                 uint64_t most, const char *what, quire_error *error) {
  return quire_fail(error, status, NULL, subject, "a buffer of %" PRIu64 " bytes: %s %" PRIu64,
                    bytes, what, most);
}

quire_status quire_webgpu_make_buffer(quire_webgpu *gpu, uint64_t bytes, WGPUBufferUsage usage,
                                      const char *subject, WGPUBuffer *buffer, quire_error *error) {
  *buffer = NULL;
  const uint64_t most = gpu->limits.maxBufferSize / 4 * 4;
  if (bytes > most) {
    return refuse_bytes(subject, QUIRE_LIMIT, bytes, most, "maxBufferSize is", error);
  }
  const uint64_t size = round_up(bytes, 4);
  if (gpu->budget != 0 && (gpu->bytes > gpu->budget || size > gpu->budget - gpu->bytes)) {
    const uint64_t left = gpu->bytes > gpu->budget ? 0 : gpu->budget - gpu->bytes;
    return refuse_bytes(subject, QUIRE_OUT_OF_MEMORY, size, left, "the device's budget has left",
                        error);
  }
  WGPUBufferDescriptor descriptor;
  memset(&descriptor, 0, sizeof descriptor);
  descriptor.usage = usage;
  descriptor.size = size;
  quire_webgpu_scope_begin(gpu);
  WGPUBuffer made = gpu->procs.DeviceCreateBuffer(gpu->device, &descriptor);
  quire_status status = quire_webgpu_scope_end(gpu, subject, error);
  if (status == QUIRE_OK && made == NULL) {
    status = quire_fail(error, QUIRE_OUT_OF_MEMORY, NULL, subject,
                        "a buffer of %" PRIu64 " bytes could not be made", size);
  }
  if (status != QUIRE_OK) {
    if (made != NULL) {
      gpu->procs.BufferRelease(made);
    }
    return status;
  }
  gpu->bytes += size;
  *buffer = made;
  return QUIRE_OK;
}

void quire_webgpu_drop_buffer(quire_webgpu *gpu, WGPUBuffer buffer) {
  if (buffer != NULL) {
    gpu->bytes -= gpu->procs.BufferGetSize(buffer);
    gpu->procs.BufferRelease(buffer);
  }
}

quire_status quire_webgpu_make_uniform(quire_webgpu *gpu, const void *data, uint64_t bytes,
                                       WGPUBuffer *buffer, quire_error *error) {
  /* CopySrc: tests look at what shaders get. */
  const WGPUBufferUsage usage =
      WGPUBufferUsage_Uniform | WGPUBufferUsage_CopyDst | WGPUBufferUsage_CopySrc;
  QUIRE_TRY(quire_webgpu_make_buffer(gpu, bytes, usage, "uniforms", buffer, error));
  /* Ordered before everything that is submitted from now on, an encoder of the caller's too. */
  quire_webgpu_scope_begin(gpu);
  gpu->procs.QueueWriteBuffer(gpu->queue, *buffer, 0, data, (size_t)bytes);
  quire_status status = quire_webgpu_scope_end(gpu, "uniforms", error);
  if (status != QUIRE_OK) {
    quire_webgpu_drop_buffer(gpu, *buffer);
    *buffer = NULL;
  }
  return status;
}

/* ---- reading ---- */

static quire_status need_staging(quire_webgpu *gpu, uint64_t bytes, quire_error *error) {
  if (bytes <= gpu->staging_bytes) {
    return QUIRE_OK;
  }
  const uint64_t size = bytes < 4096 ? 4096 : bytes;
  WGPUBuffer made = NULL;
  QUIRE_TRY(quire_webgpu_make_buffer(gpu, size, WGPUBufferUsage_MapRead | WGPUBufferUsage_CopyDst,
                                     "staging", &made, error));
  quire_webgpu_drop_buffer(gpu, gpu->staging);
  gpu->staging = made;
  gpu->staging_bytes = size;
  return QUIRE_OK;
}

static quire_status map_staging(quire_webgpu *gpu, uint64_t skip, void *data, uint64_t bytes,
                                uint64_t mapped, quire_error *error) {
  quire_webgpu_answer_ask(gpu->answer);
  const WGPUBufferMapCallbackInfo info = {NULL, WGPUCallbackMode_AllowProcessEvents,
                                          quire_webgpu_on_map, gpu->answer, NULL};
  (void)gpu->procs.BufferMapAsync(gpu->staging, WGPUMapMode_Read, 0, (size_t)mapped, info);
  QUIRE_TRY(quire_webgpu_wait(gpu, error));
  if (gpu->answer->status != WGPUMapAsyncStatus_Success) {
    QUIRE_TRY(quire_webgpu_check_lost(gpu, error));
    return quire_fail(error, QUIRE_DEVICE, NULL, "staging", "cannot be mapped: %s",
                      gpu->answer->message);
  }
  const unsigned char *from = gpu->procs.BufferGetConstMappedRange(gpu->staging, 0, (size_t)mapped);
  if (from != NULL) {
    memcpy(data, from + skip, (size_t)bytes);
  }
  gpu->procs.BufferUnmap(gpu->staging);
  return from != NULL ? QUIRE_OK
                      : quire_fail(error, QUIRE_DEVICE, NULL, "staging", "has no mapped range");
}

/* One copy command, submitted. `wait`: until it has run. */
static quire_status submit_copy(quire_webgpu *gpu, WGPUBuffer source, uint64_t source_offset,
                                WGPUBuffer destination, uint64_t destination_offset, uint64_t bytes,
                                quire_error *error) {
  WGPUCommandEncoder encoder = NULL;
  WGPUCommandBuffer commands = NULL;
  QUIRE_TRY(quire_webgpu_commands_begin(gpu, "buffer", &encoder, error));
  gpu->procs.CommandEncoderCopyBufferToBuffer(encoder, source, source_offset, destination,
                                              destination_offset, bytes);
  QUIRE_TRY(quire_webgpu_commands_end(gpu, encoder, QUIRE_OK, "buffer", &commands, error));
  return quire_webgpu_submit(gpu, commands, false, error);
}

quire_status quire_webgpu_read(quire_webgpu *gpu, WGPUBuffer buffer, uint64_t offset, void *data,
                               uint64_t bytes, quire_error *error) {
  unsigned char *to = data;
  while (bytes > 0) {
    const uint64_t first = offset / 4 * 4;
    const uint64_t skip = offset - first;
    const uint64_t piece = bytes < PIECE_BYTES ? bytes : PIECE_BYTES;
    const uint64_t copied = round_up(skip + piece, 4);
    QUIRE_TRY(need_staging(gpu, copied, error));
    QUIRE_TRY(submit_copy(gpu, buffer, first, gpu->staging, 0, copied, error));
    QUIRE_TRY(map_staging(gpu, skip, to, piece, copied, error));
    to += piece;
    offset += piece;
    bytes -= piece;
  }
  return QUIRE_OK;
}

/* ---- writing ---- */

static quire_status write_words(quire_webgpu *gpu, WGPUBuffer buffer, uint64_t offset,
                                const void *data, uint64_t bytes, quire_error *error) {
  const unsigned char *from = data;
  while (bytes > 0) {
    const uint64_t piece = bytes < PIECE_BYTES ? bytes : PIECE_BYTES;
    quire_webgpu_scope_begin(gpu);
    gpu->procs.QueueWriteBuffer(gpu->queue, buffer, offset, from, (size_t)piece);
    QUIRE_TRY(quire_webgpu_scope_end(gpu, "buffer", error));
    if (bytes > piece) {
      /* An empty submit makes the library give the piece's memory back. */
      WGPUCommandEncoder encoder = NULL;
      WGPUCommandBuffer commands = NULL;
      QUIRE_TRY(quire_webgpu_commands_begin(gpu, "buffer", &encoder, error));
      QUIRE_TRY(quire_webgpu_commands_end(gpu, encoder, QUIRE_OK, "buffer", &commands, error));
      QUIRE_TRY(quire_webgpu_submit(gpu, commands, true, error));
    }
    from += piece;
    offset += piece;
    bytes -= piece;
  }
  return QUIRE_OK;
}

/* Part of one word: the rest of it stays as it is. */
static quire_status write_partial(quire_webgpu *gpu, WGPUBuffer buffer, uint64_t offset,
                                  const unsigned char *data, uint64_t bytes, quire_error *error) {
  unsigned char word[4];
  const uint64_t first = offset / 4 * 4;
  QUIRE_TRY(quire_webgpu_read(gpu, buffer, first, word, sizeof word, error));
  memcpy(word + (offset - first), data, (size_t)bytes);
  return write_words(gpu, buffer, first, word, sizeof word, error);
}

static quire_status write_any(quire_webgpu *gpu, WGPUBuffer buffer, uint64_t offset,
                              const unsigned char *data, uint64_t bytes, quire_error *error) {
  if (offset % 4 != 0 && bytes > 0) {
    const uint64_t room = 4 - offset % 4;
    const uint64_t head = bytes < room ? bytes : room;
    QUIRE_TRY(write_partial(gpu, buffer, offset, data, head, error));
    offset += head;
    data += head;
    bytes -= head;
  }
  const uint64_t words = bytes / 4 * 4;
  QUIRE_TRY(write_words(gpu, buffer, offset, data, words, error));
  return bytes == words
             ? QUIRE_OK
             : write_partial(gpu, buffer, offset + words, data + words, bytes - words, error);
}

/* ---- the device-independent interface ---- */

static quire_status check_range(const quire_webgpu *gpu, WGPUBuffer buffer, uint64_t offset,
                                uint64_t bytes, WGPUBufferUsage usage, quire_error *error) {
  const uint64_t size = gpu->procs.BufferGetSize(buffer);
  if (offset > size || bytes > size - offset) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, "buffer",
                      "%" PRIu64 " bytes from %" PRIu64 " on lie outside its %" PRIu64, bytes,
                      offset, size);
  }
  const WGPUBufferUsage has = gpu->procs.BufferGetUsage(buffer);
  if ((has & usage) != usage) {
    return quire_fail(error, QUIRE_BAD_REQUEST, NULL, "buffer",
                      "its usages are 0x%" PRIx64 ", 0x%" PRIx64 " is needed", (uint64_t)has,
                      (uint64_t)usage);
  }
  return QUIRE_OK;
}

quire_status quire_webgpu_buffer_create(quire_device *device, uint64_t bytes, void **buffer,
                                        quire_error *error) {
  quire_webgpu *gpu = quire_webgpu_of(device);
  WGPUBuffer made = NULL;
  quire_webgpu_lock(gpu);
  quire_status status = quire_webgpu_check_lost(gpu, error);
  if (status == QUIRE_OK) {
    status = quire_webgpu_make_buffer(
        gpu, bytes == 0 ? 4 : bytes,
        WGPUBufferUsage_Storage | WGPUBufferUsage_CopySrc | WGPUBufferUsage_CopyDst, "buffer",
        &made, error);
  }
  quire_webgpu_unlock(gpu);
  *buffer = made;
  return status;
}

void quire_webgpu_buffer_destroy(quire_device *device, void *buffer) {
  quire_webgpu *gpu = quire_webgpu_of(device);
  quire_webgpu_lock(gpu);
  quire_webgpu_drop_buffer(gpu, buffer);
  quire_webgpu_unlock(gpu);
}

quire_status quire_webgpu_buffer_write(quire_device *device, void *buffer, uint64_t offset,
                                       const void *data, uint64_t bytes, quire_error *error) {
  quire_webgpu *gpu = quire_webgpu_of(device);
  const bool words = offset % 4 == 0 && bytes % 4 == 0;
  quire_webgpu_lock(gpu);
  quire_status status = quire_webgpu_check_lost(gpu, error);
  if (status == QUIRE_OK) {
    status = check_range(
        gpu, buffer, offset, bytes,
        words ? WGPUBufferUsage_CopyDst : WGPUBufferUsage_CopyDst | WGPUBufferUsage_CopySrc, error);
  }
  if (status == QUIRE_OK) {
    status = write_any(gpu, buffer, offset, data, bytes, error);
  }
  quire_webgpu_unlock(gpu);
  return status;
}

quire_status quire_webgpu_buffer_read(quire_device *device, void *buffer, uint64_t offset,
                                      void *data, uint64_t bytes, quire_error *error) {
  quire_webgpu *gpu = quire_webgpu_of(device);
  quire_webgpu_lock(gpu);
  quire_status status = quire_webgpu_check_lost(gpu, error);
  if (status == QUIRE_OK) {
    status = check_range(gpu, buffer, offset, bytes, WGPUBufferUsage_CopySrc, error);
  }
  if (status == QUIRE_OK) {
    status = quire_webgpu_read(gpu, buffer, offset, data, bytes, error);
  }
  quire_webgpu_unlock(gpu);
  return status;
}

/* ---- copies ---- */

/* A range that is no multiple of words goes through the host. */
static quire_status copy_bytes(quire_webgpu *gpu, const quire_buffer_copy_range *range,
                               quire_error *error) {
  enum { PART = 256 * 1024 };
  unsigned char *part = quire_alloc(gpu->allocator, PART, QUIRE_ALLOC_ALIGNMENT);
  if (part == NULL) {
    return quire_fail_memory(error);
  }
  quire_status status = QUIRE_OK;
  for (uint64_t done = 0; status == QUIRE_OK && done < range->bytes; done += PART) {
    const uint64_t left = range->bytes - done;
    const uint64_t bytes = left < PART ? left : PART;
    status = quire_webgpu_read(gpu, range->source, range->source_offset + done, part, bytes, error);
    if (status == QUIRE_OK) {
      status =
          write_any(gpu, range->destination, range->destination_offset + done, part, bytes, error);
    }
  }
  quire_dealloc(gpu->allocator, part, PART, QUIRE_ALLOC_ALIGNMENT);
  return status;
}

static bool is_words(const quire_buffer_copy_range *range) {
  return range->source_offset % 4 == 0 && range->destination_offset % 4 == 0 &&
         range->bytes % 4 == 0;
}

static quire_status check_copies(const quire_webgpu *gpu, const quire_buffer_copy_range *ranges,
                                 size_t count, uint64_t *between, quire_error *error) {
  *between = 0;
  for (size_t i = 0; i < count; i++) {
    const quire_buffer_copy_range *range = &ranges[i];
    const WGPUBufferUsage both = WGPUBufferUsage_CopySrc | WGPUBufferUsage_CopyDst;
    QUIRE_TRY(check_range(gpu, range->source, range->source_offset, range->bytes,
                          WGPUBufferUsage_CopySrc, error));
    QUIRE_TRY(check_range(gpu, range->destination, range->destination_offset, range->bytes,
                          is_words(range) ? WGPUBufferUsage_CopyDst : both, error));
    if (range->source == range->destination && is_words(range) && range->bytes > *between) {
      *between = range->bytes;
    }
  }
  return QUIRE_OK;
}

/* WebGPU copies between two buffers only: within one, a third stands between. */
static void record_copy(quire_webgpu *gpu, const quire_buffer_copy_range *range, WGPUBuffer between,
                        WGPUCommandEncoder encoder) {
  const quire_webgpu_procs *p = &gpu->procs;
  if (range->source != range->destination) {
    p->CommandEncoderCopyBufferToBuffer(encoder, range->source, range->source_offset,
                                        range->destination, range->destination_offset,
                                        range->bytes);
    return;
  }
  p->CommandEncoderCopyBufferToBuffer(encoder, range->source, range->source_offset, between, 0,
                                      range->bytes);
  p->CommandEncoderCopyBufferToBuffer(encoder, between, 0, range->destination,
                                      range->destination_offset, range->bytes);
}

/* Copies of words, as many as follow each other, in one submit. *done counts them. */
static quire_status copy_words(quire_webgpu *gpu, const quire_buffer_copy_range *ranges,
                               size_t count, WGPUBuffer between, size_t *done, quire_error *error) {
  WGPUCommandEncoder encoder = NULL;
  WGPUCommandBuffer commands = NULL;
  QUIRE_TRY(quire_webgpu_commands_begin(gpu, "buffer", &encoder, error));
  for (; *done < count && is_words(&ranges[*done]); ++*done) {
    if (ranges[*done].bytes > 0) {
      record_copy(gpu, &ranges[*done], between, encoder);
    }
  }
  QUIRE_TRY(quire_webgpu_commands_end(gpu, encoder, QUIRE_OK, "buffer", &commands, error));
  return quire_webgpu_submit(gpu, commands, false, error);
}

quire_status quire_webgpu_buffer_copy(quire_device *device, const quire_buffer_copy_range *ranges,
                                      size_t count, quire_error *error) {
  quire_webgpu *gpu = quire_webgpu_of(device);
  WGPUBuffer between = NULL;
  uint64_t bytes = 0;
  quire_webgpu_lock(gpu);
  quire_status status = quire_webgpu_check_lost(gpu, error);
  if (status == QUIRE_OK) {
    status = check_copies(gpu, ranges, count, &bytes, error);
  }
  if (status == QUIRE_OK && bytes > 0) {
    status = quire_webgpu_make_buffer(gpu, bytes, WGPUBufferUsage_CopySrc | WGPUBufferUsage_CopyDst,
                                      "copy", &between, error);
  }
  for (size_t done = 0; status == QUIRE_OK && done < count;) {
    if (is_words(&ranges[done])) {
      status = copy_words(gpu, ranges, count, between, &done, error);
    } else {
      status = copy_bytes(gpu, &ranges[done++], error);
    }
  }
  quire_webgpu_drop_buffer(gpu, between);
  quire_webgpu_unlock(gpu);
  return status;
}
