/* Errors and loss: what becomes of the messages that WebGPU sends. */
#include <string.h>

#include "error.h"
#include "webgpu_device.h"

/* ---- loss ---- */

quire_status quire_webgpu_check_lost(const quire_webgpu *gpu, quire_error *error) {
  const bool is_told = atomic_load(&gpu->news->lost);
  if (!is_told && gpu->answer != NULL) {
    return QUIRE_OK;
  }
  const char *reason = is_told ? gpu->news->lost_message : "it never answered";
  return quire_fail(error, QUIRE_DEVICE, NULL, "webgpu", "the device is lost: %s",
                    reason[0] == '\0' ? "no reason given" : reason);
}

quire_status quire_webgpu_wait(quire_webgpu *gpu, quire_error *error) {
  if (!quire_webgpu_answer_wait(gpu->answer, &gpu->procs, gpu->instance, gpu->device,
                                &gpu->news->lost) &&
      quire_webgpu_answer_abandon(gpu->answer)) {
    gpu->answer = NULL; /* nothing more is asked: of what was, nothing can be known */
  }
  if (gpu->answer != NULL) {
    return QUIRE_OK;
  }
  (void)quire_webgpu_check_lost(gpu, error);
  return QUIRE_DEVICE;
}

/* ---- error scopes ---- */

/* Innermost last. wgpu-native aborts on the first: quire_webgpu_on_error() is told instead. */
static const WGPUErrorFilter filters[] = {WGPUErrorFilter_Internal, WGPUErrorFilter_OutOfMemory,
                                          WGPUErrorFilter_Validation};
enum { FILTERS = sizeof filters / sizeof *filters };

static size_t first_filter(const quire_webgpu *gpu) {
  return gpu->native ? 1 : 0;
}

void quire_webgpu_scope_begin(quire_webgpu *gpu) {
  int broken = QUIRE_WEBGPU_BROKEN; /* before: not ours */
  (void)atomic_compare_exchange_strong(&gpu->news->broken, &broken, QUIRE_WEBGPU_WHOLE);
  for (size_t i = first_filter(gpu); i < FILTERS; i++) {
    gpu->procs.DevicePushErrorScope(gpu->device, filters[i]);
  }
}

/* What was found so far: memory outweighs everything else, and else the innermost counts. */
typedef struct finding {
  quire_status status;
  const char *prefix;
  char message[QUIRE_MESSAGE_SIZE];
} finding;

static void weigh(finding *found, const quire_webgpu_answer *answer) {
  const bool is_memory = answer->type == WGPUErrorType_OutOfMemory;
  const bool is_failed = answer->status != WGPUPopErrorScopeStatus_Success;
  if (!is_failed && answer->type == WGPUErrorType_NoError) {
    return;
  }
  if (found->status == QUIRE_OK || (is_memory && found->status != QUIRE_OUT_OF_MEMORY)) {
    found->status = is_memory ? QUIRE_OUT_OF_MEMORY : QUIRE_DEVICE;
    found->prefix = is_failed ? "the error scope failed: " : "";
    memcpy(found->message, answer->message, sizeof found->message);
  }
}

/* Of a lost device scopes are only closed: an answer would be of no use, and may never come. */
static void pop(quire_webgpu *gpu, finding *found) {
  const bool is_wanted = gpu->answer != NULL && !atomic_load(&gpu->news->lost);
  const WGPUPopErrorScopeCallbackInfo info = {NULL, WGPUCallbackMode_AllowSpontaneous,
                                              quire_webgpu_on_scope, is_wanted ? gpu->answer : NULL,
                                              NULL};
  if (is_wanted) {
    quire_webgpu_answer_ask(gpu->answer);
  }
  (void)gpu->procs.DevicePopErrorScope(gpu->device, info);
  if (is_wanted && quire_webgpu_wait(gpu, NULL) == QUIRE_OK) {
    weigh(found, gpu->answer);
  }
}

