#include "webgpu_answer.h"

#include <string.h>
#include <time.h>

enum { WAITING, GIVEN, ABANDONED }; /* the states of an answer */

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

/* ---- news ---- */

quire_webgpu_news *quire_webgpu_news_create(void) {
  quire_webgpu_news *news = quire_alloc_array(&quire_default_allocator, 1, sizeof *news);
  if (news != NULL) {
    atomic_init(&news->holders, 1);
    atomic_init(&news->lost, false);
    atomic_init(&news->is_losing, false);
    atomic_init(&news->broken, QUIRE_WEBGPU_WHOLE);
  }
  return news;
}

void quire_webgpu_news_hold(quire_webgpu_news *news) {
  atomic_fetch_add(&news->holders, 1);
}

void quire_webgpu_news_drop(quire_webgpu_news *news) {
  if (news != NULL && atomic_fetch_sub(&news->holders, 1) == 1) {
    quire_dealloc(&quire_default_allocator, news, sizeof *news, QUIRE_ALLOC_ALIGNMENT);
  }
}

void quire_webgpu_on_lost_native(WGPUDevice const *device, WGPUDeviceLostReason reason,
                                 WGPUStringView message, void *user, void *unused) {
  (void)device;
  (void)unused;
  quire_webgpu_news *news = user;
  /* Of a creation that failed the request tells. */
  if (reason != WGPUDeviceLostReason_FailedCreation && !atomic_exchange(&news->is_losing, true)) {
    quire_webgpu_copy_text(news->lost_message, sizeof news->lost_message, message);
    atomic_store(&news->lost, true);
  }
}

void quire_webgpu_on_lost(WGPUDevice const *device, WGPUDeviceLostReason reason,
                          WGPUStringView message, void *user, void *unused) {
  quire_webgpu_on_lost_native(device, reason, message, user, unused);
  quire_webgpu_news_drop(user);
}

/* Errors of other kinds have scopes: those that come here are of calls of the caller's own. */
void quire_webgpu_on_error(WGPUDevice const *device, WGPUErrorType type, WGPUStringView message,
                           void *user, void *unused) {
  (void)device;
  (void)unused;
  quire_webgpu_news *news = user;
  int whole = QUIRE_WEBGPU_WHOLE;
  if (type == WGPUErrorType_Internal &&
      atomic_compare_exchange_strong(&news->broken, &whole, QUIRE_WEBGPU_BREAKING)) {
    quire_webgpu_copy_text(news->broken_message, sizeof news->broken_message, message);
    atomic_store(&news->broken, QUIRE_WEBGPU_BROKEN);
  }
}

/* ---- answers ---- */

quire_webgpu_answer *quire_webgpu_answer_create(const quire_webgpu_procs *procs,
                                                quire_webgpu_news *news) {
  quire_webgpu_answer *answer = quire_alloc_array(&quire_default_allocator, 1, sizeof *answer);
  if (answer != NULL) {
    atomic_init(&answer->state, GIVEN);
    answer->release_adapter = procs->AdapterRelease;
    answer->release_device = procs->DeviceRelease;
    answer->news = news;
    if (news != NULL) {
      quire_webgpu_news_hold(news);
    }
  }
  return answer;
}

void quire_webgpu_answer_destroy(quire_webgpu_answer *answer) {
  if (answer != NULL) {
    quire_webgpu_news_drop(answer->news);
    quire_dealloc(&quire_default_allocator, answer, sizeof *answer, QUIRE_ALLOC_ALIGNMENT);
  }
}

void quire_webgpu_answer_ask(quire_webgpu_answer *answer) {
  answer->status = 0;
  answer->type = WGPUErrorType_NoError;
  answer->adapter = NULL;
  answer->device = NULL;
  answer->message[0] = '\0';
  atomic_store(&answer->state, WAITING);
}

bool quire_webgpu_answer_is_there(const quire_webgpu_answer *answer) {
  return atomic_load(&answer->state) == GIVEN;
}

