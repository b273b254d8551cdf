/* What WebGPU tells by callbacks, and when nobody waits for it any more. Needs no mutex. */
#ifndef QUIRE_DEVICE_WEBGPU_ANSWER_H
#define QUIRE_DEVICE_WEBGPU_ANSWER_H

#include <stdatomic.h>

#include "webgpu_procs.h"

/*
 * Callbacks may come late: after a wait was given up, from another thread, when the last handle is
 * released, or never. What they write to must outlive the device and its allocator, so both structs
 * here come from the C library's memory and belong to all who may still touch them.
 */

enum { QUIRE_WEBGPU_WHOLE, QUIRE_WEBGPU_BREAKING, QUIRE_WEBGPU_BROKEN };

/* What becomes of a device, by its callbacks of loss and of errors. */
typedef struct quire_webgpu_news {
  atomic_int holders;
  atomic_bool lost;
  atomic_bool is_losing;  /* whoever sets it writes the message, then sets `lost` */
  char lost_message[512]; /* the first reason */
  atomic_int broken;      /* an internal error, for which wgpu-native has no scope */
  char broken_message[512];
} quire_webgpu_news;

/* NULL without memory. */
quire_webgpu_news *quire_webgpu_news_create(void);
void quire_webgpu_news_hold(quire_webgpu_news *news);
/* NULL is allowed. */
void quire_webgpu_news_drop(quire_webgpu_news *news);

/* Callbacks of a requested device; user: the news. Loss gives back the holder that stands for it
   (wgpu-native tells none of a device that is released, so that there it has none). */
void quire_webgpu_on_lost(WGPUDevice const *device, WGPUDeviceLostReason reason,
                          WGPUStringView message, void *user, void *unused);
void quire_webgpu_on_lost_native(WGPUDevice const *device, WGPUDeviceLostReason reason,
                                 WGPUStringView message, void *user, void *unused);
void quire_webgpu_on_error(WGPUDevice const *device, WGPUErrorType type, WGPUStringView message,
                           void *user, void *unused);

/* The answer to one question at a time. */
typedef struct quire_webgpu_answer {
  atomic_int state;
  /* To give back what comes when nobody waits. */
  WGPUProcAdapterRelease release_adapter;
  WGPUProcDeviceRelease release_device;
  quire_webgpu_news *news; /* held; NULL: none */
  /* What the callback said. */
  int status;
  WGPUErrorType type;
  WGPUAdapter adapter;
  WGPUDevice device;
  char message[QUIRE_MESSAGE_SIZE];
} quire_webgpu_answer;

/* NULL without memory. `news` (NULL: none) is held until the answer has gone. */
quire_webgpu_answer *quire_webgpu_answer_create(const quire_webgpu_procs *procs,
                                                quire_webgpu_news *news);
/* Of an answer that is not waited for; NULL is allowed. */
void quire_webgpu_answer_destroy(quire_webgpu_answer *answer);
/* A callback with this answer as its user is about to be given away. */
void quire_webgpu_answer_ask(quire_webgpu_answer *answer);
bool quire_webgpu_answer_is_there(const quire_webgpu_answer *answer);
/* True: from now on it is the callback's. False: it has come after all. */
bool quire_webgpu_answer_abandon(quire_webgpu_answer *answer);

/*
 * Lets callbacks run until the answer is there, resting in between. False: too long, or `lost`
 * (may be NULL) has become true and the answer does not come; it is not abandoned yet. `device` is
 * NULL while there is none.
 */
bool quire_webgpu_answer_wait(const quire_webgpu_answer *answer, const quire_webgpu_procs *procs,
                              WGPUInstance instance, WGPUDevice device, const atomic_bool *lost);

/* Callbacks; user: the answer, or NULL if nobody wants it. */
void quire_webgpu_on_scope(WGPUPopErrorScopeStatus status, WGPUErrorType type,
                           WGPUStringView message, void *user, void *unused);
void quire_webgpu_on_work(WGPUQueueWorkDoneStatus status, WGPUStringView message, void *user,
                          void *unused);
void quire_webgpu_on_map(WGPUMapAsyncStatus status, WGPUStringView message, void *user,
                         void *unused);
void quire_webgpu_on_adapter(WGPURequestAdapterStatus status, WGPUAdapter adapter,
                             WGPUStringView message, void *user, void *unused);
void quire_webgpu_on_device(WGPURequestDeviceStatus status, WGPUDevice device,
                            WGPUStringView message, void *user, void *unused);

/* A text of WebGPU's on one line, cut to `size`. */
void quire_webgpu_copy_text(char *out, size_t size, WGPUStringView text);

#endif