quire_status quire_webgpu_scope_end(quire_webgpu *gpu, const char *subject, quire_error *error) {
  finding found = {QUIRE_OK, "", ""};
  for (size_t i = first_filter(gpu); i < FILTERS; i++) {
    pop(gpu, &found);
  }
  QUIRE_TRY(quire_webgpu_check_lost(gpu, error));
  if (found.status == QUIRE_OK && gpu->native &&
      atomic_load(&gpu->news->broken) == QUIRE_WEBGPU_BROKEN) {
    found.status = QUIRE_DEVICE;
    memcpy(found.message, gpu->news->broken_message, sizeof gpu->news->broken_message);
  }
  return found.status == QUIRE_OK
             ? QUIRE_OK
             : quire_fail(error, found.status, NULL, subject, "%s%s", found.prefix,
                          found.message[0] == '\0' ? "an error without a message" : found.message);
}

quire_status quire_webgpu_no_object(const char *subject, const char *what, quire_error *error) {
  return quire_fail(error, QUIRE_DEVICE, NULL, subject, "the library gave no %s", what);
}

/* ---- commands ---- */

quire_status quire_webgpu_commands_begin(quire_webgpu *gpu, const char *subject,
                                         WGPUCommandEncoder *encoder, quire_error *error) {
  quire_webgpu_scope_begin(gpu);
  *encoder = gpu->procs.DeviceCreateCommandEncoder(gpu->device, NULL);
  if (*encoder != NULL) {
    return QUIRE_OK;
  }
  QUIRE_TRY(quire_webgpu_scope_end(gpu, subject, error));
  return quire_webgpu_no_object(subject, "command encoder", error);
}

quire_status quire_webgpu_commands_end(quire_webgpu *gpu, WGPUCommandEncoder encoder,
                                       quire_status recorded, const char *subject,
                                       WGPUCommandBuffer *commands, quire_error *error) {
  const quire_webgpu_procs *p = &gpu->procs;
  /* An unfinished pass may be in the encoder of a recording that failed. */
  WGPUCommandBuffer made = recorded == QUIRE_OK ? p->CommandEncoderFinish(encoder, NULL) : NULL;
  p->CommandEncoderRelease(encoder);
  quire_status status = quire_webgpu_scope_end(gpu, subject, error); /* tells the better reason */
  status = status == QUIRE_OK ? recorded : status;
  if (status == QUIRE_OK && made == NULL) {
    status = quire_webgpu_no_object(subject, "command buffer", error);
  }
  if (status != QUIRE_OK && made != NULL) {
    p->CommandBufferRelease(made);
    made = NULL;
  }
  *commands = made;
  return status;
}

quire_status quire_webgpu_submit(quire_webgpu *gpu, WGPUCommandBuffer commands, bool wait,
                                 quire_error *error) {
  if (!gpu->native) { /* which ends the process instead */
    quire_webgpu_scope_begin(gpu);
  }
  gpu->procs.QueueSubmit(gpu->queue, 1, &commands);
  gpu->procs.CommandBufferRelease(commands);
  QUIRE_TRY(gpu->native ? quire_webgpu_check_lost(gpu, error)
                        : quire_webgpu_scope_end(gpu, "webgpu", error));
  if (!wait) {
    return QUIRE_OK;
  }
  quire_webgpu_answer_ask(gpu->answer);
  const WGPUQueueWorkDoneCallbackInfo info = {NULL, WGPUCallbackMode_AllowProcessEvents,
                                              quire_webgpu_on_work, gpu->answer, NULL};
  (void)gpu->procs.QueueOnSubmittedWorkDone(gpu->queue, info);
  QUIRE_TRY(quire_webgpu_wait(gpu, error));
  QUIRE_TRY(quire_webgpu_check_lost(gpu, error));
  if (gpu->answer->status != WGPUQueueWorkDoneStatus_Success) {
    return quire_fail(error, QUIRE_DEVICE, NULL, "webgpu", "the work did not finish: %s",
                      gpu->answer->message);
  }
  return QUIRE_OK;
}
