/* Errors, loss and waiting: what becomes of the messages that WebGPU sends. */
#include <string.h>
#include <time.h>

#include "error.h"
#include "webgpu_device.h"

void quire_webgpu_copy_text(char *out, size_t size, WGPUStringView text) {
  size_t length = 0;
  if (text.data != NULL) {
    length = text.length == WGPU_STRLEN ? strlen(text.data) : text.length;
  }
  size_t at = 0;
  bool blank = true; /* none at the front */
  for (size_t i = 0; i < length && at + 1 < size; i++) {
    const unsigned char byte = (unsigned char)text.data[i];
    const bool is_blank = byte <= ' ' || byte == 0x7f;
    if (!is_blank || !blank) {
      out[at++] = (char)(is_blank ? ' ' : byte);
    }
    blank = is_blank;
  }
  out[at > 0 && blank ? at - 1 : at] = '\0';
}

/* ---- loss ---- */

void quire_webgpu_on_lost(WGPUDevice const *device, WGPUDeviceLostReason reason,
                          WGPUStringView message, void *user, void *unused) {
  (void)device;
  (void)unused;
  quire_webgpu *gpu = user;
  /* What a released instance or a failed creation says comes when nobody asks any more. */
  if (reason == WGPUDeviceLostReason_FailedCreation || atomic_load(&gpu->lost)) {
    return;
  }
  quire_webgpu_copy_text(gpu->lost_message, sizeof gpu->lost_message, message);
  atomic_store(&gpu->lost, true);
}

void quire_webgpu_on_error(WGPUDevice const *device, WGPUErrorType type, WGPUStringView message,
                           void *user, void *unused) {
  (void)device;
  (void)type;
  (void)unused;
  quire_webgpu *gpu = user;
  if (gpu->uncaptured[0] == '\0') {
    quire_webgpu_copy_text(gpu->uncaptured, sizeof gpu->uncaptured, message);
  }
}

quire_status quire_webgpu_check_lost(const quire_webgpu *gpu, quire_error *error) {
  if (!atomic_load(&gpu->lost)) {
    return QUIRE_OK;
  }
  return quire_fail(error, QUIRE_DEVICE, NULL, "webgpu", "the device is lost: %s",
                    gpu->lost_message[0] == '\0' ? "no reason given" : gpu->lost_message);
}

/* ---- error scopes ---- */

typedef struct scope_result {
  bool done;
  WGPUPopErrorScopeStatus status;
  WGPUErrorType type;
  char message[QUIRE_MESSAGE_SIZE];
} scope_result;

static void on_scope(WGPUPopErrorScopeStatus status, WGPUErrorType type, WGPUStringView message,
                     void *user, void *unused) {
  (void)unused;
  scope_result *result = user;
  result->status = status;
  result->type = type;
  quire_webgpu_copy_text(result->message, sizeof result->message, message);
  result->done = true;
}

/* wgpu-native aborts on the third filter, Internal. */
void quire_webgpu_scope_begin(quire_webgpu *gpu) {
  gpu->procs.DevicePushErrorScope(gpu->device, WGPUErrorFilter_OutOfMemory);
  gpu->procs.DevicePushErrorScope(gpu->device, WGPUErrorFilter_Validation);
}

static quire_status pop(quire_webgpu *gpu, scope_result *result, quire_error *error) {
  result->done = false;
  result->status = WGPUPopErrorScopeStatus_Success;
  result->type = WGPUErrorType_NoError;
  result->message[0] = '\0';
  const WGPUPopErrorScopeCallbackInfo info = {NULL, WGPUCallbackMode_AllowSpontaneous, on_scope,
                                              result, NULL};
  (void)gpu->procs.DevicePopErrorScope(gpu->device, info);
  return quire_webgpu_wait_for(gpu, &result->done, error);
}

