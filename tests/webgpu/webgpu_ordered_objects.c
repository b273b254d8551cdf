#include "webgpu_ordered_objects.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LATE_ROUNDS = 300, SPENT = 0x5A };

static struct {
  ordered_function *function;
  long live;
  size_t submits;
  ordered_event *events, **last;
} library;

/* ---- control ---- */

void ordered_start(ordered_function *function) {
  library.function = function;
}

size_t ordered_live(void) {
  return (size_t)library.live;
}

size_t ordered_submits(void) {
  return library.submits;
}

void ordered_count_submit(void) {
  library.submits++;
}

void ordered_count(long by) {
  library.live += by;
}

const char *ordered_way_name(unsigned way) {
  static const char *const names[ORDERED_WAYS] = {"nothing", "validation", "memory", "internal",
                                                  "refused", "late",       "never",  "released",
                                                  "lost",    "silent"};
  for (unsigned i = 0; i < ORDERED_WAYS; i++) {
    if (way == 1u << i) {
      return names[i];
    }
  }
  return "well";
}

_Noreturn void ordered_stop(const char *what) {
  (void)fprintf(stderr, "the WebGPU library ends the process: %s\n", what);
  abort();
}

WGPUStringView ordered_text(const char *text) {
  return (WGPUStringView){text, strlen(text)};
}

/* ---- objects ---- */

ordered_object *ordered_check(const void *handle, ordered_kind kind) {
  ordered_object *object = (ordered_object *)(uintptr_t)handle;
  if (object == NULL) {
    ordered_stop("a handle is NULL");
  }
  if (object->kind != kind) {
    ordered_stop("a handle is of another kind, or was released");
  }
  return object;
}

void *ordered_make(ordered_kind kind, size_t size, WGPUDevice device) {
  ordered_object *object = calloc(1, size);
  if (object == NULL) {
    ordered_stop("no memory");
  }
  object->kind = kind;
  object->references = 1;
  object->device = device;
  if (device != NULL) {
    device->object.references++;
  }
  library.live++;
  return object;
}

void ordered_hold(ordered_object *by, const void *handle) {
  ordered_object *object = (ordered_object *)(uintptr_t)handle;
  if (by->held_count == sizeof by->held / sizeof *by->held) {
    ordered_stop("too many objects in one");
  }
  object->references++;
  by->held[by->held_count++] = object;
}

void ordered_add_reference(void *handle, ordered_kind kind) {
  ordered_check(handle, kind)->references++;
}

static void release_object(ordered_object *object);

void ordered_free_commands(ordered_command *first) {
  while (first != NULL) {
    ordered_command *next = first->next;
    for (size_t i = 0; i < 3; i++) {
      if (first->held[i] != NULL) {
        release_object(first->held[i]);
      }
    }
    free(first);
    first = next;
  }
}

/* The last reference of the program's: objects that hold the device do not keep it from going. */
static void end_device(WGPUDevice device) {
  ordered_cancel_events(device, NULL);
  if (!device->is_lost && ORDERED_IS_NATIVE == 0 && device->lost.callback != NULL) {
    device->lost.callback((WGPUDevice const *)&device, WGPUDeviceLostReason_Destroyed,
                          ordered_text("released"), device->lost.userdata1, device->lost.userdata2);
  }
  if (device->scope_count != 0) {
    ordered_stop("error scopes are open at the end");
  }
}

static void free_object(ordered_object *object) {
  WGPUDevice device = object->device;
  if (object->kind == ORDERED_DEVICE) {
    end_device((WGPUDevice)(void *)object);
  } else if (object->kind == ORDERED_INSTANCE) {
    ordered_cancel_events(NULL, NULL);
  } else if (object->kind == ORDERED_BUFFER) {
    ordered_cancel_events(device, (WGPUBuffer)(void *)object);
  } else if (object->kind == ORDERED_COMMANDS) {
    ordered_free_commands(((WGPUCommandBuffer)(void *)object)->first);
  } else if (object->kind == ORDERED_ENCODER) {
    ordered_free_commands(((WGPUCommandEncoder)(void *)object)->first);
  }
  for (size_t i = 0; i < object->held_count; i++) {
    release_object(object->held[i]);
  }
  free(object->memory);
  memset(object, SPENT, sizeof *object);
  free(object);
  library.live--;
  if (device != NULL) {
    release_object(&device->object);
  }
}