bool quire_webgpu_answer_abandon(quire_webgpu_answer *answer) {
  int expected = WAITING;
  return atomic_compare_exchange_strong(&answer->state, &expected, ABANDONED);
}

/* The last thing that a callback does. */
static void give(quire_webgpu_answer *answer, int status, WGPUStringView message) {
  answer->status = status;
  quire_webgpu_copy_text(answer->message, sizeof answer->message, message);
  if (atomic_exchange(&answer->state, GIVEN) == ABANDONED) {
    if (answer->adapter != NULL) {
      answer->release_adapter(answer->adapter);
    }
    if (answer->device != NULL) {
      answer->release_device(answer->device);
    }
    quire_webgpu_answer_destroy(answer);
  }
}

void quire_webgpu_on_scope(WGPUPopErrorScopeStatus status, WGPUErrorType type,
                           WGPUStringView message, void *user, void *unused) {
  (void)unused;
  quire_webgpu_answer *answer = user;
  if (answer != NULL) {
    answer->type = type;
    give(answer, (int)status, message);
  }
}

void quire_webgpu_on_work(WGPUQueueWorkDoneStatus status, WGPUStringView message, void *user,
                          void *unused) {
  (void)unused;
  give(user, (int)status, message);
}

void quire_webgpu_on_map(WGPUMapAsyncStatus status, WGPUStringView message, void *user,
                         void *unused) {
  (void)unused;
  give(user, (int)status, message);
}

void quire_webgpu_on_adapter(WGPURequestAdapterStatus status, WGPUAdapter adapter,
                             WGPUStringView message, void *user, void *unused) {
  (void)unused;
  quire_webgpu_answer *answer = user;
  answer->adapter = status == WGPURequestAdapterStatus_Success ? adapter : NULL;
  give(answer, (int)status, message);
}

void quire_webgpu_on_device(WGPURequestDeviceStatus status, WGPUDevice device,
                            WGPUStringView message, void *user, void *unused) {
  (void)unused;
  quire_webgpu_answer *answer = user;
  answer->device = status == WGPURequestDeviceStatus_Success ? device : NULL;
  give(answer, (int)status, message);
}

/* ---- waiting ---- */

/* The longer it takes, the longer the rest: a wait of a second must not burn a processor. Returns
   nanoseconds. */
static long rest(unsigned rounds) {
  enum { FREE_ROUNDS = 64, SHORT_ROUNDS = 1000, MEDIUM_ROUNDS = 20000 };
  if (rounds < FREE_ROUNDS) {
    return 0;
  }
  const long longer = rounds < MEDIUM_ROUNDS ? 500000 : 5000000;
  const struct timespec pause = {0, rounds < SHORT_ROUNDS ? 20000 : longer};
  (void)nanosleep(&pause, NULL);
  return pause.tv_nsec;
}

bool quire_webgpu_answer_wait(const quire_webgpu_answer *answer, const quire_webgpu_procs *procs,
                              WGPUInstance instance, WGPUDevice device, const atomic_bool *lost) {
  /* A kernel may take long, and a driver ends one that takes too long; ten minutes of rest are
     longer than any of them waits. */
  enum { POLLS = 4096 };
  const double patience = 600e9;
  const bool native = quire_webgpu_is_native(procs);
  double rested = 0;
  for (unsigned rounds = 0; !quire_webgpu_answer_is_there(answer); rounds++) {
    if (native && device != NULL) {
      /* Returns when the queue is empty: then every callback that is due has come. */
      (void)procs->DevicePoll(device, 1, NULL);
    } else {
      procs->InstanceProcessEvents(instance);
    }
    if (quire_webgpu_answer_is_there(answer)) {
      break;
    }
    const bool is_due = native || (lost != NULL && atomic_load(lost));
    if ((is_due && rounds >= POLLS) || rested > patience) {
      return false;
    }
    rested += (double)rest(rounds);
  }
  return true;
}