quire_status quire_webgpu_scope_end(quire_webgpu *gpu, const char *subject, quire_error *error) {
  scope_result validation;
  scope_result memory;
  quire_status first = pop(gpu, &validation, error);
  quire_status second = pop(gpu, &memory, error);
  if (first != QUIRE_OK || second != QUIRE_OK) {
    return first != QUIRE_OK ? first : second;
  }
  QUIRE_TRY(quire_webgpu_check_lost(gpu, error));
  if (memory.type != WGPUErrorType_NoError) {
    return quire_fail(error, QUIRE_OUT_OF_MEMORY, NULL, subject, "%s", memory.message);
  }
  if (validation.type != WGPUErrorType_NoError) {
    return quire_fail(
        error, validation.type == WGPUErrorType_OutOfMemory ? QUIRE_OUT_OF_MEMORY : QUIRE_DEVICE,
        NULL, subject, "%s", validation.message);
  }
  if (validation.status != WGPUPopErrorScopeStatus_Success) {
    return quire_fail(error, QUIRE_DEVICE, NULL, subject, "the error scope failed: %s",
                      validation.message);
  }
  return QUIRE_OK;
}

/* ---- waiting ---- */

static void rest(unsigned rounds) {
  /* 20 us, and longer when it takes long: a wait of a second must not burn a processor. */
  const struct timespec pause = {0, rounds < 1000 ? 20000 : 500000};
  (void)nanosleep(&pause, NULL);
}

quire_status quire_webgpu_wait_for(quire_webgpu *gpu, const bool *done, quire_error *error) {
  enum { FREE_ROUNDS = 64, NATIVE_ROUNDS = 4096 };
  for (unsigned rounds = 0; !*done; rounds++) {
    if (gpu->native) {
      /* Returns when the queue is empty: then every callback that is due has come. */
      (void)gpu->procs.DevicePoll(gpu->device, 1, NULL);
      if (rounds >= NATIVE_ROUNDS) {
        return quire_fail(error, QUIRE_DEVICE, NULL, "webgpu", "the device never answered");
      }
    } else {
      gpu->procs.InstanceProcessEvents(gpu->instance);
      if (!*done && atomic_load(&gpu->lost) && rounds >= NATIVE_ROUNDS) {
        return quire_webgpu_check_lost(gpu, error);
      }
    }
    if (!*done && rounds >= FREE_ROUNDS) {
      rest(rounds);
    }
  }
  return QUIRE_OK;
}

typedef struct work_result {
  bool done;
  WGPUQueueWorkDoneStatus status;
  char message[QUIRE_MESSAGE_SIZE];
} work_result;

static void on_work(WGPUQueueWorkDoneStatus status, WGPUStringView message, void *user,
                    void *unused) {
  (void)unused;
  work_result *result = user;
  result->status = status;
  quire_webgpu_copy_text(result->message, sizeof result->message, message);
  result->done = true;
}

quire_status quire_webgpu_submit(quire_webgpu *gpu, WGPUCommandBuffer commands, bool wait,
                                 quire_error *error) {
  gpu->procs.QueueSubmit(gpu->queue, 1, &commands);
  gpu->procs.CommandBufferRelease(commands);
  if (!wait) {
    return quire_webgpu_check_lost(gpu, error);
  }
  work_result result = {false, WGPUQueueWorkDoneStatus_Success, ""};
  const WGPUQueueWorkDoneCallbackInfo info = {NULL, WGPUCallbackMode_AllowProcessEvents, on_work,
                                              &result, NULL};
  (void)gpu->procs.QueueOnSubmittedWorkDone(gpu->queue, info);
  QUIRE_TRY(quire_webgpu_wait_for(gpu, &result.done, error));
  QUIRE_TRY(quire_webgpu_check_lost(gpu, error));
  if (result.status != WGPUQueueWorkDoneStatus_Success) {
    return quire_fail(error, QUIRE_DEVICE, NULL, "webgpu", "the work did not finish: %s",
                      result.message);
  }
  return QUIRE_OK;
}