static void release_object(ordered_object *object) {
  if (--object->references == 0) {
    free_object(object);
  }
}

void ordered_release(void *handle, ordered_kind kind) {
  release_object(ordered_check(handle, kind));
}

/* ---- errors ---- */

static void lose(WGPUDevice device, bool is_silent) {
  if (device->is_lost) {
    return;
  }
  device->is_lost = true;
  device->is_silent = is_silent;
  if (device->lost.callback != NULL) {
    device->lost.callback((WGPUDevice const *)&device, WGPUDeviceLostReason_Unknown,
                          ordered_text("as ordered"), device->lost.userdata1,
                          device->lost.userdata2);
  }
}

unsigned ordered_ask(const char *name, WGPUDevice device, unsigned ways) {
  if (device != NULL && !device->is_lost) {
    ways |= ORDERED_LOST | ORDERED_SILENT;
  }
  const unsigned way = library.function == NULL ? 0 : library.function(name, ways);
  if (device != NULL && (way & (ORDERED_LOST | ORDERED_SILENT)) != 0) {
    lose(device, way == ORDERED_SILENT);
  }
  return way;
}

static bool catches(WGPUErrorFilter filter, WGPUErrorType type) {
  return (filter == WGPUErrorFilter_Validation && type == WGPUErrorType_Validation) ||
         (filter == WGPUErrorFilter_OutOfMemory && type == WGPUErrorType_OutOfMemory) ||
         (filter == WGPUErrorFilter_Internal && type == WGPUErrorType_Internal);
}

void ordered_raise(WGPUDevice device, unsigned way) {
  WGPUErrorType type = WGPUErrorType_Validation;
  if (way == ORDERED_MEMORY) {
    type = WGPUErrorType_OutOfMemory;
  } else if (way == ORDERED_INTERNAL) {
    type = WGPUErrorType_Internal;
  }
  if (device->is_lost) {
    return; /* nothing is an error any more */
  }
  for (size_t i = device->scope_count; i > 0; i--) {
    ordered_scope *scope = &device->scopes[i - 1];
    if (catches(scope->filter, type)) {
      scope->type = scope->type == WGPUErrorType_NoError ? type : scope->type;
      return;
    }
  }
  if (device->uncaptured.callback == NULL) {
    ordered_stop("an error that nobody catches");
  }
  device->uncaptured.callback((WGPUDevice const *)&device, type, ordered_text("as ordered"),
                              device->uncaptured.userdata1, device->uncaptured.userdata2);
}

void *ordered_make_of(const char *name, WGPUDevice device, ordered_kind kind, size_t size) {
  (void)ordered_check(device, ORDERED_DEVICE);
  enum { MADE = ORDERED_NULL | ORDERED_VALIDATION | ORDERED_MEMORY };
  /* What is compiled can fail inside. */
  const bool is_compiled = kind == ORDERED_MODULE || kind == ORDERED_PIPELINE;
  const unsigned ways = MADE | (is_compiled ? ORDERED_INTERNAL : 0);
  const unsigned way = ordered_ask(name, device, ways);
  if (way == ORDERED_NULL) {
    return NULL;
  }
  ordered_object *made = ordered_make(kind, size, device);
  if ((way & ways) != 0) {
    made->is_invalid = true;
    ordered_raise(device, way);
  }
  return made;
}

/* ---- callbacks that wait ---- */

static void call_device(const ordered_event *event, bool is_good) {
  WGPUDevice made = NULL;
  if (is_good && event->way != ORDERED_NULL) {
    made = ordered_make(ORDERED_DEVICE, sizeof *made, NULL);
    made->lost = event->descriptor.deviceLostCallbackInfo;
    made->uncaptured = event->descriptor.uncapturedErrorCallbackInfo;
  } else if (ORDERED_IS_NATIVE == 0) {
    const WGPUDeviceLostCallbackInfo *lost = &event->descriptor.deviceLostCallbackInfo;
    lost->callback((WGPUDevice const *)&made, WGPUDeviceLostReason_FailedCreation,
                   ordered_text("as ordered"), lost->userdata1, lost->userdata2);
  }
  event->on_device(is_good ? WGPURequestDeviceStatus_Success : WGPURequestDeviceStatus_Error, made,
                   ordered_text(is_good ? "" : "as ordered"), event->user, NULL);
}

static void call_map(const ordered_event *event, bool is_good) {
  WGPUBuffer buffer = event->buffer;
  const bool is_mapped = is_good && buffer != NULL && !buffer->object.device->is_lost;
  if (buffer != NULL) {
    buffer->is_pending = false;
    buffer->is_mapped = is_mapped;
  }
  event->on_map(is_mapped ? WGPUMapAsyncStatus_Success : WGPUMapAsyncStatus_Aborted,
                ordered_text(is_mapped ? "" : "as ordered"), event->user, NULL);
}

static void call(ordered_event *event, bool is_good) {
  if (event->on_adapter != NULL) {
    WGPUAdapter made = is_good && event->way != ORDERED_NULL
                           ? ordered_make(ORDERED_ADAPTER, sizeof *made, NULL)
                           : NULL;
    event->on_adapter(is_good ? WGPURequestAdapterStatus_Success : WGPURequestAdapterStatus_Error,
                      made, ordered_text(is_good ? "" : "as ordered"), event->user, NULL);
  } else if (event->on_device != NULL) {
    call_device(event, is_good);
  } else if (event->on_scope != NULL) {
    event->on_scope(
        is_good ? WGPUPopErrorScopeStatus_Success : WGPUPopErrorScopeStatus_Error,
        is_good ? event->type : WGPUErrorType_NoError,
        ordered_text(is_good && event->type == WGPUErrorType_NoError ? "" : "as ordered"),
        event->user, NULL);
  } else if (event->on_map != NULL) {
    call_map(event, is_good);
  } else {
    event->on_work(is_good ? WGPUQueueWorkDoneStatus_Success : WGPUQueueWorkDoneStatus_Error,
                   ordered_text(is_good ? "" : "as ordered"), event->user, NULL);
  }
  free(event);
  library.live--;
}

void ordered_add_event(const ordered_event *event, bool now) {
  ordered_event *made = malloc(sizeof *made);
  if (made == NULL) {
    ordered_stop("no memory");
  }
  *made = *event;
  made->next = NULL;
  library.live++;
  const unsigned waits = ORDERED_LATE | ORDERED_NEVER | ORDERED_RELEASED;
  const bool is_silent = made->device != NULL && made->device->is_silent;
  if (now && (made->way & waits) == 0 && !is_silent) {
    call(made, made->way != ORDERED_REFUSED);
    return;
  }
  if (made->way == ORDERED_LATE) {
    made->rounds = LATE_ROUNDS;
  }
  if (library.events == NULL) {
    library.last = &library.events;
  }
  *library.last = made;
  library.last = &made->next;
}

static bool is_due(const ordered_event *event) {
  return event->rounds == 0 && (event->way & (ORDERED_NEVER | ORDERED_RELEASED)) == 0 &&
         (event->device == NULL || !event->device->is_silent);
}

static ordered_event *take(ordered_event **place) {
  ordered_event *event = *place;
  *place = event->next;
  if (library.last == &event->next) {
    library.last = place;
  }
  return event;
}

void ordered_run_events(void) {
  for (ordered_event **place = &library.events; *place != NULL;) {
    if (is_due(*place)) {
      ordered_event *event = take(place);
      call(event, event->way != ORDERED_REFUSED);
      place = &library.events; /* a callback may have changed the list */
    } else {
      (*place)->rounds -= (*place)->rounds > 0;
      place = &(*place)->next;
    }
  }
}

void ordered_cancel_events(WGPUDevice device, WGPUBuffer buffer) {
  for (ordered_event **place = &library.events; *place != NULL;) {
    ordered_event *event = *place;
    const bool is_meant = buffer != NULL ? event->buffer == buffer : event->device == device;
    if (is_meant && event->way != ORDERED_NEVER && (device == NULL || !device->is_silent)) {
      call(take(place), false);
      place = &library.events;
    } else {
      if (is_meant) { /* its owner goes; the callback comes by ordered_flush() */
        event->device = NULL;
        event->buffer = NULL;
        event->way = ORDERED_NEVER;
      }
      place = &event->next;
    }
  }
}

void ordered_flush(void) {
  while (library.events != NULL) {
    ordered_event *event = take(&library.events);
    call(event, event->way == ORDERED_NEVER);
  }
}
